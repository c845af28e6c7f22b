// Sizes and places of the board: time scale, memory scale, lane rows, hit tests. Numbers in, numbers out.

import { plural } from "../common/format.js";

/** Lanes beyond this many are compact and grouped. */
export const FULL_LANES = 8;

/** Seconds at the right edge of the lanes: 1.32 x ideal, or what shows the longest lane. @param {any} view */
export function fitScale(view, narrow = false) {
  const longest = Math.max(0, ...view.lanes.map((lane) => lane.forward_s + lane.backward_s));
  return Math.max(view.ideal_s * (narrow ? 1.42 : 1.32), longest * (narrow ? 1.25 : 1.16)) || 1;
}

/** Bytes at the right edge of every memory bar: 125 % of the largest capacity. */
export const memoryScale = (lanes) => 1.25 * Math.max(1, ...lanes.map((lane) => lane.capacity_bytes));

/** Named parts of a memory bar, in order: [trait key, short name, css class]. */
export const MEMORY_PARTS = [
  ["weight_bytes", "weights", "weights"],
  ["gradient_bytes", "gradients", "grad"],
  ["optimizer_bytes", "optimizer", "opt"],
  ["activation_bytes", "activations", "act"],
  ["buffer_bytes", "buffers", "buf"],
  ["other_bytes", "other", "other"],
];

/** Segments of a memory bar as fractions of its width. @param {any} memory @param {number} scale bytes at the right edge */
export function memorySegments(memory, scale) {
  let at = 0;
  return MEMORY_PARTS.flatMap(([key, name, cls]) => {
    const size = memory[key] ?? 0;
    if (!(size > 0)) return [];
    const segment = {
      key,
      name,
      cls,
      bytes: size,
      left: Math.min(1, at / scale),
      width: Math.min(1, (at + size) / scale) - Math.min(1, at / scale),
    };
    at += size;
    return [segment];
  });
}

/** State of a lane's memory: `bad` if it does not fit, `warn` if it may fit or is full from 90 %. @param {any} lane */
export function memoryLevel(lane) {
  if (lane.peak_bytes > (lane.most_bytes ?? lane.capacity_bytes)) return "bad";
  return mayFit(lane) || lane.peak_bytes / lane.capacity_bytes >= 0.9 ? "warn" : "";
}

/** Whether a lane fits, but not for sure: its memory lies within the band of the prediction. @param {any} lane */
export const mayFit = (lane) =>
  lane.peak_bytes > (lane.fits_bytes ?? Infinity) && lane.peak_bytes <= (lane.most_bytes ?? lane.capacity_bytes);

/**
 * Rows to draw: lanes, with a heading row before each group of several when there are many lanes; folded groups are one row.
 * @param {any[]} lanes @param {Set<string>} collapsed
 * @returns {({type: "lane", lane: any, compact: boolean} | {type: "group", name: string, lanes: any[], folded: boolean})[]}
 */
export function rowsOf(lanes, collapsed) {
  const compact = lanes.length > FULL_LANES;
  if (!compact) return lanes.map((lane) => ({ type: "lane", lane, compact }));
  const groups = new Map();
  for (const lane of lanes) {
    const name = lane.group ?? "";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(lane);
  }
  return [...groups].flatMap(([name, members]) => {
    const alone = name === "" || members.length < 2; // a heading would say what the lane says
    const folded = !alone && collapsed.has(name);
    const head = alone ? [] : [{ type: "group", name, lanes: members, folded }];
    return folded ? head : [...head, ...members.map((lane) => ({ type: "lane", lane, compact }))];
  });
}

/** Lanes scroll inside the board when they are taller than this. */
export const SCROLL_PX = 640;

/** Height of all rows, lanes with their links. @param {{type: string, compact?: boolean}[]} rows */
export const rowsHeight = (rows) =>
  rows.reduce((sum, row) => sum + (row.type === "group" ? 28 : row.compact ? 30 : 86), 0);

/** The lanes of a group: their time in turn, and the slowest and the fullest of them. @param {any[]} lanes */
export function groupSummary(lanes) {
  const time = (lane) => lane.forward_s + lane.backward_s;
  const full = (lane) => lane.peak_bytes / lane.capacity_bytes;
  return {
    time_s: lanes.reduce((sum, lane) => sum + time(lane), 0),
    slowest: lanes.reduce((a, b) => (time(b) > time(a) ? b : a)),
    fullest: lanes.reduce((a, b) => (full(b) > full(a) ? b : a)),
  };
}

/** The row under a height, or the nearest one within `reach`. @param {{id: string, top: number, bottom: number}[]} rows */
export function rowAt(rows, y, reach = 24) {
  let best = null;
  let distance = reach;
  for (const row of rows) {
    const off = y < row.top ? row.top - y : y > row.bottom ? y - row.bottom : 0;
    if (off === 0) return row.id;
    if (off < distance) [best, distance] = [row.id, off];
  }
  return best;
}

/** Thickness of a link strip in px: 2 x sqrt(GiB a step), between 1 and 12. @param {number|null} bytes */
export const linkThickness = (bytes) => Math.min(12, Math.max(1, 2 * Math.sqrt((bytes ?? 0) / 2 ** 30)));

/**
 * Whether the strips of a compact board say nothing but that the same travels everywhere: they are drawn thin and pale, since
 * as many thick ones would be the heaviest ink on the page. @param {{step_bytes: number|null, kind: string}[]} links
 */
export const allAlike = (links) =>
  links.length > 2 && links.every((link) => link.kind === links[0].kind && link.step_bytes === links[0].step_bytes);

/** Class of colour and dash for a link kind. */
export function linkClass(kind) {
  if (kind === "nvlink" || kind === "nvswitch" || kind === "fabric") return "nvlink";
  if (kind === "pcie" || kind === "host" || kind === "shared") return "pcie";
  return kind === "internet" ? "internet" : "network";
}

/** A lane's name in few letters, where many stages interleave: "Stages 0…112"; the title says all. @param {string} name */
export function shortName(name) {
  const numbers = name.match(/\d+/g) ?? [];
  return numbers.length > 2 ? `Stages ${numbers[0]}…${numbers[numbers.length - 1]}` : name;
}

const MOST_REPLICAS = 4;
/** What the column of names holds beside "gpu": wide, and on a narrow page. */
const DEVICES_PX = [102, 82];
/** Least room of a link between two boxes. */
const WIRE_PX = 4;
const boxPx = (word) => Math.max(20, 10 + 7 * word.length);
const MOST_LETTERS = 9; // what the column holds beside "+1"; the title says all

/** How many replicas are named: as many as fit beside how many more there are, 0 where not even one does. @param {number[][]} replicas the first of them @param {number} all */
export function shownReplicas(replicas, all = replicas.length, narrow = false) {
  const words = replicas.map(rangeWords);
  const fits = (count) => {
    const boxes = [...words.slice(0, count), ...(count < all ? [`+${all - count}`] : [])];
    return boxes.reduce((sum, word) => sum + boxPx(word) + WIRE_PX, -WIRE_PX) <= DEVICES_PX[narrow ? 1 : 0];
  };
  if (words.length === all && all <= MOST_REPLICAS && fits(all)) return all;
  let count = Math.min(MOST_REPLICAS - 1, words.length);
  while (count > 0 && !fits(count)) count -= 1;
  return count;
}

/**
 * A compact lane's devices in as few letters as say them: its replicas where they fit, else the span of all, else their number.
 * @param {{replicas: number[][], replica_count?: number, span?: number[] | null, device_count?: number}} lane
 */
export function compactDevices(lane) {
  const groups = lane.replicas.map(rangeWords);
  if ((lane.replica_count ?? groups.length) === groups.length && groups.join(" ").length <= MOST_LETTERS) return groups;
  if (lane.span) return [rangeWords(lane.span)];
  return [plural(lane.device_count ?? lane.replicas.length, "device")];
}

/** "4–7". @param {number[]} group devices of one replica */
export const rangeWords = (group) => (group.length > 1 ? `${group[0]}–${group[group.length - 1]}` : String(group[0] ?? ""));
