// What colour says about a node: a share of the largest on a log scale, or a signed error. No DOM.

import { painted, paintedErrors } from "../common/errors.js";
import { bytes, fixed, known, percent, seconds } from "../common/format.js";
import { cividis, logPosition } from "../common/scales.js";

/** @typedef {"time"|"memory"|"traffic"|"device"|"error"} Mode */

/** Modes in the order of their buttons. @type {[Mode, string][]} */
export const MODES = [
  ["time", "Time"],
  ["memory", "Memory"],
  ["traffic", "Traffic"],
  ["device", "Device"],
  ["error", "Error"],
];

const SPAN = 1e4; // the scale ends this far below its top: what is less is as dark as can be

const VALUE = {
  time: (n) => (n.forward_s ?? 0) + (n.backward_s ?? 0),
  memory: (n) => n.memory_bytes ?? 0,
  traffic: (n) => n.traffic_bytes ?? 0,
  error: (n) => n.error,
  device: () => null,
};

/**
 * The scale that all closed nodes shown share.
 * @param {any[]} nodes @param {Mode} mode
 * @returns {{low: number, top: number, colour: (n: any) => {fill: string, ink: string}|null}}
 */
export function scaleOf(nodes, mode) {
  const values = nodes.filter((n) => !n.open).map((n) => VALUE[mode](n)).filter(known);
  if (mode === "device") return { low: 0, top: 0, colour: () => null };
  if (mode === "error") {
    const { top, colour } = paintedErrors(values);
    return { low: -top, top, colour: (n) => colour(n.error) };
  }
  const top = Math.max(...values, 0);
  const least = Math.min(...values.filter((v) => v > 0), top);
  const low = Math.max(least, top / SPAN);
  return { low, top, colour: (n) => painted(cividis(logPosition(VALUE[mode](n), low, top))) };
}

/** "+12 %", with its sign always. @param {number|null} error */
export function errorText(error) {
  if (!known(error)) return percent(null);
  const text = percent(error, Math.abs(error) < 0.0995 ? 1 : 0);
  return error > 0 ? `+${text}` : text;
}

/** The number written on a node. @param {any} node @param {Mode} mode */
export function valueText(node, mode) {
  if (mode === "device") return "";
  if (mode === "error") return errorText(node.error);
  return mode === "time" ? seconds(VALUE.time(node)) : bytes(VALUE[mode](node));
}

/** Words and numbers of the legend. @returns {{low: string, high: string, note: string}|null} */
export function legendOf({ low, top }, mode) {
  if (mode === "device") return null;
  if (mode === "error") return { low: errorText(low), high: errorText(top), note: "prediction against run: + too slow, − too fast" };
  const text = mode === "time" ? seconds : bytes;
  return { low: text(low), high: text(top), note: top > 0 && low < top ? "log scale" : fixed(0) && "" };
}
