// Leaderboard: a row per searcher, yours among them, and the points of the frontier. A row loads its strategy.

import { copyButtons } from "../common/copying.js";
import { h, keyed, set, triangle } from "../common/dom.js";
import { seconds } from "../common/format.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { watchChart } from "./chart.js";
import { drawFrontier, makeFrontier } from "./frontier.js";
import { cells, gapShare, heads, nextRow, rowName } from "./words.js";

const COLUMNS = ["searcher", "space", "label", "value", "step", "change", "peak", "gap", "answer"];
const NUMBERS = new Set(["value", "step", "change", "peak", "gap"]);

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "leaderboard", "Search results");
  const load = h("button", { class: "sx-btn", text: "Load selected", "data-action": "load-selected", on: { click: loadSelected } });
  const undo = h("button", {
    class: "sx-btn",
    text: "Undo",
    "data-action": "undo",
    on: { click: () => sync.send("action", { action: "undo" }) },
  });
  const copying = copyButtons(() => grid);
  const head = h(
    "div",
    { class: "sx-head" },
    h("h2", { text: "Leaderboard" }),
    h("span", { class: "sx-sub" }),
    h("span", { class: "sx-space" }),
    load,
  );
  const said = h("div", { class: "l-said", role: "status" }, h("span", {}), undo);
  const empty = h("p", { class: "l-empty" });
  const grid = h(
    "table",
    {
      class: "l-table",
      role: "grid",
      "aria-label": "Leaderboard: Enter or a click loads a strategy",
      on: { click: clicked, keydown: keyed_, focusin: focused },
    },
    h("thead", {}, h("tr", {})),
    h("tbody", {}),
  );
  const frontier = makeFrontier((id) => sync.send("load_point", { point: id }));
  root.append(head, said, h("div", { class: "l-scroll" }, grid), copying, empty, frontier);
  const sync = new Sync(model, ["view", "selected"], draw, true);

  const rows = () => model.get("view")?.rows ?? [];
  const rowOf = (id) => rows().find((row) => row.id === id);

  function loadRow(id) {
    const row = rowOf(id);
    if (!row) return;
    select(id);
    if (row.loadable) sync.send("load", { row: id });
  }
  function loadSelected() {
    loadRow(model.get("selected"));
  }
  function select(id) {
    if (model.get("selected") !== id) sync.set("selected", id);
  }
  function clicked(event) {
    const id = event.target.closest("tbody tr")?.dataset.row;
    if (id) loadRow(id);
  }
  function focused(event) {
    const id = event.target.closest("tbody tr")?.dataset.row;
    if (id) select(id);
  }
  function keyed_(event) {
    const own = event.target.closest("tbody tr");
    if (!own || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      loadRow(own.dataset.row);
      return;
    }
    const all = [...grid.tBodies[0].rows];
    const to = nextRow(event.key, all.indexOf(own), all.length);
    if (to == null) return;
    event.preventDefault();
    all[to].focus();
  }

  function draw() {
    const view = model.get("view") ?? {};
    const list = view.rows ?? [];
    root.dataset.state = view.state ?? "empty";
    root.setAttribute("aria-busy", String(sync.pending));
    set(head.querySelector(".sx-sub"), { text: view.text ?? "" });
    const chosen = list.find((row) => row.id === model.get("selected"));
    load.hidden = copying.hidden = !list.some((row) => row.loadable);
    load.disabled = !chosen?.loadable || chosen.on_board;
    const onBoard = chosen?.on_board || chosen?.id === "yours";
    const off = onBoard ? "It is on the board" : chosen ? "This row has no strategy to load" : "Choose a row with the arrow keys";
    set(load, { title: load.disabled ? off : `Load ${chosen.searcher}: ${chosen.label}` });
    said.hidden = !view.said;
    set(said.firstChild, { text: view.said ?? "" });
    empty.hidden = root.dataset.state !== "empty";
    empty.replaceChildren(...(empty.hidden ? [] : emptyWords(!list.length)));
    grid.hidden = !list.length;
    drawHead(grid.tHead.rows[0], heads(list, view.objective), view);
    const focusable = chosen ? chosen.id : list[0]?.id;
    keyed(
      grid.tBodies[0],
      list,
      (row) => row.id,
      makeRow,
      (element, row) => drawRow(element, row, list, view, { selected: row.id === chosen?.id, focusable: row.id === focusable }),
    );
    drawFrontier(frontier, view);
  }
  draw();
  const stopTelling = tellOfWidth(root, (width) => sync.set("chart_px", width));
  const stopWatching = watchChart(model, () => chartPlace(root), () => sync.send("chart_again"));
  return () => {
    stopTelling();
    stopWatching();
    sync.close();
    close();
    root.remove();
  };
}

/** The place of the chart of the same workbench. */
function chartPlace(root) {
  let place = null;
  for (let parent = root.parentElement; parent && !place; parent = parent.parentElement) place = parent.querySelector(".xp-chart");
  return place;
}

/** The chart beside this widget does not follow the width of its place by itself: tell Python. */
function tellOfWidth(root, tell) {
  let told = 0;
  let timer = 0;
  let place = null;
  const look = () => {
    place ??= chartPlace(root);
    const width = Math.round(place?.getBoundingClientRect().width ?? 0);
    if (width && width !== told) tell((told = width));
  };
  const observer = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(look, 120);
  });
  observer.observe(root);
  return () => {
    clearTimeout(timer);
    observer.disconnect();
  };
}

function emptyWords(nothing) {
  if (nothing) return ["Load a model and a cluster first."];
  return [
    h("b", { text: "No search yet." }),
    " Search asks the searcher chosen above; Compare all asks each of them in turn, and every answer becomes a row beside yours. " +
      "For example: least step time, 20 s, on half of the devices. The board stays yours meanwhile.",
  ];
}

function shown(name, view) {
  return (name !== "value" || view.objective) && (name !== "gap" || view.bound);
}

function drawHead(row, words, view) {
  keyed(
    row,
    COLUMNS.filter((name) => shown(name, view)),
    (name) => name,
    (name) => h("th", { scope: "col", role: "columnheader", class: `l-${name}${NUMBERS.has(name) ? " n" : ""}` }),
    (th, name) => {
      set(th, {
        text: words[name],
        title: name === "gap" ? `How far above the lower bound of any strategy: ${seconds(view.bound.value_s)} (${view.bound.name})` : null,
      });
    },
  );
}

function makeRow() {
  return h("tr", { tabindex: "-1", role: "row" });
}

function drawRow(tr, row, rows, view, { selected, focusable }) {
  const text = cells(row, rows);
  set(tr, {
    "data-row": row.id,
    "aria-selected": String(selected),
    "aria-label": rowName(row),
    tabindex: focusable ? "0" : "-1",
    class: [row.id === "yours" ? "yours" : "", row.loadable ? "loadable" : "", row.level ?? ""].filter(Boolean).join(" "),
    title: [row.detail, row.note].filter(Boolean).join("; ") || null,
  });
  keyed(
    tr,
    COLUMNS.filter((name) => shown(name, view)),
    (name) => name,
    (name) => makeCell(name),
    (cell, name) => drawCell(cell, name, text[name], row, rows),
  );
}

function makeCell(name) {
  const cls = `l-${name}${NUMBERS.has(name) ? " n" : ""}`;
  if (name === "searcher") return h("th", { scope: "row", role: "rowheader", class: cls });
  if (name === "label") return h("td", { role: "gridcell", class: cls }, h("span", {}), h("em", {}));
  if (name === "gap") return h("td", { role: "gridcell", class: cls }, h("i", { "aria-hidden": "true" }, h("b", {})), h("span", {}));
  if (name === "answer") return h("td", { role: "gridcell", class: cls }, triangle(), h("span", {}));
  return h("td", { role: "gridcell", class: cls });
}

function drawCell(cell, name, text, row, rows) {
  if (name === "label") {
    set(cell.firstChild, { text });
    set(cell.lastChild, { text: tag(row) });
  } else if (name === "gap") {
    const [bar, number] = cell.children;
    bar.hidden = !text;
    set(bar.firstChild, { style: { width: `${gapShare(row, rows)}%` } });
    set(number, { text });
  } else if (name === "answer") {
    cell.firstChild.toggleAttribute("hidden", row.level !== "bad");
    set(cell.lastChild, { text });
  } else set(cell, { text });
}

/** Small words beside a strategy. */
function tag(row) {
  if (row.on_board && row.id !== "yours") return "on the board";
  return row.note ?? "";
}

export default { render: linked(render) };
