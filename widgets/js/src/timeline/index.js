// The timeline widget: data from traits, the time it shares with other views, pointer and keys.

import { float32 } from "../common/binary.js";
import { prepare, Tip } from "../common/canvas.js";
import { h, set } from "../common/dom.js";
import { download } from "../common/download.js";
import { seconds } from "../common/format.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { tableToggle } from "../common/table.js";
import { AreaCard } from "./area.js";
import { Bars } from "./bars.js";
import { CriticalCard, MicrobatchCard } from "./cards.js";
import { drawnLinks } from "./draw-links.js";
import { draw, look } from "./draw.js";
import { buildHead, drawLegend } from "./head.js";
import { Editor } from "./editor.js";
import { keyTable } from "./keys.js";
import { hit, layout, RIGHT_PX } from "./layout.js";
import { Marks } from "./marks.js";
import { MomentCard } from "./moment.js";
import { Overlay } from "./overlay.js";
import { Pointer } from "./pointer.js";
import { sameAction } from "./reorder.js";
import { Strips } from "./strips.js";
import { barsTable } from "./table.js";
import { barLines, KEYS_HELP, planWords } from "./words.js";

const SHOWN = ["microbatch", "selected_lanes", "critical", "links_shown", "links", "link_cells", "asks"];

/** What decides which bars there are. */
const DRAWN = ["view", "bars", "view_b", "bars_b"];

class TimelineView {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "timeline", "Timeline");
    this.root = root;
    this.focus = null;
    this.scratch = {};
    this.build();
    this.sync = new Sync(model, DRAWN, () => this.load());
    this.keys = keyTable(this);
    this.editor = new Editor(this);
    this.pointer = new Pointer(this);
    const repaint = () => this.arrange();
    for (const name of SHOWN) model.on(`change:${name}`, repaint);
    const answered = () => {
      if (this.sync.unanswered) return;
      this.moment.answered();
      this.areaCard.answered();
    };
    for (const name of ["seq", "moment", "area"]) model.on(`change:${name}`, answered);
    const file = (content, buffers) => {
      if (content?.kind === "file") download(content.name, buffers, content.type);
    };
    model.on("msg:custom", file);
    const preview = (event) => {
      if ((event.detail?.bench ?? "") === (model.get("bench") ?? "")) this.dim(Boolean(event.detail?.values));
    };
    document.addEventListener("sx-preview", preview);
    root.addEventListener("sx-theme", () => {
      this.look = null;
      this.paint();
    });
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(root);
    this.close = () => {
      this.sync.close();
      for (const name of SHOWN) model.off(`change:${name}`, repaint);
      for (const name of ["seq", "moment", "area"]) model.off(`change:${name}`, answered);
      model.off("msg:custom", file);
      this.overlay.close();
      this.moment.asking.stop();
      document.removeEventListener("sx-preview", preview);
      this.observer.disconnect();
      cancelAnimationFrame(this.frame);
      close();
      root.remove();
    };
    this.load();
  }

  build() {
    this.canvas = h("canvas", { class: "tl-canvas", role: "application", tabindex: "0" });
    this.overlay = new Overlay(this);
    this.tableBox = h("div", {});
    this.drawing = h("div", { class: "tl-drawing" }, this.canvas, this.overlay.canvas);
    this.marks = new Marks(this);
    this.table = tableToggle(this.drawing, this.tableBox, () => barsTable(this.plans, this.microbatch));
    Object.assign(this, buildHead(this));
    this.criticalCard = new CriticalCard();
    this.card = new MicrobatchCard(
      (by) => this.followNext(by),
      () => this.follow(null),
    );
    this.moment = new MomentCard(this);
    this.areaCard = new AreaCard(this);
    this.empty = h("div", { class: "sx-empty", text: "No timeline yet: it shows every action of a step once a model and a cluster are chosen." });
    this.live = h("div", { class: "sx-live", "aria-live": "polite" });
    const cards = [this.criticalCard, this.card, this.moment, this.areaCard].map((card) => card.element);
    this.root.append(this.head, this.empty, this.drawing, this.tableBox, ...cards, this.live);
    this.tip = new Tip(this.root, this.drawing);
  }

  get microbatch() {
    return this.model.get("microbatch") ?? null;
  }

  load() {
    const given = DRAWN.map((name) => this.model.get(name));
    this.editor.cancel();
    if (this.given?.every((value, i) => value === given[i])) return; // an answer that changes no picture
    this.given = given;
    const began = performance.now();
    const focused = this.focus && { plan: this.focus.plan, row: this.plans[this.focus.plan].bars.row(this.focus.i) };
    this.plans = [
      ["view", "bars"],
      ["view_b", "bars_b"],
    ].flatMap(([v, b]) => {
      const view = this.model.get(v) ?? {};
      if (!view.lanes?.length) return [];
      const bars = new Bars(float32(this.model.get(b)), view.lanes.length);
      return [{ view, bars, strips: new Strips(bars), reasons: reasonsOf(view.critical) }];
    });
    this.overlay.join(this.ofRun ? null : this.model.get("bench") || null);
    this.overlay.reach(Math.max(0, ...this.plans.map((plan) => plan.view.end_s)) * 1.005);
    this.marks.flow = null;
    this.focus = focused && this.again(focused);
    const ready = this.plans.length > 0;
    this.empty.hidden = ready;
    for (const part of [this.drawing, this.head]) part.style.display = ready ? "" : "none";
    drawLegend(this.legend, this.plans);
    set(this.canvas, { "aria-label": planWords(this.plans) + KEYS_HELP });
    this.table.refresh();
    this.arrange();
    this.moment.follow();
    this.marks.again();
    this.loadMs = performance.now() - began;
  }

  get time() {
    return this.overlay.time;
  }

  get window() {
    return this.time.window;
  }

  /** May Python be asked what is at the cursor or in an area? */
  get can() {
    return Boolean(this.model.get("asks")) && !this.ofRun && this.plans.length > 0;
  }

  /** Ask Python something, unless it is not there. */
  ask(kind, question) {
    if (this.model.link?.shut) return false;
    this.sync.send(kind, question);
    return true;
  }

  /** The focus on the same action as before, or null. */
  again({ plan, row }) {
    const i = this.plans[plan] ? sameAction(this.plans[plan].bars, row) : -1;
    return i < 0 ? null : { plan, i };
  }

  /** Places of everything; again when links are shown or hidden, or the second plan comes or goes. */
  arrange() {
    const view = this.model.get("links") ?? {};
    const can = Boolean(view.rows?.length);
    const shown = can && Boolean(this.model.get("links_shown"));
    const drawn = shown ? drawnLinks(view) : [];
    this.links = shown ? { view, drawn, cells: float32(this.model.get("link_cells")) } : null;
    this.linksButton.hidden = !can;
    this.traceButton.hidden = this.ofRun;
    this.momentButton.hidden = !this.can;
    this.moment.show();
    set(this.title, { text: this.ofRun ? "What the ranks did when" : "Timeline" });
    this.criticalButton.hidden = !this.plans.some((plan) => plan.view.critical);
    set(this.linksButton, { "aria-pressed": String(shown) });
    set(this.criticalButton, { "aria-pressed": String(this.critical) });
    this.editor.show();
    const letters = Math.max(0, ...this.plans.flatMap((plan) => plan.view.lanes.map((lane) => lane.name.length)));
    const names = drawn.map((i) => `${view.rows[i].name}      `);
    this.places = layout(this.plans.map((plan) => plan.view.lanes.length), names, letters);
    this.criticalCard.show(this.critical ? this.plans : []);
    this.card.show(this.plans, this.microbatch);
    this.paint();
  }

  /** Is it of a run, in which nothing can be edited? */
  get ofRun() {
    return Boolean(this.plans?.[0]?.view.of_run);
  }

  get critical() {
    return Boolean(this.model.get("critical")) && this.plans.some((plan) => plan.view.critical);
  }

  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paintNow();
    });
  }

  paintNow() {
    const width = this.canvas.parentElement ? this.canvas.clientWidth : 0;
    if (!this.plans?.length || !width) return;
    this.look ??= look(this.root);
    const began = performance.now();
    const g = prepare(this.canvas, width, this.places.height);
    draw(g, {
      width,
      window: this.window,
      plans: this.plans,
      look: this.look,
      microbatch: this.microbatch,
      marked: new Set(this.model.get("selected_lanes") ?? []),
      places: this.places,
      critical: this.critical,
      links: this.links,
      focus: this.focus,
      carry: this.editor.carried,
      scratch: this.scratch,
    });
    const spent = performance.now() - began;
    this.root.dataset.drawMs = spent.toFixed(1);
    this.root.dataset.firstMs ??= (this.loadMs + spent).toFixed(1);
    this.root.dataset.window = `${this.window.t0.toFixed(6)} ${this.window.t1.toFixed(6)}`;
    this.overlay.paintNow();
  }

  /** The board shows a preview: what is drawn here is not what it tells. */
  dim(on) {
    this.root.classList.toggle("tl-dim", on);
  }

  toggle(trait) {
    this.sync.set(trait, !this.model.get(trait));
    if (trait === "critical" && this.critical) this.say(this.criticalCard.element.textContent);
  }

  say(text) {
    this.live.textContent = text;
  }

  // ---- pointer

  timeAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const room = box.width - this.places.left - RIGHT_PX;
    const share = (event.clientX - box.left - this.places.left) / room;
    return { share, t: this.window.t0 + share * this.window.span, y: event.clientY - box.top, perPx: this.window.span / room };
  }

  /** The bar under the pointer. @returns {{plan: number, i: number}|null} */
  under(event) {
    const { share, t, y, perPx } = this.timeAt(event);
    const place = share < 0 ? null : hit(this.places.plans, y);
    if (!place) return null;
    const i = this.plans[place.plan].bars.at(place.lane, place.wire, t, place.wire ? perPx * 2 : 0);
    return i < 0 ? null : { plan: place.plan, i };
  }

  /** Id of the lane whose name is under the pointer, or null. */
  nameUnder(event) {
    const { share, y } = this.timeAt(event);
    const place = share < 0 ? hit(this.places.plans, y) : null;
    return place ? (this.plans[place.plan].view.lanes[place.lane]?.id ?? null) : null;
  }

  hover(event) {
    this.pointer.hover(event);
  }

  lines({ plan, i }) {
    const { view, bars, reasons } = this.plans[plan];
    const name = this.plans.length > 1 ? [view.name || "AB"[plan]] : [];
    return [...name, ...barLines(bars.row(i), view.lanes, this.critical ? reasons.get(i) : undefined)];
  }

  // ---- focus, marks and the followed microbatch

  laneOf = ({ plan, i }) => this.plans[plan].bars.lane(i);

  /** Share of the window at which the focus stands, so that zooming keeps it in sight. */
  focusShare() {
    if (!this.focus) return 0.5;
    const { bars } = this.plans[this.focus.plan];
    const middle = (bars.start(this.focus.i) + bars.end(this.focus.i)) / 2;
    return Math.min(1, Math.max(0, (middle - this.window.t0) / this.window.span));
  }

  setFocus(focus) {
    this.focus = focus;
    this.tip.hide();
    if (focus) {
      const { bars } = this.plans[focus.plan];
      this.window.show(bars.start(focus.i), bars.end(focus.i));
      const lines = this.lines(focus);
      this.say(lines.join(", "));
      this.tip.show(lines.join("\n"), this.placeOf(focus));
      this.marks.toFocus();
    } else this.marks.leave();
    this.paint();
  }

  /** Where a bar ends on the screen, as an event would say it. */
  placeOf({ plan, i }) {
    const box = this.canvas.getBoundingClientRect();
    const { bars } = this.plans[plan];
    const room = box.width - this.places.left - RIGHT_PX;
    const x = this.places.left + ((Math.min(bars.end(i), this.window.t1) - this.window.t0) / this.window.span) * room;
    const row = this.places.plans[plan].rows[bars.lane(i)];
    return { clientX: box.left + x, clientY: box.top + row.y + row.bar };
  }

  /** The place of the cursor as Python is asked about it; where it is on no lane, on the one before. */
  placeAt({ t, plan, row, lane }) {
    const { lanes } = this.plans[plan]?.view ?? this.plans[0].view;
    const own = row ?? (lane == null ? -1 : lanes.findIndex((item) => item.id === lane));
    this.lastLane = own >= 0 ? own : Math.min(this.lastLane ?? 0, lanes.length - 1);
    return { time_s: t, lane: this.lastLane, plan: this.plans[plan] ? plan : 0 };
  }

  markLane(id) {
    if (id == null) return;
    const marked = this.model.get("selected_lanes") ?? [];
    this.sync.set("selected_lanes", marked.length === 1 && marked[0] === id ? [] : [id]);
  }

  followFocus() {
    if (!this.focus) return;
    const microbatch = this.plans[this.focus.plan].bars.microbatch(this.focus.i);
    this.follow(microbatch < 0 || microbatch === this.microbatch ? null : microbatch);
  }

  followNext(by) {
    const last = this.plans[0]?.bars.lastMicrobatch ?? -1;
    const next = this.microbatch == null ? (by > 0 ? 0 : last) : this.microbatch + by;
    if (last >= 0) this.follow(Math.min(last, Math.max(0, next)));
  }

  follow(microbatch) {
    this.sync.set("microbatch", microbatch);
    this.card.show(this.plans, microbatch);
    const account = microbatch == null ? null : this.plans[0]?.bars.account(microbatch);
    this.say(
      account
        ? `Microbatch ${microbatch}: computing ${seconds(account.computing_s)}, in transit ${seconds(account.transit_s)}, waiting ${seconds(account.waiting_s)}`
        : "No microbatch followed",
    );
    this.table.refresh();
  }

  /** Shift with an arrow moves the cursor by itself; whether it was such a key. */
  nudged(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !this.plans.length) return false;
    event.preventDefault();
    this.tip.hide();
    this.marks.nudge(by);
    return true;
  }

  key(event) {
    if (event.altKey && this.editor.key(event)) return;
    if (event.shiftKey && this.nudged(event)) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const work = this.keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!work || !this.plans.length) return;
    event.preventDefault();
    work();
    this.paint();
  }
}

/** Bar -> why it started then, of the bars on the critical path. */
function reasonsOf(critical) {
  return new Map((critical?.bars ?? []).map((i, k) => [i, critical.reasons?.[k] ?? "data"]));
}

function render({ model, el }) {
  const view = new TimelineView(model, el);
  return () => view.close();
}

export default { render: linked(render) };
