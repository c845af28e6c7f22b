// The card of a layer: how it may be split on its stage, and what is kept of it; each choice with what it comes to.

import { h, keyed, set } from "../common/dom.js";
import { bytes, percent, seconds, signed } from "../common/format.js";

/** What a row of a card says. @param {any} row @param {any} card @returns {{facts: string, step: string, change: string, peak: string, over: string}} */
export function rowTexts(row, card) {
  const now = card.now[row.kind];
  const facts = row.problem ?? factsOf(row);
  if (row.problem) return { facts, step: "", change: "", peak: "", over: "" };
  const found = row.outcome;
  if (!found) return { facts, step: card.waits ? "…" : "", change: card.waits ? "" : "known once chosen", peak: "", over: "" };
  const same = found.step_s === now.step_s && found.peak_bytes === now.peak_bytes;
  const step = found.step_s - now.step_s;
  const peak = found.peak_bytes - now.peak_bytes;
  return {
    facts,
    step: seconds(found.step_s),
    change: same ? "" : changeText(step, now.step_s),
    peak: same || Math.abs(peak) < now.peak_bytes * 1e-6 ? bytes(found.peak_bytes) : signed(bytes(peak, Math.max(Math.abs(peak), 2 ** 20))),
    over: found.over_bytes > 0 ? `over by ${bytes(found.over_bytes)}` : "",
  };
}

/** "+2.1 %", or of little the seconds. */
function changeText(step, of) {
  const share = step / of;
  return Math.abs(share) < 5e-5 ? "no slower" : signed(percent(share, Math.abs(share) < 0.0995 ? 2 : 1));
}

/** The value of a scope as Python has it. @param {string} value */
const asked = (value) => (value === "true" || value === "false" ? value === "true" : value);

function factsOf(row) {
  if (row.kind !== "layout" || row.work_s == null) return row.some ? "some of them" : "";
  return [
    `${seconds(row.work_s)} of work`,
    row.collectives_s > 0 ? `${seconds(row.collectives_s)} of collectives` : "no collectives",
    row.state_bytes > 0 ? `${bytes(row.state_bytes)} of states` : "no weights",
    row.saved_bytes > 0 ? `${bytes(row.saved_bytes)} kept` : "nothing kept",
  ].join(", ");
}

/** What a screen reader says of a row. */
export function rowName(row, card) {
  const { facts, step, change, peak, over } = rowTexts(row, card);
  const figures = step && step !== "…" ? [`a step takes ${step}`, change, `fullest device ${peak}`, over] : [change];
  return [row.words, row.problem ? `not possible: ${facts}` : facts, ...figures].filter(Boolean).join(", ");
}

export class Card {
  /** @param {{choose: (row: any) => void, scope: (change: any) => void, close: () => void}} ask */
  constructor(ask) {
    this.ask = ask;
    this.title = h("b", {});
    this.where = h("span", { class: "sx-sub" });
    this.layouts = this.section("Split", "layout", "radiogroup");
    this.memory = this.section("Kept for the backward", "memory", "group");
    this.element = h(
      "div",
      { class: "g-card", role: "region", hidden: true },
      h(
        "div",
        { class: "g-card-head" },
        this.title,
        this.where,
        h("span", { class: "sx-space" }),
        h("button", { class: "sx-btn", text: "Close", "data-action": "close-card", on: { click: () => ask.close() } }),
      ),
      this.layouts.element,
      this.memory.element,
    );
  }

  section(name, kind, role) {
    const heading = h("h3", { text: name });
    const seg = h("span", { class: "sx-seg", role: "group", "aria-label": `${name}: for` });
    const columns = h(
      "div",
      { class: "g-row g-columns", "aria-hidden": "true" },
      h("span", {}),
      h("span", {}),
      h("span", { text: "step" }),
      h("span", { text: "fullest device" }),
    );
    const rows = h("div", { role, "aria-label": name });
    const note = h("p", { class: "sx-sub" });
    return { element: h("div", { class: "g-part", "data-card": kind }, h("div", { class: "g-card-line" }, heading, seg), note, columns, rows), seg, rows, note, columns };
  }

  /** @param {any} card `{}` closes it @param {boolean} shut nothing can be pressed */
  draw(card, shut = false) {
    const open = Boolean(card?.layer);
    this.card = card;
    this.element.hidden = !open;
    if (!open) return;
    set(this.element, { "aria-label": `Choices for ${card.title}` });
    set(this.title, { text: card.title });
    set(this.where, { text: card.where });
    const alike = [["false", "This layer"], ["true", `All ${card.alike} alike`]];
    this.part(this.layouts, card.layouts, "all_alike", card.alike > 1 ? alike : [], card.no_layouts, shut);
    this.layouts.element.hidden = card.whole;
    this.part(this.memory, card.memory, "kept_for", card.scopes, null, shut);
    this.memory.element.hidden = !card.memory.length;
  }

  /** Draw one part. @param {string} scope what of the card says what it is for @param {string[][]} scopes its values, each with words */
  part(part, rows, scope, scopes, note, shut) {
    set(part.note, { text: note ?? "", hidden: !note });
    part.columns.hidden = part.rows.hidden = !rows.length;
    part.seg.hidden = !scopes.length || !rows.length;
    keyed(
      part.seg,
      scopes,
      ([value]) => value,
      ([value]) => h("button", { class: "sx-btn", "data-scope": scope, "data-for": value, on: { click: () => this.ask.scope({ [scope]: asked(value) }) } }),
      (button, [value, text]) => set(button, { text, "aria-pressed": String(value === String(this.card[scope])) }),
    );
    keyed(
      part.rows,
      rows,
      (row) => row.key,
      (row) => this.makeRow(row),
      (element, row) => this.drawRow(element, row, rows, shut),
    );
  }

  makeRow(row) {
    const radio = row.kind === "layout" || row.one_of;
    const element = h(
      "button",
      { class: "g-row", role: radio ? "radio" : "checkbox", "data-choice": row.key },
      h("i", { class: radio ? "g-mark" : "g-mark box" }),
      h("span", {}, h("span", { class: "g-words" }), h("small", {})),
      h("span", {}, h("span", {}), h("small", {})),
      h("span", {}, h("span", {}), h("small", { class: "over" })),
    );
    element.addEventListener("click", () => {
      if (element.getAttribute("aria-disabled") !== "true") this.ask.choose(element.row);
    });
    return element;
  }

  drawRow(element, row, rows, shut) {
    element.row = row;
    const texts = rowTexts(row, this.card);
    const [, words, step, peak] = element.children;
    set(words.firstChild, { text: row.words });
    set(words.lastChild, { text: texts.facts });
    set(step.firstChild, { text: texts.step });
    set(step.lastChild, { text: texts.change });
    set(peak.firstChild, { text: texts.peak });
    set(peak.lastChild, { text: texts.over });
    const first = (rows.find((item) => item.present) ?? rows[0]).key;
    set(element, {
      "aria-checked": row.some ? "mixed" : String(Boolean(row.present)),
      "aria-disabled": row.problem || shut ? "true" : null,
      "aria-label": rowName(row, this.card),
      tabindex: row.key === first ? "0" : "-1",
    });
  }

  /** The row that Enter on a layer goes to. */
  focus() {
    const row = this.element.querySelector('.g-row[tabindex="0"]') ?? this.element.querySelector("button");
    row?.focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "nearest" });
  }

  /** Arrow keys among the rows; says whether the key was one. @param {KeyboardEvent} event */
  key(event) {
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const rows = [...this.element.querySelectorAll(".g-part:not([hidden]) button.g-row")];
    const at = rows.indexOf(event.target.closest(".g-row"));
    if (!by || at < 0) return false;
    rows[(at + by + rows.length) % rows.length].focus();
    return true;
  }
}
