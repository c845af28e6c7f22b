// Mouse, pen and touch: click, shift-click, drags, long press. What is dragged is in drags.js.

import { boundaryGesture, brushGesture, chipGesture } from "./drags.js";
import { focusChip } from "./focus.js";
import { openMoveMenu } from "./menu.js";
import { pick } from "./overview.js";
import { AutoScroll } from "./scroll.js";
import { chipPositions, clickChip, toggleOpen } from "./selecting.js";

const THRESHOLD_PX = 4;
const LONG_PRESS_MS = 450;

export function attachGestures(ctx) {
  let gesture = null;
  const { root } = ctx;

  const move = (event) => {
    if (!gesture) return;
    if (!gesture.started) {
      if (Math.hypot(event.clientX - gesture.x, event.clientY - gesture.y) < THRESHOLD_PX) return;
      clearTimeout(gesture.timer);
      if (!gesture.begin || (!ctx.editable && gesture.edits)) return;
      begin(event);
    }
    gesture.last = event;
    gesture.drag(event);
    gesture.scroll.at(event.clientY);
  };
  function begin(event) {
    gesture.started = true;
    gesture.scroll = new AutoScroll(ctx.lanes, () => gesture?.drag(gesture.last));
    ctx.grip.style.cursor = gesture.cursor;
    try {
      ctx.grip.setPointerCapture(event.pointerId);
    } catch {
      // the pointer is gone already: its `pointerup` or `pointercancel` ends the gesture
    }
    gesture.begin(event);
    ctx.model.send({ consider: { kind: "begin" } });
  }
  const up = (event) => {
    const done = gesture;
    ctx.inputAt = event.timeStamp;
    if (done?.started) done.drop(event);
    finish();
    if (done && !done.started && !done.pressed) done.click?.(event);
    ctx.inputAt = null;
  };
  const escape = (event) => {
    if (event.key !== "Escape" || !gesture?.started) return;
    event.preventDefault();
    event.stopPropagation();
    finish();
    ctx.say("Move cancelled");
  };
  function finish() {
    if (!gesture) return;
    const { scroll, timer, started } = gesture;
    gesture.end?.();
    gesture = null;
    scroll?.stop();
    clearTimeout(timer);
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", up);
    window.removeEventListener("pointercancel", finish);
    window.removeEventListener("keydown", escape, true);
    if (started) ctx.setPreview(null);
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
    const brush = event.target.closest(".b-brush");
    const device = ctx.editable ? event.target.closest("[data-device]") : null;
    if (!handle && !chip && !brush && !device) return;
    event.preventDefault();
    ctx.putDown?.();
    if (handle) {
      if (handle.tabIndex >= 0) handle.focus({ preventScroll: true });
      start(boundaryGesture(ctx, handle), event);
    } else if (device) start(ctx.devices.gesture(device), event);
    else if (brush) {
      start({ ...brushGesture(ctx, brush), click: (e) => pick(ctx, ctx.overview.parts.strip, e) }, event);
    } else {
      focusChip(ctx, chip.dataset.key, false);
      start(event.pointerType === "touch" ? touchGesture(chip) : chipGesture(ctx, chip), event);
      if (event.pointerType === "touch") gesture.timer = setTimeout(() => longPress(chip, event), LONG_PRESS_MS);
    }
  });

  /** A finger on a chip scrolls the page; a tap selects, a long press asks where to. */
  const touchGesture = (chip) => ({ click: (event) => clickChip(ctx, chip, event) });
  function longPress(chip, event) {
    if (!gesture) return;
    gesture.pressed = true;
    openMenuAt(chip, event);
  }
  function openMenuAt(chip, event) {
    const own = chipPositions(chip);
    if (own.some((p) => !ctx.selected.has(p))) ctx.select(new Set(own));
    const box = root.getBoundingClientRect();
    openMoveMenu(ctx, chip, { x: event.clientX - box.left, y: event.clientY - box.top });
  }

  root.addEventListener("dblclick", (event) => {
    const chip = event.target.closest(".b-chip");
    if (chip) toggleOpen(ctx, chip.dataset.block);
  });
  root.addEventListener("contextmenu", (event) => {
    const chip = event.target.closest(".b-chip");
    if (!chip) return;
    event.preventDefault();
    if (!gesture?.pressed) openMenuAt(chip, event);
  });
  ctx.stopGestures = finish;
}
