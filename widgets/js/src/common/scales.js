// Linear and logarithmic scales, ticks, the sequential colour map and the ink that can be read on it. No DOM.

/** Steps of 1, 2 or 5 x 10^n: about `wanted` of them from 0 to `end`. @returns {number[]} */
export function ticks(end, wanted, start = 0) {
  const span = end - start;
  if (!(span > 0) || wanted < 1) return [];
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const first = Math.ceil(start / step - 1e-9) || 0; // never -0
  const result = [];
  for (let i = first; i * step <= end + step * 1e-9; i += 1) result.push(i * step);
  return result;
}

/** Position of `x` between low and high on a log scale, 0 to 1. */
export function logPosition(x, low, high) {
  if (!(x > 0)) return 0;
  if (!(high > low) || !(low > 0)) return 1;
  return Math.min(1, Math.max(0, Math.log(x / low) / Math.log(high / low)));
}

const CIVIDIS = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"].map((hex) =>
  [0, 2, 4].map((i) => Number.parseInt(hex.slice(i, i + 2), 16)),
);

/** The cividis colour at t in 0..1. @param {number} t @returns {number[]} red, green, blue, 0 to 255 */
export function cividis(t) {
  const at = Math.min(0.99999, Math.max(0, t)) * (CIVIDIS.length - 1);
  const i = Math.floor(at);
  return CIVIDIS[i].map((v, k) => Math.round(v + (CIVIDIS[i + 1][k] - v) * (at - i)));
}

/** @param {number[]} colour */
export const rgb = ([r, g, b]) => `rgb(${r} ${g} ${b})`;

/** Relative luminance as WCAG defines it. @param {number[]} colour */
export function luminance(colour) {
  const [r, g, b] = colour.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Contrast of two colours, 1 to 21. */
export function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}

/** Black or white, whichever reads better on `colour`. @param {number[]} colour */
export const inkOn = (colour) => (contrast(colour, [0, 0, 0]) >= contrast(colour, [255, 255, 255]) ? "#000" : "#fff");
