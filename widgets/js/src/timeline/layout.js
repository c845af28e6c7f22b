// Places of the timeline: lanes by plan, links below them. No DOM.

const LABEL_PX = 108;
export const AXIS_PX = 20;
/** Room behind the end of the step. */
export const RIGHT_PX = 4;
const LINK_PX = 10;
const LONGEST_LABEL_PX = 190;
const LETTER_PX = 6.4;
const LEAST_LABEL_PX = 12;

/** Height of one lane's bars, of its wire strip, and the gap below, by how many lanes there are. */
export function laneSizes(lanes) {
  if (lanes <= 12) return { bar: 24, wire: 4, gap: 3 };
  if (lanes <= 32) return { bar: 14, wire: 3, gap: 2 };
  if (lanes <= 96) return { bar: 8, wire: 2, gap: 1 };
  return { bar: Math.max(2, Math.min(5, Math.floor(800 / lanes) - 1)), wire: 1, gap: 0 };
}

/**
 * Rows of one or two plans, one below the other, on one axis; the first plan's links stand below its lanes.
 * @param {number[]} lanes how many in each plan @param {string[]} [links] names of links to show
 * @param {number} [letters] of the longest lane name
 * @returns {{plans: {title: number, rows: {y: number, bar: number, wire: number}[]}[], links: {y: number, bar: number}[], left: number, every: number, height: number}}
 */
export function layout(lanes, links = [], letters = 0) {
  const sizes = laneSizes(Math.max(...lanes, 0));
  const step = sizes.bar + sizes.wire + sizes.gap;
  const wanted = Math.max(letters * LETTER_PX + 46, ...links.map((name) => name.length * LETTER_PX + 12));
  const left = Math.round(Math.min(LONGEST_LABEL_PX, Math.max(LABEL_PX, wanted)));
  let y = AXIS_PX;
  const linkRows = [];
  const plans = lanes.map((count, plan) => {
    const title = y + 14;
    y += 22;
    const rows = Array.from({ length: count }, (_, i) => ({ y: y + i * step, bar: sizes.bar, wire: sizes.wire }));
    y += count * step + 6;
    if (plan === 0 && links.length) {
      y += 16;
      for (let k = 0; k < links.length; k += 1) linkRows.push({ y: y + k * (LINK_PX + 4), bar: LINK_PX });
      y += links.length * (LINK_PX + 4) + 6;
    }
    return { title, rows };
  });
  return { plans, links: linkRows, left, every: Math.max(1, Math.ceil(LEAST_LABEL_PX / step)), height: y };
}

/** Which plan, lane and track lies under a height. */
export function hit(plans, y) {
  for (const [plan, { rows }] of plans.entries()) {
    for (const [lane, row] of rows.entries()) {
      if (y >= row.y && y < row.y + row.bar) return { plan, lane, wire: false };
      if (y >= row.y + row.bar && y < row.y + row.bar + row.wire + 2) return { plan, lane, wire: true };
    }
  }
  return null;
}

/** Which link lies under a height, or -1. */
export const linkUnder = (links, y) => links.findIndex((row) => y >= row.y - 2 && y < row.y + row.bar + 2);
