// Axes of the board: memory and time ticks above the lanes, the ideal line through them.

import { h, keyed } from "../common/dom.js";
import { bytes, bytesParts, seconds, secondsParts } from "../common/format.js";
import { ticks } from "../common/scales.js";
import { patch, pct, stale } from "./patch.js";

/** Width of a memory bar, wide and narrow, as the style sheet has it. */
const MEMORY_PX = { full: [196, 172], compact: [128, 104] };

export function makeRuler() {
  return h(
    "div",
    { class: "b-row b-ruler", "aria-hidden": "true" },
    h("div", { class: "b-name", text: "Stage" }),
    h("div", { class: "b-mem" }),
    h("div", { class: "b-cell-track" }),
  );
}

export function drawRuler(ctx, ruler) {
  const capacity = ctx.memory_bytes / 1.25;
  if (!stale(ruler, [capacity, ctx.view.ideal_s, ctx.scale_s, ctx.trackPx, ctx.compact])) return;
  const [, memory, time] = ruler.children;
  const px = MEMORY_PX[ctx.compact ? "compact" : "full"][ctx.narrow ? 1 : 0];
  const apart = (size) => ((capacity - size) / ctx.memory_bytes) * px > 44;
  const unit = capacity >= 2 ** 30 ? 2 ** 30 : 2 ** 20;
  const marks = [
    0,
    ...ticks((capacity / unit) * 0.75, 2)
      .filter((t) => t > 0)
      .slice(-1)
      .map((t) => t * unit)
      .filter(apart),
    capacity,
  ];
  keyed(
    memory,
    marks,
    (_, i) => `m${i}`,
    () => h("span", { class: "b-tick" }),
    (tick, value, i) =>
      patch(tick, {
        text: i === marks.length - 1 ? bytes(value, capacity) : bytesParts(value, capacity).text.replace(/\.0$/, ""),
        style: { left: pct(value / ctx.memory_bytes) },
        class: `b-tick${i ? "" : " first"}${i === marks.length - 1 ? " strong" : ""}`,
      }),
  );
  const ideal = ctx.view.ideal_s;
  const all = ticks(ctx.scale_s * 0.97, Math.max(2, Math.floor(ctx.trackPx / 90)));
  const entries = all
    .filter((t) => (Math.abs(t - ideal) / ctx.scale_s) * ctx.trackPx > 52)
    .map((t) => ({
      key: `t${t}`,
      t,
      text: t ? secondsParts(t, ctx.scale_s).text.replace(/\.0+$/, "") : `0 ${secondsParts(0, ctx.scale_s).unit}`,
      ideal: false,
    }));
  if (ideal <= ctx.scale_s) entries.push({ key: "ideal", t: ideal, text: `ideal ${seconds(ideal)}`, ideal: true });
  keyed(
    time,
    entries,
    (e) => e.key,
    () => h("span", {}),
    (tick, e) =>
      patch(tick, {
        text: e.text,
        class: `b-tick${e.t === 0 ? " first" : ""}${e.ideal ? " strong" : ""}`,
        style: { left: pct(e.t / ctx.scale_s) },
      }),
  );
  ctx.ticks = all;
}

export function makeIdeal() {
  return h(
    "div",
    { class: "b-row b-ideal", "aria-hidden": "true" },
    h("div", {}),
    h("div", {}),
    h("div", { class: "b-cell-track" }),
  );
}

export function drawIdeal(ctx, element) {
  if (!stale(element, [ctx.view.ideal_s, ctx.scale_s, ctx.ticks])) return;
  const lines = [
    ...ctx.ticks.filter((t) => t > 0).map((t) => ({ key: `g${t}`, t, cls: "b-grid" })),
    ...(ctx.view.ideal_s <= ctx.scale_s ? [{ key: "ideal", t: ctx.view.ideal_s, cls: "b-line" }] : []),
  ];
  patch(ctx.lanes, { style: { "--ideal": pct(ctx.view.ideal_s / ctx.scale_s) } });
  keyed(
    element.lastChild,
    lines,
    (line) => line.key,
    (line) => h("i", { class: line.cls }),
    (line, { t }) => patch(line, { style: { left: pct(t / ctx.scale_s) } }),
  );
}
