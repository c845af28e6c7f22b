// The whole picture: every open part a frame around its own level, innermost first. No DOM.

import { IN, OUT } from "./layered.js";
import { place } from "./place.js";

const TITLE = 26; // height of a frame's title row
const PAD = 10;
const BESIDE = 17; // kept free on either side of a frame for lines from row to row

export const ROOT_STYLE = { least: 104, wide: 190, high: 46, gap: 24, rowGap: 12 };
export const INNER_STYLE = { least: 84, wide: 150, high: 38, gap: 18, rowGap: 8 };

/**
 * @typedef {{id: string, parent: string|null, open: boolean, label: string}} Node
 * @typedef {{x: number, y: number, w: number, h: number, level: number, band: number, rank: number}} Spot
 * @param {Node[]} nodes frames before what is in them @param {[string, string, number][]} edges
 * @param {number} width
 * @returns {{boxes: Map<string, Spot>, paths: {key: string, from: string, to: string, d: string, x: number, y: number,
 *   skip: boolean, stub: boolean, count: number}[], w: number, h: number}}
 */
export function nest(nodes, edges, width) {
  const children = new Map();
  for (const node of nodes) (children.get(node.parent) ?? children.set(node.parent, []).get(node.parent)).push(node);
  const parent = new Map(nodes.map((node) => [node.id, node.parent]));
  const byLevel = new Map();
  for (const [a, b, count] of edges) {
    const [level, from, to] =
      parent.get(b) === a ? [a, IN, b] : parent.get(a) === b ? [b, a, OUT] : [parent.get(a) ?? null, a, b];
    (byLevel.get(level) ?? byLevel.set(level, []).get(level)).push([from, to, count ?? 1]);
  }
  const inside = new Map();
  const layOut = (level, room, depth) => {
    const style = depth ? INNER_STYLE : ROOT_STYLE;
    const items = (children.get(level) ?? []).map((node) =>
      node.open ? frameItem(node, layOut(node.id, room - 2 * (PAD + BESIDE), depth + 1)) : closedItem(node.id, style),
    );
    const own = byLevel.get(level) ?? [];
    const placed = place(
      items,
      own.map(([a, b]) => [a, b]),
      room,
      style,
    );
    inside.set(level, { ...placed, counts: new Map(own.map(([a, b, count]) => [`${a}>${b}`, count])) });
    return placed;
  };
  const root = layOut(null, width, 0);
  const boxes = new Map();
  const paths = [];
  const put = (level, x, y, depth, frame) => {
    const { boxes: own, paths: lines, counts, ports } = inside.get(level);
    for (const { from, to, d, skip } of lines)
      paths.push({ key: `${level}|${from}>${to}`, from: end(from, level), to: end(to, level), d, x, y, skip, stub: to === OUT, count: counts.get(`${from}>${to}`) ?? 1 });
    if (frame) paths.push(...borderStubs(level, ports, x, y, frame));
    for (const [id, box] of own) {
      if (id === IN || id === OUT) continue;
      const spot = { ...box, x: x + box.x, y: y + box.y, level: depth };
      boxes.set(id, spot);
      if (inside.has(id)) put(id, spot.x + PAD, spot.y + TITLE, depth + 1, spot);
    }
  };
  put(null, 0, 0, 0, null);
  return { boxes, paths, w: root.w, h: root.h };
}

const end = (id, level) => (id === IN || id === OUT ? level : id);

const closedItem = (id, style) => ({ id, w: style.least, h: style.high, inY: style.high / 2, outY: style.high / 2, fixed: false });

/** A frame: what enters and leaves meets its border at the height of the ports inside. */
function frameItem(node, placed) {
  const w = Math.max(placed.w + 2 * PAD, 92 + 7 * Math.min(node.label.length, 24));
  const h = placed.h + TITLE + PAD;
  const y = (port) => (port ? TITLE + port.y : h / 2);
  return { id: node.id, w, h, inY: y(placed.ports.in), outY: y(placed.ports.out), fixed: true };
}

/** Short lines between a frame's border and its ports. */
function borderStubs(level, ports, x, y, frame) {
  const left = frame.x - x;
  const stub = (key, port, side) => ({
    key: `${level}|${key}`,
    from: level,
    to: level,
    d: `M${side} ${port.y}H${port.x}`,
    x,
    y,
    skip: false,
    stub: true,
    count: 1,
  });
  return [...(ports.in ? [stub("in", ports.in, left)] : []), ...(ports.out ? [stub("out", ports.out, left + frame.w)] : [])];
}
