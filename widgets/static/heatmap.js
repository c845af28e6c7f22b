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

// src/common/dom.js
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

// src/common/table.js
function tableToggle(drawing, place, makeTable) {
  const button = h("button", { class: "sx-btn", text: "Table", "data-action": "table", "aria-pressed": "false" });
  const show = (open) => {
    button.setAttribute("aria-pressed", String(open));
    drawing.hidden = open;
    place.replaceChildren(...open ? [makeTable()] : []);
  };
  button.addEventListener("click", () => show(button.getAttribute("aria-pressed") !== "true"));
  return { button, refresh: () => show(button.getAttribute("aria-pressed") === "true") };
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
function memoryGrid(view, cells) {
  const rows = view.rows.length;
  const columns = Math.min(view.columns, Math.floor(cells.length / Math.max(1, rows)));
  const top = view.capacity_bytes || Math.max(0, ...cells);
  const value = (r, c) => cells[r * columns + c] >= 0 ? cells[r * columns + c] : null;
  return { rows, columns, value, low: 0, high: top, position: (x) => top > 0 ? x / top : 0, log: false };
}
function trafficGrid(view) {
  const n = view.rows.length;
  const cells = /* @__PURE__ */ new Map();
  for (const [source, target, bytes2] of view.pairs)
    if (bytes2 > 0) cells.set(source * n + target, (cells.get(source * n + target) ?? 0) + bytes2);
  const all = [...cells.values()];
  const high = Math.max(0, ...all);
  const low = all.length ? Math.min(...all) : 0;
  const from = low < high ? low : high / 10;
  return {
    rows: n,
    columns: n,
    value: (r, c) => cells.get(r * n + c) ?? null,
    low: from,
    high,
    position: (x) => 0.04 + 0.96 * logPosition(x, from, high),
    log: true
  };
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
var rowUnder = (tops, size, y) => tops.findIndex((top) => y >= top && y < top + size);

// src/heatmap/index.js
var TOKENS = ["ink", "ink-2", "ink-strong", "brand-ink", "wash", "bg", "line"];
var HeatmapView = class {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "heatmap", "Heatmap");
    this.root = root;
    this.closeRoot = close;
    this.head = heading("", "");
    this.canvas = h("canvas", { class: "hm-canvas", role: "img" });
    this.tableBox = h("div", {});
    this.legend = h(
      "div",
      { class: "hm-legend" },
      h("span", {}),
      h("i", { class: "sx-ramp" }),
      h("span", {}),
      h("span", { class: "sx-sub" })
    );
    this.empty = h("div", { class: "sx-empty", text: "Nothing to show yet." });
    this.toggle = tableToggle(this.canvas, this.tableBox, () => this.makeTable());
    this.head.append(h("span", { class: "sx-space" }), this.toggle.button);
    root.append(this.head, this.empty, this.canvas, this.tableBox, this.legend);
    this.tip = new Tip(root);
    this.sync = new Sync(model, ["view", "cells"], () => this.load());
    this.repaint = () => this.paint();
    model.on("change:selected_lanes", this.repaint);
    root.addEventListener("sx-theme", () => {
      this.look = null;
      this.paint();
    });
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(root);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.tip.hide());
    this.load();
  }
  get view() {
    return this.model.get("view") ?? {};
  }
  load() {
    const { view } = this;
    const ready = Boolean(view.rows?.length);
    for (const part of [this.head, this.canvas, this.legend]) part.style.display = ready ? "" : "none";
    this.empty.hidden = ready;
    if (!ready) return;
    this.grid = view.kind === "traffic" ? trafficGrid(view) : memoryGrid(view, float32(this.model.get("cells")));
    const title = view.title ?? (view.kind === "traffic" ? "Traffic, device to device" : "Memory, device by time");
    const [head, rest] = title.split(/,(.*)/s);
    set(this.head.children[0], { text: head });
    set(this.head.children[1], { text: rest?.trim() ?? "" });
    const [low, , high, note] = this.legend.children;
    set(low, { text: this.grid.log ? bytes(this.grid.low) : "0" });
    set(high, { text: bytes(this.grid.high) });
    set(note, { text: this.grid.log ? "log scale" : "capacity" });
    set(this.canvas, { "aria-label": `${title}. ${this.summary()} The Table button gives the same as a table.` });
    this.toggle.refresh();
    this.paint();
  }
  summary() {
    const { view } = this;
    if (view.kind === "traffic") return `${view.pairs.length} pairs, at most ${bytes(this.grid.high)}.`;
    return view.peak ? `Peak ${bytes(view.peak.bytes)} on ${view.rows[view.peak.row]?.name} at ${seconds(view.peak.time_s)}.` : "";
  }
  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const width = this.canvas.clientWidth;
      if (!this.grid || !width) return;
      this.look ??= { ...tokens(this.root, TOKENS), font: family(this.root) };
      this.measure(width);
      const g = prepare(this.canvas, width, this.place.height + (this.view.kind === "traffic" ? 4 : 20));
      if (this.view.kind === "traffic") this.drawTraffic(g);
      else this.drawMemory(g, width);
      this.drawNames(g);
    });
  }
  measure(width) {
    const rows = this.view.rows;
    const traffic = this.view.kind === "traffic";
    const longest = Math.max(...rows.map((row) => row.name.length));
    const left = Math.min(110, longest * 7 + 12);
    const size = traffic ? Math.max(6, Math.min(36, Math.floor((width - left) / rows.length) - 2)) : rows.length <= 16 ? 30 : rows.length <= 32 ? 16 : 11;
    this.place = { left, size, right: width - 4, ...rowPlaces(rows, size, traffic ? 22 : 18) };
  }
  drawNames(g) {
    const marked = new Set(this.model.get("selected_lanes") ?? []);
    const { tops, size } = this.place;
    if (size < 11) return;
    this.view.rows.forEach((row, r) => {
      const on = row.lane != null && marked.has(row.lane);
      g.font = `${on ? "600 " : ""}${size < 16 ? 11 : 12}px ${this.look.font}`;
      g.textAlign = "left";
      g.fillStyle = on ? this.look["brand-ink"] : this.look.ink;
      g.fillText(row.name, 0, tops[r] + size / 2 + 4);
    });
  }
  drawMemory(g, width) {
    const { grid, view, look: c } = this;
    const { left, right, tops, size, height } = this.place;
    const strip = document.createElement("canvas");
    strip.width = Math.max(1, grid.columns);
    strip.height = 1;
    const pen = strip.getContext("2d");
    g.imageSmoothingEnabled = false;
    for (let r = 0; r < grid.rows; r += 1) {
      const image = pen.createImageData(strip.width, 1);
      for (let k = 0; k < grid.columns; k += 1) {
        const value = grid.value(r, k);
        if (value != null) image.data.set([...cividis(grid.position(value)), 255], k * 4);
      }
      pen.clearRect(0, 0, strip.width, 1);
      pen.putImageData(image, 0, 0);
      g.fillStyle = c.wash;
      g.fillRect(left, tops[r], right - left, size);
      g.drawImage(strip, left, tops[r], right - left, size);
    }
    const x = (t) => left + (t - view.start_s) / (view.end_s - view.start_s) * (right - left);
    g.font = `11px ${c.font}`;
    g.fillStyle = c["ink-2"];
    for (const t of ticks(view.end_s, Math.max(2, (right - left) / 110), view.start_s)) {
      const { text, unit } = secondsParts(t, view.end_s);
      g.textAlign = x(t) < left + 10 ? "left" : x(t) > right - 14 ? "right" : "center";
      g.fillText(`${text.replace(/\.0+$/, "")} ${unit}`, x(t), height + 14);
    }
    if (view.peak) this.drawPeak(g, x(view.peak.time_s), tops[view.peak.row], width);
  }
  drawPeak(g, x, y, width) {
    const { look: c, view } = this;
    g.fillStyle = c["ink-strong"];
    const first = view.peak.row === 0;
    g.beginPath();
    if (first) {
      g.moveTo(x, y - 1);
      g.lineTo(x + 5, y - 9);
      g.lineTo(x - 5, y - 9);
    } else {
      g.moveTo(x, y + 9);
      g.lineTo(x + 5, y + 1);
      g.lineTo(x - 5, y + 1);
    }
    g.fill();
    const over = view.peak.bytes > view.capacity_bytes;
    const text = `${over ? "▲ " : ""}peak ${bytes(view.peak.bytes)}${first ? "" : ` on ${view.rows[view.peak.row].name}`} at ${seconds(view.peak.time_s)}${over ? `, ${bytes(view.peak.bytes - view.capacity_bytes)} over` : ""}`;
    g.font = `11px ${c.font}`;
    const w = g.measureText(text).width;
    g.textAlign = "left";
    g.fillText(text, first && x + 9 + w > width ? x - 9 - w : Math.min(x + 9, width - w - 2), first ? y - 4 : 11);
  }
  drawTraffic(g) {
    const { grid, view, look: c } = this;
    const { left, tops, size } = this.place;
    const columns = tops.map((top) => left + top - tops[0]);
    g.font = `11px ${c.font}`;
    const like = grid.high;
    for (let r = 0; r < grid.rows; r += 1) {
      for (let k = 0; k < grid.columns; k += 1) {
        const value = grid.value(r, k);
        const colour = value == null ? null : cividis(grid.position(value));
        g.fillStyle = colour ? rgb(colour) : c.wash;
        g.fillRect(columns[k], tops[r], size - (size > 12 ? 1 : 0), size - (size > 12 ? 1 : 0));
        if (!colour || size < 28) continue;
        g.fillStyle = inkOn(colour);
        g.textAlign = "center";
        g.fillText(bytesParts(value, like).text, columns[k] + size / 2, tops[r] + size / 2 + 4, size - 4);
      }
    }
    if (size < 14) return;
    g.fillStyle = c["ink-2"];
    g.textAlign = "center";
    view.rows.forEach((row, k) => g.fillText(row.name.replace(/^\D+/, "") || row.name, columns[k] + size / 2, tops[0] - 7, size));
  }
  cellUnder(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const { left, right, tops, size } = this.place;
    const r = rowUnder(tops, size, y);
    if (r < 0 || x < left) return null;
    const k = this.view.kind === "traffic" ? rowUnder(
      tops.map((top) => left + top - tops[0]),
      size,
      x
    ) : Math.floor((x - left) / (right - left) * this.grid.columns);
    return k < 0 || k >= this.grid.columns ? null : { r, k };
  }
  hover(event) {
    const cell = this.place ? this.cellUnder(event) : null;
    if (!cell) return this.tip.hide();
    const { view, grid } = this;
    const value = grid.value(cell.r, cell.k);
    if (view.kind === "traffic")
      return this.tip.show(
        `${view.rows[cell.r].name} → ${view.rows[cell.k].name}
${value == null ? "nothing" : `${bytes(value)} a step`}`,
        event
      );
    const t = view.start_s + (cell.k + 0.5) / grid.columns * (view.end_s - view.start_s);
    return this.tip.show(
      `${view.rows[cell.r].name} at ${seconds(t, view.end_s)}
${value == null ? "unknown" : `${bytes(value)}, ${percent(value / view.capacity_bytes)} of capacity`}`,
      event
    );
  }
  makeTable() {
    const { view, grid } = this;
    if (view.kind === "traffic")
      return table(
        "Bytes sent in one step",
        ["from", "to", "bytes"],
        view.pairs.slice(0, 400).map(([a, b, n]) => [view.rows[a].name, view.rows[b].name, bytes(n)]),
        view.pairs.length
      );
    const at = Array.from(
      { length: Math.min(8, grid.columns) },
      (_, i) => Math.floor((i + 0.5) / Math.min(8, grid.columns) * grid.columns)
    );
    const time = (k) => seconds(view.start_s + (k + 0.5) / grid.columns * (view.end_s - view.start_s), view.end_s);
    const most = (r) => {
      let top = null;
      for (let k = 0; k < grid.columns; k += 1) {
        const v = grid.value(r, k);
        if (v != null && (top == null || v > top)) top = v;
      }
      return top;
    };
    return table(
      "Memory in use",
      ["device", "peak", ...at.map(time)],
      view.rows.map((row, r) => [row.name, bytes(most(r)), ...at.map((k) => bytes(grid.value(r, k)))])
    );
  }
  close() {
    this.sync.close();
    this.model.off("change:selected_lanes", this.repaint);
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.closeRoot();
    this.root.remove();
  }
};
function render({ model, el }) {
  const view = new HeatmapView(model, el);
  return () => view.close();
}
var heatmap_default = { render };
export {
  heatmap_default as default
};
