// A lane's memory: named parts on a scale common to all lanes, capacity tick, overflow hatched and said.

import { h, keyed, set, triangle } from "../common/dom.js";
import { bytes, percent } from "../common/format.js";
import { memoryLevel, memorySegments } from "./layout.js";

export function makeMemory() {
  return h(
    "div",
    { class: "b-mem" },
    h(
      "div",
      { class: "b-mem-text" },
      h("b", {}),
      h("span", { class: "b-share" }),
      h("span", { class: "sx-space" }),
      h("span", { class: "b-mem-side" }),
    ),
    h(
      "div",
      { class: "b-bar" },
      h("div", { class: "b-parts" }),
      h("i", { class: "b-excess" }),
      h("i", { class: "b-was" }),
      h("i", { class: "b-cap" }),
    ),
    triangle("b-mem-tri"),
  );
}

/** @param {any} lane what to show @param {any} was the lane before the preview, or null */
export function drawMemory(ctx, element, lane, was) {
  const level = memoryLevel(lane);
  const scale = ctx.memory_bytes;
  const over = lane.peak_bytes - lane.capacity_bytes;
  const [main, share, , side] = element.querySelector(".b-mem-text").children;
  element.dataset.level = level;
  set(main, { text: bytes(lane.peak_bytes) });
  set(share, { text: level === "bad" ? "" : percent(lane.peak_bytes / lane.capacity_bytes) });
  set(side, {
    text: level === "bad" ? `+${bytes(over)} over` : level === "warn" ? `${bytes(-over)} left` : `${lane.in_flight} in flight`,
  });
  const segments = memorySegments(lane.memory, scale);
  const words = segments.map((segment) => `${segment.name} ${bytes(segment.bytes)}`).join("\n");
  set(element, {
    title: `${words}\n${lane.in_flight} microbatches in flight`,
    role: "img",
    "aria-label": `memory ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}${level === "bad" ? `, over by ${bytes(over)}` : ""}: ${words.replaceAll("\n", ", ")}`,
  });
  const bar = element.querySelector(".b-bar");
  keyed(
    bar.querySelector(".b-parts"),
    segments,
    (segment) => segment.key,
    (segment) => h("i", { class: `b-m-${segment.cls}`, "data-part": segment.key }),
    (part, segment) => set(part, { style: { left: pct(segment.left), width: pct(segment.width) } }),
  );
  const capacity = lane.capacity_bytes / scale;
  const used = Math.min(1, lane.peak_bytes / scale);
  set(bar.querySelector(".b-excess"), {
    style: { left: pct(capacity), width: pct(Math.max(0, used - capacity)), display: level === "bad" ? "" : "none" },
  });
  set(bar.querySelector(".b-was"), {
    style: {
      left: pct(Math.min(1, (was ?? lane).peak_bytes / scale)),
      display: was && Math.abs(was.peak_bytes - lane.peak_bytes) > 1 ? "" : "none",
    },
  });
  set(bar.querySelector(".b-cap"), { style: { left: pct(capacity) } });
}

const pct = (x) => `${(x * 100).toFixed(3)}%`;
