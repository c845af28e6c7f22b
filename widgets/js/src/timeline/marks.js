// What is marked on the timeline without changing anything: the cursor, the microbatch that is pointed at, an area.

import { seconds } from "../common/format.js";

/** Share of what is seen by which a key moves the cursor. */
const STEP = 0.01;

export class Marks {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    /** The microbatch pointed at: `{plan, microbatch}` or null. @type {any} */
    this.flow = null;
    /** A border of the area, while the other one is still to be marked. @type {number|null} */
    this.begun = null;
    this.drawn = false; // is the area being drawn by the mouse?
  }

  /** The area that is marked, or null. @returns {{from_s: number, to_s: number}|null} */
  get done() {
    return this.drawn ? null : this.area;
  }

  get area() {
    return this.view.time.area;
  }

  mark(area) {
    this.view.time.mark(area);
  }

  /** The pointer is somewhere: the cursor goes with it. @param {{share: number, t: number}} at @param {any} place of `hit` @param {any} found the bar under it */
  point({ share, t }, place, found) {
    if (share < 0 || share > 1) return this.leave();
    const { view } = this;
    const lane = place ? place.lane : null;
    const plan = place?.plan ?? 0;
    this.flowOf(found);
    view.time.point({ t: this.within(t), plan, row: lane, lane: lane == null ? null : (view.plans[plan].view.lanes[lane]?.id ?? null) });
  }

  within(t) {
    return Math.min(this.view.window.end, Math.max(0, t));
  }

  /** A time of the step: what lies behind its end is no part of an area. */
  inside(t) {
    return Math.min(Math.max(...this.view.plans.map((plan) => plan.view.end_s)), Math.max(0, t));
  }

  /** The pointer is elsewhere: the cursor goes back to the keyboard's bar, or stays where its memory is told. */
  leave() {
    const { view } = this;
    this.flowOf(view.focus);
    if (view.focus) this.toFocus();
    else view.time.letGo();
  }

  flowOf(found) {
    const microbatch = found ? this.view.plans[found.plan].bars.microbatch(found.i) : -1;
    const flow = microbatch < 0 || microbatch === this.view.microbatch ? null : { plan: found.plan, microbatch };
    if (flow?.microbatch === this.flow?.microbatch && flow?.plan === this.flow?.plan) return;
    this.flow = flow;
    this.view.overlay.paint();
  }

  /** Put the cursor into the middle of the bar with the focus. */
  toFocus() {
    const { focus, plans } = this.view;
    const { bars, view } = plans[focus.plan];
    const lane = bars.lane(focus.i);
    this.flowOf(focus);
    this.view.time.point({ t: (bars.start(focus.i) + bars.end(focus.i)) / 2, plan: focus.plan, row: lane, lane: view.lanes[lane]?.id ?? null });
  }

  /** Move the cursor a little, by keyboard; begin in the middle of what is seen. @param {number} by steps */
  nudge(by) {
    const { view } = this;
    const { window: win, time } = view;
    const from = time.cursor ?? { t: win.t0 + win.span / 2, plan: 0, row: 0, lane: view.plans[0]?.view.lanes[0]?.id ?? null };
    const t = this.within(from.t + by * STEP * win.span);
    win.show(t, t);
    time.point({ ...from, t });
    view.say(`Cursor at ${seconds(t)}`);
  }

  // ---- area

  begin(t) {
    this.begun = this.inside(t);
    this.drawn = true;
    this.mark(null);
  }

  extend(t) {
    this.mark(ordered(this.begun, this.inside(t)));
  }

  /** The mouse is let go: an area without length is none. */
  finish() {
    this.drawn = false;
    this.begun = null;
    this.view.areaCard.follow();
  }

  /** Mark a border where the cursor is, by keyboard. @param {boolean} end */
  border(end) {
    const { view } = this;
    if (!view.can) return;
    if (!view.time.cursor) this.nudge(0);
    const t = this.inside(view.time.cursor.t);
    const other = this.area ? (end ? this.area.from_s : this.area.to_s) : this.begun;
    const area = other == null ? null : ordered(other, t);
    if (area) {
      this.begun = null;
      this.mark(area);
      view.areaCard.follow();
    } else {
      this.begun = t;
      view.say(`The area ${end ? "ends" : "begins"} at ${seconds(t)}; mark its ${end ? "beginning with B" : "end with E"}`);
    }
  }

  /** Mark nothing; whether something was marked. */
  clear() {
    const was = this.area != null || this.begun != null;
    this.begun = null;
    this.drawn = false;
    if (!was) return false;
    this.mark(null);
    this.view.areaCard.follow();
    this.view.say("No area is marked");
    return true;
  }

  zoom() {
    const { area, view } = this;
    if (!area) return;
    const span = Math.max(area.to_s - area.from_s, view.window.end * 1e-5);
    view.window.place(area.from_s, span);
  }

  /** Another plan is shown: an area that reaches beyond its end is none. */
  again() {
    if (this.area && this.area.to_s > this.inside(Infinity)) this.clear();
    this.view.areaCard.follow();
  }
}

/** An area of two times, or null if they are the same. */
const ordered = (a, b) => (a === b ? null : { from_s: Math.min(a, b), to_s: Math.max(a, b) });
