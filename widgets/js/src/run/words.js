// Text and lengths of a run's picture. No DOM.

import { paintedErrors } from "../common/errors.js";
import { bytes, DASH, fixed, known, MINUS, percent, seconds } from "../common/format.js";

const NBSP = "\u00a0";

/** A relative error with its sign: "+2.4 %", "0.0 %". @param {number|null} error */
export function errorText(error) {
  if (!known(error)) return DASH;
  const text = percent(Math.abs(error), Math.abs(error) >= 9.995 ? 0 : 1);
  if (Number(Math.abs(error * 100).toFixed(1)) === 0) return text;
  return (error < 0 ? MINUS : "+") + text;
}

/** A row's number. @param {number|null} x @param {string} quantity */
export function valueText(x, quantity) {
  if (!known(x)) return DASH;
  if (quantity === "ratio") return `${fixed(x, 2)}${NBSP}×`;
  if (quantity === "fraction") return fixed(x, 2);
  if (quantity === "bytes_per_s") return rate(x);
  if (quantity === "bytes") return bytes(x);
  return seconds(x);
}

/** Bytes a second in decimal units, as links are sold. @param {number} x */
function rate(x) {
  for (const [scale, unit] of [
    [1e12, "TB/s"],
    [1e9, "GB/s"],
    [1e6, "MB/s"],
    [1e3, "kB/s"],
  ]) {
    if (x >= scale * 0.9995) return `${fixed(x / scale, x / scale >= 99.95 ? 0 : 1)}${NBSP}${unit}`;
  }
  return `${bytes(x)}/s`;
}

/** Shares of the widest bar, 0 to 1, for rows that have a bar: parts of a step, not ratios. */
export function barShares(rows) {
  const parts = rows.filter((row) => row.quantity === "seconds" && !row.strong);
  const widest = Math.max(1e-12, ...parts.flatMap((row) => [row.predicted ?? 0, row.measured ?? 0]));
  return new Map(parts.map((row) => [row.name, [(row.predicted ?? 0) / widest, (row.measured ?? 0) / widest]]));
}

/** Shares of the longest action, 0 to 1, by stage and action. @param {any[]} rows */
export function actionShares(rows) {
  const longest = Math.max(1e-12, ...rows.flatMap((row) => [row.predicted_s, row.measured_s]));
  return new Map(rows.map((row) => [`${row.stage} ${row.action}`, [row.predicted_s / longest, row.measured_s / longest]]));
}

/** Colours of all errors of a table, on one scale. @param {any[]} rows @returns {(error: number|null) => {fill: string, ink: string}|null} */
export const errorColours = (rows) => paintedErrors(rows.flatMap((row) => [row.error, row.profile_error]).filter(known)).colour;

/** "about 12 s left" @param {number|null} left */
export function leftText(left) {
  if (!known(left)) return "";
  if (left > 90) return `about ${fixed(left / 60)}${NBSP}min left`;
  return `about ${Math.max(1, Math.round(left))}${NBSP}s left`;
}

/** How far a rank is in its case, 0 to 1 in predicted time, or null. @param {{at_s?: number|null, of_s?: number|null}} row */
export const courseShare = ({ at_s, of_s }) => (known(at_s) && known(of_s) && of_s > 0 ? Math.min(1, at_s / of_s) : null);

/** "The same steps took 312 ms on torch's own pipelining, 5.5 % less than on this interpreter (330 ms); gradients ..." @param {{name: string, step_s: number, gradient: number|null}[]} engines ours first */
export function engineText(engines) {
  if (engines.length < 2) return "";
  const [own, other] = engines;
  const change = other.step_s / own.step_s - 1;
  const than = Math.abs(change) < 0.0005 ? "as long as" : `${percent(Math.abs(change), 1)} ${change < 0 ? "less than" : "more than"}`;
  const [far, near] = [other, own].map(({ gradient }) => (known(gradient) ? gradient.toExponential(0) : DASH));
  return `The same steps took ${seconds(other.step_s)} on ${other.name}, ${than} on ${own.name} (${seconds(own.step_s)}). Gradients differ from those of one process by ${far} and ${near}.`;
}
