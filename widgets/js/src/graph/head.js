// Heading, search field, colour buttons and legend.

import { h, heading, set } from "../common/dom.js";
import { DIVERGING_STOPS } from "../common/errors.js";
import { plural } from "../common/format.js";
import { pictureButtons } from "../common/picture.js";
import { legendOf, MODES } from "./colour.js";

export class Head {
  /** @param {HTMLElement} search @param {(mode: string) => void} choose a colour was asked for */
  constructor(search, choose) {
    this.search = search;
    this.choose = choose;
    this.title = heading("Layer graph", "");
    this.title.append(h("span", { class: "sx-space" }), search);
    this.modes = h(
      "span",
      { class: "sx-seg", role: "radiogroup", "aria-label": "Colour" },
      MODES.map(([mode, name]) =>
        h("button", { class: "sx-btn", text: name, role: "radio", "data-action": `colour-${mode}`, on: { click: () => choose(mode) } }),
      ),
    );
    this.legend = h("span", { class: "sx-legend" }, h("span", {}, h("span", {}), h("i", { class: "sx-ramp" }), h("span", {}), h("span", {})));
    this.bar = h("div", { class: "g-bar" }, this.modes, this.legend, pictureButtons("layer graph"));
  }

  set hidden(hidden) {
    this.search.hidden = this.bar.hidden = hidden;
    if (hidden) set(this.title.querySelector(".sx-sub"), { text: "" });
  }

  /** @param {{layers: number, nodes: number, mode: string, scale: any, noErrors: string|null}} state */
  draw({ layers, nodes, mode, scale, noErrors }) {
    set(this.title.querySelector(".sx-sub"), { text: `${plural(layers, "layer")} in ${plural(nodes, "node")}` });
    MODES.forEach(([m, name], i) => {
      const off = m === "error" && noErrors;
      set(this.modes.children[i], {
        "aria-checked": String(m === mode),
        "aria-disabled": off ? "true" : null,
        text: off ? `${name} – ${noErrors}` : name,
        tabindex: m === mode ? "0" : "-1",
      });
    });
    const legend = legendOf(scale, mode);
    const [low, ramp, high, note] = this.legend.firstChild.children;
    set(low, { text: legend?.low ?? "" });
    set(high, { text: legend?.high ?? "" });
    set(note, { text: legend ? legend.note : "shades tell neighbouring stages apart" });
    set(ramp, { hidden: !legend, style: { background: mode === "error" ? `linear-gradient(90deg, ${DIVERGING_STOPS})` : null } });
  }

  /** Arrow keys among the colours; says whether the key was one. */
  key(key, mode, noErrors) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (!by) return false;
    const all = MODES.map(([m]) => m).filter((m) => m !== "error" || !noErrors);
    const next = all[(all.indexOf(mode) + by + all.length) % all.length];
    this.choose(next);
    this.modes.children[MODES.findIndex(([m]) => m === next)].focus();
    return true;
  }
}
