// The numbers of a heatmap: cells with gaps, colour positions, hit test. No DOM.

import { logPosition } from "../common/scales.js";

export const EMPTY = -1;

/** Memory: rows x columns of bytes, -1 empty. @param {Float32Array} cells */
export function memoryGrid(view, cells) {
  const rows = view.rows.length;
  const columns = Math.min(view.columns, Math.floor(cells.length / Math.max(1, rows)));
  const top = view.capacity_bytes || Math.max(0, ...cells);
  const value = (r, c) => (cells[r * columns + c] >= 0 ? cells[r * columns + c] : null);
  return { rows, columns, value, low: 0, high: top, position: (x) => (top > 0 ? x / top : 0), log: false };
}

/** Traffic: a sparse square of bytes. */
export function trafficGrid(view) {
  const n = view.rows.length;
  const cells = new Map();
  for (const [source, target, bytes] of view.pairs)
    if (bytes > 0) cells.set(source * n + target, (cells.get(source * n + target) ?? 0) + bytes);
  const all = [...cells.values()];
  const high = Math.max(0, ...all);
  const low = all.length ? Math.min(...all) : 0;
  const from = low < high ? low : high / 10;
  return {
    rows: n,
    columns: n,
    value: (r, c) => cells.get(r * n + c) ?? null,
    low: from,
    high,
    position: (x) => 0.04 + 0.96 * logPosition(x, from, high),
    log: true,
  };
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

/** Index of the row under y, or -1. */
export const rowUnder = (tops, size, y) => tops.findIndex((top) => y >= top && y < top + size);
