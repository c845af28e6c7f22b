// The heading row of a group of lanes (a node): folded it stands for them, with the slowest and the fullest.

import { h } from "../common/dom.js";
import { bytes, plural, seconds } from "../common/format.js";
import { overIdeal } from "./head.js";
import { groupSummary, memoryLevel } from "./layout.js";
import { drawMemory, makeMemory } from "./memory-bar.js";
import { patch, pct, stale } from "./patch.js";

const time = (lane) => lane.forward_s + lane.backward_s;

export function makeGroup(ctx, { name }) {
  const toggle = h("button", { class: "sx-btn b-fold", "data-action": "fold", on: { click: () => toggleGroup(ctx, name) } });
  return h(
    "div",
    { class: "b-row b-group", "data-group": name },
    h("div", { class: "b-name" }, toggle),
    makeMemory(),
    h("div", { class: "b-cell-track" }, h("div", { class: "b-sum" }), h("span", {})),
  );
}

/** Fold a group of lanes to one row, or unfold it. */
export function toggleGroup(ctx, name) {
  const collapsed = new Set(ctx.collapsed);
  if (!collapsed.delete(name)) collapsed.add(name);
  ctx.sync.set("collapsed", [...collapsed]);
}

export function drawGroup(ctx, element, { name, lanes, folded }) {
  if (!stale(element, [folded, ctx.scale_s, ctx.memory_bytes, ctx.view.ideal_s, ...lanes])) return;
  const sum = groupSummary(lanes);
  const [nameCell, memory, track] = element.children;
  patch(element, { class: `b-row b-group${folded ? " folded compact" : ""}` });
  patch(nameCell.firstChild, {
    text: `${folded ? "▸" : "▾"} ${name}`,
    "aria-expanded": String(!folded),
    "aria-label": `${name}, ${plural(lanes.length, "lane")}, slowest ${sum.slowest.name}, fullest ${sum.fullest.name} with ${bytes(sum.fullest.peak_bytes)} a device`,
  });
  if (folded) drawMemory(ctx, memory, sum.fullest, null);
  patch(track.firstChild, {
    style: { width: pct(Math.min(1, time(sum.slowest) / ctx.scale_s)), display: folded ? null : "none" },
  });
  const over = lanes.filter((lane) => memoryLevel(lane) === "bad").length;
  patch(track.lastChild, {
    text: `${plural(lanes.length, "lane")}, ${seconds(sum.time_s)} in all; slowest ${sum.slowest.name}: ${seconds(time(sum.slowest))}, ${overIdeal(sum.slowest, ctx.view.ideal_s)}; fullest ${sum.fullest.name}: ${bytes(sum.fullest.peak_bytes)} a device${over ? `; ▲ ${over} over capacity` : ""}`,
  });
}
