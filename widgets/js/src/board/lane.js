// One lane: its name and devices, its memory bar, its chips on the time scale; and the heading row of a group of lanes.

import { h, keyed, set } from "../common/dom.js";
import { bytes, percent, seconds, secondsParts } from "../common/format.js";
import { drawChip, makeChip } from "./chip.js";
import { overIdeal } from "./head.js";
import { groupSummary, linkClass, linkThickness } from "./layout.js";
import { drawMemory, makeMemory } from "./memory-bar.js";

export function makeLane(ctx, { lane }) {
  const chips = h("div", { class: "b-chips", role: "listbox", "aria-multiselectable": "true", "aria-orientation": "horizontal" });
  const track = h(
    "div",
    { class: "b-track" },
    chips,
    h("div", { class: "b-over" }),
    h("div", { class: "b-slot" }),
    h("div", { class: "b-handles" }),
    h("div", { class: "b-end" }, h("b", {}), h("span", {})),
  );
  return h(
    "div",
    { class: "b-row b-lane", "data-lane": lane.id },
    h("div", { class: "b-name" }, h("b", {}), h("span", { class: "b-devices" })),
    makeMemory(),
    h("div", { class: "b-cell-track" }, track),
  );
}

export function drawLane(ctx, element, { lane, compact }) {
  const preview = ctx.preview?.view?.lanes.find((other) => other.id === lane.id) ?? null;
  const isTarget = ctx.preview?.target === lane.id && preview !== null && preview.runs !== lane.runs;
  const shown = preview ?? lane;
  const bad = shown.peak_bytes > shown.capacity_bytes;
  element.classList.toggle("compact", compact);
  element.classList.toggle("target", isTarget || ctx.preview?.target === lane.id);
  element.classList.toggle("bad", bad && isTarget);
  drawName(element.querySelector(".b-name"), lane);
  drawMemory(ctx, element.querySelector(".b-mem"), shown, preview ? lane : null);

  const pieces = ctx.pieces.get(lane.id);
  const track = element.querySelector(".b-track");
  const chips = element.querySelector(".b-chips");
  set(chips, {
    "aria-label": `${lane.name}, ${deviceWords(lane)}, ${seconds(lane.forward_s + lane.backward_s)}, ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}`,
  });
  let at = 0;
  const ends = new Map();
  const placed = pieces.map((piece) => {
    const left = at;
    at += piece.time_s / ctx.scale_s;
    ends.set(piece.stage, at);
    return { piece, left, width: at - left };
  });
  keyed(
    chips,
    placed,
    ({ piece }) => piece.key,
    () => makeChip(),
    (chip, place, i) => drawChip(ctx, chip, place, placed[i - 1], lane),
  );

  const time = lane.forward_s + lane.backward_s;
  const end = Math.max(at, time / ctx.scale_s);
  const ideal = ctx.view.ideal_s / ctx.scale_s;
  set(element.querySelector(".b-over"), {
    style: {
      left: pct(ideal),
      width: pct(Math.max(0, Math.min(1, at) - ideal)),
      display: at > ideal * 1.001 && !isTarget ? "" : "none",
    },
    class: `b-over${lane.binds ? " binds" : ""}`,
  });
  const gain = isTarget ? (preview.forward_s + preview.backward_s - time) / ctx.scale_s : 0;
  set(element.querySelector(".b-slot"), {
    style: {
      left: pct(Math.min(at, 0.98)),
      width: pct(Math.max(0.004, Math.min(gain, 1 - Math.min(at, 0.98)))),
      display: isTarget && gain > 0 ? "" : "none",
    },
  });
  const handles = track.querySelector(".b-handles");
  handles.hidden = isTarget && !ctx.preview.boundary; // the slot takes their place
  drawHandles(ctx, handles, lane, ends, gain);
  drawEnd(ctx, track.querySelector(".b-end"), { lane, preview, isTarget, end: end + Math.max(0, gain), ideal, bad });
}

function drawName(element, lane) {
  set(element.firstChild, { text: lane.name });
  const many = lane.replicas.length > 4;
  const items = (many ? lane.replicas.slice(0, 3) : lane.replicas)
    .flatMap((group, i) => [
      ...(i && lane.replica_link ? [{ key: `link${i}`, link: lane.replica_link }] : []),
      { key: `r${i}`, text: rangeWords(group) },
    ])
    .concat(many ? [{ key: "more", text: `+${lane.replicas.length - 3}` }] : []);
  const devices = element.querySelector(".b-devices");
  set(devices, {
    title:
      deviceWords(lane) +
      (lane.replica_link?.step_bytes
        ? `; ${bytes(lane.replica_link.step_bytes)} of gradients a step over ${lane.replica_link.name ?? lane.replica_link.kind}`
        : ""),
  });
  if (devices.firstChild?.nodeType !== Node.TEXT_NODE) devices.prepend("gpu");
  keyed(
    devices,
    items,
    (item) => item.key,
    (item) => h("span", { class: item.link ? "b-wire" : "b-device" }),
    (span, item) => {
      if (!item.link) set(span, { text: item.text });
      else
        set(span, {
          class: `b-wire b-k-${linkClass(item.link.kind)}`,
          style: { height: `${linkThickness(item.link.step_bytes)}px` },
        });
    },
  );
}

const rangeWords = (group) => (group.length > 1 ? `${group[0]}–${group[group.length - 1]}` : String(group[0] ?? ""));

/** "gpu 4 and 5" */
export function deviceWords(lane) {
  const groups = lane.replicas.map(rangeWords);
  return `gpu ${groups.length > 1 ? `${groups.slice(0, -1).join(", ")} and ${groups[groups.length - 1]}` : (groups[0] ?? "?")}`;
}

function drawHandles(ctx, place, lane, ends, gain) {
  const boundaries = ctx.view.boundaries.filter((boundary) => boundary.before_lane === lane.id && ends.has(boundary.before));
  keyed(
    place,
    boundaries,
    (boundary) => boundary.id,
    (boundary) =>
      h(
        "div",
        { class: "b-handle", role: "slider", tabindex: "0", "data-boundary": boundary.id, "aria-orientation": "horizontal" },
        h("i", {}),
      ),
    (handle, boundary) => {
      const shift = ctx.preview?.boundary === boundary.id ? ctx.preview.shift_s / ctx.scale_s : gain;
      set(handle, {
        style: { left: pct(Math.min(0.985, ends.get(boundary.before) + Math.max(0, shift) + Math.min(0, shift))) },
        "aria-label": `boundary between stage ${boundary.before} and stage ${boundary.after}`,
        "aria-valuemin": boundary.minimum,
        "aria-valuemax": boundary.maximum,
        "aria-valuenow": boundary.at,
        "aria-valuetext": `${ctx.lane(boundary.before_lane)?.name} ends after ${ctx.catalog.blocks[ctx.catalog.layers[boundary.at - 1]?.block]?.name ?? "nothing"}`,
        "aria-disabled": ctx.editable ? null : "true",
        title: `Drag, or [ and ]: move blocks between stage ${boundary.before} and stage ${boundary.after}`,
      });
    },
  );
}

function drawEnd(ctx, element, { lane, preview, isTarget, end, ideal, bad }) {
  const [now, then] = [lane, preview ?? lane].map((l) => l.forward_s + l.backward_s);
  const changes = preview && Math.abs(now - then) > 1e-12;
  const slowest = Math.max(...(ctx.preview?.view ?? ctx.view).lanes.map((l) => l.forward_s + l.backward_s));
  const binds = preview ? then === slowest && ctx.view.lanes.length > 1 : lane.binds;
  const over = overIdeal(preview ?? lane, ctx.view.ideal_s);
  set(element.children[0], { text: changes ? `${secondsParts(now, then).text} → ${seconds(then)}` : seconds(now) });
  set(element.children[1], { text: `${over}${binds ? (isTarget ? ", would bind" : " binds") : ""}` });
  const px = ctx.trackPx;
  const time0 = Math.min(now, then);
  const wide = changes ? 128 : 62;
  const between = ctx.view.boundaries.some((b) => b.before_lane === lane.id) ? 20 : 8;
  let left = end * px + between;
  if (left < ideal * px + 6 && left + wide > ideal * px) left = ideal * px + 8;
  if (isTarget && changes) left = Math.min((time0 / ctx.scale_s) * px + 10, px - wide - 4);
  const outside = left + wide > px;
  set(element, {
    class: `b-end${binds ? " binds" : ""}${bad && isTarget ? " bad" : ""}${outside ? " inside" : ""}`,
    style: outside ? { left: null, right: "2px" } : { left: `${left}px`, right: null },
  });
}

export function makeGroup(ctx, { name }) {
  const toggle = h("button", {
    class: "sx-btn b-fold",
    "data-action": "fold",
    on: {
      click: () => {
        const collapsed = new Set(ctx.model.get("collapsed") ?? []);
        if (!collapsed.delete(name)) collapsed.add(name);
        ctx.sync.set("collapsed", [...collapsed]);
      },
    },
  });
  return h(
    "div",
    { class: "b-row b-group", "data-group": name },
    h("div", { class: "b-name" }, toggle),
    h("div", { class: "b-mem" }),
    h("div", { class: "b-cell-track" }, h("div", { class: "b-sum" }), h("span", {})),
  );
}

export function drawGroup(ctx, element, { name, lanes, folded }) {
  const sum = groupSummary(lanes);
  set(element.querySelector(".b-fold"), {
    text: `${folded ? "▸" : "▾"} ${name}`,
    "aria-expanded": String(!folded),
    "aria-label": `${name}, ${lanes.length} lanes`,
  });
  const full = sum.fullest.peak_bytes / sum.fullest.capacity_bytes;
  const track = element.querySelector(".b-cell-track");
  set(element.querySelector(".b-mem"), {
    text: folded ? `fullest ${sum.fullest.name}: ${percent(full)}${full > 1 ? " ▲" : ""}` : "",
  });
  set(track.firstChild, {
    style: {
      width: pct(Math.min(1, (sum.slowest.forward_s + sum.slowest.backward_s) / ctx.scale_s)),
      display: folded ? "" : "none",
    },
  });
  set(track.lastChild, {
    text: `${lanes.length} lanes, slowest ${sum.slowest.name}: ${seconds(sum.slowest.forward_s + sum.slowest.backward_s)}`,
  });
}

/** A fraction as CSS percent. */
export const pct = (x) => `${(x * 100).toFixed(4)}%`;
