// Links below the lanes: how much of each one's capacity is in use, over time.

import { percent } from "../common/format.js";
import { RIGHT_PX } from "./layout.js";

export const MOST_LINKS = 24;

/** The links that are drawn: all, or the busiest, in the order given. @param {any} view @returns {number[]} */
export function drawnLinks(view) {
  const all = (view?.rows ?? []).map((_, i) => i);
  if (all.length <= MOST_LINKS) return all;
  const busiest = [...all].sort((a, b) => view.rows[b].share - view.rows[a].share).slice(0, MOST_LINKS);
  return busiest.sort((a, b) => a - b);
}

/** What stands above them. */
function linksTitle(view, drawn) {
  const some = drawn.length < view.rows.length ? `, the ${drawn.length} busiest of ${view.rows.length}` : "";
  const notes = [view.folded, view.text].filter(Boolean).join("; ");
  return `Links${some}: height is the share of capacity in use; number, its mean over the step${notes ? ` (${notes})` : ""}`;
}

/** Largest share of the slices that a stretch of time meets. */
export function shareIn(view, cells, row, from, to) {
  const per = view.columns / (view.end_s - view.start_s);
  const first = Math.max(0, Math.floor((from - view.start_s) * per));
  const last = Math.min(view.columns - 1, Math.max(first, Math.ceil((to - view.start_s) * per) - 1));
  let most = 0;
  for (let k = first; k <= last; k += 1) most = Math.max(most, cells[row * view.columns + k]);
  return most;
}

export function drawLinks(g, { look: c, links, places, window: win, width, plans }, x) {
  const { view, cells, drawn } = links;
  const pixels = Math.floor(width - places.left - RIGHT_PX);
  const end = Math.min(width - RIGHT_PX, x(plans[0].view.end_s));
  g.font = `12px ${c.font}`;
  g.textAlign = "left";
  g.fillStyle = c["ink-2"];
  const title = linksTitle(view, drawn);
  g.fillStyle = c.bg;
  g.fillRect(0, places.links[0].y - 18, Math.min(width, g.measureText(title).width + 6), 15);
  g.fillStyle = c["ink-2"];
  g.fillText(title, 0, places.links[0].y - 7, width);
  drawn.forEach((number, k) => {
    const { y, bar } = places.links[k];
    const row = view.rows[number];
    g.font = `11px ${c.font}`;
    g.textAlign = "left";
    g.fillStyle = c.ink;
    g.fillText(row.name, 0, y + bar - 1, places.left - 50);
    g.textAlign = "right";
    g.fillStyle = c["ink-2"];
    g.fillText(percent(row.share, row.share < 0.0995 ? 1 : 0), places.left - 10, y + bar - 1);
    const from = Math.max(places.left, x(0));
    g.fillStyle = c.wash;
    g.fillRect(from, y, Math.max(0, end - from), bar);
    g.fillStyle = c.links[row.kind] ?? c.links.other;
    for (let p = 0; p < pixels; p += 1) {
      const t = win.t0 + (p / pixels) * win.span;
      const share = shareIn(view, cells, number, t, t + win.span / pixels);
      if (share <= 0) continue;
      const h = Math.max(1, share * bar);
      g.fillRect(places.left + p, y + bar - h, 1, h);
    }
    g.fillStyle = c["line-strong"];
    g.fillRect(from, y + bar, Math.max(0, end - from), 1);
  });
}
