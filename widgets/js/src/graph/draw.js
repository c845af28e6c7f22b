// DOM of nodes, frames and edges.

import { h, keyed, set, svg } from "../common/dom.js";
import { seconds } from "../common/format.js";
import { tail } from "./choose.js";
import { valueText } from "./colour.js";
import { movedTexts, nodeName, whereShort, whereText } from "./words.js";

/** The empty picture: frames below, edges above them, nodes on top. */
export function picture() {
  const tip = `g-tip-${Math.random().toString(36).slice(2)}`; // every widget of a page has this module for itself
  const marker = (id, cls) =>
    svg(
      "marker",
      { id, class: cls, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
      svg("path", { d: "M1 0.5L7.5 4L1 7.5Z" }),
    );
  const frames = h("div", { class: "g-frames" });
  const edges = svg("g", {});
  const nodes = h("div", { class: "g-nodes", role: "tree", "aria-label": "Parts of the model", "aria-multiselectable": "true" });
  const size = h(
    "div",
    { class: "g-size" },
    frames,
    svg("svg", { "aria-hidden": "true", width: "100%", height: "100%" }, svg("defs", {}, marker(tip, ""), marker(`${tip}-near`, "near")), edges),
    nodes,
  );
  return { canvas: h("div", { class: "g-canvas" }, size), size, frames, edges, nodes, tip };
}

/** @param {ReturnType<typeof picture>} parts @param {any[]} paths @param {string|null} focus its edges are brought out */
export function drawEdges(parts, paths, focus) {
  const shown = paths.filter((path) => path.d);
  keyed(
    parts.edges,
    shown,
    (path) => path.key,
    () => svg("path", {}),
    (element, path) => {
      const near = focus != null && (path.from === focus || path.to === focus) && path.from !== path.to;
      const arrow = path.stub ? null : `url(#${parts.tip}${near ? "-near" : ""})`;
      const cls = [path.skip ? "skip" : "", near ? "near" : ""].filter(Boolean).join(" ");
      set(element, { d: path.d, transform: `translate(${path.x} ${path.y})`, class: cls || null, "marker-end": arrow });
    },
  );
}

/** Frames of open parts, each with the button that closes it. */
export function drawFrames(parts, frames, boxes) {
  keyed(
    parts.frames,
    frames,
    (n) => n.id,
    () => h("div", { class: "g-frame" }, h("button", { class: "sx-btn", text: "Close" })),
    (element, n) => {
      const box = boxes.get(n.id);
      set(element, {
        class: `g-frame${box.level % 2 ? " odd" : ""}${box.level ? "" : " outer"}`,
        style: { left: px(box.x), top: px(box.y), width: px(box.w), height: px(box.h) },
      });
      set(element.firstChild, { "data-close": n.id, "aria-label": `Close ${n.label}` });
    },
  );
}

const px = (value) => `${Math.round(value * 10) / 10}px`;

/**
 * @param {HTMLElement} element @param {any} n @param {any} box
 * @param {{scale: any, mode: string, held: any, focus: string|null, place: [number, number], otherName: string|null, frame: any}} state
 */
export function drawNode(element, n, box, { scale, mode, held, focus, place, otherName, frame }) {
  const all = held.held > 0 && held.held === held.total;
  const moved = n.moved > 0 && !saidBy(frame, n);
  const paint = n.open ? null : scale.colour(n);
  const cls = ["g-node", n.open ? "frame" : "", n.count > 1 ? "fold" : "", all ? "selected" : "", moved ? "moved" : "", (n.own_layouts || n.own_keeping) && !n.open ? "own" : ""];
  if (!n.open) cls.push(mode === "device" ? "device" : paint ? "" : "unknown", n.opens.length && n.label.length * 8.4 + 32 <= box.w ? "opens" : "");
  set(element, {
    "data-node": n.id,
    class: cls.filter(Boolean).join(" "),
    tabindex: focus === n.id ? "0" : "-1",
    "aria-level": box.level + 1,
    "aria-posinset": place[0],
    "aria-setsize": place[1],
    "aria-selected": String(all),
    "aria-expanded": n.opens.length || n.open ? String(n.open) : null,
    "aria-label": nodeName(n, { held: held.held, otherName }),
    title: n.open || n.name === n.label ? n.id : `${n.label} (${n.name})`,
    style: {
      left: px(box.x),
      top: px(box.y),
      width: px(n.open ? box.w - 66 : box.w),
      height: n.open ? "26px" : px(box.h),
      "--fill": paint?.fill ?? null,
      "--fill-ink": paint?.ink ?? null,
    },
  });
  const [label, where, value, stripes, notch] = element.children;
  const texts = textsOf(n, box, mode, frame);
  set(label, { text: n.label, style: { "font-size": n.open ? null : fontFor(n.label, box) } });
  set(where, { text: texts.where });
  set(value, { text: texts.value });
  set(stripes, { style: { background: mode === "device" && !n.open ? stripesOf(n.lanes) : null } });
  const part = !n.open && held.held > 0 && !all;
  set(notch, {
    hidden: !part,
    "data-label": part ? (held.ids.length === 1 ? tail(held.ids[0]) : `${held.ids.length} selected`) : null,
    style: { left: part ? `${(held.share * 100).toFixed(1)}%` : null },
  });
}

/** What is written on a node: its value always, where it runs if there is room and its frame does not say so already. */
export function textsOf(n, box, mode, frame) {
  const moved = movedTexts(n);
  if (n.open) return { where: moved[0] ?? whereText(n.stages), value: seconds(n.forward_s + n.backward_s) };
  const value = valueText(n, mode);
  const fits = (text) => (text.length + value.length) * 6.3 + (value ? 6 : 0) <= box.w - 16;
  if (mode !== "device" && saidBy(frame, n)) return { where: "", value };
  const wishes = moved.length ? moved : [whereText(n.stages), whereShort(n.stages)];
  const where = wishes.find(fits) ?? (moved.length || mode === "device" ? wishes.at(-1) : "");
  return { where, value };
}

/** Does a frame already say where everything in it runs, here and in the plan compared with? */
const saidBy = (frame, n) => frame != null && String(frame.stages) === String(n.stages) && movedTexts(frame)[0] === movedTexts(n)[0];

/** Smaller letters for what would not fit. */
function fontFor(label, box) {
  const room = (box.w - 16) / label.length;
  return room >= 9 ? null : room >= 8.2 ? "12px" : "11px";
}

/** Shares of the lanes that a node runs on, alternating so that neighbours can be told apart. */
function stripesOf(lanes) {
  const total = lanes.reduce((sum, [, n]) => sum + Number(n), 0) || 1;
  let at = 0;
  const stops = lanes.map(([id, n], i) => {
    const from = at;
    at += n / total;
    const same = i > 0 && Number(id) % 2 === Number(lanes[i - 1][0]) % 2; // one shade: a line between
    const line = same ? `var(--bg) ${(from * 100).toFixed(2)}% calc(${(from * 100).toFixed(2)}% + 2px), ` : "";
    const start = same ? `calc(${(from * 100).toFixed(2)}% + 2px)` : `${(from * 100).toFixed(2)}%`;
    return `${line}var(--chip${Number(id) % 2 ? "-other" : ""}) ${start} ${(at * 100).toFixed(2)}%`;
  });
  return stops.length ? `linear-gradient(90deg, ${stops.join(", ")})` : "var(--chip)";
}

/** An empty node. */
export const makeNode = () =>
  h(
    "div",
    { class: "g-node", role: "treeitem", tabindex: "-1" },
    h("b", {}),
    h("span", { class: "g-where" }),
    h("span", { class: "g-value" }),
    h("i", { class: "g-lanes" }),
    h("i", { class: "g-notch" }),
  );
