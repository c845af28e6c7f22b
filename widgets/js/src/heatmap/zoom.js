// Zoom and pan of a heatmap with an axis of time, by wheel and by keys, as on the timeline with which it shares them.

import { timeAt } from "./words.js";

const SAME = { "+": "w", "=": "w", "-": "s" };

const inside = (share) => Math.min(1, Math.max(0, share));

/** The page scrolls until the map is clicked. @param {any} view the heatmap @param {WheelEvent} event */
export function wheel(view, event) {
  const mine = event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === view.canvas;
  if (!mine || !view.timed || !view.panels) return;
  event.preventDefault();
  view.tip.hide();
  const { window: win } = view.time;
  const along = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (along) win.pan((event.deltaX || event.deltaY) / 800);
  else win.zoom(Math.exp(event.deltaY / 400), inside((view.timeUnder(event, view.under(event)?.p ?? 0) - win.t0) / win.span));
}

/** A key of the time that is seen; whether it was one. @param {any} view the heatmap @param {string} key */
export function zoomKey(view, key) {
  const { window: win } = view.time;
  const at = view.cell ? inside((timeAt(view.plans[0].grid, view.cell.k) - win.t0) / win.span) : 0.5;
  const work = {
    w: () => win.zoom(0.7, at),
    s: () => win.zoom(1 / 0.7, at),
    a: () => win.pan(-0.15),
    d: () => win.pan(0.15),
    0: () => win.all(),
  }[SAME[key] ?? key.toLowerCase()];
  if (!view.timed || !work) return false;
  view.tip.hide();
  work();
  return true;
}
