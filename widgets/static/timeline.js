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
function mixed(a, b, t) {
  const [x, y] = [a, b].map((hex) => [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16)));
  return `#${x.map((v, k) => Math.round(v + (y[k] - v) * t).toString(16).padStart(2, "0")).join("")}`;
}
function packed(hex) {
  const n = Number.parseInt((hex || "#888888").slice(1), 16);
  return (255 << 24 | (n & 255) << 16 | n & 65280 | n >> 16) >>> 0;
}

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
function bold(text) {
  return String(text ?? "").split("**").map((part, i) => i % 2 ? h("b", { text: part }) : document.createTextNode(part));
}
function heading(title, sub) {
  return h("div", { class: "sx-head" }, h("h2", { text: title }), h("span", { class: "sx-sub", text: sub ?? "" }));
}

// src/common/download.js
function download(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.hidden = true;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1e4);
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

// src/common/greet.js
var LOOK_MS = 500;
var LOOKS = 4;
function greet(model) {
  const manager = model.widget_manager;
  const id = model.get("own_id");
  if (!manager?.kernel || !id) return () => {
  };
  const before = model.get("heard");
  let left = LOOKS;
  let timer = setTimeout(look2, LOOK_MS);
  const stop = () => clearTimeout(timer);
  const send = (hello) => {
    try {
      model.send({ hello });
    } catch {
      stop();
    }
  };
  send("here");
  function look2() {
    if (model.get("heard") !== before) return;
    if (manager.kernel?.status === "idle") left -= 1;
    if (left > 0) timer = setTimeout(look2, LOOK_MS);
    else openAgain(manager, id).then(() => send("again"), console.error);
  }
  return stop;
}
async function openAgain(manager, id) {
  const model = await manager.get_model(id);
  let plain = null;
  for (let type = model; type; type = Object.getPrototypeOf(type))
    if (Object.hasOwn(type, "_handle_comm_msg")) plain = type._handle_comm_msg;
  model.comm.on_msg(plain.bind(model));
}

// src/common/link.js
var LOST = "sx-lost";
var SLOW_MS = 8e3;
var GRACE_MS = 2e3;
var CAUSES = {
  restarting: "The kernel was restarted",
  autorestarting: "The kernel ended and was started again",
  dead: "The kernel has ended",
  terminating: "The kernel was shut down",
  gone: "The kernel of this page is gone"
};
var Link = class {
  /** @param {any} model the anywidget model */
  constructor(model) {
    this.raw = model;
    this.cause = "";
    this.dropped = false;
    this.touched = false;
    this.slow = false;
    this.away = false;
    this.watchers = /* @__PURE__ */ new Set();
    this.model = this.guarded(model);
    this.onLive = () => this.lose("gone");
    this.onLost = (event) => event.detail.bench === (model.get("bench") ?? "") && this.lose(event.detail.cause);
    model.on("comm_live_update", this.onLive);
    globalThis.document?.addEventListener(LOST, this.onLost);
    this.follow(model.widget_manager?.kernel);
  }
  /** The same model, which never throws: what cannot be sent says so. */
  guarded(model) {
    return {
      link: this,
      get: (name) => model.get(name),
      set: (name, value) => model.set(name, value),
      on: (event, listener) => model.on(event, listener),
      off: (event, listener) => model.off(event, listener),
      send: (content) => this.reach(() => model.send(content)),
      save_changes: () => this.reach(() => model.save_changes())
    };
  }
  /** @param {any} kernel of JupyterLab, Notebook and Voila; elsewhere there is none to ask */
  follow(kernel) {
    if (!kernel?.statusChanged?.connect) return;
    const status = () => kernel.status in CAUSES && this.lose(kernel.status);
    const connection = () => this.interrupted(kernel.connectionStatus !== "connected");
    const disposed = () => this.lose("gone");
    const signals = [
      [kernel.statusChanged, status],
      [kernel.connectionStatusChanged, connection],
      [kernel.disposed, disposed]
    ].filter(([signal]) => signal?.connect);
    for (const [signal, listener] of signals) signal.connect(listener);
    this.unfollow = () => signals.forEach(([signal, listener]) => signal.disconnect(listener));
    this.busy = () => kernel.status === "busy";
  }
  get state() {
    return this.cause ? "lost" : this.away ? "away" : this.slow ? "slow" : "here";
  }
  /** May nothing be changed now? */
  get shut() {
    return Boolean(this.cause) || this.away;
  }
  /** Send something, if there is somebody to send it to. @param {() => void} work */
  reach(work) {
    if (this.shut) {
      if (!this.touched) this.tell({ touched: true });
      return;
    }
    try {
      work();
    } catch {
      this.tell({ touched: true });
      this.lose("gone");
    }
  }
  /** @param {string} cause a key of `CAUSES`; one that says more replaces one that says less */
  lose(cause) {
    if (this.cause && !(this.cause === "gone" && cause !== "gone")) return;
    clearTimeout(this.grace);
    this.tell({ cause: cause in CAUSES ? cause : "gone" });
    const detail = { bench: this.raw.get("bench") ?? "", cause: this.cause };
    if (detail.bench) globalThis.document?.dispatchEvent(new CustomEvent(LOST, { detail }));
  }
  interrupted(away) {
    clearTimeout(this.grace);
    if (away === this.away) return;
    if (away) this.grace = setTimeout(() => this.tell({ away: true }), GRACE_MS);
    else this.tell({ away: false });
  }
  /** Is something waiting for its answer? Said once it has waited long. @param {boolean} waiting */
  await(waiting) {
    if (waiting && !this.waits) this.waits = setTimeout(() => this.tell({ slow: true }), SLOW_MS);
    if (waiting || !this.waits) return;
    clearTimeout(this.waits);
    this.waits = 0;
    if (this.slow) this.tell({ slow: false });
  }
  tell(change) {
    const before = [this.state, this.cause, this.touched, this.dropped].join();
    Object.assign(this, change);
    if ([this.state, this.cause, this.touched, this.dropped].join() === before) return;
    for (const watcher of this.watchers) watcher();
  }
  /** Call back on every change. Returns what ends it. @param {() => void} watcher */
  watch(watcher) {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }
  /** What to say, or null: `{level, text}` with `**bold**`. */
  get words() {
    return linkWords(this.state, {
      cause: this.cause,
      dropped: this.dropped,
      busy: this.busy?.(),
      way: wayBack(this.raw.get("way_back"))
    });
  }
  close() {
    this.raw.off("comm_live_update", this.onLive);
    globalThis.document?.removeEventListener(LOST, this.onLost);
    this.unfollow?.();
    clearTimeout(this.grace);
    clearTimeout(this.waits);
    this.watchers.clear();
  }
};
var wayBack = (way) => globalThis.document?.body.dataset.voila ? "Load this page again." : way || "Run the cells again.";
function linkWords(state, { cause = "gone", dropped = false, busy = false, way = "" }) {
  if (state === "lost") {
    const undone = dropped ? " Your last change was not made." : "";
    return { level: "error", text: `**${CAUSES[cause]}:** what you see stays readable, but nothing can be changed.${undone} ${way}` };
  }
  if (state === "away") {
    return { level: "error", text: "**The connection to the kernel is interrupted.** It is tried again; nothing can be changed meanwhile." };
  }
  if (state !== "slow") return null;
  if (busy) return { level: "info", text: "The kernel is busy; your change is made as soon as it is free." };
  return { level: "info", text: `The kernel has not answered yet. If it was restarted or has ended: ${way}` };
}
var linked = (render2) => ({ model, el }) => {
  const link = new Link(model);
  const close = render2({ model: link.model, el });
  const silence = greet(model);
  return () => {
    silence();
    close();
    link.close();
  };
};

// src/common/keys.js
var SHEETS = {
  board: [
    ["← → ↑ ↓", "go from block to block; with Shift the selection grows"],
    ["Enter", "open a block to its layers"],
    ["Alt+↑ Alt+↓", "move the selection to the next stage"],
    ["Space", "pick up; arrows carry, Space drops, Escape cancels"],
    ["[ ]", "move the boundary after this stage"],
    ["{ }", "move the boundary before this stage"],
    ["M", "open Move to…"],
    ["P", "pin layers to their devices"],
    ["L", "lock the stage"],
    ["Ctrl+Z Ctrl+Shift+Z", "undo, redo"],
    ["Escape", "select nothing"]
  ],
  timeline: [
    ["← → ↑ ↓", "go from bar to bar"],
    ["Enter", "follow the microbatch of a bar through all stages"],
    ["N P", "the next microbatch, the one before"],
    ["W S", "zoom in, zoom out; or Ctrl and the wheel"],
    ["A D", "earlier, later"],
    ["0", "the whole step"],
    ["C", "outline the critical path"],
    ["L", "show how busy each link is"],
    ["M", "mark the lane everywhere"],
    ["O", "edit the order"],
    ["Alt+← Alt+→", "move the action while the order is edited"],
    ["Escape", "follow nothing, cancel"]
  ],
  graph: [
    ["← → ↑ ↓", "go along the edges"],
    ["Enter", "open a block; Escape closes it"],
    ["Space", "select"],
    ["/", "find a layer"]
  ]
};
function showKeys(root, name) {
  if (root.querySelector(".sx-keys")) return;
  const before = root.ownerDocument.activeElement;
  const close = h("button", { class: "sx-btn", text: "Close", "data-action": "close-keys", on: { click: () => dialog.close() } });
  const dialog = h(
    "dialog",
    { class: "sx-keys", "aria-label": `Keys of the ${name}` },
    h("h2", { text: `Keys of the ${name}` }),
    h("table", {}, h("tbody", {}, ...SHEETS[name].map(([keys, words]) => h("tr", {}, h("th", { scope: "row", text: keys }), h("td", { text: words }))))),
    close
  );
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "?") dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
  });
  root.append(dialog);
  dialog.showModal();
}
var keysButton = (name) => h("button", {
  class: "sx-btn",
  text: "?",
  title: "Keys (?)",
  "aria-label": `Keys of the ${name}`,
  "data-action": "keys",
  on: { click: (event) => showKeys(event.target.closest(".sx"), name) }
});
function attachKeys(root, name) {
  if (!SHEETS[name]) return;
  root.addEventListener("keydown", (event) => {
    if (event.key === "?" && !event.target.closest("input, textarea, select, [contenteditable]")) showKeys(root, name);
  });
}

// src/common/root.js
var READABLE = /* @__PURE__ */ new Set(["tiles", "board", "timeline", "graph", "heatmap"]);
var SAYING = ".sx-tiles, .sx-board";
function makeRoot(el, model, name, label) {
  const root = h("section", { class: `sx sx-${name}`, "aria-label": label, "data-widget": name });
  root.dataset.bench = model.get("bench") ?? "";
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
  });
  attachKeys(root, name);
  const notices = h("div", { class: "sx-notices" });
  root.append(notices);
  const dismiss = () => {
    model.set("notice", null);
    model.save_changes();
  };
  const show = () => {
    const { link } = model;
    const state = link?.state ?? "here";
    set(root, { "data-link": state === "here" ? null : state });
    if (!READABLE.has(name)) {
      for (const child of root.children) if (child !== notices) child.inert = link?.shut ?? false;
    }
    drawNotices(notices, [sayable(root, name, link), model.get("notice")], dismiss);
  };
  model.on("change:notice", show);
  const unwatch = model.link?.watch(show);
  show();
  el.append(root);
  return { root, close: watchTheme(root, () => {
  }, [() => model.off("change:notice", show), () => unwatch?.()]) };
}
function sayable(root, name, link) {
  const words = link?.words;
  if (!words || name === "tiles") return null;
  const others = [...document.querySelectorAll(SAYING)].some((element) => element !== root && element.dataset.bench === root.dataset.bench);
  return name === "board" || link.touched || link.state === "slow" || !others ? { ...words, lasting: true } : null;
}
function drawNotices(place, given, dismiss) {
  keyed(
    place,
    given.filter((notice) => notice?.text),
    ({ lasting }) => lasting ? "link" : "notice",
    ({ lasting }) => h(
      "div",
      { class: "sx-notice" },
      h("span", {}),
      lasting ? null : h("button", { class: "sx-btn", text: "Dismiss", "data-action": "dismiss", on: { click: dismiss } })
    ),
    (element, { level, text, lasting }) => {
      set(element, { "data-level": level ?? "info", "data-lasting": lasting ? "" : null });
      element.setAttribute("role", level === "error" ? "alert" : "status");
      if (lasting) element.firstChild.replaceChildren(...bold(text));
      else element.firstChild.textContent = text;
    }
  );
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
    this.unwatch = model.link?.watch(() => this.linkChanged());
  }
  /** Is an intent still without an answer? Where the kernel is gone there will be none. */
  get pending() {
    return this.unanswered && this.model.link?.state !== "lost";
  }
  get unanswered() {
    return (this.model.get("seq") ?? 0) < this.last;
  }
  /** Send one intent; a custom message, so that none is ever merged with the next. Nothing is sent to a kernel that is gone. */
  send(kind, fields = {}) {
    const { link } = this.model;
    if (!link?.shut) this.last = Math.max(this.last, this.model.get("seq") ?? 0) + 1;
    this.model.send({ seq: this.last, kind, ...fields });
    link?.await(this.pending);
    return this.last;
  }
  linkChanged() {
    const { link } = this.model;
    if (link.state === "lost" && this.unanswered && !link.dropped) link.tell({ dropped: true });
    this.schedule();
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
      this.model.link?.await(this.pending);
      if (this.always || !this.pending) this.draw();
    });
  }
  close() {
    for (const [event, listener] of this.listeners) this.model.off(event, listener);
    this.unwatch?.();
  }
};

// src/common/copying.js
async function copy(text, root) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text, root);
  }
}
function copyBySelection(text, root) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sx-live";
  area.setAttribute("aria-hidden", "true");
  const before = document.activeElement;
  root.append(area);
  area.select();
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch {
    done = false;
  }
  area.remove();
  before?.focus?.();
  return done;
}
function cellsOf(table2) {
  const rows = [...table2.rows].filter((row) => row.getClientRects().length).map((row) => [...row.cells].map(textOf));
  const width = Math.max(0, ...rows.map((row) => row.length));
  const kept = Array.from({ length: width }, (_, i) => i).filter((i) => rows.slice(1).some((row) => row[i]));
  return rows.map((row) => kept.map((i) => row[i] ?? ""));
}
function textOf(cell) {
  const buttons = [...cell.querySelectorAll("button")].map((button2) => button2.innerText);
  const text = buttons.reduce((all, part) => part ? all.replace(part, "") : all, cell.innerText);
  return text.replace(/[\u00a0\u202f]/g, " ").replace(/\s+/g, " ").trim();
}
function markdown(rows) {
  const line = (cells) => `| ${cells.map((cell) => cell.replaceAll("\\", "\\\\").replaceAll("|", "\\|")).join(" | ")} |`;
  const [head = [], ...rest] = rows;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rest.map(line)].join("\n") + "\n";
}
function csv(rows) {
  const quoted = (cell) => /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
  return rows.map((cells) => cells.map(quoted).join(",") + "\r\n").join("");
}
var FORMS = [
  ["Copy", "markdown", "Copy the table as Markdown", markdown],
  ["CSV", "csv", "Copy the table as CSV", csv]
];
var SAID_MS = 1500;
function copyButtons(table2) {
  return h(
    "span",
    { class: "sx-seg sx-copy" },
    FORMS.map(([text, action, title, make]) => {
      const button2 = h("button", { class: "sx-btn", text, title, "aria-label": title, "data-action": `copy-${action}` });
      button2.addEventListener("click", async () => {
        const found = table2();
        if (!found) return;
        const done = await copy(make(cellsOf(found)), button2.parentElement);
        button2.textContent = done ? "Copied" : "Not allowed";
        setTimeout(() => button2.textContent = text, SAID_MS);
      });
      return button2;
    })
  );
}

// src/common/table.js
function tableToggle(drawing, place, makeTable) {
  const button2 = h("button", { class: "sx-btn", text: "Table", "data-action": "table", "aria-pressed": "false" });
  const show = (open) => {
    button2.setAttribute("aria-pressed", String(open));
    drawing.hidden = open;
    place.replaceChildren(...open ? [makeTable()] : []);
  };
  button2.addEventListener("click", () => show(button2.getAttribute("aria-pressed") !== "true"));
  return { button: button2, refresh: () => show(button2.getAttribute("aria-pressed") === "true") };
}
function table(caption, columns, rows, total = rows.length) {
  const more = total > rows.length ? `${caption}: first ${rows.length} of ${total} rows` : caption;
  const box = h(
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
    ),
    copyButtons(() => box.querySelector("table"))
  );
  return box;
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
    this.kinds = /* @__PURE__ */ new Set();
    this.end_s = 0;
    const sizes = new Int32Array(2 * lanes);
    for (let i = 0, at = 0; i < this.length; i += 1, at += WIDTH) {
      const lane = numbers[at + LANE];
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
      const lane = this.lanes[numbers[at + LANE]];
      if (!lane) continue;
      const wire = numbers[at + KIND] >= FIRST_WIRE ? 1 : 0;
      const place = 2 * numbers[at + LANE] + wire;
      (wire ? lane.wire : lane.compute)[filled[place]] = i;
      filled[place] += 1;
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
    return this.numbers[i * WIDTH + LANE];
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
  beside(i, by) {
    const track = this.track(this.lane(i), this.isWire(i));
    let k = this.upper(track, this.start(i)) - 1;
    while (k > 0 && track[k] !== i) k -= 1;
    return track[Math.min(track.length - 1, Math.max(0, k + by))];
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

// src/timeline/words.js
var WHY = {
  start: "starts at once",
  lane: "starts when its lane is free",
  channel: "starts when its link is free",
  data: "starts when its data is there"
};
function microbatches({ microbatch, count }) {
  if (microbatch < 0) return "";
  return count > 1 ? `microbatches ${microbatch} to ${microbatch + count - 1}` : `microbatch ${microbatch}`;
}
function barLines(row, lanes, reason) {
  const lane = lanes[row.lane]?.name ?? `lane ${row.lane}`;
  const wire = row.kind >= FIRST_WIRE;
  const to = wire && row.peer >= 0 && row.peer !== row.lane ? ` → ${lanes[row.peer]?.name ?? row.peer}` : "";
  return [
    [KIND_NAMES[row.kind] ?? String(row.kind), microbatches(row)].filter(Boolean).join(", "),
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
  const told = shown.map((part) => ({ name: part.name, share: percent(part.share, part.share < 0.095 || part.share > 0.995 ? 1 : 0) }));
  return rest.length ? [...told, { name: rest.map((part) => part.name).join(", "), share: `under ${percent(LEAST_SHARE * rest.length, 1)}` }] : told;
}
function planWords(plans) {
  const each = plans.map(({ view, bars }, p) => {
    const against = p && plans[0] ? `, ${differenceWords(view.end_s, plans[0].view.end_s)} against ${plans[0].view.name || "A"}` : "";
    return `${view.name ?? ""} ${seconds(view.end_s)}${against}, ${plural(view.lanes.length, "lane")}, ${plural(bars.length, "bar")}`;
  });
  return `${each.join("; ")}. `;
}
var KEYS_HELP = "Arrow keys go from bar to bar, Enter follows its microbatch, N and P the next and the one before. W and S zoom, A and D pan, 0 shows the whole step, C the critical path, L the links, M marks the lane. Alt with the left or right arrow moves the action to another place in its lane, O lets the mouse do so. The Table button gives the same as a table.";
var differenceWords = (a, b) => Math.abs(a - b) <= 1e-6 * Math.max(a, b) ? "the same" : signed(seconds(a - b));
function accountFacts(a, b) {
  const both = (read) => [seconds(read(a)), b ? differenceWords(read(b), read(a)) : ""];
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
  const told = ends.length > 9 ? [...ends.slice(0, 4), null, ...ends.slice(-3)] : ends;
  return told.map((stage) => stage == null ? "…" : fixed(stage)).join(" → ");
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
  constructor(step, stop) {
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
        h("span", { class: "sx-seg" }, button("‹", "microbatch-before", "Microbatch before (P)", () => step(-1)), button("›", "microbatch-next", "Next microbatch (N)", () => step(1))),
        this.title,
        this.stages,
        this.bar,
        this.facts,
        h("span", { class: "sx-space" }),
        button("Let go", "microbatch-none", "Follow no microbatch (Escape)", stop)
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
var LETTER_PX = 6.4;
var LEAST_LABEL_PX = 12;
function laneSizes(lanes) {
  if (lanes <= 12) return { bar: 24, wire: 4, gap: 3 };
  if (lanes <= 32) return { bar: 14, wire: 3, gap: 2 };
  if (lanes <= 96) return { bar: 8, wire: 2, gap: 1 };
  return { bar: Math.max(2, Math.min(5, Math.floor(800 / lanes) - 1)), wire: 1, gap: 0 };
}
function layout(lanes, links = [], letters = 0) {
  const sizes = laneSizes(Math.max(...lanes, 0));
  const step = sizes.bar + sizes.wire + sizes.gap;
  const wanted = Math.max(letters * LETTER_PX + 46, ...links.map((name) => name.length * LETTER_PX + 12));
  const left = Math.round(Math.min(LONGEST_LABEL_PX, Math.max(LABEL_PX, wanted)));
  let y = AXIS_PX;
  const linkRows = [];
  const plans = lanes.map((count, plan) => {
    const title = y + 14;
    y += 22;
    const rows = Array.from({ length: count }, (_, i) => ({ y: y + i * step, bar: sizes.bar, wire: sizes.wire }));
    y += count * step + 6;
    if (plan === 0 && links.length) {
      y += 16;
      for (let k = 0; k < links.length; k += 1) linkRows.push({ y: y + k * (LINK_PX + 4), bar: LINK_PX });
      y += links.length * (LINK_PX + 4) + 6;
    }
    return { title, rows };
  });
  return { plans, links: linkRows, left, every: Math.max(1, Math.ceil(LEAST_LABEL_PX / step)), height: y };
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
  /** Move, without zooming, until [start, end] is inside; what is longer than the window starts at its left. */
  show(start, end) {
    if (start >= this.t0 && end <= this.t1) return;
    const room = Math.max(0, this.span - (end - start));
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
  let most = 0;
  for (let k = first; k <= last; k += 1) most = Math.max(most, cells[row * view.columns + k]);
  return most;
}
function drawLinks(g, { look: c, links, places, window: win, width, plans }, x) {
  const { view, cells, drawn } = links;
  const pixels = Math.floor(width - places.left - RIGHT_PX);
  const end = Math.min(width - RIGHT_PX, x(plans[0].view.end_s));
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
    g.fillRect(from, y, Math.max(0, end - from), bar);
    g.fillStyle = c.links[row.kind] ?? c.links.other;
    for (let p = 0; p < pixels; p += 1) {
      const t = win.t0 + p / pixels * win.span;
      const share = shareIn(view, cells, number, t, t + win.span / pixels);
      if (share <= 0) continue;
      const h2 = Math.max(1, share * bar);
      g.fillRect(places.left + p, y + bar - h2, 1, h2);
    }
    g.fillStyle = c["line-strong"];
    g.fillRect(from, y + bar, Math.max(0, end - from), 1);
  });
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
var CIVIDIS = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"].map(
  (hex) => [0, 2, 4].map((i) => Number.parseInt(hex.slice(i, i + 2), 16))
);

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

// src/timeline/draw-carry.js
function drawCarried(g, scene, bars, place, x) {
  const { look: c, carry } = scene;
  const row = place.rows[bars.lane(carry.i)];
  const [from, to] = [x(bars.start(carry.i)), x(bars.end(carry.i))];
  const wide = Math.max(3, to - from);
  g.save();
  g.globalAlpha = 0.65;
  g.fillStyle = c.bg;
  g.fillRect(from, row.y, wide, row.bar);
  g.globalAlpha = 1;
  g.setLineDash([3, 2]);
  g.strokeStyle = c["ink-2"];
  g.lineWidth = 1;
  g.strokeRect(from + 0.5, row.y + 0.5, Math.max(2, wide - 1), row.bar - 1);
  g.setLineDash([]);
  const at = x(carry.t) - carry.grab * wide;
  g.globalAlpha = 0.85;
  g.fillStyle = c.kinds[bars.kind(carry.i)] ?? c.ink;
  g.fillRect(at, row.y - 3, wide, row.bar + 6);
  g.globalAlpha = 1;
  g.strokeStyle = c.brand;
  g.lineWidth = 2;
  g.strokeRect(at, row.y - 3, wide, row.bar + 6);
  if (carry.place) {
    const gap = x(carry.place.t);
    g.fillStyle = c.brand;
    g.fillRect(gap - 1.5, row.y - 8, 3, row.bar + 16);
    g.beginPath();
    g.moveTo(gap - 5, row.y - 8);
    g.lineTo(gap + 5, row.y - 8);
    g.lineTo(gap, row.y - 2);
    g.fill();
  }
  g.restore();
}

// src/timeline/draw-path.js
var spanOf = (bars, i, row) => bars.kind(i) >= FIRST_WIRE ? { y: row.y + row.bar + (row.wire > 1 ? 1 : 0), h: Math.max(2, row.wire) } : { y: row.y, h: row.bar };
function drawCritical(g, scene, plan, place, x) {
  const { look: c, window: win } = scene;
  const { bars } = plan;
  const chain = plan.view.critical.bars;
  for (const i of chain) {
    if (bars.end(i) < win.t0 || bars.start(i) > win.t1) continue;
    const row = place.rows[bars.lane(i)];
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
    const [a, b] = [place.rows[before.lane], place.rows[run.lane]];
    const down = run.lane > before.lane;
    joints.moveTo(x(before.end), down ? a.y + a.bar : a.y);
    joints.lineTo(x(run.start), down ? b.y : b.y + b.bar);
  });
  const boxes = new Path2D();
  for (const run of runs) {
    if (run.end < win.t0 || run.start > win.t1) continue;
    const row = place.rows[run.lane];
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
function drawJourney(g, { look: c, microbatch }, bars, place, x) {
  const path = bars.journey(microbatch).filter((i) => !bars.isWire(i));
  const boxes = new Path2D();
  const joints = new Path2D();
  for (const i of path) {
    const row = place.rows[bars.lane(i)];
    boxes.rect(x(bars.start(i)) + 0.5, row.y + 0.5, Math.max(2, x(bars.end(i)) - x(bars.start(i)) - 1), row.bar - 1);
  }
  const through = path.filter((i) => bars.kind(i) <= 2);
  for (let k = 1; k < through.length; k += 1) {
    const [p, q] = [through[k - 1], through[k]];
    if (bars.lane(p) === bars.lane(q)) continue;
    const [a, b] = [place.rows[bars.lane(p)], place.rows[bars.lane(q)]];
    const down = bars.lane(q) > bars.lane(p);
    joints.moveTo(x(bars.end(p)), a.y + (down ? a.bar - 2 : 2));
    joints.lineTo(x(bars.start(q)), b.y + (down ? 2 : b.bar - 2));
  }
  const thin = (place.rows[0]?.bar ?? 0) < 12;
  for (const [colour, extra] of thin ? [[c["ink-strong"], -1]] : [[c.bg, 2], [c["ink-strong"], 0]]) {
    g.strokeStyle = colour;
    g.lineWidth = 2 + extra;
    g.stroke(boxes);
    g.lineWidth = Math.max(1, 1.5 + extra);
    g.stroke(joints);
  }
}
function drawFocus(g, { look: c, focus }, bars, place, x) {
  const { y, h: h2 } = spanOf(bars, focus.i, place.rows[bars.lane(focus.i)]);
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
function look(root) {
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
    links: { nvlink: t["k-nvlink"], nvswitch: t["k-nvlink"], fabric: t["k-nvlink"], pcie: t["k-pcie"], internet: t["k-internet"], other: network }
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
  if (places.links.length) drawLinks(g, scene, x);
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
function drawPlan(g, scene, plan, place, x, pattern, p) {
  const { look: c, width, places } = scene;
  drawTitle(g, scene, plan, place, p);
  place.rows.forEach((row, lane) => drawLabel(g, scene, plan.view.lanes[lane], row, lane));
  g.save();
  g.beginPath();
  g.rect(places.left, place.rows[0]?.y - 4, width - places.left, 1e5);
  g.clip();
  const end = Math.min(width - RIGHT_PX, x(plan.view.end_s));
  const from = Math.max(places.left, x(0));
  g.fillStyle = pattern;
  for (const row of place.rows) g.fillRect(from, row.y, Math.max(0, end - from), row.bar);
  g.font = `11px ${c.font}`;
  scene.numberPx = g.measureText("0".repeat(String(Math.max(0, plan.bars.lastMicrobatch)).length)).width;
  const path = scene.critical ? plan.view.critical : null;
  scene.plain = Boolean(path);
  if (path) g.globalAlpha = FAINT;
  drawStrips(g, scene, plan, place);
  place.rows.forEach((row, lane) => drawBars(g, scene, plan.bars, lane, row, x));
  g.globalAlpha = 1;
  scene.plain = false;
  if (path) drawCritical(g, scene, plan, place, x);
  if (scene.microbatch != null) drawJourney(g, scene, plan.bars, place, x);
  if (scene.focus?.plan === p) drawFocus(g, scene, plan.bars, place, x);
  if (scene.carry && p === 0) drawCarried(g, scene, plan.bars, place, x);
  drawEnd(g, scene, plan, place, x, p);
  g.restore();
}
function drawTitle(g, { look: c, places }, plan, place, p) {
  g.textAlign = "left";
  g.font = `600 12px ${c.font}`;
  g.fillStyle = c["ink-strong"];
  const title = `${plan.view.name || "AB"[p]}  ${seconds(plan.view.end_s)}`;
  g.fillText(title, 0, place.title);
  const after = Math.max(places.left + 6, g.measureText(title).width + 20);
  g.font = `12px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText([plan.view.text, plan.view.omitted && `not shown: ${plan.view.omitted}`].filter(Boolean).join("; "), after, place.title);
}
function drawEnd(g, { look: c, width, places, plans }, plan, place, x, p) {
  const last = place.rows[place.rows.length - 1];
  const edge = x(plan.view.end_s);
  if (!last || edge < places.left || edge > width) return;
  g.fillStyle = c["ink-strong"];
  g.fillRect(Math.min(width - 2, edge), place.rows[0].y - 3, 1.5, last.y + last.bar + last.wire + 3 - place.rows[0].y);
  if (!p) return;
  const text = differenceWords(plan.view.end_s, plans[0].view.end_s);
  g.font = `600 12px ${c.font}`;
  const w = g.measureText(text).width;
  const inside = edge + 12 + w > width;
  const at = inside ? edge - 10 - w : edge + 8;
  g.textAlign = "left";
  g.fillStyle = c.bg;
  if (inside) g.fillRect(at - 4, last.y - 1, w + 8, 16);
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
function drawStrips(g, scene, plan, place) {
  const { window: win, look: c, width, places } = scene;
  const pixels = Math.floor(width - places.left - RIGHT_PX);
  const { bars, strips } = plan;
  const top = place.rows[0]?.y ?? 0;
  let image = null;
  let height = 0;
  place.rows.forEach((row, lane) => {
    for (const wire of [false, true]) {
      const [from, to] = bars.visible(lane, wire, win.t0, win.t1);
      if (!isDense(from, to, pixels)) continue;
      if (!image) {
        const last = place.rows[place.rows.length - 1];
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
    let [most, kind, sum] = [0, -1, 0];
    for (const [k, row] of shares) {
      sum += row[p];
      if (row[p] > most) [most, kind] = [row[p], k];
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
  const editButton = button2("Edit order", "edit-order", "", () => view.editor.toggle(), "false");
  const linksButton = button2("Links", "links", "Show how busy each link is (L)", () => view.toggle("links_shown"), "false");
  const traceButton = button2("Chrome trace", "trace", "Download the step as a trace for Perfetto or chrome://tracing", () => view.sync.send("trace"));
  head.append(
    h("span", { class: "sx-space" }),
    legend,
    h("span", { class: "sx-seg" }, criticalButton, linksButton, editButton),
    h(
      "span",
      { class: "sx-seg", role: "group", "aria-label": "Stretch of time" },
      button2("‹", "pan-left", "Earlier (A)", move((window) => window.pan(-0.3))),
      button2("−", "zoom-out", "Zoom out (S)", move((window) => window.zoom(2))),
      button2("Whole", "zoom-all", "Whole step (0)", move((window) => window.all())),
      button2("+", "zoom-in", "Zoom in (W)", move((window) => window.zoom(0.5))),
      button2("›", "pan-right", "Later (D)", move((window) => window.pan(0.3)))
    ),
    h(
      "span",
      { class: "sx-acts" },
      traceButton,
      view.table.button,
      keysButton("timeline")
    )
  );
  return { head, title: head.querySelector("h2"), legend, criticalButton, linksButton, editButton, traceButton };
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
      kind === "bubble" ? "bubble" : KIND_NAMES[kind]
    ),
    () => {
    }
  );
}

// src/timeline/reorder.js
var OPS = ["F", "B", "I", "W", "U"];
var RECOMPUTE = 5;
var movable = (bars, i) => i >= 0 && bars.kind(i) <= RECOMPUTE;
var sequence = (bars, lane) => [...bars.track(lane, false)].filter((i) => bars.kind(i) !== RECOMPUTE);
function actionBar(bars, i) {
  if (bars.kind(i) !== RECOMPUTE) return i;
  const { stage, microbatch, copy: copy2, start_s } = bars.row(i);
  const own = (row) => row.stage === stage && row.microbatch === microbatch && row.copy === copy2;
  const found = sequence(bars, bars.lane(i)).find((j) => bars.start(j) >= start_s && bars.kind(j) <= 2 && own(bars.row(j)));
  return found ?? i;
}
function actionOf(bars, i) {
  const { kind, stage, microbatch, copy: copy2 } = bars.row(i);
  return { op: OPS[kind] ?? "B", stage, microbatch, copy: copy2 };
}
function actionWords(bars, i) {
  const { kind, stage, microbatch, count, copy: copy2 } = bars.row(i);
  const last = count > 1 ? `-${microbatch + count - 1}` : "";
  return `${stage}${OPS[kind] ?? "B"}${microbatch < 0 ? "" : microbatch + last}${copy2 ? `~${copy2}` : ""}`;
}
function placeAt(bars, i, t) {
  const all = sequence(bars, bars.lane(i));
  const others = all.filter((j) => j !== i);
  const own = all.indexOf(i);
  let k = others.findIndex((j) => (bars.start(j) + bars.end(j)) / 2 > t);
  if (k < 0) k = others.length;
  if (k === own || !others.length) return null;
  return k < others.length ? { beside: others[k], before: true, t: bars.start(others[k]) } : { beside: others[k - 1], before: false, t: bars.end(others[k - 1]) };
}
function placeBeside(bars, i, by) {
  const all = sequence(bars, bars.lane(i));
  const beside = all[all.indexOf(i) + by];
  return beside == null ? null : { beside, before: by < 0, t: by < 0 ? bars.start(beside) : bars.end(beside) };
}
var placeWords = (bars, i, place) => `${actionWords(bars, i)} ${place.before ? "before" : "after"} ${actionWords(bars, place.beside)}`;
function sameAction(bars, row) {
  const same = (i) => {
    const other = bars.row(i);
    return ["kind", "stage", "microbatch", "copy", "lane", "peer"].every((key) => other[key] === row[key]);
  };
  for (let i = 0; i < bars.length; i += 1) if (bars.kind(i) === row.kind && bars.microbatch(i) === row.microbatch && same(i)) return i;
  return -1;
}

// src/timeline/editor.js
var TITLE = "Drag an action to another place in its lane (O); Alt with an arrow key moves the one with the focus";
var HINT = "Drag an action along its lane; Alt+← and Alt+→ move the one with the focus";
var LEAST_PX2 = 4;
var Editor = class {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    this.on = false;
    this.carried = null;
    this.show();
  }
  get bars() {
    return this.view.plans?.[0]?.bars;
  }
  /** Why the order of the plan shown cannot be edited, or null. */
  get refused() {
    return this.view.plans?.[0]?.view.fixed ?? null;
  }
  toggle() {
    if (this.view.ofRun) return void 0;
    if (this.refused && !this.on) return this.view.say(this.refused);
    this.on = !this.on;
    this.cancel();
    this.show();
    return this.view.say(this.on ? HINT : "The order is not edited");
  }
  show() {
    const { editButton, head } = this.view;
    if (this.refused) this.on = false;
    set(editButton, { "aria-pressed": String(this.on), title: this.refused ?? TITLE });
    editButton.disabled = Boolean(this.refused);
    editButton.hidden = this.view.ofRun;
    set(head.querySelector(".sx-sub"), { text: this.on ? HINT : "" });
  }
  canMove(found) {
    return Boolean(this.on && found?.plan === 0 && movable(this.bars, found.i));
  }
  /** Take up the action under the pointer; whether there is one. */
  pick(event) {
    const found = this.on ? this.view.under(event) : null;
    if (!this.canMove(found)) return false;
    const i = actionBar(this.bars, found.i);
    const { t } = this.view.timeAt(event);
    const length = this.bars.end(i) - this.bars.start(i);
    const grab = length > 0 ? Math.min(1, Math.max(0, (t - this.bars.start(i)) / length)) : 0.5;
    this.carried = { i, grab, t, x: event.clientX, moved: false, place: null };
    return true;
  }
  drag(event) {
    const { carried, view, bars } = this;
    if (!carried.moved && Math.abs(event.clientX - carried.x) < LEAST_PX2) return;
    carried.moved = true;
    carried.t = view.timeAt(event).t;
    carried.place = placeAt(bars, carried.i, carried.t);
    view.canvas.style.cursor = "grabbing";
    view.tip.show(carried.place ? placeWords(bars, carried.i, carried.place) : "its own place", event);
    view.paint();
  }
  /** Let go; whether something was carried. A press without a drag follows the microbatch, as always. */
  release(event) {
    const { carried, view } = this;
    if (!carried) return false;
    this.cancel();
    if (!carried.moved) {
      view.focus = { plan: 0, i: carried.i };
      const microbatch = this.bars.microbatch(carried.i);
      view.follow(microbatch < 0 || microbatch === view.microbatch ? null : microbatch);
    } else if (carried.place) this.send(carried.i, carried.place);
    view.hover(event);
    return true;
  }
  /** Carry no longer; whether something was. */
  cancel() {
    if (!this.carried) return false;
    this.carried = null;
    this.view.canvas.style.cursor = "";
    this.view.tip.hide();
    this.view.paint();
    return true;
  }
  /** Alt with an arrow moves the action with the focus by one place; whether this was such a key. */
  key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey) return false;
    event.preventDefault();
    const { focus } = this.view;
    if (this.refused) this.view.say(this.refused);
    else if (!focus || focus.plan !== 0 || !movable(this.bars, focus.i)) this.view.say("Choose an action of the plan first, with the arrow keys");
    else {
      const i = actionBar(this.bars, focus.i);
      const place = placeBeside(this.bars, i, by);
      if (!place) this.view.say("It is at the end of its lane");
      else this.send(i, place);
    }
    return true;
  }
  send(i, place) {
    const { bars, view } = this;
    view.focus = { plan: 0, i };
    view.say(placeWords(bars, i, place));
    view.sync.send("reorder", { moved: actionOf(bars, i), beside: actionOf(bars, place.beside), before: place.before });
  }
};

// src/timeline/keys.js
function firstBar(plans, window) {
  for (const [plan, { bars }] of plans.entries()) {
    for (let lane = 0; lane < bars.lanes.length; lane += 1) {
      for (const wire of [false, true]) {
        const i = bars.near(lane, wire, window.t0 + window.span * 1e-3);
        if (i >= 0) return { plan, i };
      }
    }
  }
  return null;
}
function moveFocus(plans, window, focus, key) {
  if (!focus || !plans[focus.plan] || focus.i >= plans[focus.plan].bars.length) return firstBar(plans, window);
  const { bars } = plans[focus.plan];
  const { i } = focus;
  const along = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[key];
  if (along) return { plan: focus.plan, i: bars.beside(i, Math.max(-1e9, Math.min(1e9, along))) };
  return stepLane(plans, focus, key === "ArrowDown" ? 1 : -1, (bars.start(i) + bars.end(i)) / 2);
}
function stepLane(plans, focus, by, t) {
  const tracks = plans.flatMap(({ bars: bars2 }, plan) => bars2.lanes.flatMap((_, lane) => [false, true].map((wire) => ({ plan, lane, wire }))));
  const { bars } = plans[focus.plan];
  let at = tracks.findIndex((x) => x.plan === focus.plan && x.lane === bars.lane(focus.i) && x.wire === bars.isWire(focus.i));
  for (at += by; at >= 0 && at < tracks.length; at += by) {
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
    o: () => view.editor.toggle(),
    Enter: () => view.followFocus(),
    " ": () => view.followFocus(),
    Escape: () => view.editor.cancel() ? void 0 : view.focus ? view.setFocus(null) : view.follow(null)
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
    canvas.addEventListener("pointercancel", () => this.drop());
    canvas.addEventListener("pointerleave", () => view.tip.hide());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => view.key(event));
    canvas.addEventListener("blur", () => view.focus && view.setFocus(null));
  }
  down(event) {
    if (event.button) return;
    if (this.view.editor.pick(event)) return this.view.canvas.setPointerCapture(event.pointerId);
    this.pan = { x: event.clientX, t0: this.view.window.t0, moved: false };
    this.view.canvas.setPointerCapture(event.pointerId);
  }
  /** Let go of everything, without doing anything. */
  drop() {
    this.pan = null;
    this.view.editor.cancel();
  }
  move(event) {
    const { view, pan } = this;
    if (view.editor.carried) return view.editor.drag(event);
    if (!pan || !pan.moved && Math.abs(event.clientX - pan.x) <= 4) return view.hover(event);
    pan.moved = true;
    view.window.place(pan.t0 - (event.clientX - pan.x) * view.timeAt(event).perPx, view.window.span);
    view.tip.hide();
    return view.paint();
  }
  up(event) {
    const { view } = this;
    if (view.editor.release(event)) return void 0;
    const { pan } = this;
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
var TABLE_ROWS = 400;
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
var chosen = (bars, microbatch) => microbatch == null ? bars.first(TABLE_ROWS) : bars.journey(microbatch).slice(0, TABLE_ROWS);

// src/timeline/index.js
var SHOWN = ["microbatch", "selected_lanes", "critical", "links_shown", "links", "link_cells"];
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
    this.editor = new Editor(this);
    this.pointer = new Pointer(this);
    const repaint = () => this.arrange();
    for (const name of SHOWN) model.on(`change:${name}`, repaint);
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
      for (const name of SHOWN) model.off(`change:${name}`, repaint);
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
    Object.assign(this, buildHead(this));
    this.criticalCard = new CriticalCard();
    this.card = new MicrobatchCard(
      (by) => this.followNext(by),
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
    const focused = this.focus && { plan: this.focus.plan, row: this.plans[this.focus.plan].bars.row(this.focus.i) };
    this.editor.cancel();
    this.plans = [
      ["view", "bars"],
      ["view_b", "bars_b"]
    ].flatMap(([v, b]) => {
      const view = this.model.get(v) ?? {};
      if (!view.lanes?.length) return [];
      const bars = new Bars(float32(this.model.get(b)), view.lanes.length);
      return [{ view, bars, strips: new Strips(bars), reasons: reasonsOf(view.critical) }];
    });
    const end = Math.max(0, ...this.plans.map((plan) => plan.view.end_s)) * 1.005;
    if (!this.window || Math.abs(this.window.end - end) > end * 1e-9) this.window = new Window(end || 1);
    this.focus = focused && this.again(focused);
    const ready = this.plans.length > 0;
    this.empty.hidden = ready;
    for (const part of [this.drawing, this.head]) part.style.display = ready ? "" : "none";
    drawLegend(this.legend, this.plans);
    set(this.canvas, { "aria-label": planWords(this.plans) + KEYS_HELP });
    this.table.refresh();
    this.arrange();
    this.loadMs = performance.now() - began;
  }
  /** The focus on the same action as before, or null. */
  again({ plan, row }) {
    const i = this.plans[plan] ? sameAction(this.plans[plan].bars, row) : -1;
    return i < 0 ? null : { plan, i };
  }
  /** Places of everything; again when links are shown or hidden, or the second plan comes or goes. */
  arrange() {
    const view = this.model.get("links") ?? {};
    const can = Boolean(view.rows?.length);
    const shown = can && Boolean(this.model.get("links_shown"));
    const drawn = shown ? drawnLinks(view) : [];
    this.links = shown ? { view, drawn, cells: float32(this.model.get("link_cells")) } : null;
    this.linksButton.hidden = !can;
    this.traceButton.hidden = this.ofRun;
    set(this.title, { text: this.ofRun ? "What the ranks did when" : "Timeline" });
    this.criticalButton.hidden = !this.plans.some((plan) => plan.view.critical);
    set(this.linksButton, { "aria-pressed": String(shown) });
    set(this.criticalButton, { "aria-pressed": String(this.critical) });
    this.editor.show();
    const letters = Math.max(0, ...this.plans.flatMap((plan) => plan.view.lanes.map((lane) => lane.name.length)));
    const names = drawn.map((i) => `${view.rows[i].name}      `);
    this.places = layout(this.plans.map((plan) => plan.view.lanes.length), names, letters);
    this.criticalCard.show(this.critical ? this.plans : []);
    this.card.show(this.plans, this.microbatch);
    this.paint();
  }
  /** Is it of a run, in which nothing can be edited? */
  get ofRun() {
    return Boolean(this.plans?.[0]?.view.of_run);
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
    this.look ??= look(this.root);
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
      carry: this.editor.carried,
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
    const place = share < 0 ? null : hit(this.places.plans, y);
    if (!place) return null;
    const i = this.plans[place.plan].bars.at(place.lane, place.wire, t, place.wire ? perPx * 2 : 0);
    return i < 0 ? null : { plan: place.plan, i };
  }
  /** Id of the lane whose name is under the pointer, or null. */
  nameUnder(event) {
    const { share, y } = this.timeAt(event);
    const place = share < 0 ? hit(this.places.plans, y) : null;
    return place ? this.plans[place.plan].view.lanes[place.lane]?.id ?? null : null;
  }
  hover(event) {
    const found = this.under(event);
    this.canvas.style.cursor = this.editor.canMove(found) ? "grab" : found || this.nameUnder(event) != null ? "pointer" : "";
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
  followNext(by) {
    const last = this.plans[0]?.bars.lastMicrobatch ?? -1;
    const next = this.microbatch == null ? by > 0 ? 0 : last : this.microbatch + by;
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
    if (event.altKey && this.editor.key(event)) return;
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
function render({ model, el }) {
  const view = new TimelineView(model, el);
  return () => view.close();
}
var timeline_default = { render: linked(render) };
export {
  timeline_default as default
};
