// The way of a microbatch from lane to lane: what it leaves, what carries it, what it reaches. No DOM.

import { FIRST_WIRE } from "./bars.js";

const TRANSFER = FIRST_WIRE;

/**
 * The arrows of one microbatch: each from the bar that it leaves to the bar that it reaches on another lane.
 * @param {any} bars a `Bars` of bars.js @param {number} microbatch
 * @returns {{from: number, to: number}[]} bars
 */
export function flowsOf(bars, microbatch) {
  const all = bars.journey(microbatch);
  const through = all.filter((i) => bars.kind(i) <= 2);
  const sent = all.filter((i) => bars.kind(i) === TRANSFER);
  return sent.length ? carried(bars, all, sent) : adjoining(bars, through);
}

/** One arrow a transfer: the bar of its sender that ended before, and the bar of its receiver that starts after. */
function carried(bars, all, sent) {
  const slack = 1e-6 * bars.end_s; // bars are float32
  const byLane = new Map();
  for (const i of all) if (!bars.isWire(i)) byLane.set(bars.lane(i), [...(byLane.get(bars.lane(i)) ?? []), i]);
  return sent.flatMap((i) => {
    const here = byLane.get(bars.lane(i)) ?? [];
    const there = byLane.get(bars.row(i).peer) ?? [];
    const from = here.findLast((k) => bars.end(k) <= bars.start(i) + slack);
    const to = there.find((k) => bars.start(k) >= bars.end(i) - slack);
    return from == null || to == null ? [] : [{ from, to }];
  });
}

/** Without transfers: from each bar to the next one on another lane. */
function adjoining(bars, through) {
  return through.slice(1).flatMap((to, k) => {
    const from = through[k];
    return bars.lane(from) === bars.lane(to) ? [] : [{ from, to }];
  });
}
