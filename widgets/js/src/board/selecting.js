// Selecting chips and opening blocks, the same by mouse and by keyboard.

import { between } from "./estimate.js";
import { positionsOf } from "./model.js";

/** Flat positions of the chip an element stands for. */
export function chipPositions(chip) {
  return positionsOf({ first: Number(chip.dataset.first), count: Number(chip.dataset.count) });
}

/** Open a block to its layers, or close it. @param {any} ctx @param {string} id of the block */
export function toggleOpen(ctx, id) {
  const block = ctx.catalog.blocks.find((item) => item.id === id);
  if (!block || block.layers.length < 2) return;
  const expanded = new Set(ctx.expanded);
  const closes = expanded.delete(id);
  if (!closes) expanded.add(id);
  ctx.sync.set("expanded", [...expanded]);
  ctx.say(closes ? `${block.name} closed` : `${block.name} opened: ${block.layers.length} layers`);
}

/** Plain click selects one; Shift extends from the anchor in model order; Ctrl or Cmd adds and takes away. */
export function clickChip(ctx, chip, { shiftKey = false, ctrlKey = false, metaKey = false } = {}) {
  const own = chipPositions(chip);
  if (shiftKey && ctx.anchor != null) {
    const [from, to] = [Math.min(ctx.anchor[0], own[0]), Math.max(ctx.anchor[1], own[own.length - 1])];
    ctx.select(between(from, to + 1));
    return;
  }
  ctx.anchor = [own[0], own[own.length - 1]];
  if (!ctrlKey && !metaKey) return void ctx.select(new Set(own));
  const selected = new Set(ctx.selected);
  const held = own.every((p) => selected.has(p));
  for (const p of own) held ? selected.delete(p) : selected.add(p);
  ctx.select(selected);
}
