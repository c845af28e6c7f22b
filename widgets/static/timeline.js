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
function hatch(g, colour, size = 6) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const t = tile.getContext("2d");
  t.strokeStyle = colour;
  t.lineWidth = 1;
  t.beginPath();
  for (const shift of [-size, 0, size]) {
    t.moveTo(shift, size);
    t.lineTo(shift + size, 0);
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
var signed = (text) => text.startsWith(MINUS) || /^[0.\s\u202f\u00a0]*(\D*)$/.test(text) ? text : `+${text}`;
var plural = (n, noun) => `${fixed(n)} ${noun}${n === 1 ? "" : "s"}`;
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

// src/timeline/bars.js
var COLUMNS = ["start_s", "end_s", "lane", "kind", "stage", "copy", "microbatch", "count", "peer", "bytes"];
var KINDS = ["F", "B", "I", "W", "U", "recompute", "transfer", "reduce", "gather", "all_to_all", "offload", "reload"];
var KIND_NAMES = [
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
var [START, END, LANE, KIND, STAGE, COPY, MICROBATCH, COUNT, PEER, BYTES] = COLUMNS.map((_, i) => i);
var Bars = class {
  /** @param {Float32Array} numbers @param {number} lanes */
  constructor(numbers, lanes) {
    this.numbers = numbers;
    this.length = Math.floor(numbers.length / WIDTH);
    this.lanes = Array.from({ length: lanes }, () => ({ compute: [], wire: [], longest: [0, 0] }));
    this.kinds = /* @__PURE__ */ new Set();
    for (let i = 0; i < this.length; i += 1) {
      const lane = this.lanes[numbers[i * WIDTH + LANE]];
      if (!lane) continue;
      this.kinds.add(numbers[i * WIDTH + KIND]);
      const wire = numbers[i * WIDTH + KIND] >= FIRST_WIRE;
      (wire ? lane.wire : lane.compute).push(i);
      lane.longest[wire ? 1 : 0] = Math.max(lane.longest[wire ? 1 : 0], this.end(i) - this.start(i));
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
    return this.numbers[i * WIDTH + LANE];
  }
  microbatch(i) {
    return this.numbers[i * WIDTH + MICROBATCH];
  }
  count(i) {
    return this.numbers[i * WIDTH + COUNT];
  }
  sorted(track) {
    for (let k = 1; k < track.length; k += 1) if (this.start(track[k]) < this.start(track[k - 1])) return false;
    return true;
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
    const track = wire ? this.lanes[lane].wire : this.lanes[lane].compute;
    return [this.upper(track, t0 - this.lanes[lane].longest[wire ? 1 : 0] - 1e-12), this.upper(track, t1)];
  }
  /** The bar of a lane's track under a time, or -1; `reach` seconds of tolerance for thin ones. */
  at(lane, wire, t, reach = 0) {
    const { [wire ? "wire" : "compute"]: track, longest } = this.lanes[lane] ?? { compute: [], wire: [], longest: [0, 0] };
    for (let k = this.upper(track, t + reach) - 1; k >= 0; k -= 1) {
      if (this.start(track[k]) < t - reach - longest[wire ? 1 : 0]) break;
      if (this.end(track[k]) + reach >= t) return track[k];
    }
    return -1;
  }
  holds(i, microbatch) {
    const first = this.microbatch(i);
    return first >= 0 && microbatch >= first && microbatch < first + Math.max(1, this.count(i));
  }
  /** Compute bars of one microbatch in the order of time. */
  journey(microbatch) {
    const result = [];
    for (let i = 0; i < this.length; i += 1) if (this.holds(i, microbatch)) result.push(i);
    return result.sort((a, b) => this.start(a) - this.start(b));
  }
  /** Where a microbatch's time went. @returns {{enters_s: number, leaves_s: number, computing_s: number, transit_s: number, waiting_s: number, hops: number, path: number[]}|null} */
  account(microbatch) {
    const all = this.journey(microbatch);
    const path = all.filter((i) => this.kind(i) < FIRST_WIRE);
    if (!path.length) return null;
    const wires = all.filter((i) => this.kind(i) >= FIRST_WIRE);
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
  /** Share of every pixel taken by each kind, between t0 and t1. @returns {Map<number, Float32Array>} */
  shares(lane, t0, t1, pixels) {
    const result = /* @__PURE__ */ new Map();
    const per = (t1 - t0) / pixels;
    const track = this.lanes[lane].compute;
    const [from, to] = this.visible(lane, false, t0, t1);
    for (let k = from; k < to; k += 1) {
      const i = track[k];
      const [a, b] = [Math.max(0, (this.start(i) - t0) / per), Math.min(pixels, (this.end(i) - t0) / per)];
      if (b <= a) continue;
      let row = result.get(this.kind(i));
      if (!row) result.set(this.kind(i), row = new Float32Array(pixels));
      for (let p = Math.floor(a); p < b; p += 1) row[p] += Math.min(p + 1, b) - Math.max(p, a);
    }
    return result;
  }
  /** One bar as an object. */
  row(i) {
    const n = this.numbers.subarray(i * WIDTH, (i + 1) * WIDTH);
    return {
      start_s: n[START],
      end_s: n[END],
      lane: n[LANE],
      kind: n[KIND],
      stage: n[STAGE],
      copy: n[COPY],
      microbatch: n[MICROBATCH],
      count: n[COUNT],
      peer: n[PEER],
      bytes: n[BYTES]
    };
  }
  /** Positions of the first bars in order of start. */
  first(limit) {
    return Array.from({ length: this.length }, (_, i) => i).sort((a, b) => this.start(a) - this.start(b)).slice(0, limit);
  }
};

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

// src/timeline/layout.js
var LABEL_PX = 108;
var AXIS_PX = 20;
function laneSizes(lanes) {
  if (lanes <= 12) return { bar: 24, wire: 4, gap: 3 };
  if (lanes <= 32) return { bar: 14, wire: 3, gap: 2 };
  return { bar: 8, wire: 2, gap: 1 };
}
function layout(lanes) {
  const sizes = laneSizes(Math.max(...lanes, 0));
  let y = AXIS_PX;
  const plans = lanes.map((count) => {
    const title = y + 14;
    y += 22;
    const rows = Array.from({ length: count }, (_, i) => ({
      y: y + i * (sizes.bar + sizes.wire + sizes.gap),
      bar: sizes.bar,
      wire: sizes.wire
    }));
    y += count * (sizes.bar + sizes.wire + sizes.gap) + 6;
    return { title, rows };
  });
  return { plans, height: y };
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
var Window = class {
  constructor(end) {
    this.end = end;
    this.t0 = 0;
    this.t1 = end;
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
  all() {
    this.place(0, this.end);
  }
};

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
  "hatch",
  "bg",
  "brand-ink",
  "k-nvlink",
  "k-pcie",
  "k-network",
  "on-fw",
  "m-grad",
  "m-buf-line"
];
var LEAST_PX = 3;
function look(root) {
  const t = tokens(root, NAMES);
  return {
    ...t,
    font: family(root),
    kinds: [
      t.F,
      t.B,
      t.B,
      t.W,
      t["m-grad"],
      t["m-buf-line"],
      t["k-pcie"],
      t["k-nvlink"],
      t["k-network"],
      t["k-network"],
      t["m-grad"],
      t["m-grad"]
    ],
    inks: [t["on-fw"], "#14060a", "#14060a", t["on-fw"]]
  };
}
function draw(g, scene) {
  const { width, window: win, look: c } = scene;
  const x = (t) => LABEL_PX + (t - win.t0) / win.span * (width - LABEL_PX - 4);
  drawAxis(g, scene, x);
  g.save();
  const pattern = hatch(g, c.hatch);
  scene.plans.forEach((plan, p) => drawPlan(g, scene, plan, scene.places.plans[p], x, pattern, p));
  g.restore();
}
function drawAxis(g, { width, window: win, look: c, places }, x) {
  g.font = `11px ${c.font}`;
  g.textBaseline = "alphabetic";
  for (const t of ticks(win.t1, Math.max(2, (width - LABEL_PX) / 110), win.t0)) {
    const at = x(t);
    g.fillStyle = c.line;
    g.fillRect(Math.round(at), 16, 1, places.height - 18);
    g.fillStyle = c["ink-2"];
    g.textAlign = at < LABEL_PX + 12 ? "left" : at > width - 20 ? "right" : "center";
    const { text, unit } = secondsParts(t, win.t1);
    g.fillText(`${win.span < win.t1 / 50 ? text : text.replace(/\.0+$/, "")} ${unit}`, at, 11);
  }
}
function drawPlan(g, scene, plan, place, x, pattern, p) {
  const { look: c, width } = scene;
  const end = Math.min(width - 4, x(plan.view.end_s));
  g.textAlign = "left";
  g.font = `600 12px ${c.font}`;
  g.fillStyle = c["ink-strong"];
  const title = `${plan.view.name ?? "AB"[p]}  ${seconds(plan.view.end_s)}`;
  g.fillText(title, 0, place.title);
  g.font = `12px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText(
    [plan.view.text, plan.view.omitted].filter(Boolean).join("; "),
    Math.max(LABEL_PX, g.measureText(title).width + 20),
    place.title
  );
  place.rows.forEach((row, lane) => drawLabel(g, scene, plan.view.lanes[lane], row));
  g.save();
  g.beginPath();
  g.rect(LABEL_PX, place.rows[0]?.y ?? 0, width - LABEL_PX, 1e5);
  g.clip();
  place.rows.forEach((row, lane) => {
    const from = Math.max(LABEL_PX, x(0));
    g.fillStyle = pattern;
    g.fillRect(from, row.y, Math.max(0, end - from), row.bar);
    drawLane(g, scene, plan.bars, lane, row, x);
  });
  if (scene.microbatch != null) drawJourney(g, scene, plan.bars, place, x);
  const last = place.rows[place.rows.length - 1];
  const edge = x(plan.view.end_s);
  if (last && edge >= LABEL_PX && edge <= width) {
    g.fillStyle = c["ink-strong"];
    g.fillRect(Math.min(width - 2, edge), place.rows[0].y - 3, 1.5, last.y + last.bar + last.wire + 3 - place.rows[0].y);
    if (p) {
      g.font = `600 12px ${c.font}`;
      g.textAlign = edge > width - 80 ? "right" : "left";
      g.fillText(
        signed(seconds(plan.view.end_s - scene.plans[0].view.end_s)),
        edge > width - 80 ? edge - 8 : edge + 8,
        last.y + 12
      );
    }
  }
  g.restore();
}
function drawLabel(g, { look: c, marked }, lane, row) {
  if (!lane || row.bar < 11) return;
  const on = marked.has(lane.id);
  g.font = `${on ? "600 " : ""}${row.bar >= 20 ? 12 : 11}px ${c.font}`;
  g.textAlign = "left";
  g.fillStyle = on ? c["brand-ink"] : c.ink;
  const middle = row.y + row.bar / 2 + 4;
  g.fillText(lane.name, 0, middle, LABEL_PX - 46);
  if (lane.busy_fraction == null) return;
  g.textAlign = "right";
  g.font = `${row.bar >= 20 ? 12 : 11}px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText(percent(lane.busy_fraction), LABEL_PX - 10, middle);
}
function drawLane(g, scene, bars, lane, row, x) {
  const { window: win, look: c, width } = scene;
  const { compute, wire } = bars.lanes[lane];
  const [from, to] = bars.visible(lane, false, win.t0, win.t1);
  const pixels = Math.floor(width - LABEL_PX - 4);
  const dense = to - from > 8 && pixels / (to - from) < LEAST_PX;
  if (dense) drawShares(g, bars.shares(lane, win.t0, win.t1, pixels), row, c, pixels);
  else for (let k = from; k < to; k += 1) drawBar(g, scene, bars, compute[k], row, x);
  const [first, last] = bars.visible(lane, true, win.t0, win.t1);
  let drawn = -1;
  for (let k = first; k < last; k += 1) {
    const i = wire[k];
    const [a, b] = [x(bars.start(i)), x(bars.end(i))];
    if (b < drawn + 0.5) continue;
    g.fillStyle = c.kinds[bars.kind(i)] ?? c.ink;
    g.fillRect(a, row.y + row.bar + 1, Math.max(1, b - a), row.wire - 1);
    drawn = b;
  }
}
function drawBar(g, { look: c }, bars, i, row, x) {
  const [a, b] = [x(bars.start(i)), x(bars.end(i))];
  const kind = bars.kind(i);
  const w = Math.max(1, b - a - (b - a > 3 ? 0.8 : 0));
  g.fillStyle = c.kinds[kind] ?? c.ink;
  g.fillRect(a + (b - a > 3 ? 0.4 : 0), row.y, w, row.bar);
  if (b - a <= 15 || kind > 3 || row.bar < 14 || bars.microbatch(i) < 0) return;
  const number = String(bars.microbatch(i)) + (bars.count(i) > 1 ? `–${bars.microbatch(i) + bars.count(i) - 1}` : "");
  if (number.length * 7 > b - a) return;
  g.font = `11px ${c.font}`;
  g.textAlign = "center";
  g.fillStyle = c.inks[kind];
  g.fillText(number, (a + b) / 2, row.y + row.bar / 2 + 4);
}
function drawShares(g, shares, row, c, pixels) {
  const image = new ImageData(pixels, row.bar);
  const data = new Uint32Array(image.data.buffer);
  const filled = new Float32Array(pixels);
  for (const kind of [...shares.keys()].sort((a, b) => a - b)) {
    const share = shares.get(kind);
    const colour = packed(c.kinds[kind]);
    for (let p = 0; p < pixels; p += 1) {
      if (!share[p]) continue;
      const from = Math.round(filled[p]);
      filled[p] = Math.min(row.bar, filled[p] + share[p] * row.bar);
      for (let y = from; y < Math.round(filled[p]); y += 1) data[(row.bar - 1 - y) * pixels + p] = colour;
    }
  }
  const tile = new OffscreenCanvas(pixels, row.bar);
  tile.getContext("2d").putImageData(image, 0, 0);
  g.imageSmoothingEnabled = false;
  g.drawImage(tile, LABEL_PX, row.y, pixels, row.bar);
}
function packed(hex) {
  const n = Number.parseInt((hex ?? "#888888").slice(1), 16);
  return (255 << 24 | (n & 255) << 16 | n & 65280 | n >> 16) >>> 0;
}
function drawJourney(g, { look: c, microbatch }, bars, place, x) {
  const path = bars.journey(microbatch).filter((i) => bars.kind(i) < FIRST_WIRE);
  g.strokeStyle = c["ink-strong"];
  g.lineWidth = 2;
  for (const i of path) {
    const row = place.rows[bars.lane(i)];
    g.strokeRect(x(bars.start(i)) + 0.5, row.y + 1, Math.max(2, x(bars.end(i)) - x(bars.start(i)) - 1), row.bar - 2);
  }
  g.lineWidth = 1.5;
  g.beginPath();
  const through = path.filter((i) => bars.kind(i) <= 2);
  for (let k = 1; k < through.length; k += 1) {
    const [p, q] = [through[k - 1], through[k]];
    if (bars.lane(p) === bars.lane(q)) continue;
    const [a, b] = [place.rows[bars.lane(p)], place.rows[bars.lane(q)]];
    const down = bars.lane(q) > bars.lane(p);
    g.moveTo(x(bars.end(p)), a.y + (down ? a.bar - 2 : 2));
    g.lineTo(x(bars.start(q)), b.y + (down ? 2 : b.bar - 2));
  }
  g.stroke();
}

// src/timeline/index.js
var TABLE_ROWS = 400;
var TimelineView = class {
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
    const button = (text, action, title, work) => h("button", { class: "sx-btn", text, title, "aria-label": title, "data-action": action, on: { click: work } });
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
        })
      ),
      this.toggle.button
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
      ["view_b", "bars_b"]
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
      (kind) => h(
        "span",
        {},
        h("i", { class: kind === "bubble" ? "tl-bubble" : `tl-k${kind}${kind >= FIRST_WIRE ? " line" : ""}` }),
        kind === "bubble" ? "bubble" : KIND_NAMES[kind]
      ),
      () => {
      }
    );
    set(this.canvas, {
      "aria-label": this.plans.map(
        (plan) => `${plan.view.name ?? ""} ${seconds(plan.view.end_s)}, ${plural(plan.view.lanes.length, "lane")}, ${plural(plan.bars.length, "bar")}`
      ).join("; ") + ". W and S zoom, A and D pan, left and right follow a microbatch. The Table button gives the same as a table."
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
      places: this.places
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
        stages.length > 1 ? `${Math.min(...stages)} → ${Math.max(...stages)} → ${Math.min(...stages)}` : String(stages[0])
      ],
      ["enters, leaves", `${seconds(account.enters_s)}, ${seconds(account.leaves_s)}`],
      ["computing", seconds(account.computing_s)],
      ["in transit", `${seconds(account.transit_s)}, ${plural(account.hops, "transfer")}`],
      ["waiting", seconds(account.waiting_s)]
    ];
    keyed(
      this.card,
      facts,
      ([name]) => name,
      () => h("span", {}, h("i", {}), h("b", {})),
      (span, [name, value]) => {
        set(span.children[0], { text: name });
        set(span.children[1], { text: value });
      }
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
      perPx: this.window.span / (box.width - LABEL_PX - 4)
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
    this.live.textContent = account ? `Microbatch ${microbatch}: computing ${seconds(account.computing_s)}, waiting ${seconds(account.waiting_s)}` : "";
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
        if (!mine) return;
        event.preventDefault();
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
          this.window.pan((event.deltaX || event.deltaY) / 800);
        else this.window.zoom(Math.exp(event.deltaY / 400), Math.min(1, Math.max(0, this.timeAt(event).share)));
        this.paint();
      },
      { passive: false }
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
      Escape: () => this.follow(null)
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
    const which = row.microbatch < 0 ? "" : row.count > 1 ? `, microbatches ${row.microbatch} to ${row.microbatch + row.count - 1}` : `, microbatch ${row.microbatch}`;
    const wire = row.kind >= FIRST_WIRE ? `
${row.peer >= 0 && row.peer !== row.lane ? `to ${lanes[row.peer]?.name ?? row.peer}, ` : ""}${bytes(row.bytes)}` : "";
    return this.tip.show(
      `${KIND_NAMES[row.kind] ?? row.kind}${which}
${lanes[row.lane].name}${row.copy ? `, copy ${row.copy}` : ""}: ${seconds(row.end_s - row.start_s)}
${seconds(row.start_s, row.end_s)} to ${seconds(row.end_s)}${wire}`,
      event
    );
  }
  makeTable() {
    const rows = this.plans.flatMap(
      (plan, p) => plan.bars.first(TABLE_ROWS).map((i) => {
        const row = plan.bars.row(i);
        return [
          plan.view.lanes[row.lane]?.name ?? row.lane,
          this.plans.length > 1 ? plan.view.name ?? "AB"[p] : "",
          KINDS[row.kind] ?? row.kind,
          row.microbatch < 0 ? "" : row.microbatch,
          seconds(row.start_s, row.end_s),
          seconds(row.end_s),
          seconds(row.end_s - row.start_s)
        ];
      })
    );
    return table(
      "Bars of the timeline",
      ["lane", "plan", "kind", "microbatch", "start", "end", "duration"],
      rows,
      this.plans.reduce((sum, plan) => sum + plan.bars.length, 0)
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
};
function render({ model, el }) {
  const view = new TimelineView(model, el);
  return () => view.close();
}
var timeline_default = { render };
export {
  timeline_default as default
};
