// What a heatmap says: cells, its title, its summary, its table. No DOM but the table's.

import { bytes, fixed, percent, plural, seconds, signed } from "../common/format.js";
import { table } from "../common/table.js";

const TABLE_ROWS = 400;

/** A value in its unit. @param {any} grid @param {number|null} value */
export const told = (grid, value) => (value == null ? "nothing" : grid.unit === "share" ? percent(value, value < 0.0995 ? 1 : 0) : bytes(value));

/** The time in the middle of a column. */
export const timeAt = (grid, k) => grid.start_s + ((k + 0.5) / grid.columns) * (grid.end_s - grid.start_s);

/** Where a cell is: "gpu 3 at 1.20 s", "gpu 3, weights", "gpu 0 → gpu 2". */
export function placeWords(grid, { r, k }) {
  const row = grid.rows[r];
  const name = row.count > 1 ? `${row.name} (${row.count})` : row.name;
  if (grid.kind === "time") return `${name} at ${seconds(timeAt(grid, k), grid.end_s)}`;
  return grid.kind === "parts" ? `${name}, ${grid.names[k]}` : `${row.name} → ${grid.names[k]}`;
}

/** What a cell holds, with what that means. */
export function valueWords(view, grid, { r, k }) {
  const value = grid.value(r, k);
  if (grid.unit === "share") return `${value == null ? "not used" : `${told(grid, value)} in use`}, of ${bytes(grid.rows[r].bytes_per_s)}/s`;
  if (grid.kind === "pairs") return value == null ? "nothing" : `${bytes(value)} a step`;
  if (value == null) return grid.kind === "parts" ? "none" : "unknown";
  const capacity = grid.kind === "parts" ? grid.capacity[r] : view.capacity_bytes;
  const over = value > capacity ? `, ▲ ${bytes(value - capacity)} over` : "";
  return `${bytes(value)}, ${percent(value / capacity)} of capacity${over}`;
}

/** The second plan at the same place: its value and the difference. */
export function againstWords(grid, other, name, { r, k }) {
  const row = other.rows.findIndex((item) => item.name === grid.rows[r].name);
  if (row < 0) return `${name}: not used`;
  const column = grid.kind === "time" ? columnAt(other, timeAt(grid, k)) : grid.names ? other.names.indexOf(grid.names[k]) : k;
  if (column < 0 || column >= other.columns) return `${name}: nothing`;
  const [a, b] = [grid.value(r, k) ?? 0, other.value(row, column)];
  const difference = (b ?? 0) - a;
  const shown = grid.unit === "share" ? `${fixed(difference * 100, 1)} points` : bytes(difference, Math.max(a, b ?? 0));
  return `${name}: ${told(other, b)}${difference ? `, ${signed(shown)}` : ", the same"}`;
}

/** The column of a time, or -1 beyond the end. */
export function columnAt(grid, t) {
  const k = Math.floor(((t - grid.start_s) / (grid.end_s - grid.start_s)) * grid.columns);
  return k < grid.columns ? k : -1;
}

const TITLES = {
  "memory time": ["Memory", "device by time, one step"],
  "memory parts": ["Memory", "device by part, at its peak"],
  "traffic pairs": ["Communication", "row to column, one step"],
  "traffic links": ["Communication", "share of each link in use, one step"],
};

/** Heading and what stands beside it. @returns {[string, string]} */
export function titleOf(view, shown) {
  const own = shown === "time" || shown === "pairs" ? view.title : null;
  const [head, sub] = own ? [own.split(/,(.*)/s)[0], own.split(/,(.*)/s)[1]?.trim() ?? ""] : (TITLES[`${view.kind} ${shown}`] ?? ["Heatmap", ""]);
  const folded = shown === "links" ? view.links.folded : view.folded;
  return [head, [sub, folded && `rows are folded: ${folded}`].filter(Boolean).join("; ")];
}

/** What the picture shows, in a sentence. */
export function summary(view, grid, shown) {
  if (shown === "pairs") return `${plural(view.pairs.length, "pair")}, at most ${bytes(grid.high)}.`;
  if (shown === "links") {
    const busiest = view.links.rows.reduce((a, b) => (b.share > a.share ? b : a));
    return `${plural(view.links.rows.length, "row")}; the busiest is ${busiest.name}, ${percent(busiest.share, 1)} on average.`;
  }
  if (shown === "parts" || !view.peak) return `${plural(view.rows.length, "row")}.`;
  return `Peak ${bytes(view.peak.bytes)} on ${view.rows[view.peak.row]?.name} at ${seconds(view.peak.time_s)}.`;
}

/** The picture as a table; of several plans one below the other. @param {{view: any, grid: any, name: string}[]} plans @param {string} shown */
export function asTable(plans, shown) {
  const several = plans.length > 1;
  const first = (name, cells) => (several ? [name, ...cells] : cells);
  if (shown === "pairs") {
    const rows = plans.flatMap(({ view, name }) => view.pairs.map(([a, b, n]) => first(name, [view.rows[a].name, view.rows[b].name, bytes(n)])));
    return table("Bytes sent in one step", first("plan", ["from", "to", "bytes"]), rows.slice(0, TABLE_ROWS), rows.length);
  }
  const { grid } = plans[0];
  const timed = grid.kind === "time";
  const at = timed ? Array.from({ length: Math.min(8, grid.columns) }, (_, i) => Math.floor(((i + 0.5) / Math.min(8, grid.columns)) * grid.columns)) : grid.names.map((_, k) => k);
  const columns = [shown === "links" ? "link" : "device", ...(timed ? ["peak", ...at.map((k) => seconds(timeAt(grid, k), grid.end_s))] : grid.names)];
  const rows = plans.flatMap(({ grid: own, name }) =>
    own.rows.map((row, r) =>
      first(name, [row.name, ...(timed ? [told(own, most(own, r))] : []), ...at.map((k) => (own.value(r, k) == null ? "" : told(own, own.value(r, k))))]),
    ),
  );
  const caption = { time: "Memory in use", parts: "Memory at the peak", links: "Share of each link in use" }[shown];
  return table(caption, first("plan", columns), rows.slice(0, TABLE_ROWS), rows.length);
}

/** Largest value of a row. */
export function most(grid, r) {
  let top = null;
  for (let k = 0; k < grid.columns; k += 1) {
    const v = grid.value(r, k);
    if (v != null && (top == null || v > top)) top = v;
  }
  return top;
}
