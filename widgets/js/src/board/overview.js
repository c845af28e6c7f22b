// The whole model in model order, width = time: who holds what, where the cuts are, where ideal cuts would be; and,
// where the lanes scroll inside the board, which part of it they show.

import { h, keyed } from "../common/dom.js";
import { plural, seconds } from "../common/format.js";
import { patch, pct, stale } from "./patch.js";

/** Beyond this many cuts the shades alone tell the lanes apart. */
const MOST_CUTS = 64;
/** Beyond this many lanes neither their numbers nor ideal cuts have room. */
const MOST_NAMED = 24;

export function makeOverview(ctx) {
  const parts = {
    strip: h("div", { class: "b-strip" }),
    seams: h("div", { class: "b-seams" }),
    marks: h("div", { class: "b-marks" }),
    brush: h("div", { class: "b-brush", "data-action": "brush", hidden: true }),
    cuts: h("div", { class: "b-cuts" }),
    stages: h("div", { class: "b-stages" }),
  };
  const element = h(
    "div",
    { class: "b-row b-overview", "aria-hidden": "true" },
    h("div", { class: "b-name" }, h("b", { text: "Whole model" }), h("span", {})),
    h("div", { class: "b-mem" }, h("span", {}), h("span", { text: "per microbatch" })),
    h("div", { class: "b-cell-track" }, ...Object.values(parts)),
  );
  Object.assign(element, { parts });
  parts.strip.addEventListener("click", (event) => pick(ctx, parts.strip, event));
  return element;
}

/** Flat position of the layer at a share of the model's time. @param {import("./model.js").Catalog} catalog */
export function layerAt(catalog, share) {
  let [low, high] = [0, catalog.layers.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (catalog.until[middle] <= share) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** A click on the strip selects that block everywhere, and brings its lane into sight. */
export function pick(ctx, strip, event) {
  const box = strip.getBoundingClientRect();
  const at = layerAt(ctx.catalog, (event.clientX - box.left) / box.width);
  ctx.select(ctx.catalog.positions([ctx.catalog.blocks[ctx.catalog.layers[at].block].id]));
  const owner = ctx.view.lanes[ctx.owners[at]];
  if (ctx.scrolls && owner) ctx.laneElement(owner.id)?.scrollIntoView({ block: "nearest" });
}

export function drawOverview(ctx, element) {
  const { catalog, view } = ctx;
  const { parts } = element;
  const named = view.lanes.length <= MOST_NAMED;
  if (stale(element, [catalog, ctx.trackPx, named])) {
    const [name, time] = element.children;
    patch(name.lastChild, { text: `${plural(catalog.layers.length, "layer")}${named ? "   ▲ ideal cut" : ""}` });
    patch(time.firstChild, { text: seconds(catalog.total_s) });
    drawSeams(ctx, parts.seams);
  }
  if (stale(parts.strip, [view.lanes, catalog])) drawOwners(ctx, parts.strip);
  if (stale(parts.marks, [ctx.selected, catalog])) drawMarks(ctx, parts.marks);
  const boundary = ctx.preview?.boundary ?? null;
  if (stale(parts.cuts, [view.boundaries, catalog, boundary, boundary && ctx.preview.to])) drawCuts(ctx, parts.cuts);
  if (stale(parts.stages, [view.lanes, catalog, ctx.trackPx])) drawStages(ctx, parts.stages);
}

/** Who holds what: one segment for each stretch of one lane, shades in turn. */
function drawOwners(ctx, strip) {
  const { catalog, view, owners } = ctx;
  const segments = [];
  for (let i = 0; i < owners.length; i += 1) {
    const last = segments[segments.length - 1];
    if (last && last.owner === owners[i]) last.end = i + 1;
    else segments.push({ owner: owners[i], first: i, end: i + 1 });
  }
  keyed(
    strip,
    segments,
    (_, i) => `s${i}`,
    () => h("i", {}),
    (segment, { owner, first, end }) =>
      patch(segment, {
        class: owner < 0 ? "nowhere" : owner % 2 ? "odd" : "even",
        title: view.lanes[owner]?.name ?? "nowhere",
        style: { left: pct(catalog.until[first]), width: pct(catalog.until[end] - catalog.until[first]) },
      }),
  );
}

/** Seams between blocks and names of the blocks that are no repeated ones. Only of the model, so drawn once. */
function drawSeams(ctx, element) {
  const { catalog } = ctx;
  const px = (b) => (catalog.until[catalog.starts[b + 1]] - catalog.until[catalog.starts[b]]) * ctx.trackPx;
  const wide = catalog.blocks.length < 2 || ctx.trackPx / catalog.blocks.length > 4;
  const items = catalog.blocks.flatMap((block, b) => {
    const left = catalog.until[catalog.starts[b]];
    const named = block.kind !== "block" && px(b) > 8 * block.label.length;
    return [
      ...(wide && b ? [{ key: `x${b}`, left, width: null, text: "" }] : []),
      ...(named ? [{ key: `n${b}`, left, width: px(b) / ctx.trackPx, text: block.label }] : []),
    ];
  });
  keyed(
    element,
    items,
    (item) => item.key,
    (item) => h(item.text ? "span" : "i", {}),
    (part, item) =>
      patch(part, { text: item.text, style: { left: pct(item.left), width: item.width == null ? null : pct(item.width) } }),
  );
}

function drawMarks(ctx, element) {
  const { until } = ctx.catalog;
  const ranges = [];
  for (const position of ctx.chosen.sorted) {
    const last = ranges[ranges.length - 1];
    if (last && last.end === position) last.end += 1;
    else ranges.push({ first: position, end: position + 1 });
  }
  keyed(
    element,
    ranges,
    (_, i) => `m${i}`,
    () => h("i", {}),
    (mark, { first, end }) =>
      patch(mark, { style: { left: pct(until[first]), width: `max(2px, ${pct(until[end] - until[first])})` } }),
  );
}

function drawCuts(ctx, element) {
  keyed(
    element,
    ctx.view.boundaries.length > MOST_CUTS ? [] : ctx.view.boundaries,
    (b) => b.id,
    (b) => h("i", { "data-overview-boundary": b.id }),
    (cut, b) =>
      patch(cut, {
        style: { left: pct(ctx.catalog.until[ctx.preview?.boundary === b.id ? ctx.preview.to : b.at]) },
        title: `Boundary of stages ${b.before} and ${b.after}`,
      }),
  );
}

function drawStages(ctx, element) {
  const { view, trackPx } = ctx;
  const { until } = ctx.catalog;
  const { length } = view.lanes;
  const word = length > 12 ? "" : "stage ";
  const marks = view.lanes
    .flatMap((lane) => lane.runs)
    .map((run) => ({
      key: `n${run.stage}-${run.first}`,
      left: (until[run.first] + until[run.first + run.count]) / 2,
      width: until[run.first + run.count] - until[run.first],
      text: `${word}${run.stage}`,
      cls: "",
    }))
    .filter((mark) => length <= MOST_NAMED && mark.width * trackPx > 7 * mark.text.length);
  const ideals = Array.from({ length: length > MOST_NAMED ? 0 : Math.max(0, length - 1) }, (_, i) => ({
    key: `i${i}`,
    left: (i + 1) / length,
    text: "▲",
    cls: "ideal",
  }));
  for (const mark of marks) {
    const apart = (3.3 * mark.text.length + 9) / trackPx; // a name gives way to the mark of an ideal cut
    const near = ideals.find((ideal) => Math.abs(ideal.left - mark.left) < apart);
    if (near) mark.left = near.left + (mark.left < near.left ? -apart : apart);
  }
  keyed(
    element,
    [...marks, ...ideals],
    (m) => m.key,
    () => h("span", {}),
    (mark, m) => patch(mark, { text: m.text, class: m.cls, style: { left: pct(m.left) } }),
  );
}

/** The part of the model whose lanes are in sight. The geometry is read only after scrolling or a change of rows. */
export function drawBrush(ctx) {
  const { brush } = ctx.overview.parts;
  if (brush.hidden === ctx.scrolls) brush.hidden = !ctx.scrolls;
  if (!ctx.scrolls) return;
  if (!ctx.scrollListener) {
    ctx.scrollListener = () => requestAnimationFrame(() => look(ctx, brush));
    ctx.stage.addEventListener("scroll", ctx.scrollListener, { passive: true });
  }
  if (stale(ctx.stage, [ctx.rowElements, ctx.trackPx])) requestAnimationFrame(() => look(ctx, brush));
  else showSeen(ctx, brush);
}

function look(ctx, brush) {
  const { top, bottom } = ctx.stage.getBoundingClientRect();
  ctx.seen = ctx.rowElements
    .filter((element) => element.dataset.lane != null)
    .filter((element) => {
      const box = element.getBoundingClientRect();
      return box.bottom > top && box.top < bottom;
    })
    .map((element) => element.dataset.lane);
  showSeen(ctx, brush);
}

function showSeen(ctx, brush) {
  const { until } = ctx.catalog;
  let [low, high] = [1, 0];
  for (const id of ctx.seen ?? [])
    for (const run of ctx.lane(id)?.runs ?? []) {
      low = Math.min(low, until[run.first]);
      high = Math.max(high, until[run.first + run.count]);
    }
  patch(brush, { style: { left: pct(Math.min(low, high)), width: pct(Math.max(0, high - low)) } });
}
