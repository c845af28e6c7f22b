// Pins and locks: what may not move, why, and in which words. Python refuses it as well; here it is said beforehand.

/** Flat positions of the pinned layers. @param {import("./model.js").Catalog} catalog @param {any} view @returns {Set<number>} */
export const pinnedPositions = (catalog, view) => (view.pinned?.length ? catalog.positions(view.pinned) : NOTHING);

/** @type {Set<number>} */
const NOTHING = new Set();

/**
 * Why layers may not go to a lane, or null.
 * @param {{catalog: import("./model.js").Catalog, view: any, pinned: Set<number>}} board
 * @param {Set<number>} positions @param {string} toLane
 */
export function refusal({ catalog, view, pinned }, positions, toLane) {
  const target = view.lanes.find((lane) => lane.id === toLane);
  const holds = (lane, p) => lane.runs.some((run) => run.first <= p && p < run.first + run.count);
  const moving = target ? [...positions].filter((p) => !holds(target, p)) : [];
  if (!moving.length) return null;
  if (target.locked) return `${target.name} is locked: it takes no other layers`;
  const source = view.lanes.find((lane) => lane.locked && moving.some((p) => holds(lane, p)));
  if (source) return `${source.name} is locked: its layers stay`;
  const held = new Set(moving.filter((p) => pinned.has(p)));
  if (!held.size) return null;
  const [what, is] = [catalog.describe(held), held.size === 1 || catalog.ids(held).length === 1 ? "is" : "are"];
  return `${what} ${is} pinned to ${is === "is" ? "its" : "their"} devices`;
}

/** May this boundary move at all? Both lanes must be open. @returns {string | null} why not */
export function boundaryRefusal(view, boundary) {
  const locked = view.lanes.find((lane) => lane.locked && (lane.id === boundary.before_lane || lane.id === boundary.after_lane));
  return locked ? `${locked.name} is locked` : null;
}

/** Are all of these pinned? Then the key releases, else it pins. @param {Set<number>} pinned @param {Set<number>} positions */
export const allPinned = (pinned, positions) => positions.size > 0 && [...positions].every((p) => pinned.has(p));

/** The view with layers pinned or released, until Python answers. */
export function withPins(catalog, view, layers, on) {
  const named = new Set(layers);
  const rest = (view.pinned ?? []).filter((id) => !named.has(id));
  return { ...view, pinned: on ? [...rest, ...layers] : rest };
}

/** The view with a lane locked or unlocked, until Python answers. */
export function withLock(view, id, on) {
  return { ...view, lanes: view.lanes.map((lane) => (lane.id === id ? { ...lane, locked: on } : lane)) };
}
