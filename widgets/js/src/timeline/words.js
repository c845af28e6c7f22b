// What the timeline says: bars, plans, the critical path and a microbatch's way. No DOM.

import { bytes, fixed, percent, plural, seconds, signed } from "../common/format.js";
import { FIRST_WIRE, KIND_NAMES } from "./bars.js";

const WHY = {
  start: "starts at once",
  lane: "starts when its lane is free",
  channel: "starts when its link is free",
  data: "starts when its data is there",
};

/** "microbatch 3", "microbatches 4 to 7" or "". */
export function microbatches({ microbatch, count }) {
  if (microbatch < 0) return "";
  return count > 1 ? `microbatches ${microbatch} to ${microbatch + count - 1}` : `microbatch ${microbatch}`;
}

/** The lines that tell a bar. @param {any} row @param {{name: string}[]} lanes @param {string} [reason] its start on the critical path */
export function barLines(row, lanes, reason) {
  const lane = lanes[row.lane]?.name ?? `lane ${row.lane}`;
  const wire = row.kind >= FIRST_WIRE;
  const to = wire && row.peer >= 0 && row.peer !== row.lane ? ` → ${lanes[row.peer]?.name ?? row.peer}` : "";
  return [
    [KIND_NAMES[row.kind] ?? String(row.kind), microbatches(row)].filter(Boolean).join(", "),
    `${lane}${to}${row.copy ? `, copy ${row.copy}` : ""}: ${seconds(row.end_s - row.start_s)}${wire && row.bytes > 0 ? `, ${bytes(row.bytes)}` : ""}`,
    `${seconds(row.start_s, row.end_s)} to ${seconds(row.end_s)}`,
    ...(reason ? [`on the critical path: ${WHY[reason] ?? reason}`] : []),
  ];
}

/** Below this share parts of the critical path are told together. */
const LEAST_SHARE = 0.0005;

/** "98 %" of "compute": parts in order; the smallest are put together. @returns {{name: string, share: string}[]} */
export function pathParts(critical) {
  const all = critical.parts.map((part) => ({ ...part, share: part.seconds / critical.length_s }));
  const shown = all.filter((part) => part.share >= LEAST_SHARE);
  const rest = all.filter((part) => part.share < LEAST_SHARE);
  const told = shown.map((part) => ({ name: part.name, share: percent(part.share, part.share < 0.095 || part.share > 0.995 ? 1 : 0) }));
  return rest.length ? [...told, { name: rest.map((part) => part.name).join(", "), share: `under ${percent(LEAST_SHARE * rest.length, 1)}` }] : told;
}

/** What the whole drawing is, for its label. */
export function planWords(plans) {
  const each = plans.map(({ view, bars }, p) => {
    const against = p && plans[0] ? `, ${differenceWords(view.end_s, plans[0].view.end_s)} against ${plans[0].view.name || "A"}` : "";
    return `${view.name ?? ""} ${seconds(view.end_s)}${against}, ${plural(view.lanes.length, "lane")}, ${plural(bars.length, "bar")}`;
  });
  return `${each.join("; ")}. `;
}

export const KEYS_HELP =
  "Arrow keys go from bar to bar, Enter follows its microbatch, N and P the next and the one before. " +
  "W and S zoom, A and D pan, 0 shows the whole step, C the critical path, L the links, M marks the lane. " +
  "Shift with the left or right arrow moves the cursor; B and E mark where an area begins and ends, Z zooms to it, T tells the memory at the cursor. " +
  "Alt with the left or right arrow moves the action to another place in its lane, O lets the mouse do so. " +
  "The Table button gives the same as a table.";

/** "+1.2 s" of one time against another, or that they are the same. */
export const differenceWords = (a, b) => (Math.abs(a - b) <= 1e-6 * Math.max(a, b) ? "the same" : signed(seconds(a - b)));

/** Facts about a microbatch's way: [name, value of A, value of B or ""]. */
export function accountFacts(a, b) {
  const both = (read) => [seconds(read(a)), b ? differenceWords(read(b), read(a)) : ""];
  return [
    ["enters, leaves", `${seconds(a.enters_s, a.leaves_s)}, ${seconds(a.leaves_s)}`, ""],
    ["computing", ...both((x) => x.computing_s)],
    [`in transit, ${plural(a.hops, "hop")}`, ...both((x) => x.transit_s)],
    ["waiting", ...both((x) => x.waiting_s)],
  ];
}

/** "0 → 3 → 0": the stages a microbatch visits, there and back. */
export function stagesWords(stages) {
  const turns = stages.filter((stage, k) => k === 0 || stage !== stages[k - 1]);
  const ends = turns.filter((stage, k) => k === 0 || k === turns.length - 1 || stage > turns[k - 1] !== turns[k + 1] > stage);
  const told = ends.length > 9 ? [...ends.slice(0, 4), null, ...ends.slice(-3)] : ends;
  return told.map((stage) => (stage == null ? "…" : fixed(stage))).join(" → ");
}
