// Layout of a small graph: rank = longest path, column = branch, wrapped into bands that fit the width. No DOM.

/**
 * @param {string[]} ids @param {[string, string][]} edges
 * @returns {{rank: Map<string, number>, column: Map<string, number>, ranks: string[][]}}
 */
export function layered(ids, edges) {
  const into = new Map(ids.map((id) => [id, []]));
  const out = new Map(ids.map((id) => [id, []]));
  for (const [a, b] of edges) {
    if (!into.has(a) || !into.has(b) || a === b) continue;
    out.get(a).push(b);
    into.get(b).push(a);
  }
  const rank = new Map();
  const waiting = new Map(ids.map((id) => [id, into.get(id).length]));
  const ready = ids.filter((id) => !waiting.get(id));
  for (const id of ready) {
    rank.set(id, Math.max(0, ...into.get(id).map((p) => (rank.get(p) ?? -1) + 1)));
    for (const next of out.get(id)) {
      waiting.set(next, waiting.get(next) - 1);
      if (waiting.get(next) === 0) ready.push(next);
    }
  }
  for (const id of ids) if (!rank.has(id)) rank.set(id, Math.max(0, ...rank.values()) + 1); // a cycle: never hang
  const ranks = [];
  for (const id of ids) (ranks[rank.get(id)] ??= []).push(id);
  const column = new Map();
  for (let r = 0; r < ranks.length; r += 1) {
    ranks[r] ??= [];
    const mean = (id) => {
      const from = into
        .get(id)
        .filter((p) => rank.get(p) === r - 1 && column.has(p))
        .map((p) => column.get(p));
      return from.length ? from.reduce((a, b) => a + b, 0) / from.length : 0;
    };
    const order = new Map(ranks[r].map((id, i) => [id, mean(id) * 1000 + i]));
    ranks[r].sort((a, b) => order.get(a) - order.get(b));
    ranks[r].forEach((id, k) => column.set(id, k - (ranks[r].length - 1) / 2));
  }
  return { rank, column, ranks: ranks.filter((members) => members.length) };
}

/**
 * Bands of ranks: a new band where the part changes; a part that is wider than a band is shared out evenly.
 * @param {string[][]} ranks @param {(id: string) => string|null} partOf @param {number} most ranks in a band
 */
export function bandsOf(ranks, partOf, most) {
  const runs = [];
  for (const members of ranks) {
    const part = partOf(members[0]);
    const last = runs[runs.length - 1];
    if (last?.part === part) last.ranks.push(members);
    else runs.push({ part, ranks: [members] });
  }
  return runs.flatMap(({ part, ranks: all }) => {
    const rows = Math.ceil(all.length / most);
    const cut = (i) => Math.ceil((i * all.length) / rows);
    return Array.from({ length: rows }, (_, i) => ({ part, ranks: all.slice(cut(i), cut(i + 1)), continued: i > 0 }));
  });
}

/**
 * Boxes in pixels.
 * @param {string[]} ids @param {[string, string][]} edges
 * @param {{width: number, partOf?: (id: string) => string|null, least?: number, wide?: number, high: number, gap: number, rowGap: number, head: number}} options
 */
export function place(ids, edges, options) {
  const { width, high, gap, rowGap, head } = options;
  const { rank, column, ranks } = layered(ids, edges);
  const least = options.least ?? 72;
  const most = Math.max(1, Math.floor((width + gap) / (least + gap)));
  const bands = bandsOf(ranks, options.partOf ?? (() => null), most);
  const boxes = new Map();
  let y = 0;
  const placed = bands.map((band, number) => {
    const rows = Math.max(...band.ranks.map((members) => members.length));
    const w = Math.min(options.wide ?? 168, (width - gap * (band.ranks.length - 1)) / band.ranks.length);
    const top = y + (band.part && !band.continued ? head : 0) + 14;
    const middle = top + (rows * (high + rowGap) - rowGap) / 2;
    band.ranks.forEach((members, r) => {
      for (const [row, id] of members.entries())
        boxes.set(id, {
          x: r * (w + gap),
          y: middle + column.get(id) * (high + rowGap) - high / 2,
          w,
          h: high,
          band: number,
          rank: rank.get(id),
          top: row === 0,
        });
    });
    const result = { part: band.continued ? null : band.part, y, top, middle, bottom: top + rows * (high + rowGap) - rowGap };
    y = result.bottom + 16;
    return result;
  });
  return { boxes, bands: placed, height: y - 10 };
}

const BESIDE = 9; // from a box to the line that runs beside it: half the least gap

/** Path of an edge: a curve to the next rank, an arc over what lies between, a line from row to row. */
export function edgePath(a, b, bands, width) {
  if (a.band !== b.band) return rowPath(a, b, bands, width);
  const [x1, y1, x2, y2] = [a.x + a.w, a.y + a.h / 2, b.x, b.y + b.h / 2];
  if (b.rank - a.rank > 1 && Math.abs(y1 - y2) < 1) {
    const lane = bands[a.band].top - 8;
    const [from, to] = [a.x + a.w / 2 + 8, b.x + b.w / 2 - 8];
    return {
      skip: true,
      d: `M${from} ${a.y}V${lane + 6}Q${from} ${lane} ${from + 6} ${lane}H${to - 6}Q${to} ${lane} ${to} ${lane + 6}V${b.y - 1}`,
    };
  }
  const long = b.rank - a.rank > 1; // run beside what lies between, then turn
  const turn = long ? x2 - 18 : x1;
  const bend = Math.min(24, Math.max(6, (x2 - x1) * 0.6));
  return {
    skip: false,
    d:
      y1 === y2
        ? `M${x1} ${y1}H${x2 - 1}`
        : `M${x1} ${y1}${long ? `H${turn}` : ""}C${turn + (long ? 9 : bend)} ${y1} ${x2 - (long ? 9 : bend)} ${y2} ${x2 - 1} ${y2}`,
  };
}

/** Path into another row: out beside the box, along the space above the target's row, in from above or beside. */
function rowPath(a, b, bands, width) {
  const skip = b.rank - a.rank > 1;
  const lane = (band) => bands[band].top - (skip ? 8 : 16);
  let d = `M${a.x + a.w} ${a.y + a.h / 2}H${a.x + a.w + BESIDE}`;
  // past the rows between, their boxes stand elsewhere: down the right edge
  if (b.band !== a.band + 1) d += `V${lane(Math.min(a.band + 1, bands.length - 1))}H${width + BESIDE}`;
  d += `V${lane(b.band)}`;
  const middle = b.x + b.w / 2;
  if (skip && b.top) return { skip, d: `${d}H${middle}V${b.y - 1}` };
  return { skip, d: `${d}H${b.x - BESIDE}V${b.y + b.h / 2}H${b.x - 1}` };
}
