// A row for each rank: state in a word and a sign, what it does, its round, its last step.

import { h, keyed, set } from "../common/dom.js";
import { DASH, seconds } from "../common/format.js";

const SIGNS = { starting: "○", computing: "●", waiting: "◐", done: "✓", failed: "▲" };

/** A table in a box that scrolls where there are many. */
export function makeRanks() {
  const body = h("tbody", {});
  const head = ["rank", "state", "doing", "round", "last step"].map((text) => h("th", { scope: "col", text }));
  const table = h("table", {}, h("thead", {}, h("tr", {}, head)), body);
  const element = h("div", { class: "sx-tablebox run-ranks", tabindex: "0", role: "region", "aria-label": "Ranks" }, table);
  return {
    element,
    draw(rows) {
      keyed(body, rows, (row) => String(row.rank), makeRow, drawRow);
    },
  };
}

const makeRow = () =>
  h("tr", {}, h("th", { scope: "row" }), h("td", {}, h("i", { "aria-hidden": "true" }), h("span", {})), h("td", {}), h("td", {}), h("td", {}));

function drawRow(element, { rank, state, doing, round, step_s }) {
  const [name, how, what, where, took] = element.children;
  set(element, { "data-rank": rank, "data-state": state });
  set(name, { text: `rank ${rank}` });
  set(how.firstChild, { text: SIGNS[state] ?? "", class: `run-sign run-is-${state}` });
  set(how.lastChild, { text: state, class: `run-is-${state}` });
  set(what, { text: doing || DASH });
  set(where, { text: round || DASH });
  set(took, { text: step_s == null ? DASH : seconds(step_s) });
}
