// The board: reads the model's traits, keeps what is only of the page (scale, focus, a drag under way), draws.

import { h, keyed } from "../common/dom.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { chipLook } from "./chip.js";
import { drawDetail, makeDetail } from "./detail.js";
import { attachGestures } from "./gestures.js";
import { drawHead, makeHead } from "./head.js";
import { attachKeyboard } from "./keyboard.js";
import { drawGroup, drawLane, makeGroup, makeLane } from "./lane.js";
import { fitScale, memoryScale, rowsOf } from "./layout.js";
import { drawLinks, makeLinks } from "./links.js";
import { Catalog, piecesOf } from "./model.js";
import { moved } from "./estimate.js";
import { drawOverview, makeOverview } from "./overview.js";
import { drawIdeal, drawRuler, makeIdeal, makeRuler } from "./ruler.js";

/** Everything the board's parts share. One per drawn board. */
export class BoardContext {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "board", "Board");
    this.root = root;
    this.closeRoot = close;
    this.trackPx = 600;
    this.scale_s = 1;
    this.scaleKey = null;
    this.optimistic = null; // view drawn until Python answers
    this.preview = null; // {view, positions, target, boundary} while something is carried
    this.focusKey = null;
    this.anchor = null; // flat position where a shift-range starts
    this.afterAnswer = null; // says the result of the last move, once known
    this.sync = new Sync(
      model,
      ["view", "blocks", "selection", "expanded", "collapsed", "colour"],
      () => this.draw(),
      true,
    );
    this.build();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.track);
    this.root.addEventListener("sx-theme", () => this.tellTheme());
    this.tellTheme();
    attachGestures(this);
    attachKeyboard(this);
    this.readCatalog();
    this.draw();
  }

  build() {
    this.head = makeHead(this);
    this.overview = makeOverview(this);
    this.ruler = makeRuler();
    this.track = this.ruler.querySelector(".b-cell-track");
    this.lanes = h("div", { class: "b-lanes" });
    this.ideal = makeIdeal();
    this.stage = h("div", { class: "b-stage" }, this.lanes, this.ideal);
    this.body = h("div", { class: "b-body" }, this.overview, this.ruler, this.stage);
    this.empty = h("div", { class: "sx-empty", text: "No strategy yet. Choose a model and a cluster." });
    this.detail = makeDetail(this);
    this.live = h("div", { class: "sx-live", "aria-live": "polite", role: "status" });
    this.root.append(this.head, this.empty, this.body, this.detail, this.live);
  }

  get pending() {
    return this.sync.pending;
  }
  get actual() {
    return this.model.get("view") ?? {};
  }
  /** What is drawn: the answer still outstanding, else Python's. */
  get view() {
    return this.pending && this.optimistic ? this.optimistic : this.actual;
  }
  get editable() {
    return this.actual.editable !== false;
  }
  get expanded() {
    return new Set(this.model.get("expanded") ?? []);
  }
  get colour() {
    return this.model.get("colour") ?? "kind";
  }
  get selected() {
    return this.catalog.positions(this.model.get("selection") ?? []);
  }

  lane(id) {
    return this.view.lanes?.find((lane) => lane.id === id) ?? null;
  }
  laneElement(id) {
    return this.lanes.querySelector(`[data-lane="${CSS.escape(id)}"]`);
  }
  chipElement(key) {
    return this.lanes.querySelector(`[data-key="${CSS.escape(key)}"].b-chip`);
  }

  readCatalog() {
    const blocks = this.model.get("blocks") ?? [];
    if (this.catalog?.blocks !== blocks) this.catalog = new Catalog(blocks);
  }

  select(positions) {
    this.sync.set("selection", this.catalog.ids(positions));
  }
  say(text) {
    this.live.textContent = text;
  }

  /** The only place that asks for the width: in a drawing it would lay the page out once more. */
  resized() {
    const width = this.track.clientWidth;
    if (!width || Math.abs(width - this.trackPx) < 1) return;
    this.trackPx = width;
    this.draw();
  }

  get narrow() {
    return this.root.clientWidth < 1050;
  }

  /** Rescale to what is there. Only on request, or for another model, cluster or number of lanes. */
  fit() {
    this.scale_s = fitScale(this.view, this.narrow);
    this.root.classList.add("b-scaling");
    setTimeout(() => this.root.classList.remove("b-scaling"), 200);
    this.draw();
  }

  tellTheme() {
    const theme = this.root.dataset.dark === "true" ? "dark" : "light";
    if (this.model.get("theme") !== theme) this.sync.set("theme", theme);
  }

  draw() {
    this.readCatalog();
    if (!this.pending) this.optimistic = null;
    const { view } = this;
    const ready = Boolean(view.lanes?.length && this.catalog.layers.length);
    for (const part of [this.head, this.body, this.detail]) part.hidden = !ready;
    this.empty.hidden = ready;
    if (!ready) return;
    if (this.scaleKey !== (view.scale_key ?? "")) {
      this.scaleKey = view.scale_key ?? "";
      this.scale_s = fitScale(view, this.narrow);
    }
    this.memory_bytes = memoryScale(view.lanes);
    this.pieces = new Map(view.lanes.map((lane) => [lane.id, piecesOf(this.catalog, lane, this.expanded)]));
    this.chosen = this.selected;
    this.look = chipLook(this);
    this.keepFocus(() => this.drawParts(view));
    if (!this.pending && this.afterAnswer) {
      this.afterAnswer();
      this.afterAnswer = null;
    }
  }

  drawParts(view) {
    this.root.dataset.state = this.pending ? "computing" : "ready";
    this.root.setAttribute("aria-busy", String(this.pending));
    const rows = rowsOf(view.lanes, new Set(this.model.get("collapsed") ?? []));
    this.compact = rows.some((row) => row.compact || row.type === "group");
    this.root.classList.toggle("b-compact", this.compact);
    this.roveTo(this.focusKey);
    drawHead(this, this.head);
    drawOverview(this, this.overview);
    drawRuler(this, this.ruler);
    const items = rows.flatMap((row) =>
      row.type === "lane" ? [row, { type: "links", lane: row.lane, compact: row.compact }] : [row],
    );
    keyed(
      this.lanes,
      items,
      (row) => (row.type === "group" ? `group:${row.name}` : `${row.type}:${row.lane.id}`),
      (row) => ({ lane: makeLane, links: makeLinks, group: makeGroup })[row.type](this, row),
      (element, row) => ({ lane: drawLane, links: drawLinks, group: drawGroup })[row.type](this, element, row),
    );
    drawIdeal(this, this.ideal);
    drawDetail(this, this.detail);
  }

  /** One chip is in the tab order: the focused one, else the first. */
  roveTo(key) {
    const all = [...this.pieces.values()].flat();
    this.focusKey = all.some((p) => p.key === key) ? key : (all[0]?.key ?? null);
  }

  /** Draw without losing the keyboard's place, even when the focused chip goes to another lane. */
  keepFocus(work) {
    const active = this.root.getRootNode().activeElement;
    const chip = active?.closest?.(".b-chip");
    const key = this.root.contains(chip) ? chip.dataset.key : null;
    const place = key ? this.lanes.querySelector(`[data-key="${CSS.escape(key)}"]`)?.dataset.first : null;
    work();
    if (!key || this.root.getRootNode().activeElement === this.chipElement(key)) return;
    const next = this.chipElement(key) ?? this.lanes.querySelector(`.b-chip[data-first="${place}"]`);
    if (next) this.focusChip(next.dataset.key);
  }

  focusChip(key) {
    const before = this.focusKey && this.chipElement(this.focusKey);
    if (before) before.tabIndex = -1;
    this.focusKey = key;
    const chip = this.chipElement(key);
    if (chip) {
      chip.tabIndex = 0;
      chip.focus();
    }
  }

  /** Show what a move would do, in the lanes it touches only. `null` ends it. */
  setPreview(preview) {
    const touched = new Set();
    const note = (p) => {
      if (!p) return;
      touched.add(p.target);
      for (const lane of this.view.lanes) if (lane.runs.some((run) => overlaps(run, p.positions))) touched.add(lane.id);
    };
    note(this.preview);
    if (preview?.target != null)
      preview = { ...preview, view: moved(this.catalog, this.view, preview.positions, preview.target) };
    this.preview = preview;
    note(preview);
    for (const lane of this.view.lanes) {
      const element = touched.has(lane.id) ? this.laneElement(lane.id) : null;
      if (element) drawLane(this, element, { type: "lane", lane, compact: this.compact });
    }
    drawDetail(this, this.detail);
  }

  /** Send a move and show it at once. */
  move(positions, toLane) {
    if (!this.editable) return;
    const gained = [...positions].filter(
      (p) => !this.lane(toLane)?.runs.some((run) => run.first <= p && p < run.first + run.count),
    );
    if (!gained.length) return;
    const layers = gained.sort((a, b) => a - b).map((p) => this.catalog.layers[p].id);
    this.commit(positions, toLane, "move", { layers, to_lane: toLane });
  }

  /** Send a boundary shift and show it at once. @param {any} boundary @param {number} to new position of the cut */
  moveBoundary(boundary, to) {
    if (!this.editable || to === boundary.at) return;
    const positions = new Set();
    for (let i = Math.min(boundary.at, to); i < Math.max(boundary.at, to); i += 1) positions.add(i);
    const target = to > boundary.at ? boundary.before_lane : boundary.after_lane;
    this.commit(positions, target, "move_boundary", {
      boundary: boundary.id,
      before: boundary.before,
      after: boundary.after,
      layers: to - boundary.at,
    });
  }

  commit(positions, target, kind, fields) {
    this.optimistic = moved(this.catalog, this.view, positions, target);
    const what = this.catalog.describe(positions);
    this.sync.send(kind, fields);
    this.afterAnswer = () => this.say(this.result(what, target));
    this.draw();
  }

  /** What to say aloud after a move. */
  result(what, laneId) {
    const lane = this.lane(laneId);
    if (!lane) return `${what} moved`;
    const { time, memory } = this.head.laneWords(lane);
    return `${what} moved to ${lane.name}: ${time}, ${memory}`;
  }

  close() {
    this.sync.close();
    this.observer.disconnect();
    this.closeRoot();
    this.stopGestures?.();
    this.root.remove();
  }
}

const overlaps = (run, positions) => {
  for (const p of positions) if (run.first <= p && p < run.first + run.count) return true;
  return false;
};

function render({ model, el }) {
  const context = new BoardContext(model, el);
  return () => context.close();
}

export default { render };
