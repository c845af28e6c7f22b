// What a target makes of the plan: a row for each feature, and the nearest plan that it can run.

import { h, triangle } from "../common/dom.js";

const WORDS = { exact: ["✓", "exact"], approximate: ["≈", "approximate"], refused: ["▲", "refused"] };

/** That it refuses, and the way out by a button. @param {HTMLElement} place @param {any} view @param {() => void} use */
export function drawRefusals(place, view, use) {
  place.hidden = !view.refusals?.length;
  const text = JSON.stringify([view.target, view.refusals, view.nearest]);
  if (place.hidden || place.dataset.text === text) return;
  place.dataset.text = text;
  const focused = place.contains(document.activeElement);
  const named = view.answers.length ? [] : view.refusals;
  place.replaceChildren(
    h("p", {}, triangle(), h("b", { text: `${view.target} cannot express this plan.` }), " Nothing is left out in silence, so there are no files."),
    ...(named.length ? [h("ul", {}, named.map(refusal))] : []),
    ...(view.nearest ? [nearestRow(view.nearest, use)] : []),
  );
  if (focused) place.querySelector("button")?.focus();
}

const refusal = ({ what, way_out }) => h("li", {}, h("b", { text: what }), way_out ? h("span", { text: `Way out: ${way_out}` }) : null);

function nearestRow({ state, text, changes }, use) {
  if (state !== "found") return h("p", { class: "ex-nearest", text: `${text}${state === "counting" ? "…" : "."}` });
  return h(
    "div",
    { class: "ex-nearest" },
    h("button", { class: "sx-btn suggested", "data-action": "use_nearest", text: "Use the nearest plan it can run", on: { click: use } }),
    h("b", { class: "ex-price", text }),
    h("span", { text: changes.join("; ") }),
  );
}

/** One row a feature. @param {HTMLElement} place @param {any} view */
export function drawAnswers(place, view) {
  place.hidden = !view.answers?.length;
  const text = JSON.stringify([view.target, view.answers]);
  if (place.hidden || place.dataset.text === text) return;
  place.dataset.text = text;
  const priced = view.answers.some((row) => row.price);
  const label = `What ${view.target} makes of this plan`;
  place.replaceChildren(
    h("h3", { text: label }),
    h(
      "div",
      { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": label },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", text: "This plan uses" }),
            h("th", { scope: "col", text: "Answer" }),
            h("th", { scope: "col", class: "ex-how", text: "How, or the way out" }),
            priced ? h("th", { scope: "col", text: "A step would take" }) : null,
          ),
        ),
        h(
          "tbody",
          {},
          view.answers.map((row) => answerRow(row, priced)),
        ),
      ),
    ),
  );
}

function answerRow({ feature, where, answer, how, price }, priced) {
  const [sign, word] = WORDS[answer];
  return h(
    "tr",
    { "data-feature": feature },
    h("th", { scope: "row" }, feature, where ? h("small", { text: where }) : null),
    h("td", { class: `ex-is-${answer}`, "data-answer": answer }, h("span", { "aria-hidden": "true", text: `${sign} ` }), word),
    h("td", { class: "ex-how", text: how }),
    priced ? h("td", { class: "ex-price", text: price ?? "" }) : null,
  );
}
