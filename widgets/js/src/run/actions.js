// What every action of every stage took, predicted and measured, with its error in the layer graph's colours.

import { h, keyed, set } from "../common/dom.js";
import { seconds } from "../common/format.js";
import { actionShares, errorColours, errorText } from "./words.js";

const WAITS = "transfers"; // of a step, not of one action: on no scale with the others

/** A table in a box that scrolls where there are many stages; hidden without actions. */
export function makeActions() {
  const body = h("tbody", {});
  const head = ["stage", "action", "timed", "", "predicted", "measured", "error", "by the profile", "error"].map((text, i) =>
    text ? h("th", { scope: "col", class: i > 6 ? "run-by-profile" : "", text }) : h("th", { class: "run-bar", "aria-hidden": "true" }),
  );
  const note = h(
    "p",
    { class: "sx-sub" },
    "Seconds of one action, median over ranks and rounds; predicted from the parts that the run timed. Colours are those of the layer graph's Error.",
    h("span", { class: "run-by-profile", text: " By the profile: what this machine's profile says of it, with its error by the clock that profiles are judged by." }),
  );
  const table = h("table", {}, h("thead", {}, h("tr", {}, head)), body);
  const box = h("div", { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": "Actions by stage" }, table);
  const element = h("div", { class: "run-actions" }, h("h3", { text: "Actions by stage" }), box, note);
  return {
    element,
    draw(rows) {
      element.hidden = !rows.length;
      element.dataset.profile = String(rows.some((row) => row.profile_s != null));
      const acts = rows.filter((row) => row.action !== WAITS);
      const [shares, colours] = [actionShares(acts), errorColours(acts)];
      keyed(
        body,
        rows.map((row, i) => ({ ...row, first: !i || rows[i - 1].stage !== row.stage })),
        (row) => `${row.stage} ${row.action}`,
        makeRow,
        (line, row) => drawRow(line, row, shares.get(`${row.stage} ${row.action}`), colours),
      );
    },
  };
}

const makeRow = () =>
  h(
    "tr",
    {},
    h("th", { scope: "row" }),
    h("td", {}),
    h("td", {}),
    h("td", { class: "run-bar", "aria-hidden": "true" }, h("i", { class: "run-predicted" }), h("i", { class: "run-measured" })),
    h("td", {}),
    h("td", {}),
    h("td", { class: "run-tint" }),
    h("td", { class: "run-by-profile" }),
    h("td", { class: "run-tint run-by-profile" }),
  );

function drawRow(line, row, shares, colours) {
  const [stage, name, count, bars, predicted, measured, error, profile, off] = line.children;
  set(line, { "data-stage": row.stage, "data-action-of": row.action, class: row.first ? "run-first" : "" });
  set(stage, { text: row.first ? row.stage : "", "aria-label": row.stage });
  set(name, { text: row.name });
  set(count, { text: `× ${row.count}` });
  bars.firstChild.hidden = bars.lastChild.hidden = !shares;
  if (shares) {
    set(bars.firstChild, { style: { width: `${(shares[0] * 100).toFixed(2)}%` } });
    set(bars.lastChild, { style: { width: `${(shares[1] * 100).toFixed(2)}%` } });
  }
  set(predicted, { text: seconds(row.predicted_s) });
  set(measured, { text: seconds(row.measured_s) });
  set(profile, { text: seconds(row.profile_s) });
  for (const [cell, value] of [
    [error, row.error],
    [off, row.profile_error],
  ]) {
    const paint = colours(value);
    set(cell, { text: errorText(value), style: { background: paint?.fill ?? null, color: paint?.ink ?? null } });
  }
}
