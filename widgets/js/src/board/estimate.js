// What a move would do, added up from costs that Python sent. An estimate for the moment of the drag, never a result.

import { holdsAny, ownFactor, ownersOf, stagesOf } from "./model.js";

/** @typedef {import("./model.js").Catalog} Catalog */

/** Runs from sorted flat positions; every run keeps the stage (and copy) it is given. */
function runsFrom(positions, stage, copy) {
  const runs = [];
  for (const position of positions) {
    const last = runs[runs.length - 1];
    if (last && last.first + last.count === position) last.count += 1;
    else runs.push({ stage, copy, first: position, count: 1 });
  }
  return runs;
}

const inside = (runs, position) => runs.some((run) => run.first <= position && position < run.first + run.count);
const time = (lane) => lane.forward_s + lane.backward_s;

/** A lane's runs without some positions; shares stay only where the run's end stays. */
function without(runs, positions) {
  return runs.flatMap((run) => {
    const kept = [];
    for (let i = run.first; i < run.first + run.count; i += 1) if (!positions.has(i)) kept.push(i);
    if (kept.length === run.count) return [run];
    return runsFrom(kept, run.stage, run.copy ?? 0);
  });
}

/** A lane's runs with more positions: joined to the stage whose run they touch, else to the lane's first stage. */
function including(runs, positions) {
  if (!positions.length) return runs;
  const touching = runs.find((run) => positions.some((p) => p === run.first - 1 || p === run.first + run.count)) ?? runs[0];
  const stage = touching?.stage ?? 0;
  const copy = touching?.copy ?? 0;
  const same = runs.filter((run) => run.stage === stage && (run.copy ?? 0) === copy);
  const all = [...positions, ...same.flatMap((run) => Array.from({ length: run.count }, (_, i) => run.first + i))];
  const merged = runsFrom(
    [...new Set(all)].sort((a, b) => a - b),
    stage,
    copy,
  );
  const at = runs.findIndex((run) => same.includes(run));
  const others = runs.filter((run) => !same.includes(run));
  return at < 0 ? [...merged, ...others] : [...others.slice(0, at), ...merged, ...others.slice(at)];
}

/** Costs of some layers on a lane. @param {Catalog} catalog @param {any} lane @param {Iterable<number>} positions */
export function costOn(catalog, lane, positions) {
  const sum = { forward_s: 0, backward_s: 0, weight_bytes: 0, gradient_bytes: 0, optimizer_bytes: 0, activation_bytes: 0 };
  const factor = ownFactor(lane);
  const state = lane.state_factor ?? 1;
  const saved = (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight ?? 1);
  for (const position of positions) {
    const layer = catalog.layers[position];
    sum.forward_s += layer.forward_s * factor;
    sum.backward_s += layer.backward_s * factor;
    sum.weight_bytes += layer.weight_bytes * state;
    sum.gradient_bytes += layer.gradient_bytes * state;
    sum.optimizer_bytes += layer.optimizer_bytes * state;
    sum.activation_bytes += layer.saved_bytes * saved;
  }
  return sum;
}

function changed(lane, cost, sign, runs) {
  const memory = { ...lane.memory };
  const call_s = runs.length ? ((lane.call_s ?? 0) * (stagesOf(runs) - stagesOf(lane.runs))) / 2 : -Infinity; // of each direction
  let bytes = 0;
  for (const part of ["weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes"]) {
    memory[part] = Math.max(0, memory[part] + sign * cost[part]);
    bytes += memory[part] - lane.memory[part];
  }
  return {
    ...lane,
    memory,
    runs,
    peak_bytes: lane.peak_bytes + bytes,
    forward_s: Math.max(0, lane.forward_s + sign * cost.forward_s + call_s),
    backward_s: Math.max(0, lane.backward_s + sign * cost.backward_s + call_s),
  };
}

/**
 * The view after moving layers to a lane, costs added and taken away; which lane binds is judged by time.
 * Lanes that are not touched stay the same objects.
 * @param {Catalog} catalog @param {any} view @param {Set<number>} positions @param {string} toLane
 */
export function moved(catalog, view, positions, toLane) {
  const sorted = [...positions].sort((a, b) => a - b);
  const lanes = view.lanes.map((lane) => {
    if (lane.id === toLane) {
      const gained = sorted.filter((p) => !inside(lane.runs, p));
      return gained.length ? changed(lane, costOn(catalog, lane, gained), 1, including(lane.runs, gained)) : lane;
    }
    if (!lane.runs.some((run) => holdsAny(sorted, run.first, run.first + run.count))) return lane;
    const lost = sorted.filter((p) => inside(lane.runs, p));
    return changed(lane, costOn(catalog, lane, lost), -1, without(lane.runs, positions));
  });
  return { ...view, lanes: withBinding(lanes), boundaries: shiftBoundaries(view, lanes) };
}

function withBinding(lanes) {
  const slowest = lanes.reduce((most, lane) => Math.max(most, time(lane)), 0);
  return lanes.map((lane) => {
    const binds = lanes.length > 1 && time(lane) === slowest;
    return Boolean(lane.binds) === binds ? lane : { ...lane, binds };
  });
}

/** Boundaries stay where both sides still meet; the others are dropped until Python answers. */
function shiftBoundaries(view, lanes) {
  const now = new Map(lanes.map((lane, i) => [lane.id, { lane, same: lane.runs === view.lanes[i].runs }]));
  return view.boundaries.flatMap((boundary) => {
    const [one, two] = [now.get(boundary.before_lane), now.get(boundary.after_lane)];
    if (!one || !two) return [];
    if (one.same && two.same) return [boundary];
    const ends = one.lane.runs.filter((run) => run.stage === boundary.before).map((run) => run.first + run.count);
    const starts = two.lane.runs.filter((run) => run.stage === boundary.after).map((run) => run.first);
    const met = ends.find((at) => starts.includes(at));
    return met == null ? [] : [met === boundary.at ? boundary : { ...boundary, at: met }];
  });
}

/** How often data goes from lane to lane on its way through the model. @param {Int32Array} owners */
export function crossings(owners) {
  let count = 0;
  for (let i = 1; i < owners.length; i += 1) if (owners[i] !== owners[i - 1]) count += 1;
  return count;
}

/**
 * What running out of order adds: transfers each way, and what one of them costs for a microbatch.
 * @param {Catalog} catalog @param {any} before @param {any} after
 * @returns {{extra: number, bytes: number, seconds: number, way: number[]}} way: lanes (positions) the data visits around the moved run
 */
export function detour(catalog, before, after, positions, toLane) {
  const now = ownersOf(after, catalog.layers.length);
  const extra = crossings(now) - crossings(ownersOf(before, catalog.layers.length));
  const target = after.lanes.findIndex((lane) => lane.id === toLane);
  const first = Math.min(...positions);
  let [start, end] = [first, first];
  while (start > 0 && now[start - 1] === target) start -= 1;
  while (end < now.length && now[end] === target) end += 1;
  const way = [];
  if (now.subarray(0, start).includes(target)) way.push(target);
  if (start > 0) way.push(now[start - 1]);
  way.push(target);
  if (end < now.length) way.push(now[end]);
  const bytes = catalog.layers[Math.max(0, end - 1)]?.output_bytes ?? 0;
  const worst = before.links.reduce((most, link) => Math.max(most, secondsPerByte(link)), 0);
  return { extra, bytes, seconds: bytes * worst, way };
}

const secondsPerByte = ({ transfer_s, forward_bytes }) => (transfer_s > 0 && forward_bytes > 0 ? transfer_s / forward_bytes : 0);

/**
 * The tiles after a move. The step grows with the slowest lane (for all microbatches but one), with what one microbatch
 * takes through all lanes, and with detours; the rest follows from it.
 * @param {any} before view with `estimate` @param {any} after @param {number} extra_s seconds of detours, one microbatch, both ways
 */
export function tileValues(before, after, extra_s = 0) {
  const memory = after.lanes.reduce((most, lane) => Math.max(most, lane.peak_bytes / lane.capacity_bytes), 0);
  const known = before.estimate;
  if (!known) return { step_time: null, throughput: null, memory, bubble: null, mfu: null };
  const one = (lanes) => lanes.reduce((sum, lane) => sum + time(lane), 0);
  const batches = Math.max(1, known.microbatches);
  const then = after.lanes.map((lane, i) =>
    Math.max(0, (known.busy_s[lane.id] ?? 0) + batches * (time(lane) - time(before.lanes[i]))),
  );
  const now = before.lanes.map((lane) => known.busy_s[lane.id] ?? 0);
  const slower = Math.max(0, ...then) - Math.max(0, ...now);
  const step = Math.max(
    Math.max(0, ...then),
    known.step_s + (slower * (batches - 1)) / batches + one(after.lanes) - one(before.lanes) + extra_s,
  );
  const work = then.reduce((a, b) => a + b, 0) / (now.reduce((a, b) => a + b, 0) || 1);
  return {
    step_time: step,
    throughput: (known.samples * known.tokens_per_sample) / step,
    memory,
    bubble: known.bubble == null ? null : Math.min(1, Math.max(0, 1 - ((1 - known.bubble) * work * known.step_s) / step)),
    mfu: known.mfu == null ? null : (known.mfu * known.step_s) / step,
  };
}

/** Flat positions that change lane when a boundary goes from `at` to `to`. */
export function between(at, to) {
  return new Set(Array.from({ length: Math.abs(to - at) }, (_, i) => Math.min(at, to) + i));
}

/**
 * Where a boundary may rest: block edges, and layer edges inside opened blocks, within its limits.
 * @param {Catalog} catalog @param {{at: number, minimum: number, maximum: number}} boundary @param {Set<string>} expanded
 */
export function stops(catalog, boundary, expanded) {
  const result = [];
  for (let at = boundary.minimum; at <= boundary.maximum; at += 1) {
    const b = at < catalog.layers.length ? catalog.layers[at].block : -1;
    if (at === boundary.at || b < 0 || at === catalog.starts[b] || expanded.has(catalog.blocks[b].id)) result.push(at);
  }
  return result;
}

/** The stop nearest to a shift of `shift_s` seconds from where the boundary is. */
export function nearestStop(catalog, boundary, expanded, shift_s, factor = 1) {
  let best = boundary.at;
  let distance = Math.abs(shift_s);
  for (const at of stops(catalog, boundary, expanded)) {
    const offset = (catalog.until[at] - catalog.until[boundary.at]) * catalog.total_s * factor;
    const off = Math.abs(offset - shift_s);
    if (off < distance - 1e-15) [best, distance] = [at, off];
  }
  return best;
}

/** The next stop in a direction, or null at the limit. */
export function nextStop(catalog, boundary, expanded, step) {
  const all = stops(catalog, boundary, expanded);
  return all[all.indexOf(boundary.at) + step] ?? null;
}
