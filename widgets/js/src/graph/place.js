// Boxes and lines of one level, in pixels: from left to right in rows that fit the width, or downwards where branches
// would be torn apart by a row's end. No DOM.

import { IN, OUT, across, layered } from "./layered.js";

const PORT = 12; // from a frame's port to the first box
const LANE = 5; // between lines that run side by side
const CORNER = 5;
const MOST_TORN = 3; // lines over a row's end that can still be followed

/**
 * @typedef {{id: string, w: number, h: number, inY: number, outY: number, fixed: boolean}} Item
 *   `fixed`: a frame with a width of its own; other widths are chosen here
 * @typedef {{least: number, wide: number, high: number, gap: number, rowGap: number}} Style
 * @typedef {{x: number, y: number, w: number, h: number, band: number, rank: number}} Box
 * @typedef {{from: string, to: string, d: string, skip: boolean}} Path
 * @typedef {{boxes: Map<string, Box>, paths: Path[], w: number, h: number, down: boolean,
 *   ports: {in: {x: number, y: number}|null, out: {x: number, y: number}|null}}} Placed
 */

/**
 * @param {Item[]} items in model order @param {[string, string][]} edges between them, and with `IN`, `OUT`
 * @param {number} width @param {Style} style @returns {Placed}
 */
export function place(items, edges, width, style) {
  const ends = [IN, OUT].filter((port) => edges.some((edge) => edge.includes(port)));
  const ids = [...ends.filter((id) => id === IN), ...items.map((item) => item.id), ...ends.filter((id) => id === OUT)];
  const byId = new Map(items.map((item) => [item.id, item]));
  const level = layered(ids, edges);
  const rows = cutRows(level, byId, width, style);
  if (rows.torn <= MOST_TORN) return placeRows(level, byId, rows, style);
  const downwards = placeDown(level, byId, width, style);
  if (downwards.w <= width + 0.5) return downwards;
  const joined = layered(ids, edges, true);
  return placeRows(joined, byId, cutRows(joined, byId, width, style), style);
}

const isPort = (key) => key === IN || key === OUT;

// ---- rows ----------------------------------------------------------------------------------------

/** Which ranks stand in which row, and how wide a node is. Ports stand in the gutters, beside the first and last row. */
function cutRows(level, byId, width, style) {
  const { ranks } = level;
  const passing = ranks.map((_, r) => crossing(level, r));
  const own = ranks.map((members) => members.filter((p) => p.real && !isPort(p.key)).map((p) => byId.get(p.key)));
  const [first, end] = [isPort(ranks[0][0]?.key) ? 1 : 0, ranks.length - (isPort(ranks.at(-1)[0]?.key) ? 1 : 0)];
  const least = first || end < ranks.length ? PORT : 0;
  const widthsFor = (node) => own.map((items) => Math.max(0, ...items.map((item) => (item.fixed ? item.w : node))));
  const free = own.filter((items) => items.some((item) => !item.fixed)).length;
  const framed = widthsFor(0).reduce((a, b) => a + b, 0) + style.gap * (end - first - 1);
  const onerow = Math.min(style.wide, (width - 2 * least - framed) / Math.max(1, free));
  if (free ? onerow >= style.least * 0.86 : framed <= width - 2 * least + 0.5)
    return { bands: [[0, ranks.length]], node: onerow, widths: widthsFor(onerow), gutter: least, torn: 0, passing };
  for (let lines = 1; ; lines += 1) {
    const gutter = Math.max(least, 7 + LANE * lines);
    const room = width - 2 * gutter;
    const columns = Math.max(1, Math.min(free, Math.floor((room + style.gap) / (style.least + style.gap))));
    const node = Math.min(style.wide, (room + style.gap) / columns - style.gap);
    const widths = widthsFor(node);
    const bands = breaks(widths.slice(first, end), passing.slice(first, end), room, style.gap).map(([a, b]) => [a + first, b + first]);
    bands[0][0] = 0;
    bands.at(-1)[1] = ranks.length;
    const torn = Math.max(0, ...bands.slice(1).map(([start]) => passing[start - 1].length));
    if (torn <= lines || lines > MOST_TORN) return { bands, node, widths, gutter, torn, passing };
  }
}

/** Sources of what crosses from rank r to the next, from top to bottom. */
function crossing({ ranks, lines, rank }, r) {
  const found = new Set();
  for (const { from, to, via } of lines)
    if (rank.get(from) <= r && rank.get(to) > r) found.add(via[r - rank.get(from) - 1] ?? from);
  const place = new Map(ranks[r].map((p, i) => [p.key, i]));
  return [...found].sort((a, b) => place.get(a) - place.get(b));
}

/** Row ends that cost least: few rows, few lines over a row's end, full rows first. */
export function breaks(widths, passing, room, gap) {
  const cost = [0];
  const back = [0];
  for (let end = 1; end <= widths.length; end += 1) {
    cost[end] = Infinity;
    let used = -gap;
    for (let start = end - 1; start >= 0; start -= 1) {
      used += widths[start] + gap;
      if (used > room + 0.5 && start < end - 1) break;
      const lines = start ? passing[start - 1].length - 1 : 0;
      const empty = end < widths.length ? Math.max(0, 1 - used / room) : 0;
      const found = cost[start] + 10 + 4 * Math.max(0, lines) ** 1.5 + 4 * empty;
      if (found < cost[end] - 1e-9) [cost[end], back[end]] = [found, start];
    }
  }
  const bands = [];
  for (let end = widths.length; end > 0; end = back[end]) bands.unshift([back[end], end]);
  return bands;
}

/** @returns {Placed} */
function placeRows(level, byId, { bands, node, widths, gutter, passing }, style) {
  const { ranks } = level;
  const size = (p) => (isPort(p.key) || !p.real ? { w: 0, h: 0, inY: 0, outY: 0 } : sized(byId.get(p.key), node));
  const reach = (p) => (p.real ? [size(p).inY, size(p).h - size(p).inY, size(p).outY - size(p).inY] : [2, 2, 0]);
  const apart = (a, b) => (a.real && b.real ? style.rowGap : a.real || b.real ? 5 : 3);
  const boxes = new Map();
  const lane = new Map();
  const rankX = [];
  const channels = [];
  let y = 0;
  let right = 0;
  bands.forEach(([start, end], band) => {
    const own = ranks.slice(start, end);
    const members = own.flat();
    const at = across({ ranks: own, lines: level.lines }, reach, apart);
    const top = Math.min(...members.map((p) => at.get(p.key) - reach(p)[0]));
    const bottom = Math.max(...members.map((p) => at.get(p.key) + reach(p)[1]));
    let x = gutter;
    for (let r = start; r < end; r += 1) {
      const port = isPort(ranks[r][0]?.key);
      if (port) x = ranks[r][0].key === IN ? gutter - PORT : x - style.gap + PORT;
      rankX[r] = [x, x + widths[r]];
      for (const p of ranks[r]) {
        const line = y + at.get(p.key) - top;
        lane.set(p.key, line);
        const { w, h, inY } = size(p);
        if (p.real) boxes.set(p.key, { x, y: line - inY, w: byId.get(p.key)?.fixed ? w : widths[r] && w, h, band, rank: r });
      }
      if (!port) right = Math.max(right, x + widths[r]);
      x = port && ranks[r][0].key === IN ? gutter : x + widths[r] + style.gap;
    }
    y += bottom - top;
    if (band + 1 < bands.length) {
      const lines = passing[end - 1].length;
      channels[band] = { top: y + 8, right: x - style.gap, lines: passing[end - 1] };
      y += 16 + LANE * Math.max(0, lines - 1);
    }
  });
  const geometry = { boxes, lane, rankX, channels, bandOf: bandOf(bands, ranks.length), outY: (key) => outY(boxes, byId, key) };
  const w = right + gutter;
  const port = (key, x) => (boxes.has(key) ? { x: x(boxes.get(key)), y: boxes.get(key).y } : null);
  return {
    boxes,
    paths: level.lines.map((line) => ({ from: line.from, to: line.to, skip: line.via.length > 0, d: rowPath(line, level, geometry) })),
    w,
    h: y,
    down: false,
    ports: { in: port(IN, (b) => b.x), out: port(OUT, (b) => b.x) },
  };
}

const sized = (item, node) => (item.fixed ? item : { ...item, w: node });

function outY(boxes, byId, key) {
  const box = boxes.get(key);
  return box.y + (byId.get(key)?.outY ?? 0);
}

function bandOf(bands, count) {
  const result = Array(count);
  bands.forEach(([start, end], band) => result.fill(band, start, end));
  return result;
}

/** Path of one edge: curves between ranks, straight over what it passes, along the channel to the next row. */
function rowPath({ from, to, via }, { rank }, { boxes, lane, rankX, channels, bandOf: rows, outY: out }) {
  const a = boxes.get(from);
  let x = a.x + a.w;
  let y = out(from);
  let d = `M${n(x)} ${n(y)}`;
  let r = rank.get(from);
  let before = from;
  for (const key of [...via, to]) {
    r += 1;
    const last = key === to;
    const box = last ? boxes.get(to) : null;
    const y2 = lane.get(key);
    const x2 = box ? box.x : rankX[r][0];
    const stop = last && !isPort(to) ? x2 - 1 : x2;
    if (rows[r] === rows[r - 1]) {
      d += curve(x, y, stop, y2, rankX[r - 1][1]);
    } else {
      const { top, right, lines } = channels[rows[r - 1]];
      const i = Math.max(0, lines.indexOf(before));
      const outside = right + 7 + LANE * (lines.length - 1 - i); // topmost outside of the others, then below them: none cross
      const inside = 2 + LANE * i;
      const track = top + LANE * (lines.length - 1 - i);
      d += bent([
        [x, y],
        [outside, y],
        [outside, track],
        [inside, track],
        [inside, y2],
        [stop, y2],
      ]);
    }
    if (!last) {
      d += `H${n(rankX[r][1])}`;
      x = rankX[r][1];
    }
    y = y2;
    before = key;
  }
  return d;
}

/** From a box to the next rank; the bend stands in the gap behind the widest box of the rank. */
function curve(x1, y1, x2, y2, behind) {
  if (Math.abs(y1 - y2) < 0.5) return `H${n(x2)}`;
  const start = Math.max(x1, Math.min(behind, x2 - 8));
  const middle = (start + x2) / 2;
  return `${start > x1 + 0.5 ? `H${n(start)}` : ""}C${n(middle)} ${n(y1)} ${n(middle)} ${n(y2)} ${n(x2)} ${n(y2)}`;
}

/** A line through points at right angles, corners rounded; without its first point. */
function bent(points) {
  let d = "";
  for (let i = 1; i < points.length; i += 1) {
    const [x, y] = points[i];
    const [px, py] = points[i - 1];
    const next = points[i + 1];
    if (!next) {
      d += `L${n(x)} ${n(y)}`;
      continue;
    }
    const c = Math.min(CORNER, Math.hypot(x - px, y - py) / 2, Math.hypot(next[0] - x, next[1] - y) / 2);
    const [ux, uy] = [Math.sign(x - px), Math.sign(y - py)];
    const [vx, vy] = [Math.sign(next[0] - x), Math.sign(next[1] - y)];
    d += `L${n(x - ux * c)} ${n(y - uy * c)}Q${n(x)} ${n(y)} ${n(x + vx * c)} ${n(y + vy * c)}`;
  }
  return d;
}

const n = (value) => Math.round(value * 10) / 10;

// ---- downwards -----------------------------------------------------------------------------------

/** @returns {Placed} */
function placeDown(level, byId, width, style) {
  const { ranks, lines, rank } = level;
  const columns = Math.max(1, ...ranks.map((members) => members.filter((p) => p.real && !isPort(p.key)).length));
  const fit = (width - style.rowGap * (columns - 1) - 20) / columns;
  const node = Math.max(style.least * 0.86, Math.min(style.wide, fit));
  const size = (p) => (isPort(p.key) || !p.real ? { w: 0, h: 0 } : sized(byId.get(p.key), node));
  const half = (p) => (p.real ? size(p).w / 2 : 2);
  const at = across(level, (p) => [half(p), half(p), 0], (a, b) => (a.real && b.real ? style.rowGap : 6));
  const left = Math.min(...ranks.flat().map((p) => at.get(p.key) - half(p)));
  const right = Math.max(...ranks.flat().map((p) => at.get(p.key) + half(p)));
  const boxes = new Map();
  const lane = new Map();
  const rankY = [];
  let y = 0;
  ranks.forEach((members, r) => {
    const tall = Math.max(0, ...members.map((p) => size(p).h));
    rankY[r] = [y, y + tall];
    for (const p of members) {
      const x = at.get(p.key) - left;
      lane.set(p.key, x);
      const { w, h } = size(p);
      if (p.real) boxes.set(p.key, { x: x - w / 2, y, w, h, band: r, rank: r });
    }
    y += tall + (tall ? 18 : 12);
  });
  const port = (key) => (boxes.has(key) ? { x: boxes.get(key).x, y: boxes.get(key).y } : null);
  return {
    boxes,
    paths: lines.map((line) => ({ from: line.from, to: line.to, skip: line.via.length > 0, d: downPath(line, rank, boxes, lane, rankY) })),
    w: right - left,
    h: Math.max(...rankY.map(([, bottom]) => bottom)),
    down: true,
    ports: { in: port(IN), out: port(OUT) },
  };
}

function downPath({ from, to, via }, rank, boxes, lane, rankY) {
  const a = boxes.get(from);
  let [x, y, r] = [lane.get(from), a.y + a.h, rank.get(from)];
  let d = `M${n(x)} ${n(y)}`;
  for (const key of [...via, to]) {
    r += 1;
    const last = key === to;
    const x2 = lane.get(key);
    const y2 = last && !isPort(to) ? rankY[r][0] - 1 : rankY[r][0];
    if (Math.abs(x - x2) < 0.5) d += `V${n(y2)}`;
    else {
      const start = Math.max(y, Math.min(rankY[r - 1][1], y2 - 8));
      const middle = (start + y2) / 2;
      d += `${start > y + 0.5 ? `V${n(start)}` : ""}C${n(x)} ${n(middle)} ${n(x2)} ${n(middle)} ${n(x2)} ${n(y2)}`;
    }
    if (!last) d += `V${n(rankY[r][1])}`;
    [x, y] = [x2, last ? y2 : rankY[r][1]];
  }
  return d;
}
