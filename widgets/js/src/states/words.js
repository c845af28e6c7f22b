// What a row of the list of states says, and where arrow keys lead. No DOM.

import { bytes, percent, seconds, signed } from "../common/format.js";

/** Texts of the cells. @param {any} row @returns {Record<string, string>} */
export function cells(row) {
  const fits = row.over_bytes > 0 ? `${bytes(row.over_bytes)} over` : "fits";
  return {
    time: row.time,
    note: row.note,
    maker: row.maker === "board" ? "by hand" : row.maker,
    step: seconds(row.step_time_s),
    change: row.change == null || Math.abs(row.change) < 5e-5 ? "" : signed(percent(row.change, 1)),
    memory: percent(row.peak_fraction),
    fits,
  };
}

/** The mark before a row, in words. @param {any} row */
export const mark = (row) => (row.shown ? (row.is_b ? "shown, B" : "shown") : row.is_b ? "plan B" : "");

/** One sentence for who does not see the columns. @param {any} row */
export function spoken(row) {
  const own = cells(row);
  const parts = [own.note, own.step, `memory ${own.memory}, ${own.fits}`, `at ${own.time}`, mark(row)];
  return parts.filter(Boolean).join(", ");
}

/** Row that a key leads to, or null. @param {string} key @param {number} at @param {number} count */
export function nextRow(key, at, count) {
  const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -count, End: count };
  if (!(key in steps) || !count) return null;
  return Math.min(count - 1, Math.max(0, at + steps[key]));
}
