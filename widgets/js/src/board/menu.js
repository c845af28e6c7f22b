// "Move to…": the way to move without dragging, for touch and screen readers. Says what each move would do.

import { h } from "../common/dom.js";
import { bytes, seconds, signed } from "../common/format.js";
import { memoryLevel } from "./layout.js";
import { moved } from "./estimate.js";

/** @param {any} ctx @param {HTMLElement} opener where focus returns @param {{x: number, y: number}} [at] in root coordinates */
export function openMoveMenu(ctx, opener, at) {
  closeMenu(ctx);
  const positions = ctx.selected;
  if (!positions.size || !ctx.editable) return;
  const items = ctx.view.lanes.map((lane) => item(ctx, lane, positions));
  const menu = h(
    "div",
    { class: "b-menu", role: "menu", "aria-label": `Move ${ctx.catalog.describe(positions)} to` },
    h("div", { class: "b-menu-title", text: `Move ${ctx.catalog.describe(positions)} to` }),
    items,
  );
  const close = (refocus = true) => {
    menu.remove();
    document.removeEventListener("pointerdown", outside, true);
    ctx.closeMenu = null;
    if (refocus) opener.focus();
  };
  const outside = (event) => {
    if (!menu.contains(event.target)) close(false);
  };
  ctx.closeMenu = close;
  menu.addEventListener("click", (event) => {
    const lane = event.target.closest("[data-to-lane]")?.dataset.toLane;
    if (lane == null || event.target.closest("[disabled]")) return;
    close();
    ctx.move(positions, lane);
  });
  menu.addEventListener("keydown", (event) => {
    const enabled = items.filter((button) => !button.disabled);
    const i = enabled.indexOf(document.activeElement);
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key === "ArrowDown") enabled[(i + 1) % enabled.length].focus();
    else if (event.key === "ArrowUp") enabled[(i - 1 + enabled.length) % enabled.length].focus();
    else if (event.key === "Home") enabled[0].focus();
    else if (event.key === "End") enabled[enabled.length - 1].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  ctx.root.append(menu);
  const root = ctx.root.getBoundingClientRect();
  const from = opener.getBoundingClientRect();
  const left = at ? at.x : from.right - root.left - menu.offsetWidth;
  menu.style.left = `${Math.max(4, Math.min(left, root.width - menu.offsetWidth - 4))}px`;
  menu.style.top = `${at ? at.y : from.bottom - root.top + 4}px`;
  document.addEventListener("pointerdown", outside, true);
  items.find((button) => !button.disabled)?.focus();
}

function item(ctx, lane, positions) {
  const next = moved(ctx.catalog, ctx.view, positions, lane.id).lanes.find((other) => other.id === lane.id);
  const gain = next.forward_s + next.backward_s - lane.forward_s - lane.backward_s;
  const level = memoryLevel(next);
  const effect =
    next.runs === lane.runs
      ? "here now"
      : `${signed(seconds(gain))}, ${bytes(next.peak_bytes)}${level === "bad" ? ` ▲ ${bytes(next.peak_bytes - next.capacity_bytes)} over` : ""}`;
  return h(
    "button",
    { class: `b-menu-item ${level}`, role: "menuitem", tabindex: "-1", "data-to-lane": lane.id, disabled: effect === "here now" },
    h("span", { text: lane.name }),
    h("span", { text: effect }),
  );
}

export function closeMenu(ctx) {
  ctx.closeMenu?.(false);
}
