// The capability table: features that this plan uses, by target, in words and signs.

import { h } from "../common/dom.js";

const WORDS = { yes: ["✓", "yes"], note: ["≈", "nearly"], no: ["▲", "refused"] };

/** Draw anew only what differs. @param {HTMLElement} place @param {any} view */
export function drawTable(place, view) {
  const text = JSON.stringify([view.target, view.capabilities]);
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  const names = view.targets.map((item) => item.name);
  const open = place.querySelector("details")?.open ?? false;
  const focused = place.contains(document.activeElement) && document.activeElement.tagName === "SUMMARY";
  place.replaceChildren(
    h(
      "details",
      { open },
      h("summary", { text: "What every target makes of this plan" }),
      tableBox(view, names),
    ),
  );
  if (focused) place.querySelector("summary").focus();
}

const tableBox = (view, names) =>
    h(
      "div",
      { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": "What every target makes of this plan" },
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
            names.map((name) => h("th", { scope: "col", text: name, class: name === view.target ? "chosen" : null })),
            h("th", { scope: "col", class: "ex-how", text: `How ${view.target} does it` }),
          ),
        ),
        h(
          "tbody",
          {},
          view.capabilities.map((row) => tableRow(row, names, view.target)),
        ),
      ),
    );

function tableRow({ feature, where, answers }, names, target) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, feature, h("small", { text: where })),
    names.map((name) => {
      const [sign, word] = WORDS[answers[name].answer];
      return h(
        "td",
        { class: `${answers[name].answer}${name === target ? " chosen" : ""}`, "data-answer": `${name}:${answers[name].answer}` },
        h("span", { "aria-hidden": "true", text: `${sign} ` }),
        word,
      );
    }),
    h("td", { class: "ex-how", text: answers[target].how }),
  );
}
