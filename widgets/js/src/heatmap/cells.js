// The numbers of a heatmap: cells with gaps, colour positions, places, hit test. No DOM.

import { logPosition } from "../common/scales.js";

/** The pictures of each kind of view: [name of it as the `shown` trait has it, words]. */
const PICTURES = {
  memory: [
    ["time", "Over time"],
    ["parts", "By part"],
  ],
  traffic: [
    ["pairs", "By pair"],
    ["links", "By link over time"],
  ],
};

/** The pictures that a view can show. @param {any} view @returns {string[][]} */
export function picturesOf(view) {
  const all = PICTURES[view?.kind] ?? [];
  return all.filter(([name]) => (name === "parts" ? view.parts : name === "links" ? view.links?.rows.length : true));
}

/** A grid of one picture: what each cell holds and what its columns are. @param {any} view @param {Float32Array} cells @param {string} shown */
export function gridOf(view, cells, shown) {
  if (shown === "parts") return partsGrid(view);
  if (shown === "links") return linksGrid(view.links, cells);
  return view.kind === "traffic" ? trafficGrid(view) : memoryGrid(view, cells);
}

/** Memory: rows x columns of bytes, -1 empty. @param {Float32Array} cells */
export function memoryGrid(view, cells) {
  const rows = view.rows.length;
  const columns = Math.min(view.columns, Math.floor(cells.length / Math.max(1, rows)));
  let top = view.capacity_bytes || 0;
  for (const cell of cells) top = Math.max(top, cell);
  const value = (r, c) => (cells[r * columns + c] >= 0 ? cells[r * columns + c] : null);
  const { start_s, end_s } = view;
  return { kind: "time", unit: "bytes", rows: view.rows, columns, value, low: 0, high: top, log: false, start_s, end_s };
}

/** Memory at the peak by part; the last column is the sum, which has no colour. */
export function partsGrid(view) {
  const { names, bytes, capacity_bytes } = view.parts;
  const value = (r, c) => (c < names.length ? bytes[r][c] : bytes[r].reduce((a, b) => a + b, 0)) || null;
  return {
    kind: "parts",
    unit: "bytes",
    rows: view.rows,
    columns: names.length + 1,
    names: [...names, "all"],
    plain: names.length,
    capacity: capacity_bytes,
    value,
    low: 0,
    high: Math.max(0, ...bytes.flat()),
    log: false,
  };
}

/** Links: rows x columns of shares of capacity; what is not used is empty. */
function linksGrid(view, cells) {
  const { columns, start_s, end_s } = view;
  const value = (r, c) => (cells[r * columns + c] > 0 ? cells[r * columns + c] : null);
  let most = 0;
  for (const cell of cells) most = Math.max(most, cell);
  return { kind: "time", unit: "share", rows: view.rows, columns, value, low: 0, high: roundUp(Math.min(1, most)), log: false, start_s, end_s };
}

/** Traffic: a sparse square of bytes. */
export function trafficGrid(view) {
  const n = view.rows.length;
  const cells = new Map();
  for (const [source, target, bytes] of view.pairs)
    if (bytes > 0) cells.set(source * n + target, (cells.get(source * n + target) ?? 0) + bytes);
  const all = [...cells.values()];
  const high = Math.max(0, ...all);
  const least = all.length ? Math.min(...all) : 0;
  return {
    kind: "pairs",
    unit: "bytes",
    rows: view.rows,
    columns: n,
    names: view.rows.map((row) => row.name),
    value: (r, c) => cells.get(r * n + c) ?? null,
    low: least < high ? least : high / 10,
    high,
    only: least < high ? null : high || null, // the same in every cell that is not empty
    log: true,
  };
}

/** Next of 1, 2, 5 x 10^n: an end of a scale that reads well. */
export function roundUp(x) {
  if (!(x > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= x * (1 - 1e-9)) ?? 10 * power;
}

/** Where colours begin in pictures with empty cells: the darkest could not be told from the ground of a dark page. */
const SPARSE_FROM = 0.14;

/**
 * One scale for all grids, so that colours can be compared. `position`: value to colour, `at`: colour to value,
 * `from`: the first colour. @param {any[]} grids
 */
export function scaleOf(grids) {
  const log = grids.some((grid) => grid.log);
  const high = Math.max(...grids.map((grid) => grid.high));
  const low = log ? Math.min(...grids.filter((grid) => grid.high > 0).map((grid) => grid.low), high) : 0;
  const from = log || grids.some((grid) => grid.unit === "share") ? SPARSE_FROM : 0;
  const share = log ? (x) => logPosition(x, low, high) : (x) => (high > 0 ? Math.min(1, Math.max(0, x / high)) : 0);
  const value = log ? (u) => low * (high / low) ** u : (u) => u * high;
  const only = grids.every((grid) => grid.only != null && grid.only === grids[0].only) ? grids[0].only : null;
  return { low, high, log, from, only, position: (x) => from + (1 - from) * share(x), at: (t) => value((t - from) / (1 - from)) };
}

/**
 * Largest value of the columns that fall into a pixel: where columns are narrower, none is lost.
 * @param {any} grid @param {number} r @param {number} pixel @param {number} pixels
 * @param {number} [first] column at which the pixels begin @param {number} [columns] columns that they show
 */
export function mostOf(grid, r, pixel, pixels, first = 0, columns = grid.columns) {
  const from = Math.floor(first + (pixel * columns) / pixels);
  const to = Math.min(grid.columns, Math.max(from + 1, Math.floor(first + ((pixel + 1) * columns) / pixels)));
  let found = null;
  for (let k = from; k < to; k += 1) {
    const value = grid.value(r, k);
    if (value != null && (found == null || value > found)) found = value;
  }
  return found;
}

/** Tops of the rows: neighbours of one lane stand close, lanes apart. @returns {{tops: number[], height: number}} */
export function rowPlaces(rows, size, top = 0) {
  let y = top;
  const tops = rows.map((row, i) => {
    if (i) y += rows[i - 1].lane != null && rows[i - 1].lane === row.lane ? (size > 12 ? 1 : 0) : size > 12 ? 4 : 1;
    const at = y;
    y += size;
    return at;
  });
  return { tops, height: y };
}


/** The cell that an arrow key leads to; time is passed in steps of a fiftieth. */
export function moveCell(grid, cell, key, shift = false) {
  if (!cell) return { r: 0, k: 0 };
  const stride = grid.kind === "time" && !shift ? Math.max(1, Math.round(grid.columns / 50)) : 1;
  const by = { ArrowRight: [0, stride], ArrowLeft: [0, -stride], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[key];
  if (key === "Home") return { r: cell.r, k: 0 };
  if (key === "End") return { r: cell.r, k: grid.columns - 1 };
  if (!by) return cell;
  const clamp = (x, most) => Math.min(most, Math.max(0, x));
  return { r: clamp(cell.r + by[0], grid.rows.length - 1), k: clamp(cell.k + by[1], grid.columns - 1) };
}
