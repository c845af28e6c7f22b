// Predicted against measured: by part with bars, by stage, what was checked, what was validated and what not.

import { bold, h, keyed, set, triangle } from "../common/dom.js";
import { seconds } from "../common/format.js";
import { makeActions } from "./actions.js";
import { barShares, engineText, errorText, valueText } from "./words.js";

/** The block of the last run that ended. @param {(action: string) => void} act */
export function makeResult(act) {
  const old = h("p", { class: "run-old" });
  const verdict = h("p", { class: "run-verdict" });
  const about = h("p", { class: "run-about sx-sub" });
  const body = h("tbody", {});
  const part = h("th", { scope: "col" });
  const head = [
    part,
    h("th", { class: "run-bar", "aria-hidden": "true" }),
    h("th", { scope: "col", text: "predicted" }),
    h("th", { scope: "col", text: "measured" }),
    h("th", { scope: "col", text: "error" }),
  ];
  const table = h(
    "table",
    { class: "run-parts" },
    h("caption", { text: "Error of the prediction: predicted over measured, minus 1" }),
    h("thead", {}, h("tr", {}, head)),
    body,
  );
  const stages = h("p", { class: "run-stages" });
  const layers = makeLayers(act);
  const actions = makeActions();
  const engines = h("p", { class: "run-engines" });
  const checks = h("ul", { class: "run-checks" });
  const more = h("p", { class: "run-more sx-sub" });
  const less = makeShortened();
  const yes = makeList("Validated", "✓", "ok");
  const no = makeList("Not validated", "–", "");
  const element = h(
    "div",
    { class: "run-result" },
    old,
    verdict,
    about,
    h("div", { class: "run-columns" }, h("div", { class: "run-left" }, table, stages, layers.element, engines, more), h("div", { class: "run-right" }, checks, less.element, yes.element, no.element)),
    actions.element,
  );
  return {
    element,
    draw(result, state) {
      element.hidden = !result;
      if (!result) return;
      const stale = Boolean(result.old) || state === "running";
      element.dataset.old = String(stale);
      old.hidden = !stale;
      set(old, { text: result.old ?? "The result of the run before stays until this one ends." });
      drawVerdict(verdict, result.verdict);
      set(about, { text: result.about });
      set(part, { text: result.part ?? "part of a step" });
      const shares = barShares(result.rows);
      keyed(
        body,
        result.rows,
        (row) => row.name,
        makeRow,
        (line, row) => drawRow(line, row, shares.get(row.name)),
      );
      set(stages, { text: stageText(result.stages) });
      stages.hidden = !result.stages.length;
      actions.draw(result.actions ?? []);
      layers.draw(result.layers ?? [], Boolean(result.errors));
      less.draw(result.shortened ?? []);
      set(engines, { text: engineText(result.engines ?? []) });
      engines.hidden = !engines.textContent;
      keyed(checks, result.checks, (item) => item.text, () => h("li", {}), drawCheck);
      set(more, { text: result.more });
      more.hidden = !result.more;
      yes.draw(result.validated);
      no.draw(result.not_validated);
    },
  };
}

function drawVerdict(place, { level, text }) {
  if (place.dataset.text === text) return;
  Object.assign(place.dataset, { text, level });
  place.replaceChildren(...(level === "ok" ? [] : [triangle()]), ...bold(text));
}

const makeRow = () =>
  h("tr", {}, h("th", { scope: "row" }), h("td", { class: "run-bar", "aria-hidden": "true" }, h("i", { class: "run-predicted" }), h("i", { class: "run-measured" })), h("td", {}), h("td", {}), h("td", { class: "run-err" }, triangle(), h("b", {})));

function drawRow(line, row, shares) {
  const [name, bars, predicted, measured, error] = line.children;
  set(line, { class: row.strong ? "strong" : "", "data-part": row.name, "data-level": row.level });
  set(name, { text: row.name });
  bars.firstChild.hidden = bars.lastChild.hidden = !shares;
  if (shares) {
    set(bars.firstChild, { style: { width: `${(shares[0] * 100).toFixed(2)}%` } });
    set(bars.lastChild, { style: { width: `${(shares[1] * 100).toFixed(2)}%` } });
  }
  set(predicted, { text: valueText(row.predicted, row.quantity) });
  set(measured, { text: valueText(row.measured, row.quantity) });
  set(error.lastChild, { text: errorText(row.error) });
}

const stageText = (stages) =>
  `Compute by stage: ${stages.map(({ name, error }) => `${name.includes(",") ? `[${name}]` : name} ${errorText(error)}`).join(", ")}`;

function drawCheck(item, { ok, text }) {
  if (item.dataset.text === text) return;
  item.dataset.text = text;
  set(item, { class: ok === true ? "ok" : ok === false ? "bad" : "" });
  item.replaceChildren(h("span", { class: "run-sign", "aria-hidden": "true", text: ok === true ? "✓" : ok === false ? "▲" : "–" }), h("span", { text }));
}

function makeList(title, sign, kind) {
  const list = h("ul", { class: "run-checks" });
  const element = h("div", {}, h("h3", { text: title }), list);
  return {
    element,
    draw(texts) {
      element.hidden = !texts.length;
      keyed(
        list,
        texts,
        (text) => text,
        (text) => h("li", { class: kind }, h("span", { class: "run-sign", "aria-hidden": "true", text: sign }), h("span", { text })),
        () => {},
      );
    },
  };
}

/** The layers whose seconds are predicted worst, and the way to all of them: the colours of the layer graph. */
function makeLayers(act) {
  const rows = makeRows(["layers furthest off", "predicted", "measured", "error"]);
  const all = h("button", {
    class: "sx-btn",
    "data-action": "show_errors",
    text: "Show errors in layer graph",
    on: {
      click: () => {
        act("show_errors");
        all.closest(".xp-frame")?.querySelector(".sx-graph")?.scrollIntoView({ block: "nearest" });
      },
    },
  });
  const element = h("div", { class: "run-layers" }, rows.element, all);
  return {
    element,
    draw(layers, told) {
      element.hidden = !layers.length && !told;
      all.hidden = !told;
      rows.draw(layers.map((row) => [row.name, seconds(row.predicted_s), seconds(row.measured_s), errorText(row.error)]));
    },
  };
}

/** What runs less of than the plan has. */
function makeShortened() {
  const rows = makeRows(["shortened", "in the plan", "here"]);
  return { element: rows.element, draw: (less) => rows.draw(less.map((row) => [row.what, row.plan, row.here])) };
}

/** A small table; hidden while it has no rows. @param {string[]} head */
function makeRows(head) {
  const body = h("tbody", {});
  const element = h("table", { class: "run-rows" }, h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col", text })))), body);
  return {
    element,
    draw(rows) {
      element.hidden = !rows.length;
      keyed(
        body,
        rows,
        (row) => row[0],
        () => h("tr", {}, head.map((_, i) => h(i ? "td" : "th", i ? {} : { scope: "row" }))),
        (line, row) => row.forEach((text, i) => set(line.children[i], { text })),
      );
    },
  };
}
