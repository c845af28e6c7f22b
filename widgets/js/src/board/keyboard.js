// Everything the mouse can do, by keyboard. Plain keys never leave the board (the root stops them).

import { nextStop } from "./estimate.js";
import { chipPositions, clickChip, effectWords, toggleOpen } from "./gestures.js";
import { openMoveMenu } from "./menu.js";

export function attachKeyboard(ctx) {
  let carried = null; // {positions} while Space holds something

  ctx.root.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && undoKey(ctx, event)) return stop(event);
    if (event.ctrlKey || event.metaKey) return undefined;
    const handle = event.target.closest?.(".b-handle");
    if (handle) return void (handleKey(ctx, handle, event) && stop(event));
    const chip = event.target.closest?.(".b-chip");
    if (!chip) return modesKey(ctx, event);
    if (carried) return void (carryKey(event) && stop(event));
    if (chipKey(ctx, chip, event, pickUp)) stop(event);
    return undefined;
  });

  function pickUp(chip) {
    const own = chipPositions(ctx, chip);
    const positions = own.every((p) => ctx.selected.has(p)) ? ctx.selected : new Set(own);
    if (!ctx.editable) return;
    carried = { positions, lane: chip.closest(".b-lane").dataset.lane };
    ctx.root.classList.add("b-carrying");
    ctx.setPreview({ positions, target: carried.lane });
    ctx.say(`${ctx.catalog.describe(positions)} picked up. Up and Down choose a lane, Space drops, Escape cancels.`);
  }

  function carryKey(event) {
    const order = ctx.view.lanes.map((lane) => lane.id);
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const at = order.indexOf(carried.lane) + (event.key === "ArrowDown" ? 1 : -1);
      if (order[at] == null) return true;
      carried.lane = order[at];
      ctx.setPreview({ positions: carried.positions, target: carried.lane });
      ctx.say(`${ctx.lane(carried.lane).name}: ${effectWords(ctx, ctx.preview) ?? "here now"}`);
      return true;
    }
    const drop = event.key === " " || event.key === "Enter";
    if (!drop && event.key !== "Escape" && event.key !== "Tab") return true;
    const { positions, lane } = carried;
    carried = null;
    ctx.root.classList.remove("b-carrying");
    ctx.setPreview(null);
    if (drop) ctx.move(positions, lane);
    else ctx.say("Move cancelled");
    return event.key !== "Tab";
  }
}

function stop(event) {
  event.preventDefault();
  event.stopPropagation();
}

/** Ctrl+Z, Ctrl+Shift+Z, Ctrl+Y. */
function undoKey(ctx, event) {
  const key = event.key.toLowerCase();
  const kind = key === "z" ? (event.shiftKey ? "redo" : "undo") : key === "y" ? "redo" : null;
  if (!kind || /^(input|textarea|select)$/i.test(event.target.tagName)) return false;
  const possible = kind === "undo" ? ctx.actual.can_undo : ctx.actual.can_redo;
  if (possible === false) ctx.say(`Nothing to ${kind}`);
  else {
    ctx.optimistic = ctx.view; // drawn until the answer comes
    ctx.sync.send(kind);
    ctx.afterAnswer = () => ctx.say(kind === "undo" ? "Undone" : "Redone");
    ctx.draw();
  }
  return true;
}

function chipKey(ctx, chip, event, pickUp) {
  const { key } = event;
  if (event.altKey && (key === "ArrowUp" || key === "ArrowDown")) return moveToNeighbour(ctx, chip, key === "ArrowDown" ? 1 : -1);
  if (event.altKey) return false;
  const next = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last" }[key];
  if (next != null) return go(ctx, chip, next, event.shiftKey);
  if (key === " ") return event.shiftKey ? (clickChip(ctx, chip, { shiftKey: true }), true) : (pickUp(chip), true);
  if (key === "Enter") return (toggleOpen(ctx, chip.dataset.block), true);
  if (key === "Escape") return (ctx.select(new Set()), true);
  if (key === "[" || key === "]") return shiftEnd(ctx, chip, key === "]" ? 1 : -1, "before");
  if (key === "{" || key === "}") return shiftEnd(ctx, chip, key === "}" ? 1 : -1, "after");
  if (key === "m" || key === "ContextMenu") {
    if (!chipPositions(ctx, chip).every((p) => ctx.selected.has(p))) clickChip(ctx, chip);
    openMoveMenu(ctx, chip, menuPlace(ctx, chip));
    return true;
  }
  return false;
}

function menuPlace(ctx, chip) {
  const [root, box] = [ctx.root.getBoundingClientRect(), chip.getBoundingClientRect()];
  return { x: box.left - root.left, y: box.bottom - root.top + 4 };
}

/** Move focus; with Shift the selection grows, without it follows the focus. */
function go(ctx, chip, where, extend) {
  const chips = [...ctx.lanes.querySelectorAll(".b-chip")];
  const lane = [...chip.closest(".b-chips").children];
  let next = null;
  if (where === "first" || where === "last") next = where === "first" ? lane[0] : lane[lane.length - 1];
  else if (typeof where === "number") next = chips[chips.indexOf(chip) + where];
  else next = inNeighbour(ctx, chip, where === "down" ? 1 : -1);
  if (!next) return true;
  if (extend && ctx.anchor == null) {
    const own = chipPositions(ctx, chip);
    ctx.anchor = [own[0], own[own.length - 1]];
  }
  ctx.focusChip(next.dataset.key);
  clickChip(ctx, next, { shiftKey: extend });
  return true;
}

/** The chip nearest in time in the lane above or below. */
function inNeighbour(ctx, chip, step) {
  const lanes = [...ctx.lanes.querySelectorAll(".b-lane")];
  const lane = lanes[lanes.indexOf(chip.closest(".b-lane")) + step];
  const x = chip.getBoundingClientRect().left;
  let best = null;
  for (const other of lane?.querySelectorAll(".b-chip") ?? []) {
    const off = Math.abs(other.getBoundingClientRect().left - x);
    if (!best || off < best.off) best = { other, off };
  }
  return best?.other ?? null;
}

/** Alt+Up, Alt+Down: the selection, or the focused chip, to the neighbouring lane. */
function moveToNeighbour(ctx, chip, step) {
  const order = ctx.view.lanes.map((lane) => lane.id);
  const target = order[order.indexOf(chip.closest(".b-lane").dataset.lane) + step];
  if (target == null) return (ctx.say("No lane there"), true);
  const own = chipPositions(ctx, chip);
  ctx.move(own.every((p) => ctx.selected.has(p)) ? ctx.selected : new Set(own), target);
  return true;
}

/** [ and ]: the boundary where this chip's stage ends; { and }: where it starts. */
function shiftEnd(ctx, chip, step, side) {
  const lane = ctx.lane(chip.closest(".b-lane").dataset.lane);
  const first = Number(chip.dataset.first);
  const stage = lane.runs.find((run) => run.first <= first && first < run.first + run.count)?.stage;
  const boundary =
    ctx.view.boundaries.find((b) => b[side] === stage) ??
    ctx.view.boundaries.find((b) => b[side === "before" ? "after" : "before"] === stage);
  if (!boundary) return (ctx.say("No boundary here"), true);
  return shift(ctx, boundary, step);
}

function shift(ctx, boundary, step) {
  const to = nextStop(ctx.catalog, boundary, ctx.expanded, step);
  if (to == null) ctx.say("The boundary is at its limit");
  else ctx.moveBoundary(boundary, to);
  return true;
}

function handleKey(ctx, handle, event) {
  const boundary = ctx.view.boundaries.find((b) => b.id === handle.dataset.boundary);
  const step = { ArrowRight: 1, ArrowUp: 1, "]": 1, ArrowLeft: -1, ArrowDown: -1, "[": -1 }[event.key];
  return step != null && boundary != null && shift(ctx, boundary, step);
}

/** Arrows inside the row of colour modes. */
function modesKey(ctx, event) {
  const radio = event.target.closest?.("[role=radio]");
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!radio || !step) return;
  const all = [...radio.parentElement.children];
  const next = all[(all.indexOf(radio) + step + all.length) % all.length];
  next.click();
  next.focus();
  stop(event);
}
