// What would be, while something is carried: the estimated view, its cost in words, and the event that tells the tiles.

import { bytes, percent, seconds, signed } from "../common/format.js";
import { detour, moved, tileValues } from "./estimate.js";
import { boundaryRefusal, refusal } from "./holds.js";
import { memoryLevel } from "./layout.js";

const time = (lane) => lane.forward_s + lane.backward_s;

/**
 * Complete a carried set of layers over a lane: the view after it, why it may not be, what running out of order costs.
 * @param {any} ctx @param {{positions: Set<number>, target: string|null, boundary?: string, shift_s?: number}} carried
 */
export function previewOf(ctx, carried) {
  if (carried.target == null) return { ...carried, view: null, refused: null, detour: null };
  const boundary = ctx.view.boundaries.find((item) => item.id === carried.boundary);
  const refused = (boundary && boundaryRefusal(ctx.view, boundary)) ?? refusal(ctx, carried.positions, carried.target);
  if (refused) return { ...carried, view: null, refused, detour: null };
  const view = moved(ctx.catalog, ctx.view, carried.positions, carried.target);
  const target = view.lanes.find((lane) => lane.id === carried.target);
  const same = !target || target.runs === ctx.lane(carried.target).runs;
  const way = same ? null : detour(ctx.catalog, ctx.view, view, carried.positions, carried.target);
  return { ...carried, view: same ? null : view, refused: null, detour: way && way.extra > 0 ? way : null };
}

/** "gpu 0 → 2 → 0 → 4": the first device of every lane the data visits. */
const wayWords = (view, way) => `gpu ${way.map((lane) => view.lanes[lane]?.replicas[0]?.[0] ?? "?").join(" → ")}`;

/** "+1 transfer each way, 1.5 ms and 32 MiB a microbatch: gpu 0 → 2 → 0 → 4" */
export function detourWords(view, found) {
  const { extra } = found;
  const cost = found.seconds > 0 ? `, ${seconds(found.seconds * extra)} and ${bytes(found.bytes * extra)} a microbatch` : "";
  return `+${extra} transfer${extra === 1 ? "" : "s"} each way${cost}: ${wayWords(view, found.way)}`;
}

/** What the move would do to the lane under the pointer: "+70 ms, +14.2 GiB a device". */
export function effectWords(ctx, preview) {
  if (preview.refused) return preview.refused;
  const was = ctx.lane(preview.target);
  const next = preview.view?.lanes.find((lane) => lane.id === preview.target);
  if (!was || !next) return null;
  const over = memoryLevel(next) === "bad" ? next.peak_bytes - next.capacity_bytes : 0;
  return `${signed(seconds(time(next) - time(was)))}, ${signed(bytes(next.peak_bytes - was.peak_bytes))} a device${over > 0 ? `; ${bytes(over)} over capacity` : ""}`;
}

/** The sentence of the tiles. @returns {{level: string, text: string, note: string}} */
export function verdictOf(ctx, preview) {
  const note = `${preview.simulated ? "Simulated" : "Estimate"}. Esc cancels.`;
  if (preview.refused) return { level: "warn", text: `**Cannot move.** ${preview.refused}.`, note };
  const { view } = preview;
  if (!view) return { level: "none", text: "Over its own lane: nothing would change.", note };
  const over = (lane) => lane.peak_bytes - lane.capacity_bytes;
  const full = view.lanes.filter((lane) => memoryLevel(lane) === "bad");
  const worst = full.reduce((a, b) => (over(b) > over(a) ? b : a), full[0]);
  const slowest = view.lanes.reduce((a, b) => (time(b) > time(a) ? b : a));
  const away = (lane) => `${seconds(time(lane))}, ${percent(Math.abs(time(lane) / view.ideal_s - 1))} ${time(lane) >= view.ideal_s ? "over" : "under"} the ideal cut`;
  const way = preview.detour ? ` Running out of order: ${detourWords(view, preview.detour)}${preview.simulated ? "" : "; lanes may also wait for each other"}.` : "";
  if (worst)
    return {
      level: "bad",
      text: `**Would not fit.** ${worst.name}: ${bytes(over(worst))} over capacity and ${away(worst)}.${full.length > 1 ? ` ${full.length} lanes would be over.` : ""}${way}`,
      note,
    };
  const still = slowest.binds && !(slowest.id === preview.target && !ctx.lane(slowest.id)?.binds);
  const binds = !still ? "would bind" : slowest.name.startsWith("Stages") ? "bind" : "binds";
  return { level: "ok", text: `**Would fit.** ${slowest.name} ${binds}: ${away(slowest)}.${way}`, note };
}

/**
 * Tell the rest of the workbench; `null` says that the carrying is over.
 * @param {any} ctx @param {any} preview @param {boolean} [answered] Python's answer follows in the other widgets at once
 */
export function tellPreview(ctx, preview, answered = false) {
  const bench = ctx.model.get("bench") ?? "";
  document.dispatchEvent(new CustomEvent("sx-preview", { detail: { bench, answered, ...detailOf(ctx, preview) } }));
}

function detailOf(ctx, preview) {
  if (!preview || (preview.target == null && !preview.boundary)) return { values: null, levels: {}, verdict: null };
  const verdict = verdictOf(ctx, preview);
  const view = preview.view ?? ctx.view;
  const found = preview.detour;
  const values = preview.simulated ?? tileValues(ctx.view, view, found ? 2 * found.extra * found.seconds : 0);
  const level = view.lanes.reduce((worst, lane) => worse(worst, memoryLevel(lane)), "");
  return { values, levels: { memory: level || null }, verdict };
}

const RANK = { "": 0, warn: 1, bad: 2 };
const worse = (a, b) => (RANK[b] > RANK[a] ? b : a);
