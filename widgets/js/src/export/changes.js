// What changed since the baseline, in the target's own words, and the changed lines to copy.

import { h } from "../common/dom.js";
import { plural } from "../common/format.js";

/** @param {HTMLElement} place @param {any} view @param {(file: any) => void} hand copies the changed part of a file */
export function drawChanges(place, view, hand) {
  const found = view.changes;
  place.hidden = !found;
  const text = JSON.stringify([view.target, found]);
  if (!found || place.dataset.text === text) return;
  place.dataset.text = text;
  const label = `Changed since ${found.against}`;
  if (found.problem || !found.rows.length) {
    const said = found.problem ? `Cannot be said in the words of ${view.target}: ${found.problem}` : "Nothing that these files contain.";
    place.replaceChildren(h("h3", { text: label }), h("p", { class: "sx-sub", text: said }));
    return;
  }
  place.replaceChildren(
    h("h3", { text: label }),
    h("div", { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": label }, changeTable(found)),
    ...(found.more ? [h("p", { class: "sx-sub", text: `and ${plural(found.more, "difference")} more` })] : []),
    h("div", { class: "ex-buttons" }, found.files.filter((file) => file.text).map((file) => copyButton(file, hand))),
  );
}

function copyButton(file, hand) {
  const label = `Copy the changed lines of ${file.name}`;
  return h("button", { class: "sx-btn", "data-action": "copy-changes", "data-of": file.name, text: label, on: { click: () => hand(file) } });
}

function changeTable({ rows }) {
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Setting", "Then", "Now"].map((word) => h("th", { scope: "col", text: word })),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map(({ key, before, after }) =>
        h("tr", { "data-key": key }, h("th", { scope: "row" }, h("code", { text: key })), cell(before), cell(after)),
      ),
    ),
  );
}

const cell = (value) => (value == null ? h("td", { class: "ex-unset", text: "not set" }) : h("td", {}, h("code", { text: value })));
