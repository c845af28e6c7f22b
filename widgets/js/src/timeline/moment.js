// Memory at the cursor: a card that follows it, by part and by the largest tensors. Python says what they are.

import { Asking } from "../common/asking.js";
import { h, keyed, set } from "../common/dom.js";
import { bytes, percent, plural, seconds } from "../common/format.js";
import { shareBar } from "./cards.js";

const CLASS = {
  weights: "tl-m-weights",
  "weight versions": "tl-m-versions",
  gradients: "tl-m-gradients",
  optimizer: "tl-m-optimizer",
  activations: "tl-inner",
  buffers: "sx-buffers",
  reserved: "tl-m-reserved",
  cached: "tl-m-cached",
};

/** "41.2 GiB of 80.0 GiB". */
export function inUse(moment) {
  const total = moment.parts.reduce((sum, part) => sum + part.bytes, 0);
  return { total, text: `${bytes(total)} of ${bytes(moment.capacity_bytes)}` };
}

/** "mlp.up, activations, 48": what a row of equal tensors is. */
export const tensorWords = ({ name, part, count }) =>
  `${name === part ? name : `${name}, ${part}`}${count > 1 ? `, ${plural(count, "tensor")}` : ""}`;

/** What is said of it: the sum, and the largest. */
export function momentWords(moment) {
  const [first] = moment.tensors;
  const largest = first ? `; largest: ${tensorWords(first)}, ${bytes(first.bytes)}` : "";
  return `${moment.name} at ${seconds(moment.time_s)}: ${inUse(moment).text} in use${largest}`;
}

export class MomentCard {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    this.open = false;
    this.asking = new Asking((question) => view.ask("moment", question));
    this.title = h("b", {});
    this.state = h("span", { class: "tl-muted" });
    this.bar = h("span", { class: "tl-shares tl-wide" });
    this.legend = h("span", { class: "sx-legend tl-words" });
    this.list = h("ol", { class: "tl-tensors" });
    this.element = h(
      "div",
      { class: "tl-told tl-moment", role: "group", "aria-label": "Memory at the cursor", hidden: true },
      h("div", { class: "tl-row tl-line" }, this.title, this.state),
      h("div", { class: "tl-row" }, this.bar, this.legend),
      this.list,
    );
  }

  toggle() {
    this.open = this.view.time.kept = !this.open;
    if (this.open && !this.view.time.cursor) this.view.marks.nudge(0);
    this.follow();
    this.view.say(this.open ? "Memory at the cursor is shown" : "Memory at the cursor is hidden");
  }

  /** Ask for the place where the cursor is, and show what is known. */
  follow() {
    const { cursor } = this.view.time;
    const place = this.open && this.view.can && cursor ? this.view.placeAt(cursor) : null;
    if (!place) this.asking.stop();
    else if (!this.is(place)) this.asking.want(place);
    this.show();
  }

  /** Is it what Python said last? */
  is({ time_s, lane, plan }) {
    const moment = this.view.model.get("moment");
    return Boolean(moment?.parts) && moment.time_s === time_s && moment.lane === lane && moment.plan === plan;
  }

  answered() {
    this.asking.answered();
    this.show();
    const moment = this.view.model.get("moment");
    if (this.open && moment?.parts && !this.asking.waiting && this.view.focus) this.view.say(momentWords(moment));
  }

  show() {
    const { view } = this;
    set(view.momentButton, { "aria-pressed": String(this.open && view.can) });
    this.element.hidden = !this.open || !view.can;
    if (this.element.hidden) return;
    const moment = view.model.get("moment");
    const known = Boolean(moment?.parts);
    set(this.state, { text: this.stateWords(known) });
    this.element.classList.toggle("tl-old", this.asking.waiting && known);
    for (const part of [this.bar, this.legend, this.list]) part.hidden = !known;
    if (!known) return set(this.title, { text: "Memory at the cursor" });
    const { total, text } = inUse(moment);
    const name = view.plans.length > 1 ? `${view.plans[moment.plan]?.view.name ?? ""}, ${moment.name}` : moment.name;
    const over = total - moment.capacity_bytes;
    set(this.title, { text: `${name} at ${seconds(moment.time_s)}: ${text}${over > 0 ? `, ▲ ${bytes(over)} over` : ""}`, class: over > 0 ? "tl-bad" : null });
    const free = Math.max(0, -over);
    shareBar(this.bar, [...moment.parts.map(({ name: part, bytes: size }) => ({ name: part, seconds: size, cls: CLASS[part] ?? "tl-m-reserved" })), { name: "free", seconds: free, cls: "" }]);
    this.bar.title = `${percent(total / moment.capacity_bytes)} of the device's memory`;
    this.showLegend(moment);
    this.showTensors(moment);
  }

  stateWords(known) {
    if (this.view.model.link?.shut) return "The kernel is not there to work it out.";
    if (this.asking.waiting) return known ? "working it out for the cursor …" : "being worked out …";
    return known ? "" : "Point at a lane, or go to a bar with the arrow keys.";
  }

  showLegend({ parts }) {
    keyed(
      this.legend,
      parts,
      (part) => part.name,
      () => h("span", {}, h("i", {}), h("span", {})),
      (span, part) => {
        set(span.children[0], { class: CLASS[part.name] ?? "tl-m-reserved" });
        set(span.children[1], { text: `${part.name} ${bytes(part.bytes)}` });
      },
    );
  }

  showTensors({ tensors, rest }) {
    const rows = rest ? [...tensors, { name: `${plural(rest.count, "smaller one")}`, part: "", count: 1, bytes: rest.bytes, rest: true }] : tensors;
    keyed(
      this.list,
      rows,
      (row, i) => String(i),
      () => h("li", {}, h("span", {}), h("b", {})),
      (li, row) => {
        set(li.children[0], { text: row.rest ? row.name : tensorWords(row), title: row.rest ? null : tensorWords(row) });
        set(li.children[1], { text: bytes(row.bytes) });
      },
    );
  }
}
