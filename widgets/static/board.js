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
  items.forEach((item2, i) => {
    const k = key(item2, i);
    let child = old.get(k);
    if (!child) {
      child = make(item2);
      child.dataset.key = k;
    }
    if (child === cursor) cursor = firstKeyed(cursor.nextElementSibling);
    else parent.insertBefore(child, cursor);
    update(child, item2, i);
  });
}
function firstKeyed(element) {
  while (element && element.dataset.key == null) element = element.nextElementSibling;
  return element;
}
function heading(title, sub) {
  return h("div", { class: "sx-head" }, h("h2", { text: title }), h("span", { class: "sx-sub", text: sub ?? "" }));
}
function triangle(cls = "") {
  return svg(
    "svg",
    { class: `sx-tri ${cls}`, viewBox: "0 0 12 11", width: 12, height: 11, "aria-hidden": "true" },
    svg("path", { d: "M0.6 10.4 L6 0.6 L11.4 10.4 Z" })
  );
}

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
function watchTheme(root, changed2, cleanups = []) {
  const timers = [];
  const apply = () => {
    const dark = isDark(root);
    if (root.dataset.dark === "true" === dark && root.dataset.dark != null) return;
    root.dataset.dark = String(dark);
    changed2(dark);
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
var percent = (fraction, decimals = 0) => known(fraction) ? `${fixed(fraction * 100, decimals)}${NBSP}%` : DASH;
var signed = (text) => text.startsWith(MINUS) || /^[0.\s\u202f\u00a0]*(\D*)$/.test(text) ? text : `+${text}`;
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
var plural = (n, noun) => `${fixed(n)} ${noun}${n === 1 ? "" : "s"}`;
var join = ({ text, unit }) => unit ? `${text}${NBSP}${unit}` : text;

// src/common/scales.js
function ticks(end, wanted, start = 0) {
  const span = end - start;
  if (!(span > 0) || wanted < 1) return [];
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const first = Math.ceil(start / step - 1e-9) || 0;
  const result = [];
  for (let i = first; i * step <= end + step * 1e-9; i += 1) result.push(i * step);
  return result;
}
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

// src/board/model.js
var Catalog = class {
  /** @param {Block[]} blocks */
  constructor(blocks) {
    this.blocks = blocks;
    this.layers = [];
    this.starts = [];
    this.ranges = /* @__PURE__ */ new Map();
    blocks.forEach((block, b) => {
      this.starts.push(this.layers.length);
      for (const layer of block.layers) {
        const index = this.layers.length;
        this.layers.push({
          ...layer,
          index,
          block: b,
          time_s: layer.forward_s + layer.backward_s,
          state_bytes: layer.weight_bytes + layer.gradient_bytes + layer.optimizer_bytes
        });
        this.ranges.set(layer.id, [index, index + 1]);
      }
      this.ranges.set(block.id, [this.starts[b], this.layers.length]);
    });
    this.starts.push(this.layers.length);
    this.total_s = this.layers.reduce((sum, layer) => sum + layer.time_s, 0);
  }
  /** Flat positions of ids. @param {Iterable<string>} ids @returns {Set<number>} */
  positions(ids) {
    const result = /* @__PURE__ */ new Set();
    for (const id of ids) {
      const range = this.ranges.get(id);
      for (let i = range?.[0] ?? 0; i < (range?.[1] ?? 0); i += 1) result.add(i);
    }
    return result;
  }
  /** Shortest list of ids for flat positions: block ids where whole. @param {Set<number>} positions */
  ids(positions) {
    const result = [];
    this.blocks.forEach((block, b) => {
      const [start, end] = [this.starts[b], this.starts[b + 1]];
      let held = 0;
      for (let i = start; i < end; i += 1) held += positions.has(i) ? 1 : 0;
      if (held === end - start) result.push(block.id);
      else if (held) {
        for (let i = start; i < end; i += 1) if (positions.has(i)) result.push(this.layers[i].id);
      }
    });
    return result;
  }
  /** "block 12", "blocks 17, 18", "3 layers of block 7 and 2 blocks". @param {Set<number>} positions */
  describe(positions) {
    const whole = [];
    const parts = [];
    this.blocks.forEach((block, b) => {
      let held = 0;
      for (let i = this.starts[b]; i < this.starts[b + 1]; i += 1) held += positions.has(i) ? 1 : 0;
      if (held && held === block.layers.length) whole.push(block);
      else if (held) parts.push(`${held} ${held === 1 ? "layer" : "layers"} of ${block.name}`);
    });
    const names = whole.length === 1 ? [whole[0].name] : whole.length > 1 && whole.length <= 4 && whole.every((block) => block.kind === "block") ? [`blocks ${whole.map((block) => block.label).join(", ")}`] : whole.length > 1 ? [`${whole.length} blocks, ${whole[0].label} to ${whole[whole.length - 1].label}`] : [];
    return [...names, ...parts].join(" and ") || "nothing";
  }
};
function piecesOf(catalog, lane, expanded) {
  const pieces = [];
  const factor = lane.time_factor ?? 1;
  lane.runs.forEach((run, r) => {
    const end = run.first + run.count;
    for (let at = run.first; at < end; ) {
      const b = catalog.layers[at].block;
      const block = catalog.blocks[b];
      const open = expanded.has(block.id) && block.layers.length > 1;
      const stop2 = open ? at + 1 : Math.min(end, catalog.starts[b + 1]);
      pieces.push(piece(catalog, run, r, b, at, stop2, open, factor));
      at = stop2;
    }
  });
  return pieces;
}
function piece(catalog, run, r, b, first, stop2, open, factor) {
  const block = catalog.blocks[b];
  const whole = first === catalog.starts[b] && stop2 === catalog.starts[b + 1];
  const result = {
    key: `${open ? catalog.layers[first].id : whole ? block.id : `${block.id}@${first}`}~${run.copy ?? 0}`,
    block,
    blockIndex: b,
    run: r,
    stage: run.stage,
    first,
    count: stop2 - first,
    layer: open ? catalog.layers[first] : null,
    whole,
    share: 1,
    time_s: 0,
    forward_s: 0,
    backward_s: 0,
    state_bytes: 0,
    saved_bytes: 0,
    output_bytes: 0,
    parameters: 0
  };
  for (let i = first; i < stop2; i += 1) {
    const layer = catalog.layers[i];
    const share = i === run.first ? run.first_share ?? 1 : i === run.first + run.count - 1 ? run.last_share ?? 1 : 1;
    if (share < 1) {
      result.share = share;
      result.key += `%${run.stage}`;
    }
    result.time_s += layer.time_s * factor * share;
    result.forward_s += layer.forward_s * factor * share;
    result.backward_s += layer.backward_s * factor * share;
    result.state_bytes += layer.state_bytes * share;
    result.saved_bytes += layer.saved_bytes * share;
    result.parameters += (layer.parameters ?? 0) * share;
    result.output_bytes = layer.output_bytes ?? 0;
  }
  return result;
}
var positionsOf = (p) => Array.from({ length: p.count }, (_, i) => p.first + i);
function ownerOf(lanes, position) {
  return lanes.find((lane) => lane.runs.some((run) => run.first <= position && position < run.first + run.count)) ?? null;
}
function pieceName(p) {
  if (p.layer && p.block.layers.length > 1) return `${p.layer.label} of ${p.block.name}`;
  return p.whole ? p.block.name : `part of ${p.block.name}, ${p.count} of ${p.block.layers.length} layers`;
}
function pieceLabel(p) {
  if (p.layer && p.block.layers.length > 1) return p.layer.label;
  return p.whole ? p.block.label : `${p.block.label} (${p.count}/${p.block.layers.length})`;
}

// src/board/chip.js
function makeChip() {
  return h(
    "div",
    { class: "b-chip", role: "option", tabindex: "-1" },
    h("span", { class: "b-label" }),
    h("span", { class: "b-num" }),
    h("i", { class: "b-foot" })
  );
}
function chipLook(ctx) {
  const mode = ctx.colour;
  const value = (piece2, lane) => mode === "time" ? piece2.time_s : mode === "traffic" ? piece2.output_bytes : piece2.state_bytes * (lane.state_factor ?? 1) + piece2.saved_bytes * (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight);
  let top = 0;
  if (mode !== "kind")
    for (const lane of ctx.view.lanes) for (const piece2 of ctx.pieces.get(lane.id)) top = Math.max(top, value(piece2, lane));
  return { mode, value, top: top || 1 };
}
function drawChip(ctx, chip, place, before, lane) {
  const { piece: piece2, left, width } = place;
  const { look } = ctx;
  const px = width * ctx.trackPx;
  const selected = isSelected(ctx, piece2);
  const hole = ctx.preview?.target != null && ctx.preview.target !== lane.id && holds(piece2, ctx.preview.positions);
  const broken = before && before.piece.run !== piece2.run && before.piece.stage === piece2.stage;
  const newStage = before && before.piece.stage !== piece2.stage;
  const label = pieceLabel(piece2);
  const number = look.mode === "memory" ? bytes(look.value(piece2, lane)) : look.mode === "traffic" ? bytes(look.value(piece2, lane)) : seconds(piece2.time_s);
  const short = look.mode === "kind" || look.mode === "time" ? secondsParts(piece2.time_s).text : number;
  const colour = look.mode === "kind" ? null : cividis(look.value(piece2, lane) / look.top);
  const labelFits = px >= 12 + 7 * label.length;
  const told = !before || number !== before.number || selected;
  place.number = number;
  set(chip, {
    class: `b-chip${piece2.block.kind === "block" ? "" : " other"}${selected ? " selected" : ""}${hole ? " hole" : ""}${broken ? " broken" : ""}${newStage ? " chunk" : ""}${px < 20 ? " slim" : ""}${colour && !hole ? " filled" : ""}`,
    "data-block": piece2.block.id,
    "data-layer": piece2.layer && piece2.block.layers.length > 1 ? piece2.layer.id : null,
    "data-first": piece2.first,
    "data-count": piece2.count,
    tabindex: piece2.key === ctx.focusKey ? "0" : "-1",
    "aria-selected": String(selected),
    "aria-label": `${pieceName(piece2)}, ${seconds(piece2.time_s)}, ${bytes(piece2.state_bytes + piece2.saved_bytes * Math.max(1, lane.in_flight))}, ${lane.name}`,
    "aria-expanded": piece2.block.layers.length > 1 ? String(Boolean(piece2.layer)) : null,
    title: `${pieceName(piece2)}: forward ${seconds(piece2.forward_s)}, backward ${seconds(piece2.backward_s)}, state ${bytes(piece2.state_bytes)}, saves ${bytes(piece2.saved_bytes)} a microbatch`,
    style: {
      left: `${(left * 100).toFixed(4)}%`,
      width: `${(width * 100).toFixed(4)}%`,
      "--fill": colour ? rgb(colour) : null,
      "--fill-ink": colour ? inkOn(colour) : null
    }
  });
  set(chip.children[0], { text: labelFits ? label : "" });
  set(chip.children[1], {
    text: told && labelFits && px >= 34 ? px >= 30 + 7 * number.length - 14 ? number : px >= 8 + 7 * short.length ? short : "" : ""
  });
  set(chip.children[2], {
    style: {
      background: look.mode === "kind" && piece2.block.kind === "block" && !piece2.layer ? footOf(ctx, piece2) : null,
      display: look.mode === "kind" && piece2.block.kind === "block" ? "" : "none"
    }
  });
}
function footOf(ctx, piece2) {
  const shares = /* @__PURE__ */ new Map();
  for (let i = piece2.first; i < piece2.first + piece2.count; i += 1) {
    const layer = ctx.catalog.layers[i];
    shares.set(layer.part ?? "", (shares.get(layer.part ?? "") ?? 0) + layer.time_s);
  }
  if (shares.size < 2) return "var(--chip-1)";
  let at = 0;
  const total = [...shares.values()].reduce((a, b) => a + b, 0) || 1;
  const stops2 = [...shares.values()].map((share, i) => {
    const from = at;
    at += share / total;
    return `var(--chip-${i % 2 + 1}) ${(from * 100).toFixed(1)}% ${(at * 100).toFixed(1)}%`;
  });
  return `linear-gradient(90deg, ${stops2.join(", ")})`;
}
function isSelected(ctx, piece2) {
  const { chosen } = ctx;
  for (let i = piece2.first; i < piece2.first + piece2.count; i += 1) if (!chosen.has(i)) return false;
  return true;
}
function holds(piece2, positions) {
  for (let i = piece2.first; i < piece2.first + piece2.count; i += 1) if (positions.has(i)) return true;
  return false;
}

// src/board/layout.js
var FULL_LANES = 8;
function fitScale(view, narrow = false) {
  const longest = Math.max(0, ...view.lanes.map((lane) => lane.forward_s + lane.backward_s));
  return Math.max(view.ideal_s * (narrow ? 1.42 : 1.32), longest * (narrow ? 1.25 : 1.16)) || 1;
}
var memoryScale = (lanes) => 1.25 * Math.max(1, ...lanes.map((lane) => lane.capacity_bytes));
var MEMORY_PARTS = [
  ["weight_bytes", "weights", "weights"],
  ["gradient_bytes", "gradients", "grad"],
  ["optimizer_bytes", "optimizer", "opt"],
  ["activation_bytes", "activations", "act"],
  ["buffer_bytes", "buffers", "buf"],
  ["other_bytes", "other", "other"]
];
function memorySegments(memory, scale) {
  let at = 0;
  return MEMORY_PARTS.flatMap(([key, name, cls]) => {
    const size = memory[key] ?? 0;
    if (!(size > 0)) return [];
    const segment = {
      key,
      name,
      cls,
      bytes: size,
      left: Math.min(1, at / scale),
      width: Math.min(1, (at + size) / scale) - Math.min(1, at / scale)
    };
    at += size;
    return [segment];
  });
}
function memoryLevel(lane) {
  const full = lane.peak_bytes / lane.capacity_bytes;
  return full > 1 ? "bad" : full >= 0.9 ? "warn" : "";
}
function rowsOf(lanes, collapsed) {
  const compact = lanes.length > FULL_LANES;
  if (!compact) return lanes.map((lane) => ({ type: "lane", lane, compact }));
  const groups = /* @__PURE__ */ new Map();
  for (const lane of lanes) {
    const name = lane.group ?? "";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(lane);
  }
  return [...groups].flatMap(([name, members]) => {
    const folded = name !== "" && collapsed.has(name);
    const head = name === "" ? [] : [{ type: "group", name, lanes: members, folded }];
    return folded ? head : [...head, ...members.map((lane) => ({ type: "lane", lane, compact }))];
  });
}
function groupSummary(lanes) {
  const time = (lane) => lane.forward_s + lane.backward_s;
  const full = (lane) => lane.peak_bytes / lane.capacity_bytes;
  return {
    time_s: lanes.reduce((sum, lane) => sum + time(lane), 0),
    slowest: lanes.reduce((a, b) => time(b) > time(a) ? b : a),
    fullest: lanes.reduce((a, b) => full(b) > full(a) ? b : a),
    peak_bytes: lanes.reduce((sum, lane) => sum + lane.peak_bytes, 0)
  };
}
function rowAt(rows, y, reach = 24) {
  let best = null;
  let distance = reach;
  for (const row of rows) {
    const off = y < row.top ? row.top - y : y > row.bottom ? y - row.bottom : 0;
    if (off === 0) return row.id;
    if (off < distance) [best, distance] = [row.id, off];
  }
  return best;
}
var linkThickness = (bytes2) => Math.min(12, Math.max(1, 2 * Math.sqrt((bytes2 ?? 0) / 2 ** 30)));
function linkClass(kind) {
  if (kind === "nvlink" || kind === "nvswitch") return "nvlink";
  if (kind === "pcie" || kind === "host" || kind === "shared") return "pcie";
  return kind === "internet" ? "internet" : "network";
}

// src/board/estimate.js
function runsFrom(positions, stage, copy) {
  const runs = [];
  for (const position of [...positions].sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && last.first + last.count === position) last.count += 1;
    else runs.push({ stage, copy, first: position, count: 1 });
  }
  return runs;
}
function without(runs, positions) {
  return runs.flatMap((run) => {
    const kept = [];
    for (let i = run.first; i < run.first + run.count; i += 1) if (!positions.has(i)) kept.push(i);
    if (kept.length === run.count) return [run];
    return runsFrom(kept, run.stage, run.copy ?? 0);
  });
}
function including(runs, positions) {
  if (!positions.length) return runs;
  const touching = runs.find((run) => positions.some((p) => p === run.first - 1 || p === run.first + run.count)) ?? runs[0];
  const stage = touching?.stage ?? 0;
  const copy = touching?.copy ?? 0;
  const same = runs.filter((run) => run.stage === stage && (run.copy ?? 0) === copy);
  const all = [...positions, ...same.flatMap((run) => Array.from({ length: run.count }, (_, i) => run.first + i))];
  const merged = runsFrom(new Set(all), stage, copy);
  const at = runs.findIndex((run) => same.includes(run));
  const others = runs.filter((run) => !same.includes(run));
  return at < 0 ? [...merged, ...others] : [...others.slice(0, at), ...merged, ...others.slice(at)];
}
function costOn(catalog, lane, positions) {
  const sum = { forward_s: 0, backward_s: 0, weight_bytes: 0, gradient_bytes: 0, optimizer_bytes: 0, activation_bytes: 0 };
  const time = lane.time_factor ?? 1;
  const state = lane.state_factor ?? 1;
  const saved = (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight ?? 1);
  for (const position of positions) {
    const layer = catalog.layers[position];
    sum.forward_s += layer.forward_s * time;
    sum.backward_s += layer.backward_s * time;
    sum.weight_bytes += layer.weight_bytes * state;
    sum.gradient_bytes += layer.gradient_bytes * state;
    sum.optimizer_bytes += layer.optimizer_bytes * state;
    sum.activation_bytes += layer.saved_bytes * saved;
  }
  return sum;
}
function changed(lane, cost, sign, runs) {
  const memory = { ...lane.memory };
  let bytes2 = 0;
  for (const part of ["weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes"]) {
    memory[part] = Math.max(0, memory[part] + sign * cost[part]);
    bytes2 += memory[part] - lane.memory[part];
  }
  return {
    ...lane,
    memory,
    runs,
    peak_bytes: lane.peak_bytes + bytes2,
    forward_s: Math.max(0, lane.forward_s + sign * cost.forward_s),
    backward_s: Math.max(0, lane.backward_s + sign * cost.backward_s)
  };
}
function moved(catalog, view, positions, toLane) {
  const lanes = view.lanes.map((lane) => {
    const held = /* @__PURE__ */ new Set();
    for (const run of lane.runs) for (let i = run.first; i < run.first + run.count; i += 1) held.add(i);
    if (lane.id === toLane) {
      const gained = [...positions].filter((p) => !held.has(p));
      return gained.length ? changed(lane, costOn(catalog, lane, gained), 1, including(lane.runs, gained)) : lane;
    }
    const lost = [...positions].filter((p) => held.has(p));
    return lost.length ? changed(lane, costOn(catalog, lane, lost), -1, without(lane.runs, positions)) : lane;
  });
  return { ...view, lanes: withBinding(lanes), boundaries: shiftBoundaries(view.boundaries, lanes) };
}
function withBinding(lanes) {
  const slowest = Math.max(...lanes.map((lane) => lane.forward_s + lane.backward_s));
  return lanes.map((lane) => {
    const binds = lanes.length > 1 && lane.forward_s + lane.backward_s === slowest;
    return Boolean(lane.binds) === binds ? lane : { ...lane, binds };
  });
}
function shiftBoundaries(boundaries, lanes) {
  return boundaries.flatMap((boundary) => {
    const ends = (id, stage) => lanes.find((lane) => lane.id === id)?.runs.filter((run) => run.stage === stage) ?? [];
    const before = ends(boundary.before_lane, boundary.before);
    const after = ends(boundary.after_lane, boundary.after);
    const met = before.map((run) => run.first + run.count).find((at) => after.some((run) => run.first === at));
    return met == null ? [] : [{ ...boundary, at: met }];
  });
}
function between(at, to) {
  return new Set(Array.from({ length: Math.abs(to - at) }, (_, i) => Math.min(at, to) + i));
}
function stops(catalog, boundary, expanded) {
  const result = [];
  for (let at = boundary.minimum; at <= boundary.maximum; at += 1) {
    const b = at < catalog.layers.length ? catalog.layers[at].block : -1;
    if (at === boundary.at || b < 0 || at === catalog.starts[b] || expanded.has(catalog.blocks[b].id)) result.push(at);
  }
  return result;
}
function nearestStop(catalog, boundary, expanded, shift_s, factor = 1) {
  let best = boundary.at;
  let distance = Math.abs(shift_s);
  for (const at of stops(catalog, boundary, expanded)) {
    let offset = 0;
    for (const position of between(boundary.at, at)) offset += catalog.layers[position].time_s * factor;
    const off = Math.abs((at < boundary.at ? -offset : offset) - shift_s);
    if (off < distance - 1e-15) [best, distance] = [at, off];
  }
  return best;
}
function nextStop(catalog, boundary, expanded, step) {
  const all = stops(catalog, boundary, expanded);
  return all[all.indexOf(boundary.at) + step] ?? null;
}

// src/board/menu.js
function openMoveMenu(ctx, opener, at) {
  closeMenu(ctx);
  const positions = ctx.selected;
  if (!positions.size || !ctx.editable) return;
  const items = ctx.view.lanes.map((lane) => item(ctx, lane, positions));
  const menu = h(
    "div",
    { class: "b-menu", role: "menu", "aria-label": `Move ${ctx.catalog.describe(positions)} to` },
    h("div", { class: "b-menu-title", text: `Move ${ctx.catalog.describe(positions)} to` }),
    items
  );
  const close = (refocus = true) => {
    menu.remove();
    document.removeEventListener("pointerdown", outside, true);
    ctx.closeMenu = null;
    if (refocus) opener.focus();
  };
  const outside = (event) => {
    if (!menu.contains(event.target)) close(false);
  };
  ctx.closeMenu = close;
  menu.addEventListener("click", (event) => {
    const lane = event.target.closest("[data-to-lane]")?.dataset.toLane;
    if (lane == null || event.target.closest("[disabled]")) return;
    close();
    ctx.move(positions, lane);
  });
  menu.addEventListener("keydown", (event) => {
    const enabled = items.filter((button) => !button.disabled);
    const i = enabled.indexOf(document.activeElement);
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (event.key === "ArrowDown") enabled[(i + 1) % enabled.length].focus();
    else if (event.key === "ArrowUp") enabled[(i - 1 + enabled.length) % enabled.length].focus();
    else if (event.key === "Home") enabled[0].focus();
    else if (event.key === "End") enabled[enabled.length - 1].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  ctx.root.append(menu);
  const root = ctx.root.getBoundingClientRect();
  const from = opener.getBoundingClientRect();
  const left = at ? at.x : from.right - root.left - menu.offsetWidth;
  menu.style.left = `${Math.max(4, Math.min(left, root.width - menu.offsetWidth - 4))}px`;
  menu.style.top = `${at ? at.y : from.bottom - root.top + 4}px`;
  document.addEventListener("pointerdown", outside, true);
  items.find((button) => !button.disabled)?.focus();
}
function item(ctx, lane, positions) {
  const next = moved(ctx.catalog, ctx.view, positions, lane.id).lanes.find((other) => other.id === lane.id);
  const gain = next.forward_s + next.backward_s - lane.forward_s - lane.backward_s;
  const level = memoryLevel(next);
  const effect = next.runs === lane.runs ? "here now" : `${signed(seconds(gain))}, ${bytes(next.peak_bytes)}${level === "bad" ? ` ▲ ${bytes(next.peak_bytes - next.capacity_bytes)} over` : ""}`;
  return h(
    "button",
    { class: `b-menu-item ${level}`, role: "menuitem", tabindex: "-1", "data-to-lane": lane.id, disabled: effect === "here now" },
    h("span", { text: lane.name }),
    h("span", { text: effect })
  );
}
function closeMenu(ctx) {
  ctx.closeMenu?.(false);
}

// src/board/head.js
var MODES = [
  ["kind", "Kind"],
  ["memory", "Memory"],
  ["time", "Time"],
  ["traffic", "Traffic"]
];
var LINK_NAMES = {
  nvlink: "NVLink",
  nvswitch: "NVSwitch",
  pcie: "PCIe",
  infiniband: "InfiniBand",
  ethernet: "Ethernet",
  internet: "internet",
  host: "host",
  shared: "shared memory"
};
function makeHead(ctx) {
  const head = heading("Board", "");
  head.legend = h("span", { class: "sx-legend" });
  head.modes = h(
    "span",
    { class: "sx-seg", role: "radiogroup", "aria-label": "Colour of the chips" },
    MODES.map(
      ([mode, name]) => h("button", {
        class: "sx-btn",
        text: name,
        role: "radio",
        "data-action": `colour-${mode}`,
        on: { click: () => ctx.sync.set("colour", mode) }
      })
    )
  );
  head.moveTo = h("button", {
    class: "sx-btn",
    text: "Move to…",
    "data-action": "move-to",
    "aria-haspopup": "menu",
    on: { click: () => openMoveMenu(ctx, head.moveTo) }
  });
  const fit = h("button", {
    class: "sx-btn",
    text: "Fit",
    "data-action": "fit",
    title: "Rescale time to the longest lane",
    on: { click: () => ctx.fit() }
  });
  head.append(h("span", { class: "sx-space" }), head.legend, head.modes, head.moveTo, fit);
  head.laneWords = laneWords;
  return head;
}
function drawHead(ctx, head) {
  const parts = [...new Set(ctx.catalog.blocks.flatMap((block) => block.layers.map((layer) => layer.part)).filter(Boolean))];
  const foot = parts.length ? `; foot = ${parts.slice(0, 2).join(", ")}` : "";
  head.querySelector(".sx-sub").textContent = `width = forward + backward of one microbatch${foot}`;
  for (const [i, [mode]] of MODES.entries()) {
    const on = ctx.colour === mode;
    set(head.modes.children[i], { "aria-checked": String(on), tabindex: on ? "0" : "-1" });
  }
  head.moveTo.disabled = !ctx.selected.size || !ctx.editable;
  const used = MEMORY_PARTS.filter(([key]) => ctx.view.lanes.some((lane) => lane.memory[key] > 0));
  const links = [
    ...new Set([...ctx.view.links, ...ctx.view.lanes.map((lane) => lane.replica_link).filter(Boolean)].map((link) => link.kind))
  ];
  const entries = [
    ...used.map(([, name, cls]) => ({ name, mark: `b-m-${cls}`, line: false })),
    ...links.map((kind) => ({ name: LINK_NAMES[kind] ?? kind, mark: `b-k-${linkClass(kind)}`, line: true })),
    ...ctx.colour === "kind" ? [] : [{ name: `more ${ctx.colour}`, mark: "sx-ramp", line: false, ramp: true }]
  ];
  keyed(
    head.legend,
    entries,
    (entry) => entry.name,
    (entry) => h("span", {}, h("i", { class: entry.line ? `line ${entry.mark}` : entry.mark }), entry.name),
    () => {
    }
  );
}
function laneWords(lane) {
  const over = lane.peak_bytes - lane.capacity_bytes;
  return {
    time: seconds(lane.forward_s + lane.backward_s),
    memory: memoryLevel(lane) === "bad" ? `over capacity by ${bytes(over)}` : `${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}`
  };
}
var overIdeal = (lane, ideal_s) => signed(percent((lane.forward_s + lane.backward_s) / ideal_s - 1));

// src/board/memory-bar.js
function makeMemory() {
  return h(
    "div",
    { class: "b-mem" },
    h(
      "div",
      { class: "b-mem-text" },
      h("b", {}),
      h("span", { class: "b-share" }),
      h("span", { class: "sx-space" }),
      h("span", { class: "b-mem-side" })
    ),
    h(
      "div",
      { class: "b-bar" },
      h("div", { class: "b-parts" }),
      h("i", { class: "b-excess" }),
      h("i", { class: "b-was" }),
      h("i", { class: "b-cap" })
    ),
    triangle("b-mem-tri")
  );
}
function drawMemory(ctx, element, lane, was) {
  const level = memoryLevel(lane);
  const scale = ctx.memory_bytes;
  const over = lane.peak_bytes - lane.capacity_bytes;
  const [main, share, , side] = element.querySelector(".b-mem-text").children;
  element.dataset.level = level;
  set(main, { text: bytes(lane.peak_bytes) });
  set(share, { text: level === "bad" ? "" : percent(lane.peak_bytes / lane.capacity_bytes) });
  set(side, {
    text: level === "bad" ? `+${bytes(over)} over` : level === "warn" ? `${bytes(-over)} left` : `${lane.in_flight} in flight`
  });
  const segments = memorySegments(lane.memory, scale);
  const words = segments.map((segment) => `${segment.name} ${bytes(segment.bytes)}`).join("\n");
  set(element, {
    title: `${words}
${lane.in_flight} microbatches in flight`,
    role: "img",
    "aria-label": `memory ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}${level === "bad" ? `, over by ${bytes(over)}` : ""}: ${words.replaceAll("\n", ", ")}`
  });
  const bar = element.querySelector(".b-bar");
  keyed(
    bar.querySelector(".b-parts"),
    segments,
    (segment) => segment.key,
    (segment) => h("i", { class: `b-m-${segment.cls}`, "data-part": segment.key }),
    (part, segment) => set(part, { style: { left: pct(segment.left), width: pct(segment.width) } })
  );
  const capacity = lane.capacity_bytes / scale;
  const used = Math.min(1, lane.peak_bytes / scale);
  set(bar.querySelector(".b-excess"), {
    style: { left: pct(capacity), width: pct(Math.max(0, used - capacity)), display: level === "bad" ? "" : "none" }
  });
  set(bar.querySelector(".b-was"), {
    style: {
      left: pct(Math.min(1, (was ?? lane).peak_bytes / scale)),
      display: was && Math.abs(was.peak_bytes - lane.peak_bytes) > 1 ? "" : "none"
    }
  });
  set(bar.querySelector(".b-cap"), { style: { left: pct(capacity) } });
}
var pct = (x) => `${(x * 100).toFixed(3)}%`;

// src/board/lane.js
function makeLane(ctx, { lane }) {
  const chips = h("div", { class: "b-chips", role: "listbox", "aria-multiselectable": "true", "aria-orientation": "horizontal" });
  const track = h(
    "div",
    { class: "b-track" },
    chips,
    h("div", { class: "b-over" }),
    h("div", { class: "b-slot" }),
    h("div", { class: "b-handles" }),
    h("div", { class: "b-end" }, h("b", {}), h("span", {}))
  );
  return h(
    "div",
    { class: "b-row b-lane", "data-lane": lane.id },
    h("div", { class: "b-name" }, h("b", {}), h("span", { class: "b-devices" })),
    makeMemory(),
    h("div", { class: "b-cell-track" }, track)
  );
}
function drawLane(ctx, element, { lane, compact }) {
  const preview = ctx.preview?.view?.lanes.find((other) => other.id === lane.id) ?? null;
  const isTarget = ctx.preview?.target === lane.id && preview !== null && preview.runs !== lane.runs;
  const shown = preview ?? lane;
  const bad = shown.peak_bytes > shown.capacity_bytes;
  element.classList.toggle("compact", compact);
  element.classList.toggle("target", isTarget || ctx.preview?.target === lane.id);
  element.classList.toggle("bad", bad && isTarget);
  drawName(element.querySelector(".b-name"), lane);
  drawMemory(ctx, element.querySelector(".b-mem"), shown, preview ? lane : null);
  const pieces = ctx.pieces.get(lane.id);
  const track = element.querySelector(".b-track");
  const chips = element.querySelector(".b-chips");
  set(chips, {
    "aria-label": `${lane.name}, ${deviceWords(lane)}, ${seconds(lane.forward_s + lane.backward_s)}, ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}`
  });
  let at = 0;
  const ends = /* @__PURE__ */ new Map();
  const placed = pieces.map((piece2) => {
    const left = at;
    at += piece2.time_s / ctx.scale_s;
    ends.set(piece2.stage, at);
    return { piece: piece2, left, width: at - left };
  });
  keyed(
    chips,
    placed,
    ({ piece: piece2 }) => piece2.key,
    () => makeChip(),
    (chip, place, i) => drawChip(ctx, chip, place, placed[i - 1], lane)
  );
  const time = lane.forward_s + lane.backward_s;
  const end = Math.max(at, time / ctx.scale_s);
  const ideal = ctx.view.ideal_s / ctx.scale_s;
  set(element.querySelector(".b-over"), {
    style: {
      left: pct2(ideal),
      width: pct2(Math.max(0, Math.min(1, at) - ideal)),
      display: at > ideal * 1.001 && !isTarget ? "" : "none"
    },
    class: `b-over${lane.binds ? " binds" : ""}`
  });
  const gain = isTarget ? (preview.forward_s + preview.backward_s - time) / ctx.scale_s : 0;
  set(element.querySelector(".b-slot"), {
    style: {
      left: pct2(Math.min(at, 0.98)),
      width: pct2(Math.max(4e-3, Math.min(gain, 1 - Math.min(at, 0.98)))),
      display: isTarget && gain > 0 ? "" : "none"
    }
  });
  const handles = track.querySelector(".b-handles");
  handles.hidden = isTarget && !ctx.preview.boundary;
  drawHandles(ctx, handles, lane, ends, gain);
  drawEnd(ctx, track.querySelector(".b-end"), { lane, preview, isTarget, end: end + Math.max(0, gain), ideal, bad });
}
function drawName(element, lane) {
  set(element.firstChild, { text: lane.name });
  const many = lane.replicas.length > 4;
  const items = (many ? lane.replicas.slice(0, 3) : lane.replicas).flatMap((group, i) => [
    ...i && lane.replica_link ? [{ key: `link${i}`, link: lane.replica_link }] : [],
    { key: `r${i}`, text: rangeWords(group) }
  ]).concat(many ? [{ key: "more", text: `+${lane.replicas.length - 3}` }] : []);
  const devices = element.querySelector(".b-devices");
  set(devices, {
    title: deviceWords(lane) + (lane.replica_link?.step_bytes ? `; ${bytes(lane.replica_link.step_bytes)} of gradients a step over ${lane.replica_link.name ?? lane.replica_link.kind}` : "")
  });
  if (devices.firstChild?.nodeType !== Node.TEXT_NODE) devices.prepend("gpu");
  keyed(
    devices,
    items,
    (item2) => item2.key,
    (item2) => h("span", { class: item2.link ? "b-wire" : "b-device" }),
    (span, item2) => {
      if (!item2.link) set(span, { text: item2.text });
      else
        set(span, {
          class: `b-wire b-k-${linkClass(item2.link.kind)}`,
          style: { height: `${linkThickness(item2.link.step_bytes)}px` }
        });
    }
  );
}
var rangeWords = (group) => group.length > 1 ? `${group[0]}–${group[group.length - 1]}` : String(group[0] ?? "");
function deviceWords(lane) {
  const groups = lane.replicas.map(rangeWords);
  return `gpu ${groups.length > 1 ? `${groups.slice(0, -1).join(", ")} and ${groups[groups.length - 1]}` : groups[0] ?? "?"}`;
}
function drawHandles(ctx, place, lane, ends, gain) {
  const boundaries = ctx.view.boundaries.filter((boundary) => boundary.before_lane === lane.id && ends.has(boundary.before));
  keyed(
    place,
    boundaries,
    (boundary) => boundary.id,
    (boundary) => h(
      "div",
      { class: "b-handle", role: "slider", tabindex: "0", "data-boundary": boundary.id, "aria-orientation": "horizontal" },
      h("i", {})
    ),
    (handle, boundary) => {
      const shift2 = ctx.preview?.boundary === boundary.id ? ctx.preview.shift_s / ctx.scale_s : gain;
      set(handle, {
        style: { left: pct2(Math.min(0.985, ends.get(boundary.before) + Math.max(0, shift2) + Math.min(0, shift2))) },
        "aria-label": `boundary between stage ${boundary.before} and stage ${boundary.after}`,
        "aria-valuemin": boundary.minimum,
        "aria-valuemax": boundary.maximum,
        "aria-valuenow": boundary.at,
        "aria-valuetext": `${ctx.lane(boundary.before_lane)?.name} ends after ${ctx.catalog.blocks[ctx.catalog.layers[boundary.at - 1]?.block]?.name ?? "nothing"}`,
        "aria-disabled": ctx.editable ? null : "true",
        title: `Drag, or [ and ]: move blocks between stage ${boundary.before} and stage ${boundary.after}`
      });
    }
  );
}
function drawEnd(ctx, element, { lane, preview, isTarget, end, ideal, bad }) {
  const [now, then] = [lane, preview ?? lane].map((l) => l.forward_s + l.backward_s);
  const changes = preview && Math.abs(now - then) > 1e-12;
  const slowest = Math.max(...(ctx.preview?.view ?? ctx.view).lanes.map((l) => l.forward_s + l.backward_s));
  const binds = preview ? then === slowest && ctx.view.lanes.length > 1 : lane.binds;
  const over = overIdeal(preview ?? lane, ctx.view.ideal_s);
  set(element.children[0], { text: changes ? `${secondsParts(now, then).text} → ${seconds(then)}` : seconds(now) });
  set(element.children[1], { text: `${over}${binds ? isTarget ? ", would bind" : " binds" : ""}` });
  const px = ctx.trackPx;
  const time0 = Math.min(now, then);
  const wide = changes ? 128 : 62;
  const between2 = ctx.view.boundaries.some((b) => b.before_lane === lane.id) ? 20 : 8;
  let left = end * px + between2;
  if (left < ideal * px + 6 && left + wide > ideal * px) left = ideal * px + 8;
  if (isTarget && changes) left = Math.min(time0 / ctx.scale_s * px + 10, px - wide - 4);
  const outside = left + wide > px;
  set(element, {
    class: `b-end${binds ? " binds" : ""}${bad && isTarget ? " bad" : ""}${outside ? " inside" : ""}`,
    style: outside ? { left: null, right: "2px" } : { left: `${left}px`, right: null }
  });
}
function makeGroup(ctx, { name }) {
  const toggle = h("button", {
    class: "sx-btn b-fold",
    "data-action": "fold",
    on: {
      click: () => {
        const collapsed = new Set(ctx.model.get("collapsed") ?? []);
        if (!collapsed.delete(name)) collapsed.add(name);
        ctx.sync.set("collapsed", [...collapsed]);
      }
    }
  });
  return h(
    "div",
    { class: "b-row b-group", "data-group": name },
    h("div", { class: "b-name" }, toggle),
    h("div", { class: "b-mem" }),
    h("div", { class: "b-cell-track" }, h("div", { class: "b-sum" }), h("span", {}))
  );
}
function drawGroup(ctx, element, { name, lanes, folded }) {
  const sum = groupSummary(lanes);
  set(element.querySelector(".b-fold"), {
    text: `${folded ? "▸" : "▾"} ${name}`,
    "aria-expanded": String(!folded),
    "aria-label": `${name}, ${lanes.length} lanes`
  });
  const full = sum.fullest.peak_bytes / sum.fullest.capacity_bytes;
  const track = element.querySelector(".b-cell-track");
  set(element.querySelector(".b-mem"), {
    text: folded ? `fullest ${sum.fullest.name}: ${percent(full)}${full > 1 ? " ▲" : ""}` : ""
  });
  set(track.firstChild, {
    style: {
      width: pct2(Math.min(1, (sum.slowest.forward_s + sum.slowest.backward_s) / ctx.scale_s)),
      display: folded ? "" : "none"
    }
  });
  set(track.lastChild, {
    text: `${lanes.length} lanes, slowest ${sum.slowest.name}: ${seconds(sum.slowest.forward_s + sum.slowest.backward_s)}`
  });
}
var pct2 = (x) => `${(x * 100).toFixed(4)}%`;

// src/board/detail.js
function makeDetail() {
  return h("div", { class: "b-detail" });
}
function drawDetail(ctx, element) {
  const carried = ctx.preview?.positions;
  const positions = carried ?? ctx.selected;
  const facts = positions.size ? factsOf(ctx, positions, carried) : [
    {
      key: "hint",
      name: "",
      value: "Drag a block or a boundary. Shift selects a range; Alt+Up and Alt+Down move it; [ and ] shift a boundary."
    }
  ];
  keyed(
    element,
    facts,
    (fact) => fact.key,
    () => h("span", { class: "b-fact" }, h("span", {}), h("b", {})),
    (span, fact) => {
      set(span.children[0], { text: fact.name });
      set(span.children[1], { text: fact.value });
      span.classList.toggle("title", Boolean(fact.title));
    }
  );
}
function factsOf(ctx, positions, carried) {
  const { catalog } = ctx;
  const sum = { forward_s: 0, backward_s: 0, parameters: 0, saved_bytes: 0, state_bytes: 0, seen: false };
  const lanes = /* @__PURE__ */ new Set();
  for (const position of positions) {
    const layer = catalog.layers[position];
    for (const key of ["forward_s", "backward_s", "saved_bytes", "state_bytes"]) sum[key] += layer[key];
    if (layer.parameters != null) {
      sum.parameters += layer.parameters;
      sum.seen = true;
    }
    const owner = ownerOf(ctx.view.lanes, position);
    if (owner) lanes.add(owner);
  }
  const where = [...lanes];
  const at = where.length === 1 ? `${where[0].name}, ${deviceWords(where[0])}` : `${where.length} lanes`;
  const last = catalog.layers[Math.max(...positions)];
  return [
    { key: "title", name: carried ? `from ${at}` : at, value: catalog.describe(positions), title: true },
    ...sum.seen ? [{ key: "parameters", name: "parameters", value: count(sum.parameters) }] : [],
    { key: "forward", name: "forward", value: seconds(sum.forward_s) },
    { key: "backward", name: "backward", value: seconds(sum.backward_s) },
    { key: "state", name: "weights, gradients, optimizer", value: bytes(sum.state_bytes) },
    {
      key: "saved",
      name: "activations",
      value: `${bytes(sum.saved_bytes)}${where.length === 1 ? ` × ${where[0].in_flight} in flight` : " a microbatch"}`
    },
    ...last.output_bytes == null ? [] : [{ key: "out", name: "out", value: bytes(last.output_bytes) }]
  ];
}

// src/board/gestures.js
var THRESHOLD_PX = 4;
function attachGestures(ctx) {
  let gesture = null;
  const { root } = ctx;
  const move = (event) => {
    if (!gesture) return;
    if (!gesture.started) {
      if (Math.hypot(event.clientX - gesture.x, event.clientY - gesture.y) < THRESHOLD_PX) return;
      if (!ctx.editable) return;
      gesture.started = true;
      root.classList.add("b-dragging");
      gesture.begin?.();
    }
    gesture.drag(event);
  };
  const up = (event) => {
    const done = gesture;
    finish();
    if (!done) return;
    if (done.started) done.drop(event);
    else done.click?.(event);
  };
  const escape = (event) => {
    if (event.key !== "Escape" || !gesture?.started) return;
    event.preventDefault();
    event.stopPropagation();
    finish();
    ctx.say("Move cancelled");
  };
  function finish() {
    gesture?.ghost?.remove();
    gesture = null;
    root.classList.remove("b-dragging");
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", up);
    window.removeEventListener("pointercancel", finish);
    window.removeEventListener("keydown", escape, true);
    if (ctx.preview) ctx.setPreview(null);
  }
  const start = (next, event) => {
    finish();
    gesture = { ...next, x: event.clientX, y: event.clientY, started: false };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
    window.addEventListener("pointercancel", finish);
    window.addEventListener("keydown", escape, true);
  };
  root.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const handle = event.target.closest(".b-handle, [data-overview-boundary]");
    const chip = event.target.closest(".b-chip");
    if (handle) {
      event.preventDefault();
      handle.focus?.();
      start(boundaryGesture(ctx, handle), event);
    } else if (chip) {
      event.preventDefault();
      ctx.focusChip(chip.dataset.key);
      start(
        event.pointerType === "touch" ? { drag() {
        }, drop() {
        }, click: (e) => clickChip(ctx, chip, e) } : chipGesture(ctx, chip),
        event
      );
    }
  });
  root.addEventListener("dblclick", (event) => {
    const chip = event.target.closest(".b-chip");
    if (chip) toggleOpen(ctx, chip.dataset.block);
  });
  root.addEventListener("contextmenu", (event) => {
    const chip = event.target.closest(".b-chip");
    if (!chip) return;
    event.preventDefault();
    const own = chipPositions(ctx, chip);
    const open = () => {
      const box = root.getBoundingClientRect();
      openMoveMenu(ctx, chip, { x: event.clientX - box.left, y: event.clientY - box.top });
    };
    if (own.some((p) => !ctx.selected.has(p))) ctx.select(new Set(own));
    open();
  });
  ctx.stopGestures = finish;
}
function chipPositions(ctx, chip) {
  return positionsOf({ first: Number(chip.dataset.first), count: Number(chip.dataset.count) });
}
function toggleOpen(ctx, block) {
  const expanded = ctx.expanded;
  if (!expanded.delete(block)) expanded.add(block);
  ctx.sync.set("expanded", [...expanded]);
}
function clickChip(ctx, chip, { shiftKey = false, ctrlKey = false, metaKey = false } = {}) {
  const own = chipPositions(ctx, chip);
  if (shiftKey && ctx.anchor != null) {
    const [from, to] = [Math.min(ctx.anchor[0], own[0]), Math.max(ctx.anchor[1], own[own.length - 1])];
    ctx.select(between(from, to + 1));
    return;
  }
  ctx.anchor = [own[0], own[own.length - 1]];
  if (!ctrlKey && !metaKey) return void ctx.select(new Set(own));
  const selected = ctx.selected;
  const held = own.every((p) => selected.has(p));
  for (const p of own) held ? selected.delete(p) : selected.add(p);
  ctx.select(selected);
}
function chipGesture(ctx, chip) {
  const own = chipPositions(ctx, chip);
  const gesture = {
    click: (event) => clickChip(ctx, chip, event),
    begin() {
      if (!own.every((p) => ctx.selected.has(p))) {
        ctx.anchor = [own[0], own[own.length - 1]];
        ctx.select(new Set(own));
        ctx.draw();
      }
      gesture.positions = ctx.selected;
      gesture.rows = null;
      this.ghost = makeGhost(ctx, gesture.positions);
      ctx.root.append(this.ghost);
      gesture.ghost = this.ghost;
    },
    drag(event) {
      const rows = [...ctx.lanes.querySelectorAll(".b-lane")].map((lane) => {
        const box = lane.getBoundingClientRect();
        return { id: lane.dataset.lane, top: box.top, bottom: box.bottom };
      });
      const target = rowAt(rows, event.clientY);
      if (target !== gesture.target || !ctx.preview) {
        gesture.target = target;
        ctx.setPreview({ positions: gesture.positions, target });
        captionGhost(ctx, gesture.ghost, gesture.positions);
      }
      placeGhost(ctx, gesture.ghost, event);
    },
    drop() {
      if (gesture.target != null) ctx.move(gesture.positions, gesture.target);
    }
  };
  return gesture;
}
function makeGhost(ctx, positions) {
  const names = ctx.catalog.ids(positions).map((id) => {
    const range = ctx.catalog.ranges.get(id);
    const block = ctx.catalog.blocks[ctx.catalog.layers[range[0]].block];
    return block.id === id ? block.label : ctx.catalog.layers[range[0]].label;
  });
  const shown = names.slice(0, 4);
  return h(
    "div",
    { class: "b-ghost", "aria-hidden": "true" },
    h("div", { class: "b-ghost-card" }, h("b", {}), h("span", {})),
    shown.map((name) => h("div", { class: "b-ghost-chip", text: name })),
    names.length > shown.length ? h("div", { class: "b-ghost-chip", text: `+${names.length - shown.length}` }) : null
  );
}
function effectWords(ctx, preview) {
  const was = ctx.lane(preview.target);
  const next = preview.view?.lanes.find((lane) => lane.id === preview.target);
  if (!was || !next || was.runs === next.runs) return null;
  const over = next.peak_bytes - next.capacity_bytes;
  return `${signed(seconds(next.forward_s + next.backward_s - was.forward_s - was.backward_s))}, ${signed(bytes(next.peak_bytes - was.peak_bytes))} a device${over > 0 ? `; over by ${bytes(over)}` : ""}`;
}
function captionGhost(ctx, ghost, positions) {
  const lane = ctx.preview?.target == null ? null : ctx.lane(ctx.preview.target);
  const effect = lane ? effectWords(ctx, ctx.preview) : null;
  const [title, text] = ghost.firstChild.children;
  title.textContent = lane ? `${ctx.catalog.describe(positions)} → ${lane.name}` : ctx.catalog.describe(positions);
  text.textContent = effect ?? (lane ? "here now" : "Drop on a lane. Esc cancels.");
}
function placeGhost(ctx, ghost, event) {
  const box = ctx.root.getBoundingClientRect();
  const x = Math.min(event.clientX - box.left + 10, box.width - ghost.offsetWidth - 4);
  ghost.style.transform = `translate(${Math.max(4, x)}px, ${event.clientY - box.top + 12}px)`;
}
function boundaryGesture(ctx, handle) {
  const id = handle.dataset.boundary ?? handle.dataset.overviewBoundary;
  const boundary = ctx.view.boundaries.find((b) => b.id === id);
  const overview = handle.dataset.overviewBoundary != null;
  const gesture = {
    to: boundary.at,
    drag(event) {
      const width = overview ? ctx.overview.querySelector(".b-strip").clientWidth : ctx.trackPx;
      const perPx = (overview ? ctx.catalog.total_s : ctx.scale_s) / width;
      const lane = ctx.lane(boundary.before_lane);
      gesture.to = nearestStop(
        ctx.catalog,
        boundary,
        ctx.expanded,
        (event.clientX - this.x) * perPx,
        overview ? 1 : lane?.time_factor ?? 1
      );
      previewBoundary(ctx, boundary, gesture.to);
    },
    drop() {
      ctx.moveBoundary(boundary, gesture.to);
    }
  };
  return gesture;
}
function previewBoundary(ctx, boundary, to) {
  const positions = between(boundary.at, to);
  if (!positions.size) return ctx.setPreview(null);
  const factor = ctx.lane(boundary.before_lane)?.time_factor ?? 1;
  let shift_s = 0;
  for (const p of positions) shift_s += ctx.catalog.layers[p].time_s * factor * (to > boundary.at ? 1 : -1);
  ctx.setPreview({
    positions,
    boundary: boundary.id,
    shift_s,
    target: to > boundary.at ? boundary.before_lane : boundary.after_lane
  });
}

// src/board/keyboard.js
function attachKeyboard(ctx) {
  let carried = null;
  ctx.root.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && undoKey(ctx, event)) return stop(event);
    if (event.ctrlKey || event.metaKey) return void 0;
    const handle = event.target.closest?.(".b-handle");
    if (handle) return void (handleKey(ctx, handle, event) && stop(event));
    const chip = event.target.closest?.(".b-chip");
    if (!chip) return modesKey(ctx, event);
    if (carried) return void (carryKey(event) && stop(event));
    if (chipKey(ctx, chip, event, pickUp)) stop(event);
    return void 0;
  });
  function pickUp(chip) {
    const own = chipPositions(ctx, chip);
    const positions = own.every((p) => ctx.selected.has(p)) ? ctx.selected : new Set(own);
    if (!ctx.editable) return;
    carried = { positions, lane: chip.closest(".b-lane").dataset.lane };
    ctx.root.classList.add("b-carrying");
    ctx.setPreview({ positions, target: carried.lane });
    ctx.say(`${ctx.catalog.describe(positions)} picked up. Up and Down choose a lane, Space drops, Escape cancels.`);
  }
  function carryKey(event) {
    const order = ctx.view.lanes.map((lane2) => lane2.id);
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const at = order.indexOf(carried.lane) + (event.key === "ArrowDown" ? 1 : -1);
      if (order[at] == null) return true;
      carried.lane = order[at];
      ctx.setPreview({ positions: carried.positions, target: carried.lane });
      ctx.say(`${ctx.lane(carried.lane).name}: ${effectWords(ctx, ctx.preview) ?? "here now"}`);
      return true;
    }
    const drop = event.key === " " || event.key === "Enter";
    if (!drop && event.key !== "Escape" && event.key !== "Tab") return true;
    const { positions, lane } = carried;
    carried = null;
    ctx.root.classList.remove("b-carrying");
    ctx.setPreview(null);
    if (drop) ctx.move(positions, lane);
    else ctx.say("Move cancelled");
    return event.key !== "Tab";
  }
}
function stop(event) {
  event.preventDefault();
  event.stopPropagation();
}
function undoKey(ctx, event) {
  const key = event.key.toLowerCase();
  const kind = key === "z" ? event.shiftKey ? "redo" : "undo" : key === "y" ? "redo" : null;
  if (!kind || /^(input|textarea|select)$/i.test(event.target.tagName)) return false;
  const possible = kind === "undo" ? ctx.actual.can_undo : ctx.actual.can_redo;
  if (possible === false) ctx.say(`Nothing to ${kind}`);
  else {
    ctx.optimistic = ctx.view;
    ctx.sync.send(kind);
    ctx.afterAnswer = () => ctx.say(kind === "undo" ? "Undone" : "Redone");
    ctx.draw();
  }
  return true;
}
function chipKey(ctx, chip, event, pickUp) {
  const { key } = event;
  if (event.altKey && (key === "ArrowUp" || key === "ArrowDown")) return moveToNeighbour(ctx, chip, key === "ArrowDown" ? 1 : -1);
  if (event.altKey) return false;
  const next = { ArrowRight: 1, ArrowLeft: -1, ArrowUp: "up", ArrowDown: "down", Home: "first", End: "last" }[key];
  if (next != null) return go(ctx, chip, next, event.shiftKey);
  if (key === " ") return event.shiftKey ? (clickChip(ctx, chip, { shiftKey: true }), true) : (pickUp(chip), true);
  if (key === "Enter") return toggleOpen(ctx, chip.dataset.block), true;
  if (key === "Escape") return ctx.select(/* @__PURE__ */ new Set()), true;
  if (key === "[" || key === "]") return shiftEnd(ctx, chip, key === "]" ? 1 : -1, "before");
  if (key === "{" || key === "}") return shiftEnd(ctx, chip, key === "}" ? 1 : -1, "after");
  if (key === "m" || key === "ContextMenu") {
    if (!chipPositions(ctx, chip).every((p) => ctx.selected.has(p))) clickChip(ctx, chip);
    openMoveMenu(ctx, chip, menuPlace(ctx, chip));
    return true;
  }
  return false;
}
function menuPlace(ctx, chip) {
  const [root, box] = [ctx.root.getBoundingClientRect(), chip.getBoundingClientRect()];
  return { x: box.left - root.left, y: box.bottom - root.top + 4 };
}
function go(ctx, chip, where, extend) {
  const chips = [...ctx.lanes.querySelectorAll(".b-chip")];
  const lane = [...chip.closest(".b-chips").children];
  let next = null;
  if (where === "first" || where === "last") next = where === "first" ? lane[0] : lane[lane.length - 1];
  else if (typeof where === "number") next = chips[chips.indexOf(chip) + where];
  else next = inNeighbour(ctx, chip, where === "down" ? 1 : -1);
  if (!next) return true;
  if (extend && ctx.anchor == null) {
    const own = chipPositions(ctx, chip);
    ctx.anchor = [own[0], own[own.length - 1]];
  }
  ctx.focusChip(next.dataset.key);
  clickChip(ctx, next, { shiftKey: extend });
  return true;
}
function inNeighbour(ctx, chip, step) {
  const lanes = [...ctx.lanes.querySelectorAll(".b-lane")];
  const lane = lanes[lanes.indexOf(chip.closest(".b-lane")) + step];
  const x = chip.getBoundingClientRect().left;
  let best = null;
  for (const other of lane?.querySelectorAll(".b-chip") ?? []) {
    const off = Math.abs(other.getBoundingClientRect().left - x);
    if (!best || off < best.off) best = { other, off };
  }
  return best?.other ?? null;
}
function moveToNeighbour(ctx, chip, step) {
  const order = ctx.view.lanes.map((lane) => lane.id);
  const target = order[order.indexOf(chip.closest(".b-lane").dataset.lane) + step];
  if (target == null) return ctx.say("No lane there"), true;
  const own = chipPositions(ctx, chip);
  ctx.move(own.every((p) => ctx.selected.has(p)) ? ctx.selected : new Set(own), target);
  return true;
}
function shiftEnd(ctx, chip, step, side) {
  const lane = ctx.lane(chip.closest(".b-lane").dataset.lane);
  const first = Number(chip.dataset.first);
  const stage = lane.runs.find((run) => run.first <= first && first < run.first + run.count)?.stage;
  const boundary = ctx.view.boundaries.find((b) => b[side] === stage) ?? ctx.view.boundaries.find((b) => b[side === "before" ? "after" : "before"] === stage);
  if (!boundary) return ctx.say("No boundary here"), true;
  return shift(ctx, boundary, step);
}
function shift(ctx, boundary, step) {
  const to = nextStop(ctx.catalog, boundary, ctx.expanded, step);
  if (to == null) ctx.say("The boundary is at its limit");
  else ctx.moveBoundary(boundary, to);
  return true;
}
function handleKey(ctx, handle, event) {
  const boundary = ctx.view.boundaries.find((b) => b.id === handle.dataset.boundary);
  const step = { ArrowRight: 1, ArrowUp: 1, "]": 1, ArrowLeft: -1, ArrowDown: -1, "[": -1 }[event.key];
  return step != null && boundary != null && shift(ctx, boundary, step);
}
function modesKey(ctx, event) {
  const radio = event.target.closest?.("[role=radio]");
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!radio || !step) return;
  const all = [...radio.parentElement.children];
  const next = all[(all.indexOf(radio) + step + all.length) % all.length];
  next.click();
  next.focus();
  stop(event);
}

// src/board/links.js
function makeLinks(ctx, { lane }) {
  return h(
    "div",
    { class: "b-row b-links", "data-links": lane.id },
    h("div", {}),
    h("div", {}),
    h("div", { class: "b-cell-track" })
  );
}
var KIND_NAMES = {
  nvlink: "NVLink",
  nvswitch: "NVSwitch",
  pcie: "PCIe",
  infiniband: "InfiniBand",
  ethernet: "Ethernet",
  internet: "internet",
  shared: "shared memory",
  host: "host"
};
function drawLinks(ctx, element, { lane, compact }) {
  const order = new Map(ctx.view.lanes.map((other, i) => [other.id, i]));
  const mine = ctx.view.links.filter((link) => link.from_lane === lane.id);
  const notes = lane.runs.map((run) => run.note).filter(Boolean);
  element.classList.toggle("compact", compact);
  element.classList.toggle("last", order.get(lane.id) === ctx.view.lanes.length - 1 && !mine.length && !notes.length);
  const shown = mine.slice(0, compact ? 1 : 2);
  const rows = [
    ...compact ? [] : notes.map((note, i) => ({ key: `note${i}`, note })),
    ...shown.map((link) => ({
      key: `to:${link.to_lane}:${link.kind}`,
      link,
      far: order.get(link.to_lane) !== order.get(lane.id) + 1
    })),
    ...compact || mine.length <= shown.length ? [] : [{ key: "more", more: mine.slice(shown.length) }]
  ];
  keyed(
    element.lastChild,
    rows,
    (row) => row.key,
    (row) => row.link ? h(
      "div",
      { class: "b-link" },
      h("span", {}),
      h("span", { class: "b-arrow" }, h("i", {})),
      h("span", { class: "b-link-text" })
    ) : h("div", { class: row.note ? "b-note" : "b-link" }, row.note ? triangle() : null, h("span", {})),
    (div, row) => {
      if (row.note) set(div.lastChild, { text: row.note });
      else if (row.more)
        set(div.lastChild, {
          text: `and ${row.more.length} more links, ${bytes(row.more.reduce((sum, link) => sum + (link.step_bytes ?? 0), 0))} a step`
        });
      else drawLink(ctx, div, row, compact);
    }
  );
}
function drawLink(ctx, div, { link, far }, compact) {
  const name = `${far ? `to ${ctx.lane(link.to_lane)?.name ?? link.to_lane}, ` : ""}${link.name ?? KIND_NAMES[link.kind] ?? link.kind}`;
  const both = link.forward_bytes != null && link.backward_bytes === link.forward_bytes;
  const per = link.forward_bytes == null ? "" : both ? `${bytes(link.forward_bytes)} each way` : `${bytes(link.forward_bytes)} forward, ${bytes(link.backward_bytes ?? 0)} back`;
  const words = [
    [per, link.transfer_s == null ? "" : seconds(link.transfer_s)].filter(Boolean).join(", "),
    link.step_bytes == null ? "" : `${bytes(link.step_bytes)} a step`
  ].filter(Boolean).join("; ");
  const [label, arrow, text] = div.children;
  set(div, { title: `${name}: ${words}`, role: "img", "aria-label": `${name}: ${words}` });
  set(label, { text: compact ? "" : name });
  set(arrow, {
    class: `b-arrow b-k-${linkClass(link.kind)}${link.dashed ? " dashed" : ""}${link.backward_bytes ? " both" : ""}`
  });
  set(arrow.firstChild, { style: { height: `${linkThickness(link.step_bytes)}px` } });
  set(text, { text: compact ? "" : words });
}

// src/board/overview.js
function makeOverview(ctx) {
  return h(
    "div",
    { class: "b-row b-overview", "aria-hidden": "true" },
    h("div", { class: "b-name" }, h("b", { text: "Whole model" }), h("span", {})),
    h("div", { class: "b-mem" }, h("span", {}), h("span", { text: "per microbatch" })),
    h(
      "div",
      { class: "b-cell-track" },
      h("div", { class: "b-strip", on: { click: (event) => pick2(ctx, event) } }),
      h("div", { class: "b-cuts" }),
      h("div", { class: "b-stages" })
    )
  );
}
function pick2(ctx, event) {
  const block = event.target.closest("[data-overview-block]")?.dataset.overviewBlock;
  if (block) ctx.select(ctx.catalog.positions([block]));
}
function drawOverview(ctx, element) {
  const { catalog, view } = ctx;
  const total = catalog.total_s || 1;
  const [name, time, cell] = element.children;
  set(name.lastChild, { text: `${plural(catalog.layers.length, "layer")}   ▲ ideal cut` });
  set(time.firstChild, { text: seconds(catalog.total_s) });
  const owners = new Array(catalog.layers.length).fill(-1);
  view.lanes.forEach((lane, l) => lane.runs.forEach((run) => owners.fill(l, run.first, run.first + run.count)));
  const segments = [];
  let at = 0;
  for (const layer of catalog.layers) {
    const last = segments[segments.length - 1];
    if (last && last.block === layer.block && last.owner === owners[layer.index]) last.width += layer.time_s / total;
    else
      segments.push({
        block: layer.block,
        owner: owners[layer.index],
        first: layer.index,
        left: at / total,
        width: layer.time_s / total
      });
    at += layer.time_s;
  }
  const strip = cell.children[0];
  keyed(
    strip,
    segments,
    (s) => `s${s.first}`,
    () => h("i", {}),
    (segment, s) => {
      const block = catalog.blocks[s.block];
      set(segment, {
        "data-overview-block": block.id,
        title: `${block.name}, ${view.lanes[s.owner]?.name ?? "nowhere"}`,
        text: block.kind !== "block" && s.width * ctx.trackPx > 8 * block.label.length ? block.label : "",
        class: `${s.owner % 2 ? "odd" : "even"}${ctx.chosen.has(s.first) ? " selected" : ""}${s.owner < 0 ? " nowhere" : ""}`,
        style: { left: pct3(s.left), width: pct3(s.width) }
      });
    }
  );
  drawCuts(ctx, cell, total);
}
function drawCuts(ctx, cell, total) {
  const { catalog, view } = ctx;
  const until = [0];
  for (const layer of catalog.layers) until.push(until[until.length - 1] + layer.time_s / total);
  keyed(
    cell.children[1],
    view.boundaries,
    (b) => b.id,
    (b) => h("i", { "data-overview-boundary": b.id }),
    (cut, b) => set(cut, { style: { left: pct3(until[b.at]) }, title: `Boundary of stages ${b.before} and ${b.after}` })
  );
  const stages = view.lanes.flatMap((lane) => lane.runs.map((run) => ({ run, lane })));
  const marks = view.lanes.length > 24 ? [] : stages.map(({ run }) => ({
    key: `n${run.stage}-${run.first}`,
    left: (until[run.first] + until[run.first + run.count]) / 2,
    width: until[run.first + run.count] - until[run.first],
    text: view.lanes.length > 12 ? `${run.stage}` : `stage ${run.stage}`,
    cls: ""
  }));
  const ideals = view.lanes.length > 64 ? [] : view.lanes.slice(1).map((_, i) => ({ key: `i${i}`, left: (i + 1) / view.lanes.length, width: 1, text: "▲", cls: "ideal" }));
  keyed(
    cell.children[2],
    [...marks.filter((m) => m.width * ctx.trackPx > 7 * m.text.length), ...ideals],
    (m) => m.key,
    () => h("span", {}),
    (mark, m) => set(mark, { text: m.text, class: m.cls, style: { left: pct3(m.left) } })
  );
}
var pct3 = (x) => `${(x * 100).toFixed(4)}%`;

// src/board/ruler.js
function makeRuler() {
  return h(
    "div",
    { class: "b-row b-ruler", "aria-hidden": "true" },
    h("div", { class: "b-name", text: "Stage" }),
    h("div", { class: "b-mem" }),
    h("div", { class: "b-cell-track" })
  );
}
function drawRuler(ctx, ruler) {
  const capacity = Math.max(...ctx.view.lanes.map((lane) => lane.capacity_bytes));
  const [, memory, time] = ruler.children;
  const unit = capacity >= 2 ** 30 ? 2 ** 30 : 2 ** 20;
  const marks = [
    0,
    ...ticks(capacity / unit * 0.75, 2).filter((t) => t > 0).slice(-1).map((t) => t * unit).filter((t) => t < capacity * 0.72),
    capacity
  ];
  keyed(
    memory,
    marks,
    (_, i) => `m${i}`,
    () => h("span", { class: "b-tick" }),
    (tick, value, i) => set(tick, {
      text: i === marks.length - 1 ? bytes(value, capacity) : bytesParts(value, capacity).text.replace(/\.0$/, ""),
      style: { left: pct4(value / ctx.memory_bytes) },
      class: `b-tick${i ? "" : " first"}${i === marks.length - 1 ? " strong" : ""}`
    })
  );
  const ideal = ctx.view.ideal_s;
  const all = ticks(ctx.scale_s * 0.97, Math.max(2, Math.floor(ctx.trackPx / 90)));
  const entries = all.filter((t) => Math.abs(t - ideal) / ctx.scale_s * ctx.trackPx > 52).map((t) => ({
    key: `t${t}`,
    t,
    text: t ? secondsParts(t, ctx.scale_s).text.replace(/\.0+$/, "") : `0 ${secondsParts(0, ctx.scale_s).unit}`,
    ideal: false
  }));
  if (ideal <= ctx.scale_s) entries.push({ key: "ideal", t: ideal, text: `ideal ${seconds(ideal)}`, ideal: true });
  keyed(
    time,
    entries,
    (e) => e.key,
    () => h("span", {}),
    (tick, e) => set(tick, {
      text: e.text,
      class: `b-tick${e.t === 0 ? " first" : ""}${e.ideal ? " strong" : ""}`,
      style: { left: pct4(e.t / ctx.scale_s) }
    })
  );
  ctx.ticks = all;
}
function makeIdeal() {
  return h(
    "div",
    { class: "b-row b-ideal", "aria-hidden": "true" },
    h("div", {}),
    h("div", {}),
    h("div", { class: "b-cell-track" })
  );
}
function drawIdeal(ctx, element) {
  const lines = [
    ...ctx.ticks.filter((t) => t > 0).map((t) => ({ key: `g${t}`, t, cls: "b-grid" })),
    ...ctx.view.ideal_s <= ctx.scale_s ? [{ key: "ideal", t: ctx.view.ideal_s, cls: "b-line" }] : []
  ];
  ctx.root.style.setProperty("--ideal", pct4(ctx.view.ideal_s / ctx.scale_s));
  keyed(
    element.lastChild,
    lines,
    (line) => line.key,
    (line) => h("i", { class: line.cls }),
    (line, { t }) => set(line, { style: { left: pct4(t / ctx.scale_s) } })
  );
}
var pct4 = (x) => `${(x * 100).toFixed(4)}%`;

// src/board/index.js
var BoardContext = class {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "board", "Board");
    this.root = root;
    this.closeRoot = close;
    this.trackPx = 600;
    this.scale_s = 1;
    this.scaleKey = null;
    this.optimistic = null;
    this.preview = null;
    this.focusKey = null;
    this.anchor = null;
    this.afterAnswer = null;
    this.sync = new Sync(
      model,
      ["view", "blocks", "selection", "expanded", "collapsed", "colour"],
      () => this.draw(),
      true
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
    const items = rows.flatMap(
      (row) => row.type === "lane" ? [row, { type: "links", lane: row.lane, compact: row.compact }] : [row]
    );
    keyed(
      this.lanes,
      items,
      (row) => row.type === "group" ? `group:${row.name}` : `${row.type}:${row.lane.id}`,
      (row) => ({ lane: makeLane, links: makeLinks, group: makeGroup })[row.type](this, row),
      (element, row) => ({ lane: drawLane, links: drawLinks, group: drawGroup })[row.type](this, element, row)
    );
    drawIdeal(this, this.ideal);
    drawDetail(this, this.detail);
  }
  /** One chip is in the tab order: the focused one, else the first. */
  roveTo(key) {
    const all = [...this.pieces.values()].flat();
    this.focusKey = all.some((p) => p.key === key) ? key : all[0]?.key ?? null;
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
    const touched = /* @__PURE__ */ new Set();
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
      (p) => !this.lane(toLane)?.runs.some((run) => run.first <= p && p < run.first + run.count)
    );
    if (!gained.length) return;
    const layers = gained.sort((a, b) => a - b).map((p) => this.catalog.layers[p].id);
    this.commit(positions, toLane, "move", { layers, to_lane: toLane });
  }
  /** Send a boundary shift and show it at once. @param {any} boundary @param {number} to new position of the cut */
  moveBoundary(boundary, to) {
    if (!this.editable || to === boundary.at) return;
    const positions = /* @__PURE__ */ new Set();
    for (let i = Math.min(boundary.at, to); i < Math.max(boundary.at, to); i += 1) positions.add(i);
    const target = to > boundary.at ? boundary.before_lane : boundary.after_lane;
    this.commit(positions, target, "move_boundary", {
      boundary: boundary.id,
      before: boundary.before,
      after: boundary.after,
      layers: to - boundary.at
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
};
var overlaps = (run, positions) => {
  for (const p of positions) if (run.first <= p && p < run.first + run.count) return true;
  return false;
};
function render({ model, el }) {
  const context = new BoardContext(model, el);
  return () => context.close();
}
var board_default = { render };
export {
  BoardContext,
  board_default as default
};
