// The tour: a strip at the part of the page that it speaks of, which is marked. The tiles hold it, since they always are there.

import { bold, h, keyed, set } from "../common/dom.js";
import { typeset } from "../common/format.js";

/** Event of the document by which any part of a workbench asks for the tour. */
const WANTED = "sx-tour-wanted";
const MARK = "sx-toured";

export class Tour {
  /** @param {HTMLElement} home root of the tiles @param {() => string} bench @param {(action: string) => void} act */
  constructor(home, bench, act) {
    this.home = home;
    this.bench = bench;
    this.title = h("b", {});
    this.count = h("span", { class: "sx-sub" });
    this.text = h("span", { class: "t-tour-text" });
    this.buttons = h("span", { class: "t-tour-acts" });
    this.element = h("div", { class: "t-tour", role: "group", "aria-label": "Tour" }, this.title, this.count, this.text, this.buttons);
    this.element.addEventListener("click", (event) => {
      const action = event.target.closest("[data-action]")?.dataset.action;
      if (action) act(action);
    });
    this.element.addEventListener("keydown", (event) => this.key(event, act));
    this.wanted = (event) => event.detail.bench === bench() && act("tour_start");
    document.addEventListener(WANTED, this.wanted);
    this.shown = null;
  }

  /** Arrows go on and back, Escape ends; what stands below is not to take them for its own. */
  key(event, act) {
    const action = { ArrowRight: "tour_next", ArrowLeft: "tour_back", Escape: "tour_end" }[event.key];
    event.stopPropagation();
    if (!action || !this.element.querySelector(`[data-action="${action}"]`)) return;
    event.preventDefault();
    act(action);
  }

  /** @param {any} tour `view.tour` */
  draw(tour) {
    const before = this.shown;
    this.shown = tour ?? null;
    if (!tour) {
      this.unmark();
      this.element.remove();
      return;
    }
    set(this.title, { text: tour.title });
    set(this.count, { text: tour.step ? `${tour.step} of ${tour.of}` : "" });
    if (this.text.dataset.text !== tour.text) {
      this.text.dataset.text = tour.text;
      this.text.replaceChildren(...bold(typeset(tour.text)));
    }
    keyed(
      this.buttons,
      tour.actions,
      (a) => a.action,
      () => h("button", { class: "sx-btn" }),
      (button, a) => set(button, { text: a.label, "data-action": a.action, class: `sx-btn${a.suggested ? " suggested" : ""}` }),
    );
    const part = document.querySelector(`section[data-widget="${tour.part}"][data-bench="${CSS.escape(this.bench())}"]`) ?? this.home;
    if (this.element.parentElement !== part) part.prepend(this.element);
    if (before && before.step === tour.step) return;
    this.unmark();
    if (!tour.step) return;
    const marked = tour.mark ? part.querySelector(`[data-action="${tour.mark}"]`) : part;
    marked?.classList.add(MARK);
    this.marked = marked;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.element.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
    this.buttons.querySelector(".suggested")?.focus({ preventScroll: true });
  }

  unmark() {
    this.marked?.classList.remove(MARK);
    this.marked = null;
  }

  close() {
    document.removeEventListener(WANTED, this.wanted);
    this.unmark();
    this.element.remove();
  }
}
