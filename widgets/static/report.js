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
function keyed(parent, items, key, make2, update) {
  const old = /* @__PURE__ */ new Map();
  for (const child of [...parent.children]) if (child.dataset.key != null) old.set(child.dataset.key, child);
  const wanted = new Set(items.map(key));
  for (const [k, child] of old) if (!wanted.has(k)) child.remove();
  let cursor = firstKeyed(parent.firstElementChild);
  items.forEach((item2, i) => {
    const k = key(item2, i);
    let child = old.get(k);
    if (!child) {
      child = make2(item2);
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
function bold(text) {
  return String(text ?? "").split("**").map((part, i) => i % 2 ? h("b", { text: part }) : document.createTextNode(part));
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
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight) return jpThemeLight === "false";
  if (vscodeThemeKind) return /dark|high-contrast$/.test(vscodeThemeKind);
  const page = document.documentElement;
  const named = page.getAttribute("theme") ?? page.dataset.theme;
  if (named) return named.includes("dark");
  const style = getComputedStyle(element);
  if (HOST_COLOURS.some((name) => style.getPropertyValue(name).trim())) return dim(style.backgroundColor);
  return darkSystem.matches;
}
var HOST_COLOURS = ["--jp-layout-color1", "--vscode-editor-background"];
var darkSystem = matchMedia("(prefers-color-scheme: dark)");
function dim(colour) {
  const [red, green, blue] = (colour.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  return red + green + blue < 384;
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
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme", "theme", "style"] });
  darkSystem.addEventListener("change", apply);
  requestAnimationFrame(apply);
  return () => {
    observer.disconnect();
    darkSystem.removeEventListener("change", apply);
    timers.forEach(clearTimeout);
    for (const cleanup of cleanups) cleanup();
  };
}

// src/common/sync.js
var Sync = class {
  /** @param {any} model anywidget model @param {string[]} traits whose change redraws @param {() => void} draw */
  constructor(model, traits, draw2, always = false) {
    this.always = always;
    this.model = model;
    this.draw = draw2;
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

// src/board/consider.js
var REST_MS = 25;
function moveFields(ctx, positions, toLane) {
  const sorted = [...positions].sort((a, b) => a - b);
  return { layers: sorted.map((p) => ctx.catalog.layers[p].id), to_lane: toLane };
}
function boundaryFields(boundary, to) {
  return { boundary: boundary.id, before: boundary.before, after: boundary.after, layers: to - boundary.at };
}
function gainedBy(lane, positions) {
  return [...positions].filter((p) => !lane?.runs.some((run) => run.first <= p && p < run.first + run.count));
}
function intentOf(ctx, preview) {
  if (!preview?.view) return null;
  const boundary = ctx.view.boundaries.find((item2) => item2.id === preview.boundary);
  if (!boundary) {
    const gained = gainedBy(ctx.lane(preview.target), preview.positions);
    return gained.length ? { kind: "move", ...moveFields(ctx, gained, preview.target) } : null;
  }
  const count2 = preview.positions.size;
  const to = boundary.at + (preview.target === boundary.before_lane ? count2 : -count2);
  return { kind: "move_boundary", ...boundaryFields(boundary, to) };
}
function considerSoon(ctx, preview) {
  clearTimeout(ctx.considering);
  if (!preview?.view) return;
  ctx.considering = setTimeout(() => {
    const intent = ctx.preview === preview && !ctx.pending ? intentOf(ctx, preview) : null;
    if (intent) ctx.model.send({ consider: intent });
  }, REST_MS);
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
var percent = (fraction, decimals = 0) => known(fraction) ? `${fixed(fraction * 100, decimals)}${NBSP}%` : DASH;
var signed = (text) => text.startsWith(MINUS) || /^[0.\s\u202f\u00a0]*(\D*)$/.test(text) ? text : `+${text}`;
function count(n2) {
  if (!known(n2)) return DASH;
  for (const [scale, unit] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"]
  ]) {
    if (Math.abs(n2) >= scale * 0.9995) return `${significant(n2 / scale).replace(/\.0+$/, "")}${NBSP}${unit}`;
  }
  return fixed(n2);
}
var plural = (n2, noun) => `${fixed(n2)} ${noun}${n2 === 1 ? "" : "s"}`;
var join = ({ text, unit }) => unit ? `${text}${NBSP}${unit}` : text;
var typeset = (text) => String(text ?? "").replace(/(\d)%/g, "$1 %").replace(/(\d)[ \u00a0]?us\b/g, "$1 µs");

// src/board/holds.js
var pinnedPositions = (catalog, view) => view.pinned?.length ? catalog.positions(view.pinned) : NOTHING;
var NOTHING = /* @__PURE__ */ new Set();
function refusal({ catalog, view, pinned }, positions, toLane) {
  const target = view.lanes.find((lane) => lane.id === toLane);
  const holds = (lane, p) => lane.runs.some((run) => run.first <= p && p < run.first + run.count);
  const moving = target ? [...positions].filter((p) => !holds(target, p)) : [];
  if (!moving.length) return null;
  if (target.locked) return `${target.name} is locked: it takes no other layers`;
  const source = view.lanes.find((lane) => lane.locked && moving.some((p) => holds(lane, p)));
  if (source) return `${source.name} is locked: its layers stay`;
  const held = new Set(moving.filter((p) => pinned.has(p)));
  if (!held.size) return null;
  const [what, is] = [catalog.describe(held), held.size === 1 || catalog.ids(held).length === 1 ? "is" : "are"];
  return `${what} ${is} pinned to ${is === "is" ? "its" : "their"} devices`;
}
function boundaryRefusal(view, boundary) {
  const locked = view.lanes.find((lane) => lane.locked && (lane.id === boundary.before_lane || lane.id === boundary.after_lane));
  return locked ? `${locked.name} is locked` : null;
}
var allPinned = (pinned, positions) => positions.size > 0 && [...positions].every((p) => pinned.has(p));
function withPins(catalog, view, layers, on) {
  const named = new Set(layers);
  const rest = (view.pinned ?? []).filter((id) => !named.has(id));
  return { ...view, pinned: on ? [...rest, ...layers] : rest };
}
function withLock(view, id, on) {
  return { ...view, lanes: view.lanes.map((lane) => lane.id === id ? { ...lane, locked: on } : lane) };
}

// src/common/scales.js
function ticks(end2, wanted, start = 0) {
  const span = end2 - start;
  if (!(span > 0) || wanted < 1) return [];
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step2 = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const first = Math.ceil(start / step2 - 1e-9) || 0;
  const result = [];
  for (let i = first; i * step2 <= end2 + step2 * 1e-9; i += 1) result.push(i * step2);
  return result;
}
function logPosition(x, low, high) {
  if (!(x > 0)) return 0;
  if (!(high > low) || !(low > 0)) return 1;
  return Math.min(1, Math.max(0, Math.log(x / low) / Math.log(high / low)));
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
    this.parts = [...new Set(this.layers.map((layer) => layer.part).filter(Boolean))].slice(0, 2);
    this.until = new Float64Array(this.layers.length + 1);
    this.layers.forEach((layer, i) => {
      this.until[i + 1] = this.until[i] + layer.time_s / (this.total_s || 1);
    });
  }
  /** Flat positions of ids. @param {Iterable<string>} ids @returns {Set<number>} */
  positions(ids) {
    const result = /* @__PURE__ */ new Set();
    for (const id of ids) {
      const range2 = this.ranges.get(id);
      for (let i = range2?.[0] ?? 0; i < (range2?.[1] ?? 0); i += 1) result.add(i);
    }
    return result;
  }
  /** Shortest list of ids for flat positions: block ids where whole. @param {Set<number>} positions */
  ids(positions) {
    const result = [];
    this.blocks.forEach((block, b) => {
      const [start, end2] = [this.starts[b], this.starts[b + 1]];
      let held = 0;
      for (let i = start; i < end2; i += 1) held += positions.has(i) ? 1 : 0;
      if (held === end2 - start) result.push(block.id);
      else if (held) {
        for (let i = start; i < end2; i += 1) if (positions.has(i)) result.push(this.layers[i].id);
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
var stagesOf = (runs) => new Set(runs.map((run) => `${run.stage}|${run.copy ?? 0}`)).size;
function ownFactor(lane) {
  const whole = lane.forward_s + lane.backward_s;
  const calls = (lane.call_s ?? 0) * stagesOf(lane.runs ?? []);
  return (lane.time_factor ?? 1) * (whole > calls ? (whole - calls) / whole : 1);
}
function piecesOf(catalog, lane, expanded) {
  const known2 = kept.get(lane);
  if (known2 && known2.catalog === catalog && known2.expanded === expanded) return known2.pieces;
  const pieces = cut(catalog, lane, expanded);
  kept.set(lane, { catalog, expanded, pieces });
  return pieces;
}
var kept = /* @__PURE__ */ new WeakMap();
function cut(catalog, lane, expanded) {
  const pieces = [];
  const factors = { drawn: lane.time_factor ?? 1, own: ownFactor(lane) };
  lane.runs.forEach((run, r) => {
    const end2 = run.first + run.count;
    for (let at = run.first; at < end2; ) {
      const b = catalog.layers[at].block;
      const block = catalog.blocks[b];
      const open = expanded.has(block.id) && block.layers.length > 1;
      const stop2 = open ? at + 1 : Math.min(end2, catalog.starts[b + 1]);
      pieces.push(piece(catalog, run, r, b, at, stop2, open, factors));
      at = stop2;
    }
  });
  return pieces;
}
function piece(catalog, run, r, b, first, stop2, open, factors) {
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
    result.time_s += layer.time_s * factors.drawn * share;
    result.forward_s += layer.forward_s * factors.own * share;
    result.backward_s += layer.backward_s * factors.own * share;
    result.state_bytes += layer.state_bytes * share;
    result.saved_bytes += layer.saved_bytes * share;
    result.parameters += (layer.parameters ?? 0) * share;
    result.output_bytes = layer.output_bytes ?? 0;
  }
  return result;
}
var positionsOf = (p) => Array.from({ length: p.count }, (_, i) => p.first + i);
function holdsAny(sorted, first, end2) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = low + high >> 1;
    if (sorted[middle] < first) low = middle + 1;
    else high = middle;
  }
  return low < sorted.length && sorted[low] < end2;
}
function ownersOf(view, count2) {
  const owners = new Int32Array(count2).fill(-1);
  for (let l = view.lanes.length - 1; l >= 0; l -= 1)
    for (const run of view.lanes[l].runs) owners.fill(l, run.first, run.first + run.count);
  return owners;
}
function heldBy(set2, first, count2) {
  if (!set2.size) return "none";
  let held = 0;
  for (let i = first; i < first + count2; i += 1) held += set2.has(i) ? 1 : 0;
  return held === count2 ? "all" : held ? "some" : "none";
}
function pieceName(p) {
  if (p.layer && p.block.layers.length > 1) return `${p.layer.label} of ${p.block.name}`;
  return p.whole ? p.block.name : `part of ${p.block.name}, ${p.count} of ${p.block.layers.length} layers`;
}
function pieceLabel(p) {
  if (p.layer && p.block.layers.length > 1) return p.layer.label;
  return p.whole ? p.block.label : `${p.block.label} (${p.count}/${p.block.layers.length})`;
}

// src/board/patch.js
var inputs = /* @__PURE__ */ new WeakMap();
var written = /* @__PURE__ */ new WeakMap();
function stale(element, values) {
  const old = inputs.get(element);
  if (old && old.length === values.length && values.every((value, i) => Object.is(value, old[i]))) return false;
  inputs.set(element, values);
  return true;
}
var forget = (element) => void inputs.delete(element);
function patch(element, attributes) {
  let last = written.get(element);
  if (!last) written.set(element, last = {});
  for (const name in attributes) {
    const value = attributes[name];
    if (name === "style") patchStyle(element, value, last);
    else if (last[name] !== value) {
      last[name] = value;
      if (name === "text") writeText(element, value);
      else set(element, { [name]: value });
    }
  }
}
function patchStyle(element, properties, last) {
  for (const property in properties) {
    const key = `style.${property}`;
    const value = properties[property] ?? null;
    if (last[key] === value || value === null && !(key in last)) continue;
    last[key] = value;
    if (value === null) element.style.removeProperty(property);
    else element.style.setProperty(property, value);
  }
}
function writeText(element, value) {
  const text = value == null ? "" : String(value);
  const node = element.firstChild;
  if (node && node.nodeType === 3 && !node.nextSibling) node.data = text;
  else if (text || node) element.textContent = text;
}
var pct = (x) => `${(x * 100).toFixed(3)}%`;

// src/board/other.js
function otherSegments(catalog, lane, scale_s) {
  const runs = lane.other?.runs ?? [];
  let sum = 0;
  for (const [first, count2] of runs) sum += catalog.until[first + count2] - catalog.until[first];
  const stretch = sum > 0 ? (lane.other.forward_s + lane.other.backward_s) / (sum * catalog.total_s) : 0;
  const has = (i) => lane.runs.some((run) => run.first <= i && i < run.first + run.count);
  const segments = [];
  let at = 0;
  for (const [first, count2] of runs)
    for (let i = first; i < first + count2; i += 1) {
      const width = catalog.layers[i].time_s * stretch / scale_s;
      const last = segments[segments.length - 1];
      const own = has(i);
      const label = catalog.blocks[catalog.layers[i].block].label;
      if (last && last.own === own && i > first) {
        last.width += width;
        if (last.labels[last.labels.length - 1] !== label) last.labels.push(label);
      } else segments.push({ key: `b${i}`, left: at, width, own, labels: [label] });
      at += width;
    }
  return segments.map(({ labels, ...rest }) => ({ ...rest, label: range(labels) }));
}
var range = (labels) => labels.length < 3 ? labels.join(", ") : `${labels[0]}–${labels[labels.length - 1]}`;
function drawOther(ctx, element, lane) {
  if (!stale(element, [lane.other ?? null, lane.runs, ctx.scale_s, ctx.trackPx, ctx.catalog, ctx.view.ideal_s])) return;
  const segments = lane.other ? otherSegments(ctx.catalog, lane, ctx.scale_s) : [];
  const end2 = segments.reduce((most2, s) => Math.max(most2, s.left + s.width), 0);
  const words = lane.other ? [wordsOf(ctx, lane.other, end2)] : [];
  keyed(
    element,
    [...segments, ...words],
    (s) => s.key,
    (s) => h(s.words ? "span" : "i", {}),
    (part, s) => {
      if (s.words) return patch(part, { text: s.words, style: { left: s.left } });
      const fits = s.width * ctx.trackPx > 8 + 6.5 * s.label.length;
      return patch(part, {
        class: s.own ? "both" : "only",
        text: fits && !s.own ? s.label : "",
        style: { left: pct(s.left), width: pct(Math.max(0, Math.min(s.width, 1 - s.left))) }
      });
    }
  );
}
var WORDS_PX = 74;
function wordsOf(ctx, other, end2) {
  const ideal = ctx.view.ideal_s / ctx.scale_s * ctx.trackPx;
  const at = end2 * ctx.trackPx + 4;
  const left = at < ideal + 4 && at + WORDS_PX > ideal ? ideal + 4 : at;
  const text = `B ${seconds(other.forward_s + other.backward_s)}`;
  return { key: "words", words: text, left: `${Math.max(0, Math.min(left, ctx.trackPx - WORDS_PX)).toFixed(1)}px` };
}
function elsewhere(ctx, piece2, lane) {
  if (!ctx.otherOwner) return null;
  const owner = ctx.otherOwner[piece2.first];
  if (owner < 0 || ctx.view.lanes[owner].id === lane.id) return null;
  return ctx.view.lanes[owner].name;
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
var ownTime = (piece2) => piece2.forward_s + piece2.backward_s;
var VALUE = {
  kind: () => 0,
  time: (piece2) => piece2.time_s,
  traffic: (piece2) => piece2.output_bytes,
  memory: (piece2, lane) => piece2.state_bytes * (lane.state_factor ?? 1) + piece2.saved_bytes * (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight)
};
function chipLook(ctx) {
  const mode = ctx.colour;
  const top = ctx.once("top", [mode, ctx.view.lanes, ctx.expanded, ctx.catalog], () => topOf(ctx, mode));
  return { mode, value: VALUE[mode], top };
}
function topOf(ctx, mode) {
  let top = 0;
  if (mode !== "kind")
    for (const lane of ctx.view.lanes)
      for (const piece2 of ctx.pieces.get(lane.id)) top = Math.max(top, VALUE[mode](piece2, lane));
  return top || 1;
}
function drawChip(ctx, chip, place2, before, state) {
  const { piece: piece2, left, width } = place2;
  const { lane } = state;
  const px2 = width * ctx.trackPx;
  const marks = marksOf(ctx, place2, before, state);
  const texts = textsOf(ctx, place2, before, state, marks, px2);
  const colour = ctx.look.mode === "kind" ? null : cividis(ctx.look.value(piece2, lane) / ctx.look.top);
  patch(chip, {
    class: `b-chip${piece2.block.kind === "block" ? "" : " other"}${marks.classes}${px2 < 20 ? " slim" : ""}${colour && !marks.hole ? " filled" : ""}`,
    "data-block": piece2.block.id,
    "data-layer": piece2.layer && piece2.block.layers.length > 1 ? piece2.layer.id : null,
    "data-first": piece2.first,
    "data-count": piece2.count,
    tabindex: piece2.key === ctx.focusKey ? "0" : "-1",
    "aria-selected": String(marks.selected),
    "aria-label": nameOf(ctx, piece2, lane, marks),
    title: `${pieceName(piece2)}: forward ${seconds(piece2.forward_s)}, backward ${seconds(piece2.backward_s)}, state ${bytes(piece2.state_bytes)}, saves ${bytes(piece2.saved_bytes)} a microbatch`,
    style: {
      left: pct(left),
      width: pct(width),
      "--fill": colour ? rgb(colour) : null,
      "--fill-ink": colour ? inkOn(colour) : null
    }
  });
  patch(chip.children[0], { text: texts.label });
  patch(chip.children[1], { text: texts.number });
  const foot = ctx.look.mode === "kind" && piece2.block.kind === "block";
  patch(chip.children[2], {
    style: { background: foot && !piece2.layer ? footOf(ctx, piece2) : null, display: foot ? null : "none" }
  });
}
function marksOf(ctx, { piece: piece2 }, before, { lane, chosen: chosen2, leaving, pinned }) {
  const selected = chosen2 != null && heldBy(chosen2, piece2.first, piece2.count) === "all";
  const hole = leaving != null && heldBy(leaving, piece2.first, piece2.count) !== "none";
  const held = pinned == null ? "none" : heldBy(pinned, piece2.first, piece2.count);
  const broken = before && before.piece.run !== piece2.run && isOutOfOrder(lane, piece2);
  const chunk = before && !broken && before.piece.stage !== piece2.stage;
  const away = elsewhere(ctx, piece2, lane);
  const classes = `${selected ? " selected" : ""}${hole ? " hole" : ""}${broken ? " broken" : ""}${chunk ? " chunk" : ""}${held === "none" ? "" : " pinned"}${away ? " away" : ""}`;
  return { selected, hole, held, away, classes, broken };
}
function isOutOfOrder(lane, piece2) {
  const run = lane.runs[piece2.run];
  return Boolean(run.note) || lane.runs.some((other, i) => i < piece2.run && other.stage === run.stage);
}
function textsOf(ctx, place2, before, { lane }, { selected, away }, px2) {
  const { piece: piece2 } = place2;
  const { mode, value } = ctx.look;
  const timed = mode === "kind" || mode === "time";
  const number = timed ? seconds(ownTime(piece2)) : bytes(value(piece2, lane));
  place2.number = number;
  const label = pieceLabel(piece2);
  if (px2 < 12 + 7 * label.length) return { label: "", number: "" };
  if (away) {
    const words = `B: ${away}`;
    return { label, number: px2 >= 12 + 6.2 * words.length ? words : px2 >= 40 ? `B: ${away.replace(/^Stages? /, "")}` : "" };
  }
  const told2 = (!before || number !== before.number || selected) && px2 >= 34;
  return { label, number: !told2 ? "" : px2 >= 10 + 6 * number.length ? number : "" };
}
function nameOf(ctx, piece2, lane, { held, away, broken }) {
  const memory = piece2.state_bytes + piece2.saved_bytes * Math.max(1, lane.in_flight);
  const inside3 = piece2.block.layers.length;
  const more = [
    piece2.whole && !piece2.layer && inside3 > 1 ? `${inside3} layers` : "",
    held === "all" ? "pinned" : held === "some" ? "partly pinned" : "",
    broken ? "out of order" : "",
    away ? `on ${away} in ${ctx.view.other_name}` : ""
  ].filter(Boolean);
  return [pieceName(piece2), seconds(ownTime(piece2)), bytes(memory), lane.name, ...more].join(", ");
}
var feet = /* @__PURE__ */ new WeakMap();
function footOf(ctx, piece2) {
  let foot = feet.get(piece2);
  if (foot === void 0) feet.set(piece2, foot = makeFoot(ctx, piece2));
  return foot;
}
function makeFoot(ctx, piece2) {
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

// src/board/handles.js
var make = (boundary) => h(
  "div",
  { class: "b-handle", role: "slider", tabindex: "0", "data-boundary": boundary.id, "aria-orientation": "horizontal" },
  h("i", { class: "b-handle-bar" })
);
function drawHandles(ctx, place2, boundaries, ends) {
  const last = Math.max(...ends.values());
  keyed(
    place2,
    boundaries.filter((boundary) => ends.has(boundary.before)),
    (boundary) => boundary.id,
    make,
    (handle, boundary) => drawHandle(ctx, handle, boundary, ends.get(boundary.before), last)
  );
}
function drawHandle(ctx, handle, boundary, end2, laneEnd) {
  const pulled = ctx.preview?.boundary === boundary.id;
  const shift2 = pulled ? ctx.preview.shift_s / ctx.scale_s : 0;
  const refused = boundaryRefusal(ctx.view, boundary);
  const { layers, blocks } = ctx.catalog;
  const at = pulled ? ctx.preview.to : boundary.at;
  const lastName = blocks[layers[at - 1]?.block]?.name ?? "nothing";
  patch(handle, {
    class: `b-handle${pulled ? " pulled" : ""}${end2 < laneEnd - 1e-9 ? " inner" : ""}`,
    style: { left: pct(Math.min(0.985, Math.max(0, end2 + shift2))) },
    "aria-label": `boundary between stage ${boundary.before} and stage ${boundary.after}`,
    "aria-valuemin": boundary.minimum,
    "aria-valuemax": boundary.maximum,
    "aria-valuenow": at,
    "aria-valuetext": `${ctx.lane(boundary.before_lane)?.name} ends after ${lastName}${refused ? `; ${refused}` : ""}`,
    "aria-disabled": !ctx.editable || refused ? "true" : null,
    "data-still": ctx.editable ? null : "true",
    title: refused ?? `Drag, or [ and ]: move blocks between stage ${boundary.before} and stage ${boundary.after}`
  });
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
var SCROLL_PX = 640;
var rowsHeight = (rows) => rows.reduce((sum, row) => sum + (row.type === "group" ? 28 : row.compact ? 30 : 86), 0);
function groupSummary(lanes) {
  const time5 = (lane) => lane.forward_s + lane.backward_s;
  const full = (lane) => lane.peak_bytes / lane.capacity_bytes;
  return {
    time_s: lanes.reduce((sum, lane) => sum + time5(lane), 0),
    slowest: lanes.reduce((a, b) => time5(b) > time5(a) ? b : a),
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
var MOST_REPLICAS = 4;
var MOST_LETTERS = 9;
function shownReplicas(replicas) {
  const words = replicas.map(rangeWords);
  if (words.length <= MOST_REPLICAS && words.join("").length <= MOST_LETTERS) return words.length;
  let count2 = 1;
  while (count2 < Math.min(MOST_REPLICAS - 1, words.length) && words.slice(0, count2 + 1).join("").length <= MOST_LETTERS)
    count2 += 1;
  return count2;
}
var rangeWords = (group) => group.length > 1 ? `${group[0]}–${group[group.length - 1]}` : String(group[0] ?? "");

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
  const fit = h("button", {
    class: "sx-btn",
    text: "Fit",
    "data-action": "fit",
    title: "Rescale time to the longest lane",
    on: { click: () => ctx.fit() }
  });
  head.append(h("span", { class: "sx-space" }), head.legend, head.modes, fit);
  return head;
}
function drawHead(ctx, head) {
  const lanes = ctx.view.lanes;
  if (!stale(head, [ctx.catalog, ctx.colour, lanes, ctx.view.links, ctx.view.other_name])) return;
  const { parts } = ctx.catalog;
  const foot = parts.length ? `; foot = ${parts.join(", ")}` : "";
  set(head.querySelector(".sx-sub"), { text: `width = forward + backward of one microbatch${foot}` });
  for (const [i, [mode]] of MODES.entries()) {
    const on = ctx.colour === mode;
    set(head.modes.children[i], { "aria-checked": String(on), tabindex: on ? "0" : "-1" });
  }
  const used = MEMORY_PARTS.filter(([key]) => lanes.some((lane) => lane.memory[key] > 0));
  const all = [...ctx.view.links, ...lanes.map((lane) => lane.replica_link).filter(Boolean)];
  const links = [...new Set(all.map((link2) => link2.kind))];
  const entries = [
    ...used.map(([, name, cls]) => ({ name, mark: `b-m-${cls}`, line: false })),
    ...links.map((kind) => ({ name: LINK_NAMES[kind] ?? kind, mark: `b-k-${linkClass(kind)}`, line: true })),
    ...ctx.view.other_name ? [{ name: "only in B", mark: "b-only", line: false }] : [],
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
var built = /* @__PURE__ */ new WeakMap();
function makeMemory() {
  const parts = {
    main: h("b", {}),
    share: h("span", { class: "b-share" }),
    side: h("span", { class: "b-mem-side" }),
    segments: h("div", { class: "b-parts" }),
    excess: h("i", { class: "b-excess" }),
    was: h("i", { class: "b-was" }),
    cap: h("i", { class: "b-cap" }),
    other: h("i", { class: "b-then" }),
    words: h("div", { class: "b-mem-other" })
  };
  const element = h(
    "div",
    { class: "b-mem", role: "img" },
    h("div", { class: "b-mem-text" }, parts.main, parts.share, h("span", { class: "sx-space" }), parts.side),
    h("div", { class: "b-bar" }, parts.segments, parts.excess, parts.was, parts.other, parts.cap),
    parts.words,
    triangle("b-mem-tri")
  );
  built.set(element, parts);
  return element;
}
function drawMemory(ctx, element, lane, was) {
  const parts = built.get(element);
  const level = memoryLevel(lane);
  const scale = ctx.memory_bytes;
  const over = lane.peak_bytes - lane.capacity_bytes;
  const flight = `${lane.in_flight} in flight`;
  patch(element, { "data-level": level });
  patch(parts.main, { text: bytes(lane.peak_bytes) });
  patch(parts.share, { text: level === "bad" ? "" : percent(lane.peak_bytes / lane.capacity_bytes) });
  patch(parts.side, { text: level === "bad" ? `+${bytes(over)} over` : level === "warn" ? `${bytes(-over)} left` : flight });
  const segments = memorySegments(lane.memory, scale);
  const words = segments.map((segment) => `${segment.name} ${bytes(segment.bytes)}`);
  const beside = lane.other ? `; ${ctx.view.other_name}: ${bytes(lane.other.peak_bytes)}` : "";
  patch(element, {
    title: `${words.join("\n")}
${lane.in_flight} microbatches in flight`,
    "aria-label": `memory ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}${over > 0 ? `, over by ${bytes(over)}` : ""}: ${words.join(", ")}${beside}`
  });
  keyed(
    parts.segments,
    segments,
    (segment) => segment.key,
    (segment) => h("i", { class: `b-m-${segment.cls}`, "data-part": segment.key }),
    (part, segment) => patch(part, { style: { left: pct(segment.left), width: pct(segment.width) } })
  );
  const capacity = lane.capacity_bytes / scale;
  const used = Math.min(1, lane.peak_bytes / scale);
  patch(parts.excess, {
    style: { left: pct(capacity), width: pct(Math.max(0, used - capacity)), display: level === "bad" ? null : "none" }
  });
  const before = was && Math.abs(was.peak_bytes - lane.peak_bytes) > 1 ? was.peak_bytes : null;
  patch(parts.was, {
    style: { left: before == null ? null : pct(Math.min(1, before / scale)), display: before == null ? "none" : null }
  });
  const then = lane.other?.peak_bytes;
  patch(parts.other, {
    style: { left: then == null ? null : pct(Math.min(1, then / scale)), display: then == null ? "none" : null }
  });
  patch(parts.words, { text: then == null ? "" : `B ${bytes(then)}` });
  patch(parts.cap, { style: { left: pct(capacity) } });
}

// src/board/lane.js
var time = (lane) => lane.forward_s + lane.backward_s;
function makeLane(ctx, { lane, compact }) {
  return h("div", { class: `b-row b-lane${compact ? " compact" : ""}`, "data-lane": lane.id });
}
function fill(ctx, element) {
  const parts = {
    title: h("b", {}),
    lock: h("button", {
      class: "b-lock",
      "data-action": "unlock",
      hidden: true,
      on: { click: () => ctx.toggleLock(element.dataset.lane) }
    }),
    devices: h("span", { class: "b-devices" }),
    memory: makeMemory(),
    chips: h("div", { class: "b-chips", role: "listbox", "aria-multiselectable": "true", "aria-orientation": "horizontal" }),
    over: h("div", { class: "b-over" }),
    slot: h("div", { class: "b-slot" }),
    other: h("div", { class: "b-other", "aria-hidden": "true" }),
    handles: h("div", { class: "b-handles" }),
    end: h("div", { class: "b-end" }, h("b", {}), h("span", {}))
  };
  parts.lock.append(h("i", { class: "b-padlock" }), "locked");
  const { chips, over, slot, other, handles, end: end2 } = parts;
  element.append(
    h("div", { class: "b-name" }, h("span", { class: "b-title" }, parts.title, parts.lock), parts.devices),
    parts.memory,
    h("div", { class: "b-cell-track" }, h("div", { class: "b-track" }, chips, over, slot, other, handles, end2))
  );
  built2.set(element, parts);
  return parts;
}
var built2 = /* @__PURE__ */ new WeakMap();
function emptyLane(element) {
  if (!built2.has(element) || element.contains(document.activeElement)) return;
  element.replaceChildren();
  built2.delete(element);
  forget(element);
}
function drawLane(ctx, element, { lane, compact }) {
  const state = stateOf(ctx, lane, compact);
  if (built2.has(element) && !stale(element, state.inputs)) return;
  const parts = built2.get(element) ?? fill(ctx, element);
  stale(element, state.inputs);
  const { preview, isTarget, refused } = state;
  const shown = preview ?? lane;
  const bad = shown.peak_bytes > shown.capacity_bytes;
  patch(element, {
    class: `b-row b-lane${compact ? " compact" : ""}${isTarget ? " target" : ""}${bad && isTarget ? " bad" : ""}${refused ? " refused" : ""}${lane.locked ? " locked" : ""}`
  });
  drawName(parts, lane);
  drawMemory(ctx, parts.memory, shown, preview ? lane : null);
  drawTrack(ctx, parts, { ...state, lane, bad, refused });
}
function stateOf(ctx, lane, compact) {
  const holds = ({ set: set2, sorted }) => lane.runs.some((run) => holdsAny(sorted, run.first, run.first + run.count)) ? set2 : null;
  const found = ctx.previewLanes?.get(lane.id);
  const preview = found && found !== lane ? found : null;
  const isTarget = ctx.preview?.target === lane.id;
  const refused = isTarget ? ctx.preview.refused ?? null : null;
  const boundaries = ctx.boundariesOf.get(lane.id) ?? [];
  const pulled = boundaries.some((b) => b.id === ctx.preview?.boundary) ? ctx.preview.shift_s : null;
  const chosen2 = holds(ctx.chosen);
  const leaving = ctx.preview?.view && !isTarget ? holds(ctx.carried) : null;
  const pinned = holds(ctx.fixed);
  const pieces = ctx.pieces.get(lane.id);
  const focus = pieces.some((piece2) => piece2.key === ctx.focusKey) ? ctx.focusKey : null;
  const inputs2 = [
    lane,
    compact,
    preview,
    isTarget,
    refused,
    pulled,
    chosen2,
    leaving,
    pinned,
    pieces,
    focus,
    ctx.scale_s,
    ctx.trackPx,
    ctx.memory_bytes,
    ctx.view.ideal_s,
    ctx.look.mode,
    ctx.look.top,
    ctx.editable,
    ctx.otherOwner,
    ctx.view.other_name,
    ...boundaries
  ];
  return { inputs: inputs2, compact, preview, isTarget, refused, chosen: chosen2, leaving, pinned, pieces, boundaries };
}
function drawName(parts, lane) {
  patch(parts.title, { text: lane.name });
  const locked = Boolean(lane.locked);
  if (parts.lock.hidden === locked) parts.lock.hidden = !locked;
  patch(parts.lock, { "aria-label": `Unlock ${lane.name}`, title: `${lane.name} keeps exactly its layers. Press to unlock.` });
  if (stale(parts.devices, [lane.replicas, lane.replica_link])) drawDevices(parts.devices, lane);
}
function drawDevices(element, lane) {
  const shown = shownReplicas(lane.replicas);
  const items = lane.replicas.slice(0, shown).flatMap((group, i) => [
    ...i && lane.replica_link ? [{ key: `link${i}`, link: lane.replica_link }] : [],
    { key: `r${i}`, text: rangeWords(group) }
  ]).concat(shown < lane.replicas.length ? [{ key: "more", text: `+${lane.replicas.length - shown}` }] : []);
  const link2 = lane.replica_link;
  const reduced = link2?.step_bytes ? `; ${bytes(link2.step_bytes)} of gradients a step over ${link2.name ?? link2.kind}` : "";
  patch(element, { title: deviceWords(lane) + reduced });
  if (element.firstChild?.nodeType !== Node.TEXT_NODE) element.prepend("gpu");
  keyed(
    element,
    items,
    (item2) => item2.key,
    (item2) => h("span", { class: item2.link ? "b-wire" : "b-device" }),
    (span, item2) => {
      if (!item2.link) patch(span, { text: item2.text });
      else
        patch(span, {
          class: `b-wire b-k-${linkClass(item2.link.kind)}`,
          style: { height: `${linkThickness(item2.link.step_bytes)}px` }
        });
    }
  );
}
function deviceWords(lane) {
  const groups = lane.replicas.map(rangeWords);
  return `gpu ${groups.length > 1 ? `${groups.slice(0, -1).join(", ")} and ${groups[groups.length - 1]}` : groups[0] ?? "?"}`;
}
function drawTrack(ctx, parts, state) {
  const { lane, preview, isTarget, refused, pieces } = state;
  const held = lane.locked ? ", locked" : "";
  patch(parts.chips, {
    "aria-label": `${lane.name}, ${deviceWords(lane)}, ${seconds(time(lane))}, ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}${held}`
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
    parts.chips,
    placed,
    ({ piece: piece2 }) => piece2.key,
    () => makeChip(),
    (chip, place2, i) => drawChip(ctx, chip, place2, placed[i - 1], state)
  );
  const ideal = ctx.view.ideal_s / ctx.scale_s;
  const gain = isTarget && preview ? (time(preview) - time(lane)) / ctx.scale_s : 0;
  drawOver(parts.over, { lane, at, ideal, hidden: isTarget && Boolean(preview) });
  drawSlot(ctx, parts.slot, { at, gain, refused });
  drawOther(ctx, parts.other, lane);
  const hidden = Boolean(isTarget && preview && !ctx.preview.boundary);
  if (parts.handles.hidden !== hidden) parts.handles.hidden = hidden;
  drawHandles(ctx, parts.handles, state.boundaries, ends);
  drawEnd(ctx, parts.end, { ...state, end: Math.max(at, time(lane) / ctx.scale_s) + Math.max(0, gain), ideal });
}
function drawOver(element, { lane, at, ideal, hidden }) {
  patch(element, {
    class: `b-over${lane.binds ? " binds" : ""}`,
    style: {
      left: pct(ideal),
      width: pct(Math.max(0, Math.min(1, at) - ideal)),
      display: at > ideal * 1.001 && !hidden ? null : "none"
    }
  });
}
function drawSlot(ctx, element, { at, gain, refused }) {
  const left = Math.min(at, 0.98);
  patch(element, {
    text: refused && !ctx.compact ? refused : "",
    class: `b-slot${refused ? " refused" : ""}`,
    style: {
      left: refused ? "2px" : pct(left),
      width: refused ? null : pct(Math.max(4e-3, Math.min(gain, 1 - left))),
      display: refused || gain > 0 ? null : "none"
    }
  });
}
function drawEnd(ctx, element, { lane, preview, isTarget, refused, bad, boundaries, end: end2, ideal, compact }) {
  const [now, then] = [lane, preview ?? lane].map(time);
  const changes = preview && Math.abs(now - then) > 1e-12;
  const { binds } = preview ?? lane;
  const words = `${overIdeal(preview ?? lane, ctx.view.ideal_s)}${binds ? preview && !lane.binds ? ", would bind" : " binds" : ""}${lane.locked ? ", locked" : ""}`;
  const empty = !lane.runs.length && !preview;
  patch(element.children[0], { text: empty ? "empty" : changes ? `${secondsParts(now, then).text} → ${seconds(then)}` : seconds(now) });
  patch(element.children[1], { text: empty ? "drop layers here" : words });
  const px2 = ctx.trackPx;
  const wide = (changes ? 128 : 62) + (compact ? 56 : 0);
  let left = end2 * px2 + (boundaries.length ? 20 : 8);
  if (left < ideal * px2 + 6 && left + wide > ideal * px2) left = ideal * px2 + 8;
  if (isTarget && changes) left = Math.min(Math.min(now, then) / ctx.scale_s * px2 + 10, px2 - wide - 4);
  const outside2 = left + wide > px2;
  patch(element, {
    class: `b-end${binds ? " binds" : ""}${bad && isTarget ? " bad" : ""}${outside2 ? " inside" : ""}`,
    style: {
      left: outside2 ? null : `${left.toFixed(1)}px`,
      right: outside2 ? "2px" : null,
      display: refused && !compact ? "none" : null
    }
  });
}

// src/board/estimate.js
function runsFrom(positions, stage, copy) {
  const runs = [];
  for (const position of positions) {
    const last = runs[runs.length - 1];
    if (last && last.first + last.count === position) last.count += 1;
    else runs.push({ stage, copy, first: position, count: 1 });
  }
  return runs;
}
var inside = (runs, position) => runs.some((run) => run.first <= position && position < run.first + run.count);
var time2 = (lane) => lane.forward_s + lane.backward_s;
function without(runs, positions) {
  return runs.flatMap((run) => {
    const kept2 = [];
    for (let i = run.first; i < run.first + run.count; i += 1) if (!positions.has(i)) kept2.push(i);
    if (kept2.length === run.count) return [run];
    return runsFrom(kept2, run.stage, run.copy ?? 0);
  });
}
function including(runs, positions) {
  if (!positions.length) return runs;
  const touching = runs.find((run) => positions.some((p) => p === run.first - 1 || p === run.first + run.count)) ?? runs[0];
  const stage = touching?.stage ?? 0;
  const copy = touching?.copy ?? 0;
  const same2 = runs.filter((run) => run.stage === stage && (run.copy ?? 0) === copy);
  const all = [...positions, ...same2.flatMap((run) => Array.from({ length: run.count }, (_, i) => run.first + i))];
  const merged = runsFrom(
    [...new Set(all)].sort((a, b) => a - b),
    stage,
    copy
  );
  const at = runs.findIndex((run) => same2.includes(run));
  const others = runs.filter((run) => !same2.includes(run));
  return at < 0 ? [...merged, ...others] : [...others.slice(0, at), ...merged, ...others.slice(at)];
}
function costOn(catalog, lane, positions) {
  const sum = { forward_s: 0, backward_s: 0, weight_bytes: 0, gradient_bytes: 0, optimizer_bytes: 0, activation_bytes: 0 };
  const factor = ownFactor(lane);
  const state = lane.state_factor ?? 1;
  const saved = (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight ?? 1);
  for (const position of positions) {
    const layer = catalog.layers[position];
    sum.forward_s += layer.forward_s * factor;
    sum.backward_s += layer.backward_s * factor;
    sum.weight_bytes += layer.weight_bytes * state;
    sum.gradient_bytes += layer.gradient_bytes * state;
    sum.optimizer_bytes += layer.optimizer_bytes * state;
    sum.activation_bytes += layer.saved_bytes * saved;
  }
  return sum;
}
function changed(lane, cost, sign, runs) {
  const memory = { ...lane.memory };
  const call_s = runs.length ? (lane.call_s ?? 0) * (stagesOf(runs) - stagesOf(lane.runs)) / 2 : -Infinity;
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
    forward_s: Math.max(0, lane.forward_s + sign * cost.forward_s + call_s),
    backward_s: Math.max(0, lane.backward_s + sign * cost.backward_s + call_s)
  };
}
function moved(catalog, view, positions, toLane) {
  const sorted = [...positions].sort((a, b) => a - b);
  const lanes = view.lanes.map((lane) => {
    if (lane.id === toLane) {
      const gained = sorted.filter((p) => !inside(lane.runs, p));
      return gained.length ? changed(lane, costOn(catalog, lane, gained), 1, including(lane.runs, gained)) : lane;
    }
    if (!lane.runs.some((run) => holdsAny(sorted, run.first, run.first + run.count))) return lane;
    const lost = sorted.filter((p) => inside(lane.runs, p));
    return changed(lane, costOn(catalog, lane, lost), -1, without(lane.runs, positions));
  });
  return { ...view, lanes: withBinding(lanes), boundaries: shiftBoundaries(view, lanes) };
}
function withBinding(lanes) {
  const slowest = lanes.reduce((most2, lane) => Math.max(most2, time2(lane)), 0);
  return lanes.map((lane) => {
    const binds = lanes.length > 1 && time2(lane) === slowest;
    return Boolean(lane.binds) === binds ? lane : { ...lane, binds };
  });
}
function shiftBoundaries(view, lanes) {
  const now = new Map(lanes.map((lane, i) => [lane.id, { lane, same: lane.runs === view.lanes[i].runs }]));
  return view.boundaries.flatMap((boundary) => {
    const [one, two] = [now.get(boundary.before_lane), now.get(boundary.after_lane)];
    if (!one || !two) return [];
    if (one.same && two.same) return [boundary];
    const ends = one.lane.runs.filter((run) => run.stage === boundary.before).map((run) => run.first + run.count);
    const starts = two.lane.runs.filter((run) => run.stage === boundary.after).map((run) => run.first);
    const met = ends.find((at) => starts.includes(at));
    return met == null ? [] : [met === boundary.at ? boundary : { ...boundary, at: met }];
  });
}
function crossings(owners) {
  let count2 = 0;
  for (let i = 1; i < owners.length; i += 1) if (owners[i] !== owners[i - 1]) count2 += 1;
  return count2;
}
function detour(catalog, before, after, positions, toLane) {
  const now = ownersOf(after, catalog.layers.length);
  const extra = crossings(now) - crossings(ownersOf(before, catalog.layers.length));
  const target = after.lanes.findIndex((lane) => lane.id === toLane);
  const first = Math.min(...positions);
  let [start, end2] = [first, first];
  while (start > 0 && now[start - 1] === target) start -= 1;
  while (end2 < now.length && now[end2] === target) end2 += 1;
  const way = [];
  if (now.subarray(0, start).includes(target)) way.push(target);
  if (start > 0) way.push(now[start - 1]);
  way.push(target);
  if (end2 < now.length) way.push(now[end2]);
  const bytes2 = catalog.layers[Math.max(0, end2 - 1)]?.output_bytes ?? 0;
  const worst = before.links.reduce((most2, link2) => Math.max(most2, secondsPerByte(link2)), 0);
  return { extra, bytes: bytes2, seconds: bytes2 * worst, way };
}
var secondsPerByte = ({ transfer_s, forward_bytes }) => transfer_s > 0 && forward_bytes > 0 ? transfer_s / forward_bytes : 0;
function tileValues(before, after, extra_s = 0) {
  const memory = after.lanes.reduce((most2, lane) => Math.max(most2, lane.peak_bytes / lane.capacity_bytes), 0);
  const known2 = before.estimate;
  if (!known2) return { step_time: null, throughput: null, memory, bubble: null, mfu: null };
  const one = (lanes) => lanes.reduce((sum, lane) => sum + time2(lane), 0);
  const batches = Math.max(1, known2.microbatches);
  const then = after.lanes.map(
    (lane, i) => Math.max(0, (known2.busy_s[lane.id] ?? 0) + batches * (time2(lane) - time2(before.lanes[i])))
  );
  const now = before.lanes.map((lane) => known2.busy_s[lane.id] ?? 0);
  const slower = Math.max(0, ...then) - Math.max(0, ...now);
  const step2 = Math.max(
    Math.max(0, ...then),
    known2.step_s + slower * (batches - 1) / batches + one(after.lanes) - one(before.lanes) + extra_s
  );
  const work = then.reduce((a, b) => a + b, 0) / (now.reduce((a, b) => a + b, 0) || 1);
  return {
    step_time: step2,
    throughput: known2.samples * known2.tokens_per_sample / step2,
    memory,
    bubble: known2.bubble == null ? null : Math.min(1, Math.max(0, 1 - (1 - known2.bubble) * work * known2.step_s / step2)),
    mfu: known2.mfu * known2.step_s / step2
  };
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
    const offset = (catalog.until[at] - catalog.until[boundary.at]) * catalog.total_s * factor;
    const off = Math.abs(offset - shift_s);
    if (off < distance - 1e-15) [best, distance] = [at, off];
  }
  return best;
}
function nextStop(catalog, boundary, expanded, step2) {
  const all = stops(catalog, boundary, expanded);
  return all[all.indexOf(boundary.at) + step2] ?? null;
}

// src/board/menu.js
function openMoveMenu(ctx, opener, at) {
  ctx.closeMenu?.(false);
  const positions = ctx.selected;
  if (!positions.size || !ctx.editable) return;
  const what = ctx.catalog.describe(positions);
  const items = [...ctx.view.lanes.map((lane) => item(ctx, lane, positions)), ...holdItems(ctx, positions)];
  const menu = h(
    "div",
    { class: "b-menu", role: "menu", "aria-label": `Move ${what} to` },
    h("div", { class: "b-menu-title", role: "presentation", text: `Move ${what} to` }),
    items
  );
  const close = (refocus = true) => {
    menu.remove();
    document.removeEventListener("pointerdown", outside2, true);
    ctx.closeMenu = null;
    if (refocus) opener.focus();
  };
  const outside2 = (event) => {
    if (!menu.contains(event.target)) close(false);
  };
  ctx.closeMenu = close;
  menu.addEventListener("click", (event) => {
    const chosen2 = event.target.closest("button:not([aria-disabled])");
    if (!chosen2) return;
    close();
    if (chosen2.dataset.toLane != null) ctx.move(positions, chosen2.dataset.toLane);
    else if (chosen2.dataset.hold === "pin") ctx.togglePins(positions);
    else ctx.toggleLock(chosen2.dataset.hold);
  });
  menu.addEventListener("keydown", (event) => menuKey(event, items, close));
  ctx.root.append(menu);
  placeMenu(ctx, menu, opener, at);
  document.addEventListener("pointerdown", outside2, true);
  (items.find((button2) => !button2.ariaDisabled) ?? items[0]).focus();
}
function placeMenu(ctx, menu, opener, at) {
  const root = ctx.root.getBoundingClientRect();
  const from = opener.getBoundingClientRect();
  const left = at ? at.x : from.right - root.left - menu.offsetWidth;
  const below = at ? at.y : from.bottom - root.top + 4;
  const above = (at ? at.y : from.top - root.top) - menu.offsetHeight - 4;
  const fits = below + menu.offsetHeight <= root.height || above < 0;
  menu.style.left = `${Math.max(4, Math.min(left, root.width - menu.offsetWidth - 4))}px`;
  menu.style.top = `${fits ? below : above}px`;
}
function menuKey(event, items, close) {
  const at = items.indexOf(document.activeElement);
  const last = items.length - 1;
  const to = { ArrowDown: at === last ? 0 : at + 1, ArrowUp: at <= 0 ? last : at - 1, Home: 0, End: last }[event.key];
  if (event.key === "Escape" || event.key === "Tab") close();
  else if (to != null) items[to].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
function item(ctx, lane, positions) {
  const { effect, level, open } = effectOn(ctx, lane, positions);
  return h(
    "button",
    {
      class: `b-menu-item ${level}`,
      role: "menuitem",
      tabindex: "-1",
      "data-to-lane": lane.id,
      "aria-disabled": open ? null : "true"
    },
    h("span", { text: lane.name }),
    h("span", { text: effect })
  );
}
function effectOn(ctx, lane, positions) {
  const refused = refusal(ctx, positions, lane.id);
  if (refused) return { effect: lane.locked ? "locked" : refused, level: "", open: false };
  const next = moved(ctx.catalog, ctx.view, positions, lane.id).lanes.find((other) => other.id === lane.id);
  if (next.runs === lane.runs) return { effect: "here now", level: "", open: false };
  const gain = next.forward_s + next.backward_s - lane.forward_s - lane.backward_s;
  const level = memoryLevel(next);
  const over = level === "bad" ? ` ▲ ${bytes(next.peak_bytes - next.capacity_bytes)} over` : "";
  return { effect: `${signed(seconds(gain))}, ${bytes(next.peak_bytes)}${over}`, level, open: true };
}
function holdItems(ctx, positions) {
  const box = (text, hold, checked, cls) => h(
    "button",
    { class: `b-menu-item ${cls}`, role: "menuitemcheckbox", tabindex: "-1", "data-hold": hold, "aria-checked": String(checked) },
    h("span", { text: `${checked ? "☑" : "☐"} ${text}` })
  );
  const home = homeOf(ctx, positions);
  return [
    box("Pinned to these devices", "pin", allPinned(ctx.pinned, positions), "first"),
    ...home ? [box(`${home.name} locked`, home.id, Boolean(home.locked), "")] : []
  ];
}

// src/board/detail.js
var HINT = "Drag a boundary or a block. Shift selects a range; Alt+Up and Alt+Down move it; [ and ] shift a boundary; P pins, L locks.";
var STILL = "Select a block to see its figures; Enter opens it.";
function makeDetail(ctx) {
  const button2 = (action, text, click) => h("button", { class: "sx-btn", "data-action": action, text, on: { click } });
  const facts = h("div", { class: "b-facts" });
  const pin = button2("pin", "Pin", () => ctx.togglePins(ctx.selected));
  const lock = button2("lock", "Lock lane", () => ctx.toggleLock(homeOf(ctx, ctx.selected)?.id));
  const moveTo = button2("move-to", "Move to…", () => openMoveMenu(ctx, moveTo));
  moveTo.setAttribute("aria-haspopup", "menu");
  const detail = h("div", { class: "b-detail" }, facts, h("span", { class: "sx-space" }), pin, lock, moveTo);
  Object.assign(detail, { facts, pin, lock, moveTo });
  return detail;
}
function homeOf(ctx, positions) {
  let home = -2;
  for (const position of positions) {
    const owner = ctx.owners[position];
    if (home !== -2 && owner !== home) return null;
    home = owner;
  }
  return ctx.view.lanes[home] ?? null;
}
function drawDetail(ctx, element) {
  const { selected, preview, editable, message, pinned } = ctx;
  if (!stale(element, [selected, preview, editable, message, pinned, ctx.view.lanes, ctx.view.other_name])) return;
  const carried = preview?.positions;
  const positions = carried ?? selected;
  const facts = positions.size ? factsOf(ctx, positions, preview) : [{ key: "hint", name: "", value: message ? "" : editable ? HINT : STILL }];
  if (message) facts.unshift({ key: "message", name: "", value: message, warn: true });
  keyed(
    element.facts,
    facts,
    (fact) => fact.key,
    () => h("span", { class: "b-fact" }, h("span", {}), h("b", {})),
    (span, fact) => {
      patch(span.children[0], { text: fact.name });
      patch(span.children[1], { text: fact.value });
      patch(span, { class: `b-fact${fact.title ? " title" : ""}${fact.warn ? " warn" : ""}` });
    }
  );
  drawButtons(ctx, element, Boolean(carried));
}
function drawButtons(ctx, { pin, lock, moveTo }, carrying) {
  const { selected } = ctx;
  const home = selected.size ? homeOf(ctx, selected) : null;
  const idle = !selected.size || !ctx.editable || carrying;
  const on = allPinned(ctx.pinned, selected);
  const off = !ctx.editable ? "This board is only shown" : carrying ? "Drop what you carry first" : "Select a block first";
  enable(pin, !idle);
  enable(lock, !idle && home != null);
  enable(moveTo, !idle);
  patch(pin, {
    text: on ? "Unpin" : "Pin",
    "aria-pressed": String(on),
    title: idle ? off : "Pinned layers stay on their devices, for you and for searches (P)"
  });
  patch(lock, {
    text: `${home?.locked ? "Unlock" : "Lock"} ${home?.name ?? "lane"}`,
    "aria-pressed": String(Boolean(home?.locked)),
    title: idle ? off : home ? "A locked lane keeps exactly its layers (L)" : "Select blocks of one lane only"
  });
  patch(moveTo, { title: idle ? off : "Choose where the selection goes" });
}
function enable(button2, on) {
  if (button2.disabled === on) button2.disabled = !on;
}
function factsOf(ctx, positions, preview) {
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
    if (ctx.owners[position] >= 0) lanes.add(ctx.view.lanes[ctx.owners[position]]);
  }
  const where = [...lanes];
  const at = where.length === 1 ? `${where[0].name}, ${deviceWords(where[0])}` : `${where.length} lanes`;
  const head = { key: "title", name: preview ? `from ${at}` : at, value: catalog.describe(positions), title: true };
  const parameters = sum.seen ? [{ key: "parameters", name: "parameters", value: count(sum.parameters) }] : [];
  if (preview) return [head, ...parameters, ...carriedFacts(ctx, sum, preview)];
  return [
    head,
    ...parameters,
    { key: "forward", name: "forward", value: seconds(sum.forward_s) },
    { key: "backward", name: "backward", value: seconds(sum.backward_s) },
    { key: "state", name: "state", value: bytes(sum.state_bytes) },
    {
      key: "saved",
      name: "activations",
      value: `${bytes(sum.saved_bytes)}${where.length === 1 ? ` × ${where[0].in_flight} in flight` : " a microbatch"}`
    },
    ...outFact(catalog, positions),
    ...pinFact(ctx, positions),
    ...otherFact(ctx, positions, where)
  ];
}
function carriedFacts(ctx, sum, preview) {
  const lane = preview.target == null ? null : ctx.lane(preview.target);
  const time5 = { key: "time", name: "time", value: seconds(sum.forward_s + sum.backward_s) };
  if (!lane) return [time5];
  const saved = sum.saved_bytes * (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight);
  return [
    time5,
    {
      key: "memory",
      name: `memory in ${lane.name}`,
      value: `${bytes(sum.state_bytes * (lane.state_factor ?? 1))} state + ${bytes(saved)} activations (${lane.in_flight} in flight)`
    }
  ];
}
function outFact(catalog, positions) {
  let last = -1;
  for (const position of positions) last = Math.max(last, position);
  const size = catalog.layers[last].output_bytes;
  return size == null ? [] : [{ key: "out", name: "out", value: bytes(size) }];
}
function pinFact(ctx, positions) {
  let held = 0;
  for (const position of positions) held += ctx.pinned.has(position) ? 1 : 0;
  return held ? [{ key: "pin", name: "", value: held === positions.size ? "pinned" : "partly pinned" }] : [];
}
function otherFact(ctx, positions, where) {
  if (!ctx.otherOwner) return [];
  const names = /* @__PURE__ */ new Set();
  for (const position of positions) {
    const owner = ctx.otherOwner[position];
    if (owner >= 0 && !where.includes(ctx.view.lanes[owner])) names.add(ctx.view.lanes[owner].name);
  }
  return names.size ? [{ key: "other", name: `in ${ctx.view.other_name}`, value: [...names].join(", ") }] : [];
}

// src/board/focus.js
function roveTo(ctx, key) {
  let first = null;
  for (const pieces of ctx.pieces.values()) {
    if (!first && pieces.length) first = pieces[0].key;
    if (key != null && pieces.some((piece2) => piece2.key === key)) return;
  }
  ctx.focusKey = first;
}
function keepFocus(ctx, work) {
  const active = ctx.root.getRootNode().activeElement;
  const chip = active?.classList?.contains("b-chip") && ctx.root.contains(active) ? active : null;
  if (!chip) return work();
  const { key, first } = chip.dataset;
  const lane = chip.closest(".b-lane").dataset.lane;
  const stays = ctx.pieces.get(lane)?.some((piece2) => piece2.key === key);
  if (stays) {
    ctx.focusKey = key;
    return work();
  }
  ctx.park.focus({ preventScroll: true });
  const home = laneOf(ctx, key, Number(first));
  if (home) [ctx.focusKey, ctx.wanted] = [home.key, home.lane];
  work();
  if (home) focusChip(ctx, home.key);
  return void 0;
}
function laneOf(ctx, key, first) {
  let place2 = null;
  for (const [lane, pieces] of ctx.pieces) {
    if (pieces.some((piece2) => piece2.key === key)) return { lane, key };
    const same2 = pieces.find((piece2) => piece2.first <= first && first < piece2.first + piece2.count);
    if (same2) place2 = { lane, key: same2.key };
  }
  return place2;
}
function focusChip(ctx, key, reveal = true) {
  const before = ctx.focusKey !== key && ctx.focusKey && ctx.chipElement(ctx.focusKey);
  if (before) patch(before, { tabindex: "-1" });
  ctx.focusKey = key;
  const chip = ctx.chipElement(key);
  if (!chip) return;
  patch(chip, { tabindex: "0" });
  chip.focus({ preventScroll: true });
  if (reveal) chip.scrollIntoView({ block: "nearest", inline: "nearest" });
}

// src/board/group.js
var time3 = (lane) => lane.forward_s + lane.backward_s;
function makeGroup(ctx, { name }) {
  const toggle = h("button", { class: "sx-btn b-fold", "data-action": "fold", on: { click: () => toggleGroup(ctx, name) } });
  return h(
    "div",
    { class: "b-row b-group", "data-group": name },
    h("div", { class: "b-name" }, toggle),
    makeMemory(),
    h("div", { class: "b-cell-track" }, h("div", { class: "b-sum" }), h("span", {}))
  );
}
function toggleGroup(ctx, name) {
  const collapsed = new Set(ctx.collapsed);
  if (!collapsed.delete(name)) collapsed.add(name);
  ctx.sync.set("collapsed", [...collapsed]);
}
function drawGroup(ctx, element, { name, lanes, folded }) {
  if (!stale(element, [folded, ctx.scale_s, ctx.memory_bytes, ctx.view.ideal_s, ...lanes])) return;
  const sum = groupSummary(lanes);
  const [nameCell, memory, track] = element.children;
  patch(element, { class: `b-row b-group${folded ? " folded compact" : ""}` });
  patch(nameCell.firstChild, {
    text: `${folded ? "▸" : "▾"} ${name}`,
    "aria-expanded": String(!folded),
    "aria-label": `${name}, ${plural(lanes.length, "lane")}, ${bytes(sum.peak_bytes)} in all, slowest ${sum.slowest.name}`
  });
  if (folded) drawMemory(ctx, memory, sum.fullest, null);
  patch(track.firstChild, {
    style: { width: pct(Math.min(1, time3(sum.slowest) / ctx.scale_s)), display: folded ? null : "none" }
  });
  const over = lanes.filter((lane) => lane.peak_bytes > lane.capacity_bytes).length;
  patch(track.lastChild, {
    text: `${plural(lanes.length, "lane")}, ${seconds(sum.time_s)} and ${bytes(sum.peak_bytes)} in all; slowest ${sum.slowest.name}: ${seconds(time3(sum.slowest))}, ${overIdeal(sum.slowest, ctx.view.ideal_s)}${folded ? `; fullest ${sum.fullest.name}` : ""}${over ? `; ▲ ${over} over capacity` : ""}`
  });
}

// src/board/preview.js
var time4 = (lane) => lane.forward_s + lane.backward_s;
function previewOf(ctx, carried) {
  if (carried.target == null) return { ...carried, view: null, refused: null, detour: null };
  const boundary = ctx.view.boundaries.find((item2) => item2.id === carried.boundary);
  const refused = (boundary && boundaryRefusal(ctx.view, boundary)) ?? refusal(ctx, carried.positions, carried.target);
  if (refused) return { ...carried, view: null, refused, detour: null };
  const view = moved(ctx.catalog, ctx.view, carried.positions, carried.target);
  const target = view.lanes.find((lane) => lane.id === carried.target);
  const same2 = !target || target.runs === ctx.lane(carried.target).runs;
  const way = same2 ? null : detour(ctx.catalog, ctx.view, view, carried.positions, carried.target);
  return { ...carried, view: same2 ? null : view, refused: null, detour: way && way.extra > 0 ? way : null };
}
var wayWords = (view, way) => `gpu ${way.map((lane) => view.lanes[lane]?.replicas[0]?.[0] ?? "?").join(" → ")}`;
function detourWords(view, found) {
  const { extra } = found;
  const cost = found.seconds > 0 ? `, ${seconds(found.seconds * extra)} and ${bytes(found.bytes * extra)} a microbatch` : "";
  return `+${extra} transfer${extra === 1 ? "" : "s"} each way${cost}: ${wayWords(view, found.way)}`;
}
function effectWords(ctx, preview) {
  if (preview.refused) return preview.refused;
  const was = ctx.lane(preview.target);
  const next = preview.view?.lanes.find((lane) => lane.id === preview.target);
  if (!was || !next) return null;
  const over = next.peak_bytes - next.capacity_bytes;
  return `${signed(seconds(time4(next) - time4(was)))}, ${signed(bytes(next.peak_bytes - was.peak_bytes))} a device${over > 0 ? `; ${bytes(over)} over capacity` : ""}`;
}
function verdictOf(ctx, preview) {
  const note = "Estimate. Esc cancels.";
  if (preview.refused) return { level: "warn", text: `**Cannot move.** ${preview.refused}.`, note };
  const { view } = preview;
  if (!view) return { level: "none", text: "Over its own lane: nothing would change.", note };
  const over = (lane) => lane.peak_bytes - lane.capacity_bytes;
  const full = view.lanes.filter((lane) => over(lane) > 0);
  const worst = full.reduce((a, b) => over(b) > over(a) ? b : a, full[0]);
  const slowest = view.lanes.reduce((a, b) => time4(b) > time4(a) ? b : a);
  const away = (lane) => `${seconds(time4(lane))}, ${percent(Math.abs(time4(lane) / view.ideal_s - 1))} ${time4(lane) >= view.ideal_s ? "over" : "under"} the ideal cut`;
  const way = preview.detour ? ` Running out of order: ${detourWords(view, preview.detour)}; lanes may also wait for each other.` : "";
  if (worst)
    return {
      level: "bad",
      text: `**Would not fit.** ${worst.name}: ${bytes(over(worst))} over capacity and ${away(worst)}.${full.length > 1 ? ` ${full.length} lanes would be over.` : ""}${way}`,
      note
    };
  const binds = slowest.id === preview.target && !ctx.lane(slowest.id)?.binds ? "would bind" : slowest.binds ? "binds" : "would bind";
  return { level: "ok", text: `**Would fit.** ${slowest.name} ${binds}: ${away(slowest)}.${way}`, note };
}
function tellPreview(ctx, preview) {
  const bench = ctx.model.get("bench") ?? "";
  document.dispatchEvent(new CustomEvent("sx-preview", { detail: { bench, ...detailOf(ctx, preview) } }));
}
function detailOf(ctx, preview) {
  if (!preview || preview.target == null && !preview.boundary) return { values: null, levels: {}, verdict: null };
  const verdict = verdictOf(ctx, preview);
  const view = preview.view ?? ctx.view;
  const found = preview.detour;
  const values = tileValues(ctx.view, view, found ? 2 * found.extra * found.seconds : 0);
  const level = view.lanes.reduce((worst, lane) => worse(worst, memoryLevel(lane)), "");
  return { values, levels: { memory: level || null }, verdict };
}
var RANK = { "": 0, warn: 1, bad: 2 };
var worse = (a, b) => RANK[b] > RANK[a] ? b : a;

// src/board/links.js
function makeLinks(ctx, { lane, compact }) {
  return h(
    "div",
    { class: `b-row b-links${compact ? " compact" : ""}`, "data-links": lane.id },
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
var NONE = [];
function drawLinks(ctx, element, { lane, compact }) {
  const mine = ctx.linksOf.get(lane.id) ?? NONE;
  const found = ctx.preview?.target === lane.id ? ctx.preview.detour : null;
  const last = ctx.order.get(lane.id) === ctx.view.lanes.length - 1;
  if (!stale(element, [lane.runs, compact, found, last, ctx.order, ...mine])) return;
  const notes = lane.runs.map((run) => run.note).filter(Boolean);
  if (found) notes.splice(0, notes.length, detourWords(ctx.preview.view, found));
  patch(element, {
    class: `b-row b-links${compact ? " compact" : ""}${last && !mine.length && !notes.length ? " last" : ""}`
  });
  const shown = mine.slice(0, compact ? 1 : 2);
  const rows = [
    ...compact ? [] : notes.map((note, i) => ({ key: `note${i}`, note })),
    ...shown.map((link2) => ({
      key: `to:${link2.to_lane}:${link2.kind}`,
      link: link2,
      far: ctx.order.get(link2.to_lane) !== ctx.order.get(lane.id) + 1
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
      if (row.note) patch(div.lastChild, { text: typeset(row.note) });
      else if (row.more)
        patch(div.lastChild, {
          text: `and ${row.more.length} more links, ${bytes(row.more.reduce((sum, link2) => sum + (link2.step_bytes ?? 0), 0))} a step`
        });
      else drawLink(ctx, div, row, compact);
    }
  );
}
function drawLink(ctx, div, { link: link2, far }, compact) {
  const name = `${far ? `to ${ctx.lane(link2.to_lane)?.name ?? link2.to_lane}, ` : ""}${link2.name ?? KIND_NAMES[link2.kind] ?? link2.kind}`;
  const both = link2.forward_bytes != null && link2.backward_bytes === link2.forward_bytes;
  const per = link2.forward_bytes == null ? "" : both ? `${bytes(link2.forward_bytes)} each way` : `${bytes(link2.forward_bytes)} forward, ${bytes(link2.backward_bytes ?? 0)} back`;
  const words = [
    [per, link2.transfer_s == null ? "" : seconds(link2.transfer_s)].filter(Boolean).join(", "),
    link2.step_bytes == null ? "" : `${bytes(link2.step_bytes)} a step`
  ].filter(Boolean).join("; ");
  const [label, arrow, text] = div.children;
  patch(div, { title: `${name}: ${words}`, role: "img", "aria-label": `${name}: ${words}` });
  patch(label, { text: compact ? "" : name });
  patch(arrow, {
    class: `b-arrow b-k-${linkClass(link2.kind)}${link2.dashed ? " dashed" : ""}${link2.backward_bytes ? " both" : ""}`
  });
  patch(arrow.firstChild, { style: { height: `${linkThickness(link2.step_bytes)}px` } });
  patch(text, { text: compact ? "" : words });
}

// src/board/overview.js
var MOST_CUTS = 64;
function makeOverview(ctx) {
  const parts = {
    strip: h("div", { class: "b-strip" }),
    seams: h("div", { class: "b-seams" }),
    marks: h("div", { class: "b-marks" }),
    brush: h("div", { class: "b-brush", "data-action": "brush", hidden: true }),
    cuts: h("div", { class: "b-cuts" }),
    stages: h("div", { class: "b-stages" })
  };
  const element = h(
    "div",
    { class: "b-row b-overview", "aria-hidden": "true" },
    h("div", { class: "b-name" }, h("b", { text: "Whole model" }), h("span", {})),
    h("div", { class: "b-mem" }, h("span", {}), h("span", { text: "per microbatch" })),
    h("div", { class: "b-cell-track" }, ...Object.values(parts))
  );
  Object.assign(element, { parts });
  parts.strip.addEventListener("click", (event) => pick2(ctx, parts.strip, event));
  return element;
}
function layerAt(catalog, share) {
  let [low, high] = [0, catalog.layers.length - 1];
  while (low < high) {
    const middle = low + high + 1 >> 1;
    if (catalog.until[middle] <= share) low = middle;
    else high = middle - 1;
  }
  return low;
}
function pick2(ctx, strip, event) {
  const box = strip.getBoundingClientRect();
  const at = layerAt(ctx.catalog, (event.clientX - box.left) / box.width);
  ctx.select(ctx.catalog.positions([ctx.catalog.blocks[ctx.catalog.layers[at].block].id]));
  const owner = ctx.view.lanes[ctx.owners[at]];
  if (ctx.scrolls && owner) ctx.laneElement(owner.id)?.scrollIntoView({ block: "nearest" });
}
function drawOverview(ctx, element) {
  const { catalog, view } = ctx;
  const { parts } = element;
  if (stale(element, [catalog, ctx.trackPx])) {
    const [name, time5] = element.children;
    patch(name.lastChild, { text: `${plural(catalog.layers.length, "layer")}   ▲ ideal cut` });
    patch(time5.firstChild, { text: seconds(catalog.total_s) });
    drawSeams(ctx, parts.seams);
  }
  if (stale(parts.strip, [view.lanes, catalog])) drawOwners(ctx, parts.strip);
  if (stale(parts.marks, [ctx.selected, catalog])) drawMarks(ctx, parts.marks);
  const boundary = ctx.preview?.boundary ?? null;
  if (stale(parts.cuts, [view.boundaries, catalog, boundary, boundary && ctx.preview.to])) drawCuts(ctx, parts.cuts);
  if (stale(parts.stages, [view.lanes, catalog, ctx.trackPx])) drawStages(ctx, parts.stages);
}
function drawOwners(ctx, strip) {
  const { catalog, view, owners } = ctx;
  const segments = [];
  for (let i = 0; i < owners.length; i += 1) {
    const last = segments[segments.length - 1];
    if (last && last.owner === owners[i]) last.end = i + 1;
    else segments.push({ owner: owners[i], first: i, end: i + 1 });
  }
  keyed(
    strip,
    segments,
    (_, i) => `s${i}`,
    () => h("i", {}),
    (segment, { owner, first, end: end2 }) => patch(segment, {
      class: owner < 0 ? "nowhere" : owner % 2 ? "odd" : "even",
      title: view.lanes[owner]?.name ?? "nowhere",
      style: { left: pct(catalog.until[first]), width: pct(catalog.until[end2] - catalog.until[first]) }
    })
  );
}
function drawSeams(ctx, element) {
  const { catalog } = ctx;
  const px2 = (b) => (catalog.until[catalog.starts[b + 1]] - catalog.until[catalog.starts[b]]) * ctx.trackPx;
  const wide = catalog.blocks.length < 2 || ctx.trackPx / catalog.blocks.length > 4;
  const items = catalog.blocks.flatMap((block, b) => {
    const left = catalog.until[catalog.starts[b]];
    const named = block.kind !== "block" && px2(b) > 8 * block.label.length;
    return [
      ...wide && b ? [{ key: `x${b}`, left, width: null, text: "" }] : [],
      ...named ? [{ key: `n${b}`, left, width: px2(b) / ctx.trackPx, text: block.label }] : []
    ];
  });
  keyed(
    element,
    items,
    (item2) => item2.key,
    (item2) => h(item2.text ? "span" : "i", {}),
    (part, item2) => patch(part, { text: item2.text, style: { left: pct(item2.left), width: item2.width == null ? null : pct(item2.width) } })
  );
}
function drawMarks(ctx, element) {
  const { until } = ctx.catalog;
  const ranges = [];
  for (const position of ctx.chosen.sorted) {
    const last = ranges[ranges.length - 1];
    if (last && last.end === position) last.end += 1;
    else ranges.push({ first: position, end: position + 1 });
  }
  keyed(
    element,
    ranges,
    (_, i) => `m${i}`,
    () => h("i", {}),
    (mark, { first, end: end2 }) => patch(mark, { style: { left: pct(until[first]), width: `max(2px, ${pct(until[end2] - until[first])})` } })
  );
}
function drawCuts(ctx, element) {
  keyed(
    element,
    ctx.view.boundaries.length > MOST_CUTS ? [] : ctx.view.boundaries,
    (b) => b.id,
    (b) => h("i", { "data-overview-boundary": b.id }),
    (cut2, b) => patch(cut2, {
      style: { left: pct(ctx.catalog.until[ctx.preview?.boundary === b.id ? ctx.preview.to : b.at]) },
      title: `Boundary of stages ${b.before} and ${b.after}`
    })
  );
}
function drawStages(ctx, element) {
  const { view, trackPx } = ctx;
  const { until } = ctx.catalog;
  const { length } = view.lanes;
  const word = length > 12 ? "" : "stage ";
  const marks = view.lanes.flatMap((lane) => lane.runs).map((run) => ({
    key: `n${run.stage}-${run.first}`,
    left: (until[run.first] + until[run.first + run.count]) / 2,
    width: until[run.first + run.count] - until[run.first],
    text: `${word}${run.stage}`,
    cls: ""
  })).filter((mark) => length <= 24 && mark.width * trackPx > 7 * mark.text.length);
  const ideals = Array.from({ length: length > 24 ? 0 : Math.max(0, length - 1) }, (_, i) => ({
    key: `i${i}`,
    left: (i + 1) / length,
    text: "▲",
    cls: "ideal"
  }));
  keyed(
    element,
    [...marks, ...ideals],
    (m) => m.key,
    () => h("span", {}),
    (mark, m) => patch(mark, { text: m.text, class: m.cls, style: { left: pct(m.left) } })
  );
}
function drawBrush(ctx) {
  const { brush } = ctx.overview.parts;
  if (brush.hidden === ctx.scrolls) brush.hidden = !ctx.scrolls;
  if (!ctx.scrolls) return;
  if (!ctx.scrollListener) {
    ctx.scrollListener = () => requestAnimationFrame(() => look(ctx, brush));
    ctx.stage.addEventListener("scroll", ctx.scrollListener, { passive: true });
  }
  if (stale(ctx.stage, [ctx.rowElements, ctx.trackPx])) requestAnimationFrame(() => look(ctx, brush));
  else showSeen(ctx, brush);
}
function look(ctx, brush) {
  const { top, bottom } = ctx.stage.getBoundingClientRect();
  ctx.seen = ctx.rowElements.filter((element) => element.dataset.lane != null).filter((element) => {
    const box = element.getBoundingClientRect();
    return box.bottom > top && box.top < bottom;
  }).map((element) => element.dataset.lane);
  showSeen(ctx, brush);
}
function showSeen(ctx, brush) {
  const { until } = ctx.catalog;
  let [low, high] = [1, 0];
  for (const id of ctx.seen ?? [])
    for (const run of ctx.lane(id)?.runs ?? []) {
      low = Math.min(low, until[run.first]);
      high = Math.max(high, until[run.first + run.count]);
    }
  patch(brush, { style: { left: pct(Math.min(low, high)), width: pct(Math.max(0, high - low)) } });
}

// src/board/ruler.js
var MEMORY_PX = { full: [196, 172], compact: [128, 104] };
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
  const capacity = ctx.memory_bytes / 1.25;
  if (!stale(ruler, [capacity, ctx.view.ideal_s, ctx.scale_s, ctx.trackPx, ctx.compact])) return;
  const [, memory, time5] = ruler.children;
  const px2 = MEMORY_PX[ctx.compact ? "compact" : "full"][ctx.narrow ? 1 : 0];
  const apart = (size) => (capacity - size) / ctx.memory_bytes * px2 > 44;
  const unit = capacity >= 2 ** 30 ? 2 ** 30 : 2 ** 20;
  const marks = [
    0,
    ...ticks(capacity / unit * 0.75, 2).filter((t) => t > 0).slice(-1).map((t) => t * unit).filter(apart),
    capacity
  ];
  keyed(
    memory,
    marks,
    (_, i) => `m${i}`,
    () => h("span", { class: "b-tick" }),
    (tick2, value, i) => patch(tick2, {
      text: i === marks.length - 1 ? bytes(value, capacity) : bytesParts(value, capacity).text.replace(/\.0$/, ""),
      style: { left: pct(value / ctx.memory_bytes) },
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
    time5,
    entries,
    (e) => e.key,
    () => h("span", {}),
    (tick2, e) => patch(tick2, {
      text: e.text,
      class: `b-tick${e.t === 0 ? " first" : ""}${e.ideal ? " strong" : ""}`,
      style: { left: pct(e.t / ctx.scale_s) }
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
  if (!stale(element, [ctx.view.ideal_s, ctx.scale_s, ctx.ticks])) return;
  const lines = [
    ...ctx.ticks.filter((t) => t > 0).map((t) => ({ key: `g${t}`, t, cls: "b-grid" })),
    ...ctx.view.ideal_s <= ctx.scale_s ? [{ key: "ideal", t: ctx.view.ideal_s, cls: "b-line" }] : []
  ];
  patch(ctx.lanes, { style: { "--ideal": pct(ctx.view.ideal_s / ctx.scale_s) } });
  keyed(
    element.lastChild,
    lines,
    (line) => line.key,
    (line) => h("i", { class: line.cls }),
    (line, { t }) => patch(line, { style: { left: pct(t / ctx.scale_s) } })
  );
}

// src/board/scroll.js
var EDGE_PX = 44;
var FASTEST_PX = 18;
function scrollers(from) {
  const found = [];
  for (let element = from; element; element = element.parentElement) {
    const { overflowY } = getComputedStyle(element);
    const page = element === document.scrollingElement;
    if (element.scrollHeight > element.clientHeight + 1 && (page || overflowY === "auto" || overflowY === "scroll"))
      found.push(element);
  }
  return found;
}
function speedAt(y, top, bottom, edge = EDGE_PX) {
  const reach = Math.min(edge, (bottom - top) / 4);
  const near2 = y < top + reach ? y - (top + reach) : y > bottom - reach ? y - (bottom - reach) : 0;
  return Math.max(-1, Math.min(1, near2 / reach)) * FASTEST_PX;
}
var AutoScroll = class {
  /** @param {Element} from @param {() => void} moved */
  constructor(from, moved2) {
    this.moved = moved2;
    this.found = scrollers(from);
    this.frame = 0;
  }
  /** The pointer is here now. @param {number} y in the viewport */
  at(y) {
    this.y = y;
    if (!this.frame && this.found.some((element) => this.step(element))) this.frame = requestAnimationFrame(() => this.run());
  }
  step(element) {
    const page = element === document.scrollingElement;
    const box = page ? { top: 0, bottom: innerHeight } : element.getBoundingClientRect();
    const speed = Math.round(speedAt(this.y, Math.max(0, box.top), Math.min(innerHeight, box.bottom)));
    const room = speed < 0 ? element.scrollTop : element.scrollHeight - element.clientHeight - element.scrollTop;
    return room > 0.5 ? speed : 0;
  }
  run() {
    this.frame = 0;
    for (const element of this.found) {
      const speed = this.step(element);
      if (!speed) continue;
      element.scrollTop += speed;
      this.moved();
      this.frame = requestAnimationFrame(() => this.run());
      return;
    }
  }
  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.found = [];
  }
};
var Nearness = class {
  /** @param {Element|null} root what scrolls, or null for the page @param {() => void} changed @param {Set<string>} [near] known already */
  constructor(root, changed2, near2 = /* @__PURE__ */ new Set()) {
    this.near = near2;
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const id = (
            /** @type {HTMLElement} */
            entry.target.dataset.lane
          );
          if (entry.isIntersecting) this.near.add(id);
          else this.near.delete(id);
        }
        changed2();
      },
      { root, rootMargin: "300px 0px" }
    );
  }
  watch(element) {
    this.observer.observe(element);
  }
  close() {
    this.observer.disconnect();
  }
};

// src/board/draw.js
var LAZY_LANES = 64;
var MAKE = { lane: makeLane, links: makeLinks, group: makeGroup };
var DRAW = { lane: drawLane, links: drawLinks, group: drawGroup };
function drawBoard(ctx) {
  if (!ctx.view.lanes?.length || !ctx.catalog.layers.length) return;
  derive(ctx);
  keepFocus(ctx, () => {
    drawOverview(ctx, ctx.overview);
    drawRuler(ctx, ctx.ruler);
    drawRows(ctx);
    drawIdeal(ctx, ctx.ideal);
    drawDetail(ctx, ctx.detail);
  });
}
function derive(ctx) {
  const { view } = ctx;
  const { lanes } = view;
  ctx.memory_bytes = memoryScale(lanes);
  ctx.pieces = new Map(lanes.map((lane) => [lane.id, piecesOf(ctx.catalog, lane, ctx.expanded)]));
  ctx.chosen = ctx.once("chosen", [ctx.selected], () => sortedSet(ctx.selected));
  ctx.carried = ctx.once("carried", [ctx.preview?.positions], () => sortedSet(ctx.preview?.positions ?? /* @__PURE__ */ new Set()));
  ctx.fixed = ctx.once("fixed", [ctx.pinned], () => sortedSet(ctx.pinned));
  ctx.look = chipLook(ctx);
  ctx.compact = lanes.length > FULL_LANES;
  ctx.order = ctx.once("order", [lanes], () => new Map(lanes.map((lane, i) => [lane.id, i])));
  ctx.boundariesOf = ctx.once("boundariesOf", [view.boundaries], () => by(view.boundaries, (b) => b.before_lane));
  ctx.linksOf = ctx.once("linksOf", [view.links], () => by(view.links, (link2) => link2.from_lane));
  const others = lanes.map((lane) => lane.other ?? null);
  ctx.otherOwner = view.other_name ? ctx.once("otherOwner", others, () => otherOwners(ctx, lanes)) : null;
  ctx.previewLanes = ctx.once(
    "previewLanes",
    [ctx.preview?.view],
    () => ctx.preview?.view ? new Map(ctx.preview.view.lanes.map((lane) => [lane.id, lane])) : null
  );
  roveTo(ctx, ctx.focusKey);
}
var sortedSet = (set2) => ({ set: set2, sorted: [...set2].sort((a, b) => a - b) });
function by(items, key) {
  const found = /* @__PURE__ */ new Map();
  for (const item2 of items) {
    const list = found.get(key(item2));
    if (list) list.push(item2);
    else found.set(key(item2), [item2]);
  }
  return found;
}
function otherOwners(ctx, lanes) {
  const owners = new Int32Array(ctx.catalog.layers.length).fill(-1);
  lanes.forEach((lane, l) => {
    for (const [first, count2] of lane.other?.runs ?? []) owners.fill(l, first, first + count2);
  });
  return owners;
}
function drawRows(ctx) {
  const { view } = ctx;
  const rows = ctx.once("rows", [view.lanes, ctx.collapsed], () => rowsOf(view.lanes, ctx.collapsed));
  const [items, keys] = ctx.once("items", [rows], () => {
    const found = rows.flatMap(
      (row) => row.type === "lane" ? [row, { type: "links", lane: row.lane, compact: row.compact }] : [row]
    );
    return [found, found.map((row) => row.type === "group" ? `group:${row.name}` : `${row.type}:${row.lane.id}`)];
  });
  frame(ctx, rows);
  const order = keys.join("\n");
  if (order !== ctx.rowOrder) {
    ctx.rowOrder = order;
    keyed(
      ctx.lanes,
      items.map((item2, i) => ({ item: item2, key: keys[i] })),
      (row) => row.key,
      ({ item: item2 }) => MAKE[item2.type](ctx, item2),
      () => {
      }
    );
    ctx.rowElements = [...ctx.lanes.children].filter((child) => child.dataset.key != null);
    watchNearness(ctx, view.lanes.length > LAZY_LANES);
  }
  items.forEach((item2, i) => {
    const element = ctx.rowElements[i];
    if (item2.type === "lane" && !isNear(ctx, item2.lane.id)) emptyLane(element);
    else if (item2.type === "links" && !isNear(ctx, item2.lane.id)) return;
    else DRAW[item2.type](ctx, element, item2);
  });
  drawBrush(ctx);
}
function frame(ctx, rows) {
  const scrolls = ctx.compact && rowsHeight(rows) > SCROLL_PX;
  const beside = Boolean(ctx.view.other_name);
  if (ctx.scrolls !== scrolls) {
    ctx.scrolls = scrolls;
    ctx.body.classList.toggle("b-scrolls", scrolls);
  }
  if (ctx.wasCompact !== ctx.compact) {
    ctx.wasCompact = ctx.compact;
    ctx.body.classList.toggle("b-compact", ctx.compact);
  }
  if (ctx.beside !== beside) {
    ctx.beside = beside;
    ctx.lanes.classList.toggle("b-ab", beside);
  }
}
function watchNearness(ctx, lazy) {
  const known2 = ctx.nearness?.near;
  ctx.nearness?.close();
  ctx.nearness = null;
  if (!lazy) return;
  ctx.nearness = new Nearness(ctx.scrolls ? ctx.stage : null, () => drawBoard(ctx), known2);
  for (const element of ctx.rowElements) if (element.dataset.lane != null) ctx.nearness.watch(element);
}
function isNear(ctx, id) {
  if (!ctx.nearness || ctx.nearness.near.has(id) || ctx.wanted === id) return true;
  return ctx.preview?.target === id;
}
function afterPaint(done) {
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      done();
    };
    port2.postMessage(0);
  });
}

// src/board/selecting.js
function chipPositions(chip) {
  return positionsOf({ first: Number(chip.dataset.first), count: Number(chip.dataset.count) });
}
function toggleOpen(ctx, id) {
  const block = ctx.catalog.blocks.find((item2) => item2.id === id);
  if (!block || block.layers.length < 2) return;
  const expanded = new Set(ctx.expanded);
  const closes = expanded.delete(id);
  if (!closes) expanded.add(id);
  ctx.sync.set("expanded", [...expanded]);
  ctx.say(closes ? `${block.name} closed` : `${block.name} opened: ${block.layers.length} layers`);
}
function clickChip(ctx, chip, { shiftKey = false, ctrlKey = false, metaKey = false } = {}) {
  const own = chipPositions(chip);
  if (shiftKey && ctx.anchor != null) {
    const [from, to] = [Math.min(ctx.anchor[0], own[0]), Math.max(ctx.anchor[1], own[own.length - 1])];
    ctx.select(between(from, to + 1));
    return;
  }
  ctx.anchor = [own[0], own[own.length - 1]];
  if (!ctrlKey && !metaKey) return void ctx.select(new Set(own));
  const selected = new Set(ctx.selected);
  const held = own.every((p) => selected.has(p));
  for (const p of own) held ? selected.delete(p) : selected.add(p);
  ctx.select(selected);
}

// src/board/drags.js
var UNFOLD_MS = 600;
function chipGesture(ctx, chip) {
  const own = chipPositions(chip);
  const drag = new ChipDrag(ctx);
  return {
    edits: true,
    cursor: "grabbing",
    click: (event) => clickChip(ctx, chip, event),
    begin() {
      if (!own.every((p) => ctx.selected.has(p))) {
        ctx.anchor = [own[0], own[own.length - 1]];
        ctx.select(new Set(own));
      }
      drag.begin(ctx.selected);
    },
    drag: (event) => drag.at(event),
    drop: () => drag.target != null && ctx.move(drag.positions, drag.target),
    end: () => drag.end()
  };
}
var ChipDrag = class {
  constructor(ctx) {
    this.ctx = ctx;
  }
  begin(positions) {
    this.positions = positions;
    this.rows = null;
    this.ghost = makeGhost(this.ctx, positions);
    this.ctx.root.append(this.ghost);
    this.width = this.ghost.offsetWidth;
  }
  /** The pointer is here: read the page first, then write, so that it is laid out once. */
  at(event) {
    const { ctx } = this;
    const top = ctx.lanes.getBoundingClientRect().top;
    const box = ctx.root.getBoundingClientRect();
    this.measure(top);
    const row = rowAt(this.rows, event.clientY - top);
    const target = row?.startsWith("lane:") ? row.slice(5) : null;
    this.unfoldLater(row?.startsWith("group:") ? row.slice(6) : null);
    if (target !== this.target || !ctx.preview) {
      this.target = target;
      ctx.setPreview({ positions: this.positions, target });
      this.caption();
    }
    this.place(event, box);
  }
  /** Heights of the rows relative to the first: they do not change by scrolling. */
  measure(top) {
    const { rowElements } = this.ctx;
    if (this.rows && this.of === rowElements) return;
    this.of = rowElements;
    this.rows = rowElements.filter((row) => row.dataset.lane != null || row.classList.contains("folded")).map((row) => {
      const box = row.getBoundingClientRect();
      const id = row.dataset.lane != null ? `lane:${row.dataset.lane}` : `group:${row.dataset.group}`;
      return { id, top: box.top - top, bottom: box.bottom - top };
    });
  }
  /** Rest over a folded group, and it unfolds. */
  unfoldLater(name) {
    if (name === this.over) return;
    this.over = name;
    clearTimeout(this.timer);
    if (name != null) this.timer = setTimeout(() => toggleGroup(this.ctx, name), UNFOLD_MS);
  }
  caption() {
    const { ctx, ghost, positions } = this;
    const lane = this.target == null ? null : ctx.lane(this.target);
    const [title, text] = ghost.firstChild.children;
    const what = ctx.catalog.describe(positions);
    title.textContent = lane ? `${what} → ${lane.name}` : what;
    text.textContent = lane ? effectWords(ctx, ctx.preview) ?? "here now" : "Drop on a lane. Esc cancels.";
    ghost.classList.toggle("refused", Boolean(ctx.preview?.refused));
    this.width = ghost.offsetWidth;
  }
  /** Chips under the pointer, the card beside them; on the other side where the board ends. */
  place(event, box) {
    const x = event.clientX - box.left;
    const flip = x + this.width + 14 > box.width;
    if (flip !== this.flip) {
      this.flip = flip;
      this.ghost.classList.toggle("flip", flip);
    }
    const left = flip ? x - this.width + 24 : x - 12;
    const far = Math.max(4, box.width - this.width - 4);
    this.ghost.style.transform = `translate(${Math.min(far, Math.max(4, left))}px, ${event.clientY - box.top + 14}px)`;
  }
  end() {
    clearTimeout(this.timer);
    this.ghost?.remove();
  }
};
function makeGhost(ctx, positions) {
  const names = ctx.catalog.ids(positions).map((id) => {
    const range2 = ctx.catalog.ranges.get(id);
    const block = ctx.catalog.blocks[ctx.catalog.layers[range2[0]].block];
    return block.id === id ? block.label : ctx.catalog.layers[range2[0]].label;
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
function boundaryGesture(ctx, handle) {
  const id = handle.dataset.boundary ?? handle.dataset.overviewBoundary;
  const boundary = ctx.view.boundaries.find((b) => b.id === id);
  const overview = handle.dataset.overviewBoundary != null;
  const state = { to: boundary.at, x: 0 };
  return {
    edits: true,
    cursor: "ew-resize",
    begin(event) {
      state.x = this.x;
      state.factor = overview ? 1 : ctx.lane(boundary.before_lane)?.time_factor ?? 1;
      state.perPx = (overview ? ctx.catalog.total_s : ctx.scale_s) / ctx.trackPx;
      this.drag(event);
    },
    drag(event) {
      const shift_s = (event.clientX - state.x) * state.perPx;
      const to = nearestStop(ctx.catalog, boundary, ctx.expanded, shift_s, state.factor);
      if (to === state.to && ctx.preview) return;
      state.to = to;
      previewBoundary(ctx, boundary, to);
    },
    drop: () => ctx.moveBoundary(boundary, state.to)
  };
}
function previewBoundary(ctx, boundary, to) {
  const positions = between(boundary.at, to);
  if (!positions.size) return ctx.setPreview(null);
  const factor = ctx.lane(boundary.before_lane)?.time_factor ?? 1;
  const { until, total_s } = ctx.catalog;
  return ctx.setPreview({
    positions,
    boundary: boundary.id,
    to,
    shift_s: (until[to] - until[boundary.at]) * total_s * factor,
    target: to > boundary.at ? boundary.before_lane : boundary.after_lane
  });
}
function brushGesture(ctx) {
  let from = 0;
  let x = 0;
  return {
    edits: false,
    cursor: "grabbing",
    begin() {
      [from, x] = [ctx.stage.scrollTop, this.x];
    },
    drag(event) {
      ctx.stage.scrollTop = from + (event.clientX - x) / ctx.trackPx * ctx.stage.scrollHeight;
    },
    drop() {
    }
  };
}

// src/board/gestures.js
var THRESHOLD_PX = 4;
var LONG_PRESS_MS = 450;
function attachGestures(ctx) {
  let gesture = null;
  const { root } = ctx;
  const move = (event) => {
    if (!gesture) return;
    if (!gesture.started) {
      if (Math.hypot(event.clientX - gesture.x, event.clientY - gesture.y) < THRESHOLD_PX) return;
      clearTimeout(gesture.timer);
      if (!gesture.begin || !ctx.editable && gesture.edits) return;
      begin(event);
    }
    gesture.last = event;
    gesture.drag(event);
    gesture.scroll.at(event.clientY);
  };
  function begin(event) {
    gesture.started = true;
    gesture.scroll = new AutoScroll(ctx.lanes, () => gesture?.drag(gesture.last));
    ctx.grip.style.cursor = gesture.cursor;
    try {
      ctx.grip.setPointerCapture(event.pointerId);
    } catch {
    }
    gesture.begin(event);
    ctx.model.send({ consider: { kind: "begin" } });
  }
  const up = (event) => {
    const done = gesture;
    ctx.inputAt = event.timeStamp;
    if (done?.started) done.drop(event);
    finish();
    if (done && !done.started && !done.pressed) done.click?.(event);
    ctx.inputAt = null;
  };
  const escape = (event) => {
    if (event.key !== "Escape" || !gesture?.started) return;
    event.preventDefault();
    event.stopPropagation();
    finish();
    ctx.say("Move cancelled");
  };
  function finish() {
    if (!gesture) return;
    const { scroll, timer, started } = gesture;
    gesture.end?.();
    gesture = null;
    scroll?.stop();
    clearTimeout(timer);
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", up);
    window.removeEventListener("pointercancel", finish);
    window.removeEventListener("keydown", escape, true);
    if (started) ctx.setPreview(null);
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
    const brush = event.target.closest(".b-brush");
    if (!handle && !chip && !brush) return;
    event.preventDefault();
    ctx.putDown?.();
    if (handle) {
      if (handle.tabIndex >= 0) handle.focus({ preventScroll: true });
      start(boundaryGesture(ctx, handle), event);
    } else if (brush) {
      start({ ...brushGesture(ctx, brush), click: (e) => pick2(ctx, ctx.overview.parts.strip, e) }, event);
    } else {
      focusChip(ctx, chip.dataset.key, false);
      start(event.pointerType === "touch" ? touchGesture(chip) : chipGesture(ctx, chip), event);
      if (event.pointerType === "touch") gesture.timer = setTimeout(() => longPress(chip, event), LONG_PRESS_MS);
    }
  });
  const touchGesture = (chip) => ({ click: (event) => clickChip(ctx, chip, event) });
  function longPress(chip, event) {
    if (!gesture) return;
    gesture.pressed = true;
    openMenuAt(chip, event);
  }
  function openMenuAt(chip, event) {
    const own = chipPositions(chip);
    if (own.some((p) => !ctx.selected.has(p))) ctx.select(new Set(own));
    const box = root.getBoundingClientRect();
    openMoveMenu(ctx, chip, { x: event.clientX - box.left, y: event.clientY - box.top });
  }
  root.addEventListener("dblclick", (event) => {
    const chip = event.target.closest(".b-chip");
    if (chip) toggleOpen(ctx, chip.dataset.block);
  });
  root.addEventListener("contextmenu", (event) => {
    const chip = event.target.closest(".b-chip");
    if (!chip) return;
    event.preventDefault();
    if (!gesture?.pressed) openMenuAt(chip, event);
  });
  ctx.stopGestures = finish;
}

// src/board/keyboard.js
var PAGE_LANES = 8;
function attachKeyboard(ctx) {
  let carried = null;
  ctx.root.addEventListener("keydown", (event) => {
    ctx.inputAt = event.timeStamp;
    if (handled(event)) stop(event);
    ctx.inputAt = null;
  });
  ctx.root.addEventListener("focusout", (event) => {
    const to = event.relatedTarget;
    if (carried && to && !ctx.root.contains(to)) end2(false);
  });
  ctx.putDown = () => carried && end2(false);
  function handled(event) {
    if (event.ctrlKey || event.metaKey) return undoKey(ctx, event);
    const handle = event.target.closest?.(".b-handle");
    const chip = event.target.closest?.(".b-chip");
    if (!handle && !chip) return modesKey(ctx, event);
    if (carried) return carryKey(event);
    return handle ? handleKey(ctx, handle, event, pickUpBoundary) : chipKey(ctx, chip, event, pickUp);
  }
  function pickUp(chip) {
    const own = chipPositions(chip);
    const positions = own.every((p) => ctx.selected.has(p)) ? ctx.selected : new Set(own);
    if (!ctx.editable) return;
    carried = carryLayers(ctx, positions, chip.closest(".b-lane").dataset.lane);
    ctx.say(`${ctx.catalog.describe(positions)} picked up. Up and Down choose a lane, Space drops, Escape cancels.`);
  }
  function pickUpBoundary(boundary) {
    const refused = boundaryRefusal(ctx.view, boundary);
    if (refused) return ctx.tell(refused);
    carried = carryBoundary(ctx, boundary);
    return ctx.say(`boundary picked up. Left and Right move it, Space drops, Escape cancels.`);
  }
  function carryKey(event) {
    const drop = event.key === " " || event.key === "Enter";
    if (drop || event.key === "Escape" || event.key === "Tab") end2(drop);
    else carried.key(event.key);
    return event.key !== "Tab";
  }
  function end2(drop) {
    const done = carried;
    carried = null;
    if (drop) return done.drop();
    ctx.setPreview(null);
    return ctx.say("Move cancelled");
  }
}
function carryLayers(ctx, positions, from) {
  let lane = from;
  const show2 = () => ctx.setPreview({ positions, target: lane });
  show2();
  return {
    key(key) {
      const order = ctx.view.lanes.map((item2) => item2.id);
      const at = order.indexOf(lane);
      const to = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - PAGE_LANES, PageDown: at + PAGE_LANES, Home: 0, End: order.length }[key];
      if (to == null) return;
      const next = order[Math.max(0, Math.min(order.length - 1, to))];
      if (next === lane) return;
      lane = next;
      show2();
      ctx.laneElement(lane)?.scrollIntoView({ block: "nearest" });
      ctx.say(`${ctx.lane(lane).name}: ${effectWords(ctx, ctx.preview) ?? "here now"}`);
    },
    drop: () => ctx.move(positions, lane)
  };
}
function carryBoundary(ctx, boundary) {
  let to = boundary.at;
  return {
    key(key) {
      const step2 = STEPS[key];
      if (step2 == null) return;
      const next = nextStop(ctx.catalog, { ...boundary, at: to }, ctx.expanded, step2);
      if (next == null) return ctx.say("The boundary is at its limit");
      to = next;
      previewBoundary(ctx, boundary, to);
      const lane = ctx.preview && ctx.lane(ctx.preview.target);
      return ctx.say(lane ? `${lane.name}: ${effectWords(ctx, ctx.preview) ?? "as it is"}` : "where it was");
    },
    drop: () => ctx.moveBoundary(boundary, to)
  };
}
var STEPS = { ArrowRight: 1, ArrowUp: 1, "]": 1, ArrowLeft: -1, ArrowDown: -1, "[": -1 };
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
  else ctx.commit(ctx.view, kind, {}, () => kind === "undo" ? "Undone" : "Redone");
  return true;
}
function chipKey(ctx, chip, event, pickUp) {
  const { key } = event;
  if (event.altKey && (key === "ArrowUp" || key === "ArrowDown")) return moveToNeighbour(ctx, chip, key === "ArrowDown" ? 1 : -1);
  if (event.altKey) return false;
  if (MOVES[key] != null) return go(ctx, chip, MOVES[key], event.shiftKey);
  const act = ACTS[key] ?? ACTS[key.toLowerCase()];
  if (!act) return false;
  act(ctx, chip, event, pickUp);
  return true;
}
var MOVES = {
  ArrowRight: { along: 1 },
  ArrowLeft: { along: -1 },
  ArrowUp: { lanes: -1 },
  ArrowDown: { lanes: 1 },
  PageUp: { lanes: -PAGE_LANES },
  PageDown: { lanes: PAGE_LANES },
  Home: { end: 0 },
  End: { end: -1 }
};
var ACTS = {
  " ": (ctx, chip, event, pickUp) => event.shiftKey ? clickChip(ctx, chip, { shiftKey: true }) : pickUp(chip),
  Enter: (ctx, chip) => toggleOpen(ctx, chip.dataset.block),
  Escape: (ctx) => ctx.select(/* @__PURE__ */ new Set()),
  "[": (ctx, chip) => shiftEnd(ctx, chip, -1, "before"),
  "]": (ctx, chip) => shiftEnd(ctx, chip, 1, "before"),
  "{": (ctx, chip) => shiftEnd(ctx, chip, -1, "after"),
  "}": (ctx, chip) => shiftEnd(ctx, chip, 1, "after"),
  m: openMenu,
  contextmenu: openMenu,
  p: (ctx, chip) => ctx.togglePins(selectionOr(ctx, chip)),
  l: (ctx, chip) => ctx.toggleLock(laneOf2(chip))
};
var laneOf2 = (chip) => chip.closest(".b-lane").dataset.lane;
function selectionOr(ctx, chip) {
  const own = chipPositions(chip);
  return own.every((p) => ctx.selected.has(p)) ? ctx.selected : new Set(own);
}
function openMenu(ctx, chip) {
  if (!chipPositions(chip).every((p) => ctx.selected.has(p))) clickChip(ctx, chip);
  const [root, box] = [ctx.root.getBoundingClientRect(), chip.getBoundingClientRect()];
  openMoveMenu(ctx, chip, { x: box.left - root.left, y: box.bottom - root.top + 4 });
}
function go(ctx, chip, where, extend) {
  const next = keyAt(ctx, chip, where);
  if (!next) return true;
  if (extend && ctx.anchor == null) {
    const own = chipPositions(chip);
    ctx.anchor = [own[0], own[own.length - 1]];
  }
  if (!ctx.chipElement(next.key)) {
    ctx.wanted = next.lane;
    drawBoard(ctx);
  }
  focusChip(ctx, next.key);
  const element = ctx.chipElement(next.key);
  if (element) clickChip(ctx, element, { shiftKey: extend });
  return true;
}
function keyAt(ctx, chip, { along, lanes, end: end2 }) {
  const rows = ctx.rowElements.filter((row) => row.dataset.lane != null).map((row) => row.dataset.lane);
  const filled = rows.filter((id) => ctx.pieces.get(id).length);
  const own = laneOf2(chip);
  const mine = ctx.pieces.get(own);
  const at = mine.findIndex((piece2) => piece2.key === chip.dataset.key);
  if (end2 != null) return { lane: own, key: mine.at(end2).key };
  if (along) {
    const inside3 = mine[at + along];
    if (inside3) return { lane: own, key: inside3.key };
    const lane2 = filled[filled.indexOf(own) + along];
    return lane2 == null ? null : { lane: lane2, key: ctx.pieces.get(lane2).at(along > 0 ? 0 : -1).key };
  }
  const place2 = filled.indexOf(own);
  const lane = filled[Math.max(0, Math.min(filled.length - 1, place2 + lanes))];
  if (lane === own || lane == null) return null;
  return { lane, key: nearestInTime(ctx.pieces.get(lane), startOf(mine, at)) };
}
var startOf = (pieces, at) => pieces.slice(0, at).reduce((sum, piece2) => sum + piece2.time_s, 0);
function nearestInTime(pieces, time_s) {
  let [best, off, start] = [pieces[0], Infinity, 0];
  for (const piece2 of pieces) {
    if (Math.abs(start - time_s) < off - 1e-12) [best, off] = [piece2, Math.abs(start - time_s)];
    start += piece2.time_s;
  }
  return best.key;
}
function moveToNeighbour(ctx, chip, step2) {
  const order = ctx.view.lanes.map((lane) => lane.id);
  const target = order[order.indexOf(laneOf2(chip)) + step2];
  if (target == null) return ctx.say("No lane there"), true;
  ctx.move(selectionOr(ctx, chip), target);
  return true;
}
function shiftEnd(ctx, chip, step2, side) {
  const lane = ctx.lane(laneOf2(chip));
  const first = Number(chip.dataset.first);
  const stage = lane.runs.find((run) => run.first <= first && first < run.first + run.count)?.stage;
  const boundary = ctx.view.boundaries.find((b) => b[side] === stage) ?? ctx.view.boundaries.find((b) => b[side === "before" ? "after" : "before"] === stage);
  if (!boundary) return ctx.say("No boundary here");
  return shift(ctx, boundary, step2);
}
function shift(ctx, boundary, step2) {
  const to = nextStop(ctx.catalog, boundary, ctx.expanded, step2);
  if (to == null) ctx.say("The boundary is at its limit");
  else ctx.moveBoundary(boundary, to);
  return true;
}
function handleKey(ctx, handle, event, pickUp) {
  const boundary = ctx.view.boundaries.find((b) => b.id === handle.dataset.boundary);
  if (!boundary || !ctx.editable || event.altKey) return false;
  if (event.key === " ") return pickUp(boundary), true;
  if (event.key === "Home" || event.key === "End") {
    ctx.moveBoundary(boundary, event.key === "Home" ? boundary.minimum : boundary.maximum);
    return true;
  }
  const step2 = STEPS[event.key];
  return step2 != null && shift(ctx, boundary, step2);
}
function modesKey(ctx, event) {
  const radio = event.target.closest?.("[role=radio]");
  const step2 = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!radio || !step2) return false;
  const all = [...radio.parentElement.children];
  const next = all[(all.indexOf(radio) + step2 + all.length) % all.length];
  next.click();
  next.focus();
  return true;
}

// src/board/stable.js
function equal(a, b) {
  if (a === b) return true;
  if (typeof a === "number" && typeof b === "number")
    return Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b)) || a !== a && b !== b;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return (a ?? null) === (b ?? null);
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i += 1) if (!equal(a[i], b[i])) return false;
    return true;
  }
  for (const key in a) if (!equal(a[key], b[key])) return false;
  for (const key in b) if (!(key in a) && b[key] != null) return false;
  return true;
}
function settledList(old = [], next = [], key) {
  const known2 = new Map(old.map((item2) => [key(item2), item2]));
  const result = next.map((item2) => {
    const before = known2.get(key(item2));
    if (before === void 0 || before === item2) return item2;
    return equal(before, item2) ? before : withKnownParts(before, item2);
  });
  return result.length === old.length && result.every((item2, i) => item2 === old[i]) ? old : result;
}
function withKnownParts(before, item2) {
  const result = { ...item2 };
  for (const key in item2)
    if (typeof item2[key] === "object" && item2[key] !== null && equal(before[key], item2[key])) result[key] = before[key];
  return result;
}
function settled(old, next) {
  if (!old?.lanes || !next?.lanes) return next;
  return {
    ...next,
    lanes: settledList(old.lanes, next.lanes, (lane) => lane.id),
    boundaries: settledList(old.boundaries, next.boundaries, (boundary) => boundary.id),
    links: settledList(old.links, next.links, (link2) => `${link2.from_lane}>${link2.to_lane}>${link2.kind}`),
    pinned: equal(old.pinned ?? [], next.pinned ?? []) ? old.pinned : next.pinned
  };
}

// src/board/index.js
var GREY_AFTER_MS = 120;
var MOST_MEASURES = 1e3;
var BoardContext = class {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "board", "Board");
    this.root = root;
    this.closeRoot = close;
    this.trackPx = 600;
    this.rootPx = 1e3;
    this.scale_s = 1;
    this.scaleKey = null;
    this.optimistic = null;
    this.preview = null;
    this.focusKey = null;
    this.anchor = null;
    this.afterAnswer = null;
    this.message = "";
    this.memory = /* @__PURE__ */ new Map();
    this.view = {};
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
    this.draw();
  }
  build() {
    this.head = makeHead(this);
    this.overview = makeOverview(this);
    this.ruler = makeRuler();
    this.track = this.ruler.querySelector(".b-cell-track");
    this.lanes = h("div", { class: "b-lanes" });
    this.ideal = makeIdeal();
    this.stage = h("div", { class: "b-stage" }, h("div", { class: "b-tall" }, this.lanes, this.ideal));
    this.body = h("div", { class: "b-body" }, this.overview, this.ruler, this.stage);
    this.empty = h("div", { class: "sx-empty", text: "No strategy yet. Choose a model and a cluster." });
    this.detail = makeDetail(this);
    this.live = h("div", { class: "sx-live", "aria-live": "polite", role: "status" });
    this.state = h("span", { class: "sx-state", "data-widget": "board", hidden: true });
    this.grip = h("div", { class: "b-grip" });
    this.park = h("div", { class: "b-park", tabindex: "-1" });
    this.root.append(this.head, this.empty, this.body, this.detail, this.live, this.state, this.grip, this.park);
  }
  get pending() {
    return this.sync.pending;
  }
  get actual() {
    return this.model.get("view") ?? {};
  }
  get editable() {
    return this.actual.editable !== false;
  }
  get colour() {
    return this.model.get("colour") ?? "kind";
  }
  get narrow() {
    return this.rootPx < 1050;
  }
  /** A value derived from others, made again when one of those is another. @template T @param {string} name @param {any[]} from @param {() => T} make @returns {T} */
  once(name, from, make2) {
    const known2 = this.memory.get(name);
    if (known2 && known2.from.every((value2, i) => Object.is(value2, from[i]))) return known2.value;
    const value = make2();
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
    if (this.preview) tellPreview(this, null);
    this.preview = null;
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
    if (!width || Math.abs(width - this.trackPx) < 1 && whole === this.rootPx) return;
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
    if (!carried && !this.preview) return;
    this.message = "";
    this.preview = carried && previewOf(this, carried);
    considerSoon(this, this.preview);
    drawBoard(this);
    tellPreview(this, this.preview);
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
    const positions = /* @__PURE__ */ new Set();
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
    this.commit(moved(this.catalog, this.view, positions, target), kind, fields, () => this.result(what, target));
  }
  /** Pin layers to their devices; those that are all pinned are released. */
  togglePins(positions) {
    if (!positions.size || !this.editable) return;
    const on = !allPinned(this.pinned, positions);
    const layers = [...positions].sort((a, b) => a - b).map((p) => this.catalog.layers[p].id);
    const what = this.catalog.describe(positions);
    this.commit(
      withPins(this.catalog, this.view, layers, on),
      "pin",
      { layers, on },
      () => on ? `${what} pinned: stays on its devices` : `${what} released`
    );
  }
  /** Lock a lane, so that it keeps exactly its layers, or unlock it. */
  toggleLock(id) {
    const lane = this.lane(id);
    if (!lane || !this.editable) return;
    const on = !lane.locked;
    this.commit(withLock(this.view, id, on), "lock", { lane: id, on }, () => `${lane.name} ${on ? "locked" : "unlocked"}`);
  }
  /** Show a view until the answer comes, send the intent, and say what came of it. */
  commit(view, kind, fields, words) {
    const was = this.preview;
    const notice = this.model.get("notice");
    this.dropAt ??= this.inputAt ?? performance.now();
    performance.clearMarks("sx-drop");
    performance.mark("sx-drop", { startTime: this.dropAt });
    this.preview = null;
    this.message = "";
    this.optimistic = view;
    this.sync.send(kind, fields);
    this.afterAnswer = () => {
      if ((this.model.get("notice") ?? null) === (notice ?? null)) this.say(words());
    };
    this.draw();
    if (was) tellPreview(this, null);
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
    const { time: time5, memory } = laneWords(lane);
    return `${what} moved to ${lane.name}: ${time5}, ${memory}`;
  }
  close() {
    this.sync.close();
    this.observer.disconnect();
    this.nearness?.close();
    clearTimeout(this.greying);
    this.stopGestures?.();
    this.closeMenu?.(false);
    if (this.preview) tellPreview(this, null);
    this.closeRoot();
    this.root.remove();
  }
};
function render({ model, el }) {
  const context = new BoardContext(model, el);
  return () => context.close();
}
var board_default = { render };

// src/graph/choose.js
var Positions = class {
  /** @param {Index|null|undefined} index */
  constructor(index) {
    this.layers = index?.layers ?? [];
    this.blocks = index?.blocks ?? [];
    this.at = /* @__PURE__ */ new Map();
    this.layers.forEach((name, i) => this.at.set(name, [i, 1]));
    for (const [id, first, n2] of this.blocks) if (!this.at.has(id) || n2 > 1) this.at.set(id, [first, n2]);
  }
  /** Ids as ranges of positions, in order; unknown ids are left out. @param {string[]} ids */
  ranges(ids) {
    return ids.map((id) => ({ id, range: this.at.get(id) })).filter((item2) => item2.range).sort((a, b) => a.range[0] - b.range[0]);
  }
  /** What of a selection lies in a node. @param {{id: string, range: [number, number]}[]} chosen @param {[number, number][]} ranges */
  held(chosen2, ranges) {
    let held = 0;
    let place2 = 0;
    let passed = 0;
    const ids = /* @__PURE__ */ new Set();
    for (const [first, n2] of ranges) {
      for (const { id, range: range2 } of chosen2) {
        const a = Math.max(first, range2[0]);
        const b = Math.min(first + n2, range2[0] + range2[1]);
        if (a < b) {
          if (!held) place2 = passed + a - first + (b - a) / 2;
          held += b - a;
          ids.add(id);
        }
      }
      passed += n2;
    }
    return { held, total: passed, ids: [...ids], share: passed ? place2 / passed : 0 };
  }
  /** Ids for a node's layers: blocks where they are whole, layers else. @param {[number, number][]} ranges */
  idsOf(ranges) {
    const found = [];
    for (const [first, n2] of ranges) {
      let i = first;
      while (i < first + n2) {
        const block = this.blockAt(i);
        if (block && block[1] === i && i + block[2] <= first + n2) {
          found.push(block[0]);
          i += block[2];
        } else {
          found.push(this.layers[i]);
          i += 1;
        }
      }
    }
    return found.filter((id) => id != null);
  }
  /** The block that holds a position, by halving. */
  blockAt(i) {
    let [low, high] = [0, this.blocks.length];
    while (low < high) {
      const middle = low + high >> 1;
      if (this.blocks[middle][1] + this.blocks[middle][2] <= i) low = middle + 1;
      else high = middle;
    }
    return this.blocks[low];
  }
};
var tail = (id) => id.replace(/#\d+$/, "").replace(/^.*\./, "");
function select(now, ids, extend) {
  if (!extend) return ids;
  return ids.every((id) => now.includes(id)) ? now.filter((id) => !ids.includes(id)) : [.../* @__PURE__ */ new Set([...now, ...ids])];
}
function search(names, query, most2 = 8) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return { total: 0, hits: [] };
  const found = [];
  names.forEach((name, at) => {
    const low = name.toLowerCase();
    if (!words.every((word) => low.includes(word))) return;
    const segments = low.split(".");
    const cost = words.reduce((sum, word) => {
      const whole = segments.includes(word);
      return sum + (low === word ? 0 : whole ? 1 : segments.some((s) => s.startsWith(word)) ? 2 : 3);
    }, 0);
    found.push({ name, at, cost });
  });
  found.sort((a, b) => a.cost - b.cost || a.at - b.at);
  return { total: found.length, hits: found.slice(0, most2).map(({ name, at }) => ({ name, at })) };
}
function step(nodes, edges, id, key) {
  const byId = new Map(nodes.map((n2) => [n2.id, n2]));
  const node = byId.get(id);
  if (!node) return null;
  const siblings = nodes.filter((n2) => n2.parent === node.parent);
  const at = siblings.indexOf(node);
  if (key === "ArrowUp") return siblings[at - 1]?.id ?? node.parent;
  if (key === "ArrowDown") return node.open ? inside2(nodes, id)[0]?.id : siblings[at + 1]?.id ?? null;
  if (key === "Home") return siblings[0].id;
  if (key === "End") return siblings[siblings.length - 1].id;
  return key === "ArrowRight" ? follow(byId, edges, id, 0, 1) : key === "ArrowLeft" ? follow(byId, edges, id, 1, 0) : null;
}
var inside2 = (nodes, id) => nodes.filter((n2) => n2.parent === id);
function follow(byId, edges, id, from, to) {
  const within = (a, b) => byId.get(b)?.parent === a;
  let here = id;
  for (let left = byId.size; left > 0; left -= 1) {
    const own = edges.filter((e) => e[from] === here && !within(here, e[to]));
    const sibling = own.find((e) => !within(e[to], here));
    const next = (sibling ?? own[0])?.[to];
    if (next == null) return null;
    if (sibling) return enter(byId, edges, next, from, to);
    here = next;
  }
  return null;
}
function enter(byId, edges, id, from, to) {
  let here = id;
  while (byId.get(here)?.open) {
    const next = edges.find((e) => e[from] === here && byId.get(e[to])?.parent === here);
    if (!next) break;
    here = next[to];
  }
  return here;
}
function near(nodes, edges, id, ahead) {
  const byId = new Map(nodes.map((n2) => [n2.id, n2]));
  const [from, to] = ahead ? [0, 1] : [1, 0];
  const found = [];
  let here = [id];
  const seen = new Set(here);
  while (here.length) {
    const border = [];
    for (const own of here)
      for (const e of edges)
        if (e[from] === own && byId.get(e[to])?.parent !== own && !seen.has(e[to])) {
          seen.add(e[to]);
          if (byId.get(own).parent === e[to]) border.push(e[to]);
          else found.push(e[to]);
        }
    here = border;
  }
  return found.map((key) => byId.get(key)?.label ?? key);
}
function without2(nodes, opened, id) {
  const byId = new Map(nodes.map((n2) => [n2.id, n2]));
  const under = (key) => {
    for (let n2 = byId.get(key); n2; n2 = byId.get(n2.parent)) if (n2.id === id) return true;
    return false;
  };
  return opened.filter((key) => key !== id && !under(key));
}

// src/graph/colour.js
var MODES2 = [
  ["time", "Time"],
  ["memory", "Memory"],
  ["traffic", "Traffic"],
  ["device", "Device"],
  ["error", "Error"]
];
var SPAN = 1e4;
var LEAST_ERROR = 0.05;
var VALUE2 = {
  time: (n2) => (n2.forward_s ?? 0) + (n2.backward_s ?? 0),
  memory: (n2) => n2.memory_bytes ?? 0,
  traffic: (n2) => n2.traffic_bytes ?? 0,
  error: (n2) => n2.error,
  device: () => null
};
var DIVERGING = ["0b4f94", "4d94c8", "b7d4e8", "eef0f2", "f7cf9f", "e08a30", "9c4600"].map(
  (hex) => [0, 2, 4].map((i) => Number.parseInt(hex.slice(i, i + 2), 16))
);
function diverging(t) {
  const at = (Math.min(1, Math.max(-1, t)) + 1) / 2 * (DIVERGING.length - 1) * 0.999999;
  const i = Math.floor(at);
  return DIVERGING[i].map((v, k) => Math.round(v + (DIVERGING[i + 1][k] - v) * (at - i)));
}
var DIVERGING_STOPS = DIVERGING.map((colour) => rgb(colour)).join(", ");
function scaleOf(nodes, mode) {
  const values = nodes.filter((n2) => !n2.open).map((n2) => VALUE2[mode](n2)).filter(known);
  if (mode === "device") return { low: 0, top: 0, colour: () => null };
  if (mode === "error") {
    const top2 = Math.max(LEAST_ERROR, ...values.map(Math.abs));
    return { low: -top2, top: top2, colour: (n2) => known(n2.error) ? painted(diverging(n2.error / top2)) : null };
  }
  const top = Math.max(...values, 0);
  const least = Math.min(...values.filter((v) => v > 0), top);
  const low = Math.max(least, top / SPAN);
  return { low, top, colour: (n2) => painted(cividis(logPosition(VALUE2[mode](n2), low, top))) };
}
var painted = (colour) => ({ fill: rgb(colour), ink: inkOn(colour) });
function errorText(error) {
  if (!known(error)) return percent(null);
  const text = percent(error, Math.abs(error) < 0.0995 ? 1 : 0);
  return error > 0 ? `+${text}` : text;
}
function valueText(node, mode) {
  if (mode === "device") return "";
  if (mode === "error") return errorText(node.error);
  return mode === "time" ? seconds(VALUE2.time(node)) : bytes(VALUE2[mode](node));
}
function legendOf({ low, top }, mode) {
  if (mode === "device") return null;
  if (mode === "error") return { low: errorText(low), high: errorText(top), note: "prediction against run: + too slow, − too fast" };
  const text = mode === "time" ? seconds : bytes;
  return { low: text(low), high: text(top), note: top > 0 && low < top ? "log scale" : fixed(0) && "" };
}

// src/graph/words.js
function numbersText(numbers) {
  const all = [...numbers].sort((a, b) => a - b);
  if (all.length < 2) return all.join("");
  if (all.length === 2) return `${all[0]} and ${all[1]}`;
  const runs = all[all.length - 1] - all[0] === all.length - 1;
  return runs ? `${all[0]} – ${all[all.length - 1]}` : `${all.slice(0, -1).join(", ")} and ${all[all.length - 1]}`;
}
var whereText = (stages) => stages?.length ? `stage ${numbersText(stages)}` : "nowhere";
var whereShort = (stages) => stages?.length ? `st. ${numbersText(stages).replace(" and ", ", ")}` : "–";
function movedTexts(node) {
  if (!node.moved) return [];
  const [a, b] = [node.stages, node.other_stages ?? []].map((stages) => numbersText(stages).replace(" and ", ", "));
  const count2 = [`${plural(node.moved, "layer")} moved`, `${fixed(node.moved)} moved`, "moved"];
  return a === b ? count2 : [`stage ${a} → ${b}`, `${a} → ${b}`, ...node.moved < layersOf(node) ? count2 : []];
}
var layersOf = (node) => node.ranges.reduce((sum, [, n2]) => sum + n2, 0);
function nodeName(node, { held = 0, otherName = null } = {}) {
  const layers = layersOf(node);
  const parts = [node.count > 1 ? `${node.label}, ${node.name}` : node.name === node.id ? node.name : `${node.label}, ${node.name}`];
  if (layers > 1) parts.push(plural(layers, "layer"));
  parts.push(`${seconds(node.forward_s + node.backward_s)}`, bytes(node.memory_bytes), whereText(node.stages));
  if (node.moved) parts.push(`in ${otherName ?? "B"} ${whereText(node.other_stages ?? [])}`);
  if (node.error != null) parts.push(`measured ${errorText(node.error)}`);
  if (held && held < layers) parts.push(`${fixed(held)} of its layers selected`);
  return parts.join(", ");
}
function details(node, { reads, feeds, otherName }) {
  const rows = [];
  const layers = layersOf(node);
  if (node.count > 1) rows.push(["", node.name]);
  if (layers > 1) rows.push(["", plural(layers, "layer")]);
  else rows.push(["", node.text ? `${node.kind} ${node.text}` : node.kind]);
  rows.push(["", whereText(node.stages)]);
  if (node.moved) rows.push([otherName ?? "B", `${whereText(node.other_stages ?? [])}${node.moved < layers ? ` (${plural(node.moved, "layer")} moved)` : ""}`]);
  rows.push(
    ["parameters", count(node.parameters)],
    ["FLOPs", node.flops ? `${count(node.flops)} forward` : "–"],
    ["forward", seconds(node.forward_s)],
    ["backward", seconds(node.backward_s)],
    ["memory", bytes(node.memory_bytes)],
    ["saved", bytes(node.saved_bytes)],
    ["output", bytes(node.traffic_bytes)]
  );
  if (node.error != null) rows.push(["measured", errorText(node.error)]);
  if (reads.length) rows.push(["reads", listed(reads)]);
  if (feeds.length) rows.push(["feeds", listed(feeds)]);
  return rows;
}
var listed = (names) => names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");

// src/graph/draw.js
function picture() {
  const tip = `g-tip-${Math.random().toString(36).slice(2)}`;
  const marker = (id, cls) => svg(
    "marker",
    { id, class: cls, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
    svg("path", { d: "M1 0.5L7.5 4L1 7.5Z" })
  );
  const frames = h("div", { class: "g-frames" });
  const edges = svg("g", {});
  const nodes = h("div", { class: "g-nodes", role: "tree", "aria-label": "Parts of the model", "aria-multiselectable": "true" });
  const size = h(
    "div",
    { class: "g-size" },
    frames,
    svg("svg", { "aria-hidden": "true", width: "100%", height: "100%" }, svg("defs", {}, marker(tip, ""), marker(`${tip}-near`, "near")), edges),
    nodes
  );
  return { canvas: h("div", { class: "g-canvas" }, size), size, frames, edges, nodes, tip };
}
function drawEdges(parts, paths, focus) {
  const shown = paths.filter((path) => path.d);
  keyed(
    parts.edges,
    shown,
    (path) => path.key,
    () => svg("path", {}),
    (element, path) => {
      const near2 = focus != null && (path.from === focus || path.to === focus) && path.from !== path.to;
      const arrow = path.stub ? null : `url(#${parts.tip}${near2 ? "-near" : ""})`;
      const cls = [path.skip ? "skip" : "", near2 ? "near" : ""].filter(Boolean).join(" ");
      set(element, { d: path.d, transform: `translate(${path.x} ${path.y})`, class: cls || null, "marker-end": arrow });
    }
  );
}
function drawFrames(parts, frames, boxes) {
  keyed(
    parts.frames,
    frames,
    (n2) => n2.id,
    () => h("div", { class: "g-frame" }, h("button", { class: "sx-btn", text: "Close" })),
    (element, n2) => {
      const box = boxes.get(n2.id);
      set(element, {
        class: `g-frame${box.level % 2 ? " odd" : ""}${box.level ? "" : " outer"}`,
        style: { left: px(box.x), top: px(box.y), width: px(box.w), height: px(box.h) }
      });
      set(element.firstChild, { "data-close": n2.id, "aria-label": `Close ${n2.label}` });
    }
  );
}
var px = (value) => `${Math.round(value * 10) / 10}px`;
function drawNode(element, n2, box, { scale, mode, held, focus, place: place2, otherName, frame: frame2 }) {
  const all = held.held > 0 && held.held === held.total;
  const moved2 = n2.moved > 0 && !saidBy(frame2, n2);
  const paint = n2.open ? null : scale.colour(n2);
  const cls = ["g-node", n2.open ? "frame" : "", n2.count > 1 ? "fold" : "", all ? "selected" : "", moved2 ? "moved" : ""];
  if (!n2.open) cls.push(mode === "device" ? "device" : paint ? "" : "unknown", n2.opens.length && n2.label.length * 8.4 + 32 <= box.w ? "opens" : "");
  set(element, {
    "data-node": n2.id,
    class: cls.filter(Boolean).join(" "),
    tabindex: focus === n2.id ? "0" : "-1",
    "aria-level": box.level + 1,
    "aria-posinset": place2[0],
    "aria-setsize": place2[1],
    "aria-selected": String(all),
    "aria-expanded": n2.opens.length || n2.open ? String(n2.open) : null,
    "aria-label": nodeName(n2, { held: held.held, otherName }),
    title: n2.open || n2.name === n2.label ? n2.id : `${n2.label} (${n2.name})`,
    style: {
      left: px(box.x),
      top: px(box.y),
      width: px(n2.open ? box.w - 66 : box.w),
      height: n2.open ? "26px" : px(box.h),
      "--fill": paint?.fill ?? null,
      "--fill-ink": paint?.ink ?? null
    }
  });
  const [label, where, value, stripes, notch] = element.children;
  const texts = textsOf2(n2, box, mode, frame2);
  set(label, { text: n2.label, style: { "font-size": n2.open ? null : fontFor(n2.label, box) } });
  set(where, { text: texts.where });
  set(value, { text: texts.value });
  set(stripes, { style: { background: mode === "device" && !n2.open ? stripesOf(n2.lanes) : null } });
  const part = !n2.open && held.held > 0 && !all;
  set(notch, {
    hidden: !part,
    "data-label": part ? held.ids.length === 1 ? tail(held.ids[0]) : `${held.ids.length} selected` : null,
    style: { left: part ? `${(held.share * 100).toFixed(1)}%` : null }
  });
}
function textsOf2(n2, box, mode, frame2) {
  const moved2 = movedTexts(n2);
  if (n2.open) return { where: moved2[0] ?? whereText(n2.stages), value: seconds(n2.forward_s + n2.backward_s) };
  const value = valueText(n2, mode);
  const fits = (text) => (text.length + value.length) * 6.3 + (value ? 6 : 0) <= box.w - 16;
  if (mode !== "device" && saidBy(frame2, n2)) return { where: "", value };
  const wishes = moved2.length ? moved2 : [whereText(n2.stages), whereShort(n2.stages)];
  const where = wishes.find(fits) ?? (moved2.length || mode === "device" ? wishes.at(-1) : "");
  return { where, value };
}
var saidBy = (frame2, n2) => frame2 != null && String(frame2.stages) === String(n2.stages) && movedTexts(frame2)[0] === movedTexts(n2)[0];
function fontFor(label, box) {
  const room = (box.w - 16) / label.length;
  return room >= 9 ? null : room >= 8.2 ? "12px" : "11px";
}
function stripesOf(lanes) {
  const total = lanes.reduce((sum, [, n2]) => sum + Number(n2), 0) || 1;
  let at = 0;
  const stops2 = lanes.map(([id, n2], i) => {
    const from = at;
    at += n2 / total;
    const same2 = i > 0 && Number(id) % 2 === Number(lanes[i - 1][0]) % 2;
    const line = same2 ? `var(--bg) ${(from * 100).toFixed(2)}% calc(${(from * 100).toFixed(2)}% + 2px), ` : "";
    const start = same2 ? `calc(${(from * 100).toFixed(2)}% + 2px)` : `${(from * 100).toFixed(2)}%`;
    return `${line}var(--chip${Number(id) % 2 ? "-other" : ""}) ${start} ${(at * 100).toFixed(2)}%`;
  });
  return stops2.length ? `linear-gradient(90deg, ${stops2.join(", ")})` : "var(--chip)";
}
var makeNode = () => h(
  "div",
  { class: "g-node", role: "treeitem", tabindex: "-1" },
  h("b", {}),
  h("span", { class: "g-where" }),
  h("span", { class: "g-value" }),
  h("i", { class: "g-lanes" }),
  h("i", { class: "g-notch" })
);

// src/graph/head.js
var Head = class {
  /** @param {HTMLElement} search @param {(mode: string) => void} choose a colour was asked for */
  constructor(search2, choose) {
    this.search = search2;
    this.choose = choose;
    this.title = heading("Layer graph", "");
    this.title.append(h("span", { class: "sx-space" }), search2);
    this.modes = h(
      "span",
      { class: "sx-seg", role: "radiogroup", "aria-label": "Colour" },
      MODES2.map(
        ([mode, name]) => h("button", { class: "sx-btn", text: name, role: "radio", "data-action": `colour-${mode}`, on: { click: () => choose(mode) } })
      )
    );
    this.legend = h("span", { class: "sx-legend" }, h("span", {}, h("span", {}), h("i", { class: "sx-ramp" }), h("span", {}), h("span", {})));
    this.bar = h("div", { class: "g-bar" }, this.modes, this.legend);
  }
  set hidden(hidden) {
    this.search.hidden = this.bar.hidden = hidden;
    if (hidden) set(this.title.querySelector(".sx-sub"), { text: "" });
  }
  /** @param {{layers: number, nodes: number, mode: string, scale: any, noErrors: string|null}} state */
  draw({ layers, nodes, mode, scale, noErrors }) {
    set(this.title.querySelector(".sx-sub"), { text: `${plural(layers, "layer")} in ${plural(nodes, "node")}` });
    MODES2.forEach(([m, name], i) => {
      const off = m === "error" && noErrors;
      set(this.modes.children[i], {
        "aria-checked": String(m === mode),
        "aria-disabled": off ? "true" : null,
        text: off ? `${name} – ${noErrors}` : name,
        tabindex: m === mode ? "0" : "-1"
      });
    });
    const legend = legendOf(scale, mode);
    const [low, ramp, high, note] = this.legend.firstChild.children;
    set(low, { text: legend?.low ?? "" });
    set(high, { text: legend?.high ?? "" });
    set(note, { text: legend ? legend.note : "shades tell neighbouring stages apart" });
    set(ramp, { hidden: !legend, style: { background: mode === "error" ? `linear-gradient(90deg, ${DIVERGING_STOPS})` : null } });
  }
  /** Arrow keys among the colours; says whether the key was one. */
  key(key, mode, noErrors) {
    const by2 = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (!by2) return false;
    const all = MODES2.map(([m]) => m).filter((m) => m !== "error" || !noErrors);
    const next = all[(all.indexOf(mode) + by2 + all.length) % all.length];
    this.choose(next);
    this.modes.children[MODES2.findIndex(([m]) => m === next)].focus();
    return true;
  }
};

// src/graph/layered.js
var IN = "\0in";
var OUT = "\0out";
var MANY_LANES = 3;
function rankOf(ids, edges, late = false) {
  const into = new Map(ids.map((id) => [id, []]));
  const out = new Map(ids.map((id) => [id, []]));
  for (const [a, b] of edges) {
    if (!into.has(a) || !into.has(b) || a === b) continue;
    out.get(a).push(b);
    into.get(b).push(a);
  }
  const rank = /* @__PURE__ */ new Map();
  const waiting = new Map(ids.map((id) => [id, into.get(id).length]));
  const order = ids.filter((id) => !waiting.get(id));
  for (const id of order) {
    rank.set(id, Math.max(0, ...into.get(id).map((p) => rank.get(p) + 1)));
    for (const next of out.get(id)) {
      waiting.set(next, waiting.get(next) - 1);
      if (waiting.get(next) === 0) order.push(next);
    }
  }
  for (const id of ids) if (!rank.has(id)) rank.set(id, Math.max(0, ...rank.values()) + 1);
  const shared = (id) => late && into.get(id).every((p) => out.get(p).length > 1);
  for (const id of [...order].reverse())
    if ((!into.get(id).length || shared(id)) && out.get(id).length && id !== IN)
      rank.set(id, Math.max(rank.get(id), Math.min(...out.get(id).map((b) => rank.get(b))) - 1));
  const least = Math.min(...rank.values());
  if (rank.has(IN)) {
    const first = Math.min(...ids.filter((id) => id !== IN).map((id) => rank.get(id)), Infinity);
    if (first <= rank.get(IN)) {
      for (const id of ids) if (id !== IN) rank.set(id, rank.get(id) + rank.get(IN) + 1 - first);
    }
  }
  if (rank.has(OUT)) {
    const last = Math.max(...ids.filter((id) => id !== OUT).map((id) => rank.get(id)), -1);
    rank.set(OUT, Math.max(rank.get(OUT), last + 1));
  }
  for (const id of ids) rank.set(id, rank.get(id) - least);
  return rank;
}
function layered(ids, edges, joined = false) {
  let rank = rankOf(ids, edges);
  const lanes = lanesOf(edges, rank);
  if (lanes > MANY_LANES) {
    const other = rankOf(ids, edges, true);
    if (lanesOf(edges, other) < lanes) rank = other;
  }
  const known2 = edges.filter(([a, b]) => rank.has(a) && rank.has(b) && rank.get(a) < rank.get(b));
  const chainOf = (from) => joined ? "" : from;
  const points = /* @__PURE__ */ new Map();
  ids.forEach((id) => points.set(id, { key: id, rank: rank.get(id), real: true, from: null }));
  const lines = known2.map(([from, to]) => {
    const via = [];
    for (let r = rank.get(from) + 1; r < rank.get(to); r += 1) {
      const key = `${chainOf(from)}${r}`;
      if (!points.has(key)) points.set(key, { key, rank: r, real: false, from: chainOf(from) });
      via.push(key);
    }
    return { from, to, via };
  });
  const ranks = [];
  for (const point of points.values()) (ranks[point.rank] ??= []).push(point);
  for (let r = 0; r < ranks.length; r += 1) ranks[r] ??= [];
  const links = neighbours(lines);
  for (const members of ranks) members.sort((a, b) => Number(a.real) - Number(b.real));
  return { ranks: uncross(ranks, links), lines, rank };
}
function lanesOf(edges, rank) {
  const reach = /* @__PURE__ */ new Map();
  for (const [a, b] of edges) if (rank.has(a) && rank.has(b)) reach.set(a, Math.max(reach.get(a) ?? 0, rank.get(b)));
  const passing = [];
  for (const [a, end2] of reach) for (let r = rank.get(a) + 1; r < end2; r += 1) passing[r] = (passing[r] ?? 0) + 1;
  return Math.max(0, ...passing.filter(Boolean));
}
function neighbours(lines) {
  const before = /* @__PURE__ */ new Map();
  const after = /* @__PURE__ */ new Map();
  const add = (map, key, value) => {
    const list = map.get(key) ?? map.set(key, []).get(key);
    if (!list.includes(value)) list.push(value);
  };
  for (const { from, to, via } of lines) {
    const all = [from, ...via, to];
    for (let i = 1; i < all.length; i += 1) {
      add(after, all[i - 1], all[i]);
      add(before, all[i], all[i - 1]);
    }
  }
  return { before, after };
}
function uncross(ranks, { before, after }) {
  let best = ranks.map((members) => [...members]);
  let least = crossings2(best, after);
  let now = best;
  for (let sweep = 0; sweep < 6 && least > 0; sweep += 1) {
    const down = sweep % 2 === 0;
    const place2 = /* @__PURE__ */ new Map();
    now = now.map((members) => [...members]);
    now.forEach((members) => members.forEach((p, i) => place2.set(p.key, i)));
    const sequence = down ? now : [...now].reverse();
    for (const members of sequence) {
      const wish = new Map(
        members.map((p) => {
          const near2 = (down ? before : after).get(p.key) ?? [];
          return [p.key, near2.length ? near2.reduce((sum, key) => sum + place2.get(key), 0) / near2.length : place2.get(p.key)];
        })
      );
      members.sort((a, b) => wish.get(a.key) - wish.get(b.key) || place2.get(a.key) - place2.get(b.key));
      members.forEach((p, i) => place2.set(p.key, i));
    }
    const found = crossings2(now, after);
    if (found < least) [best, least] = [now, found];
  }
  return best;
}
function crossings2(ranks, after) {
  let total = 0;
  for (let r = 0; r + 1 < ranks.length; r += 1) {
    const place2 = new Map(ranks[r + 1].map((p, i) => [p.key, i]));
    const ends = ranks[r].flatMap((p) => (after.get(p.key) ?? []).map((key) => place2.get(key)).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; i += 1) for (let j = i + 1; j < ends.length; j += 1) if (ends[i] > ends[j]) total += 1;
  }
  return total;
}
function spread(wishes, apart, weights) {
  let shift2 = 0;
  const pools = [];
  const shifts = wishes.map((wish, i) => {
    if (i) shift2 += apart[i - 1];
    pools.push({ sum: (wish - shift2) * weights[i], weight: weights[i], count: 1 });
    while (pools.length > 1) {
      const [a, b] = pools.slice(-2);
      if (a.sum / a.weight <= b.sum / b.weight) break;
      pools.splice(-2, 2, { sum: a.sum + b.sum, weight: a.weight + b.weight, count: a.count + b.count });
    }
    return shift2;
  });
  const places = pools.flatMap((pool) => Array(pool.count).fill(pool.sum / pool.weight));
  return places.map((place2, i) => place2 + shifts[i]);
}
function across({ ranks, lines }, reach, gap) {
  const { before, after } = neighbours(lines);
  const real = new Set(ranks.flat().flatMap((p) => p.real ? [p.key] : []));
  const drop = new Map(ranks.flat().map((p) => [p.key, reach(p)[2]]));
  const at = /* @__PURE__ */ new Map();
  const settle = (members, near2) => {
    const wishes = members.map((p) => {
      const all = (near2?.get(p.key) ?? []).filter((key) => at.has(key));
      const own = all.filter((key) => real.has(key));
      const told2 = own.length ? own : all;
      const line = (key) => at.get(key) + (near2 === before ? drop.get(key) : -drop.get(p.key));
      return told2.length ? told2.reduce((sum, key) => sum + line(key), 0) / told2.length : at.get(p.key) ?? 0;
    });
    const apart = members.slice(1).map((p, i) => reach(members[i])[1] + gap(members[i], p) + reach(p)[0]);
    const weights = members.map((p) => p.real ? 1 : 1e-4);
    spread(wishes, apart, weights).forEach((place2, i) => at.set(members[i].key, place2));
  };
  for (const members of ranks) settle(members, before);
  for (const members of [...ranks].reverse()) settle(members, after);
  for (const members of ranks) settle(members, before);
  return at;
}

// src/graph/place.js
var PORT = 12;
var LANE = 5;
var CORNER = 5;
var MOST_TORN = 3;
function place(items, edges, width, style) {
  const ends = [IN, OUT].filter((port) => edges.some((edge) => edge.includes(port)));
  const ids = [...ends.filter((id) => id === IN), ...items.map((item2) => item2.id), ...ends.filter((id) => id === OUT)];
  const byId = new Map(items.map((item2) => [item2.id, item2]));
  const level = layered(ids, edges);
  const rows = cutRows(level, byId, width, style);
  if (rows.torn <= MOST_TORN) return placeRows(level, byId, rows, style);
  const downwards = placeDown(level, byId, width, style);
  if (downwards.w <= width + 0.5) return downwards;
  const joined = layered(ids, edges, true);
  return placeRows(joined, byId, cutRows(joined, byId, width, style), style);
}
var isPort = (key) => key === IN || key === OUT;
function cutRows(level, byId, width, style) {
  const { ranks } = level;
  const passing = ranks.map((_, r) => crossing(level, r));
  const own = ranks.map((members) => members.filter((p) => p.real && !isPort(p.key)).map((p) => byId.get(p.key)));
  const [first, end2] = [isPort(ranks[0][0]?.key) ? 1 : 0, ranks.length - (isPort(ranks.at(-1)[0]?.key) ? 1 : 0)];
  const least = first || end2 < ranks.length ? PORT : 0;
  const widthsFor = (node) => own.map((items) => Math.max(0, ...items.map((item2) => item2.fixed ? item2.w : node)));
  const free = own.filter((items) => items.some((item2) => !item2.fixed)).length;
  const framed = widthsFor(0).reduce((a, b) => a + b, 0) + style.gap * (end2 - first - 1);
  const onerow = Math.min(style.wide, (width - 2 * least - framed) / Math.max(1, free));
  if (free ? onerow >= style.least * 0.86 : framed <= width - 2 * least + 0.5)
    return { bands: [[0, ranks.length]], node: onerow, widths: widthsFor(onerow), gutter: least, torn: 0, passing };
  for (let lines = 1; ; lines += 1) {
    const gutter = Math.max(least, 7 + LANE * lines);
    const room = width - 2 * gutter;
    const columns = Math.max(1, Math.min(free, Math.floor((room + style.gap) / (style.least + style.gap))));
    const node = Math.min(style.wide, (room + style.gap) / columns - style.gap);
    const widths = widthsFor(node);
    const bands = breaks(widths.slice(first, end2), passing.slice(first, end2), room, style.gap).map(([a, b]) => [a + first, b + first]);
    bands[0][0] = 0;
    bands.at(-1)[1] = ranks.length;
    const torn = Math.max(0, ...bands.slice(1).map(([start]) => passing[start - 1].length));
    if (torn <= lines || lines > MOST_TORN) return { bands, node, widths, gutter, torn, passing };
  }
}
function crossing({ ranks, lines, rank }, r) {
  const found = /* @__PURE__ */ new Set();
  for (const { from, to, via } of lines)
    if (rank.get(from) <= r && rank.get(to) > r) found.add(via[r - rank.get(from) - 1] ?? from);
  const place2 = new Map(ranks[r].map((p, i) => [p.key, i]));
  return [...found].sort((a, b) => place2.get(a) - place2.get(b));
}
function breaks(widths, passing, room, gap) {
  const cost = [0];
  const back = [0];
  for (let end2 = 1; end2 <= widths.length; end2 += 1) {
    cost[end2] = Infinity;
    let used = -gap;
    for (let start = end2 - 1; start >= 0; start -= 1) {
      used += widths[start] + gap;
      if (used > room + 0.5 && start < end2 - 1) break;
      const lines = start ? passing[start - 1].length - 1 : 0;
      const empty = end2 < widths.length ? Math.max(0, 1 - used / room) : 0;
      const found = cost[start] + 10 + 4 * Math.max(0, lines) ** 1.5 + 4 * empty;
      if (found < cost[end2] - 1e-9) [cost[end2], back[end2]] = [found, start];
    }
  }
  const bands = [];
  for (let end2 = widths.length; end2 > 0; end2 = back[end2]) bands.unshift([back[end2], end2]);
  return bands;
}
function placeRows(level, byId, { bands, node, widths, gutter, passing }, style) {
  const { ranks } = level;
  const size = (p) => isPort(p.key) || !p.real ? { w: 0, h: 0, inY: 0, outY: 0 } : sized(byId.get(p.key), node);
  const reach = (p) => p.real ? [size(p).inY, size(p).h - size(p).inY, size(p).outY - size(p).inY] : [2, 2, 0];
  const apart = (a, b) => a.real && b.real ? style.rowGap : a.real || b.real ? 5 : 3;
  const boxes = /* @__PURE__ */ new Map();
  const lane = /* @__PURE__ */ new Map();
  const rankX = [];
  const channels = [];
  let y = 0;
  let right = 0;
  bands.forEach(([start, end2], band) => {
    const own = ranks.slice(start, end2);
    const members = own.flat();
    const at = across({ ranks: own, lines: level.lines }, reach, apart);
    const top = Math.min(...members.map((p) => at.get(p.key) - reach(p)[0]));
    const bottom = Math.max(...members.map((p) => at.get(p.key) + reach(p)[1]));
    let x = gutter;
    for (let r = start; r < end2; r += 1) {
      const port2 = isPort(ranks[r][0]?.key);
      if (port2) x = ranks[r][0].key === IN ? gutter - PORT : x - style.gap + PORT;
      rankX[r] = [x, x + widths[r]];
      for (const p of ranks[r]) {
        const line = y + at.get(p.key) - top;
        lane.set(p.key, line);
        const { w: w2, h: h2, inY } = size(p);
        if (p.real) boxes.set(p.key, { x, y: line - inY, w: byId.get(p.key)?.fixed ? w2 : widths[r] && w2, h: h2, band, rank: r });
      }
      if (!port2) right = Math.max(right, x + widths[r]);
      x = port2 && ranks[r][0].key === IN ? gutter : x + widths[r] + style.gap;
    }
    y += bottom - top;
    if (band + 1 < bands.length) {
      const lines = passing[end2 - 1].length;
      channels[band] = { top: y + 8, right: x - style.gap, lines: passing[end2 - 1] };
      y += 16 + LANE * Math.max(0, lines - 1);
    }
  });
  const geometry = { boxes, lane, rankX, channels, bandOf: bandOf(bands, ranks.length), outY: (key) => outY(boxes, byId, key) };
  const w = right + gutter;
  const port = (key, x) => boxes.has(key) ? { x: x(boxes.get(key)), y: boxes.get(key).y } : null;
  return {
    boxes,
    paths: level.lines.map((line) => ({ from: line.from, to: line.to, skip: line.via.length > 0, d: rowPath(line, level, geometry) })),
    w,
    h: y,
    down: false,
    ports: { in: port(IN, (b) => b.x), out: port(OUT, (b) => b.x) }
  };
}
var sized = (item2, node) => item2.fixed ? item2 : { ...item2, w: node };
function outY(boxes, byId, key) {
  const box = boxes.get(key);
  return box.y + (byId.get(key)?.outY ?? 0);
}
function bandOf(bands, count2) {
  const result = Array(count2);
  bands.forEach(([start, end2], band) => result.fill(band, start, end2));
  return result;
}
function rowPath({ from, to, via }, { rank }, { boxes, lane, rankX, channels, bandOf: rows, outY: out }) {
  const a = boxes.get(from);
  let x = a.x + a.w;
  let y = out(from);
  let d = `M${n(x)} ${n(y)}`;
  let r = rank.get(from);
  let before = from;
  for (const key of [...via, to]) {
    r += 1;
    const last = key === to;
    const box = last ? boxes.get(to) : null;
    const y2 = lane.get(key);
    const x2 = box ? box.x : rankX[r][0];
    const stop2 = last && !isPort(to) ? x2 - 1 : x2;
    if (rows[r] === rows[r - 1]) {
      d += curve(x, y, stop2, y2, rankX[r - 1][1]);
    } else {
      const { top, right, lines } = channels[rows[r - 1]];
      const i = Math.max(0, lines.indexOf(before));
      const outside2 = right + 7 + LANE * (lines.length - 1 - i);
      const inside3 = 2 + LANE * i;
      const track = top + LANE * (lines.length - 1 - i);
      d += bent([
        [x, y],
        [outside2, y],
        [outside2, track],
        [inside3, track],
        [inside3, y2],
        [stop2, y2]
      ]);
    }
    if (!last) {
      d += `H${n(rankX[r][1])}`;
      x = rankX[r][1];
    }
    y = y2;
    before = key;
  }
  return d;
}
function curve(x1, y1, x2, y2, behind) {
  if (Math.abs(y1 - y2) < 0.5) return `H${n(x2)}`;
  const start = Math.max(x1, Math.min(behind, x2 - 8));
  const middle = (start + x2) / 2;
  return `${start > x1 + 0.5 ? `H${n(start)}` : ""}C${n(middle)} ${n(y1)} ${n(middle)} ${n(y2)} ${n(x2)} ${n(y2)}`;
}
function bent(points) {
  let d = "";
  for (let i = 1; i < points.length; i += 1) {
    const [x, y] = points[i];
    const [px2, py] = points[i - 1];
    const next = points[i + 1];
    if (!next) {
      d += `L${n(x)} ${n(y)}`;
      continue;
    }
    const c = Math.min(CORNER, Math.hypot(x - px2, y - py) / 2, Math.hypot(next[0] - x, next[1] - y) / 2);
    const [ux, uy] = [Math.sign(x - px2), Math.sign(y - py)];
    const [vx, vy] = [Math.sign(next[0] - x), Math.sign(next[1] - y)];
    d += `L${n(x - ux * c)} ${n(y - uy * c)}Q${n(x)} ${n(y)} ${n(x + vx * c)} ${n(y + vy * c)}`;
  }
  return d;
}
var n = (value) => Math.round(value * 10) / 10;
function placeDown(level, byId, width, style) {
  const { ranks, lines, rank } = level;
  const columns = Math.max(1, ...ranks.map((members) => members.filter((p) => p.real && !isPort(p.key)).length));
  const fit = (width - style.rowGap * (columns - 1) - 20) / columns;
  const node = Math.max(style.least * 0.86, Math.min(style.wide, fit));
  const size = (p) => isPort(p.key) || !p.real ? { w: 0, h: 0 } : sized(byId.get(p.key), node);
  const half = (p) => p.real ? size(p).w / 2 : 2;
  const at = across(level, (p) => [half(p), half(p), 0], (a, b) => a.real && b.real ? style.rowGap : 6);
  const left = Math.min(...ranks.flat().map((p) => at.get(p.key) - half(p)));
  const right = Math.max(...ranks.flat().map((p) => at.get(p.key) + half(p)));
  const boxes = /* @__PURE__ */ new Map();
  const lane = /* @__PURE__ */ new Map();
  const rankY = [];
  let y = 0;
  ranks.forEach((members, r) => {
    const tall = Math.max(0, ...members.map((p) => size(p).h));
    rankY[r] = [y, y + tall];
    for (const p of members) {
      const x = at.get(p.key) - left;
      lane.set(p.key, x);
      const { w, h: h2 } = size(p);
      if (p.real) boxes.set(p.key, { x: x - w / 2, y, w, h: h2, band: r, rank: r });
    }
    y += tall + (tall ? 18 : 12);
  });
  const port = (key) => boxes.has(key) ? { x: boxes.get(key).x, y: boxes.get(key).y } : null;
  return {
    boxes,
    paths: lines.map((line) => ({ from: line.from, to: line.to, skip: line.via.length > 0, d: downPath(line, rank, boxes, lane, rankY) })),
    w: right - left,
    h: Math.max(...rankY.map(([, bottom]) => bottom)),
    down: true,
    ports: { in: port(IN), out: port(OUT) }
  };
}
function downPath({ from, to, via }, rank, boxes, lane, rankY) {
  const a = boxes.get(from);
  let [x, y, r] = [lane.get(from), a.y + a.h, rank.get(from)];
  let d = `M${n(x)} ${n(y)}`;
  for (const key of [...via, to]) {
    r += 1;
    const last = key === to;
    const x2 = lane.get(key);
    const y2 = last && !isPort(to) ? rankY[r][0] - 1 : rankY[r][0];
    if (Math.abs(x - x2) < 0.5) d += `V${n(y2)}`;
    else {
      const start = Math.max(y, Math.min(rankY[r - 1][1], y2 - 8));
      const middle = (start + y2) / 2;
      d += `${start > y + 0.5 ? `V${n(start)}` : ""}C${n(x)} ${n(middle)} ${n(x2)} ${n(middle)} ${n(x2)} ${n(y2)}`;
    }
    if (!last) d += `V${n(rankY[r][1])}`;
    [x, y] = [x2, last ? y2 : rankY[r][1]];
  }
  return d;
}

// src/graph/nest.js
var TITLE = 26;
var PAD = 10;
var BESIDE = 17;
var ROOT_STYLE = { least: 104, wide: 190, high: 46, gap: 24, rowGap: 12 };
var INNER_STYLE = { least: 84, wide: 150, high: 38, gap: 18, rowGap: 8 };
function nest(nodes, edges, width) {
  const children = /* @__PURE__ */ new Map();
  for (const node of nodes) (children.get(node.parent) ?? children.set(node.parent, []).get(node.parent)).push(node);
  const parent = new Map(nodes.map((node) => [node.id, node.parent]));
  const byLevel = /* @__PURE__ */ new Map();
  for (const [a, b, count2] of edges) {
    const [level, from, to] = parent.get(b) === a ? [a, IN, b] : parent.get(a) === b ? [b, a, OUT] : [parent.get(a) ?? null, a, b];
    (byLevel.get(level) ?? byLevel.set(level, []).get(level)).push([from, to, count2 ?? 1]);
  }
  const inside3 = /* @__PURE__ */ new Map();
  const layOut = (level, room, depth) => {
    const style = depth ? INNER_STYLE : ROOT_STYLE;
    const items = (children.get(level) ?? []).map(
      (node) => node.open ? frameItem(node, layOut(node.id, room - 2 * (PAD + BESIDE), depth + 1)) : closedItem(node.id, style)
    );
    const own = byLevel.get(level) ?? [];
    const placed = place(
      items,
      own.map(([a, b]) => [a, b]),
      room,
      style
    );
    inside3.set(level, { ...placed, counts: new Map(own.map(([a, b, count2]) => [`${a}>${b}`, count2])) });
    return placed;
  };
  const root = layOut(null, width, 0);
  const boxes = /* @__PURE__ */ new Map();
  const paths = [];
  const put = (level, x, y, depth, frame2) => {
    const { boxes: own, paths: lines, counts, ports } = inside3.get(level);
    for (const { from, to, d, skip } of lines)
      paths.push({ key: `${level}|${from}>${to}`, from: end(from, level), to: end(to, level), d, x, y, skip, stub: to === OUT, count: counts.get(`${from}>${to}`) ?? 1 });
    if (frame2) paths.push(...borderStubs(level, ports, x, y, frame2));
    for (const [id, box] of own) {
      if (id === IN || id === OUT) continue;
      const spot = { ...box, x: x + box.x, y: y + box.y, level: depth };
      boxes.set(id, spot);
      if (inside3.has(id)) put(id, spot.x + PAD, spot.y + TITLE, depth + 1, spot);
    }
  };
  put(null, 0, 0, 0, null);
  return { boxes, paths, w: root.w, h: root.h };
}
var end = (id, level) => id === IN || id === OUT ? level : id;
var closedItem = (id, style) => ({ id, w: style.least, h: style.high, inY: style.high / 2, outY: style.high / 2, fixed: false });
function frameItem(node, placed) {
  const w = Math.max(placed.w + 2 * PAD, 92 + 7 * Math.min(node.label.length, 24));
  const h2 = placed.h + TITLE + PAD;
  const y = (port) => port ? TITLE + port.y : h2 / 2;
  return { id: node.id, w, h: h2, inY: y(placed.ports.in), outY: y(placed.ports.out), fixed: true };
}
function borderStubs(level, ports, x, y, frame2) {
  const left = frame2.x - x;
  const stub = (key, port, side) => ({
    key: `${level}|${key}`,
    from: level,
    to: level,
    d: `M${side} ${port.y}H${port.x}`,
    x,
    y,
    skip: false,
    stub: true,
    count: 1
  });
  return [...ports.in ? [stub("in", ports.in, left)] : [], ...ports.out ? [stub("out", ports.out, left + frame2.w)] : []];
}

// src/graph/searchbox.js
var SearchBox = class {
  /** @param {() => string[]} names all layers @param {(name: string) => void} go @param {(text: string) => void} say */
  constructor(names, go2, say) {
    this.names = names;
    this.go = go2;
    this.say = say;
    this.at = 0;
    this.hits = [];
    const list = `sx-graph-list-${Math.random().toString(36).slice(2)}`;
    this.input = h("input", {
      type: "search",
      class: "g-input",
      placeholder: "Find a layer",
      role: "combobox",
      "aria-label": "Find a layer by any part of its name",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": list,
      autocomplete: "off",
      spellcheck: "false",
      on: {
        input: () => this.typed(),
        keydown: (event) => this.key(event),
        focus: () => this.input.value && this.typed(),
        blur: () => this.close()
      }
    });
    this.count = h("div", { class: "g-count" });
    this.list = h("div", { role: "listbox", id: list, "aria-label": "Layers found" });
    this.drop = h("div", { class: "g-drop", hidden: true }, this.count, this.list);
    this.drop.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const hit2 = event.target.closest("[role=option]");
      if (hit2) this.choose(Number(hit2.dataset.at));
    });
    this.element = h("span", { class: "g-search" }, this.input, this.drop);
  }
  typed() {
    const { total, hits } = search(this.names(), this.input.value);
    this.hits = hits;
    this.at = 0;
    const asked = Boolean(this.input.value.trim());
    const text = !asked ? "" : total > hits.length ? `${fixed(total)} layers, the first ${hits.length}:` : total ? `${fixed(total)} ${total === 1 ? "layer" : "layers"}` : `No layer has “${this.input.value.trim()}” in its name.`;
    set(this.count, { text });
    this.drop.hidden = !asked;
    set(this.input, { "aria-expanded": String(asked && total > 0) });
    if (asked) this.say(total ? `${fixed(total)} found` : text);
    this.draw();
  }
  draw() {
    keyed(
      this.list,
      this.hits,
      (hit2) => hit2.name,
      () => h("div", { role: "option", class: "g-hit" }),
      (element, hit2, i) => {
        set(element, { id: `${this.list.id}-${i}`, "data-at": i, "aria-selected": String(i === this.at), text: hit2.name });
      }
    );
    set(this.input, { "aria-activedescendant": this.hits.length && !this.drop.hidden ? `${this.list.id}-${this.at}` : null });
  }
  choose(i) {
    const hit2 = this.hits[i];
    if (!hit2) return;
    this.input.value = "";
    this.close();
    this.go(hit2.name);
  }
  close() {
    this.drop.hidden = true;
    set(this.input, { "aria-expanded": "false", "aria-activedescendant": null });
  }
  key(event) {
    const by2 = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by2 && this.hits.length) {
      if (this.drop.hidden) this.typed();
      else this.at = (this.at + by2 + this.hits.length) % this.hits.length;
      this.draw();
    } else if (event.key === "Enter") this.choose(this.at);
    else if (event.key === "Escape" && !this.drop.hidden) {
      this.input.value = "";
      this.close();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
};

// src/graph/strip.js
var HINT2 = "Enter opens, Escape closes, arrows follow the edges, Space selects, / finds a layer.";
var Strip = class {
  constructor() {
    this.facts = h("div", { class: "g-facts" });
    this.acts = h("span", { class: "g-acts" });
    this.element = h("div", { class: "g-strip" }, this.facts, this.acts);
  }
  /** @param {any|null} node in focus @param {any} view */
  draw(node, view) {
    keyed(
      this.facts,
      (node ? factsOf2(node, view) : [["", HINT2]]).map((row, i) => ({ row, i })),
      ({ i }) => String(i),
      () => h("span", {}, h("span", {}), h("b", {})),
      (element, { row: [name, value, strong] }) => {
        set(element.firstChild, { text: name ? `${name} ` : "" });
        set(element.lastChild, { text: value, class: strong ? "strong" : null });
      }
    );
    keyed(
      this.acts,
      node ? actionsOf(node, view.nodes) : [],
      ([action]) => action,
      () => h("button", { class: "sx-btn" }),
      (button2, [action, text]) => set(button2, { "data-action": action, "data-for": node.id, text })
    );
  }
};
function factsOf2(node, { nodes, edges, other_name: otherName }) {
  const [reads, feeds] = [near(nodes, edges, node.id, false), near(nodes, edges, node.id, true)];
  return [["", node.label, true], ...details(node, { reads, feeds, otherName })];
}
function actionsOf(node, nodes) {
  const found = [];
  if (node.open) found.push(["close", "Close"]);
  else if (node.opens.length) found.push(["open", "Open"]);
  if (node.open ? closedIn(node, nodes) : node.opens.length) found.push(["open-all", "Open all levels"]);
  if (node.repeat) found.push(node.unfolded ? ["fold", "Fold repeats"] : ["unfold", "Unfold repeats"]);
  return found;
}
function closedIn(node, nodes) {
  const inside3 = /* @__PURE__ */ new Set([node.id]);
  for (const n2 of nodes) if (inside3.has(n2.parent)) inside3.add(n2.id);
  return nodes.some((n2) => inside3.has(n2.parent) && !n2.open && n2.count === 1 && n2.opens.length > 0);
}

// src/graph/index.js
var ALL = "/*";
var GraphWidget = class {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "graph", "Layer graph");
    this.root = root;
    this.closeRoot = close;
    this.focus = null;
    this.wanted = null;
    this.laid = null;
    this.build();
    this.sync = new Sync(model, ["view", "selection", "colour", "opened", "index"], () => this.draw());
    this.width = 0;
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
      (text) => this.say(text)
    );
    this.head = new Head(this.search.element, (mode) => this.colour(mode));
    this.parts = picture();
    this.empty = h("div", { class: "sx-empty", text: "No model yet." });
    this.omitted = h("div", { class: "sx-empty" });
    this.strip = new Strip();
    this.live = h("div", { class: "sx-live", "aria-live": "polite" });
    const { head, parts, strip } = this;
    this.root.append(head.title, head.bar, this.empty, parts.canvas, this.omitted, strip.element, this.live);
  }
  get view() {
    return this.model.get("view") ?? {};
  }
  get mode() {
    const told2 = this.model.get("colour") ?? "time";
    return told2 === "error" && this.view.no_errors ? "time" : told2;
  }
  get nodes() {
    return this.view.nodes ?? [];
  }
  resized() {
    const width = this.root.clientWidth - 36;
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
    const known2 = (id) => this.laid.boxes.has(id);
    const wished = this.wanted ?? this.place;
    if (!known2(wished?.id) && wished) {
      const holds = this.nodes.filter((n2) => n2.ranges.some(([first, count2]) => first <= wished.at && wished.at < first + count2));
      this.focus = holds.at(-1)?.id ?? null;
    } else if (wished) this.focus = wished.id;
    if (!known2(this.focus)) this.focus = this.nodes[0].id;
    this.place = this.placeOf(this.focus);
  }
  placeOf(id) {
    return { id, at: this.nodes.find((n2) => n2.id === id)?.ranges[0]?.[0] ?? 0 };
  }
  drawHead() {
    const { view, nodes, mode } = this;
    const shown = nodes.filter((n2) => !n2.open);
    this.scale = scaleOf(nodes, mode);
    this.head.draw({
      layers: this.positions.layers.length || shown.reduce((sum, n2) => sum + layersOf(n2), 0),
      nodes: shown.length,
      mode,
      scale: this.scale,
      noErrors: view.no_errors
    });
  }
  drawPicture() {
    const { view, nodes, mode, scale, laid, parts } = this;
    set(parts.size, { style: { width: `${Math.ceil(laid.w)}px`, height: `${Math.ceil(laid.h) + 14}px` } });
    const byId = new Map(nodes.map((n2) => [n2.id, n2]));
    drawFrames(
      parts,
      nodes.filter((n2) => n2.open),
      laid.boxes
    );
    const sizes = /* @__PURE__ */ new Map();
    for (const n2 of nodes) sizes.set(n2.parent, (sizes.get(n2.parent) ?? 0) + 1);
    const seen = /* @__PURE__ */ new Map();
    keyed(
      parts.nodes,
      nodes,
      (n2) => n2.id,
      makeNode,
      (element, n2) => {
        seen.set(n2.parent, (seen.get(n2.parent) ?? 0) + 1);
        drawNode(element, n2, laid.boxes.get(n2.id), {
          scale,
          mode,
          held: this.positions.held(this.chosen, n2.ranges),
          focus: this.focus,
          place: [seen.get(n2.parent), sizes.get(n2.parent)],
          otherName: view.other_name,
          frame: byId.get(n2.parent) ?? null
        });
      }
    );
    drawEdges(parts, laid.paths, this.inFocus ? this.focus : null);
  }
  drawStrip() {
    this.strip.draw(this.inFocus ? this.nodes.find((n2) => n2.id === this.focus) ?? null : null, this.view);
  }
  // ---- opening
  /** Write the open parts; Python answers with a view. */
  open(ids, focus) {
    this.wanted = { ...focus, since: this.nodes };
    this.sync.set("opened", [...new Set(ids)]);
  }
  act(action, id) {
    const n2 = this.nodes.find((node) => node.id === id);
    if (!n2) return;
    const opened = this.model.get("opened") ?? [];
    const rest = without2(this.nodes, opened, id);
    if (action === "open" || action === "open-all") {
      const target = this.target(n2);
      if (!target) return this.say(n2.count > 1 ? `${n2.label}: single layers, nothing to open` : `${n2.label} is a single layer`);
      this.open([...opened, action === "open" ? target : target + ALL], { id: target, at: this.positions.at.get(target)?.[0] ?? n2.ranges[0][0] });
      this.say(`${n2.label} open`);
    } else if (action === "close" && n2.open) {
      this.open(rest, this.placeOf(id));
      this.say(`${n2.label} closed`);
    } else if (action === "unfold" && n2.repeat) this.open([...opened, n2.repeat], this.placeOf(id));
    else if (action === "fold" && n2.repeat) this.open(opened.filter((key) => key !== n2.repeat), this.placeOf(id));
  }
  /** What opens: the part, or of a repeat the member that holds the selection, else its first. */
  target(n2) {
    if (n2.opens.length < 2) return n2.opens[0] ?? null;
    const { held, share } = this.positions.held(this.chosen, n2.ranges);
    return n2.opens[held && held < layersOf(n2) ? Math.min(n2.opens.length - 1, Math.floor(share * n2.opens.length)) : 0];
  }
  /** Open the way to a layer, select it and bring it into sight. */
  go(name) {
    const at = this.positions.at.get(name)?.[0] ?? 0;
    this.sync.set("selection", [name]);
    if (this.laid.boxes.has(name)) {
      this.wanted = { id: name, at, since: null };
      this.draw();
    } else this.open([...this.model.get("opened") ?? [], name], { id: name, at });
    this.say(`${name} selected`);
  }
  /** Give the focus to the wanted node, once the view that shows it has come. */
  takeFocus() {
    if (this.nodes === this.wanted.since) return;
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
    if (this.wanted && this.wanted.id !== id) this.wanted = null;
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
    this.choose(element.dataset.node, event.shiftKey || event.ctrlKey || event.metaKey);
  }
  doubled(event) {
    const id = event.target.closest("[data-node]")?.dataset.node;
    if (id == null) return;
    const n2 = this.nodes.find((node) => node.id === id);
    this.act(n2?.open ? "close" : event.shiftKey ? "open-all" : "open", id);
  }
  choose(id, extend) {
    const n2 = this.nodes.find((node) => node.id === id);
    const ids = this.positions.layers.length ? this.positions.idsOf(n2.ranges) : [n2.id];
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
    if (radio) done = this.head.key(event.key, this.mode, this.view.no_errors);
    else if (event.target === this.search.input) return;
    else if (event.key === "/") this.search.input.focus();
    else if (id != null) done = this.nodeKey(event, id);
    else done = false;
    if (done) event.preventDefault();
  }
  nodeKey(event, id) {
    const n2 = this.nodes.find((node) => node.id === id);
    const { key } = event;
    if (/^(Arrow|Home$|End$)/.test(key)) {
      const next = step(this.nodes, this.view.edges, id, key);
      if (next != null) this.move(next);
    } else if (key === "Enter") this.act(n2.open ? "close" : event.shiftKey ? "open-all" : "open", id);
    else if (key === "Escape" || key === "Backspace") {
      const frame2 = n2.open ? n2.id : n2.parent;
      if (frame2 == null) return false;
      this.act("close", frame2);
    } else if (key === " ") this.choose(id, event.shiftKey);
    else if (key === "u" && n2.repeat) this.act(n2.unfolded ? "fold" : "unfold", id);
    else return false;
    return true;
  }
  close() {
    this.sync.close();
    this.observer.disconnect();
    this.closeRoot();
    this.root.remove();
  }
};
function render2({ model, el }) {
  const widget = new GraphWidget(model, el);
  return () => widget.close();
}
var graph_default = { render: render2 };

// src/common/binary.js
function float32(value) {
  if (!value) return new Float32Array(0);
  const buffer = value instanceof ArrayBuffer ? value : value.buffer;
  const offset = value instanceof ArrayBuffer ? 0 : value.byteOffset;
  const length = Math.floor(value.byteLength / 4);
  return offset % 4 ? new Float32Array(buffer.slice(offset, offset + length * 4)) : new Float32Array(buffer, offset, length);
}

// src/common/canvas.js
function prepare(canvas, width, height) {
  const ratio = globalThis.devicePixelRatio || 1;
  const [w, h2] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h2) {
    canvas.width = w;
    canvas.height = h2;
    canvas.style.height = `${height}px`;
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}
function tokens(element, names) {
  const style = getComputedStyle(element);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
var family = (element) => getComputedStyle(element).fontFamily || "sans-serif";
function hatch(g, colour, size = 6, ground = null) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const t = tile.getContext("2d");
  if (ground) {
    t.fillStyle = ground;
    t.fillRect(0, 0, size, size);
  }
  t.strokeStyle = colour;
  t.lineWidth = 1;
  t.beginPath();
  for (const shift2 of [-size, 0, size]) {
    t.moveTo(shift2, size);
    t.lineTo(shift2 + size, 0);
  }
  t.stroke();
  return g.createPattern(tile, "repeat");
}
var Tip = class {
  constructor(root) {
    this.root = root;
    this.element = document.createElement("div");
    this.element.className = "sx-tip";
    this.element.hidden = true;
    root.append(this.element);
  }
  show(text, event) {
    this.element.hidden = !text;
    if (!text) return;
    if (this.element.textContent !== text) this.element.textContent = text;
    const box = this.root.getBoundingClientRect();
    const { offsetWidth: w, offsetHeight: h2 } = this.element;
    const x = event.clientX - box.left + 14;
    const y = event.clientY - box.top + 16;
    this.element.style.left = `${Math.max(2, x + w > box.width ? x - w - 24 : x)}px`;
    this.element.style.top = `${y + h2 > box.height && y - h2 - 28 > 0 ? y - h2 - 28 : y}px`;
  }
  hide() {
    this.element.hidden = true;
  }
};
function mixed(a, b, t) {
  const [x, y] = [a, b].map((hex) => [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16)));
  return `#${x.map((v, k) => Math.round(v + (y[k] - v) * t).toString(16).padStart(2, "0")).join("")}`;
}
function packed(hex) {
  const n2 = Number.parseInt((hex || "#888888").slice(1), 16);
  return (255 << 24 | (n2 & 255) << 16 | n2 & 65280 | n2 >> 16) >>> 0;
}

// src/common/table.js
function tableToggle(drawing, place2, makeTable) {
  const button2 = h("button", { class: "sx-btn", text: "Table", "data-action": "table", "aria-pressed": "false" });
  const show2 = (open) => {
    button2.setAttribute("aria-pressed", String(open));
    drawing.hidden = open;
    place2.replaceChildren(...open ? [makeTable()] : []);
  };
  button2.addEventListener("click", () => show2(button2.getAttribute("aria-pressed") !== "true"));
  return { button: button2, refresh: () => show2(button2.getAttribute("aria-pressed") === "true") };
}
function table(caption, columns, rows, total = rows.length) {
  const more = total > rows.length ? `${caption}: first ${rows.length} of ${total} rows` : caption;
  return h(
    "div",
    { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": more },
    h(
      "table",
      {},
      h("caption", { text: more }),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((c) => h("th", { scope: "col", text: c }))
        )
      ),
      h(
        "tbody",
        {},
        rows.map(
          (row) => h(
            "tr",
            {},
            row.map((cell, i) => i ? h("td", { text: cell }) : h("th", { scope: "row", text: cell }))
          )
        )
      )
    )
  );
}

// src/heatmap/cells.js
var PICTURES = {
  memory: [
    ["time", "Over time"],
    ["parts", "By part"]
  ],
  traffic: [
    ["pairs", "By pair"],
    ["links", "By link over time"]
  ]
};
function picturesOf(view) {
  const all = PICTURES[view?.kind] ?? [];
  return all.filter(([name]) => name === "parts" ? view.parts : name === "links" ? view.links?.rows.length : true);
}
function gridOf(view, cells, shown) {
  if (shown === "parts") return partsGrid(view);
  if (shown === "links") return linksGrid(view.links, cells);
  return view.kind === "traffic" ? trafficGrid(view) : memoryGrid(view, cells);
}
function memoryGrid(view, cells) {
  const rows = view.rows.length;
  const columns = Math.min(view.columns, Math.floor(cells.length / Math.max(1, rows)));
  let top = view.capacity_bytes || 0;
  for (const cell of cells) top = Math.max(top, cell);
  const value = (r, c) => cells[r * columns + c] >= 0 ? cells[r * columns + c] : null;
  const { start_s, end_s } = view;
  return { kind: "time", unit: "bytes", rows: view.rows, columns, value, low: 0, high: top, log: false, start_s, end_s };
}
function partsGrid(view) {
  const { names, bytes: bytes2, capacity_bytes } = view.parts;
  const value = (r, c) => (c < names.length ? bytes2[r][c] : bytes2[r].reduce((a, b) => a + b, 0)) || null;
  return {
    kind: "parts",
    unit: "bytes",
    rows: view.rows,
    columns: names.length + 1,
    names: [...names, "all"],
    plain: names.length,
    capacity: capacity_bytes,
    value,
    low: 0,
    high: Math.max(0, ...bytes2.flat()),
    log: false
  };
}
function linksGrid(view, cells) {
  const { columns, start_s, end_s } = view;
  const value = (r, c) => cells[r * columns + c] > 0 ? cells[r * columns + c] : null;
  let most2 = 0;
  for (const cell of cells) most2 = Math.max(most2, cell);
  return { kind: "time", unit: "share", rows: view.rows, columns, value, low: 0, high: roundUp(Math.min(1, most2)), log: false, start_s, end_s };
}
function trafficGrid(view) {
  const n2 = view.rows.length;
  const cells = /* @__PURE__ */ new Map();
  for (const [source, target, bytes2] of view.pairs)
    if (bytes2 > 0) cells.set(source * n2 + target, (cells.get(source * n2 + target) ?? 0) + bytes2);
  const all = [...cells.values()];
  const high = Math.max(0, ...all);
  const least = all.length ? Math.min(...all) : 0;
  return {
    kind: "pairs",
    unit: "bytes",
    rows: view.rows,
    columns: n2,
    names: view.rows.map((row) => row.name),
    value: (r, c) => cells.get(r * n2 + c) ?? null,
    low: least < high ? least : high / 10,
    high,
    log: true
  };
}
function roundUp(x) {
  if (!(x > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= x * (1 - 1e-9)) ?? 10 * power;
}
var SPARSE_FROM = 0.14;
function scaleOf2(grids) {
  const log = grids.some((grid) => grid.log);
  const high = Math.max(...grids.map((grid) => grid.high));
  const low = log ? Math.min(...grids.filter((grid) => grid.high > 0).map((grid) => grid.low), high) : 0;
  const from = log || grids.some((grid) => grid.unit === "share") ? SPARSE_FROM : 0;
  const share = log ? (x) => logPosition(x, low, high) : (x) => high > 0 ? Math.min(1, Math.max(0, x / high)) : 0;
  const value = log ? (u) => low * (high / low) ** u : (u) => u * high;
  return { low, high, log, from, position: (x) => from + (1 - from) * share(x), at: (t) => value((t - from) / (1 - from)) };
}
function mostOf(grid, r, pixel, pixels) {
  const from = Math.floor(pixel * grid.columns / pixels);
  const to = Math.max(from + 1, Math.floor((pixel + 1) * grid.columns / pixels));
  let found = null;
  for (let k = from; k < to; k += 1) {
    const value = grid.value(r, k);
    if (value != null && (found == null || value > found)) found = value;
  }
  return found;
}
function rowPlaces(rows, size, top = 0) {
  let y = top;
  const tops = rows.map((row, i) => {
    if (i) y += rows[i - 1].lane != null && rows[i - 1].lane === row.lane ? size > 12 ? 1 : 0 : size > 12 ? 4 : 1;
    const at = y;
    y += size;
    return at;
  });
  return { tops, height: y };
}
function moveCell(grid, cell, key, shift2 = false) {
  if (!cell) return { r: 0, k: 0 };
  const stride = grid.kind === "time" && !shift2 ? Math.max(1, Math.round(grid.columns / 50)) : 1;
  const by2 = { ArrowRight: [0, stride], ArrowLeft: [0, -stride], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[key];
  if (key === "Home") return { r: cell.r, k: 0 };
  if (key === "End") return { r: cell.r, k: grid.columns - 1 };
  if (!by2) return cell;
  const clamp = (x, most2) => Math.min(most2, Math.max(0, x));
  return { r: clamp(cell.r + by2[0], grid.rows.length - 1), k: clamp(cell.k + by2[1], grid.columns - 1) };
}

// src/heatmap/panels.js
var BESIDE_PX = 860;
var NUMBER_PX = 24;
var GAP_PX = 24;
var LETTER_PX = 6.6;
var TITLE_PX = 18;
var rowSize = (rows, least = 11) => rows <= 16 ? 28 : rows <= 32 ? 16 : least;
function panelsOf(grids, width) {
  const several = grids.length > 1;
  const end2 = Math.max(...grids.map((grid) => grid.end_s ?? 0));
  const share = (width - GAP_PX) / grids.length;
  const legible = grids.every((grid) => grid.kind === "pairs" && panelOf(grid, 0, share, 0, end2).size >= NUMBER_PX);
  const beside = several && (width >= BESIDE_PX || legible);
  const each = beside ? share : width;
  let y = 0;
  let height = 0;
  const panels = grids.map((grid, p) => {
    const panel = panelOf(grid, beside ? p * (each + GAP_PX) : 0, each, y + (several ? TITLE_PX : 0), end2);
    panel.title = several ? y + 12 : null;
    if (!beside) y = panel.height + 14;
    height = Math.max(height, panel.height);
    return panel;
  });
  return { panels, height };
}
function panelOf(grid, x, width, top, end2) {
  const longest = Math.max(...grid.rows.map((row) => row.name.length));
  const left = x + Math.round(Math.min(width * 0.4, 170, longest * LETTER_PX + 14));
  const room = x + width - left - 4;
  if (grid.kind === "pairs") {
    const size2 = Math.max(5, Math.min(36, Math.floor((room - 4) / grid.columns) - 2));
    const { tops: tops2, height: height2 } = rowPlaces(grid.rows, size2, top + 20);
    const lefts = tops2.map((at) => left + at - tops2[0]);
    return { x, left, right: left + height2 - tops2[0], size: size2, tops: tops2, lefts, widths: lefts.map(() => size2), top, height: height2 + 4 };
  }
  const size = rowSize(grid.rows.length, grid.kind === "parts" ? 15 : 11);
  const { tops, height } = rowPlaces(grid.rows, size, top + 18);
  if (grid.kind === "parts") {
    const each = Math.min(96, room / grid.columns);
    const lefts = Array.from({ length: grid.columns }, (_, k) => left + k * each);
    return { x, left, right: left + each * grid.columns, size, tops, lefts, widths: lefts.map(() => each - 2), top, height: height + 4 };
  }
  return { x, left, right: left + room * grid.end_s / (end2 || 1), size, tops, lefts: null, widths: null, top, height: height + 20 };
}
function cellUnder(grid, panel, x, y) {
  const r = panel.tops.findIndex((top) => y >= top && y < top + panel.size);
  if (r < 0 || x < panel.left) return null;
  const k = panel.lefts ? panel.lefts.findIndex((left, i) => x >= left && x < left + panel.widths[i]) : Math.floor((x - panel.left) / (panel.right - panel.left) * grid.columns);
  return k < 0 || k >= grid.columns ? null : { r, k };
}
function boxOf(grid, panel, { r, k }) {
  if (panel.lefts) return [panel.lefts[k], panel.tops[r], panel.widths[k], panel.size];
  const w = (panel.right - panel.left) / grid.columns;
  return [panel.left + k * w, panel.tops[r], w, panel.size];
}

// src/heatmap/draw.js
var TOKENS = ["ink", "ink-2", "ink-strong", "brand", "brand-ink", "wash", "bg", "line", "bad"];
function drawPanel(g, plan, panel, scale, scene) {
  const { look: c } = scene;
  if (panel.title != null) {
    g.font = `600 12px ${c.font}`;
    g.textAlign = "left";
    g.fillStyle = c["ink-strong"];
    g.fillText(plan.name, panel.x, panel.title);
  }
  if (plan.grid.kind === "time") drawTime(g, plan, panel, scale, scene);
  else drawCells(g, plan, panel, scale, scene);
  drawNames(g, plan, panel, scene);
  if (scene.cell && scene.cell.r < plan.grid.rows.length && scene.cell.k < plan.grid.columns) drawCursor(g, plan, panel, scene);
}
function drawNames(g, { grid }, panel, { look: c, marked }) {
  const every = Math.max(1, Math.ceil(11 / panel.size));
  grid.rows.forEach((row, r) => {
    const on = row.lane != null && marked.has(row.lane);
    if (r % every && !on) return;
    g.font = `${on ? "600 " : ""}${panel.size < 16 ? 11 : 12}px ${c.font}`;
    g.textAlign = "left";
    g.fillStyle = on ? c["brand-ink"] : c.ink;
    g.fillText(on ? `${row.name} ◂` : row.name, panel.x, panel.tops[r] + panel.size / 2 + 4, panel.left - panel.x - 4);
  });
}
function drawTime(g, plan, panel, scale, scene) {
  const { grid, view } = plan;
  const { look: c } = scene;
  const { left, right, tops, size } = panel;
  const strip = document.createElement("canvas");
  strip.width = Math.max(1, Math.min(grid.columns, Math.round(right - left)));
  strip.height = 1;
  const pen = strip.getContext("2d");
  g.imageSmoothingEnabled = false;
  grid.rows.forEach((_, r) => {
    const image = pen.createImageData(strip.width, 1);
    for (let p = 0; p < strip.width; p += 1) {
      const value = mostOf(grid, r, p, strip.width);
      if (value != null) image.data.set([...cividis(scale.position(value)), 255], p * 4);
    }
    pen.putImageData(image, 0, 0);
    g.fillStyle = c.wash;
    g.fillRect(left, tops[r], right - left, size);
    g.drawImage(strip, left, tops[r], right - left, size);
  });
  const x = (t) => left + (t - grid.start_s) / (grid.end_s - grid.start_s) * (right - left);
  const foot = tops[tops.length - 1] + size + 14;
  g.font = `11px ${c.font}`;
  g.fillStyle = c["ink-2"];
  for (const t of ticks(grid.end_s, Math.max(2, (right - left) / 110), grid.start_s)) {
    const { text, unit } = secondsParts(t, grid.end_s);
    g.textAlign = x(t) < left + 10 ? "left" : x(t) > right - 14 ? "right" : "center";
    g.fillText(`${text.replace(/\.0+$/, "")} ${unit}`, x(t), foot);
  }
  if (view.peak && scene.shown === "time") drawPeak(g, view, panel, x(view.peak.time_s), c);
}
function drawPeak(g, view, panel, x, c) {
  const y = panel.tops[view.peak.row];
  const first = view.peak.row === 0;
  const tip = first ? y - 1 : y + 9;
  const over = view.peak.bytes > view.capacity_bytes;
  g.fillStyle = over ? c.bad : c["ink-strong"];
  g.beginPath();
  g.moveTo(x, tip);
  g.lineTo(x + 5, tip - 8);
  g.lineTo(x - 5, tip - 8);
  g.fill();
  const where = first ? "" : ` on ${view.rows[view.peak.row].name}`;
  const text = `peak ${bytes(view.peak.bytes)}${where} at ${seconds(view.peak.time_s)}${over ? `, ▲ ${bytes(view.peak.bytes - view.capacity_bytes)} over` : ""}`;
  g.font = `${over ? "600 " : ""}11px ${c.font}`;
  const w = g.measureText(text).width;
  g.textAlign = "left";
  const at = x + 9 + w > panel.right ? Math.max(panel.left, x - 9 - w) : x + 9;
  g.fillText(text, at, panel.tops[0] - 5);
}
function drawCells(g, { grid, view }, panel, scale, { look: c, shown }) {
  const like = scale.high;
  drawHeads(g, grid, panel, c);
  g.textAlign = "center";
  grid.rows.forEach((_, r) => {
    for (let k = 0; k < grid.columns; k += 1) {
      const [x, y, w, h2] = boxOf(grid, panel, { r, k });
      const value = grid.value(r, k);
      const plain = k === grid.plain;
      const colour = value == null || plain ? null : cividis(scale.position(value));
      g.fillStyle = colour ? rgb(colour) : c.wash;
      if (!plain) g.fillRect(x, y, w - (w > 12 ? 1 : 0), h2 - (h2 > 12 ? 1 : 0));
      if (value == null || w < NUMBER_PX || h2 < 11) continue;
      const over = plain && value > grid.capacity[r];
      g.font = `${plain ? "600 " : ""}11px ${c.font}`;
      g.fillStyle = colour ? inkOn(colour) : over ? c.bad : c.ink;
      const text = shown === "parts" ? plain ? `${over ? "▲ " : ""}${bytes(value)}` : bytes(value) : bytesParts(value, like).text;
      g.fillText(text, x + w / 2, y + h2 / 2 + 4, w - 2);
    }
  });
}
function drawHeads(g, grid, panel, c) {
  const width = panel.widths[0];
  if (width < 14) return;
  g.font = `11px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.textAlign = "center";
  grid.names.forEach((name, k) => {
    const text = grid.kind === "pairs" ? name.replace(/^\D+/, "") || name : name;
    g.fillText(text, panel.lefts[k] + width / 2, panel.tops[0] - 7, width);
  });
}
function drawCursor(g, { grid }, panel, { look: c, cell }) {
  const [x, y, w, h2] = boxOf(grid, panel, cell);
  for (const [colour, width] of [
    [c.bg, 5],
    [c.brand, 3]
  ]) {
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.strokeRect(x - 1, y - 1, Math.max(4, w) + 1, h2 + 1);
  }
}

// src/heatmap/legend.js
var MARKS = [0, 0.2, 0.4, 0.6, 0.8, 1];
var AROUND = 0.06;
var gradient = (from, to, steps) => `linear-gradient(90deg, ${Array.from({ length: steps + 1 }, (_, i) => rgb(cividis(from + (to - from) * i / steps))).join(", ")})`;
var Legend = class {
  constructor() {
    this.ramp = h("span", { class: "sx-ramp hm-ramp" });
    this.note = h("span", { class: "sx-sub" });
    this.element = h("div", { class: "hm-legend" }, this.ramp, this.note);
  }
  /** @param {any} scale @param {string} unit `bytes` or `share` @param {string} note what the ends mean */
  show(scale, unit, note) {
    const write = (value) => unit === "share" ? percent(value, scale.high < 0.0995 ? 1 : 0) : value === 0 ? "0" : bytes(value);
    const along = (u) => scale.from + (1 - scale.from) * u;
    set(this.ramp, { style: { background: gradient(scale.from, 1, 9) } });
    keyed(
      this.ramp,
      MARKS,
      String,
      () => h("span", {}),
      (span, u) => {
        const at = along(u);
        const ground = { background: gradient(along(u - AROUND), along(u + AROUND), 2), "background-color": rgb(cividis(at)) };
        const end2 = u === 0 ? "first" : u === 1 ? "last" : null;
        set(span, { text: write(scale.at(at)), "data-end": end2, style: { left: `${u * 100}%`, color: inkOn(cividis(at)), ...ground } });
      }
    );
    set(this.note, { text: note });
  }
};

// src/heatmap/words.js
var TABLE_ROWS = 400;
var told = (grid, value) => value == null ? "nothing" : grid.unit === "share" ? percent(value, value < 0.0995 ? 1 : 0) : bytes(value);
var timeAt = (grid, k) => grid.start_s + (k + 0.5) / grid.columns * (grid.end_s - grid.start_s);
function placeWords(grid, { r, k }) {
  const row = grid.rows[r];
  const name = row.count > 1 ? `${row.name} (${row.count})` : row.name;
  if (grid.kind === "time") return `${name} at ${seconds(timeAt(grid, k), grid.end_s)}`;
  return grid.kind === "parts" ? `${name}, ${grid.names[k]}` : `${row.name} → ${grid.names[k]}`;
}
function valueWords(view, grid, { r, k }) {
  const value = grid.value(r, k);
  if (grid.unit === "share") return `${value == null ? "not used" : `${told(grid, value)} in use`}, of ${bytes(grid.rows[r].bytes_per_s)}/s`;
  if (grid.kind === "pairs") return value == null ? "nothing" : `${bytes(value)} a step`;
  if (value == null) return grid.kind === "parts" ? "none" : "unknown";
  const capacity = grid.kind === "parts" ? grid.capacity[r] : view.capacity_bytes;
  const over = value > capacity ? `, ▲ ${bytes(value - capacity)} over` : "";
  return `${bytes(value)}, ${percent(value / capacity)} of capacity${over}`;
}
function againstWords(grid, other, name, { r, k }) {
  const row = other.rows.findIndex((item2) => item2.name === grid.rows[r].name);
  if (row < 0) return `${name}: not used`;
  const column = grid.kind === "time" ? columnAt(other, timeAt(grid, k)) : grid.names ? other.names.indexOf(grid.names[k]) : k;
  if (column < 0 || column >= other.columns) return `${name}: nothing`;
  const [a, b] = [grid.value(r, k) ?? 0, other.value(row, column)];
  const difference = (b ?? 0) - a;
  const shown = grid.unit === "share" ? `${fixed(difference * 100, 1)} points` : bytes(difference, Math.max(a, b ?? 0));
  return `${name}: ${told(other, b)}${difference ? `, ${signed(shown)}` : ", the same"}`;
}
function columnAt(grid, t) {
  const k = Math.floor((t - grid.start_s) / (grid.end_s - grid.start_s) * grid.columns);
  return k < grid.columns ? k : -1;
}
var TITLES = {
  "memory time": ["Memory", "device by time, one step"],
  "memory parts": ["Memory", "device by part, at its peak"],
  "traffic pairs": ["Communication", "row to column, one step"],
  "traffic links": ["Communication", "share of each link in use, one step"]
};
function titleOf(view, shown) {
  const own = shown === "time" || shown === "pairs" ? view.title : null;
  const [head, sub] = own ? [own.split(/,(.*)/s)[0], own.split(/,(.*)/s)[1]?.trim() ?? ""] : TITLES[`${view.kind} ${shown}`] ?? ["Heatmap", ""];
  const folded = shown === "links" ? view.links.folded : view.folded;
  return [head, [sub, folded && `rows are folded: ${folded}`].filter(Boolean).join("; ")];
}
function summary(view, grid, shown) {
  if (shown === "pairs") return `${plural(view.pairs.length, "pair")}, at most ${bytes(grid.high)}.`;
  if (shown === "links") {
    const busiest = view.links.rows.reduce((a, b) => b.share > a.share ? b : a);
    return `${plural(view.links.rows.length, "row")}; the busiest is ${busiest.name}, ${percent(busiest.share, 1)} on average.`;
  }
  if (shown === "parts" || !view.peak) return `${plural(view.rows.length, "row")}.`;
  return `Peak ${bytes(view.peak.bytes)} on ${view.rows[view.peak.row]?.name} at ${seconds(view.peak.time_s)}.`;
}
function asTable(plans, shown) {
  const several = plans.length > 1;
  const first = (name, cells) => several ? [name, ...cells] : cells;
  if (shown === "pairs") {
    const rows2 = plans.flatMap(({ view, name }) => view.pairs.map(([a, b, n2]) => first(name, [view.rows[a].name, view.rows[b].name, bytes(n2)])));
    return table("Bytes sent in one step", first("plan", ["from", "to", "bytes"]), rows2.slice(0, TABLE_ROWS), rows2.length);
  }
  const { grid } = plans[0];
  const timed = grid.kind === "time";
  const at = timed ? Array.from({ length: Math.min(8, grid.columns) }, (_, i) => Math.floor((i + 0.5) / Math.min(8, grid.columns) * grid.columns)) : grid.names.map((_, k) => k);
  const columns = [shown === "links" ? "link" : "device", ...timed ? ["peak", ...at.map((k) => seconds(timeAt(grid, k), grid.end_s))] : grid.names];
  const rows = plans.flatMap(
    ({ grid: own, name }) => own.rows.map(
      (row, r) => first(name, [row.name, ...timed ? [told(own, most(own, r))] : [], ...at.map((k) => own.value(r, k) == null ? "" : told(own, own.value(r, k)))])
    )
  );
  const caption = { time: "Memory in use", parts: "Memory at the peak", links: "Share of each link in use" }[shown];
  return table(caption, first("plan", columns), rows.slice(0, TABLE_ROWS), rows.length);
}
function most(grid, r) {
  let top = null;
  for (let k = 0; k < grid.columns; k += 1) {
    const v = grid.value(r, k);
    if (v != null && (top == null || v > top)) top = v;
  }
  return top;
}

// src/heatmap/index.js
var HeatmapView = class {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "heatmap", "Heatmap");
    this.root = root;
    this.cell = null;
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
    this.drawing = h("div", {}, this.canvas);
    this.legend = new Legend();
    this.empty = h("div", { class: "sx-empty", text: "Nothing to show yet: memory and traffic appear once a model and a cluster are chosen." });
    this.live = h("div", { class: "sx-live", "aria-live": "polite" });
    this.table = tableToggle(this.drawing, this.tableBox, () => asTable(this.plans, this.shown));
    this.head.append(h("span", { class: "sx-space" }), h("span", { class: "sx-acts" }, this.switch, this.table.button));
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
      ["view_b", "cells_b", "B"]
    ].flatMap(([v, c, name]) => {
      const view = this.model.get(v) ?? {};
      if (view.kind !== this.view.kind || !view.rows?.length || !picturesOf(view).some(([own]) => own === this.shown)) return [];
      return [{ view, name: view.name || name, grid: gridOf(view, float32(this.model.get(c)), this.shown) }];
    });
    const { grid } = this.plans[0];
    if (this.cell && (this.cell.r >= grid.rows.length || this.cell.k >= grid.columns)) this.cell = null;
    this.scale = scaleOf2(this.plans.map((plan) => plan.grid));
    this.drawSwitch(pictures);
    this.drawHead(grid);
    this.table.refresh();
    this.paint();
  }
  drawHead(grid) {
    const [head, sub] = titleOf(this.view, this.shown);
    set(this.root, { "aria-label": head });
    set(this.head.children[0], { text: head });
    set(this.head.children[1], { text: sub });
    this.legend.show(this.scale, grid.unit, this.note(grid));
    const words = this.plans.map(({ view, grid: own, name }) => `${this.plans.length > 1 ? `${name}: ` : ""}${summary(view, own, this.shown)}`);
    const help = "Arrow keys go from cell to cell, Enter marks the row. The Table button gives the same as a table.";
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
      ([name, text]) => h("button", { class: "sx-btn", text, role: "radio", "data-action": `show-${name}`, on: { click: () => this.choose(name), keydown: (event) => this.switchKey(event, pictures) } }),
      (button2, [name]) => set(button2, { "aria-checked": String(name === this.shown), tabindex: name === this.shown ? "0" : "-1" })
    );
  }
  choose(name) {
    this.cell = null;
    this.tip.hide();
    this.sync.set("shown", name);
    this.load();
  }
  switchKey(event, pictures) {
    const by2 = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by2) return;
    event.preventDefault();
    const at = pictures.findIndex(([name]) => name === this.shown);
    this.choose(pictures[(at + by2 + pictures.length) % pictures.length][0]);
    this.switch.querySelector('[aria-checked="true"]')?.focus();
  }
  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const width = this.canvas.clientWidth;
      if (!this.plans.length || !width) return;
      this.look ??= { ...tokens(this.root, TOKENS), font: family(this.root) };
      const { panels, height } = panelsOf(
        this.plans.map((plan) => plan.grid),
        width
      );
      this.panels = panels;
      const g = prepare(this.canvas, width, height);
      const marked = new Set(this.model.get("selected_lanes") ?? []);
      this.plans.forEach(
        (plan, p) => drawPanel(g, plan, panels[p], this.scale, { look: this.look, marked, shown: this.shown, cell: this.cellIn(p) })
      );
    });
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
    canvas.addEventListener("pointerleave", () => this.tip.hide());
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
    if (!found) return this.tip.hide();
    return this.tip.show(this.lines(found.p, found.cell).join("\n"), event);
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
    else return;
    event.preventDefault();
  }
  moveTo(cell) {
    if (!cell && !this.cell) return;
    this.cell = cell;
    this.tip.hide();
    if (cell && this.panels) {
      const lines = this.lines(0, cell);
      this.live.textContent = lines.join(", ");
      const box = this.canvas.getBoundingClientRect();
      const [x, y, w, size] = boxOf(this.plans[0].grid, this.panels[0], cell);
      this.tip.show(lines.join("\n"), { clientX: box.left + x + w, clientY: box.top + y + size });
    }
    this.paint();
  }
};
function render3({ model, el }) {
  const view = new HeatmapView(model, el);
  return () => view.close();
}
var heatmap_default = { render: render3 };

// src/tiles/preview.js
var PREVIEW = "sx-preview";
function previewed(tile, { values, levels }) {
  const value = values?.[tile.key];
  const still = { ...tile, measured: null, low: null, high: null, note: null, preview: true };
  if (!known(value)) return { ...still, baseline: null, waits: true };
  const level = levels && tile.key in levels ? levels[tile.key] : null;
  return { ...still, value, level, baseline: tile.value, baseline_name: null, now: tile.value };
}
function previewedVerdict(now, { verdict }) {
  return verdict?.text ? { level: verdict.level ?? "none", text: verdict.text, note: verdict.note ?? "Estimate. Esc cancels.", actions: [] } : now;
}
function previewOf2(detail, bench, before) {
  if (!detail || (detail.bench ?? "") !== (bench ?? "")) return before;
  return detail.values ? detail : null;
}

// src/tiles/words.js
function valueParts({ quantity, value, unit }) {
  if (!known(value)) return { text: DASH, unit: "" };
  if (quantity === "seconds") return secondsParts(value);
  if (quantity === "bytes") return bytesParts(value);
  if (quantity === "fraction") return { text: fixed(value * 100, Math.abs(value) >= 0.9 ? 0 : 1), unit: "%" };
  if (quantity === "ratio") return { text: significant(value), unit: "×" };
  return { text: significant(value), unit: unit ?? "" };
}
function valueText2({ quantity, unit }, value) {
  if (quantity === "seconds") return seconds(value);
  if (quantity === "bytes") return bytes(value);
  if (quantity === "fraction") return percent(value, Math.abs(value) >= 0.9 ? 0 : 1);
  if (quantity === "ratio") return `${significant(value)} ×`;
  return value >= 1e4 ? `${significant(value / 1e3)} k` : `${significant(value)}${quantity === "number" && unit ? ` ${unit}` : ""}`;
}
function deltaText(tile) {
  const { value, baseline } = tile;
  if (!known(value) || !known(baseline)) return null;
  const compare = tile.compare ?? (tile.quantity === "fraction" ? "points" : "percent");
  if (compare === "points") return signed(`${fixed((value - baseline) * 100, 1)} pt`);
  if (compare === "difference") return signed(valueText2(tile, value - baseline));
  return baseline === 0 ? null : signed(percent(value / baseline - 1, 1));
}
function bandText(tile) {
  const { value, low, high } = tile;
  if (!known(value) || !known(low) || !known(high)) return null;
  const half = Math.max(high - value, value - low);
  if (tile.quantity === "fraction") return `±${fixed(half * 100, 1)} pt`;
  if (tile.compare === "difference" || value === 0) return `±${valueText2(tile, half)}`;
  return `±${percent(half / value, half < 0.1 * value ? 1 : 0)}`;
}
function endsText(tile) {
  const [low, high] = [valueText2(tile, tile.low), valueText2(tile, tile.high)];
  const [number, unit] = low.split(/(?=\u00a0\D|\s[^\d\s])/);
  return unit && high.endsWith(unit) ? `${number}–${high}` : `${low}–${high}`;
}
function bandTitle(tile) {
  const from = tile.band_from ? `. ${tile.band_from}` : "";
  return `80 % band ${valueText2(tile, tile.low)} to ${valueText2(tile, tile.high)}${from}`;
}
var outside = ({ measured, low, high, old }) => !old && known(measured) && known(low) && known(high) && (measured < low || measured > high);
function measuredText(tile) {
  if (known(tile.measured))
    return {
      lead: tile.old ? "measured before" : "measured",
      value: `${valueText2(tile, tile.measured)}${outside(tile) ? " ▲" : ""}`
    };
  if (known(tile.now)) return { lead: "now", value: valueText2(tile, tile.now) };
  if (tile.note) return { lead: tile.note, value: "" };
  if (!known(tile.low) || !known(tile.high) || !known(tile.value) || tile.value === 0) return { lead: "", value: "" };
  return { lead: "80 %", value: endsText(tile) };
}
function whyWords(rows, { working, all, open, shown }) {
  const old = rows.some((row) => row.old);
  const status = working ? old ? "grey: of the former plan" : "working it out" : "";
  return {
    toggle: rows.length ? `Why (${rows.length})${open ? ", hide" : ""}` : "Why",
    more: all ? "Fewer" : `${Math.max(0, rows.length - shown)} more`,
    status
  };
}
function bandOf2({ value, low, high, measured, old }) {
  if (!known(value) || !known(low) || !known(high)) return null;
  const dot = known(measured) && !old ? measured : null;
  const reach = Math.max(value - low, high - value, dot == null ? 0 : Math.abs(dot - value) / 1.8, 1e-12) * 2.2;
  const at = (x) => Math.min(1, Math.max(0, 0.5 + (x - value) / (2 * reach)));
  return { low: at(low), high: at(high), value: 0.5, measured: dot == null ? null : at(dot) };
}

// src/tiles/tile.js
function makeTile() {
  return h(
    "div",
    { class: "t-tile", role: "group" },
    h("div", { class: "t-name" }, h("span", {}), h("span", { class: "t-half" })),
    h("div", { class: "t-value" }, triangle(), h("span", { class: "t-number" }), h("small", {})),
    h("div", { class: "t-delta" }, h("b", {}), h("span", {})),
    h("div", { class: "t-measured" }, h("span", { class: "t-band t-opt" }), h("span", {}), h("b", {}))
  );
}
function drawTile(element, tile) {
  const { text, unit } = valueParts(tile);
  const [name, value, delta, measured] = element.children;
  const worse2 = tile.level === "bad" ? ", too much" : tile.level === "warn" ? ", tight" : "";
  set(element, {
    "data-kpi": tile.key,
    class: `t-tile ${tile.level ?? ""}${tile.preview ? " preview" : ""}${tile.waits ? " waits" : ""}`,
    "aria-label": `${tile.name} ${text} ${unit} ${tile.context ?? ""}${worse2}`.replace(/\s+/g, " ").trim()
  });
  set(name.firstChild, { text: tile.name, title: tile.name });
  const half = bandText(tile);
  const said = half ? bandTitle(tile) : null;
  set(name.lastChild, { text: half ?? "", title: said, "aria-label": said, role: half ? "note" : null });
  set(value.querySelector(".t-number"), { text });
  const small = value.querySelector("small");
  if (small.dataset.text !== `${unit}|${tile.context ?? ""}`) {
    small.dataset.text = `${unit}|${tile.context ?? ""}`;
    small.replaceChildren(unit, tile.context ? h("span", { class: "t-opt", text: ` ${tile.context}` }) : "");
  }
  const change = deltaText(tile);
  set(delta.firstChild, { text: change ?? "" });
  set(delta.lastChild, { text: against(tile, change) });
  const line = measuredText(tile);
  set(measured.children[1], { text: typeset(line.lead) });
  set(measured.children[2], { text: line.value });
  const out = outside(tile);
  set(measured, {
    class: `t-measured${out ? " outside" : ""}`,
    "aria-label": out ? `${line.lead} ${line.value}, outside the predicted error band` : null,
    role: out ? "note" : null
  });
  const band = tile.note && tile.measured == null ? null : bandOf2(tile);
  measured.firstChild.replaceChildren(...band ? [drawBand(band)] : []);
}
function against(tile, change) {
  if (tile.waits) return "known on release";
  if (change == null) return "";
  if (tile.preview) return "against now";
  return tile.baseline_name ? `vs ${tile.baseline_name}` : "vs baseline";
}
function drawBand({ low, high, value, measured }) {
  const x = (t) => 2 + t * 60;
  return svg(
    "svg",
    { width: 64, height: 12, "aria-hidden": "true", class: "t-opt" },
    svg("line", { x1: 0, x2: 64, y1: 6, y2: 6, class: "t-axis" }),
    svg("rect", { x: x(low), y: 3, width: Math.max(1, x(high) - x(low)), height: 6, rx: 1, class: "t-range" }),
    svg("line", { x1: x(value), x2: x(value), y1: 1, y2: 11, class: "t-tick" }),
    measured == null ? null : svg("circle", { cx: x(measured), cy: 6, r: 3.2, class: "t-dot" })
  );
}

// src/tiles/verdict.js
function makeVerdict(act) {
  return h(
    "div",
    { class: "t-verdict" },
    h("span", { class: "t-icon", "aria-hidden": "true" }),
    h("div", { class: "t-text", "aria-live": "polite", role: "status" }),
    h(
      "span",
      { class: "t-meter", role: "progressbar", "aria-label": "progress", "aria-valuemin": "0", "aria-valuemax": "100" },
      h("i", {})
    ),
    h("span", { class: "t-note" }),
    h("span", {
      class: "t-actions",
      on: {
        click: (event) => {
          const action = event.target.closest("[data-action]")?.dataset.action;
          if (action) act(action);
        }
      }
    })
  );
}
function drawVerdict(element, verdict) {
  element.hidden = !verdict;
  if (!verdict) return;
  const [icon, text, meter, note, actions] = element.children;
  set(element, { "data-level": verdict.level });
  if (icon.dataset.level !== verdict.level) {
    icon.dataset.level = verdict.level;
    icon.replaceChildren(
      ...verdict.level === "ok" ? [tick()] : verdict.level === "bad" || verdict.level === "warn" ? [triangle("big")] : []
    );
  }
  if (text.dataset.text !== verdict.text) {
    text.dataset.text = verdict.text;
    text.replaceChildren(...bold(typeset(verdict.text)));
  }
  const share = verdict.progress;
  meter.hidden = share == null;
  set(meter, { "aria-valuenow": share == null ? null : Math.round(share * 100) });
  set(meter.firstChild, { style: { width: `${Math.min(100, (share ?? 0) * 100)}%` } });
  set(note, { text: verdict.note ?? "" });
  keyed(
    actions,
    verdict.actions ?? [],
    (a) => a.action,
    () => h("button", { class: "sx-btn" }),
    (button2, a) => set(button2, {
      text: a.label,
      "data-action": a.action,
      title: a.title ?? null,
      class: `sx-btn${a.suggested ? " suggested" : ""}`
    })
  );
}
function holdVerdict(element, held) {
  if (element.dataset.held === "true" === held) return;
  element.style.height = held ? `${element.getBoundingClientRect().height}px` : "";
  element.dataset.held = String(held);
  element.querySelector(".t-text").setAttribute("aria-live", held ? "off" : "polite");
}
var tick = () => svg(
  "svg",
  { width: 20, height: 20, viewBox: "0 0 20 20" },
  svg("circle", { cx: 10, cy: 10, r: 9 }),
  svg("path", { d: "M5.8 10.3l2.9 2.9 5.6-6" })
);

// src/tiles/why.js
var SHOWN = 3;
var Why = class {
  constructor(act) {
    this.open = false;
    this.all = false;
    this.toggle = h("button", { class: "sx-btn t-why-toggle", "data-action": "why", on: { click: () => this.flip("open") } });
    this.more = h("button", { class: "sx-btn t-why-more", "data-action": "why-all", on: { click: () => this.flip("all") } });
    this.status = h("span", { class: "t-why-status", role: "status" });
    this.list = h("ul", {
      class: "t-reasons",
      on: {
        click: (event) => {
          const button2 = event.target.closest("[data-action]");
          if (button2 && button2.getAttribute("aria-disabled") !== "true") act(button2.dataset.action);
        }
      }
    });
    this.element = h(
      "section",
      { class: "t-why", "aria-label": "Why" },
      h("div", { class: "t-why-head" }, h("h2", { class: "t-why-title", text: "Why" }), this.toggle, this.more, this.status),
      this.list
    );
    this.rows = [];
  }
  flip(name) {
    this[name] = !this[name];
    this.draw(this.rows, this.working);
  }
  /** @param {any[]} rows `view.reasons` @param {boolean} working more are being worked out */
  draw(rows, working) {
    [this.rows, this.working] = [rows, working];
    this.element.hidden = !rows.length && !working;
    const words = whyWords(rows, { working, all: this.all, open: this.open, shown: SHOWN });
    set(this.toggle, { text: words.toggle, "aria-expanded": String(this.open) });
    set(this.more, { text: words.more, "aria-expanded": String(this.all) });
    this.more.hidden = rows.length <= SHOWN;
    set(this.status, { text: words.status });
    set(this.element, { "data-open": String(this.open), "data-all": String(this.all) });
    const focused = this.list.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.key : null;
    keyed(this.list, this.all ? rows : rows.slice(0, SHOWN), (row) => row.key, makeRow, drawRow);
    if (focused != null && !this.list.contains(document.activeElement)) this.refocus(focused);
  }
  /** The list was sorted or its row is gone: focus goes to the same reason, else to the first button, else above. */
  refocus(key) {
    const own = this.list.querySelector(`li[data-key="${CSS.escape(key)}"] button`);
    const visible = [own, this.list.querySelector("button:not([hidden])"), this.more, this.toggle];
    visible.find((button2) => button2 && button2.offsetParent)?.focus();
  }
};
function makeRow() {
  return h(
    "li",
    { class: "t-reason" },
    h("span", { class: "t-topic" }),
    h("span", { class: "t-why-text" }),
    h("button", { class: "sx-btn", text: "Apply" })
  );
}
function drawRow(element, row) {
  const [topic, text, button2] = element.children;
  set(element, { class: `t-reason${row.old ? " old" : ""}${row.worth ? " worth" : ""}`, "data-reason": row.key });
  set(topic, { text: row.topic });
  if (text.dataset.text !== row.text) {
    text.dataset.text = row.text;
    text.replaceChildren(...bold(typeset(row.text)));
  }
  button2.hidden = !row.action;
  set(button2, {
    "data-action": row.action ?? null,
    "aria-disabled": row.old ? "true" : null,
    "aria-label": row.action ? `Apply: ${row.label}${row.old ? " (of the former plan)" : ""}` : null,
    title: row.label ?? null,
    class: `sx-btn${row.worth && !row.old ? " suggested" : ""}`
  });
}

// src/tiles/index.js
function render4({ model, el }) {
  const { root, close } = makeRoot(el, model, "tiles", "Predicted figures");
  const act = (action) => sync.send("action", { action });
  const tiles = h("div", { class: "t-tiles" });
  const verdict = makeVerdict(act);
  const why = new Why(act);
  root.append(tiles, verdict, why.element);
  const sync = new Sync(model, ["view"], draw2);
  let preview = null;
  let frame2 = 0;
  function draw2() {
    const view = model.get("view") ?? {};
    root.dataset.state = preview ? "preview" : view.pending || sync.pending ? "computing" : "ready";
    tiles.hidden = !view.tiles?.length;
    tiles.style.setProperty("--count", view.tiles?.length ?? 1);
    const now = view.tiles ?? [];
    keyed(tiles, preview ? now.map((tile) => previewed(tile, preview)) : now, (tile) => tile.key, makeTile, drawTile);
    holdVerdict(verdict, preview != null);
    drawVerdict(verdict, preview ? previewedVerdict(view.verdict, preview) : view.verdict);
    why.draw(view.reasons ?? [], view.reasoning ?? false);
  }
  const listen = (event) => {
    const next = previewOf2(event.detail, model.get("bench"), preview);
    if (next === preview) return;
    preview = next;
    cancelAnimationFrame(frame2);
    frame2 = requestAnimationFrame(draw2);
  };
  document.addEventListener(PREVIEW, listen);
  draw2();
  return () => {
    document.removeEventListener(PREVIEW, listen);
    cancelAnimationFrame(frame2);
    sync.close();
    close();
    root.remove();
  };
}
var tiles_default = { render: render4 };

// src/common/download.js
function download(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link2 = document.createElement("a");
  link2.href = url;
  link2.download = name;
  link2.hidden = true;
  document.body.append(link2);
  link2.click();
  link2.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1e4);
}

// src/timeline/bars.js
var COLUMNS = ["start_s", "end_s", "lane", "kind", "stage", "copy", "microbatch", "count", "peer", "bytes"];
var KINDS = ["F", "B", "I", "W", "U", "recompute", "transfer", "reduce", "gather", "all_to_all", "offload", "reload"];
var KIND_NAMES2 = [
  "F forward",
  "B backward",
  "I input gradient",
  "W weight gradient",
  "U update",
  "recompute",
  "transfer",
  "gradient reduction",
  "gather",
  "all to all",
  "offload",
  "reload"
];
var FIRST_WIRE = 6;
var WIDTH = COLUMNS.length;
var [START, END, LANE2, KIND, STAGE, COPY, MICROBATCH, COUNT, PEER, BYTES] = COLUMNS.map((_, i) => i);
var Bars = class {
  /** @param {Float32Array} numbers @param {number} lanes */
  constructor(numbers, lanes) {
    this.numbers = numbers;
    this.length = Math.floor(numbers.length / WIDTH);
    this.kinds = /* @__PURE__ */ new Set();
    this.end_s = 0;
    const sizes = new Int32Array(2 * lanes);
    for (let i = 0, at = 0; i < this.length; i += 1, at += WIDTH) {
      const lane = numbers[at + LANE2];
      this.kinds.add(numbers[at + KIND]);
      if (numbers[at + END] > this.end_s) this.end_s = numbers[at + END];
      if (lane >= 0 && lane < lanes) sizes[2 * lane + (numbers[at + KIND] >= FIRST_WIRE ? 1 : 0)] += 1;
    }
    this.lanes = Array.from({ length: lanes }, (_, lane) => ({
      compute: new Int32Array(sizes[2 * lane]),
      wire: new Int32Array(sizes[2 * lane + 1]),
      longest: [0, 0]
    }));
    this.index(lanes);
  }
  /** Fill the tracks in the order of start; a bar stands in one track of one lane. */
  index(lanes) {
    const { numbers } = this;
    const filled = new Int32Array(2 * lanes);
    for (let i = 0, at = 0; i < this.length; i += 1, at += WIDTH) {
      const lane = this.lanes[numbers[at + LANE2]];
      if (!lane) continue;
      const wire = numbers[at + KIND] >= FIRST_WIRE ? 1 : 0;
      const place2 = 2 * numbers[at + LANE2] + wire;
      (wire ? lane.wire : lane.compute)[filled[place2]] = i;
      filled[place2] += 1;
      const length = numbers[at + END] - numbers[at + START];
      if (length > lane.longest[wire]) lane.longest[wire] = length;
    }
    for (const lane of this.lanes) {
      for (const track of [lane.compute, lane.wire]) if (!this.sorted(track)) track.sort((a, b) => this.start(a) - this.start(b));
    }
  }
  start(i) {
    return this.numbers[i * WIDTH + START];
  }
  end(i) {
    return this.numbers[i * WIDTH + END];
  }
  kind(i) {
    return this.numbers[i * WIDTH + KIND];
  }
  lane(i) {
    return this.numbers[i * WIDTH + LANE2];
  }
  microbatch(i) {
    return this.numbers[i * WIDTH + MICROBATCH];
  }
  count(i) {
    return this.numbers[i * WIDTH + COUNT];
  }
  isWire(i) {
    return this.kind(i) >= FIRST_WIRE;
  }
  sorted(track) {
    for (let k = 1; k < track.length; k += 1) if (this.start(track[k]) < this.start(track[k - 1])) return false;
    return true;
  }
  track(lane, wire) {
    const found = this.lanes[lane];
    return found ? wire ? found.wire : found.compute : new Int32Array(0);
  }
  /** First place in a track whose start is after `t`. */
  upper(track, t) {
    let [low, high] = [0, track.length];
    while (low < high) {
      const mid = low + high >> 1;
      if (this.start(track[mid]) > t) high = mid;
      else low = mid + 1;
    }
    return low;
  }
  /** Places [from, to) of a track that may be seen between t0 and t1. */
  visible(lane, wire, t0, t1) {
    const track = this.track(lane, wire);
    return [this.upper(track, t0 - this.lanes[lane].longest[wire ? 1 : 0] - 1e-12), this.upper(track, t1)];
  }
  /** The bar of a lane's track under a time, or -1; `reach` seconds of tolerance for thin ones. */
  at(lane, wire, t, reach = 0) {
    const track = this.track(lane, wire);
    const longest = this.lanes[lane]?.longest[wire ? 1 : 0] ?? 0;
    for (let k = this.upper(track, t + reach) - 1; k >= 0; k -= 1) {
      if (this.start(track[k]) < t - reach - longest) break;
      if (this.end(track[k]) + reach >= t) return track[k];
    }
    return -1;
  }
  /** The bar of a track nearest to a time, or -1 in an empty one. */
  near(lane, wire, t) {
    const under = this.at(lane, wire, t);
    const track = this.track(lane, wire);
    if (under >= 0 || !track.length) return under;
    const k = this.upper(track, t);
    const [before, after] = [track[k - 1], track[k]];
    if (before == null) return after;
    if (after == null) return before;
    return t - this.end(before) <= this.start(after) - t ? before : after;
  }
  /** The bar `by` places further in the same track; at the ends the bar itself. */
  beside(i, by2) {
    const track = this.track(this.lane(i), this.isWire(i));
    let k = this.upper(track, this.start(i)) - 1;
    while (k > 0 && track[k] !== i) k -= 1;
    return track[Math.min(track.length - 1, Math.max(0, k + by2))];
  }
  holds(i, microbatch) {
    const first = this.microbatch(i);
    return first >= 0 && microbatch >= first && microbatch < first + Math.max(1, this.count(i));
  }
  /** All bars of one microbatch in the order of time; kept until another is asked for. */
  journey(microbatch) {
    if (this.followed?.microbatch === microbatch) return this.followed.bars;
    const bars = [];
    for (let i = 0; i < this.length; i += 1) if (this.holds(i, microbatch)) bars.push(i);
    bars.sort((a, b) => this.start(a) - this.start(b));
    this.followed = { microbatch, bars };
    return bars;
  }
  /** Largest microbatch number there is, or -1. */
  get lastMicrobatch() {
    if (this.most == null) {
      this.most = -1;
      for (let i = 0; i < this.length; i += 1)
        if (this.microbatch(i) >= 0) this.most = Math.max(this.most, this.microbatch(i) + Math.max(1, this.count(i)) - 1);
    }
    return this.most;
  }
  /** Where a microbatch's time went. @returns {{enters_s: number, leaves_s: number, computing_s: number, transit_s: number, waiting_s: number, hops: number, path: number[]}|null} */
  account(microbatch) {
    const all = this.journey(microbatch);
    const path = all.filter((i) => !this.isWire(i));
    if (!path.length) return null;
    const wires = all.filter((i) => this.isWire(i));
    const enters_s = this.start(path[0]);
    const leaves_s = Math.max(...path.map((i) => this.end(i)));
    const computing_s = path.reduce((sum, i) => sum + this.end(i) - this.start(i), 0);
    const transit_s = wires.reduce((sum, i) => sum + this.end(i) - this.start(i), 0);
    return {
      enters_s,
      leaves_s,
      computing_s,
      transit_s,
      waiting_s: Math.max(0, leaves_s - enters_s - computing_s - transit_s),
      hops: wires.length,
      path
    };
  }
  /** One bar as an object. */
  row(i) {
    const n2 = this.numbers.subarray(i * WIDTH, (i + 1) * WIDTH);
    return {
      start_s: n2[START],
      end_s: n2[END],
      lane: n2[LANE2],
      kind: n2[KIND],
      stage: n2[STAGE],
      copy: n2[COPY],
      microbatch: n2[MICROBATCH],
      count: n2[COUNT],
      peer: n2[PEER],
      bytes: n2[BYTES]
    };
  }
  /** Positions of the first bars in order of start. */
  first(limit) {
    return Array.from({ length: this.length }, (_, i) => i).sort((a, b) => this.start(a) - this.start(b)).slice(0, limit);
  }
};

// src/timeline/words.js
var WHY = {
  start: "starts at once",
  lane: "starts when its lane is free",
  channel: "starts when its link is free",
  data: "starts when its data is there"
};
function microbatches({ microbatch, count: count2 }) {
  if (microbatch < 0) return "";
  return count2 > 1 ? `microbatches ${microbatch} to ${microbatch + count2 - 1}` : `microbatch ${microbatch}`;
}
function barLines(row, lanes, reason) {
  const lane = lanes[row.lane]?.name ?? `lane ${row.lane}`;
  const wire = row.kind >= FIRST_WIRE;
  const to = wire && row.peer >= 0 && row.peer !== row.lane ? ` → ${lanes[row.peer]?.name ?? row.peer}` : "";
  return [
    [KIND_NAMES2[row.kind] ?? String(row.kind), microbatches(row)].filter(Boolean).join(", "),
    `${lane}${to}${row.copy ? `, copy ${row.copy}` : ""}: ${seconds(row.end_s - row.start_s)}${wire && row.bytes > 0 ? `, ${bytes(row.bytes)}` : ""}`,
    `${seconds(row.start_s, row.end_s)} to ${seconds(row.end_s)}`,
    ...reason ? [`on the critical path: ${WHY[reason] ?? reason}`] : []
  ];
}
var LEAST_SHARE = 5e-4;
function pathParts(critical) {
  const all = critical.parts.map((part) => ({ ...part, share: part.seconds / critical.length_s }));
  const shown = all.filter((part) => part.share >= LEAST_SHARE);
  const rest = all.filter((part) => part.share < LEAST_SHARE);
  const told2 = shown.map((part) => ({ name: part.name, share: percent(part.share, part.share < 0.095 || part.share > 0.995 ? 1 : 0) }));
  return rest.length ? [...told2, { name: rest.map((part) => part.name).join(", "), share: `under ${percent(LEAST_SHARE * rest.length, 1)}` }] : told2;
}
function planWords(plans) {
  const each = plans.map(({ view, bars }, p) => {
    const against2 = p && plans[0] ? `, ${differenceWords(view.end_s, plans[0].view.end_s)} against ${plans[0].view.name || "A"}` : "";
    return `${view.name ?? ""} ${seconds(view.end_s)}${against2}, ${plural(view.lanes.length, "lane")}, ${plural(bars.length, "bar")}`;
  });
  return `${each.join("; ")}. `;
}
var KEYS_HELP = "Arrow keys go from bar to bar, Enter follows its microbatch, N and P the next and the one before. W and S zoom, A and D pan, 0 shows the whole step, C the critical path, L the links, M marks the lane. The Table button gives the same as a table.";
var differenceWords = (a, b) => Math.abs(a - b) <= 1e-6 * Math.max(a, b) ? "the same" : signed(seconds(a - b));
function accountFacts(a, b) {
  const both = (read2) => [seconds(read2(a)), b ? differenceWords(read2(b), read2(a)) : ""];
  return [
    ["enters, leaves", `${seconds(a.enters_s, a.leaves_s)}, ${seconds(a.leaves_s)}`, ""],
    ["computing", ...both((x) => x.computing_s)],
    [`in transit, ${plural(a.hops, "hop")}`, ...both((x) => x.transit_s)],
    ["waiting", ...both((x) => x.waiting_s)]
  ];
}
function stagesWords(stages) {
  const turns = stages.filter((stage, k) => k === 0 || stage !== stages[k - 1]);
  const ends = turns.filter((stage, k) => k === 0 || k === turns.length - 1 || stage > turns[k - 1] !== turns[k + 1] > stage);
  const told2 = ends.length > 9 ? [...ends.slice(0, 4), null, ...ends.slice(-3)] : ends;
  return told2.map((stage) => stage == null ? "…" : fixed(stage)).join(" → ");
}

// src/timeline/cards.js
var button = (text, action, title, work) => h("button", { class: "sx-btn tl-small", text, title, "aria-label": title, "data-action": action, on: { click: work } });
function shareBar(element, parts) {
  const total = parts.reduce((sum, part) => sum + part.seconds, 0) || 1;
  keyed(
    element,
    parts,
    (part) => part.name,
    () => h("i", {}),
    (i, part) => set(i, { class: part.cls, style: { width: `${100 * part.seconds / total}%` } })
  );
}
var PATH_CLASS = {
  compute: "tl-compute",
  update: "tl-k4",
  transfer: "tl-k6",
  "gradient reduction": "tl-k7",
  "weight gather": "tl-k8",
  "collectives inside layers": "tl-inner",
  "slowed by shared links": "tl-slow",
  waiting: "tl-bubble"
};
var FACT_CLASS = { computing: "tl-compute", in: "tl-k6", waiting: "tl-bubble" };
var CriticalCard = class {
  constructor() {
    this.element = h("div", { class: "tl-card tl-critical", role: "group", "aria-label": "Critical path" });
  }
  /** @param {any[]} plans with a critical path each, or none */
  show(plans) {
    const shown = plans.filter((plan) => plan.view.critical);
    this.element.hidden = !shown.length;
    keyed(
      this.element,
      shown,
      (plan, p) => String(p),
      () => h("div", { class: "tl-row" }, h("b", {}), h("span", { class: "tl-shares" }), h("span", { class: "sx-legend tl-words" })),
      (row, plan) => {
        const { critical } = plan.view;
        const name = shown.length > 1 ? `Critical path of ${plan.view.name || "the plan"}` : "Critical path";
        set(row.children[0], { text: `${name}, ${seconds(critical.length_s)}` });
        shareBar(row.children[1], critical.parts.map((part) => ({ ...part, cls: PATH_CLASS[part.name] ?? "tl-k4" })));
        keyed(
          row.children[2],
          pathParts(critical),
          (part) => part.name,
          () => h("span", {}, h("i", {}), h("span", {})),
          (span, part) => {
            set(span.children[0], { class: PATH_CLASS[part.name] ?? "tl-none" });
            set(span.children[1], { text: `${part.share} ${part.name}` });
          }
        );
      }
    );
  }
};
var MicrobatchCard = class {
  /** @param {(by: number) => void} step @param {() => void} stop */
  constructor(step2, stop2) {
    this.title = h("b", {});
    this.stages = h("span", { class: "tl-muted" });
    this.facts = h("span", { class: "sx-legend tl-facts" });
    this.bar = h("span", { class: "tl-shares" });
    this.element = h(
      "div",
      { class: "tl-card", role: "group", "aria-label": "Followed microbatch", hidden: true },
      h(
        "div",
        { class: "tl-row" },
        h("span", { class: "sx-seg" }, button("‹", "microbatch-before", "Microbatch before (P)", () => step2(-1)), button("›", "microbatch-next", "Next microbatch (N)", () => step2(1))),
        this.title,
        this.stages,
        this.bar,
        this.facts,
        h("span", { class: "sx-space" }),
        button("Let go", "microbatch-none", "Follow no microbatch (Escape)", stop2)
      )
    );
  }
  /** @param {any[]} plans @param {number|null} microbatch */
  show(plans, microbatch) {
    const [a, b] = plans.map((plan) => microbatch == null ? null : plan.bars.account(microbatch));
    this.element.hidden = !a;
    if (!a) return;
    const { bars } = plans[0];
    const stages = a.path.filter((i) => bars.kind(i) <= 2).map((i) => bars.row(i).stage);
    set(this.title, { text: `Microbatch ${microbatch}` });
    set(this.stages, { text: stages.length > 1 ? `stages ${stagesWords(stages)}` : stages.length ? `stage ${stages[0]}` : "" });
    shareBar(this.bar, [
      { name: "computing", seconds: a.computing_s, cls: "tl-compute" },
      { name: "in transit", seconds: a.transit_s, cls: "tl-k6" },
      { name: "waiting", seconds: a.waiting_s, cls: "tl-bubble" }
    ]);
    this.bar.title = `${percent(a.waiting_s / (a.leaves_s - a.enters_s))} of its time it waits`;
    keyed(
      this.facts,
      accountFacts(a, b),
      ([name]) => name.split(",")[0],
      () => h("span", {}, h("i", {}), h("em", {}), h("b", {}), h("small", {})),
      (span, [name, value, difference]) => {
        set(span.children[0], { class: FACT_CLASS[name.split(/[, ]/)[0]] ?? "tl-none" });
        set(span.children[1], { text: name });
        set(span.children[2], { text: value });
        set(span.children[3], { text: difference && `${plans[1].view.name || "B"} ${difference}` });
      }
    );
  }
};

// src/timeline/layout.js
var LABEL_PX = 108;
var AXIS_PX = 20;
var RIGHT_PX = 4;
var LINK_PX = 10;
var LONGEST_LABEL_PX = 190;
var LETTER_PX2 = 6.4;
var LEAST_LABEL_PX = 12;
function laneSizes(lanes) {
  if (lanes <= 12) return { bar: 24, wire: 4, gap: 3 };
  if (lanes <= 32) return { bar: 14, wire: 3, gap: 2 };
  if (lanes <= 96) return { bar: 8, wire: 2, gap: 1 };
  return { bar: Math.max(2, Math.min(5, Math.floor(800 / lanes) - 1)), wire: 1, gap: 0 };
}
function layout(lanes, links = [], letters = 0) {
  const sizes = laneSizes(Math.max(...lanes, 0));
  const step2 = sizes.bar + sizes.wire + sizes.gap;
  const wanted = Math.max(letters * LETTER_PX2 + 46, ...links.map((name) => name.length * LETTER_PX2 + 12));
  const left = Math.round(Math.min(LONGEST_LABEL_PX, Math.max(LABEL_PX, wanted)));
  let y = AXIS_PX;
  const linkRows = [];
  const plans = lanes.map((count2, plan) => {
    const title = y + 14;
    y += 22;
    const rows = Array.from({ length: count2 }, (_, i) => ({ y: y + i * step2, bar: sizes.bar, wire: sizes.wire }));
    y += count2 * step2 + 6;
    if (plan === 0 && links.length) {
      y += 16;
      for (let k = 0; k < links.length; k += 1) linkRows.push({ y: y + k * (LINK_PX + 4), bar: LINK_PX });
      y += links.length * (LINK_PX + 4) + 6;
    }
    return { title, rows };
  });
  return { plans, links: linkRows, left, every: Math.max(1, Math.ceil(LEAST_LABEL_PX / step2)), height: y };
}
function hit(plans, y) {
  for (const [plan, { rows }] of plans.entries()) {
    for (const [lane, row] of rows.entries()) {
      if (y >= row.y && y < row.y + row.bar) return { plan, lane, wire: false };
      if (y >= row.y + row.bar && y < row.y + row.bar + row.wire + 2) return { plan, lane, wire: true };
    }
  }
  return null;
}
var linkUnder = (links, y) => links.findIndex((row) => y >= row.y - 2 && y < row.y + row.bar + 2);
var Window = class {
  constructor(end2) {
    this.end = end2;
    this.t0 = 0;
    this.t1 = end2;
  }
  get span() {
    return this.t1 - this.t0;
  }
  /** Zoom by a factor, the time at `share` of the width staying where it is. */
  zoom(factor, share = 0.5) {
    const at = this.t0 + share * this.span;
    const span = Math.min(this.end, Math.max(this.end * 1e-5, this.span * factor));
    this.place(at - share * span, span);
  }
  pan(share) {
    this.place(this.t0 + share * this.span, this.span);
  }
  place(t0, span) {
    this.t0 = Math.min(Math.max(0, t0), this.end - span);
    this.t1 = this.t0 + span;
  }
  /** Move, without zooming, until [start, end] is inside; what is longer than the window starts at its left. */
  show(start, end2) {
    if (start >= this.t0 && end2 <= this.t1) return;
    const room = Math.max(0, this.span - (end2 - start));
    this.place(start - Math.min(room / 2, this.span * 0.25), this.span);
  }
  all() {
    this.place(0, this.end);
  }
};

// src/timeline/draw-links.js
var MOST_LINKS = 24;
function drawnLinks(view) {
  const all = (view?.rows ?? []).map((_, i) => i);
  if (all.length <= MOST_LINKS) return all;
  const busiest = [...all].sort((a, b) => view.rows[b].share - view.rows[a].share).slice(0, MOST_LINKS);
  return busiest.sort((a, b) => a - b);
}
function linksTitle(view, drawn) {
  const some = drawn.length < view.rows.length ? `, the ${drawn.length} busiest of ${view.rows.length}` : "";
  const notes = [view.folded, view.text].filter(Boolean).join("; ");
  return `Links${some}: height is the share of capacity in use; number, its mean over the step${notes ? ` (${notes})` : ""}`;
}
function shareIn(view, cells, row, from, to) {
  const per = view.columns / (view.end_s - view.start_s);
  const first = Math.max(0, Math.floor((from - view.start_s) * per));
  const last = Math.min(view.columns - 1, Math.max(first, Math.ceil((to - view.start_s) * per) - 1));
  let most2 = 0;
  for (let k = first; k <= last; k += 1) most2 = Math.max(most2, cells[row * view.columns + k]);
  return most2;
}
function drawLinks2(g, { look: c, links, places, window: win, width, plans }, x) {
  const { view, cells, drawn } = links;
  const pixels = Math.floor(width - places.left - RIGHT_PX);
  const end2 = Math.min(width - RIGHT_PX, x(plans[0].view.end_s));
  g.font = `12px ${c.font}`;
  g.textAlign = "left";
  g.fillStyle = c["ink-2"];
  const title = linksTitle(view, drawn);
  g.fillStyle = c.bg;
  g.fillRect(0, places.links[0].y - 18, Math.min(width, g.measureText(title).width + 6), 15);
  g.fillStyle = c["ink-2"];
  g.fillText(title, 0, places.links[0].y - 7, width);
  drawn.forEach((number, k) => {
    const { y, bar } = places.links[k];
    const row = view.rows[number];
    g.font = `11px ${c.font}`;
    g.textAlign = "left";
    g.fillStyle = c.ink;
    g.fillText(row.name, 0, y + bar - 1, places.left - 50);
    g.textAlign = "right";
    g.fillStyle = c["ink-2"];
    g.fillText(percent(row.share, row.share < 0.0995 ? 1 : 0), places.left - 10, y + bar - 1);
    const from = Math.max(places.left, x(0));
    g.fillStyle = c.wash;
    g.fillRect(from, y, Math.max(0, end2 - from), bar);
    g.fillStyle = c.links[row.kind] ?? c.links.other;
    for (let p = 0; p < pixels; p += 1) {
      const t = win.t0 + p / pixels * win.span;
      const share = shareIn(view, cells, number, t, t + win.span / pixels);
      if (share <= 0) continue;
      const h2 = Math.max(1, share * bar);
      g.fillRect(places.left + p, y + bar - h2, 1, h2);
    }
    g.fillStyle = c["line-strong"];
    g.fillRect(from, y + bar, Math.max(0, end2 - from), 1);
  });
}

// src/timeline/draw-bar.js
var AGAIN = 5;
function drawBar(g, { look: c, again, numberPx, plain }, bars, i, row, x) {
  const [a, b] = [x(bars.start(i)), x(bars.end(i))];
  const kind = bars.kind(i);
  const w = Math.max(1, b - a - (b - a > 3 ? 0.8 : 0));
  g.fillStyle = kind === AGAIN ? again : c.kinds[kind] ?? c.ink;
  g.fillRect(a + (b - a > 3 ? 0.4 : 0), row.y, w, row.bar);
  if (plain || b - a < numberPx || kind > 3 || row.bar < 14 || bars.microbatch(i) < 0) return;
  const number = String(bars.microbatch(i)) + (bars.count(i) > 1 ? `–${bars.microbatch(i) + bars.count(i) - 1}` : "");
  if (bars.count(i) > 1 && number.length * 7 > b - a) return;
  g.font = `11px ${c.font}`;
  g.textAlign = "center";
  g.fillStyle = c.inks[kind];
  g.fillText(number, (a + b) / 2, row.y + row.bar / 2 + 4);
}

// src/timeline/draw-path.js
var spanOf = (bars, i, row) => bars.kind(i) >= FIRST_WIRE ? { y: row.y + row.bar + (row.wire > 1 ? 1 : 0), h: Math.max(2, row.wire) } : { y: row.y, h: row.bar };
function drawCritical(g, scene, plan, place2, x) {
  const { look: c, window: win } = scene;
  const { bars } = plan;
  const chain = plan.view.critical.bars;
  for (const i of chain) {
    if (bars.end(i) < win.t0 || bars.start(i) > win.t1) continue;
    const row = place2.rows[bars.lane(i)];
    if (!bars.isWire(i)) drawBar(g, scene, bars, i, row, x);
    else {
      const { y, h: h2 } = spanOf(bars, i, row);
      g.fillStyle = c.kinds[bars.kind(i)];
      g.fillRect(x(bars.start(i)), y, Math.max(1.5, x(bars.end(i)) - x(bars.start(i))), h2);
    }
  }
  const runs = runsOf(bars, chain, 1.5 * win.span / (scene.width - scene.places.left));
  const joints = new Path2D();
  runs.slice(1).forEach((run, k) => {
    const before = runs[k];
    if (before.lane === run.lane || run.end < win.t0 || before.start > win.t1) return;
    const [a, b] = [place2.rows[before.lane], place2.rows[run.lane]];
    const down = run.lane > before.lane;
    joints.moveTo(x(before.end), down ? a.y + a.bar : a.y);
    joints.lineTo(x(run.start), down ? b.y : b.y + b.bar);
  });
  const boxes = new Path2D();
  for (const run of runs) {
    if (run.end < win.t0 || run.start > win.t1) continue;
    const row = place2.rows[run.lane];
    boxes.rect(x(run.start), row.y - 0.5, Math.max(1, x(run.end) - x(run.start)), row.bar + 1);
  }
  for (const [colour, width] of [
    [c.bg, 4],
    [c["warn-line"], 2]
  ]) {
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.stroke(joints);
    g.stroke(boxes);
  }
}
function runsOf(bars, chain, reach = 0) {
  const runs = [];
  for (const i of chain) {
    if (bars.isWire(i)) continue;
    const last = runs[runs.length - 1];
    const gap = last ? bars.start(i) - last.end : Infinity;
    if (last && last.lane === bars.lane(i) && gap <= Math.max(reach, 1e-6 * bars.end_s)) last.end = bars.end(i);
    else runs.push({ lane: bars.lane(i), start: bars.start(i), end: bars.end(i) });
  }
  return runs;
}
function drawJourney(g, { look: c, microbatch }, bars, place2, x) {
  const path = bars.journey(microbatch).filter((i) => !bars.isWire(i));
  const boxes = new Path2D();
  const joints = new Path2D();
  for (const i of path) {
    const row = place2.rows[bars.lane(i)];
    boxes.rect(x(bars.start(i)) + 0.5, row.y + 0.5, Math.max(2, x(bars.end(i)) - x(bars.start(i)) - 1), row.bar - 1);
  }
  const through = path.filter((i) => bars.kind(i) <= 2);
  for (let k = 1; k < through.length; k += 1) {
    const [p, q] = [through[k - 1], through[k]];
    if (bars.lane(p) === bars.lane(q)) continue;
    const [a, b] = [place2.rows[bars.lane(p)], place2.rows[bars.lane(q)]];
    const down = bars.lane(q) > bars.lane(p);
    joints.moveTo(x(bars.end(p)), a.y + (down ? a.bar - 2 : 2));
    joints.lineTo(x(bars.start(q)), b.y + (down ? 2 : b.bar - 2));
  }
  const thin = (place2.rows[0]?.bar ?? 0) < 12;
  for (const [colour, extra] of thin ? [[c["ink-strong"], -1]] : [[c.bg, 2], [c["ink-strong"], 0]]) {
    g.strokeStyle = colour;
    g.lineWidth = 2 + extra;
    g.stroke(boxes);
    g.lineWidth = Math.max(1, 1.5 + extra);
    g.stroke(joints);
  }
}
function drawFocus(g, { look: c, focus }, bars, place2, x) {
  const { y, h: h2 } = spanOf(bars, focus.i, place2.rows[bars.lane(focus.i)]);
  const [a, b] = [x(bars.start(focus.i)), x(bars.end(focus.i))];
  for (const [colour, width] of [
    [c.bg, 5],
    [c.brand, 3]
  ]) {
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.strokeRect(a - 1, y - 1, Math.max(3, b - a) + 2, h2 + 2);
  }
}

// src/timeline/strips.js
var SLICES = 4096;
var GROUPS = [[0], [5], [1, 2], [3], [4]];
var GROUP_OF = new Int8Array(FIRST_WIRE);
GROUPS.forEach((kinds, group) => kinds.forEach((kind) => GROUP_OF[kind] = group));
var Strips = class {
  /** @param {any} bars a `Bars` of bars.js */
  constructor(bars) {
    this.bars = bars;
    this.kept = /* @__PURE__ */ new Map();
  }
  /**
   * Share of every pixel taken by each group of kinds (`wire`: by each kind of wire) between t0 and t1, the mean over
   * `reach` pixels to either side: where a bar is about a pixel wide, single pixels would only flicker.
   * @returns {Map<number, Float32Array>}
   */
  shares(lane, t0, t1, pixels, wire = false, reach = 0) {
    const pixel = (t1 - t0) / pixels;
    if (!(pixel > 0)) return /* @__PURE__ */ new Map();
    const sums = pixel * SLICES >= this.bars.end_s;
    const result = sums ? this.fromSums(lane, t0, pixel, pixels, wire) : this.exact(lane, t0, pixel, pixels, wire);
    if (reach > 0) for (const [group, row] of result) result.set(group, smoothed(row, reach));
    return result;
  }
  group(i, wire) {
    const kind = this.bars.kind(i);
    return wire ? kind : GROUP_OF[kind];
  }
  /** Added up from the bars themselves. */
  exact(lane, t0, pixel, pixels, wire) {
    const result = /* @__PURE__ */ new Map();
    const track = this.bars.track(lane, wire);
    const [from, to] = this.bars.visible(lane, wire, t0, t0 + pixel * pixels);
    for (let k = from; k < to; k += 1) {
      const i = track[k];
      const a = Math.max(0, (this.bars.start(i) - t0) / pixel);
      const b = Math.min(pixels, (this.bars.end(i) - t0) / pixel);
      if (b <= a) continue;
      const group = this.group(i, wire);
      let row = result.get(group);
      if (!row) result.set(group, row = new Float32Array(pixels));
      for (let p = Math.floor(a); p < b; p += 1) row[p] += Math.min(p + 1, b) - Math.max(p, a);
    }
    return result;
  }
  /** Differences of the kept sums. */
  fromSums(lane, t0, pixel, pixels, wire) {
    const slice = this.bars.end_s / SLICES;
    const result = /* @__PURE__ */ new Map();
    for (const [group, sums] of this.sums(lane, wire)) {
      const row = new Float32Array(pixels);
      let before = valueAt(sums, t0 / slice);
      for (let p = 0; p < pixels; p += 1) {
        const after = valueAt(sums, (t0 + (p + 1) * pixel) / slice);
        row[p] = Math.min(1, (after - before) * slice / pixel);
        before = after;
      }
      result.set(group, row);
    }
    return result;
  }
  /** Group -> slices of time taken before each slice. @returns {Map<number, Float32Array>} */
  sums(lane, wire) {
    const key = 2 * lane + (wire ? 1 : 0);
    let found = this.kept.get(key);
    if (found) return found;
    found = this.exact(lane, 0, this.bars.end_s / SLICES, SLICES, wire);
    for (const [group, row] of found) {
      const sums = new Float32Array(SLICES + 1);
      let total = 0;
      for (let s = 0; s < SLICES; s += 1) {
        total += row[s];
        sums[s + 1] = total;
      }
      found.set(group, sums);
    }
    this.kept.set(key, found);
    return found;
  }
};
function smoothed(row, reach) {
  const sums = new Float64Array(row.length + 1);
  for (let p = 0; p < row.length; p += 1) sums[p + 1] = sums[p] + row[p];
  return row.map((_, p) => {
    const [from, to] = [Math.max(0, p - reach), Math.min(row.length, p + reach + 1)];
    return (sums[to] - sums[from]) / (to - from);
  });
}
var reachFor = (bars, pixels) => Math.min(12, Math.max(1, Math.round(4 * pixels / bars)));
function valueAt(sums, x) {
  if (x <= 0) return 0;
  if (x >= SLICES) return sums[SLICES];
  const at = Math.floor(x);
  return sums[at] + (sums[at + 1] - sums[at]) * (x - at);
}

// src/timeline/draw.js
var NAMES = [
  "F",
  "B",
  "W",
  "U",
  "ink",
  "ink-2",
  "ink-strong",
  "line",
  "line-strong",
  "hatch",
  "bg",
  "wash",
  "brand",
  "brand-ink",
  "k-nvlink",
  "k-pcie",
  "k-network",
  "k-internet",
  "on-fw",
  "m-grad",
  "m-buf-line",
  "warn-line"
];
var LEAST_PX = 3;
var FAINT = 0.3;
function look2(root) {
  const t = tokens(root, NAMES);
  const network = t["k-network"];
  return {
    ...t,
    font: family(root),
    kinds: [
      t.F,
      t.B,
      t.B,
      t.W,
      t.U,
      mixed(t.F, t["on-fw"] === "#fff" ? "#ffffff" : "#212121", 0.4),
      t["k-pcie"],
      t["k-nvlink"],
      network,
      network,
      t["m-grad"],
      t["m-grad"]
    ],
    inks: [t["on-fw"], "#14060a", "#14060a", t["on-fw"]],
    links: { nvlink: t["k-nvlink"], nvswitch: t["k-nvlink"], pcie: t["k-pcie"], internet: t["k-internet"], other: network }
  };
}
function draw(g, scene) {
  const { width, window: win, look: c, places } = scene;
  const { left } = places;
  const x = (t) => left + (t - win.t0) / win.span * (width - left - RIGHT_PX);
  drawAxis(g, scene, x);
  const pattern = hatch(g, c.hatch);
  scene.again = hatch(g, c.kinds[5], 4, c.kinds[0]);
  scene.plans.forEach((plan, p) => drawPlan(g, scene, plan, places.plans[p], x, pattern, p));
  if (places.links.length) drawLinks2(g, scene, x);
}
function drawAxis(g, { width, window: win, look: c, places }, x) {
  g.font = `11px ${c.font}`;
  g.textBaseline = "alphabetic";
  for (const t of ticks(win.t1, Math.max(2, (width - places.left) / 110), win.t0)) {
    const at = x(t);
    g.fillStyle = c.line;
    g.fillRect(Math.round(at), 16, 1, places.height - 18);
    g.fillStyle = c["ink-2"];
    g.textAlign = at < places.left + 12 ? "left" : at > width - 20 ? "right" : "center";
    const { text, unit } = secondsParts(t, win.t1);
    g.fillText(`${win.span < win.t1 / 50 ? text : text.replace(/\.0+$/, "")} ${unit}`, at, 11);
  }
  if (win.span > win.end * 0.999) return;
  const [from, whole] = [places.left, width - places.left - RIGHT_PX];
  g.fillStyle = c.line;
  g.fillRect(from, AXIS_PX - 3, whole, 3);
  g.fillStyle = c.brand;
  g.fillRect(from + win.t0 / win.end * whole, AXIS_PX - 3, Math.max(3, win.span / win.end * whole), 3);
}
function drawPlan(g, scene, plan, place2, x, pattern, p) {
  const { look: c, width, places } = scene;
  drawTitle(g, scene, plan, place2, p);
  place2.rows.forEach((row, lane) => drawLabel(g, scene, plan.view.lanes[lane], row, lane));
  g.save();
  g.beginPath();
  g.rect(places.left, place2.rows[0]?.y - 4, width - places.left, 1e5);
  g.clip();
  const end2 = Math.min(width - RIGHT_PX, x(plan.view.end_s));
  const from = Math.max(places.left, x(0));
  g.fillStyle = pattern;
  for (const row of place2.rows) g.fillRect(from, row.y, Math.max(0, end2 - from), row.bar);
  g.font = `11px ${c.font}`;
  scene.numberPx = g.measureText("0".repeat(String(Math.max(0, plan.bars.lastMicrobatch)).length)).width;
  const path = scene.critical ? plan.view.critical : null;
  scene.plain = Boolean(path);
  if (path) g.globalAlpha = FAINT;
  drawStrips(g, scene, plan, place2);
  place2.rows.forEach((row, lane) => drawBars(g, scene, plan.bars, lane, row, x));
  g.globalAlpha = 1;
  scene.plain = false;
  if (path) drawCritical(g, scene, plan, place2, x);
  if (scene.microbatch != null) drawJourney(g, scene, plan.bars, place2, x);
  if (scene.focus?.plan === p) drawFocus(g, scene, plan.bars, place2, x);
  drawEnd2(g, scene, plan, place2, x, p);
  g.restore();
}
function drawTitle(g, { look: c, places }, plan, place2, p) {
  g.textAlign = "left";
  g.font = `600 12px ${c.font}`;
  g.fillStyle = c["ink-strong"];
  const title = `${plan.view.name || "AB"[p]}  ${seconds(plan.view.end_s)}`;
  g.fillText(title, 0, place2.title);
  const after = Math.max(places.left + 6, g.measureText(title).width + 20);
  g.font = `12px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText([plan.view.text, plan.view.omitted && `not shown: ${plan.view.omitted}`].filter(Boolean).join("; "), after, place2.title);
}
function drawEnd2(g, { look: c, width, places, plans }, plan, place2, x, p) {
  const last = place2.rows[place2.rows.length - 1];
  const edge = x(plan.view.end_s);
  if (!last || edge < places.left || edge > width) return;
  g.fillStyle = c["ink-strong"];
  g.fillRect(Math.min(width - 2, edge), place2.rows[0].y - 3, 1.5, last.y + last.bar + last.wire + 3 - place2.rows[0].y);
  if (!p) return;
  const text = differenceWords(plan.view.end_s, plans[0].view.end_s);
  g.font = `600 12px ${c.font}`;
  const w = g.measureText(text).width;
  const inside3 = edge + 12 + w > width;
  const at = inside3 ? edge - 10 - w : edge + 8;
  g.textAlign = "left";
  g.fillStyle = c.bg;
  if (inside3) g.fillRect(at - 4, last.y - 1, w + 8, 16);
  g.fillStyle = c["ink-strong"];
  g.fillText(text, at, last.y + 11);
}
function drawLabel(g, { look: c, marked, places }, lane, row, number) {
  if (!lane) return;
  const on = marked.has(lane.id);
  if (number % places.every && !(on && places.every < 3)) return;
  const size = row.bar >= 20 ? 12 : 11;
  g.font = `${on ? "600 " : ""}${size}px ${c.font}`;
  g.textAlign = "left";
  g.fillStyle = on ? c["brand-ink"] : c.ink;
  const middle = row.y + row.bar / 2 + 4;
  g.fillText(on ? `${lane.name} ◂` : lane.name, 0, middle, places.left - 46);
  if (lane.busy_fraction == null) return;
  g.textAlign = "right";
  g.font = `${size}px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText(percent(lane.busy_fraction), places.left - 10, middle);
}
var isDense = (from, to, pixels) => to - from > 8 && pixels / (to - from) < LEAST_PX;
function drawBars(g, scene, bars, lane, row, x) {
  const { window: win, look: c, width, places } = scene;
  const pixels = width - places.left - RIGHT_PX;
  const [from, to] = bars.visible(lane, false, win.t0, win.t1);
  const { compute, wire } = bars.lanes[lane];
  if (!isDense(from, to, pixels)) for (let k = from; k < to; k += 1) drawBar(g, scene, bars, compute[k], row, x);
  const [first, last] = bars.visible(lane, true, win.t0, win.t1);
  if (isDense(first, last, pixels)) return;
  let drawn = -1;
  for (let k = first; k < last; k += 1) {
    const i = wire[k];
    const [a, b] = [x(bars.start(i)), x(bars.end(i))];
    if (b < drawn + 0.5) continue;
    g.fillStyle = c.kinds[bars.kind(i)] ?? c.ink;
    g.fillRect(a, row.y + row.bar + (row.wire > 1 ? 1 : 0), Math.max(1, b - a), Math.max(1, row.wire - 1));
    drawn = b;
  }
}
function drawStrips(g, scene, plan, place2) {
  const { window: win, look: c, width, places } = scene;
  const pixels = Math.floor(width - places.left - RIGHT_PX);
  const { bars, strips } = plan;
  const top = place2.rows[0]?.y ?? 0;
  let image = null;
  let height = 0;
  place2.rows.forEach((row, lane) => {
    for (const wire of [false, true]) {
      const [from, to] = bars.visible(lane, wire, win.t0, win.t1);
      if (!isDense(from, to, pixels)) continue;
      if (!image) {
        const last = place2.rows[place2.rows.length - 1];
        height = Math.ceil(last.y + last.bar + last.wire - top);
        image = new ImageData(pixels, height);
      }
      const data = new Uint32Array(image.data.buffer);
      const shares = strips.shares(lane, win.t0, win.t1, pixels, wire, wire ? 0 : reachFor(to - from, pixels));
      if (wire) fillWires(data, shares, c, pixels, row.y + row.bar + (row.wire > 1 ? 1 : 0) - top, Math.max(1, row.wire - 1));
      else fillStrip(data, shares, c, pixels, row.y - top, row.bar);
    }
  });
  if (!image) return;
  const tile = scene.scratch.canvas ??= document.createElement("canvas");
  tile.width = pixels;
  tile.height = height;
  tile.getContext("2d").putImageData(image, 0, 0);
  g.imageSmoothingEnabled = false;
  g.drawImage(tile, places.left, top, pixels, height);
}
function fillStrip(data, shares, c, pixels, top, height) {
  const groups = [...shares.keys()].sort((a, b) => a - b);
  const rows = groups.map((group) => shares.get(group));
  const colours = groups.map((group) => packed(c.kinds[GROUPS[group][0]]));
  for (let p = 0; p < pixels; p += 1) {
    let filled = 0;
    let from = 0;
    for (let k = 0; k < rows.length; k += 1) {
      if (!rows[k][p]) continue;
      filled = Math.min(height, filled + rows[k][p] * height);
      const to = Math.round(filled);
      for (; from < to; from += 1) data[(top + height - 1 - from) * pixels + p] = colours[k];
    }
  }
}
function fillWires(data, shares, c, pixels, top, height) {
  for (let p = 0; p < pixels; p += 1) {
    let [most2, kind, sum] = [0, -1, 0];
    for (const [k, row] of shares) {
      sum += row[p];
      if (row[p] > most2) [most2, kind] = [row[p], k];
    }
    if (kind < 0) continue;
    const alpha = Math.round(255 * Math.min(1, 0.25 + 0.75 * sum));
    const colour = (packed(c.kinds[kind]) & 16777215 | alpha << 24) >>> 0;
    for (let y = 0; y < height; y += 1) data[(top + y) * pixels + p] = colour;
  }
}

// src/timeline/head.js
function buildHead(view) {
  const button2 = (text, action, title, work, pressed) => h("button", {
    class: "sx-btn",
    text,
    title,
    "aria-label": text.length < 3 ? title : null,
    "aria-pressed": pressed ?? null,
    "data-action": action,
    on: { click: work }
  });
  const move = (work) => () => {
    work(view.window);
    view.paint();
  };
  const head = heading("Timeline", "");
  const legend = h("span", { class: "sx-legend" });
  const criticalButton = button2("Critical path", "critical", "Outline the chain that decides the end (C)", () => view.toggle("critical"), "false");
  const linksButton = button2("Links", "links", "Show how busy each link is (L)", () => view.toggle("links_shown"), "false");
  head.append(
    h("span", { class: "sx-space" }),
    legend,
    h("span", { class: "sx-seg" }, criticalButton, linksButton),
    h(
      "span",
      { class: "sx-seg", role: "group", "aria-label": "Stretch of time" },
      button2("‹", "pan-left", "Earlier (A)", move((window2) => window2.pan(-0.3))),
      button2("−", "zoom-out", "Zoom out (S)", move((window2) => window2.zoom(2))),
      button2("Whole", "zoom-all", "Whole step (0)", move((window2) => window2.all())),
      button2("+", "zoom-in", "Zoom in (W)", move((window2) => window2.zoom(0.5))),
      button2("›", "pan-right", "Later (D)", move((window2) => window2.pan(0.3)))
    ),
    h(
      "span",
      { class: "sx-acts" },
      button2("Chrome trace", "trace", "Download the step as a trace for Perfetto or chrome://tracing", () => view.sync.send("trace")),
      view.table.button
    )
  );
  return { head, legend, criticalButton, linksButton };
}
function drawLegend(legend, plans) {
  const kinds = [...new Set(plans.flatMap((plan) => [...plan.bars.kinds]))].sort((a, b) => a - b);
  keyed(
    legend,
    [...kinds, "bubble"],
    String,
    (kind) => h(
      "span",
      {},
      h("i", { class: kind === "bubble" ? "tl-bubble" : `tl-k${kind}${kind >= FIRST_WIRE ? " line" : ""}` }),
      kind === "bubble" ? "bubble" : KIND_NAMES2[kind]
    ),
    () => {
    }
  );
}

// src/timeline/keys.js
function firstBar(plans, window2) {
  for (const [plan, { bars }] of plans.entries()) {
    for (let lane = 0; lane < bars.lanes.length; lane += 1) {
      for (const wire of [false, true]) {
        const i = bars.near(lane, wire, window2.t0 + window2.span * 1e-3);
        if (i >= 0) return { plan, i };
      }
    }
  }
  return null;
}
function moveFocus(plans, window2, focus, key) {
  if (!focus || !plans[focus.plan] || focus.i >= plans[focus.plan].bars.length) return firstBar(plans, window2);
  const { bars } = plans[focus.plan];
  const { i } = focus;
  const along = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[key];
  if (along) return { plan: focus.plan, i: bars.beside(i, Math.max(-1e9, Math.min(1e9, along))) };
  return stepLane(plans, focus, key === "ArrowDown" ? 1 : -1, (bars.start(i) + bars.end(i)) / 2);
}
function stepLane(plans, focus, by2, t) {
  const tracks = plans.flatMap(({ bars: bars2 }, plan) => bars2.lanes.flatMap((_, lane) => [false, true].map((wire) => ({ plan, lane, wire }))));
  const { bars } = plans[focus.plan];
  let at = tracks.findIndex((x) => x.plan === focus.plan && x.lane === bars.lane(focus.i) && x.wire === bars.isWire(focus.i));
  for (at += by2; at >= 0 && at < tracks.length; at += by2) {
    const { plan, lane, wire } = tracks[at];
    const i = plans[plan].bars.near(lane, wire, t);
    if (i >= 0) return { plan, i };
  }
  return focus;
}
function keyTable(view) {
  const focus = (key) => () => view.setFocus(moveFocus(view.plans, view.window, view.focus, key));
  const table2 = {
    w: () => view.window.zoom(0.7, view.focusShare()),
    s: () => view.window.zoom(1 / 0.7, view.focusShare()),
    a: () => view.window.pan(-0.15),
    d: () => view.window.pan(0.15),
    0: () => view.window.all(),
    n: () => view.followNext(1),
    p: () => view.followNext(-1),
    c: () => view.toggle("critical"),
    l: () => view.toggle("links_shown"),
    m: () => view.focus && view.markLane(view.plans[view.focus.plan].view.lanes[view.laneOf(view.focus)]?.id),
    Enter: () => view.followFocus(),
    " ": () => view.followFocus(),
    Escape: () => view.focus ? view.setFocus(null) : view.follow(null)
  };
  for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]) table2[key] = focus(key);
  return { ...table2, "+": table2.w, "=": table2.w, "-": table2.s };
}

// src/timeline/pointer.js
var Pointer = class {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    this.pan = null;
    const { canvas } = view;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", () => this.pan = null);
    canvas.addEventListener("pointerleave", () => view.tip.hide());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => view.key(event));
    canvas.addEventListener("blur", () => view.focus && view.setFocus(null));
  }
  down(event) {
    if (event.button) return;
    this.pan = { x: event.clientX, t0: this.view.window.t0, moved: false };
    this.view.canvas.setPointerCapture(event.pointerId);
  }
  move(event) {
    const { view, pan } = this;
    if (!pan || !pan.moved && Math.abs(event.clientX - pan.x) <= 4) return view.hover(event);
    pan.moved = true;
    view.window.place(pan.t0 - (event.clientX - pan.x) * view.timeAt(event).perPx, view.window.span);
    view.tip.hide();
    return view.paint();
  }
  up(event) {
    const { view, pan } = this;
    this.pan = null;
    if (!pan || pan.moved) return;
    const lane = view.nameUnder(event);
    if (lane != null) return view.markLane(lane);
    const found = view.under(event);
    const microbatch = found ? view.plans[found.plan].bars.microbatch(found.i) : -1;
    view.focus = found;
    return view.follow(microbatch < 0 || microbatch === view.microbatch ? null : microbatch);
  }
  wheel(event) {
    const { view } = this;
    const mine = event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === view.canvas;
    if (!mine || !view.plans.length) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.window.pan((event.deltaX || event.deltaY) / 800);
    else view.window.zoom(Math.exp(event.deltaY / 400), Math.min(1, Math.max(0, view.timeAt(event).share)));
    view.tip.hide();
    view.paint();
  }
};

// src/timeline/table.js
var TABLE_ROWS2 = 400;
function barsTable(plans, microbatch) {
  const several = plans.length > 1;
  const path = plans.some((plan) => plan.view.critical);
  const rows = plans.flatMap(
    (plan, p) => chosen(plan.bars, microbatch).map((i) => {
      const row = plan.bars.row(i);
      return [
        plan.view.lanes[row.lane]?.name ?? row.lane,
        ...several ? [plan.view.name || "AB"[p]] : [],
        KINDS[row.kind] ?? row.kind,
        row.microbatch < 0 ? "" : row.microbatch,
        seconds(row.start_s, row.end_s),
        seconds(row.end_s),
        seconds(row.end_s - row.start_s),
        row.bytes > 0 ? bytes(row.bytes) : "",
        ...path ? [plan.reasons.has(i) ? "yes" : ""] : []
      ];
    })
  );
  const columns = [
    "lane",
    ...several ? ["plan"] : [],
    "kind",
    "microbatch",
    "start",
    "end",
    "duration",
    "bytes",
    ...path ? ["critical path"] : []
  ];
  const caption = microbatch == null ? "Bars of the timeline" : `Bars of microbatch ${microbatch}`;
  const total = plans.reduce((sum, plan) => sum + (microbatch == null ? plan.bars.length : plan.bars.journey(microbatch).length), 0);
  return table(caption, columns, rows, total);
}
var chosen = (bars, microbatch) => microbatch == null ? bars.first(TABLE_ROWS2) : bars.journey(microbatch).slice(0, TABLE_ROWS2);

// src/timeline/index.js
var SHOWN2 = ["microbatch", "selected_lanes", "critical", "links_shown", "links", "link_cells"];
var TimelineView = class {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "timeline", "Timeline");
    this.root = root;
    this.focus = null;
    this.scratch = {};
    this.build();
    this.sync = new Sync(model, ["view", "bars", "view_b", "bars_b"], () => this.load());
    this.keys = keyTable(this);
    this.pointer = new Pointer(this);
    const repaint = () => this.arrange();
    for (const name of SHOWN2) model.on(`change:${name}`, repaint);
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
      for (const name of SHOWN2) model.off(`change:${name}`, repaint);
      model.off("msg:custom", file);
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
    this.tableBox = h("div", {});
    this.drawing = h("div", { class: "tl-drawing" }, this.canvas);
    this.table = tableToggle(this.drawing, this.tableBox, () => barsTable(this.plans, this.microbatch));
    const { head, legend, criticalButton, linksButton } = buildHead(this);
    Object.assign(this, { head, legend, criticalButton, linksButton });
    this.criticalCard = new CriticalCard();
    this.card = new MicrobatchCard(
      (by2) => this.followNext(by2),
      () => this.follow(null)
    );
    this.empty = h("div", { class: "sx-empty", text: "No timeline yet: it shows every action of a step once a model and a cluster are chosen." });
    this.live = h("div", { class: "sx-live", "aria-live": "polite" });
    this.root.append(this.head, this.empty, this.drawing, this.tableBox, this.criticalCard.element, this.card.element, this.live);
    this.tip = new Tip(this.root);
  }
  get microbatch() {
    return this.model.get("microbatch") ?? null;
  }
  load() {
    const began = performance.now();
    this.plans = [
      ["view", "bars"],
      ["view_b", "bars_b"]
    ].flatMap(([v, b]) => {
      const view = this.model.get(v) ?? {};
      if (!view.lanes?.length) return [];
      const bars = new Bars(float32(this.model.get(b)), view.lanes.length);
      return [{ view, bars, strips: new Strips(bars), reasons: reasonsOf(view.critical) }];
    });
    const end2 = Math.max(0, ...this.plans.map((plan) => plan.view.end_s)) * 1.005;
    if (!this.window || Math.abs(this.window.end - end2) > end2 * 1e-9) this.window = new Window(end2 || 1);
    if (this.focus && !(this.focus.i < (this.plans[this.focus.plan]?.bars.length ?? 0))) this.focus = null;
    const ready = this.plans.length > 0;
    this.empty.hidden = ready;
    for (const part of [this.drawing, this.head]) part.style.display = ready ? "" : "none";
    drawLegend(this.legend, this.plans);
    set(this.canvas, { "aria-label": planWords(this.plans) + KEYS_HELP });
    this.table.refresh();
    this.arrange();
    this.loadMs = performance.now() - began;
  }
  /** Places of everything; again when links are shown or hidden, or the second plan comes or goes. */
  arrange() {
    const view = this.model.get("links") ?? {};
    const can = Boolean(view.rows?.length);
    const shown = can && Boolean(this.model.get("links_shown"));
    const drawn = shown ? drawnLinks(view) : [];
    this.links = shown ? { view, drawn, cells: float32(this.model.get("link_cells")) } : null;
    this.linksButton.hidden = !can;
    this.criticalButton.hidden = !this.plans.some((plan) => plan.view.critical);
    set(this.linksButton, { "aria-pressed": String(shown) });
    set(this.criticalButton, { "aria-pressed": String(this.critical) });
    const letters = Math.max(0, ...this.plans.flatMap((plan) => plan.view.lanes.map((lane) => lane.name.length)));
    const names = drawn.map((i) => `${view.rows[i].name}      `);
    this.places = layout(this.plans.map((plan) => plan.view.lanes.length), names, letters);
    this.criticalCard.show(this.critical ? this.plans : []);
    this.card.show(this.plans, this.microbatch);
    this.paint();
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
    this.look ??= look2(this.root);
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
      scratch: this.scratch
    });
    const spent = performance.now() - began;
    this.root.dataset.drawMs = spent.toFixed(1);
    this.root.dataset.firstMs ??= (this.loadMs + spent).toFixed(1);
    this.root.dataset.window = `${this.window.t0.toFixed(6)} ${this.window.t1.toFixed(6)}`;
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
    const place2 = share < 0 ? null : hit(this.places.plans, y);
    if (!place2) return null;
    const i = this.plans[place2.plan].bars.at(place2.lane, place2.wire, t, place2.wire ? perPx * 2 : 0);
    return i < 0 ? null : { plan: place2.plan, i };
  }
  /** Id of the lane whose name is under the pointer, or null. */
  nameUnder(event) {
    const { share, y } = this.timeAt(event);
    const place2 = share < 0 ? hit(this.places.plans, y) : null;
    return place2 ? this.plans[place2.plan].view.lanes[place2.lane]?.id ?? null : null;
  }
  hover(event) {
    const found = this.under(event);
    this.canvas.style.cursor = found || this.nameUnder(event) != null ? "pointer" : "";
    if (found) return this.tip.show(this.lines(found).join("\n"), event);
    const { share, t, y, perPx } = this.timeAt(event);
    const k = this.links && share >= 0 ? linkUnder(this.places.links, y) : -1;
    if (k < 0) return this.tip.hide();
    const { view, cells, drawn } = this.links;
    const row = view.rows[drawn[k]];
    return this.tip.show(
      `${row.name}${row.count > 1 ? `, the busiest of ${row.count}` : ""}
${percent(shareIn(view, cells, drawn[k], t, t + perPx), 1)} of ${bytes(row.bytes_per_s)}/s at ${seconds(t, view.end_s)}
${bytes(row.step_bytes)} a step, ${percent(row.share, 1)} on average`,
      event
    );
  }
  lines({ plan, i }) {
    const { view, bars, reasons } = this.plans[plan];
    const name = this.plans.length > 1 ? [view.name || "AB"[plan]] : [];
    return [...name, ...barLines(bars.row(i), view.lanes, this.critical ? reasons.get(i) : void 0)];
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
    }
    this.paint();
  }
  /** Where a bar ends on the screen, as an event would say it. */
  placeOf({ plan, i }) {
    const box = this.canvas.getBoundingClientRect();
    const { bars } = this.plans[plan];
    const room = box.width - this.places.left - RIGHT_PX;
    const x = this.places.left + (Math.min(bars.end(i), this.window.t1) - this.window.t0) / this.window.span * room;
    const row = this.places.plans[plan].rows[bars.lane(i)];
    return { clientX: box.left + x, clientY: box.top + row.y + row.bar };
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
  followNext(by2) {
    const last = this.plans[0]?.bars.lastMicrobatch ?? -1;
    const next = this.microbatch == null ? by2 > 0 ? 0 : last : this.microbatch + by2;
    if (last >= 0) this.follow(Math.min(last, Math.max(0, next)));
  }
  follow(microbatch) {
    this.sync.set("microbatch", microbatch);
    this.card.show(this.plans, microbatch);
    const account = microbatch == null ? null : this.plans[0]?.bars.account(microbatch);
    this.say(
      account ? `Microbatch ${microbatch}: computing ${seconds(account.computing_s)}, in transit ${seconds(account.transit_s)}, waiting ${seconds(account.waiting_s)}` : "No microbatch followed"
    );
    this.table.refresh();
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const work = this.keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!work || !this.plans.length) return;
    event.preventDefault();
    work();
    this.paint();
  }
};
function reasonsOf(critical) {
  return new Map((critical?.bars ?? []).map((i, k) => [i, critical.reasons?.[k] ?? "data"]));
}
function render5({ model, el }) {
  const view = new TimelineView(model, el);
  return () => view.close();
}
var timeline_default = { render: render5 };

// src/report/model.js
function decode(value) {
  if (!value || typeof value !== "object" || typeof value.$bytes !== "string") return value;
  const bytes2 = Uint8Array.from(atob(value.$bytes), (c) => c.charCodeAt(0));
  return new DataView(bytes2.buffer);
}
var Model = class {
  /** @param {Record<string, any>} state @param {(model: Model, name: string, before: any) => void} [answer] */
  constructor(state, answer = () => {
  }) {
    this.state = Object.fromEntries(Object.entries(state).map(([name, value]) => [name, decode(value)]));
    this.listeners = /* @__PURE__ */ new Map();
    this.answer = answer;
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    const before = this.state[name];
    if (before === value) return;
    this.state[name] = value;
    this.tell(name);
    this.answer(this, name, before);
  }
  save_changes() {
  }
  send() {
  }
  on(event, listener) {
    if (!this.listeners.has(event)) this.listeners.set(event, /* @__PURE__ */ new Set());
    this.listeners.get(event).add(listener);
  }
  off(event, listener) {
    this.listeners.get(event)?.delete(listener);
  }
  /** @param {...string} names */
  tell(...names) {
    for (const name of names) for (const listener of this.listeners.get(`change:${name}`) ?? []) listener();
    for (const listener of this.listeners.get("change") ?? []) listener();
  }
};
function link(models, name) {
  for (const model of models)
    model.on(`change:${name}`, () => {
      for (const other of models) if (other !== model && !same(other.get(name), model.get(name))) other.set(name, model.get(name));
    });
}
var same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
var SHUT = "The report holds the graph as it was opened when it was made. The workbench opens more.";
var graphAnswers = (answers) => (model, name, before) => {
  if (name !== "opened") return;
  const view = answers[openKey(model.get("opened"))];
  if (view) model.state.view = view;
  else Object.assign(model.state, { opened: before, notice: { level: "info", text: SHUT } });
  model.tell("view", "opened", "notice");
};
var openKey = (opened) => JSON.stringify([...opened ?? []].sort());

// src/report/index.js
var KINDS2 = { board: board_default, graph: graph_default, heatmap: heatmap_default, tiles: tiles_default, timeline: timeline_default };
function followTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = (paper = false) => {
    document.body.dataset.jpThemeLight = String(paper || !dark.matches);
  };
  apply();
  dark.addEventListener("change", () => apply());
  addEventListener("beforeprint", () => {
    apply(true);
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
  addEventListener("afterprint", () => apply());
}
async function read() {
  const place2 = document.querySelector("#report-data");
  if (place2.dataset.packed !== "gzip") return JSON.parse(place2.textContent);
  const packed2 = Uint8Array.from(atob(place2.textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed2]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
async function show() {
  followTheme();
  const data = await read();
  const models = {};
  for (const { name, kind, state, answers } of data.parts) {
    const host = document.querySelector(`[data-part="${name}"]`);
    if (!host) continue;
    models[name] = new Model(state, answers ? graphAnswers(answers) : void 0);
    host.replaceChildren();
    KINDS2[kind].render({ model: models[name], el: host });
  }
  link([models.board, models.graph].filter(Boolean), "selection");
  document.body.dataset.ready = "true";
}
show().catch((error) => {
  const place2 = document.querySelector("#report-failed");
  place2.hidden = false;
  place2.append(` (${error.message})`);
});
