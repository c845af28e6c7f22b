// What the tiles and the sentence say while something is dragged: the page's own estimate against what is. No DOM.

import { known } from "../common/format.js";

/** Name of the page's event: `{bench, values, levels, verdict}`; `values: null` ends the preview. */
export const PREVIEW = "sx-preview";

/**
 * The tile as it would be: the estimate as its value, what is now as its baseline and in its third line.
 * A figure that the page cannot estimate keeps its value and says so.
 * @param {any} tile @param {{values: Record<string, number>, levels?: Record<string, string|null>}} preview
 */
export function previewed(tile, { values, levels }) {
  const value = values?.[tile.key];
  const still = { ...tile, measured: null, low: null, high: null, note: null, preview: true };
  if (!known(value)) return { ...still, baseline: null, waits: true };
  const level = levels && tile.key in levels ? levels[tile.key] : null;
  return { ...still, value, level, baseline: tile.value, baseline_name: null, now: tile.value };
}

/** The sentence of a preview: the estimate's own, without buttons. @param {any} now @param {{verdict?: any}} preview */
export function previewedVerdict(now, { verdict }) {
  return verdict?.text
    ? { level: verdict.level ?? "none", text: verdict.text, note: verdict.note ?? "Estimate. Esc cancels.", actions: [] }
    : now;
}

/** Does the event belong to this widget's workbench, and what is it? Null once the preview is over. */
export function previewOf(detail, bench, before) {
  if (!detail || (detail.bench ?? "") !== (bench ?? "")) return before;
  return detail.values ? detail : null;
}

/** So long the figures of a drop stand for Python's own to come: to go back to the old ones in between would flicker. */
const ANSWER_MS = 100;

/** The end of a preview whose answer is on its way. */
export class Ending {
  /** @param {() => any} view what Python says now @param {() => void} over */
  constructor(view, over) {
    this.view = view;
    this.over = over;
    this.timer = 0;
  }

  get on() {
    return this.timer !== 0;
  }

  /** A preview begins. */
  begin() {
    this.before = this.view();
  }

  /** The board has its answer: does this widget still wait for its own? If so, what is shown stands a moment. */
  waits() {
    if (this.view() !== this.before) return false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.over();
    }, ANSWER_MS);
    return true;
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }
}
