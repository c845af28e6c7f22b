// The keyboard's place on the board: one chip is in the tab order, and focus survives every drawing.

import { patch } from "./patch.js";

/** One chip is in the tab order: the focused one, else the first. */
export function roveTo(ctx, key) {
  let first = null;
  for (const pieces of ctx.pieces.values()) {
    if (!first && pieces.length) first = pieces[0].key;
    if (key != null && pieces.some((piece) => piece.key === key)) return;
  }
  ctx.focusKey = first;
}

/** Draw without losing the keyboard's place, even when the focused chip goes to another lane or is cut differently. */
export function keepFocus(ctx, work) {
  const active = ctx.root.getRootNode().activeElement;
  const chip = active?.classList?.contains("b-chip") && ctx.root.contains(active) ? active : null;
  if (!chip) return work();
  const { key, first } = chip.dataset;
  const lane = chip.closest(".b-lane").dataset.lane;
  const stays = ctx.pieces.get(lane)?.some((piece) => piece.key === key);
  if (stays) {
    ctx.focusKey = key;
    return work();
  }
  // to take the focused element away is slow; a focus that has gone elsewhere before is not
  ctx.park.focus({ preventScroll: true });
  const home = laneOf(ctx, key, Number(first));
  if (home) [ctx.focusKey, ctx.wanted] = [home.key, home.lane];
  work();
  if (home) focusChip(ctx, home.key);
  return undefined;
}

/** Where a chip is now: by key, else by its first layer. */
function laneOf(ctx, key, first) {
  let place = null;
  for (const [lane, pieces] of ctx.pieces) {
    if (pieces.some((piece) => piece.key === key)) return { lane, key };
    const same = pieces.find((piece) => piece.first <= first && first < piece.first + piece.count);
    if (same) place = { lane, key: same.key };
  }
  return place;
}

/** Give a chip the focus. @param {any} ctx @param {string} key @param {boolean} [reveal] scroll if it is out of sight */
export function focusChip(ctx, key, reveal = true) {
  const before = ctx.focusKey !== key && ctx.focusKey && ctx.chipElement(ctx.focusKey);
  if (before) patch(before, { tabindex: "-1" });
  ctx.focusKey = key;
  const chip = ctx.chipElement(key);
  if (!chip) return;
  patch(chip, { tabindex: "0" });
  chip.focus({ preventScroll: true });
  if (reveal) chip.scrollIntoView({ block: "nearest", inline: "nearest" });
}
