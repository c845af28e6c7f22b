// Where things stand in a heatmap: one panel a plan, beside each other if there is room. No DOM.

import { rowPlaces } from "./cells.js";

const BESIDE_PX = 860;
/** Cells that are narrower have no number on them. */
export const NUMBER_PX = 24;
const GAP_PX = 24;
/** A cell of a map is at most so many times as wide as high. */
const WIDEST = 2.5;
const LETTER_PX = 6.6;
const TITLE_PX = 18;

/** Height of a row, by how many there are. */
const rowSize = (rows, least = 11) => (rows <= 16 ? 28 : rows <= 32 ? 16 : least);

/**
 * @param {any[]} grids one a plan @param {number} width @param {{t0: number, t1: number}} [seen] the stretch of time, the same for all
 * @returns {{panels: any[], height: number}} a panel: x, left (of the cells), right, size, tops, columns (lefts, widths), top, height;
 *   over time also `axis` and `from`, `to`: where its own time begins and ends
 */
export function panelsOf(grids, width, seen = { t0: 0, t1: Math.max(...grids.map((grid) => grid.end_s ?? 0)) || 1 }) {
  const several = grids.length > 1;
  const share = (width - GAP_PX) / grids.length;
  const legible = grids.every((grid) => grid.kind === "pairs" && panelOf(grid, 0, share, 0, seen).size >= NUMBER_PX);
  const beside = several && (width >= BESIDE_PX || legible);
  const each = beside ? share : width;
  let y = 0;
  let height = 0;
  const panels = grids.map((grid, p) => {
    const panel = panelOf(grid, beside ? p * (each + GAP_PX) : 0, each, y + (several ? TITLE_PX : 0), seen);
    panel.title = several ? y + 12 : null;
    if (!beside) y = panel.height + 14;
    height = Math.max(height, panel.height);
    return panel;
  });
  return { panels, height };
}

function panelOf(grid, x, width, top, seen) {
  const longest = Math.max(...grid.rows.map((row) => row.name.length));
  const left = x + Math.round(Math.min(width * 0.4, 170, longest * LETTER_PX + 14));
  const room = x + width - left - 4;
  if (grid.kind === "pairs") {
    const size = Math.max(5, Math.min(36, Math.floor((room - 4) / grid.columns) - 2));
    const { tops, height } = rowPlaces(grid.rows, size, top + 20);
    const wide = Math.max(1, Math.min(WIDEST, (room - 4) / (height - tops[0]))); // no empty column beside it
    const lefts = tops.map((at) => left + (at - tops[0]) * wide);
    const right = left + (height - tops[0]) * wide;
    return { x, left, right, size, tops, lefts, widths: lefts.map(() => size * wide), top, height: height + 4 };
  }
  const size = rowSize(grid.rows.length, grid.kind === "parts" ? 15 : 11);
  const { tops, height } = rowPlaces(grid.rows, size, top + 18);
  if (grid.kind === "parts") {
    const each = Math.min(96, room / grid.columns);
    const lefts = Array.from({ length: grid.columns }, (_, k) => left + k * each);
    return { x, left, right: left + each * grid.columns, size, tops, lefts, widths: lefts.map(() => each - 2), top, height: height + 4 };
  }
  const axis = { left, room, t0: seen.t0, span: seen.t1 - seen.t0 };
  const at = (t) => Math.min(left + room, Math.max(left, timeX(axis, t)));
  const right = at(grid.end_s);
  return { x, left, from: at(grid.start_s), right, size, tops, lefts: null, widths: null, top, height: height + 20, axis };
}

/** Where a time stands, also beyond what is seen. @param {{left: number, room: number, t0: number, span: number}} axis @param {number} t */
export const timeX = (axis, t) => axis.left + ((t - axis.t0) / axis.span) * axis.room;

/** The time at a place. */
export const xTime = (axis, x) => axis.t0 + ((x - axis.left) / axis.room) * axis.span;

/** The column of a time, as a fraction; outside of the grid below 0 or beyond its last. */
export const columnOf = (grid, t) => ((t - grid.start_s) / (grid.end_s - grid.start_s)) * grid.columns;

/** The cell under a point of a panel, or null. */
export function cellUnder(grid, panel, x, y) {
  const r = panel.tops.findIndex((top) => y >= top && y < top + panel.size);
  if (r < 0 || x < panel.left) return null;
  const k = panel.lefts
    ? panel.lefts.findIndex((left, i) => x >= left && x < left + panel.widths[i])
    : Math.floor(columnOf(grid, xTime(panel.axis, x)));
  return k < 0 || k >= grid.columns ? null : { r, k };
}

/** Box of a cell: x, y, width, height. */
export function boxOf(grid, panel, { r, k }) {
  if (panel.lefts) return [panel.lefts[k], panel.tops[r], panel.widths[k], panel.size];
  const at = (column) => timeX(panel.axis, grid.start_s + (column / grid.columns) * (grid.end_s - grid.start_s));
  return [at(k), panel.tops[r], at(k + 1) - at(k), panel.size];
}
