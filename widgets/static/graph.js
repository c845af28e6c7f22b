// src/common/dom.js
var SVG = "http://www.w3.org/2000/svg";
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  if ("tabindex" in attributes || /^(button|select|input|textarea|summary)$/.test(tag)) {
    element.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  if (tag === "button" && !("type" in attributes)) element.setAttribute("type", "button");
  for (const child of children.flat()) if (child != null) element.append(child);
  return element;
}
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  for (const child of children.flat()) if (child != null) element.append(child);
  return element;
}
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "text") {
      if (element.textContent !== String(value ?? "")) element.textContent = value ?? "";
    } else if (name === "style" && value && typeof value === "object") {
      for (const [property, v] of Object.entries(value)) {
        if (v == null) element.style.removeProperty(property);
        else if (element.style.getPropertyValue(property) !== String(v)) element.style.setProperty(property, v);
      }
    } else {
      const attribute = name === "class" ? "class" : name;
      if (value == null || value === false) element.removeAttribute(attribute);
      else {
        const text = value === true ? "" : String(value);
        if (element.getAttribute(attribute) !== text) element.setAttribute(attribute, text);
      }
    }
  }
  return element;
}
function keyed(parent, items, key, make, update) {
  const old = /* @__PURE__ */ new Map();
  for (const child of [...parent.children]) if (child.dataset.key != null) old.set(child.dataset.key, child);
  const wanted = new Set(items.map(key));
  for (const [k, child] of old) if (!wanted.has(k)) child.remove();
  let cursor = firstKeyed(parent.firstElementChild);
  items.forEach((item, i) => {
    const k = key(item, i);
    let child = old.get(k);
    if (!child) {
      child = make(item);
      child.dataset.key = k;
    }
    if (child === cursor) cursor = firstKeyed(cursor.nextElementSibling);
    else parent.insertBefore(child, cursor);
    update(child, item, i);
  });
}
function firstKeyed(element) {
  while (element && element.dataset.key == null) element = element.nextElementSibling;
  return element;
}
function heading(title, sub) {
  return h("div", { class: "sx-head" }, h("h2", { text: title }), h("span", { class: "sx-sub", text: sub ?? "" }));
}

// src/common/format.js
var MINUS = "−";
var DASH = "–";
var THIN = " ";
var NBSP = " ";
var TIME_UNITS = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"]
];
var BYTE_UNITS = [
  [2 ** 50, "PiB"],
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"]
];
var known = (x) => typeof x === "number" && Number.isFinite(x);
function fixed(x, decimals = 0) {
  const [whole, rest] = Math.abs(x).toFixed(decimals).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, THIN) + (rest ? `.${rest}` : "");
  return (x < 0 && Number(Math.abs(x).toFixed(decimals)) !== 0 ? MINUS : "") + text;
}
function significant(x) {
  const size = Math.abs(x);
  return fixed(x, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}
function pick(size, units, least) {
  for (const unit of units) if (size >= unit[0] * least) return unit;
  return units[units.length - 1];
}
function secondsParts(s, like = s) {
  if (!known(s)) return { text: DASH, unit: "" };
  if (like === 0) return { text: "0", unit: "ms" };
  const [scale, unit] = pick(Math.abs(like), TIME_UNITS, 0.9995);
  const x = s / scale;
  const decimals = unit === "s" ? Math.abs(x) >= 99.95 ? 0 : Math.abs(x) >= 9.995 ? 1 : 2 : Math.abs(x) >= 99.95 ? 0 : 1;
  return { text: fixed(x, decimals), unit };
}
var seconds = (s, like) => join(secondsParts(s, like));
function bytesParts(b, like = b) {
  if (!known(b)) return { text: DASH, unit: "" };
  const [scale, unit] = pick(Math.abs(like), BYTE_UNITS, 0.95);
  const x = b / scale;
  return { text: fixed(x, unit === "B" || Math.abs(x) >= 99.95 || scale < 2 ** 30 && Math.abs(x) >= 9.95 ? 0 : 1), unit };
}
var bytes = (b, like) => join(bytesParts(b, like));
function count(n) {
  if (!known(n)) return DASH;
  for (const [scale, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"]
  ]) {
    if (Math.abs(n) >= scale * 0.9995) return `${significant(n / scale).replace(/\.0+$/, "")}${NBSP}${unit}`;
  }
  return fixed(n);
}
var join = ({ text, unit }) => unit ? `${text}${NBSP}${unit}` : text;

// src/common/root.js
function makeRoot(el, model, name, label) {
  const root = h("section", { class: `sx sx-${name}`, "aria-label": label, "data-widget": name });
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
  });
  const notices = h("div", { class: "sx-notices" });
  root.append(notices);
  const showNotice = () => {
    const notice = model.get("notice");
    keyed(
      notices,
      notice?.text ? [notice] : [],
      () => "notice",
      () => h(
        "div",
        { class: "sx-notice" },
        h("span", {}),
        h("button", {
          class: "sx-btn",
          text: "Dismiss",
          "data-action": "dismiss",
          on: {
            click: () => {
              model.set("notice", null);
              model.save_changes();
            }
          }
        })
      ),
      (element, { level, text }) => {
        element.dataset.level = level ?? "info";
        element.setAttribute("role", level === "error" ? "alert" : "status");
        element.firstChild.textContent = text;
      }
    );
  };
  model.on("change:notice", showNotice);
  showNotice();
  el.append(root);
  return { root, close: watchTheme(root, () => {
  }, [() => model.off("change:notice", showNotice)]) };
}
function isDark(element) {
  const told = document.body.dataset.jpThemeLight;
  if (told) return told === "false";
  const kind = document.body.dataset.vscodeThemeKind;
  if (kind) return /dark|high-contrast$/.test(kind);
  const colour = getComputedStyle(element).getPropertyValue("--jp-layout-color1").trim();
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(colour)?.[1];
  if (!hex) return false;
  const full = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
  return [0, 2, 4].reduce((sum, i) => sum + Number.parseInt(full.slice(i, i + 2), 16), 0) < 384;
}
function watchTheme(root, changed, cleanups = []) {
  const timers = [];
  const apply = () => {
    const dark = isDark(root);
    if (root.dataset.dark === "true" === dark && root.dataset.dark != null) return;
    root.dataset.dark = String(dark);
    changed(dark);
    const tell = () => root.dispatchEvent(new CustomEvent("sx-theme", { detail: { dark } }));
    tell();
    for (const wait of [150, 600, 2e3]) timers.push(setTimeout(tell, wait));
  };
  apply();
  const observer = new MutationObserver(apply);
  observer.observe(document.body, {
    attributes: true,
    attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "class"]
  });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
  requestAnimationFrame(apply);
  return () => {
    observer.disconnect();
    timers.forEach(clearTimeout);
    for (const cleanup of cleanups) cleanup();
  };
}

// src/common/scales.js
var CIVIDIS = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"].map(
  (hex) => [0, 2, 4].map((i) => Number.parseInt(hex.slice(i, i + 2), 16))
);
function cividis(t) {
  const at = Math.min(0.99999, Math.max(0, t)) * (CIVIDIS.length - 1);
  const i = Math.floor(at);
  return CIVIDIS[i].map((v, k) => Math.round(v + (CIVIDIS[i + 1][k] - v) * (at - i)));
}
var rgb = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
function luminance(colour) {
  const [r, g, b] = colour.map((v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}
var inkOn = (colour) => contrast(colour, [0, 0, 0]) >= contrast(colour, [255, 255, 255]) ? "#000" : "#fff";

// src/common/sync.js
var Sync = class {
  /** @param {any} model anywidget model @param {string[]} traits whose change redraws @param {() => void} draw */
  constructor(model, traits, draw, always = false) {
    this.always = always;
    this.model = model;
    this.draw = draw;
    this.last = model.get("seq") ?? 0;
    this.queued = false;
    this.listeners = [...traits, "seq"].map((name) => [`change:${name}`, () => this.schedule()]);
    for (const [event, listener] of this.listeners) model.on(event, listener);
  }
  /** Is an intent still without an answer? */
  get pending() {
    return (this.model.get("seq") ?? 0) < this.last;
  }
  /** Send one intent; a custom message, so that none is ever merged with the next. */
  send(kind, fields = {}) {
    this.last = Math.max(this.last, this.model.get("seq") ?? 0) + 1;
    this.model.send({ seq: this.last, kind, ...fields });
    return this.last;
  }
  /** Write a two-way trait. */
  set(name, value) {
    this.model.set(name, value);
    this.model.save_changes();
  }
  /** Several traits of one message change together: draw once, after all of them. */
  schedule() {
    if (this.queued) return;
    this.queued = true;
    queueMicrotask(() => {
      this.queued = false;
      if (this.always || !this.pending) this.draw();
    });
  }
  close() {
    for (const [event, listener] of this.listeners) this.model.off(event, listener);
  }
};

// src/graph/layout.js
function layered(ids, edges) {
  const into = new Map(ids.map((id) => [id, []]));
  const out = new Map(ids.map((id) => [id, []]));
  for (const [a, b] of edges) {
    if (!into.has(a) || !into.has(b) || a === b) continue;
    out.get(a).push(b);
    into.get(b).push(a);
  }
  const rank = /* @__PURE__ */ new Map();
  const waiting = new Map(ids.map((id) => [id, into.get(id).length]));
  const ready = ids.filter((id) => !waiting.get(id));
  for (const id of ready) {
    rank.set(id, Math.max(0, ...into.get(id).map((p) => (rank.get(p) ?? -1) + 1)));
    for (const next of out.get(id)) {
      waiting.set(next, waiting.get(next) - 1);
      if (waiting.get(next) === 0) ready.push(next);
    }
  }
  for (const id of ids) if (!rank.has(id)) rank.set(id, Math.max(0, ...rank.values()) + 1);
  const ranks = [];
  for (const id of ids) (ranks[rank.get(id)] ??= []).push(id);
  const column = /* @__PURE__ */ new Map();
  for (let r = 0; r < ranks.length; r += 1) {
    ranks[r] ??= [];
    const mean = (id) => {
      const from = into.get(id).filter((p) => rank.get(p) === r - 1 && column.has(p)).map((p) => column.get(p));
      return from.length ? from.reduce((a, b) => a + b, 0) / from.length : 0;
    };
    const order = new Map(ranks[r].map((id, i) => [id, mean(id) * 1e3 + i]));
    ranks[r].sort((a, b) => order.get(a) - order.get(b));
    ranks[r].forEach((id, k) => column.set(id, k - (ranks[r].length - 1) / 2));
  }
  return { rank, column, ranks: ranks.filter((members) => members.length) };
}
function bandsOf(ranks, partOf, most) {
  const runs = [];
  for (const members of ranks) {
    const part = partOf(members[0]);
    const last = runs[runs.length - 1];
    if (last?.part === part) last.ranks.push(members);
    else runs.push({ part, ranks: [members] });
  }
  return runs.flatMap(({ part, ranks: all }) => {
    const rows = Math.ceil(all.length / most);
    const cut = (i) => Math.ceil(i * all.length / rows);
    return Array.from({ length: rows }, (_, i) => ({ part, ranks: all.slice(cut(i), cut(i + 1)), continued: i > 0 }));
  });
}
function place(ids, edges, options) {
  const { width, high, gap, rowGap, head } = options;
  const { rank, column, ranks } = layered(ids, edges);
  const least = options.least ?? 72;
  const most = Math.max(1, Math.floor((width + gap) / (least + gap)));
  const bands = bandsOf(ranks, options.partOf ?? (() => null), most);
  const boxes = /* @__PURE__ */ new Map();
  let y = 0;
  const placed = bands.map((band, number) => {
    const rows = Math.max(...band.ranks.map((members) => members.length));
    const w = Math.min(options.wide ?? 168, (width - gap * (band.ranks.length - 1)) / band.ranks.length);
    const top = y + (band.part && !band.continued ? head : 0) + 14;
    const middle = top + (rows * (high + rowGap) - rowGap) / 2;
    band.ranks.forEach((members, r) => {
      for (const [row, id] of members.entries())
        boxes.set(id, {
          x: r * (w + gap),
          y: middle + column.get(id) * (high + rowGap) - high / 2,
          w,
          h: high,
          band: number,
          rank: rank.get(id),
          top: row === 0
        });
    });
    const result = { part: band.continued ? null : band.part, y, top, middle, bottom: top + rows * (high + rowGap) - rowGap };
    y = result.bottom + 16;
    return result;
  });
  return { boxes, bands: placed, height: y - 10 };
}
var BESIDE = 9;
function edgePath(a, b, bands, width) {
  if (a.band !== b.band) return rowPath(a, b, bands, width);
  const [x1, y1, x2, y2] = [a.x + a.w, a.y + a.h / 2, b.x, b.y + b.h / 2];
  if (b.rank - a.rank > 1 && Math.abs(y1 - y2) < 1) {
    const lane = bands[a.band].top - 8;
    const [from, to] = [a.x + a.w / 2 + 8, b.x + b.w / 2 - 8];
    return {
      skip: true,
      d: `M${from} ${a.y}V${lane + 6}Q${from} ${lane} ${from + 6} ${lane}H${to - 6}Q${to} ${lane} ${to} ${lane + 6}V${b.y - 1}`
    };
  }
  const long = b.rank - a.rank > 1;
  const turn = long ? x2 - 18 : x1;
  const bend = Math.min(24, Math.max(6, (x2 - x1) * 0.6));
  return {
    skip: false,
    d: y1 === y2 ? `M${x1} ${y1}H${x2 - 1}` : `M${x1} ${y1}${long ? `H${turn}` : ""}C${turn + (long ? 9 : bend)} ${y1} ${x2 - (long ? 9 : bend)} ${y2} ${x2 - 1} ${y2}`
  };
}
function rowPath(a, b, bands, width) {
  const skip = b.rank - a.rank > 1;
  const lane = (band) => bands[band].top - (skip ? 8 : 16);
  let d = `M${a.x + a.w} ${a.y + a.h / 2}H${a.x + a.w + BESIDE}`;
  if (b.band !== a.band + 1) d += `V${lane(Math.min(a.band + 1, bands.length - 1))}H${width + BESIDE}`;
  d += `V${lane(b.band)}`;
  const middle = b.x + b.w / 2;
  if (skip && b.top) return { skip, d: `${d}H${middle}V${b.y - 1}` };
  return { skip, d: `${d}H${b.x - BESIDE}V${b.y + b.h / 2}H${b.x - 1}` };
}

// src/graph/index.js
var MODES = [
  ["time", "Time"],
  ["memory", "Memory"],
  ["traffic", "Traffic"],
  ["device", "Device"]
];
var VALUE = {
  time: (n) => (n.forward_s ?? 0) + (n.backward_s ?? 0),
  memory: (n) => n.memory_bytes ?? 0,
  traffic: (n) => n.traffic_bytes ?? 0,
  device: () => 0
};
var GraphWidget = class {
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
      MODES.map(
        ([mode, name]) => h("button", {
          class: "sx-btn",
          text: name,
          role: "radio",
          "data-action": `colour-${mode}`,
          on: { click: () => this.sync.set("colour", mode) }
        })
      )
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
          on: { click: () => this.toggle(this.model.get("opened")) }
        })
      ),
      this.box
    );
    this.empty = h("div", { class: "sx-empty", text: "No model yet." });
    root.append(this.head, this.empty, this.spine, this.open);
    this.sync = new Sync(model, ["view", "selection", "colour", "opened"], () => this.draw());
    this.width = 0;
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
    this.width = this.root.clientWidth - 36;
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
    MODES.forEach(
      ([m], i) => set(this.modes.children[i], { "aria-checked": String(m === mode), tabindex: m === mode ? "0" : "-1" })
    );
    set(this.head.querySelector(".sx-sub"), {
      text: view.open ? `${view.nodes.find((n) => n.id === view.open.block)?.name ?? view.open.block} open` : "Enter or a double click opens a block"
    });
    const chosen = new Set(this.model.get("selection") ?? []);
    const top = this.drawNodes(this.spine, view.nodes, view.edges, width, {
      chosen,
      least: 104,
      wide: 320,
      high: 46,
      gap: 26,
      rowGap: 12,
      head: 0
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
        parts: new Map(layers.map((l) => [l.id, l.part ?? null]))
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
    const { boxes, bands, height } = place(ids, edges, { ...options, width, partOf: parts ? (id) => parts.get(id) : void 0 });
    set(element, { style: { height: `${height + 12}px` } });
    const drawn = edges.filter(([a, b]) => boxes.has(a) && boxes.has(b)).map(([a, b]) => ({ key: `${a}>${b}`, ...edgePath(boxes.get(a), boxes.get(b), bands, width) }));
    keyed(
      element.querySelector("g"),
      drawn,
      (edge) => edge.key,
      () => svg("path", {}),
      (path, edge) => set(path, { d: edge.d, class: edge.skip ? "skip" : null })
    );
    keyed(
      element.querySelector(".g-parts"),
      bands.filter((band) => band.part),
      (band) => `${band.part}${band.y}`,
      () => h("b", {}),
      (b, band) => set(b, { text: band.part, style: { top: `${band.y}px` } })
    );
    if (!ids.includes(this.focus) && element === this.spine) this.focus = ids[0];
    keyed(
      element.querySelector(".g-nodes"),
      nodes,
      (n) => n.id,
      () => h(
        "div",
        { class: "g-node", role: "option", tabindex: "-1" },
        h("b", {}),
        h("span", { class: "g-text" }),
        h("span", { class: "g-value" }),
        h("i", { class: "g-lanes" }),
        h("i", { class: "g-notch" })
      ),
      (node, n) => this.drawNode(node, n, boxes.get(n.id), value(n) / top, chosen)
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
    const where = lanes.length === 1 ? `stage ${lanes[0][0]}` : lanes.length ? `stages ${lanes[0][0]} – ${lanes[lanes.length - 1][0]}` : "";
    const detail = mode === "device" ? where : mode === "time" ? seconds(VALUE.time(n)) : bytes(VALUE[mode](n));
    const left = n.text ?? (n.blocks && members.length > 1 ? n.name.replace(/^blocks /, "") : n.parameters ? count(n.parameters) : "");
    set(node, {
      "data-node": n.id,
      class: `g-node${members.length > 1 ? " fold" : ""}${open ? " open" : ""}${held.length === members.length ? " selected" : ""}${mode === "device" ? " device" : ""}${n.blocks ? "" : " layer"}`,
      tabindex: this.focus === n.id ? "0" : "-1",
      "aria-selected": String(held.length > 0),
      "aria-expanded": n.blocks ? String(Boolean(open)) : null,
      "aria-label": `${n.name ?? n.label}, ${seconds(VALUE.time(n))}, ${bytes(n.memory_bytes)}${where ? `, ${where}` : ""}`,
      title: `${n.name ?? n.label}${n.text ? ` ${n.text}` : ""}
forward ${seconds(n.forward_s)}, backward ${seconds(n.backward_s)}
${bytes(n.memory_bytes)}, sends ${bytes(n.traffic_bytes)}${where ? `
${where}` : ""}`,
      style: {
        left: `${box.x}px`,
        top: `${box.y}px`,
        width: `${box.w}px`,
        height: `${box.h}px`,
        "--fill": mode === "device" ? null : rgb(colour),
        "--fill-ink": mode === "device" ? null : inkOn(colour)
      }
    });
    const [label, text, val, stripes, notch] = node.children;
    set(label, { text: n.label });
    set(text, { text: box.w > 130 && box.h > 40 ? left : "" });
    set(val, { text: detail });
    const total = lanes.reduce((sum, [, k]) => sum + Number(k), 0) || 1;
    let at = 0;
    set(stripes, {
      style: {
        background: mode !== "device" ? null : `linear-gradient(90deg, ${lanes.map(([id, k]) => {
          const from = at;
          at += k / total;
          return `var(--chip${Number(id) % 2 ? "-other" : ""}) ${(from * 100).toFixed(2)}% ${(at * 100).toFixed(2)}%`;
        }).join(", ") || "var(--chip) 0 100%"})`
      }
    });
    const single = members.length > 1 && held.length && held.length < members.length;
    set(notch, {
      "data-label": single ? `${held.length > 1 ? `${held.length} blocks` : held[0].replace(/^.*\./, "")}` : null,
      style: {
        display: single ? "" : "none",
        left: single ? `${(members.indexOf(held[0]) + 0.5) / members.length * 100}%` : null
      }
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
      event.shiftKey || event.ctrlKey || event.metaKey ? ids.every((id) => now.includes(id)) ? now.filter((id) => !ids.includes(id)) : [.../* @__PURE__ */ new Set([...now, ...ids])] : ids
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
      const all2 = [...this.modes.children];
      const next = all2[(all2.indexOf(radio) + (event.key === "ArrowRight" ? 1 : -1) + all2.length) % all2.length];
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
};
function canvas(label) {
  const defs = svg(
    "defs",
    {},
    svg(
      "marker",
      { id: "g-tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      svg("path", { d: "M1 0L7 4L1 8Z" })
    )
  );
  return h(
    "div",
    { class: "g-canvas" },
    svg("svg", { "aria-hidden": "true", width: "100%", height: "100%" }, defs, svg("g", { "marker-end": "url(#g-tip)" })),
    h("div", { class: "g-parts" }),
    h("div", { class: "g-nodes", role: "listbox", "aria-label": label, "aria-multiselectable": "true" })
  );
}
function render({ model, el }) {
  const widget = new GraphWidget(model, el);
  return () => widget.close();
}
var graph_default = { render };
export {
  graph_default as default
};
