// The one place where seconds, bytes and fractions become text. Everything else in the page is SI.
// A true minus, a narrow no-break space between thousands, a no-break space before the unit.

export const MINUS = "\u2212";
export const DASH = "\u2013";
const THIN = "\u202f";
const NBSP = "\u00a0";

const TIME_UNITS = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];
const BYTE_UNITS = [
  [2 ** 50, "PiB"],
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"],
];

/** Is this a number that can be shown? @param {unknown} x @returns {x is number} */
export const known = (x) => typeof x === "number" && Number.isFinite(x);

/** Fixed decimals with thousands and a true minus. @param {number} x @param {number} [decimals] */
export function fixed(x, decimals = 0) {
  const [whole, rest] = Math.abs(x).toFixed(decimals).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, THIN) + (rest ? `.${rest}` : "");
  return (x < 0 && Number(Math.abs(x).toFixed(decimals)) !== 0 ? MINUS : "") + text;
}

/** Three significant digits, never an exponent. @param {number} x */
export function significant(x) {
  const size = Math.abs(x);
  return fixed(x, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function pick(size, units, least) {
  for (const unit of units) if (size >= unit[0] * least) return unit;
  return units[units.length - 1];
}

/** Seconds in the unit that suits `like` (default: itself). @returns {{text: string, unit: string}} */
export function secondsParts(s, like = s) {
  if (!known(s)) return { text: DASH, unit: "" };
  if (like === 0) return { text: "0", unit: "ms" };
  const [scale, unit] = pick(Math.abs(like), TIME_UNITS, 0.9995);
  const x = s / scale;
  const decimals = unit === "s" ? (Math.abs(x) >= 99.95 ? 0 : Math.abs(x) >= 9.995 ? 1 : 2) : Math.abs(x) >= 99.95 ? 0 : 1;
  return { text: fixed(x, decimals), unit };
}

/** "6.44 s", "351 ms", "1.5 ms". @param {number|null} s @param {number} [like] */
export const seconds = (s, like) => join(secondsParts(s, like));

/** Bytes in the unit that suits `like`. @returns {{text: string, unit: string}} */
export function bytesParts(b, like = b) {
  if (!known(b)) return { text: DASH, unit: "" };
  const [scale, unit] = pick(Math.abs(like), BYTE_UNITS, 0.95);
  const x = b / scale;
  return { text: fixed(x, unit === "B" || Math.abs(x) >= 99.95 || (scale < 2 ** 30 && Math.abs(x) >= 9.95) ? 0 : 1), unit };
}

/** "75.2 GiB", "32 MiB". @param {number|null} b @param {number} [like] */
export const bytes = (b, like) => join(bytesParts(b, like));

/** "95 %", "24.1 %". @param {number|null} fraction @param {number} [decimals] */
export const percent = (fraction, decimals = 0) => (known(fraction) ? `${fixed(fraction * 100, decimals)}${NBSP}%` : DASH);

/** A sign always: "+6 %". @param {string} text */
export const signed = (text) => (text.startsWith(MINUS) || /^[0.\s\u202f\u00a0]*(\D*)$/.test(text) ? text : `+${text}`);

/** Large counts: "218 M". @param {number|null} n */
export function count(n) {
  if (!known(n)) return DASH;
  for (const [scale, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (Math.abs(n) >= scale * 0.9995) return `${significant(n / scale).replace(/\.0+$/, "")}${NBSP}${unit}`;
  }
  return fixed(n);
}

/** "1 block", "2 blocks". @param {number} n @param {string} noun */
export const plural = (n, noun) => `${fixed(n)} ${noun}${n === 1 ? "" : "s"}`;

/** @param {{text: string, unit: string}} parts */
const join = ({ text, unit }) => (unit ? `${text}${NBSP}${unit}` : text);

/** Sentences from Python write "6.6%" and "451 us"; the page puts a space before every unit, and writes µ. @param {string} text */
export const typeset = (text) =>
  String(text ?? "")
    .replace(/(\d)%/g, "$1\u00a0%")
    .replace(/(\d)[ \u00a0]?us\b/g, "$1\u00a0µs");
