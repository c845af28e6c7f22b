// Places of the timeline: lanes by plan, and the visible stretch of time. No DOM.

export const LABEL_PX = 108;
export const AXIS_PX = 20;

/** Height of one lane's bars, of its wire strip, and the gap below, by how many lanes there are. */
export function laneSizes(lanes) {
  if (lanes <= 12) return { bar: 24, wire: 4, gap: 3 };
  if (lanes <= 32) return { bar: 14, wire: 3, gap: 2 };
  return { bar: 8, wire: 2, gap: 1 };
}

/**
 * Rows of one or two plans, one below the other, on one axis.
 * @param {number[]} lanes how many in each plan
 * @returns {{plans: {title: number, rows: {y: number, bar: number, wire: number}[]}[], height: number}}
 */
export function layout(lanes) {
  const sizes = laneSizes(Math.max(...lanes, 0));
  let y = AXIS_PX;
  const plans = lanes.map((count) => {
    const title = y + 14;
    y += 22;
    const rows = Array.from({ length: count }, (_, i) => ({
      y: y + i * (sizes.bar + sizes.wire + sizes.gap),
      bar: sizes.bar,
      wire: sizes.wire,
    }));
    y += count * (sizes.bar + sizes.wire + sizes.gap) + 6;
    return { title, rows };
  });
  return { plans, height: y };
}

/** Which plan, lane and track lies under a height. */
export function hit(plans, y) {
  for (const [plan, { rows }] of plans.entries()) {
    for (const [lane, row] of rows.entries()) {
      if (y >= row.y && y < row.y + row.bar) return { plan, lane, wire: false };
      if (y >= row.y + row.bar && y < row.y + row.bar + row.wire + 2) return { plan, lane, wire: true };
    }
  }
  return null;
}

/** A stretch of time that can be zoomed and panned within [0, end]. */
export class Window {
  constructor(end) {
    this.end = end;
    this.t0 = 0;
    this.t1 = end;
  }

  get span() {
    return this.t1 - this.t0;
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
    this.t0 = Math.min(Math.max(0, t0), this.end - span);
    this.t1 = this.t0 + span;
  }

  all() {
    this.place(0, this.end);
  }
}
