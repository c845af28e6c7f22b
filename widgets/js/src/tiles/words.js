// A tile's numbers in words: value, difference to the baseline, measurement against the predicted band. No DOM.

import { bytes, bytesParts, fixed, known, percent, seconds, secondsParts, signed, significant, DASH } from "../common/format.js";

/** Number and unit apart, for the large figure. @returns {{text: string, unit: string}} */
export function valueParts({ quantity, value, unit }) {
  if (!known(value)) return { text: DASH, unit: "" };
  if (quantity === "seconds") return secondsParts(value);
  if (quantity === "bytes") return bytesParts(value);
  if (quantity === "fraction") return { text: fixed(value * 100, Math.abs(value) >= 0.9 ? 0 : 1), unit: "%" };
  if (quantity === "ratio") return { text: significant(value), unit: "×" };
  if (quantity === "per_second" && value >= 1e6) return { text: significant(value / 1e6), unit: `M ${unit ?? ""}`.trim() };
  return { text: significant(value), unit: unit ?? "" };
}

/** The same in one piece, small. */
export function valueText({ quantity, unit }, value) {
  if (quantity === "seconds") return seconds(value);
  if (quantity === "bytes") return bytes(value);
  if (quantity === "fraction") return percent(value, Math.abs(value) >= 0.9 ? 0 : 1);
  if (quantity === "ratio") return `${significant(value)} ×`;
  return value >= 1e4
    ? `${significant(value / 1e3)} k`
    : `${significant(value)}${quantity === "number" && unit ? ` ${unit}` : ""}`;
}

/** "−3.4 %", "+9.0 pt" or "+14 ms" against the baseline, or null. */
export function deltaText(tile) {
  const { value, baseline } = tile;
  if (!known(value) || !known(baseline)) return null;
  const compare = tile.compare ?? (tile.quantity === "fraction" ? "points" : "percent");
  if (compare === "points") return signed(`${fixed((value - baseline) * 100, 1)} pt`);
  if (compare === "difference") return signed(valueText(tile, value - baseline));
  return baseline === 0 ? null : signed(percent(value / baseline - 1, 1));
}

/** Half-width of the 80 % band, beside the name: "±6 %", "±2.1 pt" or "±14 ms"; null without a band. */
export function bandText(tile) {
  const { value, low, high } = tile;
  if (!known(value) || !known(low) || !known(high)) return null;
  const half = Math.max(high - value, value - low);
  if (tile.quantity === "fraction") return `±${fixed(half * 100, 1)}\u00a0pt`;
  if (tile.compare === "difference" || value === 0) return `±${valueText(tile, half)}`;
  return `±${percent(half / value, half < 0.1 * value ? 1 : 0)}`;
}

/** "8.19–9.07 s": the ends of the band, their unit once where it is the same. */
function endsText(tile) {
  const [low, high] = [valueText(tile, tile.low), valueText(tile, tile.high)];
  const [number, unit] = low.split(/(?=\u00a0\D|\s[^\d\s])/);
  return unit && high.endsWith(unit) ? `${number}–${high}` : `${low}–${high}`;
}

/** The band in words, and where it comes from. */
export function bandTitle(tile) {
  const from = tile.band_from ? `. ${tile.band_from}` : "";
  return `80 % band ${valueText(tile, tile.low)} to ${valueText(tile, tile.high)}${from}`;
}

/** What is said of a figure without a band. */
export const NO_BAND = "No band yet: it is worked out in quiet moments, by simulating the plan with every uncertain number of the profile at both ends";

/** "How sure" in full: sentences about the band, where it comes from and what would narrow it. @returns {{title: string, lines: string[]}} */
export function sureWords(tile) {
  const half = bandText(tile);
  const title = `${tile.name} ${valueText(tile, tile.value)}${half ? ` ${half}` : ""}`;
  if (!half) return { title, lines: [`${NO_BAND}.`] };
  const from = tile.band_from ? [`${tile.band_from}.`] : [];
  const band = `In four of five cases between ${valueText(tile, tile.low)} and ${valueText(tile, tile.high)}.`;
  return { title, lines: [band, ...from, ...(tile.narrow ? [tile.narrow] : [])] };
}

/** Is the measurement outside the predicted band? */
export const outside = ({ measured, low, high, old }) =>
  !old && known(measured) && known(low) && known(high) && (measured < low || measured > high);

/** Third line: measured value, what it is now (in a preview), a note, or the ends of the band ("80 % 8.19–9.07 s"). @returns {{lead: string, value: string}} */
export function measuredText(tile) {
  if (known(tile.measured))
    return {
      lead: tile.old ? "measured before" : "measured",
      value: `${valueText(tile, tile.measured)}${outside(tile) ? " ▲" : ""}`,
    };
  if (known(tile.now)) return { lead: "now", value: valueText(tile, tile.now) };
  if (tile.note) return { lead: tile.note, value: "" };
  if (!known(tile.low) || !known(tile.high) || !known(tile.value) || tile.value === 0) return { lead: "", value: "" };
  return { lead: "80 %", value: endsText(tile) };
}

/**
 * What stands beside "Why": how many there are, and whether they are of the plan shown.
 * @param {any[]} rows @param {{working: boolean, all: boolean, open: boolean, shown: number}} state
 */
export function whyWords(rows, { working, open }) {
  const old = rows.some((row) => row.old);
  const status = working ? (old ? "of the former plan" : "working it out") : "";
  return { toggle: `${open ? "▾" : "▸"} Why${rows.length ? ` (${rows.length})` : ""}`, status };
}

/** Places of band, tick and dot in 0..1, the predicted value in the middle; null without a band. */
export function bandOf({ value, low, high, measured, old }) {
  if (!known(value) || !known(low) || !known(high)) return null;
  const dot = known(measured) && !old ? measured : null;
  const reach = Math.max(value - low, high - value, dot == null ? 0 : Math.abs(dot - value) / 1.8, 1e-12) * 2.2;
  const at = (x) => Math.min(1, Math.max(0, 0.5 + (x - value) / (2 * reach)));
  return { low: at(low), high: at(high), value: 0.5, measured: dot == null ? null : at(dot) };
}
