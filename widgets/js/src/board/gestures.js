// Mouse and pen: click, shift-click, free drag of chips, drag of boundaries. Nothing reflows until release.

import { h } from "../common/dom.js";
import { bytes, seconds, signed } from "../common/format.js";
import { between, nearestStop } from "./estimate.js";
import { rowAt } from "./layout.js";
import { openMoveMenu } from "./menu.js";
import { positionsOf } from "./model.js";

const THRESHOLD_PX = 4;

export function attachGestures(ctx) {
  let gesture = null;
  const { root } = ctx;

  const move = (event) => {
    if (!gesture) return;
    if (!gesture.started) {
      if (Math.hypot(event.clientX - gesture.x, event.clientY - gesture.y) < THRESHOLD_PX) return;
      if (!ctx.editable) return;
      gesture.started = true;
      root.classList.add("b-dragging");
      gesture.begin?.();
    }
    gesture.drag(event);
  };
  const up = (event) => {
    const done = gesture;
    finish();
    if (!done) return;
    if (done.started) done.drop(event);
    else done.click?.(event);
  };
  const escape = (event) => {
    if (event.key !== "Escape" || !gesture?.started) return;
    event.preventDefault();
    event.stopPropagation();
    finish();
    ctx.say("Move cancelled");
  };
  function finish() {
    gesture?.ghost?.remove();
    gesture = null;
    root.classList.remove("b-dragging");
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", up);
    window.removeEventListener("pointercancel", finish);
    window.removeEventListener("keydown", escape, true);
    if (ctx.preview) ctx.setPreview(null);
  }
  const start = (next, event) => {
    finish();
    gesture = { ...next, x: event.clientX, y: event.clientY, started: false };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
    window.addEventListener("pointercancel", finish);
    window.addEventListener("keydown", escape, true);
  };

  root.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const handle = event.target.closest(".b-handle, [data-overview-boundary]");
    const chip = event.target.closest(".b-chip");
    if (handle) {
      event.preventDefault();
      handle.focus?.();
      start(boundaryGesture(ctx, handle), event);
    } else if (chip) {
      event.preventDefault();
      ctx.focusChip(chip.dataset.key);
      start(
        event.pointerType === "touch" ? { drag() {}, drop() {}, click: (e) => clickChip(ctx, chip, e) } : chipGesture(ctx, chip),
        event,
      );
    }
  });
  root.addEventListener("dblclick", (event) => {
    const chip = event.target.closest(".b-chip");
    if (chip) toggleOpen(ctx, chip.dataset.block);
  });
  root.addEventListener("contextmenu", (event) => {
    const chip = event.target.closest(".b-chip");
    if (!chip) return;
    event.preventDefault();
    const own = chipPositions(ctx, chip);
    const open = () => {
      const box = root.getBoundingClientRect();
      openMoveMenu(ctx, chip, { x: event.clientX - box.left, y: event.clientY - box.top });
    };
    if (own.some((p) => !ctx.selected.has(p))) ctx.select(new Set(own));
    open();
  });
  ctx.stopGestures = finish;
}

/** Flat positions of the chip an element stands for. */
export function chipPositions(ctx, chip) {
  return positionsOf({ first: Number(chip.dataset.first), count: Number(chip.dataset.count) });
}

/** Open a block to its layers, or close it. */
export function toggleOpen(ctx, block) {
  const expanded = ctx.expanded;
  if (!expanded.delete(block)) expanded.add(block);
  ctx.sync.set("expanded", [...expanded]);
}

/** Plain click selects one; Shift extends from the anchor in model order; Ctrl or Cmd adds and takes away. */
export function clickChip(ctx, chip, { shiftKey = false, ctrlKey = false, metaKey = false } = {}) {
  const own = chipPositions(ctx, chip);
  if (shiftKey && ctx.anchor != null) {
    const [from, to] = [Math.min(ctx.anchor[0], own[0]), Math.max(ctx.anchor[1], own[own.length - 1])];
    ctx.select(between(from, to + 1));
    return;
  }
  ctx.anchor = [own[0], own[own.length - 1]];
  if (!ctrlKey && !metaKey) return void ctx.select(new Set(own));
  const selected = ctx.selected;
  const held = own.every((p) => selected.has(p));
  for (const p of own) held ? selected.delete(p) : selected.add(p);
  ctx.select(selected);
}

function chipGesture(ctx, chip) {
  const own = chipPositions(ctx, chip);
  const gesture = {
    click: (event) => clickChip(ctx, chip, event),
    begin() {
      if (!own.every((p) => ctx.selected.has(p))) {
        ctx.anchor = [own[0], own[own.length - 1]];
        ctx.select(new Set(own));
        ctx.draw();
      }
      gesture.positions = ctx.selected;
      gesture.rows = null;
      this.ghost = makeGhost(ctx, gesture.positions);
      ctx.root.append(this.ghost);
      gesture.ghost = this.ghost;
    },
    drag(event) {
      const rows = [...ctx.lanes.querySelectorAll(".b-lane")].map((lane) => {
        const box = lane.getBoundingClientRect();
        return { id: lane.dataset.lane, top: box.top, bottom: box.bottom };
      });
      const target = rowAt(rows, event.clientY);
      if (target !== gesture.target || !ctx.preview) {
        gesture.target = target;
        ctx.setPreview({ positions: gesture.positions, target });
        captionGhost(ctx, gesture.ghost, gesture.positions);
      }
      placeGhost(ctx, gesture.ghost, event);
    },
    drop() {
      if (gesture.target != null) ctx.move(gesture.positions, gesture.target);
    },
  };
  return gesture;
}

function makeGhost(ctx, positions) {
  const names = ctx.catalog.ids(positions).map((id) => {
    const range = ctx.catalog.ranges.get(id);
    const block = ctx.catalog.blocks[ctx.catalog.layers[range[0]].block];
    return block.id === id ? block.label : ctx.catalog.layers[range[0]].label;
  });
  const shown = names.slice(0, 4);
  return h(
    "div",
    { class: "b-ghost", "aria-hidden": "true" },
    h("div", { class: "b-ghost-card" }, h("b", {}), h("span", {})),
    shown.map((name) => h("div", { class: "b-ghost-chip", text: name })),
    names.length > shown.length ? h("div", { class: "b-ghost-chip", text: `+${names.length - shown.length}` }) : null,
  );
}

/** What the move would do to the lane under the pointer. */
export function effectWords(ctx, preview) {
  const was = ctx.lane(preview.target);
  const next = preview.view?.lanes.find((lane) => lane.id === preview.target);
  if (!was || !next || was.runs === next.runs) return null;
  const over = next.peak_bytes - next.capacity_bytes;
  return `${signed(seconds(next.forward_s + next.backward_s - was.forward_s - was.backward_s))}, ${signed(bytes(next.peak_bytes - was.peak_bytes))} a device${over > 0 ? `; over by ${bytes(over)}` : ""}`;
}

function captionGhost(ctx, ghost, positions) {
  const lane = ctx.preview?.target == null ? null : ctx.lane(ctx.preview.target);
  const effect = lane ? effectWords(ctx, ctx.preview) : null;
  const [title, text] = ghost.firstChild.children;
  title.textContent = lane ? `${ctx.catalog.describe(positions)} → ${lane.name}` : ctx.catalog.describe(positions);
  text.textContent = effect ?? (lane ? "here now" : "Drop on a lane. Esc cancels.");
}

function placeGhost(ctx, ghost, event) {
  const box = ctx.root.getBoundingClientRect();
  const x = Math.min(event.clientX - box.left + 10, box.width - ghost.offsetWidth - 4);
  ghost.style.transform = `translate(${Math.max(4, x)}px, ${event.clientY - box.top + 12}px)`;
}

function boundaryGesture(ctx, handle) {
  const id = handle.dataset.boundary ?? handle.dataset.overviewBoundary;
  const boundary = ctx.view.boundaries.find((b) => b.id === id);
  const overview = handle.dataset.overviewBoundary != null;
  const gesture = {
    to: boundary.at,
    drag(event) {
      const width = overview ? ctx.overview.querySelector(".b-strip").clientWidth : ctx.trackPx;
      const perPx = (overview ? ctx.catalog.total_s : ctx.scale_s) / width;
      const lane = ctx.lane(boundary.before_lane);
      gesture.to = nearestStop(
        ctx.catalog,
        boundary,
        ctx.expanded,
        (event.clientX - this.x) * perPx,
        overview ? 1 : (lane?.time_factor ?? 1),
      );
      previewBoundary(ctx, boundary, gesture.to);
    },
    drop() {
      ctx.moveBoundary(boundary, gesture.to);
    },
  };
  return gesture;
}

/** Preview of a boundary at another place. */
export function previewBoundary(ctx, boundary, to) {
  const positions = between(boundary.at, to);
  if (!positions.size) return ctx.setPreview(null);
  const factor = ctx.lane(boundary.before_lane)?.time_factor ?? 1;
  let shift_s = 0;
  for (const p of positions) shift_s += ctx.catalog.layers[p].time_s * factor * (to > boundary.at ? 1 : -1);
  ctx.setPreview({
    positions,
    boundary: boundary.id,
    shift_s,
    target: to > boundary.at ? boundary.before_lane : boundary.after_lane,
  });
}
