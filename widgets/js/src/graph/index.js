// The layer graph: a spine of blocks with repeats folded, one block open below it.

import { h, heading, keyed, set, svg } from "../common/dom.js";
import { bytes, count, seconds } from "../common/format.js";
import { makeRoot } from "../common/root.js";
import { cividis, inkOn, rgb } from "../common/scales.js";
import { Sync } from "../common/sync.js";
import { edgePath, place } from "./layout.js";

const MODES = [
  ["time", "Time"],
  ["memory", "Memory"],
  ["traffic", "Traffic"],
  ["device", "Device"],
];
const VALUE = {
  time: (n) => (n.forward_s ?? 0) + (n.backward_s ?? 0),
  memory: (n) => n.memory_bytes ?? 0,
  traffic: (n) => n.traffic_bytes ?? 0,
  device: () => 0,
};

class GraphWidget {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "graph", "Layer graph");
    this.root = root;
    this.closeRoot = close;
    this.focus = null;
    this.head = heading("Layer graph", "");
    this.scale = h("span", { class: "sx-legend" }, h("span", {}, h("span", {}), h("i", { class: "sx-ramp" }), h("span", {})));
    this.modes = h(
      "span",
      { class: "sx-seg", role: "radiogroup", "aria-label": "Colour" },
      MODES.map(([mode, name]) =>
        h("button", {
          class: "sx-btn",
          text: name,
          role: "radio",
          "data-action": `colour-${mode}`,
          on: { click: () => this.sync.set("colour", mode) },
        }),
      ),
    );
    this.head.append(h("span", { class: "sx-space" }), this.scale, this.modes);
    this.spine = canvas("Blocks");
    this.box = canvas("Layers of the open block");
    this.open = h(
      "div",
      { class: "g-open" },
      h(
        "div",
        { class: "g-open-head" },
        h("b", {}),
        h("span", { class: "sx-space" }),
        h("button", {
          class: "sx-btn",
          text: "Close",
          "data-action": "close-block",
          on: { click: () => this.toggle(this.model.get("opened")) },
        }),
      ),
      this.box,
    );
    this.empty = h("div", { class: "sx-empty", text: "No model yet." });
    root.append(this.head, this.empty, this.spine, this.open);
    this.sync = new Sync(model, ["view", "selection", "colour", "opened"], () => this.draw());
    this.width = 0; // asked for when it changes only: in a drawing it would lay the page out once more
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(root);
    root.addEventListener("click", (event) => this.click(event));
    root.addEventListener("dblclick", (event) => this.toggle(event.target.closest("[data-node]")?.dataset.node));
    root.addEventListener("keydown", (event) => this.key(event));
    this.draw();
  }

  get mode() {
    return this.model.get("colour") ?? "time";
  }
  get view() {
    return this.model.get("view") ?? {};
  }

  resized() {
    this.width = this.root.clientWidth - 36; // padding, and the shadow of a fold
    this.draw();
  }

  draw() {
    const { view, mode } = this;
    const ready = Boolean(view.nodes?.length);
    for (const part of [this.head, this.spine]) part.hidden = !ready;
    this.empty.hidden = ready;
    this.open.hidden = !view.open;
    const { width } = this;
    if (!ready || width <= 0) return;
    MODES.forEach(([m], i) =>
      set(this.modes.children[i], { "aria-checked": String(m === mode), tabindex: m === mode ? "0" : "-1" }),
    );
    set(this.head.querySelector(".sx-sub"), {
      text: view.open
        ? `${view.nodes.find((n) => n.id === view.open.block)?.name ?? view.open.block} open`
        : "Enter or a double click opens a block",
    });
    const chosen = new Set(this.model.get("selection") ?? []);
    const top = this.drawNodes(this.spine, view.nodes, view.edges, width, {
      chosen,
      least: 104,
      wide: 320,
      high: 46,
      gap: 26,
      rowGap: 12,
      head: 0,
    });
    if (view.open) {
      const { layers } = view.open;
      set(this.open.querySelector("b"), { text: view.nodes.find((n) => n.id === view.open.block)?.name ?? view.open.block });
      this.drawNodes(this.box, layers, view.open.edges, width - 30, {
        chosen,
        least: 84,
        wide: 150,
        high: 34,
        gap: 18,
        rowGap: 8,
        head: 22,
        parts: new Map(layers.map((l) => [l.id, l.part ?? null])),
      });
    }
    const [low, , high] = this.scale.firstChild.children;
    this.scale.hidden = mode === "device";
    set(low, { text: "0" });
    set(high, { text: mode === "time" ? seconds(top) : bytes(top) });
  }

  /** Draw one level; returns the largest value, which the colours are relative to. */
  drawNodes(element, nodes, edges, width, options) {
    const { chosen, parts } = options;
    const value = VALUE[this.mode];
    const top = Math.max(...nodes.map(value), 1e-30);
    const ids = nodes.map((n) => n.id);
    const { boxes, bands, height } = place(ids, edges, { ...options, width, partOf: parts ? (id) => parts.get(id) : undefined });
    set(element, { style: { height: `${height + 12}px` } });
    const drawn = edges
      .filter(([a, b]) => boxes.has(a) && boxes.has(b))
      .map(([a, b]) => ({ key: `${a}>${b}`, ...edgePath(boxes.get(a), boxes.get(b), bands, width) }));
    keyed(
      element.querySelector("g"),
      drawn,
      (edge) => edge.key,
      () => svg("path", {}),
      (path, edge) => set(path, { d: edge.d, class: edge.skip ? "skip" : null }),
    );
    keyed(
      element.querySelector(".g-parts"),
      bands.filter((band) => band.part),
      (band) => `${band.part}${band.y}`,
      () => h("b", {}),
      (b, band) => set(b, { text: band.part, style: { top: `${band.y}px` } }),
    );
    if (!ids.includes(this.focus) && element === this.spine) this.focus = ids[0];
    keyed(
      element.querySelector(".g-nodes"),
      nodes,
      (n) => n.id,
      () =>
        h(
          "div",
          { class: "g-node", role: "option", tabindex: "-1" },
          h("b", {}),
          h("span", { class: "g-text" }),
          h("span", { class: "g-value" }),
          h("i", { class: "g-lanes" }),
          h("i", { class: "g-notch" }),
        ),
      (node, n) => this.drawNode(node, n, boxes.get(n.id), value(n) / top, chosen),
    );
    return top;
  }

  drawNode(node, n, box, share, chosen) {
    const mode = this.mode;
    const members = n.blocks ?? [n.id];
    const held = members.filter((id) => chosen.has(id));
    const open = this.view.open?.block === n.id && n.blocks;
    const colour = cividis(share);
    const lanes = n.lanes ?? (n.lane == null ? [] : [[n.lane, 1]]);
    const where =
      lanes.length === 1 ? `stage ${lanes[0][0]}` : lanes.length ? `stages ${lanes[0][0]} – ${lanes[lanes.length - 1][0]}` : "";
    const detail = mode === "device" ? where : mode === "time" ? seconds(VALUE.time(n)) : bytes(VALUE[mode](n));
    const left =
      n.text ?? (n.blocks && members.length > 1 ? n.name.replace(/^blocks /, "") : n.parameters ? count(n.parameters) : "");
    set(node, {
      "data-node": n.id,
      class: `g-node${members.length > 1 ? " fold" : ""}${open ? " open" : ""}${held.length === members.length ? " selected" : ""}${mode === "device" ? " device" : ""}${n.blocks ? "" : " layer"}`,
      tabindex: this.focus === n.id ? "0" : "-1",
      "aria-selected": String(held.length > 0),
      "aria-expanded": n.blocks ? String(Boolean(open)) : null,
      "aria-label": `${n.name ?? n.label}, ${seconds(VALUE.time(n))}, ${bytes(n.memory_bytes)}${where ? `, ${where}` : ""}`,
      title: `${n.name ?? n.label}${n.text ? ` ${n.text}` : ""}\nforward ${seconds(n.forward_s)}, backward ${seconds(n.backward_s)}\n${bytes(n.memory_bytes)}, sends ${bytes(n.traffic_bytes)}${where ? `\n${where}` : ""}`,
      style: {
        left: `${box.x}px`,
        top: `${box.y}px`,
        width: `${box.w}px`,
        height: `${box.h}px`,
        "--fill": mode === "device" ? null : rgb(colour),
        "--fill-ink": mode === "device" ? null : inkOn(colour),
      },
    });
    const [label, text, val, stripes, notch] = node.children;
    set(label, { text: n.label });
    set(text, { text: box.w > 130 && box.h > 40 ? left : "" });
    set(val, { text: detail });
    const total = lanes.reduce((sum, [, k]) => sum + Number(k), 0) || 1;
    let at = 0;
    set(stripes, {
      style: {
        background:
          mode !== "device"
            ? null
            : `linear-gradient(90deg, ${
                lanes
                  .map(([id, k]) => {
                    const from = at;
                    at += k / total;
                    return `var(--chip${Number(id) % 2 ? "-other" : ""}) ${(from * 100).toFixed(2)}% ${(at * 100).toFixed(2)}%`;
                  })
                  .join(", ") || "var(--chip) 0 100%"
              })`,
      },
    });
    const single = members.length > 1 && held.length && held.length < members.length;
    set(notch, {
      "data-label": single ? `${held.length > 1 ? `${held.length} blocks` : held[0].replace(/^.*\./, "")}` : null,
      style: {
        display: single ? "" : "none",
        left: single ? `${((members.indexOf(held[0]) + 0.5) / members.length) * 100}%` : null,
      },
    });
  }

  nodeOf(id) {
    return this.view.nodes?.find((n) => n.id === id) ?? this.view.open?.layers.find((l) => l.id === id);
  }

  click(event) {
    const element = event.target.closest("[data-node]");
    if (!element) return;
    this.focus = element.dataset.node;
    element.focus();
    const n = this.nodeOf(this.focus);
    const ids = n.blocks ?? [n.id];
    const now = this.model.get("selection") ?? [];
    this.sync.set(
      "selection",
      event.shiftKey || event.ctrlKey || event.metaKey
        ? ids.every((id) => now.includes(id))
          ? now.filter((id) => !ids.includes(id))
          : [...new Set([...now, ...ids])]
        : ids,
    );
  }

  /** Open a block, or close the open one; a fold opens at its selected block. */
  toggle(id) {
    const n = id == null ? null : this.view.nodes?.find((node) => node.id === id || node.blocks.includes(id));
    if (!n) return;
    const chosen = new Set(this.model.get("selection") ?? []);
    const wanted = n.blocks.find((block) => chosen.has(block) && n.blocks.some((other) => !chosen.has(other))) ?? n.blocks[0];
    this.sync.set("opened", this.model.get("opened") === wanted ? null : wanted);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey) return;
    const element = event.target.closest?.("[data-node]");
    const radio = event.target.closest?.("[role=radio]");
    if (radio && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      const all = [...this.modes.children];
      const next = all[(all.indexOf(radio) + (event.key === "ArrowRight" ? 1 : -1) + all.length) % all.length];
      next.click();
      next.focus();
      event.preventDefault();
    }
    if (!element) return;
    const all = [...this.root.querySelectorAll("[data-node]")];
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = all[all.indexOf(element) + step];
      if (next) {
        element.tabIndex = -1;
        this.focus = next.dataset.node;
        next.tabIndex = 0;
        next.focus();
      }
    } else if (event.key === "Enter") this.toggle(element.dataset.node);
    else if (event.key === " ") element.click();
    else if (event.key === "Escape" && this.model.get("opened")) this.toggle(this.model.get("opened"));
    else return;
    event.preventDefault();
  }

  close() {
    this.sync.close();
    this.observer.disconnect();
    this.closeRoot();
    this.root.remove();
  }
}

function canvas(label) {
  const defs = svg(
    "defs",
    {},
    svg(
      "marker",
      { id: "g-tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      svg("path", { d: "M1 0L7 4L1 8Z" }),
    ),
  );
  return h(
    "div",
    { class: "g-canvas" },
    svg("svg", { "aria-hidden": "true", width: "100%", height: "100%" }, defs, svg("g", { "marker-end": "url(#g-tip)" })),
    h("div", { class: "g-parts" }),
    h("div", { class: "g-nodes", role: "listbox", "aria-label": label, "aria-multiselectable": "true" }),
  );
}

function render({ model, el }) {
  const widget = new GraphWidget(model, el);
  return () => widget.close();
}

export default { render };
