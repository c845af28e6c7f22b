// One drawing of the board: what is derived for all lanes, then each part that has another input than last time.

import { keyed } from "../common/dom.js";
import { chipLook } from "./chip.js";
import { drawDetail } from "./detail.js";
import { keepFocus, roveTo } from "./focus.js";
import { drawGroup, makeGroup } from "./group.js";
import { drawLane, emptyLane, makeLane } from "./lane.js";
import { FULL_LANES, memoryScale, rowsHeight, rowsOf, SCROLL_PX } from "./layout.js";
import { drawLinks, makeLinks } from "./links.js";
import { piecesOf } from "./model.js";
import { drawBrush, drawOverview } from "./overview.js";
import { drawIdeal, drawRuler } from "./ruler.js";
import { Nearness } from "./scroll.js";

/** Lanes beyond this many are only built near the part that is seen. */
const LAZY_LANES = 24;

const MAKE = { lane: makeLane, links: makeLinks, group: makeGroup };
const DRAW = { lane: drawLane, links: drawLinks, group: drawGroup };

/** @param {import("./index.js").BoardContext} ctx */
export function drawBoard(ctx) {
  if (!ctx.view.lanes?.length || !ctx.catalog.layers.length) return;
  derive(ctx);
  keepFocus(ctx, () => {
    drawOverview(ctx, ctx.overview);
    drawRuler(ctx, ctx.ruler);
    drawRows(ctx);
    drawIdeal(ctx, ctx.ideal);
    drawDetail(ctx, ctx.detail);
  });
}

function derive(ctx) {
  const { view } = ctx;
  const { lanes } = view;
  ctx.memory_bytes = memoryScale(lanes);
  ctx.pieces = new Map(lanes.map((lane) => [lane.id, piecesOf(ctx.catalog, lane, ctx.expanded)]));
  ctx.chosen = ctx.once("chosen", [ctx.selected], () => sortedSet(ctx.selected));
  ctx.carried = ctx.once("carried", [ctx.preview?.positions], () => sortedSet(ctx.preview?.positions ?? new Set()));
  ctx.fixed = ctx.once("fixed", [ctx.pinned], () => sortedSet(ctx.pinned));
  ctx.look = chipLook(ctx);
  ctx.compact = lanes.length > FULL_LANES;
  ctx.order = ctx.once("order", [lanes], () => new Map(lanes.map((lane, i) => [lane.id, i])));
  ctx.boundariesOf = ctx.once("boundariesOf", [view.boundaries], () => by(view.boundaries, (b) => b.before_lane));
  ctx.linksOf = ctx.once("linksOf", [view.links], () => by(view.links, (link) => link.from_lane));
  const others = lanes.map((lane) => lane.other ?? null);
  ctx.otherOwner = view.other_name ? ctx.once("otherOwner", others, () => otherOwners(ctx, lanes)) : null;
  ctx.previewLanes = ctx.once("previewLanes", [ctx.preview?.view], () =>
    ctx.preview?.view ? new Map(ctx.preview.view.lanes.map((lane) => [lane.id, lane])) : null,
  );
  roveTo(ctx, ctx.focusKey);
}

/** A set with its members in order, so that lanes can ask quickly whether they hold any. */
const sortedSet = (set) => ({ set, sorted: [...set].sort((a, b) => a - b) });

function by(items, key) {
  const found = new Map();
  for (const item of items) {
    const list = found.get(key(item));
    if (list) list.push(item);
    else found.set(key(item), [item]);
  }
  return found;
}

/** Position of plan B's lane for every layer, as the board lane it stands beside. */
function otherOwners(ctx, lanes) {
  const owners = new Int32Array(ctx.catalog.layers.length).fill(-1);
  lanes.forEach((lane, l) => {
    for (const [first, count] of lane.other?.runs ?? []) owners.fill(l, first, first + count);
  });
  return owners;
}

function drawRows(ctx) {
  const { view } = ctx;
  const rows = ctx.once("rows", [view.lanes, ctx.collapsed], () => rowsOf(view.lanes, ctx.collapsed));
  const [items, keys] = ctx.once("items", [rows], () => {
    const found = rows.flatMap((row) =>
      row.type === "lane" ? [row, { type: "links", lane: row.lane, compact: row.compact }] : [row],
    );
    return [found, found.map((row) => (row.type === "group" ? `group:${row.name}` : `${row.type}:${row.lane.id}`))];
  });
  frame(ctx, rows);
  const order = keys.join("\n");
  if (order !== ctx.rowOrder) {
    ctx.rowOrder = order;
    keyed(
      ctx.lanes,
      items.map((item, i) => ({ item, key: keys[i] })),
      (row) => row.key,
      ({ item }) => MAKE[item.type](ctx, item),
      () => {},
    );
    ctx.rowElements = [...ctx.lanes.children].filter((child) => child.dataset.key != null);
    watchNearness(ctx, view.lanes.length > LAZY_LANES);
  }
  items.forEach((item, i) => {
    const element = ctx.rowElements[i];
    if (item.type === "lane" && !isNear(ctx, item.lane.id)) emptyLane(element);
    else if (item.type === "links" && !isNear(ctx, item.lane.id)) return;
    else DRAW[item.type](ctx, element, item);
  });
  drawBrush(ctx);
}

/** The lanes scroll inside the board when they would fill more than a screen. */
function frame(ctx, rows) {
  const scrolls = ctx.compact && rowsHeight(rows) > SCROLL_PX;
  const beside = Boolean(ctx.view.other_name);
  if (ctx.scrolls !== scrolls) {
    ctx.scrolls = scrolls;
    ctx.body.classList.toggle("b-scrolls", scrolls);
  }
  if (ctx.wasCompact !== ctx.compact) {
    ctx.wasCompact = ctx.compact;
    ctx.body.classList.toggle("b-compact", ctx.compact);
  }
  if (ctx.beside !== beside) {
    ctx.beside = beside;
    ctx.lanes.classList.toggle("b-ab", beside);
  }
}

function watchNearness(ctx, lazy) {
  const known = ctx.nearness?.near;
  ctx.nearness?.close();
  ctx.nearness = null;
  if (!lazy) return;
  ctx.nearness = new Nearness(ctx.scrolls ? ctx.stage : null, () => drawBoard(ctx), known);
  for (const element of ctx.rowElements) if (element.dataset.lane != null) ctx.nearness.watch(element);
}

/** Is a lane built? Near what is seen, holding the focus, or part of a preview. */
function isNear(ctx, id) {
  if (!ctx.nearness || ctx.nearness.near.has(id) || ctx.wanted === id) return true;
  return ctx.preview?.target === id;
}

/** Call back once the next frame is drawn: before messages that came meanwhile, where the browser has priorities. */
export function afterPaint(done) {
  requestAnimationFrame(() => {
    const { scheduler } = /** @type {any} */ (globalThis);
    if (scheduler?.postTask) return void scheduler.postTask(done, { priority: "user-blocking" });
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      done();
    };
    port2.postMessage(0);
  });
}
