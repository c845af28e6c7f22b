// The colour bar with its numbers on it, black or white by the luminance of what is below.

import { h, keyed, set } from "../common/dom.js";
import { bytes, percent } from "../common/format.js";
import { cividis, inkOn, rgb } from "../common/scales.js";

const MARKS = [0, 0.25, 0.5, 0.75, 1];
/** Share of the bar to either side of a number for which its own ground is drawn. */
const AROUND = 0.06;

/** The colours from one position to another, left to right. */
const gradient = (from, to, steps) =>
  `linear-gradient(90deg, ${Array.from({ length: steps + 1 }, (_, i) => rgb(cividis(from + ((to - from) * i) / steps))).join(", ")})`;

export class Legend {
  constructor() {
    this.ramp = h("span", { class: "sx-ramp hm-ramp" });
    this.note = h("span", { class: "sx-sub" });
    this.element = h("div", { class: "hm-legend" }, this.ramp, this.note);
  }

  /** @param {any} scale @param {string} unit `bytes` or `share` @param {string} note what the ends mean */
  show(scale, unit, note) {
    set(this.ramp, { style: { display: scale.only != null ? "none" : null } });
    if (scale.only != null) {
      set(this.note, { text: `${bytes(scale.only)} wherever anything is sent` });
      return;
    }
    const write = (value) => (unit === "share" ? percent(value, scale.high < 0.0995 ? 1 : 0) : value === 0 ? "0" : bytes(value));
    const along = (u) => scale.from + (1 - scale.from) * u;
    set(this.ramp, { style: { background: gradient(scale.from, 1, 9) } });
    keyed(
      this.ramp,
      MARKS,
      String,
      () => h("span", {}),
      (span, u) => {
        const at = along(u);
        const ground = { background: gradient(along(u - AROUND), along(u + AROUND), 2), "background-color": rgb(cividis(at)) };
        const end = u === 0 ? "first" : u === 1 ? "last" : null;
        set(span, { text: write(scale.at(at)), "data-end": end, style: { left: `${u * 100}%`, color: inkOn(cividis(at)), ...ground } });
      },
    );
    set(this.note, { text: note });
  }
}
