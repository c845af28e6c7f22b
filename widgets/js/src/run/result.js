// Predicted against measured: by part with bars, by stage, what was checked, what was validated and what not.

import { bold, h, keyed, set, triangle } from "../common/dom.js";
import { barShares, engineText, errorText, valueText } from "./words.js";

/** The block of the last run that ended. */
export function makeResult() {
  const old = h("p", { class: "run-old" });
  const verdict = h("p", { class: "run-verdict" });
  const about = h("p", { class: "run-about sx-sub" });
  const body = h("tbody", {});
  const head = [
    h("th", { scope: "col", text: "part of a step" }),
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
  const engines = h("p", { class: "run-engines" });
  const checks = h("ul", { class: "run-checks" });
  const more = h("p", { class: "run-more sx-sub" });
  const yes = makeList("Validated", "✓", "ok");
  const no = makeList("Not validated", "–", "");
  const element = h(
    "div",
    { class: "run-result" },
    old,
    verdict,
    about,
    h("div", { class: "run-columns" }, h("div", { class: "run-left" }, table, stages, engines, more), h("div", { class: "run-right" }, checks, yes.element, no.element)),
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
