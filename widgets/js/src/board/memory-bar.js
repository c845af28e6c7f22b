// A lane's memory: named parts on a scale common to all lanes, capacity tick, overflow hatched and said.

import { h, keyed, triangle } from "../common/dom.js";
import { bytes, percent } from "../common/format.js";
import { mayFit, memoryLevel, memorySegments } from "./layout.js";
import { patch, pct } from "./patch.js";

/** @type {WeakMap<Element, any>} */
const built = new WeakMap();

export function makeMemory() {
  const parts = {
    main: h("b", {}),
    share: h("span", { class: "b-share" }),
    side: h("span", { class: "b-mem-side" }),
    segments: h("div", { class: "b-parts" }),
    excess: h("i", { class: "b-excess" }),
    was: h("i", { class: "b-was" }),
    cap: h("i", { class: "b-cap" }),
    other: h("i", { class: "b-then" }),
    words: h("div", { class: "b-mem-other" }),
  };
  const element = h(
    "div",
    { class: "b-mem", role: "img" },
    h("div", { class: "b-mem-text" }, parts.main, parts.share, h("span", { class: "sx-space" }), parts.side),
    h("div", { class: "b-bar" }, parts.segments, parts.excess, parts.was, parts.other, parts.cap),
    parts.words,
    triangle("b-mem-tri"),
  );
  built.set(element, parts);
  return element;
}

/** @param {any} lane what to show @param {any} was the lane before the preview, or null */
export function drawMemory(ctx, element, lane, was) {
  const parts = built.get(element);
  const level = memoryLevel(lane);
  const scale = ctx.memory_bytes;
  const over = lane.peak_bytes - lane.capacity_bytes;
  const flight = `${lane.in_flight} in flight`;
  patch(element, { "data-level": level });
  patch(parts.main, { text: bytes(lane.peak_bytes) });
  patch(parts.share, { text: level === "bad" ? "" : percent(lane.peak_bytes / lane.capacity_bytes) });
  patch(parts.side, { text: level === "bad" ? `+${bytes(over)} over` : mayFit(lane) ? "may fit" : level === "warn" ? `${bytes(-over)} left` : flight });
  const segments = memorySegments(lane.memory, scale);
  const words = segments.map((segment) => `${segment.name} ${bytes(segment.bytes)}`);
  const beside = lane.other ? `; ${ctx.view.other_name}: ${bytes(lane.other.peak_bytes)}` : "";
  patch(element, {
    title: `${words.join("\n")}\n${lane.in_flight} ${lane.in_flight === 1 ? "microbatch" : "microbatches"} in flight`,
    "aria-label": `memory ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}${level === "bad" ? `, over by ${bytes(over)}` : mayFit(lane) ? ", may fit" : ""}: ${words.join(", ")}${beside}`,
  });
  keyed(
    parts.segments,
    segments,
    (segment) => segment.key,
    (segment) => h("i", { class: `b-m-${segment.cls}`, "data-part": segment.key }),
    (part, segment) => patch(part, { style: { left: pct(segment.left), width: pct(segment.width) } }),
  );
  const capacity = lane.capacity_bytes / scale;
  const used = Math.min(1, lane.peak_bytes / scale);
  patch(parts.excess, {
    style: { left: pct(capacity), width: pct(Math.max(0, used - capacity)), display: level === "bad" ? null : "none" },
  });
  const before = was && Math.abs(was.peak_bytes - lane.peak_bytes) > 1 ? was.peak_bytes : null;
  patch(parts.was, {
    style: { left: before == null ? null : pct(Math.min(1, before / scale)), display: before == null ? "none" : null },
  });
  const then = lane.other?.peak_bytes;
  patch(parts.other, {
    style: { left: then == null ? null : pct(Math.min(1, then / scale)), display: then == null ? "none" : null },
  });
  patch(parts.words, { text: then == null ? "" : `B ${bytes(then)}` });
  patch(parts.cap, { style: { left: pct(capacity) } });
}
