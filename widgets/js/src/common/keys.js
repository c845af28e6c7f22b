// The sheet of keys: "?" or the button of that name shows what every key of a widget does.

import { h } from "./dom.js";

/** Keys by widget: [keys, what they do]. The table in docs/workbench.md says the same. @type {Record<string, [string, string][]>} */
export const SHEETS = {
  board: [
    ["← → ↑ ↓", "go from block to block; with Shift the selection grows"],
    ["Enter", "open a block to its layers"],
    ["Alt+↑ Alt+↓", "move the selection to the next stage"],
    ["Space", "pick up; arrows carry, Space drops, Escape cancels"],
    ["[ ]", "move the boundary after this stage"],
    ["{ }", "move the boundary before this stage"],
    ["M", "open Move to…"],
    ["P", "pin layers to their devices"],
    ["L", "lock the stage"],
    ["G", "move devices between stages"],
    ["Ctrl+Z Ctrl+Shift+Z", "undo, redo"],
    ["Escape", "select nothing"],
  ],
  timeline: [
    ["← → ↑ ↓", "go from bar to bar"],
    ["Enter", "follow the microbatch of a bar through all stages"],
    ["N P", "the next microbatch, the one before"],
    ["W S", "zoom in, zoom out; or Ctrl and the wheel"],
    ["A D", "earlier, later"],
    ["0", "the whole step, in all views of time"],
    ["Shift+← Shift+→", "move the cursor, in all views of time"],
    ["T", "tell the memory at the cursor"],
    ["B E", "mark where an area begins and ends; or Shift and a drag"],
    ["Z", "zoom to the area"],
    ["C", "outline the critical path"],
    ["L", "show how busy each link is"],
    ["M", "mark the lane everywhere"],
    ["O", "edit the order"],
    ["Alt+← Alt+→", "move the action while the order is edited"],
    ["Escape", "clear the area, follow nothing, cancel"],
  ],
  heatmap: [
    ["← → ↑ ↓", "go from cell to cell; with Shift column by column in time"],
    ["Enter", "mark the lane everywhere"],
    ["W S", "zoom in, zoom out, where there is an axis of time; or Ctrl and the wheel"],
    ["A D", "earlier, later"],
    ["0", "the whole step, in all views of time"],
    ["Escape", "leave the cells"],
  ],
  graph: [
    ["← → ↑ ↓", "go along the edges"],
    ["Enter", "open a block, Escape closes it; of a layer, choose how it is split"],
    ["E", "choose how a layer is split and what its stage keeps"],
    ["Space", "select"],
    ["/", "find a layer"],
  ],
};

/** Event of the document that starts the tour of a workbench (tiles/tour.js). */
const TOUR = "sx-tour-wanted";

/** Open the sheet of a widget; Escape, the button or a click beside it closes it. @param {HTMLElement} root @param {string} name */
export function showKeys(root, name) {
  if (root.querySelector(".sx-keys")) return;
  const before = root.ownerDocument.activeElement;
  const close = h("button", { class: "sx-btn", text: "Close", "data-action": "close-keys", on: { click: () => dialog.close() } });
  const bench = root.dataset.bench;
  const start = () => {
    dialog.close();
    document.dispatchEvent(new CustomEvent(TOUR, { detail: { bench } }));
  };
  const tour = bench ? h("button", { class: "sx-btn", text: "Take the tour", "data-action": "take-tour", on: { click: start } }) : null;
  const dialog = h(
    "dialog",
    { class: "sx-keys", "aria-label": `Keys of the ${name}` },
    h("h2", { text: `Keys of the ${name}` }),
    h("table", {}, h("tbody", {}, ...SHEETS[name].map(([keys, words]) => h("tr", {}, h("th", { scope: "row", text: keys }), h("td", { text: words }))))),
    h("p", { class: "sx-keys-acts" }, close, tour),
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation(); // what the widget below would take for a key of its own
    if (event.key === "?") dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
  });
  root.append(dialog);
  dialog.showModal();
}

/** The button that opens it. @param {string} name */
export const keysButton = (name) =>
  h("button", {
    class: "sx-btn",
    text: "?",
    title: "Keys (?)",
    "aria-label": `Keys of the ${name}`,
    "data-action": "keys",
    on: { click: (event) => showKeys(event.target.closest(".sx"), name) },
  });

/** Let "?" open the sheet wherever nobody types. @param {HTMLElement} root @param {string} name */
export function attachKeys(root, name) {
  if (!SHEETS[name]) return;
  root.addEventListener("keydown", (event) => {
    if (event.key === "?" && !event.target.closest("input, textarea, select, [contenteditable]")) showKeys(root, name);
  });
}
