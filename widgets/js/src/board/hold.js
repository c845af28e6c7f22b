// After a drop: its preview shows already where it goes, so it stands a moment for the answer. What Python says by then
// is the only thing drawn; to draw the page's own estimate in between would keep the answer waiting, and so would a
// frame in which nothing but the hand's own card is gone.

import { tellPreview } from "./preview.js";

/** @typedef {import("./index.js").BoardContext} BoardContext */

/** So long an answer is waited for before the estimate is drawn. */
const HOLD_MS = 60;

export class Hold {
  /** @param {BoardContext} ctx */
  constructor(ctx) {
    this.ctx = ctx;
    this.timer = 0;
    /** @type {(() => void)[]} what goes with the preview */
    this.leaving = [];
  }

  get on() {
    return this.timer !== 0;
  }

  begin() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.end(), HOLD_MS);
  }

  /** Take something off the page: at once, or with the preview that stands. @param {() => void} remove */
  take(remove) {
    if (this.on) this.leaving.push(remove);
    else remove();
  }

  /** The answer is there, or takes too long: draw what is known. */
  end() {
    this.drop(() => this.ctx.show(), true);
  }

  /** The preview is over, for the tiles as well. @param {() => void} [draw] @param {boolean} [answered] their own answer follows */
  drop(draw = () => {}, answered = false) {
    const { preview } = this.ctx;
    clearTimeout(this.timer);
    this.timer = 0;
    this.ctx.preview = null;
    for (const remove of this.leaving.splice(0)) remove();
    draw();
    if (preview) tellPreview(this.ctx, null, answered);
  }
}
