// The timeline widget: data from traits, window of time, pointer and keys.

import { float32 } from "../common/binary.js";
import { prepare, Tip } from "../common/canvas.js";
import { h, heading, keyed, set } from "../common/dom.js";
import { bytes, plural, seconds } from "../common/format.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { table, tableToggle } from "../common/table.js";
import { Bars, FIRST_WIRE, KIND_NAMES, KINDS } from "./bars.js";
import { draw, look } from "./draw.js";
import { hit, LABEL_PX, layout, Window } from "./layout.js";

const TABLE_ROWS = 400;

class TimelineView {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "timeline", "Timeline");
    this.root = root;
    this.closeRoot = close;
    this.build();
    this.sync = new Sync(model, ["view", "bars", "view_b", "bars_b"], () => this.load());
    this.repaint = () => this.paint();
    for (const name of ["microbatch", "selected_lanes"]) model.on(`change:${name}`, this.repaint);
    root.addEventListener("sx-theme", () => {
      this.look = null;
      this.paint();
    });
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(root);
    this.attach();
    this.load();
  }

  build() {
    this.head = heading("Timeline", "");
    this.legend = h("span", { class: "sx-legend" });
    this.canvas = h("canvas", { class: "tl-canvas", role: "img", tabindex: "0", title: "" });
    this.tableBox = h("div", {});
    this.toggle = tableToggle(this.canvas, this.tableBox, () => this.makeTable());
    const button = (text, action, title, work) =>
      h("button", { class: "sx-btn", text, title, "aria-label": title, "data-action": action, on: { click: work } });
    this.head.append(
      h("span", { class: "sx-space" }),
      this.legend,
      h(
        "span",
        { class: "sx-seg" },
        button("−", "zoom-out", "Zoom out (S)", () => this.zoom(2)),
        button("+", "zoom-in", "Zoom in (W)", () => this.zoom(0.5)),
        button("Whole", "zoom-all", "Whole step (0)", () => {
          this.window.all();
          this.paint();
        }),
      ),
      this.toggle.button,
    );
    this.card = h("div", { class: "tl-card" });
    this.empty = h("div", { class: "sx-empty", text: "No timeline yet." });
    this.live = h("div", { class: "sx-live", "aria-live": "polite" });
    this.root.append(this.head, this.empty, this.canvas, this.tableBox, this.card, this.live);
    this.tip = new Tip(this.root);
  }

  get microbatch() {
    return this.model.get("microbatch") ?? null;
  }

  load() {
    this.plans = [
      ["view", "bars"],
      ["view_b", "bars_b"],
    ].flatMap(([v, b]) => {
      const view = this.model.get(v) ?? {};
      return view.lanes?.length ? [{ view, bars: new Bars(float32(this.model.get(b)), view.lanes.length) }] : [];
    });
    const end = Math.max(0, ...this.plans.map((plan) => plan.view.end_s)) * 1.005;
    if (!this.window || Math.abs(this.window.end - end) > end * 1e-9) this.window = new Window(end || 1);
    this.empty.hidden = this.plans.length > 0;
    this.canvas.style.display = this.plans.length ? "" : "none";
    this.places = layout(this.plans.map((plan) => plan.view.lanes.length));
    const kinds = [...new Set(this.plans.flatMap((plan) => [...plan.bars.kinds]))].sort((a, b) => a - b);
    keyed(
      this.legend,
      [...kinds, "bubble"],
      String,
      (kind) =>
        h(
          "span",
          {},
          h("i", { class: kind === "bubble" ? "tl-bubble" : `tl-k${kind}${kind >= FIRST_WIRE ? " line" : ""}` }),
          kind === "bubble" ? "bubble" : KIND_NAMES[kind],
        ),
      () => {},
    );
    set(this.canvas, {
      "aria-label":
        this.plans
          .map(
            (plan) =>
              `${plan.view.name ?? ""} ${seconds(plan.view.end_s)}, ${plural(plan.view.lanes.length, "lane")}, ${plural(plan.bars.length, "bar")}`,
          )
          .join("; ") +
        ". W and S zoom, A and D pan, left and right follow a microbatch. The Table button gives the same as a table.",
    });
    this.toggle.refresh();
    this.paint();
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
    const g = prepare(this.canvas, width, this.places.height);
    const began = performance.now();
    draw(g, {
      width,
      window: this.window,
      plans: this.plans,
      look: this.look,
      microbatch: this.microbatch,
      marked: new Set(this.model.get("selected_lanes") ?? []),
      places: this.places,
    });
    this.root.dataset.drawMs = (performance.now() - began).toFixed(1);
    this.root.dataset.window = `${this.window.t0.toFixed(6)} ${this.window.t1.toFixed(6)}`;
    this.drawCard();
  }

  drawCard() {
    const account = this.microbatch == null ? null : this.plans[0]?.bars.account(this.microbatch);
    this.card.hidden = !account;
    if (!account) return;
    const stages = [...new Set(account.path.map((i) => this.plans[0].bars.row(i).stage))];
    const facts = [
      ["", `Microbatch ${this.microbatch}`],
      [
        "stages",
        stages.length > 1 ? `${Math.min(...stages)} → ${Math.max(...stages)} → ${Math.min(...stages)}` : String(stages[0]),
      ],
      ["enters, leaves", `${seconds(account.enters_s)}, ${seconds(account.leaves_s)}`],
      ["computing", seconds(account.computing_s)],
      ["in transit", `${seconds(account.transit_s)}, ${plural(account.hops, "transfer")}`],
      ["waiting", seconds(account.waiting_s)],
    ];
    keyed(
      this.card,
      facts,
      ([name]) => name,
      () => h("span", {}, h("i", {}), h("b", {})),
      (span, [name, value]) => {
        set(span.children[0], { text: name });
        set(span.children[1], { text: value });
      },
    );
  }

  zoom(factor, share) {
    this.window.zoom(factor, share);
    this.paint();
  }

  timeAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - LABEL_PX) / (box.width - LABEL_PX - 4);
    return {
      share,
      t: this.window.t0 + share * this.window.span,
      y: event.clientY - box.top,
      perPx: this.window.span / (box.width - LABEL_PX - 4),
    };
  }

  /** The bar under the pointer. @returns {{plan: any, i: number}|null} */
  under(event) {
    const { share, t, y, perPx } = this.timeAt(event);
    const place = share < 0 ? null : hit(this.places.plans, y);
    if (!place) return null;
    const plan = this.plans[place.plan];
    const i = plan.bars.at(place.lane, place.wire, t, place.wire ? perPx * 2 : 0);
    return i < 0 ? null : { plan, i };
  }

  follow(microbatch) {
    this.sync.set("microbatch", microbatch);
    const account = microbatch == null ? null : this.plans[0]?.bars.account(microbatch);
    this.live.textContent = account
      ? `Microbatch ${microbatch}: computing ${seconds(account.computing_s)}, waiting ${seconds(account.waiting_s)}`
      : "";
  }

  attach() {
    const { canvas } = this;
    let pan = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      pan = { x: event.clientX, t0: this.window.t0, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (pan && (pan.moved || Math.abs(event.clientX - pan.x) > 4)) {
        pan.moved = true;
        this.window.place(pan.t0 - (event.clientX - pan.x) * this.timeAt(event).perPx, this.window.span);
        this.tip.hide();
        return this.paint();
      }
      return this.hover(event);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (pan && !pan.moved) {
        const found = this.under(event);
        const microbatch = found ? found.plan.bars.microbatch(found.i) : -1;
        this.follow(microbatch < 0 || microbatch === this.microbatch ? null : microbatch);
      }
      pan = null;
    });
    canvas.addEventListener("pointerleave", () => this.tip.hide());
    canvas.addEventListener(
      "wheel",
      (event) => {
        const mine = event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === canvas;
        if (!mine) return; // the page scrolls until the timeline is clicked
        event.preventDefault();
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
          this.window.pan((event.deltaX || event.deltaY) / 800);
        else this.window.zoom(Math.exp(event.deltaY / 400), Math.min(1, Math.max(0, this.timeAt(event).share)));
        this.paint();
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = {
      w: () => this.window.zoom(0.7),
      s: () => this.window.zoom(1 / 0.7),
      a: () => this.window.pan(-0.15),
      d: () => this.window.pan(0.15),
      "+": () => this.window.zoom(0.7),
      "-": () => this.window.zoom(1 / 0.7),
      0: () => this.window.all(),
      ArrowRight: () => this.follow((this.microbatch ?? -1) + 1),
      ArrowLeft: () => this.follow(Math.max(0, (this.microbatch ?? 1) - 1)),
      Escape: () => this.follow(null),
    };
    const work = moves[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!work) return;
    event.preventDefault();
    work();
    this.paint();
  }

  hover(event) {
    const found = this.under(event);
    this.canvas.style.cursor = found ? "pointer" : "";
    if (!found) return this.tip.hide();
    const row = found.plan.bars.row(found.i);
    const lanes = found.plan.view.lanes;
    const which =
      row.microbatch < 0
        ? ""
        : row.count > 1
          ? `, microbatches ${row.microbatch} to ${row.microbatch + row.count - 1}`
          : `, microbatch ${row.microbatch}`;
    const wire =
      row.kind >= FIRST_WIRE
        ? `\n${row.peer >= 0 && row.peer !== row.lane ? `to ${lanes[row.peer]?.name ?? row.peer}, ` : ""}${bytes(row.bytes)}`
        : "";
    return this.tip.show(
      `${KIND_NAMES[row.kind] ?? row.kind}${which}\n${lanes[row.lane].name}${row.copy ? `, copy ${row.copy}` : ""}: ${seconds(row.end_s - row.start_s)}\n${seconds(row.start_s, row.end_s)} to ${seconds(row.end_s)}${wire}`,
      event,
    );
  }

  makeTable() {
    const rows = this.plans.flatMap((plan, p) =>
      plan.bars.first(TABLE_ROWS).map((i) => {
        const row = plan.bars.row(i);
        return [
          plan.view.lanes[row.lane]?.name ?? row.lane,
          this.plans.length > 1 ? (plan.view.name ?? "AB"[p]) : "",
          KINDS[row.kind] ?? row.kind,
          row.microbatch < 0 ? "" : row.microbatch,
          seconds(row.start_s, row.end_s),
          seconds(row.end_s),
          seconds(row.end_s - row.start_s),
        ];
      }),
    );
    return table(
      "Bars of the timeline",
      ["lane", "plan", "kind", "microbatch", "start", "end", "duration"],
      rows,
      this.plans.reduce((sum, plan) => sum + plan.bars.length, 0),
    );
  }

  close() {
    this.sync.close();
    for (const name of ["microbatch", "selected_lanes"]) this.model.off(`change:${name}`, this.repaint);
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.closeRoot();
    this.root.remove();
  }
}

function render({ model, el }) {
  const view = new TimelineView(model, el);
  return () => view.close();
}

export default { render };
