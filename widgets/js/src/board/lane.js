// One lane: its name and devices, its memory bar, its chips on the time scale, the handle and the words at its end.

import { h, keyed } from "../common/dom.js";
import { bytes, seconds, secondsParts } from "../common/format.js";
import { drawChip, makeChip } from "./chip.js";
import { drawHandles } from "./handles.js";
import { overIdeal } from "./head.js";
import { compactDevices, linkClass, linkThickness, memoryLevel, rangeWords, shortName, shownReplicas } from "./layout.js";
import { drawMemory, makeMemory } from "./memory-bar.js";
import { holdsAny } from "./model.js";
import { drawOther } from "./other.js";
import { forget, patch, pct, stale } from "./patch.js";

/** Letters of a name that leave room for the word "locked" beside it. */
const LONGEST_BESIDE_LOCKED = 7;

const time = (lane) => lane.forward_s + lane.backward_s;

export function makeLane(ctx, { lane, compact }) {
  return h("div", { class: `b-row b-lane${compact ? " compact" : ""}`, "data-lane": lane.id });
}

/** What a lane consists of; made when it comes near the part of the page that is seen. */
function fill(ctx, element) {
  const parts = {
    title: h("b", {}),
    kind: h("span", { class: "b-kind" }),
    lock: h("button", {
      class: "b-lock",
      "data-action": "unlock",
      hidden: true,
      on: { click: () => ctx.toggleLock(element.dataset.lane) },
    }),
    devices: h("span", { class: "b-devices" }),
    memory: makeMemory(),
    chips: h("div", { class: "b-chips", role: "listbox", "aria-multiselectable": "true", "aria-orientation": "horizontal" }),
    over: h("div", { class: "b-over" }),
    slot: h("div", { class: "b-slot" }),
    other: h("div", { class: "b-other", "aria-hidden": "true" }),
    handles: h("div", { class: "b-handles" }),
    end: h("div", { class: "b-end" }, h("b", {}), h("span", {})),
  };
  parts.lock.append(h("i", { class: "b-padlock" }), "locked");
  const { chips, over, slot, other, handles, end } = parts;
  element.append(
    h("div", { class: "b-name" }, h("span", { class: "b-title" }, parts.title, parts.kind, parts.lock), parts.devices),
    parts.memory,
    h("div", { class: "b-cell-track" }, h("div", { class: "b-track" }, chips, over, slot, other, handles, end)),
  );
  built.set(element, parts);
  return parts;
}

/** @type {WeakMap<Element, any>} parts of the lanes that are built */
const built = new WeakMap();

/** Take a lane that is far from what is seen apart; its row keeps its height. */
export function emptyLane(element) {
  if (!built.has(element) || element.contains(document.activeElement)) return;
  element.replaceChildren();
  built.delete(element);
  forget(element);
}

export function drawLane(ctx, element, { lane, compact }) {
  const state = stateOf(ctx, lane, compact);
  if (built.has(element) && !stale(element, state.inputs)) return;
  const parts = built.get(element) ?? fill(ctx, element);
  stale(element, state.inputs);
  const { preview, isTarget, refused } = state;
  const shown = preview ?? lane;
  const bad = memoryLevel(shown) === "bad";
  patch(element, {
    class: `b-row b-lane${compact ? " compact" : ""}${isTarget ? " target" : ""}${bad && isTarget ? " bad" : ""}${refused ? " refused" : ""}${lane.locked ? " locked" : ""}`,
  });
  drawName(parts, lane, compact, ctx.narrow);
  drawMemory(ctx, parts.memory, shown, preview ? lane : null);
  drawTrack(ctx, parts, { ...state, lane, bad, refused });
}

/** Everything a lane is drawn from; what is not of this lane is left out, so that the others are not drawn again. */
function stateOf(ctx, lane, compact) {
  const holds = ({ set, sorted }) => (lane.runs.some((run) => holdsAny(sorted, run.first, run.first + run.count)) ? set : null);
  const found = ctx.previewLanes?.get(lane.id);
  const preview = found && found !== lane ? found : null;
  const isTarget = ctx.preview?.target === lane.id;
  const refused = isTarget ? (ctx.preview.refused ?? null) : null;
  const boundaries = ctx.boundariesOf.get(lane.id) ?? [];
  const pulled = boundaries.some((b) => b.id === ctx.preview?.boundary) ? ctx.preview.shift_s : null;
  const chosen = holds(ctx.chosen);
  const leaving = ctx.preview?.view && !isTarget ? holds(ctx.carried) : null;
  const pinned = holds(ctx.fixed);
  const pieces = ctx.pieces.get(lane.id);
  const focus = pieces.some((piece) => piece.key === ctx.focusKey) ? ctx.focusKey : null;
  const inputs = [
    lane, compact, preview, isTarget, refused, pulled, chosen, leaving, pinned, pieces, focus, ctx.scale_s, ctx.trackPx,
    ctx.memory_bytes, ctx.view.ideal_s, ctx.look.mode, ctx.look.top, ctx.editable, ctx.otherOwner, ctx.view.other_name,
    ...boundaries,
  ]; // prettier-ignore
  return { inputs, compact, preview, isTarget, refused, chosen, leaving, pinned, pieces, boundaries };
}

function drawName(parts, lane, compact, narrow) {
  const name = shortName(lane.name);
  patch(parts.title, { text: name, title: lane.name });
  patch(parts.kind, { text: lane.kind ?? "", title: lane.kind ?? null });
  const locked = Boolean(lane.locked);
  if (parts.lock.hidden === locked) parts.lock.hidden = !locked;
  patch(parts.lock, {
    class: `b-lock${name.length > LONGEST_BESIDE_LOCKED ? " short" : ""}`,
    "aria-label": `Unlock ${lane.name}`,
    title: `${lane.name} keeps exactly its layers. Press to unlock.`,
  });
  if (stale(parts.devices, [compact, narrow, lane.group, lane.replicas, lane.replica_count, lane.replica_link, lane.span]))
    drawDevices(parts.devices, lane, compact, narrow);
}

/** What stands for a lane's devices: a box for each of the first replicas with the link between them; compact, only words. */
function deviceItems(lane, compact, narrow) {
  if (compact)
    return compactDevices(lane).map((text, i) => ({
      key: `r${i}`,
      text,
      device: lane.replicas[i] && rangeWords(lane.replicas[i]) === text ? lane.replicas[i][0] : null,
    }));
  const shown = shownReplicas(lane.replicas, replicaCount(lane), narrow);
  if (!shown) return compactDevices(lane).map((text, i) => ({ key: `r${i}`, text }));
  const more = replicaCount(lane) - shown;
  return lane.replicas
    .slice(0, shown)
    .flatMap((group, i) => [
      ...(i && lane.replica_link ? [{ key: `link${i}`, link: lane.replica_link }] : []),
      { key: `r${i}`, text: rangeWords(group), device: group[0] },
    ])
    .concat(more > 0 ? [{ key: "more", text: `+${more}` }] : []);
}

function drawDevices(element, lane, compact, narrow) {
  const items = deviceItems(lane, compact, narrow);
  const link = lane.replica_link;
  const reduced = link?.step_bytes ? `; ${bytes(link.step_bytes)} of gradients a step over ${link.name ?? link.kind}` : "";
  patch(element, { title: (lane.group ? `${lane.group}: ` : "") + deviceWords(lane) + reduced });
  if (element.firstChild?.nodeType !== Node.TEXT_NODE) element.prepend("gpu");
  keyed(
    element,
    items,
    (item) => item.key,
    (item) => h("span", { class: item.link ? "b-wire" : "b-device" }),
    (span, item) => {
      if (!item.link) patch(span, { text: item.text, "data-device": item.device ?? null });
      else
        patch(span, {
          class: `b-wire b-k-${linkClass(item.link.kind)}`,
          style: { height: `${linkThickness(item.link.step_bytes)}px` },
        });
    },
  );
}

/** Number of a lane's replicas, of which only the first are named. */
const replicaCount = (lane) => lane.replica_count ?? lane.replicas.length;

/** "gpu 4 and 5", "gpu 0–7, 8–15 and 62 more" */
export function deviceWords(lane) {
  const groups = lane.replicas.map(rangeWords);
  const more = replicaCount(lane) - groups.length;
  if (more > 0) groups.push(`${more} more`);
  return `gpu ${groups.length > 1 ? `${groups.slice(0, -1).join(", ")} and ${groups[groups.length - 1]}` : (groups[0] ?? "?")}`;
}

/** What " binds" and ", locked" add to a lane's words. */
const [BINDS_PX, LOCKED_PX] = [34, 42];

function drawTrack(ctx, parts, state) {
  const { lane, preview, isTarget, refused, pieces } = state;
  const held = lane.locked ? ", locked" : "";
  patch(parts.chips, {
    "aria-label": `${lane.name}, ${deviceWords(lane)}, ${seconds(time(lane))}, ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}${held}`,
  });
  const ideal = ctx.view.ideal_s / ctx.scale_s;
  const gain = isTarget && preview ? (time(preview) - time(lane)) / ctx.scale_s : 0;
  const whole = pieces.reduce((sum, piece) => sum + piece.time_s, 0) / ctx.scale_s;
  const words = placeEnd(ctx, state, { end: Math.max(whole, time(lane) / ctx.scale_s) + Math.max(0, gain), ideal });
  const covered = words.outside ? ctx.trackPx - words.px : Infinity; // the words stand on the chips from there on
  let at = 0;
  const ends = new Map();
  const placed = pieces.map((piece) => {
    const left = at;
    at += piece.time_s / ctx.scale_s;
    ends.set(piece.stage, at);
    return { piece, left, width: at - left };
  });
  keyed(
    parts.chips,
    placed,
    ({ piece }) => piece.key,
    () => makeChip(),
    (chip, place, i) => drawChip(ctx, chip, place, placed[i - 1], { ...state, covered }),
  );
  drawOver(parts.over, { lane, at, ideal, hidden: isTarget && Boolean(preview) });
  drawSlot(ctx, parts.slot, { at, gain, refused });
  drawOther(ctx, parts.other, lane);
  const hidden = Boolean(isTarget && preview && !ctx.preview.boundary); // the slot takes their place
  if (parts.handles.hidden !== hidden) parts.handles.hidden = hidden;
  drawHandles(ctx, parts.handles, state.boundaries, ends);
  drawEnd(ctx, parts.end, { ...state, ...words });
}

/** What is beyond the ideal line is hatched. */
function drawOver(element, { lane, at, ideal, hidden }) {
  patch(element, {
    class: `b-over${lane.binds ? " binds" : ""}`,
    style: {
      left: pct(ideal),
      width: pct(Math.max(0, Math.min(1, at) - ideal)),
      display: at > ideal * 1.001 && !hidden ? null : "none",
    },
  });
}

/** The place that the carried layers would take; or the words why they may not. */
function drawSlot(ctx, element, { at, gain, refused }) {
  const left = Math.min(at, 0.98);
  patch(element, {
    text: refused && !ctx.compact ? refused : "",
    class: `b-slot${refused ? " refused" : ""}`,
    style: {
      left: refused ? "2px" : pct(left),
      width: refused ? null : pct(Math.max(0.004, Math.min(gain, 1 - left))),
      display: refused || gain > 0 ? null : "none",
    },
  });
}

/** Where a lane's words go: behind its end, or at the right edge where there is no room, over the chips. */
function placeEnd(ctx, { lane, preview, boundaries, compact }, { end, ideal }) {
  const changes = Boolean(preview) && Math.abs(time(preview) - time(lane)) > 1e-12;
  const more = (lane.binds ? BINDS_PX : 0) + (lane.locked ? LOCKED_PX : 0); // beside the sum, or below it where it is longer
  const px = (changes ? 128 : 62) + (compact ? 56 + more : Math.max(0, more - 20));
  let left = end * ctx.trackPx + (boundaries.length ? 20 : 8);
  if (left < ideal * ctx.trackPx + 6 && left + px > ideal * ctx.trackPx) left = ideal * ctx.trackPx + 8;
  return { changes, left, outside: left + px > ctx.trackPx, px: px + 14 };
}

function drawEnd(ctx, element, { lane, preview, isTarget, refused, bad, compact, changes, left, outside }) {
  const [now, then] = [lane, preview ?? lane].map(time);
  const { binds } = preview ?? lane;
  const words = `${overIdeal(preview ?? lane, ctx.view.ideal_s)}${binds ? (preview && !lane.binds ? ", would bind" : " binds") : ""}${lane.locked ? ", locked" : ""}`;
  const empty = !lane.runs.length && !preview;
  patch(element.children[0], { text: empty ? "empty" : changes ? `${secondsParts(now, then).text} → ${seconds(then)}` : seconds(now) });
  patch(element.children[1], { text: empty ? "drop layers here" : words });
  patch(element, {
    class: `b-end${binds ? " binds" : ""}${bad && isTarget ? " bad" : ""}${outside ? " inside" : ""}`,
    style: {
      left: outside ? null : `${left.toFixed(1)}px`,
      right: outside ? "2px" : null,
      display: refused && !compact ? "none" : null,
    },
  });
}
