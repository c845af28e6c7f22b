// The field that is worked out: marked at once, said below it after a second.

import { h, set } from "../common/dom.js";
import { sinceWords } from "../common/working.js";

/** So often the seconds are counted on. */
const COUNT_MS = 1000;

export class BusyField {
  /** @param {HTMLElement} root of the bar */
  constructor(root) {
    Object.assign(this, { root, work: null, timer: 0 });
  }

  /** @param {{key: string, text: string, since: number}|null} work */
  show(work) {
    if (Boolean(work) !== Boolean(this.work)) {
      clearInterval(this.timer);
      if (work) this.timer = setInterval(() => this.draw(), COUNT_MS);
    }
    this.work = work;
    this.draw();
  }

  draw() {
    const { work } = this;
    for (const input of this.root.querySelectorAll("[data-field]")) {
      const busy = work?.key === input.dataset.field;
      const field = input.closest(".c-field");
      set(input, { "aria-busy": busy ? "true" : null });
      const since = busy ? sinceWords(Date.now() - work.since) : "";
      const place = field.querySelector(".c-work") ?? (since ? field.appendChild(h("small", { class: "c-work" })) : null);
      if (place) set(place, { text: since && `${since}, Esc cancels` });
    }
  }

  stop() {
    this.show(null);
  }
}
