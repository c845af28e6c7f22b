// The layer graph: modules by path with repeats folded, open ones laid open in place.

import { h, keyed, set } from "../common/dom.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { Card } from "./card.js";
import { Positions, select, step, without } from "./choose.js";
import { scaleOf } from "./colour.js";
import { drawEdges, drawFrames, drawNode, makeNode, picture } from "./draw.js";
import { Head } from "./head.js";
import { nest } from "./nest.js";
import { SearchBox } from "./searchbox.js";
import { Strip } from "./strip.js";
import { layersOf } from "./words.js";

const ALL = "/*"; // behind an id: open all levels in it

class GraphWidget {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "graph", "Layer graph");
    this.root = root;
    this.closeRoot = close;
    this.focus = null;
    this.wanted = null; // a node that shall have the focus once it is there
    this.laid = null;
    this.build();
    this.sync = new Sync(model, ["view", "selection", "colour", "opened", "index", "card", "edits"], () => this.draw());
    this.width = 0; // asked for when it changes only: in a drawing it would lay the page out once more
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(root);
    root.addEventListener("click", (event) => this.click(event));
    root.addEventListener("dblclick", (event) => this.doubled(event));
    root.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("focusin", (event) => this.focused(event));
    this.draw();
  }

  build() {
    this.search = new SearchBox(
      () => this.positions.layers,
      (name) => this.go(name),
      (text) => this.say(text),
    );
    this.head = new Head(this.search.element, (mode) => this.colour(mode));
    this.parts = picture();
    this.empty = h("div", { class: "sx-empty", text: "No model yet." });
    this.omitted = h("div", { class: "sx-empty" });
    this.strip = new Strip();
    this.card = new Card({
      choose: (row) => this.sync.send("choose_for_layer", { of: row.kind, key: row.key }),
      scope: (change) => this.inspect(change),
      close: () => this.closeCard(),
    });
    this.live = h("div", { class: "sx-live", "aria-live": "polite" });
    const { head, parts, strip, card } = this;
    this.root.append(head.title, head.bar, this.empty, parts.canvas, this.omitted, card.element, strip.element, this.live);
  }

  get view() {
    return this.model.get("view") ?? {};
  }
  get mode() {
    const told = this.model.get("colour") ?? "time";
    return told === "error" && this.view.no_errors ? "time" : told;
  }
  get nodes() {
    return this.view.nodes ?? [];
  }

  resized() {
    const width = this.root.clientWidth - 36; // padding, and the shadow of a fold
    if (width === this.width) return;
    this.width = width;
    this.draw();
  }

  say(text) {
    set(this.live, { text });
  }

  // ---- drawing

  draw() {
    const { view, nodes, width } = this;
    const ready = nodes.length > 0;
    for (const part of [this.head, this.parts.canvas, this.strip.element]) part.hidden = !ready;
    this.empty.hidden = ready;
    set(this.omitted, { text: view.omitted ?? "", hidden: !view.omitted });
    if (!ready || width <= 0) return;
    const begun = performance.now();
    this.read();
    if (this.laid?.nodes !== nodes || this.laid.width !== width) this.laid = { nodes, width, ...nest(nodes, view.edges, width) };
    this.settleFocus();
    this.drawHead();
    this.drawPicture();
    this.drawStrip();
    this.drawCard();
    this.root.dataset.drawMs = (performance.now() - begun).toFixed(1);
    if (this.wanted) this.takeFocus();
  }

  /** The index and the selection in positions; kept until they change. */
  read() {
    const [index, selection] = [this.model.get("index"), this.model.get("selection") ?? []];
    if (this.index !== index || !this.positions) {
      this.index = index;
      this.positions = new Positions(index);
      this.chosenOf = null;
    }
    if (this.chosenOf !== selection) {
      this.chosenOf = selection;
      this.chosen = this.positions.ranges(selection);
    }
  }

  /** The wanted node if it is there, else what stands in its place; else the first. */
  settleFocus() {
    const known = (id) => this.laid.boxes.has(id);
    const wished = this.wanted ?? this.place;
    if (!known(wished?.id) && wished) {
      const holds = this.nodes.filter((n) => n.ranges.some(([first, count]) => first <= wished.at && wished.at < first + count));
      this.focus = holds.at(-1)?.id ?? null;
    } else if (wished) this.focus = wished.id;
    if (!known(this.focus)) this.focus = this.nodes[0].id;
    this.place = this.placeOf(this.focus);
  }

  placeOf(id) {
    return { id, at: this.nodes.find((n) => n.id === id)?.ranges[0]?.[0] ?? 0 };
  }

  drawHead() {
    const { view, nodes, mode } = this;
    const shown = nodes.filter((n) => !n.open);
    this.scale = scaleOf(nodes, mode);
    this.head.draw({
      layers: this.positions.layers.length || shown.reduce((sum, n) => sum + layersOf(n), 0),
      nodes: shown.length,
      mode,
      scale: this.scale,
      noErrors: view.no_errors,
    });
  }

  drawPicture() {
    const { view, nodes, mode, scale, laid, parts } = this;
    set(parts.size, { style: { width: `${Math.ceil(laid.w)}px`, height: `${Math.ceil(laid.h) + 14}px` } });
    const byId = new Map(nodes.map((n) => [n.id, n]));
    drawFrames(
      parts,
      nodes.filter((n) => n.open),
      laid.boxes,
    );
    const sizes = new Map();
    for (const n of nodes) sizes.set(n.parent, (sizes.get(n.parent) ?? 0) + 1);
    const seen = new Map();
    keyed(
      parts.nodes,
      nodes,
      (n) => n.id,
      makeNode,
      (element, n) => {
        seen.set(n.parent, (seen.get(n.parent) ?? 0) + 1);
        drawNode(element, n, laid.boxes.get(n.id), {
          scale,
          mode,
          held: this.positions.held(this.chosen, n.ranges),
          focus: this.focus,
          place: [seen.get(n.parent), sizes.get(n.parent)],
          otherName: view.other_name,
          frame: byId.get(n.parent) ?? null,
        });
      },
    );
    drawEdges(parts, laid.paths, this.inFocus ? this.focus : null);
  }

  drawStrip() {
    this.strip.draw(this.inFocus ? (this.nodes.find((n) => n.id === this.focus) ?? null) : null, this.view, this.edits);
  }

  // ---- the card of a layer

  /** Does anybody answer what is asked of a layer? */
  get edits() {
    return Boolean(this.model.get("edits")) && !this.model.link?.shut;
  }

  drawCard() {
    const card = this.model.get("card") ?? {};
    this.card.draw(card, !this.edits);
    if (!this.entering || !card.layer) return;
    this.entering = false;
    this.card.focus();
  }

  /** Ask for the card of a node: of a layer its layouts too, of a part what the stage of its first layer keeps. */
  inspectNode(n, enter = false) {
    const layer = this.positions.layers[n.ranges[0]?.[0]];
    if (!this.edits || layer == null) return;
    this.entering = enter;
    this.from = n.id;
    this.inspect({ layer, whole: !isLayer(n) });
  }

  inspect(change) {
    const { layer, whole, all_alike: alike, kept_for: kept } = { ...this.model.get("card"), ...change };
    this.sync.send("inspect", { layer, whole: Boolean(whole), all_alike: Boolean(alike), kept_for: kept ?? "stage" });
  }

  closeCard() {
    this.entering = false;
    this.sync.send("inspect", { layer: null });
    this.elementOf(this.from ?? this.focus)?.focus();
  }

  // ---- opening

  /** Write the open parts; Python answers with a view. */
  open(ids, focus) {
    this.wanted = { ...focus, since: this.nodes };
    this.sync.set("opened", [...new Set(ids)]);
  }

  act(action, id) {
    const n = this.nodes.find((node) => node.id === id);
    if (!n) return;
    if (action === "inspect") return this.inspectNode(n, true);
    const opened = this.model.get("opened") ?? [];
    const rest = without(this.nodes, opened, id);
    if (action === "open" || action === "open-all") {
      const target = this.target(n);
      if (!target) return this.say(n.count > 1 ? `${n.label}: single layers, nothing to open` : `${n.label} is a single layer`);
      this.open([...opened, action === "open" ? target : target + ALL], { id: target, at: this.positions.at.get(target)?.[0] ?? n.ranges[0][0] });
      this.say(`${n.label} open`);
    } else if (action === "close" && n.open) {
      this.open(rest, this.placeOf(id));
      this.say(`${n.label} closed`);
    } else if (action === "unfold" && n.repeat) this.open([...opened, n.repeat], this.placeOf(id));
    else if (action === "fold" && n.repeat) this.open(opened.filter((key) => key !== n.repeat), this.placeOf(id));
  }

  /** What opens: the part, or of a repeat the member that holds the selection, else its first. */
  target(n) {
    if (n.opens.length < 2) return n.opens[0] ?? null;
    const { held, share } = this.positions.held(this.chosen, n.ranges);
    return n.opens[held && held < layersOf(n) ? Math.min(n.opens.length - 1, Math.floor(share * n.opens.length)) : 0];
  }

  /** Open the way to a layer, select it and bring it into sight. */
  go(name) {
    const at = this.positions.at.get(name)?.[0] ?? 0;
    this.sync.set("selection", [name]);
    if (this.laid.boxes.has(name)) {
      this.wanted = { id: name, at, since: null };
      this.draw();
    } else this.open([...(this.model.get("opened") ?? []), name], { id: name, at });
    this.say(`${name} selected`);
  }

  /** Give the focus to the wanted node, once the view that shows it has come. */
  takeFocus() {
    if (this.nodes === this.wanted.since) return; // not answered yet
    this.wanted = null;
    const element = this.elementOf(this.focus);
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  elementOf(id) {
    return [...this.parts.nodes.children].find((element) => element.dataset.node === id);
  }

  // ---- gestures

  get inFocus() {
    return this.root.contains(document.activeElement) && this.touched === true;
  }

  focused(event) {
    const id = event.target.closest?.("[data-node]")?.dataset.node;
    if (id == null) return;
    this.touched = true;
    if (this.wanted && this.wanted.id !== id) this.wanted = null; // somebody went elsewhere meanwhile
    this.move(id, false);
  }

  /** Make a node the current one. */
  move(id, focus = true) {
    if (!this.laid?.boxes.has(id)) return;
    const element = this.elementOf(id);
    if (this.focus !== id) {
      const old = this.elementOf(this.focus);
      if (old) old.tabIndex = -1;
      this.focus = id;
      this.place = this.placeOf(id);
    }
    element.tabIndex = 0;
    if (focus) element.focus();
    drawEdges(this.parts, this.laid.paths, this.focus);
    this.drawStrip();
  }

  click(event) {
    const action = event.target.closest("[data-action]");
    if (action?.dataset.for != null) return this.act(action.dataset.action, action.dataset.for);
    const close = event.target.closest("[data-close]");
    if (close) return this.act("close", close.dataset.close);
    const element = event.target.closest("[data-node]");
    if (!element) return;
    this.move(element.dataset.node);
    const more = event.shiftKey || event.ctrlKey || event.metaKey;
    this.choose(element.dataset.node, more);
    const n = this.nodes.find((node) => node.id === element.dataset.node);
    if (!more && n && (isLayer(n) || this.model.get("card")?.layer)) this.inspectNode(n);
  }

  doubled(event) {
    const id = event.target.closest("[data-node]")?.dataset.node;
    if (id == null) return;
    const n = this.nodes.find((node) => node.id === id);
    this.act(n?.open ? "close" : event.shiftKey ? "open-all" : "open", id);
  }

  choose(id, extend) {
    const n = this.nodes.find((node) => node.id === id);
    const ids = this.positions.layers.length ? this.positions.idsOf(n.ranges) : [n.id];
    const now = this.model.get("selection") ?? [];
    this.sync.set("selection", select(now, ids, extend));
  }

  colour(mode) {
    if (mode === "error" && this.view.no_errors) return this.say(`Prediction error: ${this.view.no_errors}`);
    this.sync.set("colour", mode);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const radio = event.target.closest?.("[role=radio]");
    const id = event.target.closest?.("[data-node]")?.dataset.node;
    let done = true;
    if (event.target.closest?.(".g-card")) {
      done = event.key === "Escape" || this.card.key(event);
      if (event.key === "Escape") this.closeCard();
    } else if (radio) done = this.head.key(event.key, this.mode, this.view.no_errors);
    else if (event.target === this.search.input) return;
    else if (event.key === "/") this.search.input.focus();
    else if (id != null) done = this.nodeKey(event, id);
    else done = false;
    if (done) event.preventDefault();
  }

  nodeKey(event, id) {
    const n = this.nodes.find((node) => node.id === id);
    const { key } = event;
    if (/^(Arrow|Home$|End$)/.test(key)) {
      const next = step(this.nodes, this.view.edges, id, key);
      if (next != null) this.move(next);
    } else if (this.edits && (key === "e" || (key === "Enter" && isLayer(n)))) this.inspectNode(n, true);
    else if (key === "Escape" && this.model.get("card")?.layer) this.closeCard();
    else if (key === "Enter") this.act(n.open ? "close" : event.shiftKey ? "open-all" : "open", id);
    else if (key === "Escape" || key === "Backspace") {
      const frame = n.open ? n.id : n.parent;
      if (frame == null) return false;
      this.act("close", frame);
    } else if (key === " ") this.choose(id, event.shiftKey);
    else if (key === "u" && n.repeat) this.act(n.unfolded ? "fold" : "unfold", id);
    else return false;
    return true;
  }

  close() {
    this.sync.close();
    this.observer.disconnect();
    this.closeRoot();
    this.root.remove();
  }
}

/** Is a node one layer? */
const isLayer = (n) => n.count === 1 && !n.open && layersOf(n) === 1;

function render({ model, el }) {
  const widget = new GraphWidget(model, el);
  return () => widget.close();
}

export default { render: linked(render) };
