// Plan B beside a lane: what it holds there, and when it would be done. Drawn thin, below the chips of A.

import { h, keyed } from "../common/dom.js";
import { seconds } from "../common/format.js";
import { patch, pct, stale } from "./patch.js";

/**
 * B's blocks of a lane as segments on the time scale: those that A has there too, and those only B has.
 * @param {import("./model.js").Catalog} catalog @param {any} lane @param {number} scale_s
 * @returns {{key: string, left: number, width: number, own: boolean, label: string}[]}
 */
export function otherSegments(catalog, lane, scale_s) {
  const runs = lane.other?.runs ?? [];
  let sum = 0;
  for (const [first, count] of runs) sum += catalog.until[first + count] - catalog.until[first];
  const stretch = sum > 0 ? (lane.other.forward_s + lane.other.backward_s) / (sum * catalog.total_s) : 0;
  const has = (i) => lane.runs.some((run) => run.first <= i && i < run.first + run.count);
  const segments = [];
  let at = 0;
  for (const [first, count] of runs)
    for (let i = first; i < first + count; i += 1) {
      const width = (catalog.layers[i].time_s * stretch) / scale_s;
      const last = segments[segments.length - 1];
      const own = has(i);
      const label = catalog.blocks[catalog.layers[i].block].label;
      if (last && last.own === own && i > first) {
        last.width += width;
        if (last.labels[last.labels.length - 1] !== label) last.labels.push(label);
      } else segments.push({ key: `b${i}`, left: at, width, own, labels: [label] });
      at += width;
    }
  return segments.map(({ labels, ...rest }) => ({ ...rest, label: range(labels) }));
}

const range = (labels) => (labels.length < 3 ? labels.join(", ") : `${labels[0]}–${labels[labels.length - 1]}`);

export function drawOther(ctx, element, lane) {
  if (!stale(element, [lane.other ?? null, lane.runs, ctx.scale_s, ctx.trackPx, ctx.catalog, ctx.view.ideal_s])) return;
  const segments = lane.other ? otherSegments(ctx.catalog, lane, ctx.scale_s) : [];
  const end = segments.reduce((most, s) => Math.max(most, s.left + s.width), 0);
  const words = lane.other ? [wordsOf(ctx, lane.other, end)] : [];
  keyed(
    element,
    [...segments, ...words],
    (s) => s.key,
    (s) => h(s.words ? "span" : "i", {}),
    (part, s) => {
      if (s.words) return patch(part, { text: s.words, style: { left: s.left } });
      const fits = s.width * ctx.trackPx > 8 + 6.5 * s.label.length;
      return patch(part, {
        class: s.own ? "both" : "only",
        text: fits && !s.own ? s.label : "",
        style: { left: pct(s.left), width: pct(Math.max(0, Math.min(s.width, 1 - s.left))) },
      });
    },
  );
}

const WORDS_PX = 74;

/** B's time at the end of its strip, clear of the ideal line. */
function wordsOf(ctx, other, end) {
  const ideal = (ctx.view.ideal_s / ctx.scale_s) * ctx.trackPx;
  const at = end * ctx.trackPx + 4;
  const left = at < ideal + 4 && at + WORDS_PX > ideal ? ideal + 4 : at;
  const text = `B ${seconds(other.forward_s + other.backward_s)}`;
  return { key: "words", words: text, left: `${Math.max(0, Math.min(left, ctx.trackPx - WORDS_PX)).toFixed(1)}px` };
}

/** Where plan B has a piece's layers, if not on this lane: the name of the lane it stands beside, or null. */
export function elsewhere(ctx, piece, lane) {
  if (!ctx.otherOwner) return null;
  const owner = ctx.otherOwner[piece.first];
  if (owner < 0 || ctx.view.lanes[owner].id === lane.id) return null;
  return ctx.view.lanes[owner].name;
}
