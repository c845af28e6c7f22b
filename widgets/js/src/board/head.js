// Heading row of the board: what is drawn, legend, colour modes, Move to, Fit. And how a lane is put in words.

import { h, heading, keyed, set } from "../common/dom.js";
import { keysButton } from "../common/keys.js";
import { pictureButtons } from "../common/picture.js";
import { bytes, percent, seconds, signed } from "../common/format.js";
import { linkClass, MEMORY_PARTS, memoryLevel } from "./layout.js";
import { stale } from "./patch.js";

const MODES = [
  ["kind", "Kind"],
  ["memory", "Memory"],
  ["time", "Time"],
  ["traffic", "Traffic"],
];
const LINK_NAMES = {
  nvlink: "NVLink",
  nvswitch: "NVSwitch",
  fabric: "chip fabric",
  pcie: "PCIe",
  infiniband: "InfiniBand",
  ethernet: "Ethernet",
  internet: "internet",
  host: "host",
  shared: "shared memory",
};

export function makeHead(ctx) {
  const head = heading("Board", "");
  head.legend = h("span", { class: "sx-legend" });
  head.modes = h(
    "span",
    { class: "sx-seg", role: "radiogroup", "aria-label": "Colour of the blocks" },
    MODES.map(([mode, name]) =>
      h("button", {
        class: "sx-btn",
        text: name,
        role: "radio",
        "data-action": `colour-${mode}`,
        on: { click: () => ctx.sync.set("colour", mode) },
      }),
    ),
  );
  const fit = h("button", {
    class: "sx-btn",
    text: "Fit",
    "data-action": "fit",
    title: "Rescale time to the longest lane",
    on: { click: () => ctx.fit() },
  });
  head.append(h("span", { class: "sx-space" }), head.legend, head.modes, fit, pictureButtons("board"), keysButton("board"));
  return head;
}

export function drawHead(ctx, head) {
  const lanes = ctx.view.lanes;
  if (!stale(head, [ctx.catalog, ctx.colour, lanes, ctx.view.links, ctx.view.other_name])) return;
  const { parts } = ctx.catalog;
  const foot = parts.length ? `; foot = ${parts.join(", ")}` : "";
  set(head.querySelector(".sx-sub"), { text: `width = forward + backward of one microbatch${foot}` });
  for (const [i, [mode]] of MODES.entries()) {
    const on = ctx.colour === mode;
    set(head.modes.children[i], { "aria-checked": String(on), tabindex: on ? "0" : "-1" });
  }
  const used = MEMORY_PARTS.filter(([key]) => lanes.some((lane) => lane.memory[key] > 0));
  const all = [...ctx.view.links, ...lanes.map((lane) => lane.replica_link).filter(Boolean)];
  const links = [...new Set(all.map((link) => link.kind))];
  const entries = [
    ...used.map(([, name, cls]) => ({ name, mark: `b-m-${cls}`, line: false })),
    ...links.map((kind) => ({ name: LINK_NAMES[kind] ?? kind, mark: `b-k-${linkClass(kind)}`, line: true })),
    ...(ctx.view.other_name ? [{ name: "only in B", mark: "b-only", line: false }] : []),
    ...(ctx.colour === "kind" ? [] : [{ name: `more ${ctx.colour}`, mark: "sx-ramp", line: false, ramp: true }]),
  ];
  keyed(
    head.legend,
    entries,
    (entry) => entry.name,
    (entry) => h("span", {}, h("i", { class: entry.line ? `line ${entry.mark}` : entry.mark }), entry.name),
    () => {},
  );
}

/** A lane's time and memory in words. @param {any} lane */
export function laneWords(lane) {
  const over = lane.peak_bytes - lane.capacity_bytes;
  return {
    time: seconds(lane.forward_s + lane.backward_s),
    memory:
      memoryLevel(lane) === "bad"
        ? `over capacity by ${bytes(over)}`
        : `${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}`,
  };
}

/** "+6 %" over or under the ideal. */
export const overIdeal = (lane, ideal_s) => signed(percent((lane.forward_s + lane.backward_s) / ideal_s - 1));
