// The search field with its list: a layer by any part of its name.

import { h, keyed, set } from "../common/dom.js";
import { fixed } from "../common/format.js";
import { search } from "./choose.js";

export class SearchBox {
  /** @param {() => string[]} names all layers @param {(name: string) => void} go @param {(text: string) => void} say */
  constructor(names, go, say) {
    this.names = names;
    this.go = go;
    this.say = say;
    this.at = 0;
    this.hits = [];
    const list = `sx-graph-list-${Math.random().toString(36).slice(2)}`;
    this.input = h("input", {
      type: "search",
      class: "g-input",
      placeholder: "Find a layer",
      role: "combobox",
      "aria-label": "Find a layer by any part of its name",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": list,
      autocomplete: "off",
      spellcheck: "false",
      on: {
        input: () => this.typed(),
        keydown: (event) => this.key(event),
        focus: () => this.input.value && this.typed(),
        blur: () => this.close(),
      },
    });
    this.count = h("div", { class: "g-count" });
    this.list = h("div", { role: "listbox", id: list, "aria-label": "Layers found" });
    this.drop = h("div", { class: "g-drop", hidden: true }, this.count, this.list);
    this.drop.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the field keeps the focus
      const hit = event.target.closest("[role=option]");
      if (hit) this.choose(Number(hit.dataset.at));
    });
    this.element = h("span", { class: "g-search" }, this.input, this.drop);
  }

  typed() {
    const { total, hits } = search(this.names(), this.input.value);
    this.hits = hits;
    this.at = 0;
    const asked = Boolean(this.input.value.trim());
    const text = !asked
      ? ""
      : total > hits.length
        ? `${fixed(total)} layers, the first ${hits.length}:`
        : total
          ? `${fixed(total)} ${total === 1 ? "layer" : "layers"}`
          : `No layer has “${this.input.value.trim()}” in its name.`;
    set(this.count, { text });
    this.drop.hidden = !asked;
    set(this.input, { "aria-expanded": String(asked && total > 0) });
    if (asked) this.say(total ? `${fixed(total)} found` : text);
    this.draw();
  }

  draw() {
    keyed(
      this.list,
      this.hits,
      (hit) => hit.name,
      () => h("div", { role: "option", class: "g-hit" }),
      (element, hit, i) => {
        set(element, { id: `${this.list.id}-${i}`, "data-at": i, "aria-selected": String(i === this.at), text: hit.name });
      },
    );
    set(this.input, { "aria-activedescendant": this.hits.length && !this.drop.hidden ? `${this.list.id}-${this.at}` : null });
  }

  choose(i) {
    const hit = this.hits[i];
    if (!hit) return;
    this.input.value = "";
    this.close();
    this.go(hit.name);
  }

  close() {
    this.drop.hidden = true;
    set(this.input, { "aria-expanded": "false", "aria-activedescendant": null });
  }

  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && this.hits.length) {
      if (this.drop.hidden) this.typed();
      else this.at = (this.at + by + this.hits.length) % this.hits.length;
      this.draw();
    } else if (event.key === "Enter") this.choose(this.at);
    else if (event.key === "Escape" && !this.drop.hidden) {
      this.input.value = "";
      this.close();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
