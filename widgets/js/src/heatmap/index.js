// Heatmap widget: memory by device over time or by part, traffic from device to device or by link over time.

import { float32 } from "../common/binary.js";
import { family, prepare, Tip, tokens } from "../common/canvas.js";
import { h, heading, keyed, set } from "../common/dom.js";
import { linked } from "../common/link.js";
import { pictureButtons } from "../common/picture.js";
import { makeRoot } from "../common/root.js";
import { joinTime, leaveTime } from "../common/shared-time.js";
import { Sync } from "../common/sync.js";
import { tableToggle } from "../common/table.js";
import { gridOf, moveCell, picturesOf, scaleOf } from "./cells.js";
import { drawOver, drawPanel, TOKENS } from "./draw.js";
import { Legend } from "./legend.js";
import { boxOf, cellUnder, panelsOf, xTime } from "./panels.js";
import { againstWords, asTable, columnAt, placeWords, summary, timeAt, titleOf, valueWords } from "./words.js";
import { wheel, zoomKey } from "./zoom.js";

class HeatmapView {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "heatmap", "Heatmap");
    this.root = root;
    this.cell = null;
    this.bench = model.get("bench") || null;
    this.time = joinTime(this.bench, this, (what) => this.timed && (what === "window" ? this.paint() : this.paintOver()));
    this.build();
    this.sync = new Sync(model, ["view", "cells", "view_b", "cells_b", "shown"], () => this.load());
    const repaint = () => this.paint();
    model.on("change:selected_lanes", repaint);
    const preview = (event) => {
      if ((event.detail?.bench ?? "") === (model.get("bench") ?? "")) root.classList.toggle("hm-dim", Boolean(event.detail?.values));
    };
    document.addEventListener("sx-preview", preview);
    root.addEventListener("sx-theme", () => {
      this.look = null;
      this.paint();
    });
    this.observer = new ResizeObserver(repaint);
    this.observer.observe(root);
    this.attach();
    this.close = () => {
      this.sync.close();
      model.off("change:selected_lanes", repaint);
      document.removeEventListener("sx-preview", preview);
      this.observer.disconnect();
      cancelAnimationFrame(this.frame);
      cancelAnimationFrame(this.overFrame);
      leaveTime(this.bench, this.time, this);
      close();
      root.remove();
    };
    this.load();
  }

  build() {
    this.head = heading("", "");
    this.switch = h("span", { class: "sx-seg", role: "radiogroup", "aria-label": "Picture" });
    this.canvas = h("canvas", { class: "hm-canvas", role: "application", tabindex: "0" });
    this.tableBox = h("div", {});
    this.over = h("canvas", { class: "hm-over", "aria-hidden": "true" });
    this.drawing = h("div", { class: "hm-drawing" }, this.canvas, this.over);
    this.legend = new Legend();
    this.empty = h("div", { class: "sx-empty", text: "Nothing to show yet: memory and traffic appear once a model and a cluster are chosen." });
    this.live = h("div", { class: "sx-live", "aria-live": "polite" });
    this.table = tableToggle(this.drawing, this.tableBox, () => asTable(this.plans, this.shown));
    const pictures = pictureButtons("figure", () => this.head.querySelector("h2").textContent.toLowerCase());
    this.head.append(h("span", { class: "sx-space" }), h("span", { class: "sx-acts" }, this.switch, this.table.button, pictures));
    this.root.append(this.head, this.empty, this.drawing, this.tableBox, this.legend.element, this.live);
    this.tip = new Tip(this.root);
  }

  get view() {
    return this.model.get("view") ?? {};
  }

  load() {
    const ready = Boolean(this.view.rows?.length);
    for (const part of [this.head, this.drawing, this.legend.element]) part.style.display = ready ? "" : "none";
    this.empty.hidden = ready;
    this.plans = [];
    if (!ready) return;
    const pictures = picturesOf(this.view);
    const wanted = this.model.get("shown");
    this.shown = pictures.some(([name]) => name === wanted) ? wanted : pictures[0]?.[0];
    this.plans = [
      ["view", "cells", "A"],
      ["view_b", "cells_b", "B"],
    ].flatMap(([v, c, name]) => {
      const view = this.model.get(v) ?? {};
      if (view.kind !== this.view.kind || !view.rows?.length || !picturesOf(view).some(([own]) => own === this.shown)) return [];
      return [{ view, name: view.name || name, grid: gridOf(view, float32(this.model.get(c)), this.shown) }];
    });
    const { grid } = this.plans[0];
    if (this.cell && (this.cell.r >= grid.rows.length || this.cell.k >= grid.columns)) this.cell = null;
    this.scale = scaleOf(this.plans.map((plan) => plan.grid));
    this.drawSwitch(pictures);
    this.time.reach(this, this.timed ? Math.max(...this.plans.map((plan) => plan.grid.end_s)) : 0);
    this.drawHead(grid);
    this.table.refresh();
    this.paint();
  }

  /** Does the picture have an axis of time? */
  get timed() {
    return this.plans?.[0]?.grid.kind === "time";
  }

  drawHead(grid) {
    const [head, sub] = titleOf(this.view, this.shown);
    set(this.root, { "aria-label": head });
    set(this.head.children[0], { text: head });
    set(this.head.children[1], { text: sub });
    this.legend.show(this.scale, grid.unit, this.note(grid));
    const words = this.plans.map(({ view, grid: own, name }) => `${this.plans.length > 1 ? `${name}: ` : ""}${summary(view, own, this.shown)}`);
    const zoom = this.timed ? " W and S zoom, A and D pan, 0 shows the whole step, here and on the timeline." : "";
    const help = `Arrow keys go from cell to cell, Enter marks the row.${zoom} The Table button gives the same as a table.`;
    set(this.canvas, { "aria-label": `${head}, ${sub}. ${words.join(" ")} ${help}` });
  }

  note(grid) {
    if (this.scale.log) return "log scale; empty: nothing sent";
    if (grid.unit === "share") return ["share of a link's capacity; empty: not used", this.view.links.text].filter(Boolean).join("; ");
    return this.shown === "parts" ? "bytes of a part; the last column is their sum" : "bytes in use; the scale ends at the capacity";
  }

  drawSwitch(pictures) {
    this.switch.hidden = pictures.length < 2;
    keyed(
      this.switch,
      pictures,
      ([name]) => name,
      ([name, text]) =>
        h("button", { class: "sx-btn", text, role: "radio", "data-action": `show-${name}`, on: { click: () => this.choose(name), keydown: (event) => this.switchKey(event, pictures) } }),
      (button, [name]) => set(button, { "aria-checked": String(name === this.shown), tabindex: name === this.shown ? "0" : "-1" }),
    );
  }

  choose(name) {
    this.cell = null;
    this.tip.hide();
    this.sync.set("shown", name);
    this.load();
  }

  switchKey(event, pictures) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = pictures.findIndex(([name]) => name === this.shown);
    this.choose(pictures[(at + by + pictures.length) % pictures.length][0]);
    this.switch.querySelector('[aria-checked="true"]')?.focus();
  }

  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const width = this.canvas.clientWidth;
      if (!this.plans.length || !width) return;
      this.look ??= { ...tokens(this.root, TOKENS), font: family(this.root) };
      const panels = this.place(width);
      const g = prepare(this.canvas, width, this.height);
      const marked = new Set(this.model.get("selected_lanes") ?? []);
      this.plans.forEach((plan, p) =>
        drawPanel(g, plan, panels[p], this.scale, { look: this.look, marked, shown: this.shown, cell: this.cellIn(p) }),
      );
      if (this.timed) this.root.dataset.window = `${this.time.window.t0.toFixed(6)} ${this.time.window.t1.toFixed(6)}`;
      this.paintOverNow();
    });
  }

  /** Say where everything stands at a width. @returns {any[]} */
  place(width) {
    const grids = this.plans.map((plan) => plan.grid);
    const { panels, height } = panelsOf(grids, width, this.timed ? this.time.window : undefined);
    Object.assign(this, { panels, height });
    return panels;
  }

  /** Draw cursor and area, in the next frame; the cells stay as they are. */
  paintOver() {
    this.overFrame ||= requestAnimationFrame(() => {
      this.overFrame = 0;
      this.paintOverNow();
    });
  }

  paintOverNow() {
    const width = this.canvas.clientWidth;
    if (!this.panels || !this.look || !width) return;
    const g = prepare(this.over, width, this.height);
    const { cursor, area } = this.time;
    if (this.timed) for (const panel of this.panels) drawOver(g, panel, { look: this.look, cursor, area });
    set(this.root, { "data-cursor": this.timed && cursor ? cursor.t.toFixed(6) : null });
  }

  /** Move the cursor to a time on a row of a plan. */
  point(t, p, row) {
    if (this.timed) this.time.point({ t: Math.min(this.time.window.end, Math.max(0, t)), plan: p, row: null, lane: row?.lane ?? null });
  }

  /** The keyboard's cell in a plan: in the second the same row and time, by name. */
  cellIn(p) {
    if (!this.cell || p === 0) return this.cell;
    const [{ grid }, other] = [this.plans[0], this.plans[p].grid];
    const r = other.rows.findIndex((row) => row.name === grid.rows[this.cell.r].name);
    const k = grid.kind === "time" ? columnAt(other, timeAt(grid, this.cell.k)) : grid.names ? other.names.indexOf(grid.names[this.cell.k]) : this.cell.k;
    return r < 0 || k < 0 ? null : { r, k };
  }

  attach() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("wheel", (event) => wheel(this, event), { passive: false });
    canvas.addEventListener("click", (event) => this.markRow(this.rowUnder(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.moveTo(null));
  }

  /** Plan and place under the pointer. */
  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    for (const [p, panel] of (this.panels ?? []).entries()) {
      const cell = x < panel.right + 4 && x >= panel.x ? cellUnder(this.plans[p].grid, panel, x, y) : null;
      if (cell) return { p, cell };
    }
    return null;
  }

  /** The row whose name or cells are under the pointer, of the first plan, or null. */
  rowUnder(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    for (const [p, panel] of (this.panels ?? []).entries()) {
      if (x < panel.x || x > panel.right) continue;
      const r = panel.tops.findIndex((top) => y >= top && y < top + panel.size);
      if (r >= 0) return this.plans[p].grid.rows[r];
    }
    return null;
  }

  markRow(row) {
    if (row?.lane == null) return;
    const marked = this.model.get("selected_lanes") ?? [];
    this.sync.set("selected_lanes", marked.length === 1 && marked[0] === row.lane ? [] : [row.lane]);
  }

  hover(event) {
    const found = this.under(event);
    this.canvas.style.cursor = this.rowUnder(event)?.lane != null ? "pointer" : "";
    const t = found && this.timed ? this.timeUnder(event, found.p) : null;
    if (t == null) this.leave();
    else this.point(t, found.p, this.plans[found.p].grid.rows[found.cell.r]);
    if (!found) return this.tip.hide();
    return this.tip.show(this.lines(found.p, found.cell).join("\n"), event);
  }

  timeUnder(event, p) {
    return xTime(this.panels[p].axis, event.clientX - this.canvas.getBoundingClientRect().left);
  }

  /** The pointer is elsewhere: the cursor goes back to the keyboard's cell. */
  leave() {
    this.tip.hide();
    if (!this.timed) return;
    if (this.cell) this.pointCell();
    else this.time.letGo();
  }

  pointCell() {
    const { grid } = this.plans[0];
    this.point(timeAt(grid, this.cell.k), 0, grid.rows[this.cell.r]);
  }

  /** What a cell is and holds; of the first plan also how the second differs. */
  lines(p, cell) {
    const { view, grid, name } = this.plans[p];
    const several = this.plans.length > 1;
    const lines = [placeWords(grid, cell), `${several ? `${name}: ` : ""}${valueWords(view, grid, cell)}`];
    if (several && p === 0) lines.push(againstWords(grid, this.plans[1].grid, this.plans[1].name, cell));
    return lines;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.plans.length) return;
    const { grid } = this.plans[0];
    if (/^(Arrow|Home$|End$)/.test(event.key)) this.moveTo(moveCell(grid, this.cell, event.key, event.shiftKey));
    else if ((event.key === "Enter" || event.key === " ") && this.cell) this.markRow(grid.rows[this.cell.r]);
    else if (event.key === "Escape") this.moveTo(null);
    else if (!zoomKey(this, event.key)) return;
    event.preventDefault();
  }

  moveTo(cell) {
    if (!cell && !this.cell) return;
    this.cell = cell;
    this.tip.hide();
    if (cell && this.panels) {
      if (this.timed) this.bringIntoSight(cell);
      const lines = this.lines(0, cell);
      this.live.textContent = lines.join(", ");
      const box = this.canvas.getBoundingClientRect();
      const [x, y, w, size] = boxOf(this.plans[0].grid, this.panels[0], cell);
      this.tip.show(lines.join("\n"), { clientX: box.left + x + w, clientY: box.top + y + size });
    }
    if (this.timed) cell ? this.pointCell() : this.time.letGo();
    this.paint();
  }

  bringIntoSight({ k }) {
    const { grid } = this.plans[0];
    const half = (grid.end_s - grid.start_s) / grid.columns / 2;
    const middle = timeAt(grid, k);
    this.time.window.show(Math.max(0, middle - half), middle + half);
    this.place(this.canvas.clientWidth);
  }
}

function render({ model, el }) {
  const view = new HeatmapView(model, el);
  return () => view.close();
}

export default { render: linked(render) };
