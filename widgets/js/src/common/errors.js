// Colours of a signed error of a prediction: blue too fast, orange too slow. No DOM.

import { known } from "./format.js";
import { inkOn, rgb } from "./scales.js";

const LEAST_ERROR = 0.05; // a scale of noise would shout
const MOST_ERROR = 1; // one layer of a few microseconds would make all others grey

const DIVERGING = ["0b4f94", "4d94c8", "b7d4e8", "eef0f2", "f7cf9f", "e08a30", "9c4600"].map((hex) =>
  [0, 2, 4].map((i) => Number.parseInt(hex.slice(i, i + 2), 16)),
);

/** Blue below, orange above, at t in -1..1. @param {number} t @returns {number[]} */
export function diverging(t) {
  const at = ((Math.min(1, Math.max(-1, t)) + 1) / 2) * (DIVERGING.length - 1) * 0.999999;
  const i = Math.floor(at);
  return DIVERGING[i].map((v, k) => Math.round(v + (DIVERGING[i + 1][k] - v) * (at - i)));
}

/** CSS stops of the diverging scale, for its legend. */
export const DIVERGING_STOPS = DIVERGING.map((colour) => rgb(colour)).join(", ");

/** @param {number[]} colour */
export const painted = (colour) => ({ fill: rgb(colour), ink: inkOn(colour) });

/**
 * The scale that some errors share, and its colours.
 * @param {number[]} errors
 * @returns {{top: number, colour: (error: number|null) => {fill: string, ink: string}|null}}
 */
export function paintedErrors(errors) {
  const top = Math.min(MOST_ERROR, Math.max(LEAST_ERROR, ...errors.map(Math.abs)));
  return { top, colour: (error) => (known(error) ? painted(diverging(error / top)) : null) };
}
