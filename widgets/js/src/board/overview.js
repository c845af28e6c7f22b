// The whole model in model order, width = time: who holds what, where the cuts are, where ideal cuts would be.

import { h, keyed, set } from "../common/dom.js";
import { plural, seconds } from "../common/format.js";

export function makeOverview(ctx) {
  return h(
    "div",
    { class: "b-row b-overview", "aria-hidden": "true" },
    h("div", { class: "b-name" }, h("b", { text: "Whole model" }), h("span", {})),
    h("div", { class: "b-mem" }, h("span", {}), h("span", { text: "per microbatch" })),
    h(
      "div",
      { class: "b-cell-track" },
      h("div", { class: "b-strip", on: { click: (event) => pick(ctx, event) } }),
      h("div", { class: "b-cuts" }),
      h("div", { class: "b-stages" }),
    ),
  );
}

/** A click on the strip selects that block everywhere. */
function pick(ctx, event) {
  const block = event.target.closest("[data-overview-block]")?.dataset.overviewBlock;
  if (block) ctx.select(ctx.catalog.positions([block]));
}

export function drawOverview(ctx, element) {
  const { catalog, view } = ctx;
  const total = catalog.total_s || 1;
  const [name, time, cell] = element.children;
  set(name.lastChild, { text: `${plural(catalog.layers.length, "layer")}   ▲ ideal cut` });
  set(time.firstChild, { text: seconds(catalog.total_s) });
  const owners = new Array(catalog.layers.length).fill(-1);
  view.lanes.forEach((lane, l) => lane.runs.forEach((run) => owners.fill(l, run.first, run.first + run.count)));
  const segments = [];
  let at = 0;
  for (const layer of catalog.layers) {
    const last = segments[segments.length - 1];
    if (last && last.block === layer.block && last.owner === owners[layer.index]) last.width += layer.time_s / total;
    else
      segments.push({
        block: layer.block,
        owner: owners[layer.index],
        first: layer.index,
        left: at / total,
        width: layer.time_s / total,
      });
    at += layer.time_s;
  }
  const strip = cell.children[0];
  keyed(
    strip,
    segments,
    (s) => `s${s.first}`,
    () => h("i", {}),
    (segment, s) => {
      const block = catalog.blocks[s.block];
      set(segment, {
        "data-overview-block": block.id,
        title: `${block.name}, ${view.lanes[s.owner]?.name ?? "nowhere"}`,
        text: block.kind !== "block" && s.width * ctx.trackPx > 8 * block.label.length ? block.label : "",
        class: `${s.owner % 2 ? "odd" : "even"}${ctx.chosen.has(s.first) ? " selected" : ""}${s.owner < 0 ? " nowhere" : ""}`,
        style: { left: pct(s.left), width: pct(s.width) },
      });
    },
  );
  drawCuts(ctx, cell, total);
}

function drawCuts(ctx, cell, total) {
  const { catalog, view } = ctx;
  const until = [0];
  for (const layer of catalog.layers) until.push(until[until.length - 1] + layer.time_s / total);
  keyed(
    cell.children[1],
    view.boundaries,
    (b) => b.id,
    (b) => h("i", { "data-overview-boundary": b.id }),
    (cut, b) => set(cut, { style: { left: pct(until[b.at]) }, title: `Boundary of stages ${b.before} and ${b.after}` }),
  );
  const stages = view.lanes.flatMap((lane) => lane.runs.map((run) => ({ run, lane })));
  const marks =
    view.lanes.length > 24
      ? []
      : stages.map(({ run }) => ({
          key: `n${run.stage}-${run.first}`,
          left: (until[run.first] + until[run.first + run.count]) / 2,
          width: until[run.first + run.count] - until[run.first],
          text: view.lanes.length > 12 ? `${run.stage}` : `stage ${run.stage}`,
          cls: "",
        }));
  const ideals =
    view.lanes.length > 64
      ? []
      : view.lanes
          .slice(1)
          .map((_, i) => ({ key: `i${i}`, left: (i + 1) / view.lanes.length, width: 1, text: "▲", cls: "ideal" }));
  keyed(
    cell.children[2],
    [...marks.filter((m) => m.width * ctx.trackPx > 7 * m.text.length), ...ideals],
    (m) => m.key,
    () => h("span", {}),
    (mark, m) => set(mark, { text: m.text, class: m.cls, style: { left: pct(m.left) } }),
  );
}

const pct = (x) => `${(x * 100).toFixed(4)}%`;
