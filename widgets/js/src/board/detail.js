// The strip below the board: the selection in numbers, or what is being carried; and what can be done with it.

import { h, keyed } from "../common/dom.js";
import { bytes, count, seconds } from "../common/format.js";
import { allPinned } from "./holds.js";
import { deviceWords } from "./lane.js";
import { openMoveMenu } from "./menu.js";
import { patch, stale } from "./patch.js";

const HINT =
  "Drag a boundary or a block. Shift selects a range; Alt+Up and Alt+Down move it; [ and ] shift a boundary; P pins, L locks.";
const STILL = "Select a block to see its figures; Enter opens it.";

export function makeDetail(ctx) {
  const button = (action, text, click) => h("button", { class: "sx-btn", "data-action": action, text, on: { click } });
  const facts = h("div", { class: "b-facts" });
  const pin = button("pin", "Pin", () => ctx.togglePins(ctx.selected));
  const lock = button("lock", "Lock lane", () => ctx.toggleLock(homeOf(ctx, ctx.selected)?.id));
  const devices = button("devices", "Devices…", () => ctx.devices.open(homeOf(ctx, ctx.selected)?.replicas[0][0]));
  const moveTo = button("move-to", "Move to…", () => openMoveMenu(ctx, moveTo));
  moveTo.setAttribute("aria-haspopup", "menu");
  const detail = h("div", { class: "b-detail" }, facts, h("span", { class: "sx-space" }), pin, lock, devices, moveTo);
  Object.assign(detail, { facts, pin, lock, devices, moveTo });
  return detail;
}

/** The one lane that holds all of some layers, or null. */
export function homeOf(ctx, positions) {
  let home = -2;
  for (const position of positions) {
    const owner = ctx.owners[position];
    if (home !== -2 && owner !== home) return null;
    home = owner;
  }
  return ctx.view.lanes[home] ?? null;
}

export function drawDetail(ctx, element) {
  const { selected, preview, editable, message, pinned } = ctx;
  if (!stale(element, [selected, preview, editable, message, pinned, ctx.view.lanes, ctx.view.other_name])) return;
  const carried = preview?.positions;
  const positions = carried ?? selected;
  const facts = positions.size ? factsOf(ctx, positions, preview) : [{ key: "hint", name: "", value: message ? "" : editable ? HINT : STILL }];
  if (message) facts.unshift({ key: "message", name: "", value: message, warn: true });
  keyed(
    element.facts,
    facts,
    (fact) => fact.key,
    () => h("span", { class: "b-fact" }, h("span", {}), h("b", {})),
    (span, fact) => {
      patch(span.children[0], { text: fact.name });
      patch(span.children[1], { text: fact.value });
      patch(span, { class: `b-fact${fact.title ? " title" : ""}${fact.warn ? " warn" : ""}` });
    },
  );
  drawButtons(ctx, element, Boolean(carried));
}

function drawButtons(ctx, { pin, lock, devices, moveTo }, carrying) {
  const { selected } = ctx;
  const home = selected.size ? homeOf(ctx, selected) : null;
  const idle = !selected.size || !ctx.editable || carrying;
  const on = allPinned(ctx.pinned, selected);
  const shut = ctx.model.link?.shut;
  const off = shut ? "The kernel is gone" : !ctx.editable ? "This board is read-only" : carrying ? "Drop what you carry first" : "Select a block first";
  enable(pin, !idle);
  enable(lock, !idle && home != null);
  enable(moveTo, !idle);
  enable(devices, ctx.editable && !carrying);
  patch(devices, { title: ctx.editable ? "Move devices between stages, or out of use (G)" : off });
  patch(pin, {
    text: on ? "Unpin" : "Pin",
    "aria-pressed": String(on),
    title: idle ? off : "Pinned layers stay on their devices, for you and for searches (P)",
  });
  patch(lock, {
    text: `${home?.locked ? "Unlock" : "Lock"} ${home?.name ?? "lane"}`,
    "aria-pressed": String(Boolean(home?.locked)),
    title: idle ? off : home ? "A locked lane keeps exactly its layers (L)" : "Select blocks of one lane only",
  });
  patch(moveTo, { title: idle ? off : "Choose where the selection goes" });
}

function enable(button, on) {
  if (button.disabled === on) button.disabled = !on;
}

function factsOf(ctx, positions, preview) {
  const { catalog } = ctx;
  const sum = { forward_s: 0, backward_s: 0, parameters: 0, saved_bytes: 0, state_bytes: 0, seen: false };
  const lanes = new Set();
  for (const position of positions) {
    const layer = catalog.layers[position];
    for (const key of ["forward_s", "backward_s", "saved_bytes", "state_bytes"]) sum[key] += layer[key];
    if (layer.parameters != null) {
      sum.parameters += layer.parameters;
      sum.seen = true;
    }
    if (ctx.owners[position] >= 0) lanes.add(ctx.view.lanes[ctx.owners[position]]);
  }
  const where = [...lanes];
  const at = where.length === 1 ? `${where[0].name}, ${deviceWords(where[0])}` : `${where.length} lanes`;
  const head = { key: "title", name: preview ? `from ${at}` : at, value: catalog.describe(positions), title: true };
  const parameters = sum.seen ? [{ key: "parameters", name: "parameters", value: count(sum.parameters) }] : [];
  if (preview) return [head, ...parameters, ...carriedFacts(ctx, sum, preview)];
  return [
    head,
    ...parameters,
    { key: "forward", name: "forward", value: seconds(sum.forward_s) },
    { key: "backward", name: "backward", value: seconds(sum.backward_s) },
    { key: "state", name: "state", value: bytes(sum.state_bytes) },
    {
      key: "saved",
      name: "activations",
      value: `${bytes(sum.saved_bytes)}${where.length === 1 ? ` × ${where[0].in_flight} in flight` : " a microbatch"}`,
    },
    ...outFact(catalog, positions),
    ...pinFact(ctx, positions),
    ...otherFact(ctx, positions, where),
  ];
}

/** What the carried layers weigh where they would go. */
function carriedFacts(ctx, sum, preview) {
  const lane = preview.target == null ? null : ctx.lane(preview.target);
  const time = { key: "time", name: "time", value: seconds(sum.forward_s + sum.backward_s) };
  if (!lane) return [time];
  const saved = sum.saved_bytes * (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight);
  return [
    time,
    {
      key: "memory",
      name: `memory in ${lane.name}`,
      value: `${bytes(sum.state_bytes * (lane.state_factor ?? 1))} state + ${bytes(saved)} activations (${lane.in_flight} in flight)`,
    },
  ];
}

function outFact(catalog, positions) {
  let last = -1;
  for (const position of positions) last = Math.max(last, position);
  const size = catalog.layers[last].output_bytes;
  return size == null ? [] : [{ key: "out", name: "out", value: bytes(size) }];
}

function pinFact(ctx, positions) {
  let held = 0;
  for (const position of positions) held += ctx.pinned.has(position) ? 1 : 0;
  return held ? [{ key: "pin", name: "", value: held === positions.size ? "pinned" : "partly pinned" }] : [];
}

/** Where plan B has the selection, if elsewhere. */
function otherFact(ctx, positions, where) {
  if (!ctx.otherOwner) return [];
  const names = new Set();
  for (const position of positions) {
    const owner = ctx.otherOwner[position];
    if (owner >= 0 && !where.includes(ctx.view.lanes[owner])) names.add(ctx.view.lanes[owner].name);
  }
  return names.size ? [{ key: "other", name: `in ${ctx.view.other_name}`, value: [...names].join(", ") }] : [];
}
