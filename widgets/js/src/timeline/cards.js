// The two cards below the drawing: where a followed microbatch's time went, and what the critical path is made of.

import { h, keyed, set } from "../common/dom.js";
import { percent, seconds } from "../common/format.js";
import { accountFacts, pathParts, stagesWords } from "./words.js";

const button = (text, action, title, work) =>
  h("button", { class: "sx-btn tl-small", text, title, "aria-label": title, "data-action": action, on: { click: work } });

/** A bar of shares; what the colours mean stands beside it in words. */
export function shareBar(element, parts) {
  const total = parts.reduce((sum, part) => sum + part.seconds, 0) || 1;
  keyed(
    element,
    parts,
    (part) => part.name,
    () => h("i", {}),
    (i, part) => set(i, { class: part.cls, style: { width: `${(100 * part.seconds) / total}%` } }),
  );
}

const PATH_CLASS = {
  compute: "tl-compute",
  update: "tl-k4",
  transfer: "tl-k6",
  "gradient reduction": "tl-k7",
  "weight gather": "tl-k8",
  "collectives inside layers": "tl-inner",
  "slowed by shared links": "tl-slow",
  waiting: "tl-bubble",
};

const FACT_CLASS = { computing: "tl-compute", in: "tl-k6", waiting: "tl-bubble" };

/** What makes the step as long as it is. */
export class CriticalCard {
  constructor() {
    this.element = h("div", { class: "tl-card tl-critical", role: "group", "aria-label": "Critical path" });
  }

  /** @param {any[]} plans with a critical path each, or none */
  show(plans) {
    const shown = plans.filter((plan) => plan.view.critical);
    this.element.hidden = !shown.length;
    keyed(
      this.element,
      shown,
      (plan, p) => String(p),
      () => h("div", { class: "tl-row" }, h("b", {}), h("span", { class: "tl-shares" }), h("span", { class: "sx-legend tl-words" })),
      (row, plan) => {
        const { critical } = plan.view;
        const name = shown.length > 1 ? `Critical path of ${plan.view.name || "the plan"}` : "Critical path";
        set(row.children[0], { text: `${name}, ${seconds(critical.length_s)}` });
        shareBar(row.children[1], critical.parts.map((part) => ({ ...part, cls: PATH_CLASS[part.name] ?? "tl-k4" })));
        keyed(
          row.children[2],
          pathParts(critical),
          (part) => part.name,
          () => h("span", {}, h("i", {}), h("span", {})),
          (span, part) => {
            set(span.children[0], { class: PATH_CLASS[part.name] ?? "tl-none" });
            set(span.children[1], { text: `${part.share} ${part.name}` });
          },
        );
      },
    );
  }
}

/** A followed microbatch, with buttons for its neighbours. */
export class MicrobatchCard {
  /** @param {(by: number) => void} step @param {() => void} stop */
  constructor(step, stop) {
    this.title = h("b", {});
    this.stages = h("span", { class: "tl-muted" });
    this.facts = h("span", { class: "sx-legend tl-facts" });
    this.bar = h("span", { class: "tl-shares" });
    this.element = h(
      "div",
      { class: "tl-card", role: "group", "aria-label": "Followed microbatch", hidden: true },
      h(
        "div",
        { class: "tl-row" },
        h("span", { class: "sx-seg" }, button("‹", "microbatch-before", "Microbatch before (P)", () => step(-1)), button("›", "microbatch-next", "Next microbatch (N)", () => step(1))),
        this.title,
        this.stages,
        this.bar,
        this.facts,
        h("span", { class: "sx-space" }),
        button("Stop following", "microbatch-none", "Follow no microbatch (Escape)", stop),
      ),
    );
  }

  /** @param {any[]} plans @param {number|null} microbatch */
  show(plans, microbatch) {
    const [a, b] = plans.map((plan) => (microbatch == null ? null : plan.bars.account(microbatch)));
    this.element.hidden = !a;
    if (!a) return;
    const { bars } = plans[0];
    const stages = a.path.filter((i) => bars.kind(i) <= 2).map((i) => bars.row(i).stage);
    set(this.title, { text: `Microbatch ${microbatch}` });
    set(this.stages, { text: stages.length > 1 ? `stages ${stagesWords(stages)}` : stages.length ? `stage ${stages[0]}` : "" });
    shareBar(this.bar, [
      { name: "computing", seconds: a.computing_s, cls: "tl-compute" },
      { name: "in transit", seconds: a.transit_s, cls: "tl-k6" },
      { name: "waiting", seconds: a.waiting_s, cls: "tl-bubble" },
    ]);
    this.bar.title = `waits ${percent(a.waiting_s / (a.leaves_s - a.enters_s))} of its time`;
    keyed(
      this.facts,
      accountFacts(a, b),
      ([name]) => name.split(",")[0],
      () => h("span", {}, h("i", {}), h("em", {}), h("b", {}), h("small", {})),
      (span, [name, value, difference]) => {
        set(span.children[0], { class: FACT_CLASS[name.split(/[, ]/)[0]] ?? "tl-none" });
        set(span.children[1], { text: name });
        set(span.children[2], { text: value });
        set(span.children[3], { text: difference && `${plans[1].view.name || "B"} ${difference}` });
      },
    );
  }
}
