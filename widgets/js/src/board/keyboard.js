// Everything the mouse can do, by keyboard. Plain keys never leave the board (the root stops them).

import { previewBoundary } from "./drags.js";
import { drawBoard } from "./draw.js";
import { nextStop } from "./estimate.js";
import { focusChip } from "./focus.js";
import { boundaryRefusal } from "./holds.js";
import { openMoveMenu } from "./menu.js";
import { effectWords } from "./preview.js";
import { chipPositions, clickChip, toggleOpen } from "./selecting.js";

const PAGE_LANES = 8;

export function attachKeyboard(ctx) {
  let carried = null; // what Space holds: {drop, cancel, key} of layers or of a boundary

  ctx.root.addEventListener("keydown", (event) => {
    ctx.inputAt = event.timeStamp;
    if (handled(event)) stop(event);
    ctx.inputAt = null;
  });
  ctx.root.addEventListener("focusout", (event) => {
    const to = event.relatedTarget;
    if (carried && to && !ctx.root.contains(to)) end(false);
  });
  /** End what Space holds without moving it. */
  ctx.putDown = () => carried && end(false);

  function handled(event) {
    if (event.ctrlKey || event.metaKey) return undoKey(ctx, event);
    const handle = event.target.closest?.(".b-handle");
    const chip = event.target.closest?.(".b-chip");
    if (!handle && !chip) return modesKey(ctx, event);
    if (carried) return carryKey(event);
    return handle ? handleKey(ctx, handle, event, pickUpBoundary) : chipKey(ctx, chip, event, pickUp);
  }

  function pickUp(chip) {
    const own = chipPositions(chip);
    const positions = own.every((p) => ctx.selected.has(p)) ? ctx.selected : new Set(own);
    if (!ctx.editable) return;
    carried = carryLayers(ctx, positions, chip.closest(".b-lane").dataset.lane);
    ctx.say(`${ctx.catalog.describe(positions)} picked up. Up and Down choose a lane, Space drops, Escape cancels.`);
  }

  function pickUpBoundary(boundary) {
    const refused = boundaryRefusal(ctx.view, boundary);
    if (refused) return ctx.tell(refused);
    carried = carryBoundary(ctx, boundary);
    return ctx.say(`boundary picked up. Left and Right move it, Space drops, Escape cancels.`);
  }

  function carryKey(event) {
    const drop = event.key === " " || event.key === "Enter";
    if (drop || event.key === "Escape" || event.key === "Tab") end(drop);
    else carried.key(event.key);
    return event.key !== "Tab";
  }

  function end(drop) {
    const done = carried;
    carried = null;
    if (drop) return done.drop();
    ctx.setPreview(null);
    return ctx.say("Move cancelled");
  }
}

/** Layers in the hand: Up, Down, Page and Home, End choose the lane. */
function carryLayers(ctx, positions, from) {
  let lane = from;
  const show = () => ctx.setPreview({ positions, target: lane });
  show();
  return {
    key(key) {
      const order = ctx.view.lanes.map((item) => item.id);
      const at = order.indexOf(lane);
      const to = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - PAGE_LANES, PageDown: at + PAGE_LANES, Home: 0, End: order.length }[key];
      if (to == null) return;
      const next = order[Math.max(0, Math.min(order.length - 1, to))];
      if (next === lane) return;
      lane = next;
      show();
      ctx.laneElement(lane)?.scrollIntoView({ block: "nearest" });
      ctx.say(`${ctx.lane(lane).name}: ${effectWords(ctx, ctx.preview) ?? "here now"}`);
    },
    drop: () => ctx.move(positions, lane),
  };
}

/** A boundary in the hand: Left and Right move it, nothing is sent until it is dropped. */
function carryBoundary(ctx, boundary) {
  let to = boundary.at;
  return {
    key(key) {
      const step = STEPS[key];
      if (step == null) return;
      const next = nextStop(ctx.catalog, { ...boundary, at: to }, ctx.expanded, step);
      if (next == null) return ctx.say("The boundary is at its limit");
      to = next;
      previewBoundary(ctx, boundary, to);
      const lane = ctx.preview && ctx.lane(ctx.preview.target);
      return ctx.say(lane ? `${lane.name}: ${effectWords(ctx, ctx.preview) ?? "as it is"}` : "where it was");
    },
    drop: () => ctx.moveBoundary(boundary, to),
  };
}

const STEPS = { ArrowRight: 1, ArrowUp: 1, "]": 1, ArrowLeft: -1, ArrowDown: -1, "[": -1 };

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
  else ctx.commit(ctx.view, kind, {}, () => (kind === "undo" ? "Undone" : "Redone"));
  return true;
}

function chipKey(ctx, chip, event, pickUp) {
  const { key } = event;
  if (event.altKey && (key === "ArrowUp" || key === "ArrowDown")) return moveToNeighbour(ctx, chip, key === "ArrowDown" ? 1 : -1);
  if (event.altKey) return false;
  if (MOVES[key] != null) return go(ctx, chip, MOVES[key], event.shiftKey);
  const act = ACTS[key] ?? ACTS[key.toLowerCase()];
  if (!act) return false;
  act(ctx, chip, event, pickUp);
  return true;
}

const MOVES = {
  ArrowRight: { along: 1 },
  ArrowLeft: { along: -1 },
  ArrowUp: { lanes: -1 },
  ArrowDown: { lanes: 1 },
  PageUp: { lanes: -PAGE_LANES },
  PageDown: { lanes: PAGE_LANES },
  Home: { end: 0 },
  End: { end: -1 },
};

const ACTS = {
  " ": (ctx, chip, event, pickUp) => (event.shiftKey ? clickChip(ctx, chip, { shiftKey: true }) : pickUp(chip)),
  Enter: (ctx, chip) => toggleOpen(ctx, chip.dataset.block),
  Escape: (ctx) => ctx.select(new Set()),
  "[": (ctx, chip) => shiftEnd(ctx, chip, -1, "before"),
  "]": (ctx, chip) => shiftEnd(ctx, chip, 1, "before"),
  "{": (ctx, chip) => shiftEnd(ctx, chip, -1, "after"),
  "}": (ctx, chip) => shiftEnd(ctx, chip, 1, "after"),
  m: openMenu,
  contextmenu: openMenu,
  p: (ctx, chip) => ctx.togglePins(selectionOr(ctx, chip)),
  l: (ctx, chip) => ctx.toggleLock(laneOf(chip)),
  g: (ctx, chip) => ctx.devices.open(ctx.lane(laneOf(chip)).replicas[0][0]),
};

const laneOf = (chip) => chip.closest(".b-lane").dataset.lane;

/** The selection if the chip is in it, else the chip's own layers. */
function selectionOr(ctx, chip) {
  const own = chipPositions(chip);
  return own.every((p) => ctx.selected.has(p)) ? ctx.selected : new Set(own);
}

function openMenu(ctx, chip) {
  if (!chipPositions(chip).every((p) => ctx.selected.has(p))) clickChip(ctx, chip);
  const [root, box] = [ctx.root.getBoundingClientRect(), chip.getBoundingClientRect()];
  openMoveMenu(ctx, chip, { x: box.left - root.left, y: box.bottom - root.top + 4 });
}

/** Move focus; with Shift the selection grows, without it follows the focus. */
function go(ctx, chip, where, extend) {
  const next = keyAt(ctx, chip, where);
  if (!next) return true;
  if (extend && ctx.anchor == null) {
    const own = chipPositions(chip);
    ctx.anchor = [own[0], own[own.length - 1]];
  }
  if (!ctx.chipElement(next.key)) {
    ctx.wanted = next.lane; // a lane that is far from what is seen: build it first
    drawBoard(ctx);
  }
  focusChip(ctx, next.key);
  const element = ctx.chipElement(next.key);
  if (element) clickChip(ctx, element, { shiftKey: extend });
  return true;
}

/** Where an arrow leads: along the lane and on into the next, or to the chip nearest in time some lanes away. */
function keyAt(ctx, chip, { along, lanes, end }) {
  const rows = ctx.rowElements.filter((row) => row.dataset.lane != null).map((row) => row.dataset.lane);
  const filled = rows.filter((id) => ctx.pieces.get(id).length);
  const own = laneOf(chip);
  const mine = ctx.pieces.get(own);
  const at = mine.findIndex((piece) => piece.key === chip.dataset.key);
  if (end != null) return { lane: own, key: mine.at(end).key };
  if (along) {
    const inside = mine[at + along];
    if (inside) return { lane: own, key: inside.key };
    const lane = filled[filled.indexOf(own) + along];
    return lane == null ? null : { lane, key: ctx.pieces.get(lane).at(along > 0 ? 0 : -1).key };
  }
  const place = filled.indexOf(own);
  const lane = filled[Math.max(0, Math.min(filled.length - 1, place + lanes))];
  if (lane === own || lane == null) return null;
  return { lane, key: nearestInTime(ctx.pieces.get(lane), startOf(mine, at)) };
}

const startOf = (pieces, at) => pieces.slice(0, at).reduce((sum, piece) => sum + piece.time_s, 0);

function nearestInTime(pieces, time_s) {
  let [best, off, start] = [pieces[0], Infinity, 0];
  for (const piece of pieces) {
    if (Math.abs(start - time_s) < off - 1e-12) [best, off] = [piece, Math.abs(start - time_s)];
    start += piece.time_s;
  }
  return best.key;
}

/** Alt+Up, Alt+Down: the selection, or the focused chip, to the neighbouring lane. */
function moveToNeighbour(ctx, chip, step) {
  const order = ctx.view.lanes.map((lane) => lane.id);
  const target = order[order.indexOf(laneOf(chip)) + step];
  if (target == null) return (ctx.say("No lane there"), true);
  ctx.move(selectionOr(ctx, chip), target);
  return true;
}

/** [ and ]: the boundary where this chip's stage ends; { and }: where it starts. */
function shiftEnd(ctx, chip, step, side) {
  const lane = ctx.lane(laneOf(chip));
  const first = Number(chip.dataset.first);
  const stage = lane.runs.find((run) => run.first <= first && first < run.first + run.count)?.stage;
  const boundary =
    ctx.view.boundaries.find((b) => b[side] === stage) ??
    ctx.view.boundaries.find((b) => b[side === "before" ? "after" : "before"] === stage);
  if (!boundary) return ctx.say("No boundary here");
  return shift(ctx, boundary, step);
}

function shift(ctx, boundary, step) {
  const to = nextStop(ctx.catalog, boundary, ctx.expanded, step);
  if (to == null) ctx.say("The boundary is at its limit");
  else ctx.moveBoundary(boundary, to);
  return true;
}

function handleKey(ctx, handle, event, pickUp) {
  const boundary = ctx.view.boundaries.find((b) => b.id === handle.dataset.boundary);
  if (!boundary || !ctx.editable || event.altKey) return false;
  if (event.key === " ") return (pickUp(boundary), true);
  if (event.key === "Home" || event.key === "End") {
    ctx.moveBoundary(boundary, event.key === "Home" ? boundary.minimum : boundary.maximum);
    return true;
  }
  const step = STEPS[event.key];
  return step != null && shift(ctx, boundary, step);
}

/** Arrows inside the row of colour modes. */
function modesKey(ctx, event) {
  const radio = event.target.closest?.("[role=radio]");
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!radio || !step) return false;
  const all = [...radio.parentElement.children];
  const next = all[(all.indexOf(radio) + step + all.length) % all.length];
  next.click();
  next.focus();
  return true;
}
