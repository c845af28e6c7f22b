// How the time of every pixel is used, where bars are too thin to be drawn. No DOM.
// Sums over fine slices are kept for each lane, so that a strip costs its pixels, not its bars.

import { FIRST_WIRE } from "./bars.js";

/** Slices of the whole time for which sums are kept. */
export const SLICES = 4096;

/** Kinds of bars that a strip tells apart, from its foot upward; wires go to a strip of their own. */
export const GROUPS = [[0], [5], [1, 2], [3], [4]];
const GROUP_OF = new Int8Array(FIRST_WIRE);
GROUPS.forEach((kinds, group) => kinds.forEach((kind) => (GROUP_OF[kind] = group)));

export class Strips {
  /** @param {any} bars a `Bars` of bars.js */
  constructor(bars) {
    this.bars = bars;
    this.kept = new Map();
  }

  /**
   * Share of every pixel taken by each group of kinds (`wire`: by each kind of wire) between t0 and t1, the mean over
   * `reach` pixels to either side: where a bar is about a pixel wide, single pixels would only flicker.
   * @returns {Map<number, Float32Array>}
   */
  shares(lane, t0, t1, pixels, wire = false, reach = 0) {
    const pixel = (t1 - t0) / pixels;
    if (!(pixel > 0)) return new Map();
    const sums = pixel * SLICES >= this.bars.end_s;
    const result = sums ? this.fromSums(lane, t0, pixel, pixels, wire) : this.exact(lane, t0, pixel, pixels, wire);
    if (reach > 0) for (const [group, row] of result) result.set(group, smoothed(row, reach));
    return result;
  }

  group(i, wire) {
    const kind = this.bars.kind(i);
    return wire ? kind : GROUP_OF[kind];
  }

  /** Added up from the bars themselves. */
  exact(lane, t0, pixel, pixels, wire) {
    const result = new Map();
    const track = this.bars.track(lane, wire);
    const [from, to] = this.bars.visible(lane, wire, t0, t0 + pixel * pixels);
    for (let k = from; k < to; k += 1) {
      const i = track[k];
      const a = Math.max(0, (this.bars.start(i) - t0) / pixel);
      const b = Math.min(pixels, (this.bars.end(i) - t0) / pixel);
      if (b <= a) continue;
      const group = this.group(i, wire);
      let row = result.get(group);
      if (!row) result.set(group, (row = new Float32Array(pixels)));
      for (let p = Math.floor(a); p < b; p += 1) row[p] += Math.min(p + 1, b) - Math.max(p, a);
    }
    return result;
  }

  /** Differences of the kept sums. */
  fromSums(lane, t0, pixel, pixels, wire) {
    const slice = this.bars.end_s / SLICES;
    const result = new Map();
    for (const [group, sums] of this.sums(lane, wire)) {
      const row = new Float32Array(pixels);
      let before = valueAt(sums, t0 / slice);
      for (let p = 0; p < pixels; p += 1) {
        const after = valueAt(sums, (t0 + (p + 1) * pixel) / slice);
        row[p] = Math.min(1, ((after - before) * slice) / pixel);
        before = after;
      }
      result.set(group, row);
    }
    return result;
  }

  /** Group -> slices of time taken before each slice. @returns {Map<number, Float32Array>} */
  sums(lane, wire) {
    const key = 2 * lane + (wire ? 1 : 0);
    let found = this.kept.get(key);
    if (found) return found;
    found = this.exact(lane, 0, this.bars.end_s / SLICES, SLICES, wire);
    for (const [group, row] of found) {
      const sums = new Float32Array(SLICES + 1);
      let total = 0; // a double: float32 would lose the small ones
      for (let s = 0; s < SLICES; s += 1) {
        total += row[s];
        sums[s + 1] = total;
      }
      found.set(group, sums);
    }
    this.kept.set(key, found);
    return found;
  }
}

/** Mean over so many neighbours to either side, fewer at the ends. @param {Float32Array} row @param {number} reach */
function smoothed(row, reach) {
  const sums = new Float64Array(row.length + 1);
  for (let p = 0; p < row.length; p += 1) sums[p + 1] = sums[p] + row[p];
  return row.map((_, p) => {
    const [from, to] = [Math.max(0, p - reach), Math.min(row.length, p + reach + 1)];
    return (sums[to] - sums[from]) / (to - from);
  });
}

/** How far to smooth, so that about eight bars are told together. */
export const reachFor = (bars, pixels) => Math.min(12, Math.max(1, Math.round((4 * pixels) / bars)));

/** A kept sum between two slices. */
function valueAt(sums, x) {
  if (x <= 0) return 0;
  if (x >= SLICES) return sums[SLICES];
  const at = Math.floor(x);
  return sums[at] + (sums[at + 1] - sums[at]) * (x - at);
}
