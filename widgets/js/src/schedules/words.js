// What the table of schedules says. No DOM.

import { bytes, fixed, percent, seconds, signed } from "../common/format.js";

/** Rows under the headings of their groups; groups without rows are left out. */
export function byGroup(view) {
  return (view.groups ?? [])
    .map((group) => ({ ...group, rows: (view.rows ?? []).filter((row) => row.group === group.name) }))
    .filter((group) => group.rows.length);
}

/** Words of the figures' columns. @param {any} row @param {any} shown figures of the schedule on the board */
export function cells(row, shown) {
  const found = row.figures;
  if (!found) return { bubble: "", activations: "", versions: "", step: "", change: "" };
  const most = Math.max(0, ...found.activation_bytes);
  const change = shown && !row.shown ? found.step_s / shown.step_s - 1 : null;
  return {
    bubble: percent(found.bubble, 1),
    activations: bytes(most),
    versions: fixed(found.versions),
    step: seconds(found.step_s),
    change: change == null ? "" : Math.abs(change) < 5e-4 ? "the same" : signed(percent(change, 1)),
  };
}

/** "stage 0: 12 GiB, stage 1: 9 GiB" of a row. */
export const deviceWords = (row, lanes) => row.figures.activation_bytes.map((size, i) => `${lanes[i] ?? i}: ${bytes(size)}`).join(", ");

/** Paper, needs, and whether the model is cut anew, in one line. */
export function footWords(row) {
  return [row.paper, row.needs && `needs ${row.needs}`, row.cuts ? `cuts the model anew: ${row.cuts}` : ""].filter(Boolean).join(" · ");
}

/** Why there are no figures yet, or what is wrong. */
export function stateWords(row) {
  if (row.problem) return row.problem;
  return { waiting: "being simulated", asked: "not simulated unasked", counted: "" }[row.state] ?? "";
}
