// A row for each rank: state in a word and a sign, what it does, its round, its last step.

import { h, keyed, set } from "../common/dom.js";
import { bytes, DASH, seconds, secondsParts } from "../common/format.js";
import { courseShare } from "./words.js";

const SIGNS = { starting: "○", computing: "●", waiting: "◐", done: "✓", failed: "▲" };

/** A table in a box that scrolls where there are many. */
export function makeRanks() {
  const body = h("tbody", {});
  const head = ["rank", "state", "doing", "round", "predicted time", "last step", "memory"].map((text) => h("th", { scope: "col", text }));
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
  h(
    "tr",
    {},
    h("th", { scope: "row" }),
    h("td", {}, h("i", { "aria-hidden": "true" }), h("span", {})),
    h("td", {}),
    h("td", {}),
    h("td", { class: "run-course" }, h("span", { class: "run-meter", "aria-hidden": "true" }, h("i", {})), h("span", {})),
    h("td", {}),
    h("td", {}),
  );

function drawRow(element, row) {
  const [name, how, what, where, course, took, memory] = element.children;
  set(element, { "data-rank": row.rank, "data-state": row.state });
  set(name, { text: `rank ${row.rank}` });
  set(how.firstChild, { text: SIGNS[row.state] ?? "", class: `run-sign run-is-${row.state}` });
  set(how.lastChild, { text: row.state, class: `run-is-${row.state}` });
  set(what, { text: row.doing || DASH });
  set(where, { text: row.round || DASH });
  const share = courseShare(row);
  set(course.firstChild.firstChild, { style: { width: `${((share ?? 0) * 100).toFixed(1)}%` } });
  set(course.lastChild, { text: share == null ? DASH : `${secondsParts(row.at_s, row.of_s).text} of ${seconds(row.of_s)}` });
  set(took, { text: row.step_s == null ? DASH : seconds(row.step_s) });
  set(memory, { text: row.memory_bytes == null ? DASH : bytes(row.memory_bytes) });
}
