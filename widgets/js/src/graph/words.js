// Where a node runs and what it costs, in words. No DOM.

import { bytes, count, fixed, plural, seconds } from "../common/format.js";
import { errorText } from "./colour.js";

/** "0", "0 and 2", "0 – 3": numbers in order. @param {number[]} numbers */
export function numbersText(numbers) {
  const all = [...numbers].sort((a, b) => a - b);
  if (all.length < 2) return all.join("");
  if (all.length === 2) return `${all[0]} and ${all[1]}`;
  const runs = all[all.length - 1] - all[0] === all.length - 1;
  return runs ? `${all[0]} – ${all[all.length - 1]}` : `${all.slice(0, -1).join(", ")} and ${all[all.length - 1]}`;
}

/** "stage 0 and 1". @param {number[]} stages */
export const whereText = (stages) => (stages?.length ? `stage ${numbersText(stages)}` : "nowhere");

/** The same for little room. @param {number[]} stages */
export const whereShort = (stages) => (stages?.length ? `st. ${numbersText(stages).replace(" and ", ", ")}` : "–");

/**
 * "stage 1 → 2" and shorter ways to say it, where the plan compared with puts layers elsewhere; else none.
 * @param {any} node @returns {string[]} longest first
 */
export function movedTexts(node) {
  if (!node.moved) return [];
  const [a, b] = [node.stages, node.other_stages ?? []].map((stages) => numbersText(stages).replace(" and ", ", "));
  const count = [`${plural(node.moved, "layer")} moved`, `${fixed(node.moved)} moved`, "moved"];
  return a === b ? count : [`stage ${a} → ${b}`, `${a} → ${b}`, ...(node.moved < layersOf(node) ? count : [])];
}

/** "a layout of its own", "3 layers with a layout of their own". @param {any} node */
const ownText = (node) =>
  layersOf(node) === 1 ? "a layout of its own" : node.own_layouts === 1 ? "1 layer with a layout of its own" : `${plural(node.own_layouts, "layer")} with layouts of their own`;

/** How many layers a node stands for. @param {any} node */
export const layersOf = (node) => node.ranges.reduce((sum, [, n]) => sum + n, 0);

/** What a screen reader says of a node. @param {any} node @param {{held: number, name: string|null}} more */
export function nodeName(node, { held = 0, otherName = null } = {}) {
  const layers = layersOf(node);
  const parts = [node.count > 1 ? `${node.label}, ${node.name}` : node.name === node.id ? node.name : `${node.label}, ${node.name}`];
  if (layers > 1) parts.push(plural(layers, "layer"));
  parts.push(`${seconds(node.forward_s + node.backward_s)}`, bytes(node.memory_bytes), whereText(node.stages));
  if (node.moved) parts.push(`in ${otherName ?? "B"} ${whereText(node.other_stages ?? [])}`);
  if (node.own_layouts) parts.push(ownText(node));
  if (node.own_keeping) parts.push(node.own_keeping);
  if (node.error != null) parts.push(`measured ${errorText(node.error)}`);
  if (held && held < layers) parts.push(`${fixed(held)} of its layers selected`);
  return parts.join(", ");
}

/** Rows of the detail strip: [name, value]. @param {any} node @param {{reads: string[], feeds: string[], otherName: string|null}} near */
export function details(node, { reads, feeds, otherName }) {
  const rows = [];
  const layers = layersOf(node);
  if (node.count > 1) rows.push(["", node.name]);
  if (layers > 1) rows.push(["", plural(layers, "layer")]);
  else rows.push(["", node.text ? `${node.kind} ${node.text}` : node.kind]);
  rows.push(["", whereText(node.stages)]);
  if (node.own_layouts) rows.push(["", ownText(node)]);
  if (node.own_keeping) rows.push(["", node.own_keeping]);
  if (node.moved) rows.push([otherName ?? "B", `${whereText(node.other_stages ?? [])}${node.moved < layers ? ` (${plural(node.moved, "layer")} moved)` : ""}`]);
  rows.push(
    ["parameters", count(node.parameters)],
    ["FLOPs", node.flops ? `${count(node.flops)} forward` : "–"],
    ["forward", seconds(node.forward_s)],
    ["backward", seconds(node.backward_s)],
    ["memory", bytes(node.memory_bytes)],
    ["saved", bytes(node.saved_bytes)],
    ["output", bytes(node.traffic_bytes)],
  );
  if (node.error != null) rows.push(["measured", errorText(node.error)]);
  if (reads.length) rows.push(["reads", listed(reads)]);
  if (feeds.length) rows.push(["feeds", listed(feeds)]);
  return rows;
}

const listed = (names) => (names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", "));
