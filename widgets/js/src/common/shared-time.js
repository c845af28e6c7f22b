// The time that the views of one workbench share: the stretch that is seen, and the cursor. No DOM but one property of the
// document, since every widget is a module of its own.

import { Window } from "./window.js";

const KEPT = Symbol.for("sx-shared-time");

/**
 * One for all views of a workbench. Whatever changes, every view is told what (`window` or `cursor`) and by whom, and
 * draws it in its own next frame.
 */
export class SharedTime {
  constructor() {
    this.window = new Window(1, () => this.tell("window"));
    /** Where the cursor is: `{t, plan, lane}`, `lane` the id of a lane or null, `row` its number on the timeline or null. @type {any} */
    this.cursor = null;
    /** The stretch that is marked: `{from_s, to_s}` or null. @type {any} */
    this.area = null;
    /** Does the cursor stay where it was when the pointer leaves, since a view tells what is there? */
    this.kept = false;
    this.views = new Map();
  }

  /** @param {object} view @param {(what: string) => void} told */
  join(view, told) {
    this.views.set(view, { told, end: 0, leads: false });
  }

  leave(view) {
    this.views.delete(view);
  }

  /**
   * Say when what a view shows ends. The views that lead decide together how long the whole is; without any, all do.
   * @param {object} view @param {number} end @param {boolean} [leads]
   */
  reach(view, end, leads = false) {
    Object.assign(this.views.get(view) ?? {}, { end, leads });
    const all = [...this.views.values()].filter((item) => item.end > 0);
    const leading = all.filter((item) => item.leads);
    const whole = Math.max(0, ...(leading.length ? leading : all).map((item) => item.end));
    if (whole > 0) this.window.reach(whole);
  }

  /** Move the cursor, or take it away. @param {any} cursor */
  point(cursor) {
    const [a, b] = [this.cursor, cursor];
    if (a === b || (a && b && a.t === b.t && a.lane === b.lane && a.row === b.row && a.plan === b.plan)) return;
    this.cursor = cursor;
    this.tell("cursor");
  }

  /** The pointer has left: there is no cursor, unless it is kept. */
  letGo() {
    if (!this.kept) this.point(null);
  }

  /** Mark a stretch, or none. @param {any} area */
  mark(area) {
    if (this.area?.from_s === area?.from_s && this.area?.to_s === area?.to_s) return;
    this.area = area;
    this.tell("cursor");
  }

  tell(what) {
    for (const { told } of this.views.values()) told(what);
  }
}

/**
 * The time of a workbench, joined; what is of none, or of another time (a run), has one of its own.
 * @param {string|null} bench @param {object} view @param {(what: string) => void} told @returns {SharedTime}
 */
export function joinTime(bench, view, told) {
  const all = globalThis.document && bench ? (document[KEPT] ??= new Map()) : null;
  const found = all?.get(bench) ?? new SharedTime();
  all?.set(bench, found);
  found.join(view, told);
  return found;
}

/** @param {string|null} bench @param {SharedTime} time @param {object} view */
export function leaveTime(bench, time, view) {
  time.leave(view);
  if (!time.views.size && bench) globalThis.document?.[KEPT]?.delete(bench);
}
