// A layered drawing of one level: ranks by longest path, long edges as chains of points, few crossings. No DOM.

/** Ends of the edges that cross a frame's border. */
export const IN = "\u0000in";
export const OUT = "\u0000out";

const MANY_LANES = 3; // long edges side by side from which on nodes are moved to have fewer

/**
 * @typedef {{key: string, rank: number, real: boolean, from: string|null}} Point a node, or a long edge passing a rank
 * @typedef {{from: string, to: string, via: string[]}} Line an edge and the points it runs through
 * @typedef {{ranks: Point[][], lines: Line[], rank: Map<string, number>}} Layered
 */

/**
 * Ranks: the longest path to a node; what nothing feeds stands just before what it feeds. Edges only go forward.
 * `late`: so does what hangs on a node with several consumers, whose long edges then share a line.
 * @param {string[]} ids in model order @param {[string, string][]} edges @returns {Map<string, number>}
 */
export function rankOf(ids, edges, late = false) {
  const into = new Map(ids.map((id) => [id, []]));
  const out = new Map(ids.map((id) => [id, []]));
  for (const [a, b] of edges) {
    if (!into.has(a) || !into.has(b) || a === b) continue;
    out.get(a).push(b);
    into.get(b).push(a);
  }
  const rank = new Map();
  const waiting = new Map(ids.map((id) => [id, into.get(id).length]));
  const order = ids.filter((id) => !waiting.get(id));
  for (const id of order) {
    rank.set(id, Math.max(0, ...into.get(id).map((p) => rank.get(p) + 1)));
    for (const next of out.get(id)) {
      waiting.set(next, waiting.get(next) - 1);
      if (waiting.get(next) === 0) order.push(next);
    }
  }
  for (const id of ids) if (!rank.has(id)) rank.set(id, Math.max(0, ...rank.values()) + 1); // a cycle: never hang
  const shared = (id) => late && into.get(id).every((p) => out.get(p).length > 1);
  for (const id of [...order].reverse())
    if ((!into.get(id).length || shared(id)) && out.get(id).length && id !== IN)
      rank.set(id, Math.max(rank.get(id), Math.min(...out.get(id).map((b) => rank.get(b))) - 1));
  const least = Math.min(...rank.values());
  if (rank.has(IN)) {
    const first = Math.min(...ids.filter((id) => id !== IN).map((id) => rank.get(id)), Infinity);
    if (first <= rank.get(IN)) for (const id of ids) if (id !== IN) rank.set(id, rank.get(id) + rank.get(IN) + 1 - first);
  }
  if (rank.has(OUT)) {
    const last = Math.max(...ids.filter((id) => id !== OUT).map((id) => rank.get(id)), -1);
    rank.set(OUT, Math.max(rank.get(OUT), last + 1));
  }
  for (const id of ids) rank.set(id, rank.get(id) - least);
  return rank;
}

/**
 * The level with points for long edges, ranks ordered for few crossings.
 * @param {string[]} ids @param {[string, string][]} edges @param {boolean} [joined] all long edges share one line
 * @returns {Layered}
 */
export function layered(ids, edges, joined = false) {
  let rank = rankOf(ids, edges);
  const lanes = lanesOf(edges, rank);
  if (lanes > MANY_LANES) {
    const other = rankOf(ids, edges, true);
    if (lanesOf(edges, other) < lanes) rank = other;
  }
  const known = edges.filter(([a, b]) => rank.has(a) && rank.has(b) && rank.get(a) < rank.get(b));
  const chainOf = (from) => (joined ? "\u0001" : from);
  const points = new Map();
  ids.forEach((id) => points.set(id, { key: id, rank: rank.get(id), real: true, from: null }));
  const lines = known.map(([from, to]) => {
    const via = [];
    for (let r = rank.get(from) + 1; r < rank.get(to); r += 1) {
      const key = `${chainOf(from)}\u0002${r}`;
      if (!points.has(key)) points.set(key, { key, rank: r, real: false, from: chainOf(from) });
      via.push(key);
    }
    return { from, to, via };
  });
  const ranks = [];
  for (const point of points.values()) (ranks[point.rank] ??= []).push(point);
  for (let r = 0; r < ranks.length; r += 1) ranks[r] ??= [];
  const links = neighbours(lines);
  // long edges start above the nodes: a skip connection is an arc over what it skips
  for (const members of ranks) members.sort((a, b) => Number(a.real) - Number(b.real));
  return { ranks: uncross(ranks, links), lines, rank };
}

function lanesOf(edges, rank) {
  const reach = new Map();
  for (const [a, b] of edges) if (rank.has(a) && rank.has(b)) reach.set(a, Math.max(reach.get(a) ?? 0, rank.get(b)));
  const passing = [];
  for (const [a, end] of reach) for (let r = rank.get(a) + 1; r < end; r += 1) passing[r] = (passing[r] ?? 0) + 1;
  return Math.max(0, ...passing.filter(Boolean));
}

/** @param {Line[]} lines @returns {{before: Map<string, string[]>, after: Map<string, string[]>}} */
export function neighbours(lines) {
  const before = new Map();
  const after = new Map();
  const add = (map, key, value) => {
    const list = map.get(key) ?? map.set(key, []).get(key);
    if (!list.includes(value)) list.push(value);
  };
  for (const { from, to, via } of lines) {
    const all = [from, ...via, to];
    for (let i = 1; i < all.length; i += 1) {
      add(after, all[i - 1], all[i]);
      add(before, all[i], all[i - 1]);
    }
  }
  return { before, after };
}

/** Sweeps of ordering by the mean place of the neighbours; the best order seen is kept. */
function uncross(ranks, { before, after }) {
  let best = ranks.map((members) => [...members]);
  let least = crossings(best, after);
  let now = best;
  for (let sweep = 0; sweep < 6 && least > 0; sweep += 1) {
    const down = sweep % 2 === 0;
    const place = new Map();
    now = now.map((members) => [...members]);
    now.forEach((members) => members.forEach((p, i) => place.set(p.key, i)));
    const sequence = down ? now : [...now].reverse();
    for (const members of sequence) {
      const wish = new Map(
        members.map((p) => {
          const near = (down ? before : after).get(p.key) ?? [];
          return [p.key, near.length ? near.reduce((sum, key) => sum + place.get(key), 0) / near.length : place.get(p.key)];
        }),
      );
      members.sort((a, b) => wish.get(a.key) - wish.get(b.key) || place.get(a.key) - place.get(b.key));
      members.forEach((p, i) => place.set(p.key, i));
    }
    const found = crossings(now, after);
    if (found < least) [best, least] = [now, found];
  }
  return best;
}

/** How many pairs of edges between neighbouring ranks cross. */
export function crossings(ranks, after) {
  let total = 0;
  for (let r = 0; r + 1 < ranks.length; r += 1) {
    const place = new Map(ranks[r + 1].map((p, i) => [p.key, i]));
    const ends = ranks[r].flatMap((p) => (after.get(p.key) ?? []).map((key) => place.get(key)).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; i += 1) for (let j = i + 1; j < ends.length; j += 1) if (ends[i] > ends[j]) total += 1;
  }
  return total;
}

/**
 * Places as near as can be to wishes, in order and apart: least squares by pooling neighbours that are too close.
 * @param {number[]} wishes @param {number[]} apart between each and the next @param {number[]} weights
 */
export function spread(wishes, apart, weights) {
  let shift = 0;
  const pools = [];
  const shifts = wishes.map((wish, i) => {
    if (i) shift += apart[i - 1];
    pools.push({ sum: (wish - shift) * weights[i], weight: weights[i], count: 1 });
    while (pools.length > 1) {
      const [a, b] = pools.slice(-2);
      if (a.sum / a.weight <= b.sum / b.weight) break;
      pools.splice(-2, 2, { sum: a.sum + b.sum, weight: a.weight + b.weight, count: a.count + b.count });
    }
    return shift;
  });
  const places = pools.flatMap((pool) => Array(pool.count).fill(pool.sum / pool.weight));
  return places.map((place, i) => place + shifts[i]);
}

/**
 * Places across the ranks: what hangs on one node stands in line with it.
 * @param {{ranks: Point[][], lines: Line[]}} level
 * @param {(p: Point) => [number, number, number]} reach of a point before and behind the line on which edges come in, and
 *   from there to the line on which they go out
 * @param {(a: Point, b: Point) => number} gap @returns {Map<string, number>} of the lines on which edges come in
 */
export function across({ ranks, lines }, reach, gap) {
  const { before, after } = neighbours(lines);
  const real = new Set(ranks.flat().flatMap((p) => (p.real ? [p.key] : [])));
  const drop = new Map(ranks.flat().map((p) => [p.key, reach(p)[2]]));
  const at = new Map();
  const settle = (members, near) => {
    const wishes = members.map((p) => {
      const all = (near?.get(p.key) ?? []).filter((key) => at.has(key));
      const own = all.filter((key) => real.has(key));
      const told = own.length ? own : all;
      const line = (key) => at.get(key) + (near === before ? drop.get(key) : -drop.get(p.key));
      return told.length ? told.reduce((sum, key) => sum + line(key), 0) / told.length : (at.get(p.key) ?? 0);
    });
    const apart = members.slice(1).map((p, i) => reach(members[i])[1] + gap(members[i], p) + reach(p)[0]);
    const weights = members.map((p) => (p.real ? 1 : 1e-4)); // lines make room for boxes
    spread(wishes, apart, weights).forEach((place, i) => at.set(members[i].key, place));
  };
  for (const members of ranks) settle(members, before);
  for (const members of [...ranks].reverse()) settle(members, after);
  for (const members of ranks) settle(members, before);
  return at;
}
