// The frontier as a table: a row for each strategy, a column for each axis, a button that loads it.

import { h, keyed, set } from "../common/dom.js";
import { frontierColumns, frontierText } from "./words.js";

/** @param {(id: string) => void} load puts a strategy on the board, by the id of its point */
export function makeFrontier(load) {
  return h(
    "details",
    { class: "l-frontier", open: true, on: { click: (event) => pointed(event, load) } },
    h("summary", { tabindex: "0" }, h("b", { text: "Frontier" }), h("span", { class: "sx-sub" })),
    h(
      "div",
      { class: "l-scroll" },
      h(
        "table",
        { class: "l-table" },
        h("thead", {}, h("tr", {})),
        h("tbody", {}),
      ),
    ),
  );
}

function pointed(event, load) {
  const id = event.target.closest("[data-point]")?.dataset.point;
  if (id) load(id);
}

/** @param {HTMLElement} details @param {any} view of the leaderboard */
export function drawFrontier(details, view) {
  const points = view.points ?? [];
  const axes = view.axes ?? [];
  const columns = frontierColumns(axes);
  details.hidden = !points.length;
  set(details.querySelector(".sx-sub"), {
    text: `${points.length} ${points.length === 1 ? "strategy" : "strategies"}: ${frontierText(view.points_omitted, axes)}`,
  });
  drawFrontierHead(details.querySelector("thead tr"), columns);
  keyed(
    details.querySelector("tbody"),
    points,
    (point) => point.id,
    () => h("tr", {}),
    (tr, point) => drawPoint(tr, point, columns),
  );
}

const WORDS = ["strategy", "found by"];

function drawFrontierHead(row, columns) {
  keyed(
    row,
    [...columns.map(({ key, head }) => ({ key, head })), ...WORDS.map((word) => ({ key: word, head: word })), { key: "load" }],
    (cell) => cell.key,
    ({ key }) => {
      if (key === "load") return h("td", {}, h("span", { class: "sx-live", text: "load" }));
      return h("th", { scope: "col", class: WORDS.includes(key) ? null : "n" });
    },
    (cell, { key, head }) => {
      if (key !== "load") set(cell, { text: head });
    },
  );
}

/** One strategy of the frontier: its numbers, its words, who found it, a button. */
function drawPoint(tr, point, columns) {
  const numbers = columns.map(({ key, head, text }) => {
    const own = text(point);
    return { key, head, text: key === "memory" && point.may_fit ? `${own}, may fit` : own };
  });
  const said = numbers.map(({ key, head, text }) => (key === "time" || key === "memory" ? text : `${head} ${text}`)).join(", ");
  keyed(
    tr,
    [...numbers, { key: "strategy", text: point.label }, { key: "found by", text: point.searchers.join(", ") }, { key: "load" }],
    (cell) => cell.key,
    ({ key }) => {
      if (key === "load") return h("td", { class: "n" }, h("button", { class: "sx-btn l-load", text: "Load", "data-point": point.id }));
      return h("td", { class: key === "strategy" ? "l-label" : key === "found by" ? null : "n" });
    },
    (cell, { key, text }) => {
      if (key === "load") set(cell.firstChild, { "aria-label": `Load ${point.label}, ${said}` });
      else set(cell, { text, title: key === "strategy" ? point.detail : null });
    },
  );
}
