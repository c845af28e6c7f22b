// A stretch of time that is seen, which can be zoomed and panned. No DOM.

/** A stretch of time that can be zoomed and panned within [0, end]. */
export class Window {
  /** @param {number} end @param {() => void} [changed] called when another stretch is seen */
  constructor(end, changed = () => {}) {
    this.end = end;
    this.t0 = 0;
    this.t1 = end;
    this.changed = changed;
  }

  get span() {
    return this.t1 - this.t0;
  }

  get whole() {
    return this.span > this.end * 0.999;
  }

  /** Zoom by a factor, the time at `share` of the width staying where it is. */
  zoom(factor, share = 0.5) {
    const at = this.t0 + share * this.span;
    const span = Math.min(this.end, Math.max(this.end * 1e-5, this.span * factor));
    this.place(at - share * span, span);
  }

  pan(share) {
    this.place(this.t0 + share * this.span, this.span);
  }

  place(t0, span) {
    const before = [this.t0, this.t1];
    this.t0 = Math.min(Math.max(0, t0), this.end - span);
    this.t1 = this.t0 + span;
    if (this.t0 !== before[0] || this.t1 !== before[1]) this.changed();
  }

  /** Move, without zooming, until [start, end] is inside; what is longer than the window starts at its left. */
  show(start, end) {
    if (start >= this.t0 && end <= this.t1) return;
    const room = Math.max(0, this.span - (end - start));
    this.place(start - Math.min(room / 2, this.span * 0.25), this.span);
  }

  all() {
    this.place(0, this.end);
  }

  /** See all of another whole; of the same one, stay. @param {number} end */
  reach(end) {
    if (Math.abs(this.end - end) <= end * 1e-9) return;
    this.end = end;
    this.all();
  }
}
