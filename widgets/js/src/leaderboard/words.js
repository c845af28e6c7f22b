// The leaderboard's numbers in words: one unit for each column, a sign on every difference. No DOM.

import { bytes, bytesParts, DASH, fixed, known, percent, plural, seconds, secondsParts, signed, significant } from "../common/format.js";

/** @typedef {{id: string, searcher: string, space: string, label: string, detail?: string, value: number|null, step_s: number|null,
 *   peak_bytes: number|null, change: number|null, gap: number|null, answer: string, wall_s: number|null, level: string|null,
 *   loadable: boolean, note: string, on_board: boolean}} Row */

/** Units of the two columns that all rows share: that of the shortest step, that of the largest memory. @param {Row[]} rows */
function units(rows) {
  const steps = rows.map((row) => row.step_s).filter(known);
  const peaks = rows.map((row) => row.peak_bytes).filter(known);
  const [step, peak] = [Math.min(...steps), Math.max(...peaks)];
  return {
    step: steps.length ? step : 1,
    peak: peaks.length ? peak : 2 ** 30,
    stepUnit: steps.length ? secondsParts(step).unit : "s",
    peakUnit: peaks.length ? bytesParts(peak).unit : "GiB",
  };
}

/** Column heads. @param {Row[]} rows @param {{name: string, unit: string}|null} objective */
export function heads(rows, objective) {
  const { stepUnit, peakUnit } = units(rows);
  return {
    searcher: "searcher",
    space: "chooses from",
    label: "best strategy",
    value: objective ? `${objective.name}, ${objective.unit}` : null,
    step: `step,\u00a0${stepUnit}`,
    change: "vs yours",
    peak: peakUnit,
    gap: "gap to\u00a0bound",
    answer: "answer",
  };
}

/** The cells of a row. @param {Row} row @param {Row[]} rows */
export function cells(row, rows) {
  const { step, peak } = units(rows);
  return {
    searcher: row.searcher,
    space: row.space,
    label: row.label,
    value: known(row.value) ? significantSmall(row.value) : DASH,
    step: known(row.step_s) ? secondsParts(row.step_s, step).text : DASH,
    change: row.id === "yours" ? "" : changeText(row.change),
    peak: known(row.peak_bytes) ? bytesParts(row.peak_bytes, peak).text : DASH,
    gap: known(row.gap) ? percent(row.gap) : "",
    answer: answerText(row),
  };
}

/** "−14.9 %", "0 %". @param {number|null} change */
export function changeText(change) {
  if (!known(change)) return "";
  const text = percent(change, 1);
  return text.replace(/[^0-9]/g, "").replace(/0/g, "") === "" ? percent(0) : signed(text);
}

/** Three digits also far below one. @param {number} x */
export const significantSmall = (x) =>
  x !== 0 && Math.abs(x) < 0.0995 ? fixed(x, Math.min(12, 2 - Math.floor(Math.log10(Math.abs(x))))) : significant(x);

/** "optimal, 4.1 s". @param {Row} row */
export const answerText = ({ answer, wall_s: wall }) =>
  known(wall) && wall > 0 ? (answer ? `${answer}, ${wallText(wall)}` : wallText(wall)) : answer;

/** Time of a search: tenths below ten seconds. @param {number} s */
export const wallText = (s) => (s < 0.05 ? "< 0.1" : fixed(s, s < 9.95 ? 1 : 0)) + "\u00a0s";

/** Width of the bar of a gap in percent of the widest. @param {Row[]} rows */
export function gapShare(row, rows) {
  const most = Math.max(...rows.map((item) => item.gap).filter(known), 0);
  return known(row.gap) && most > 0 ? Math.max(2, (100 * Math.max(0, row.gap)) / most) : 0;
}

/** What a screen reader says of a row. @param {Row} row */
export function rowName(row) {
  const parts = [row.id === "yours" ? "yours, the strategy on the board" : row.searcher, row.label];
  if (known(row.step_s)) parts.push(`${seconds(row.step_s)} a step`);
  if (row.id !== "yours" && known(row.change)) parts.push(`${changeText(row.change)} against yours`);
  if (row.on_board && row.id !== "yours") parts.push("on the board");
  if (row.answer) parts.push(row.answer);
  if (row.note) parts.push(row.note);
  return parts.filter(Boolean).join(", ");
}

/** Where the focus goes from a row by key; null for keys of others. */
export function nextRow(key, at, count) {
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: count - 1, PageDown: at + 5, PageUp: at - 5 }[key];
  return to == null || !count ? null : Math.min(count - 1, Math.max(0, to));
}

/** @typedef {{name: string, title: string, unit: string, one: number}} Axis an axis of the frontier: how much one of its unit is */

/** Step time and memory, along which every search keeps a frontier. @param {Axis[]} axes */
const usual = (axes) => axes.length === 2 && axes.every((axis) => axis.name === "time" || axis.name === "memory");

/** Below the frontier's heading. @param {number} omitted @param {Axis[]} axes */
export function frontierText(omitted, axes) {
  const more = omitted ? `; ${plural(omitted, "more point")} in the chart` : "";
  if (usual(axes)) return `nothing found is both faster and smaller${more}`;
  const names = axes.map((axis) => axis.title);
  return `nothing found is as good in ${names.slice(0, -1).join(", ")} and ${names[names.length - 1]} at once${more}`;
}

/** Columns of numbers of the frontier: its axes, then step time and memory where these are none. @param {Axis[]} axes */
export function frontierColumns(axes) {
  const has = (name) => axes.some((axis) => axis.name === name);
  return [
    ...axes.map((axis, i) => ({ key: axis.name, head: axisHead(axis), text: (point) => axisText(axis, point.values[i]) })),
    ...(has("time") ? [] : [{ key: "time", head: "step", text: (point) => seconds(point.step_s) }]),
    ...(has("memory") ? [] : [{ key: "memory", head: "memory", text: (point) => bytes(point.peak_bytes) }]),
  ];
}

/** @param {Axis} axis */
function axisHead({ name, title, unit }) {
  if (name === "time") return "step";
  if (name === "memory") return "memory";
  return unit ? `${title}, ${unit}` : title;
}

/** A value along an axis: step times and memory with a unit each, others in that of the head. @param {Axis} axis */
export function axisText({ name, unit, one }, value) {
  if (name === "time") return seconds(value);
  if (name === "memory") return bytes(value);
  return unit ? significantSmall(value / one) : fixed(value / one); // without a unit it counts things
}
