// The accessible alternative that stands behind every drawing.

import { copyButtons } from "./copying.js";
import { h } from "./dom.js";

/** A button that swaps a drawing for a table and back. `rows` is only asked when the table is opened. */
export function tableToggle(drawing, place, makeTable) {
  const button = h("button", { class: "sx-btn", text: "Table", "data-action": "table", "aria-pressed": "false" });
  const show = (open) => {
    button.setAttribute("aria-pressed", String(open));
    drawing.hidden = open;
    place.replaceChildren(...(open ? [makeTable()] : []));
  };
  button.addEventListener("click", () => show(button.getAttribute("aria-pressed") !== "true"));
  return { button, refresh: () => show(button.getAttribute("aria-pressed") === "true") };
}

/** @param {string} caption @param {string[]} columns @param {(string|number)[][]} rows @param {number} total rows there are */
export function table(caption, columns, rows, total = rows.length) {
  const more = total > rows.length ? `${caption}: first ${rows.length} of ${total} rows` : caption;
  const box = h(
    "div",
    { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": more },
    h(
      "table",
      {},
      h("caption", { text: more }),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((c) => h("th", { scope: "col", text: c })),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            row.map((cell, i) => (i ? h("td", { text: cell }) : h("th", { scope: "row", text: cell }))),
          ),
        ),
      ),
    ),
    copyButtons(() => box.querySelector("table")),
  );
  return box;
}
