// "I measured ...": a step time that somebody saw, typed in or dropped as a trainer's log, and what it changed.

import { bold, h, set } from "../common/dom.js";
import { typeset } from "../common/format.js";

/** Letters of a log that are sent: its head (memory, sizes) and its end (warm steps). */
const HEAD = 200_000;
const TAIL = 2_000_000;

/** The part of a long log that says what a step takes. @param {string} text */
export function excerpt(text) {
  if (text.length <= HEAD + TAIL) return text;
  return `${text.slice(0, HEAD)}\n${text.slice(-TAIL)}`;
}

export class Own {
  /** @param {(fields: Record<string, string>) => void} send @param {(action: string) => void} act */
  constructor(send, act) {
    this.send = send;
    const field = (name, label, hint) =>
      h("label", {}, h("span", { text: label }), h("input", { name, placeholder: hint, autocomplete: "off", spellcheck: "false", class: "t-input" }));
    this.file = h("input", { type: "file", class: "t-file", "aria-label": "Log of a trainer", on: { change: () => this.read(this.file.files?.[0]) } });
    this.form = h(
      "form",
      { class: "t-own-form", "aria-label": "A step that you measured" },
      field("time", "Step time", "2.31 s"),
      field("memory", "Peak memory, if known", "41.5 GiB"),
      h("button", { class: "sx-btn", type: "submit", text: "Calibrate" }),
      h("label", { class: "t-drop" }, h("span", { text: "or a trainer’s log:" }), this.file),
    );
    this.problem = h("p", { class: "t-own-error", role: "alert" });
    this.said = h("div", { class: "t-own-said", role: "status", "aria-live": "polite" });
    this.undo = h("button", { class: "sx-btn", text: "Undo", title: "Back to the profile as it was", on: { click: () => act("undo") } });
    this.element = h(
      "details",
      { class: "t-own" },
      h("summary", {}, h("span", { text: "I measured …" })),
      this.form,
      this.problem,
      this.said,
      this.undo,
    );
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = new FormData(this.form);
      this.send({ time: String(values.get("time") ?? ""), memory: String(values.get("memory") ?? ""), log: "" });
    });
    for (const [name, on] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
      this.element.addEventListener(name, (event) => {
        if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
        event.preventDefault();
        this.element.classList.toggle("over", on);
        if (name === "drop") this.read(event.dataTransfer.files?.[0]);
      });
    }
  }

  /** Send what a file says. @param {File|undefined} file */
  async read(file) {
    if (!file) return;
    const memory = this.form.elements.namedItem("memory").value;
    this.send({ time: "", memory, log: excerpt(await file.text()) });
    this.file.value = "";
  }

  /** @param {any} own `view.own`; null where nothing can be measured @param {boolean} shut */
  draw(own, shut) {
    this.element.hidden = own == null;
    if (own == null) return;
    this.form.inert = shut;
    this.undo.hidden = !own.text;
    this.undo.disabled = shut;
    set(this.problem, { text: own.error ?? "" });
    this.problem.hidden = !own.error;
    this.said.hidden = !own.text;
    if (own.error || own.text) this.element.open = true;
    const look = JSON.stringify(own);
    if (this.said.dataset.look === look) return;
    this.said.dataset.look = look;
    this.said.replaceChildren(
      ...(own.text
        ? [
            h("p", {}, ...bold(typeset(own.text)), " Band ", h("b", { text: typeset(own.band) }), "."),
            h("ul", {}, ...own.lines.map((line) => h("li", { text: typeset(line) }))),
            h("p", { text: typeset(own.next) }),
            h("p", { class: "t-own-file", text: `Saved as ${own.file}; plans and exports name it.` }),
          ]
        : []),
    );
  }
}
