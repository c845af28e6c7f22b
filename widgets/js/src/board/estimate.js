// What a move would do, added up from costs that Python sent. An estimate for the moment of the drag, never a result.

/** @typedef {import("./model.js").Catalog} Catalog */

/** Runs from sorted flat positions; every run keeps the stage (and copy) it is given. */
function runsFrom(positions, stage, copy) {
  const runs = [];
  for (const position of [...positions].sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && last.first + last.count === position) last.count += 1;
    else runs.push({ stage, copy, first: position, count: 1 });
  }
  return runs;
}

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
  const merged = runsFrom(new Set(all), stage, copy);
  const at = runs.findIndex((run) => same.includes(run));
  const others = runs.filter((run) => !same.includes(run));
  return at < 0 ? [...merged, ...others] : [...others.slice(0, at), ...merged, ...others.slice(at)];
}

/** Costs of some layers on a lane. @param {Catalog} catalog @param {any} lane @param {Iterable<number>} positions */
export function costOn(catalog, lane, positions) {
  const sum = { forward_s: 0, backward_s: 0, weight_bytes: 0, gradient_bytes: 0, optimizer_bytes: 0, activation_bytes: 0 };
  const time = lane.time_factor ?? 1;
  const state = lane.state_factor ?? 1;
  const saved = (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight ?? 1);
  for (const position of positions) {
    const layer = catalog.layers[position];
    sum.forward_s += layer.forward_s * time;
    sum.backward_s += layer.backward_s * time;
    sum.weight_bytes += layer.weight_bytes * state;
    sum.gradient_bytes += layer.gradient_bytes * state;
    sum.optimizer_bytes += layer.optimizer_bytes * state;
    sum.activation_bytes += layer.saved_bytes * saved;
  }
  return sum;
}

function changed(lane, cost, sign, runs) {
  const memory = { ...lane.memory };
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
    forward_s: Math.max(0, lane.forward_s + sign * cost.forward_s),
    backward_s: Math.max(0, lane.backward_s + sign * cost.backward_s),
  };
}

/**
 * The view after moving layers to a lane, costs added and taken away; which lane binds is judged by time.
 * @param {Catalog} catalog @param {any} view @param {Set<number>} positions @param {string} toLane
 */
export function moved(catalog, view, positions, toLane) {
  const lanes = view.lanes.map((lane) => {
    const held = new Set();
    for (const run of lane.runs) for (let i = run.first; i < run.first + run.count; i += 1) held.add(i);
    if (lane.id === toLane) {
      const gained = [...positions].filter((p) => !held.has(p));
      return gained.length ? changed(lane, costOn(catalog, lane, gained), 1, including(lane.runs, gained)) : lane;
    }
    const lost = [...positions].filter((p) => held.has(p));
    return lost.length ? changed(lane, costOn(catalog, lane, lost), -1, without(lane.runs, positions)) : lane;
  });
  return { ...view, lanes: withBinding(lanes), boundaries: shiftBoundaries(view.boundaries, lanes) };
}

function withBinding(lanes) {
  const slowest = Math.max(...lanes.map((lane) => lane.forward_s + lane.backward_s));
  return lanes.map((lane) => {
    const binds = lanes.length > 1 && lane.forward_s + lane.backward_s === slowest;
    return Boolean(lane.binds) === binds ? lane : { ...lane, binds };
  });
}

/** Boundaries stay where both sides still meet; the others are dropped until Python answers. */
function shiftBoundaries(boundaries, lanes) {
  return boundaries.flatMap((boundary) => {
    const ends = (id, stage) => lanes.find((lane) => lane.id === id)?.runs.filter((run) => run.stage === stage) ?? [];
    const before = ends(boundary.before_lane, boundary.before);
    const after = ends(boundary.after_lane, boundary.after);
    const met = before.map((run) => run.first + run.count).find((at) => after.some((run) => run.first === at));
    return met == null ? [] : [{ ...boundary, at: met }];
  });
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
    let offset = 0;
    for (const position of between(boundary.at, at)) offset += catalog.layers[position].time_s * factor;
    const off = Math.abs((at < boundary.at ? -offset : offset) - shift_s);
    if (off < distance - 1e-15) [best, distance] = [at, off];
  }
  return best;
}

/** The next stop in a direction, or null at the limit. */
export function nextStop(catalog, boundary, expanded, step) {
  const all = stops(catalog, boundary, expanded);
  return all[all.indexOf(boundary.at) + step] ?? null;
}
