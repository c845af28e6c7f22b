// "Move to…": the way to move without dragging, for touch and screen readers. Says what each move would do.

import { h } from "../common/dom.js";
import { bytes, seconds, signed } from "../common/format.js";
import { homeOf } from "./detail.js";
import { moved } from "./estimate.js";
import { allPinned, refusal } from "./holds.js";
import { memoryLevel } from "./layout.js";

/** @param {any} ctx @param {HTMLElement} opener where focus returns @param {{x: number, y: number}} [at] in root coordinates */
export function openMoveMenu(ctx, opener, at) {
  ctx.closeMenu?.(false);
  const positions = ctx.selected;
  if (!positions.size || !ctx.editable) return;
  const what = ctx.catalog.describe(positions);
  const items = [...ctx.view.lanes.map((lane) => item(ctx, lane, positions)), ...holdItems(ctx, positions)];
  const menu = h(
    "div",
    { class: "b-menu", role: "menu", "aria-label": `Move ${what} to` },
    h("div", { class: "b-menu-title", role: "presentation", text: `Move ${what} to` }),
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
    const chosen = event.target.closest("button:not([aria-disabled])");
    if (!chosen) return;
    close();
    if (chosen.dataset.toLane != null) ctx.move(positions, chosen.dataset.toLane);
    else if (chosen.dataset.hold === "pin") ctx.togglePins(positions);
    else ctx.toggleLock(chosen.dataset.hold);
  });
  menu.addEventListener("keydown", (event) => menuKey(event, items, close));
  ctx.root.append(menu);
  placeMenu(ctx, menu, opener, at);
  document.addEventListener("pointerdown", outside, true);
  (items.find((button) => !button.ariaDisabled) ?? items[0]).focus();
}

/** Below the opener; above it where it would leave the board, which a notebook would cut off. */
function placeMenu(ctx, menu, opener, at) {
  const root = ctx.root.getBoundingClientRect();
  const from = opener.getBoundingClientRect();
  const left = at ? at.x : from.right - root.left - menu.offsetWidth;
  const below = at ? at.y : from.bottom - root.top + 4;
  const above = (at ? at.y : from.top - root.top) - menu.offsetHeight - 4;
  const fits = below + menu.offsetHeight <= root.height || above < 0;
  menu.style.left = `${Math.max(4, Math.min(left, root.width - menu.offsetWidth - 4))}px`;
  menu.style.top = `${fits ? below : above}px`;
}

function menuKey(event, items, close) {
  const at = items.indexOf(document.activeElement);
  const last = items.length - 1;
  const to = { ArrowDown: at === last ? 0 : at + 1, ArrowUp: at <= 0 ? last : at - 1, Home: 0, End: last }[event.key];
  if (event.key === "Escape" || event.key === "Tab") close();
  else if (to != null) items[to].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function item(ctx, lane, positions) {
  const { effect, level, open } = effectOn(ctx, lane, positions);
  return h(
    "button",
    {
      class: `b-menu-item ${level}`,
      role: "menuitem",
      tabindex: "-1",
      "data-to-lane": lane.id,
      "aria-disabled": open ? null : "true",
    },
    h("span", { text: lane.name }),
    h("span", { text: effect }),
  );
}

function effectOn(ctx, lane, positions) {
  const refused = refusal(ctx, positions, lane.id);
  if (refused) return { effect: lane.locked ? "locked" : refused, level: "", open: false };
  const next = moved(ctx.catalog, ctx.view, positions, lane.id).lanes.find((other) => other.id === lane.id);
  if (next.runs === lane.runs) return { effect: "here now", level: "", open: false };
  const gain = next.forward_s + next.backward_s - lane.forward_s - lane.backward_s;
  const level = memoryLevel(next);
  const over = level === "bad" ? ` ▲ ${bytes(next.peak_bytes - next.capacity_bytes)} over` : "";
  return { effect: `${signed(seconds(gain))}, ${bytes(next.peak_bytes)}${over}`, level, open: true };
}

/** Pin and lock, for those who cannot press keys. */
function holdItems(ctx, positions) {
  const box = (text, hold, checked, cls) =>
    h(
      "button",
      { class: `b-menu-item ${cls}`, role: "menuitemcheckbox", tabindex: "-1", "data-hold": hold, "aria-checked": String(checked) },
      h("span", { text: `${checked ? "☑" : "☐"} ${text}` }),
    );
  const home = homeOf(ctx, positions);
  return [
    box("Pinned to these devices", "pin", allPinned(ctx.pinned, positions), "first"),
    ...(home ? [box(`${home.name} locked`, home.id, Boolean(home.locked), "")] : []),
  ];
}
