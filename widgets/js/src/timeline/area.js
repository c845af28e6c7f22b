// The marked area: what was computed, waited for and sent between two times. Python adds it up.

import { Asking } from "../common/asking.js";
import { h, keyed, set } from "../common/dom.js";
import { bytes, percent, seconds } from "../common/format.js";
import { table } from "../common/table.js";

/** "computing 80.1 %: forward 30.1 %, ...", "bubble ...", "12.3 GiB sent: ...". @param {any} plan @returns {string[]} */
export function sumWords(plan) {
  const { all, busy, moved, length_s } = plan;
  if (!(length_s > 0)) return ["has ended before"];
  const whole = length_s * all.count;
  const share = (s) => percent(s / whole, 1);
  const kinds = busy.map((name, k) => [name, all.busy_s[k]]).filter(([, s]) => s > 0);
  const sent = moved.map((name, k) => [name, all.bytes[k]]).filter(([, size]) => size > 0);
  const inside = all.inside_s > 0 ? ` (${share(all.inside_s)} in collectives inside layers)` : "";
  const total = sent.reduce((sum, [, size]) => sum + size, 0);
  return [
    `computing ${share(all.computing_s)}${kinds.length ? `: ${kinds.map(([name, s]) => `${name} ${share(s)}`).join(", ")}` : ""}`,
    `bubble ${share(all.bubble_s)}${inside}`,
    sent.length === 1 ? `${bytes(total)} sent, all of it ${sent[0][0]}` : sent.length ? `${bytes(total)} sent: ${sent.map(([name, size]) => `${name} ${bytes(size)}`).join(", ")}` : "nothing sent",
  ];
}

/** The sums by lane. @param {any} area */
export function areaTable(area) {
  const several = area.plans.length > 1;
  const busy = [...new Set(area.plans.flatMap((plan) => plan.busy))];
  const moved = [...new Set(area.plans.flatMap((plan) => plan.moved))];
  const length = area.to_s - area.from_s;
  const inside = area.plans.some((plan) => plan.all.inside_s > 0);
  const told = (s) => (s > length * 1e-6 ? seconds(s, length) : "");
  const pick = (names, values, name, write) => (names.includes(name) ? write(values[names.indexOf(name)]) : "");
  const rows = area.plans.flatMap((plan) =>
    [plan.all, ...plan.lanes].map((row) => [
      row.name,
      ...(several ? [plan.name] : []),
      row.count,
      ...busy.map((name) => pick(plan.busy, row.busy_s, name, told)),
      told(row.computing_s),
      ...(inside ? [told(row.inside_s)] : []),
      told(row.bubble_s),
      ...moved.map((name) => pick(plan.moved, row.bytes, name, (size) => (size > 0 ? bytes(size) : ""))),
    ]),
  );
  const columns = ["lane", ...(several ? ["plan"] : []), "devices", ...busy, "computing", ...(inside ? ["collectives inside layers"] : []), "bubble", ...moved];
  return table(`${spanWords(area)}: seconds of one device of each lane, of all devices added up in the first row; bytes that all devices of a lane send`, columns, rows);
}

/** "1.20 s to 1.84 s". */
export const spanWords = ({ from_s, to_s }) => `${seconds(from_s, to_s)} to ${seconds(to_s)}`;

export class AreaCard {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    this.asking = new Asking((question) => view.ask("area", question), 0);
    this.title = h("b", {});
    this.state = h("span", { class: "tl-muted" });
    this.lines = h("div", { class: "tl-sums" });
    this.place = h("div", {});
    const button = (text, action, title, work) => h("button", { class: "sx-btn tl-small", text, title, "data-action": action, on: { click: work } });
    this.byLane = button("By lane", "area-lanes", "Sums of every lane as a table", () => this.toggleLanes());
    set(this.byLane, { "aria-pressed": "false" });
    this.element = h(
      "div",
      { class: "tl-told tl-area", role: "group", "aria-label": "Marked area", hidden: true },
      h(
        "div",
        { class: "tl-row" },
        this.title,
        this.state,
        h("span", { class: "sx-space" }),
        this.byLane,
        button("Zoom to it", "area-zoom", "See nothing but the area (Z)", () => view.marks.zoom()),
        button("Clear", "area-clear", "Mark no area (Escape)", () => view.marks.clear()),
      ),
      this.lines,
      this.place,
    );
  }

  /** Ask for what is marked, unless Python has said it already. */
  follow() {
    const area = this.view.marks.done;
    if (!area) this.asking.stop();
    else if (!this.answer) {
      this.asking.want(area);
      this.asking.ask();
    }
    this.show();
  }

  /** What Python says of the area that is marked, or null. */
  get answer() {
    const [area, told] = [this.view.marks.done, this.view.model.get("area")];
    return area && told?.plans && told.from_s === area.from_s && told.to_s === area.to_s ? told : null;
  }

  answered() {
    this.asking.answered();
    this.show();
    const { answer } = this;
    if (answer && this.said !== answer) {
      this.said = answer;
      this.view.say(`${spanWords(answer)}: ${this.sentences(answer).join("; ")}`);
    }
  }

  sentences({ plans }) {
    return plans.map((plan) => `${plans.length > 1 ? `${plan.name}: ` : ""}${sumWords(plan).join("; ")}`);
  }

  toggleLanes() {
    const on = this.byLane.getAttribute("aria-pressed") !== "true";
    set(this.byLane, { "aria-pressed": String(on) });
    this.show();
  }

  show() {
    const area = this.view.marks.done;
    this.element.hidden = !area;
    if (!area) return;
    const { answer } = this;
    const shut = this.view.model.link?.shut;
    set(this.title, { text: `${spanWords(area)}, ${seconds(area.to_s - area.from_s)}` });
    const missing = shut ? "The kernel is not there to add it up." : this.asking.waiting ? "being added up …" : "It could not be added up.";
    set(this.state, { text: answer ? "" : missing });
    keyed(
      this.lines,
      answer ? this.sentences(answer) : [],
      (_, i) => String(i),
      () => h("div", {}),
      (div, text) => set(div, { text }),
    );
    const open = Boolean(answer) && this.byLane.getAttribute("aria-pressed") === "true";
    if (!open) this.place.replaceChildren();
    else if (this.tabled !== answer || !this.place.firstChild) this.place.replaceChildren(areaTable(answer));
    this.tabled = answer;
  }
}
