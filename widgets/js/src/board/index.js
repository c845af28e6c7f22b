// The board: reads the model's traits, keeps what is only of the page (scale, focus, a drag under way), draws.

import { h } from "../common/dom.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { onWorking } from "../common/working.js";
import { boundaryFields, considerSoon, gainedBy, moveFields, withAnswer } from "./consider.js";
import { makeDetail } from "./detail.js";
import { Devices, movedWords } from "./devices.js";
import { afterPaint, drawBoard } from "./draw.js";
import { moved } from "./estimate.js";
import { attachGestures } from "./gestures.js";
import { drawHead, laneWords, makeHead } from "./head.js";
import { Hold } from "./hold.js";
import { allPinned, boundaryRefusal, pinnedPositions, refusal, withLock, withPins } from "./holds.js";
import { attachKeyboard } from "./keyboard.js";
import { fitScale } from "./layout.js";
import { Catalog, ownersOf } from "./model.js";
import { makeOverview } from "./overview.js";
import { previewOf, tellPreview } from "./preview.js";
import { makeIdeal, makeRuler } from "./ruler.js";
import { settled } from "./stable.js";

const GREY_AFTER_MS = 120;
const MOST_MEASURES = 1000;

/** Everything the board's parts share. One per drawn board. */
class BoardContext {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "board", "Board");
    this.root = root;
    this.closeRoot = close;
    this.trackPx = 600;
    this.rootPx = 1000;
    this.scale_s = 1;
    this.scaleKey = null;
    this.optimistic = null; // view drawn until Python answers
    this.preview = null; // what `previewOf` makes, while something is carried
    this.answer = null; // what Python simulated of a preview, with the view it was made from
    this.hold = new Hold(this);
    this.focusKey = null;
    this.anchor = null; // flat position where a shift-range starts
    this.afterAnswer = null; // says the result of the last move, once known
    this.message = ""; // why the last gesture did nothing
    this.memory = new Map(); // of `once`
    this.view = {};
    this.sync = new Sync(
      model,
      ["view", "blocks", "selection", "expanded", "collapsed", "colour"],
      () => this.draw(),
      true,
    );
    this.build();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.track);
    this.hear = (content) => this.considered(content);
    model.on("msg:custom", this.hear);
    this.unwork = onWorking(
      () => model.get("bench") ?? "",
      (text) => this.root.classList.toggle("b-waiting", Boolean(text)),
    );
    this.root.addEventListener("sx-theme", () => this.tellTheme());
    this.tellTheme();
    attachGestures(this);
    attachKeyboard(this);
    this.unwatch = model.link?.watch(() => this.linkChanged());
    this.draw();
  }

  /** Nothing can be dropped any more: what is carried goes back, and nothing is said to have been done. */
  linkChanged() {
    if (!this.model.link.shut) return;
    this.putDown?.();
    this.stopGestures?.();
    this.closeMenu?.(false);
    this.afterAnswer = null;
  }

  build() {
    this.head = makeHead(this);
    this.overview = makeOverview(this);
    this.ruler = makeRuler();
    this.track = this.ruler.querySelector(".b-cell-track");
    this.lanes = h("div", { class: "b-lanes" });
    this.ideal = makeIdeal();
    this.stage = h("div", { class: "b-stage" }, h("div", { class: "b-tall" }, this.lanes, this.ideal));
    this.devices = new Devices(this);
    this.body = h("div", { class: "b-body" }, this.overview, this.ruler, this.stage, this.devices.idle);
    this.empty = h("div", { class: "sx-empty", text: "No strategy yet. Choose a model and a cluster." });
    this.detail = makeDetail(this);
    this.live = h("div", { class: "sx-live", "aria-live": "polite", role: "status" });
    // not on the root: any style sheet of the page that speaks of a state would restyle the whole board at every drop
    this.state = h("span", { class: "sx-state", "data-widget": "board", hidden: true });
    this.grip = h("div", { class: "b-grip" }); // holds the pointer of a drag, so that its cursor is shown everywhere
    this.park = h("div", { class: "b-park", tabindex: "-1" }); // holds the focus while its chip is between two lanes
    this.root.append(this.head, this.empty, this.body, this.devices.panel, this.detail, this.live, this.state, this.grip, this.park);
  }

  get pending() {
    return this.sync.pending;
  }
  get actual() {
    return this.model.get("view") ?? {};
  }
  get editable() {
    return this.actual.editable !== false && !this.model.link?.shut;
  }
  get colour() {
    return this.model.get("colour") ?? "kind";
  }
  get narrow() {
    return this.rootPx < 1050;
  }

  /** A value derived from others, made again when one of those is another. @template T @param {string} name @param {any[]} from @param {() => T} make @returns {T} */
  once(name, from, make) {
    const known = this.memory.get(name);
    if (known && known.from.every((value, i) => Object.is(value, from[i]))) return known.value;
    const value = make();
    this.memory.set(name, { from, value });
    return value;
  }

  get expanded() {
    const ids = this.model.get("expanded");
    return this.once("expanded", [ids], () => new Set(ids ?? []));
  }
  get collapsed() {
    const names = this.model.get("collapsed");
    return this.once("collapsed", [names], () => new Set(names ?? []));
  }
  /** Flat positions that are selected. Never changed in place. */
  get selected() {
    const ids = this.model.get("selection");
    return this.once("selected", [ids, this.catalog], () => this.catalog.positions(ids ?? []));
  }
  get pinned() {
    return this.once("pinned", [this.view.pinned, this.catalog], () => pinnedPositions(this.catalog, this.view));
  }
  get owners() {
    return this.once("owners", [this.view.lanes, this.catalog], () => ownersOf(this.view, this.catalog.layers.length));
  }

  lane(id) {
    return this.view.lanes?.find((lane) => lane.id === id) ?? null;
  }
  laneElement(id) {
    return this.lanes.querySelector(`[data-lane="${CSS.escape(id)}"]`);
  }
  chipElement(key) {
    return this.lanes.querySelector(`.b-chip[data-key="${CSS.escape(key)}"]`);
  }

  /** What is drawn: the answer still outstanding, else Python's; with all that is equal kept. */
  read() {
    const blocks = this.model.get("blocks") ?? [];
    if (this.catalog?.blocks !== blocks) this.takeBlocks(blocks);
    if (!this.pending) this.optimistic = null;
    const given = this.optimistic ?? this.actual;
    if (given !== this.given) {
      this.given = given;
      this.view = settled(this.view, given);
    }
  }

  /** Other blocks: what is carried or unanswered is of the former ones, and its positions mean nothing now. */
  takeBlocks(blocks) {
    const first = !this.catalog;
    this.catalog = new Catalog(blocks);
    this.optimistic = null;
    if (first) return;
    this.hold.drop();
    queueMicrotask(() => this.stopGestures?.());
  }

  select(positions) {
    this.message = "";
    this.sync.set("selection", this.catalog.ids(positions));
  }

  say(text) {
    this.live.textContent = text;
  }

  /** Say why nothing happened, aloud and in the strip below the lanes. */
  tell(text) {
    this.message = text;
    this.say(text);
    this.draw();
  }

  /** The only place that asks for widths: in a drawing it would lay the page out once more. */
  resized() {
    const [width, whole] = [this.track.clientWidth, this.root.clientWidth];
    if (!width || (Math.abs(width - this.trackPx) < 1 && whole === this.rootPx)) return;
    [this.trackPx, this.rootPx] = [width, whole];
    this.draw();
  }

  /** Rescale to what is there. Only on request, or for another model, cluster or number of lanes. */
  fit() {
    this.scale_s = fitScale(this.view, this.narrow);
    this.lanes.classList.add("b-scaling");
    setTimeout(() => this.lanes.classList.remove("b-scaling"), 200);
    this.draw();
  }

  tellTheme() {
    const theme = this.root.dataset.dark === "true" ? "dark" : "light";
    if (this.model.get("theme") !== theme) this.sync.set("theme", theme);
  }

  draw() {
    if (!this.hold.on) this.show();
    else if (this.pending) this.showState();
    else this.hold.end();
  }

  show() {
    this.read();
    const { view } = this;
    const ready = Boolean(view.lanes?.length && this.catalog.layers.length);
    for (const part of [this.head, this.body, this.detail]) if (part.hidden === ready) part.hidden = !ready;
    if (this.empty.hidden !== ready) this.empty.hidden = ready;
    if (!ready) return;
    if (this.scaleKey !== (view.scale_key ?? "")) {
      this.scaleKey = view.scale_key ?? "";
      this.scale_s = fitScale(view, this.narrow);
    }
    this.showState();
    drawHead(this, this.head);
    drawBoard(this);
    this.devices.draw();
    if (this.pending) return;
    this.afterAnswer?.();
    this.afterAnswer = null;
    this.measureRepaint();
  }

  /** Numbers turn grey only if the answer takes its time: a flicker would cost more than it says. */
  showState() {
    const state = this.pending ? "computing" : "ready";
    if (this.state.dataset.state !== state) this.state.dataset.state = state;
    if (this.pending && !this.greying) this.greying = setTimeout(() => this.root.classList.add("b-waiting"), GREY_AFTER_MS);
    if (this.pending || !this.greying) return;
    clearTimeout(this.greying);
    this.greying = 0;
    this.root.classList.remove("b-waiting");
  }

  /** Show what a move would do; `null` ends it. @param {any} carried see `previewOf` */
  setPreview(carried) {
    if (!carried && (this.hold.on || !this.preview)) return;
    if (this.hold.on) this.hold.end();
    this.message = "";
    this.preview = carried && withAnswer(this, previewOf(this, carried));
    considerSoon(this, this.preview);
    drawBoard(this);
    tellPreview(this, this.preview);
  }

  /** Python has simulated what is carried: its figures take the place of the estimate. @param {any} content */
  considered(content) {
    if (content?.considered?.kind === "device") return this.devices.considered(content);
    if (!content?.considered || !this.preview || this.pending) return;
    this.answer = { view: this.view, ...content };
    const next = withAnswer(this, this.preview);
    if (next === this.preview) return;
    this.preview = next;
    drawBoard(this);
    tellPreview(this, next);
  }

  /** Send a move and show it at once; says why, where it may not be. */
  move(positions, toLane) {
    const lane = this.lane(toLane);
    const gained = gainedBy(lane, positions);
    const refused = this.editable ? refusal(this, positions, toLane) : null;
    if (!this.editable || !gained.length || refused) {
      this.setPreview(null);
      if (refused) this.tell(refused);
      return;
    }
    this.commitMove(positions, toLane, "move", moveFields(this, gained, toLane));
  }

  /** Send a boundary shift and show it at once. @param {any} boundary @param {number} to new position of the cut */
  moveBoundary(boundary, to) {
    const refused = boundaryRefusal(this.view, boundary);
    const positions = new Set();
    for (let i = Math.min(boundary.at, to); i < Math.max(boundary.at, to); i += 1) positions.add(i);
    const target = to > boundary.at ? boundary.before_lane : boundary.after_lane;
    const why = refused ?? refusal(this, positions, target);
    if (!this.editable || to === boundary.at || why) {
      this.setPreview(null);
      if (why) this.tell(why);
      return;
    }
    this.commitMove(positions, target, "move_boundary", boundaryFields(boundary, to));
  }

  commitMove(positions, target, kind, fields) {
    const what = this.catalog.describe(positions);
    const known = this.preview?.simulated && this.preview.target === target ? this.preview.view : null;
    const view = known ?? moved(this.catalog, this.view, positions, target);
    this.commit(view, kind, fields, () => this.result(what, target));
  }

  /** Put a device, with its replica, somewhere else. @param {number} device @param {import("./devices.js").Place} place */
  moveDevice(device, { to_lane, to_device }) {
    if (!this.editable) return;
    const words = movedWords(this.view, device, { to_lane, to_device });
    this.commit(this.view, "device", { device, to_lane, to_device }, () => words);
  }

  /** Have the replicas of a lane share its samples otherwise. @param {any} lane @param {string} how */
  shareOtherwise(lane, how) {
    if (!this.editable || !lane || how === lane.sharing) return;
    this.commit(this.view, "sharing", { lane: lane.id, how }, () => `${lane.name} shares its samples otherwise`);
  }

  /** Pin layers to their devices; those that are all pinned are released. */
  togglePins(positions) {
    if (!positions.size || !this.editable) return;
    const on = !allPinned(this.pinned, positions);
    const layers = [...positions].sort((a, b) => a - b).map((p) => this.catalog.layers[p].id);
    const what = this.catalog.describe(positions);
    this.commit(withPins(this.catalog, this.view, layers, on), "pin", { layers, on }, () =>
      on ? `${what} pinned: stays on its devices` : `${what} released`,
    );
  }

  /** Lock a lane, so that it keeps exactly its layers, or unlock it. */
  toggleLock(id) {
    const lane = this.lane(id);
    if (!lane || !this.editable) return;
    const on = !lane.locked;
    this.commit(withLock(this.view, id, on), "lock", { lane: id, on }, () => `${lane.name} ${on ? "locked" : "unlocked"}`);
  }

  /**
   * Send the intent, show a view until the answer comes, and say what came of it. What was dropped shows already where
   * it goes: a moment is left to the answer before the board is drawn twice.
   */
  commit(view, kind, fields, words) {
    const notice = this.model.get("notice");
    this.dropAt ??= this.inputAt ?? performance.now();
    performance.clearMarks("sx-drop");
    performance.mark("sx-drop", { startTime: this.dropAt });
    this.message = "";
    this.optimistic = view;
    this.sync.send(kind, fields);
    this.afterAnswer = () => {
      if ((this.model.get("notice") ?? null) === (notice ?? null)) this.say(words());
    };
    if (this.preview?.view && this.pending) this.hold.begin();
    else this.hold.drop();
    this.draw();
  }

  /** From the gesture to the frame that shows the answer, for benchmarks: a measure named `sx-repaint`. */
  measureRepaint() {
    if (this.dropAt == null) return;
    const start = this.dropAt;
    this.dropAt = null;
    afterPaint(() => {
      if (performance.getEntriesByName("sx-repaint").length >= MOST_MEASURES) performance.clearMeasures("sx-repaint");
      performance.measure("sx-repaint", { start, end: performance.now() });
    });
  }

  /** What to say aloud after a move. */
  result(what, laneId) {
    const lane = this.lane(laneId);
    if (!lane) return `${what} moved`;
    const { time, memory } = laneWords(lane);
    return `${what} moved to ${lane.name}: ${time}, ${memory}`;
  }

  close() {
    this.sync.close();
    this.model.off("msg:custom", this.hear);
    this.unwork();
    this.unwatch?.();
    this.observer.disconnect();
    this.nearness?.close();
    clearTimeout(this.greying);
    this.stopGestures?.();
    this.closeMenu?.(false);
    this.hold.drop();
    this.closeRoot();
    this.root.remove();
  }
}

function render({ model, el }) {
  const context = new BoardContext(model, el);
  return () => context.close();
}

export default { render: linked(render) };
