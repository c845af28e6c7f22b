// Editing the order on the timeline: an action is dragged along its lane, or moved by keys. Python judges and answers.

import { set } from "../common/dom.js";
import { actionBar, actionOf, movable, placeAt, placeBeside, placeWords } from "./reorder.js";

const TITLE = "Drag an action to another place in its lane (O); Alt with an arrow key moves the one with the focus";
const HINT = "Drag an action along its lane; Alt+← and Alt+→ move the one with the focus";
const LEAST_PX = 4;

export class Editor {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    this.on = false;
    /** What is carried: its bar, where it was grabbed, and where it would go. */
    this.carried = null;
    this.show();
  }

  get bars() {
    return this.view.plans?.[0]?.bars;
  }

  /** Why the order of the plan shown cannot be edited, or null. */
  get refused() {
    return this.view.plans?.[0]?.view.fixed ?? null;
  }

  toggle() {
    if (this.view.ofRun) return undefined;
    if (this.refused && !this.on) return this.view.say(this.refused);
    this.on = !this.on;
    this.cancel();
    this.show();
    return this.view.say(this.on ? HINT : "The order is not being edited");
  }

  show() {
    const { editButton, head } = this.view;
    if (this.refused) this.on = false;
    set(editButton, { "aria-pressed": String(this.on), title: this.refused ?? TITLE });
    editButton.disabled = Boolean(this.refused);
    editButton.hidden = this.view.ofRun;
    set(head.querySelector(".sx-sub"), { text: this.on ? HINT : "" });
  }

  canMove(found) {
    return Boolean(this.on && found?.plan === 0 && movable(this.bars, found.i));
  }

  /** Take up the action under the pointer; whether there is one. */
  pick(event) {
    const found = this.on ? this.view.under(event) : null;
    if (!this.canMove(found)) return false;
    const i = actionBar(this.bars, found.i);
    const { t } = this.view.timeAt(event);
    const length = this.bars.end(i) - this.bars.start(i);
    const grab = length > 0 ? Math.min(1, Math.max(0, (t - this.bars.start(i)) / length)) : 0.5;
    this.carried = { i, grab, t, x: event.clientX, moved: false, place: null };
    return true;
  }

  drag(event) {
    const { carried, view, bars } = this;
    if (!carried.moved && Math.abs(event.clientX - carried.x) < LEAST_PX) return;
    carried.moved = true;
    carried.t = view.timeAt(event).t;
    carried.place = placeAt(bars, carried.i, carried.t);
    view.canvas.style.cursor = "grabbing";
    view.tip.show(carried.place ? placeWords(bars, carried.i, carried.place) : "its own place", event);
    view.paint();
  }

  /** Let go; whether something was carried. A press without a drag follows the microbatch, as always. */
  release(event) {
    const { carried, view } = this;
    if (!carried) return false;
    this.cancel();
    if (!carried.moved) {
      view.focus = { plan: 0, i: carried.i };
      const microbatch = this.bars.microbatch(carried.i);
      view.follow(microbatch < 0 || microbatch === view.microbatch ? null : microbatch);
    } else if (carried.place) this.send(carried.i, carried.place);
    view.hover(event);
    return true;
  }

  /** Carry no longer; whether something was. */
  cancel() {
    if (!this.carried) return false;
    this.carried = null;
    this.view.canvas.style.cursor = "";
    this.view.tip.hide();
    this.view.paint();
    return true;
  }

  /** Alt with an arrow moves the action with the focus by one place; whether this was such a key. */
  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey) return false;
    event.preventDefault();
    const { focus } = this.view;
    if (this.refused) this.view.say(this.refused);
    else if (!focus || focus.plan !== 0 || !movable(this.bars, focus.i)) this.view.say("Choose an action of the plan first, with the arrow keys");
    else {
      const i = actionBar(this.bars, focus.i);
      const place = placeBeside(this.bars, i, by);
      if (!place) this.view.say("It is at the end of its lane");
      else this.send(i, place);
    }
    return true;
  }

  send(i, place) {
    const { bars, view } = this;
    view.focus = { plan: 0, i };
    view.say(placeWords(bars, i, place));
    view.sync.send("reorder", { moved: actionOf(bars, i), beside: actionOf(bars, place.beside), before: place.before });
  }
}
