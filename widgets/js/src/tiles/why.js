// "Why": the reasons beside the figures, each with a re-simulated number and a button that applies the change. Closed it
// is one row with the first of them, so that the board below stands on the first screen.

import { bold, h, keyed, set } from "../common/dom.js";
import { typeset } from "../common/format.js";
import { whyWords } from "./words.js";

/** @param {(action: string) => void} act */
export class Why {
  constructor(act) {
    this.open = false;
    this.toggle = h("button", { class: "sx-btn t-why-toggle", "data-action": "why", on: { click: () => this.flip() } });
    this.status = h("span", { class: "t-why-status", role: "status" });
    this.list = h("ul", {
      class: "t-reasons",
      on: {
        click: (event) => {
          const button = event.target.closest("[data-action]");
          if (button && button.getAttribute("aria-disabled") !== "true") act(button.dataset.action);
        },
      },
    });
    this.element = h(
      "section",
      { class: "t-why", "aria-label": "Why" },
      h("div", { class: "t-why-head" }, h("h2", { class: "t-why-title" }, this.toggle), this.status),
      this.list,
    );
    this.rows = [];
  }

  flip() {
    this.open = !this.open;
    this.draw(this.rows, this.working);
  }

  /** @param {any[]} rows `view.reasons` @param {boolean} working more are being worked out */
  draw(rows, working) {
    [this.rows, this.working] = [rows, working];
    this.element.hidden = !rows.length && !working;
    const words = whyWords(rows, { working, open: this.open });
    set(this.toggle, { text: words.toggle, "aria-expanded": String(this.open) });
    set(this.status, { text: words.status });
    set(this.element, { "data-open": String(this.open) });
    const focused = this.list.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.key : null;
    keyed(this.list, this.open ? rows : rows.slice(0, 1), (row) => row.key, makeRow, drawRow);
    if (focused != null && !this.list.contains(document.activeElement)) this.refocus(focused);
  }

  /** The list was sorted or its row is gone: focus goes to the same reason, else to the first button, else above. */
  refocus(key) {
    const own = this.list.querySelector(`li[data-key="${CSS.escape(key)}"] button`);
    const visible = [own, this.list.querySelector("button:not([hidden])"), this.toggle];
    visible.find((button) => button && button.offsetParent)?.focus();
  }
}

function makeRow() {
  return h(
    "li",
    { class: "t-reason" },
    h("span", { class: "t-topic" }),
    h("span", { class: "t-why-text" }),
    h("button", { class: "sx-btn", text: "Apply" }),
  );
}

function drawRow(element, row) {
  const [topic, text, button] = element.children;
  set(element, { class: `t-reason${row.old ? " old" : ""}${row.worth ? " worth" : ""}`, "data-reason": row.key });
  set(topic, { text: row.topic });
  if (text.dataset.text !== row.text) {
    text.dataset.text = row.text;
    text.replaceChildren(...bold(typeset(row.text)));
  }
  button.hidden = !row.action;
  set(button, {
    "data-action": row.action ?? null,
    "aria-disabled": row.old ? "true" : null,
    "aria-label": row.action ? `Apply: ${row.label}${row.old ? " (of the former plan)" : ""}` : null,
    title: row.label ?? null,
    class: `sx-btn${row.worth && !row.old ? " suggested" : ""}`,
  });
}
