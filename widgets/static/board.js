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
  const stop2 = () => clearTimeout(timer);
  const send = (hello) => {
    try {
      model.send({ hello });
    } catch {
      stop2();
    }
  };
  send("here");
  function look2() {
    if (model.get("heard") !== before) return;
    if (manager.kernel?.status === "idle") left -= 1;
    if (left > 0) timer = setTimeout(look2, LOOK_MS);
    else openAgain(manager, id).then(() => send("again"), console.error);
  }
  return stop2;
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
  constructor(model, traits, draw, always = false) {
    this.always = always;
    this.model = model;
    this.draw = draw;
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

// src/common/working.js
var WORKING = "sx-working";
function onWorking(bench, heard) {
  const listen = (event) => event.detail && (event.detail.bench ?? "") === bench() && heard(event.detail.text);
  document.addEventListener(WORKING, listen);
  return () => document.removeEventListener(WORKING, listen);
}

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
function withAnswer(ctx, preview) {
  const { answer } = ctx;
  if (!answer || answer.view !== ctx.view || !preview?.view || preview.simulated) return preview;
  if (JSON.stringify(intentOf(ctx, preview)) !== JSON.stringify(answer.considered)) return preview;
  const lanes = preview.view.lanes.map((lane) => ({ ...lane, ...answer.lanes[lane.id] }));
  return { ...preview, view: { ...preview.view, lanes }, simulated: answer.values };
}
function considerSoon(ctx, preview) {
  clearTimeout(ctx.considering);
  if (!preview?.view || preview.simulated) return;
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
    const end = run.first + run.count;
    for (let at = run.first; at < end; ) {
      const b = catalog.layers[at].block;
      const block = catalog.blocks[b];
      const open = expanded.has(block.id) && block.layers.length > 1;
      const stop2 = open ? at + 1 : Math.min(end, catalog.starts[b + 1]);
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
function holdsAny(sorted, first, end) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = low + high >> 1;
    if (sorted[middle] < first) low = middle + 1;
    else high = middle;
  }
  return low < sorted.length && sorted[low] < end;
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
  const end = segments.reduce((most, s) => Math.max(most, s.left + s.width), 0);
  const words = lane.other ? [wordsOf(ctx, lane.other, end)] : [];
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
function wordsOf(ctx, other, end) {
  const ideal = ctx.view.ideal_s / ctx.scale_s * ctx.trackPx;
  const at = end * ctx.trackPx + 4;
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
function drawChip(ctx, chip, place, before, state) {
  const { piece: piece2, left, width } = place;
  const { lane } = state;
  const px = width * ctx.trackPx;
  const marks = marksOf(ctx, place, before, state);
  const texts = textsOf(ctx, place, before, state, marks, px);
  const colour = ctx.look.mode === "kind" ? null : cividis(ctx.look.value(piece2, lane) / ctx.look.top);
  patch(chip, {
    class: `b-chip${piece2.block.kind === "block" ? "" : " other"}${marks.classes}${px < 20 ? " slim" : ""}${texts.tight ? " tight" : ""}${colour && !marks.hole ? " filled" : ""}`,
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
function marksOf(ctx, { piece: piece2 }, before, { lane, chosen, leaving, pinned }) {
  const selected = chosen != null && heldBy(chosen, piece2.first, piece2.count) === "all";
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
function textsOf(ctx, place, before, { lane }, { selected, away }, px) {
  const { piece: piece2 } = place;
  const { mode, value } = ctx.look;
  const timed = mode === "kind" || mode === "time";
  const number = timed ? seconds(ownTime(piece2)) : bytes(value(piece2, lane));
  place.number = number;
  const label = pieceLabel(piece2);
  if (px < 5 + 7 * Math.max(2, label.length)) return { label: "", number: "", tight: false };
  const tight = px < 12 + 7 * label.length;
  if (away) {
    const words = `B: ${away}`;
    return { label, tight, number: px >= 12 + 6.2 * words.length ? words : px >= 40 ? `B: ${away.replace(/^Stages? /, "")}` : "" };
  }
  const told = (!before || number !== before.number || selected) && px >= 34;
  return { label, tight, number: !told ? "" : px >= 10 + 6 * number.length ? number : "" };
}
function nameOf(ctx, piece2, lane, { held, away, broken }) {
  const memory = piece2.state_bytes + piece2.saved_bytes * Math.max(1, lane.in_flight);
  const inside2 = piece2.block.layers.length;
  const more = [
    piece2.whole && !piece2.layer && inside2 > 1 ? `${inside2} layers` : "",
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
function drawHandles(ctx, place, boundaries, ends) {
  const last = Math.max(...ends.values());
  keyed(
    place,
    boundaries.filter((boundary) => ends.has(boundary.before)),
    (boundary) => boundary.id,
    make,
    (handle, boundary) => drawHandle(ctx, handle, boundary, ends.get(boundary.before), last)
  );
}
function drawHandle(ctx, handle, boundary, end, laneEnd) {
  const pulled = ctx.preview?.boundary === boundary.id;
  const shift2 = pulled ? ctx.preview.shift_s / ctx.scale_s : 0;
  const refused = boundaryRefusal(ctx.view, boundary);
  const { layers, blocks } = ctx.catalog;
  const at = pulled ? ctx.preview.to : boundary.at;
  const lastName = blocks[layers[at - 1]?.block]?.name ?? "nothing";
  patch(handle, {
    class: `b-handle${pulled ? " pulled" : ""}${end < laneEnd - 1e-9 ? " inner" : ""}`,
    style: { left: pct(Math.min(0.985, Math.max(0, end + shift2))) },
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
  if (lane.peak_bytes > (lane.most_bytes ?? lane.capacity_bytes)) return "bad";
  return mayFit(lane) || lane.peak_bytes / lane.capacity_bytes >= 0.9 ? "warn" : "";
}
var mayFit = (lane) => lane.peak_bytes > (lane.fits_bytes ?? Infinity) && lane.peak_bytes <= (lane.most_bytes ?? lane.capacity_bytes);
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
    const alone = name === "" || members.length < 2;
    const folded = !alone && collapsed.has(name);
    const head = alone ? [] : [{ type: "group", name, lanes: members, folded }];
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
    fullest: lanes.reduce((a, b) => full(b) > full(a) ? b : a)
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
var allAlike = (links) => links.length > 2 && links.every((link) => link.kind === links[0].kind && link.step_bytes === links[0].step_bytes);
function linkClass(kind) {
  if (kind === "nvlink" || kind === "nvswitch" || kind === "fabric") return "nvlink";
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
function compactDevices(lane) {
  const groups = lane.replicas.map(rangeWords);
  if ((lane.replica_count ?? groups.length) === groups.length && groups.join(" ").length <= MOST_LETTERS) return groups;
  if (lane.span) return [rangeWords(lane.span)];
  return [plural(lane.device_count ?? lane.replicas.length, "device")];
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
  fabric: "chip fabric",
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
  head.append(h("span", { class: "sx-space" }), head.legend, head.modes, fit, keysButton("board"));
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
  const links = [...new Set(all.map((link) => link.kind))];
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
  patch(parts.side, { text: level === "bad" ? `+${bytes(over)} over` : mayFit(lane) ? "may fit" : level === "warn" ? `${bytes(-over)} left` : flight });
  const segments = memorySegments(lane.memory, scale);
  const words = segments.map((segment) => `${segment.name} ${bytes(segment.bytes)}`);
  const beside = lane.other ? `; ${ctx.view.other_name}: ${bytes(lane.other.peak_bytes)}` : "";
  patch(element, {
    title: `${words.join("\n")}
${lane.in_flight} microbatches in flight`,
    "aria-label": `memory ${bytes(lane.peak_bytes)} of ${bytes(lane.capacity_bytes)}${level === "bad" ? `, over by ${bytes(over)}` : mayFit(lane) ? ", may fit" : ""}: ${words.join(", ")}${beside}`
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
    kind: h("span", { class: "b-kind" }),
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
  const { chips, over, slot, other, handles, end } = parts;
  element.append(
    h("div", { class: "b-name" }, h("span", { class: "b-title" }, parts.title, parts.kind, parts.lock), parts.devices),
    parts.memory,
    h("div", { class: "b-cell-track" }, h("div", { class: "b-track" }, chips, over, slot, other, handles, end))
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
  const bad = memoryLevel(shown) === "bad";
  patch(element, {
    class: `b-row b-lane${compact ? " compact" : ""}${isTarget ? " target" : ""}${bad && isTarget ? " bad" : ""}${refused ? " refused" : ""}${lane.locked ? " locked" : ""}`
  });
  drawName(parts, lane, compact);
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
  const chosen = holds(ctx.chosen);
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
    chosen,
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
  return { inputs: inputs2, compact, preview, isTarget, refused, chosen, leaving, pinned, pieces, boundaries };
}
function drawName(parts, lane, compact) {
  patch(parts.title, { text: lane.name });
  patch(parts.kind, { text: lane.kind ?? "", title: lane.kind ?? null });
  const locked = Boolean(lane.locked);
  if (parts.lock.hidden === locked) parts.lock.hidden = !locked;
  patch(parts.lock, { "aria-label": `Unlock ${lane.name}`, title: `${lane.name} keeps exactly its layers. Press to unlock.` });
  if (stale(parts.devices, [compact, lane.group, lane.replicas, lane.replica_count, lane.replica_link, lane.span]))
    drawDevices(parts.devices, lane, compact);
}
function deviceItems(lane, compact) {
  if (compact) return compactDevices(lane).map((text, i) => ({ key: `r${i}`, text }));
  const shown = shownReplicas(lane.replicas);
  const more = replicaCount(lane) - shown;
  return lane.replicas.slice(0, shown).flatMap((group, i) => [
    ...i && lane.replica_link ? [{ key: `link${i}`, link: lane.replica_link }] : [],
    { key: `r${i}`, text: rangeWords(group) }
  ]).concat(more > 0 ? [{ key: "more", text: `+${more}` }] : []);
}
function drawDevices(element, lane, compact) {
  const items = deviceItems(lane, compact);
  const link = lane.replica_link;
  const reduced = link?.step_bytes ? `; ${bytes(link.step_bytes)} of gradients a step over ${link.name ?? link.kind}` : "";
  patch(element, { title: (lane.group ? `${lane.group}: ` : "") + deviceWords(lane) + reduced });
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
var replicaCount = (lane) => lane.replica_count ?? lane.replicas.length;
function deviceWords(lane) {
  const groups = lane.replicas.map(rangeWords);
  const more = replicaCount(lane) - groups.length;
  if (more > 0) groups.push(`${more} more`);
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
    (chip, place, i) => drawChip(ctx, chip, place, placed[i - 1], state)
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
function drawEnd(ctx, element, { lane, preview, isTarget, refused, bad, boundaries, end, ideal, compact }) {
  const [now, then] = [lane, preview ?? lane].map(time);
  const changes = preview && Math.abs(now - then) > 1e-12;
  const { binds } = preview ?? lane;
  const words = `${overIdeal(preview ?? lane, ctx.view.ideal_s)}${binds ? preview && !lane.binds ? ", would bind" : " binds" : ""}${lane.locked ? ", locked" : ""}`;
  const empty = !lane.runs.length && !preview;
  patch(element.children[0], { text: empty ? "empty" : changes ? `${secondsParts(now, then).text} → ${seconds(then)}` : seconds(now) });
  patch(element.children[1], { text: empty ? "drop layers here" : words });
  const px = ctx.trackPx;
  const wide = (changes ? 128 : 62) + (compact ? 56 : 0);
  let left = end * px + (boundaries.length ? 20 : 8);
  if (left < ideal * px + 6 && left + wide > ideal * px) left = ideal * px + 8;
  const outside = left + wide > px;
  patch(element, {
    class: `b-end${binds ? " binds" : ""}${bad && isTarget ? " bad" : ""}${outside ? " inside" : ""}`,
    style: {
      left: outside ? null : `${left.toFixed(1)}px`,
      right: outside ? "2px" : null,
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
  const same = runs.filter((run) => run.stage === stage && (run.copy ?? 0) === copy);
  const all = [...positions, ...same.flatMap((run) => Array.from({ length: run.count }, (_, i) => run.first + i))];
  const merged = runsFrom(
    [...new Set(all)].sort((a, b) => a - b),
    stage,
    copy
  );
  const at = runs.findIndex((run) => same.includes(run));
  const others = runs.filter((run) => !same.includes(run));
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
  const slowest = lanes.reduce((most, lane) => Math.max(most, time2(lane)), 0);
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
  let [start, end] = [first, first];
  while (start > 0 && now[start - 1] === target) start -= 1;
  while (end < now.length && now[end] === target) end += 1;
  const way = [];
  if (now.subarray(0, start).includes(target)) way.push(target);
  if (start > 0) way.push(now[start - 1]);
  way.push(target);
  if (end < now.length) way.push(now[end]);
  const bytes2 = catalog.layers[Math.max(0, end - 1)]?.output_bytes ?? 0;
  const worst = before.links.reduce((most, link) => Math.max(most, secondsPerByte(link)), 0);
  return { extra, bytes: bytes2, seconds: bytes2 * worst, way };
}
var secondsPerByte = ({ transfer_s, forward_bytes }) => transfer_s > 0 && forward_bytes > 0 ? transfer_s / forward_bytes : 0;
function tileValues(before, after, extra_s = 0) {
  const memory = after.lanes.reduce((most, lane) => Math.max(most, lane.peak_bytes / lane.capacity_bytes), 0);
  const known2 = before.estimate;
  if (!known2) return { step_time: null, throughput: null, memory, bubble: null, mfu: null };
  const one = (lanes) => lanes.reduce((sum, lane) => sum + time2(lane), 0);
  const batches = Math.max(1, known2.microbatches);
  const then = after.lanes.map(
    (lane, i) => Math.max(0, (known2.busy_s[lane.id] ?? 0) + batches * (time2(lane) - time2(before.lanes[i])))
  );
  const now = before.lanes.map((lane) => known2.busy_s[lane.id] ?? 0);
  const slower = Math.max(0, ...then) - Math.max(0, ...now);
  const step = Math.max(
    Math.max(0, ...then),
    known2.step_s + slower * (batches - 1) / batches + one(after.lanes) - one(before.lanes) + extra_s
  );
  const work = then.reduce((a, b) => a + b, 0) / (now.reduce((a, b) => a + b, 0) || 1);
  return {
    step_time: step,
    throughput: known2.samples * known2.tokens_per_sample / step,
    memory,
    bubble: known2.bubble == null ? null : Math.min(1, Math.max(0, 1 - (1 - known2.bubble) * work * known2.step_s / step)),
    mfu: known2.mfu == null ? null : known2.mfu * known2.step_s / step
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
function nextStop(catalog, boundary, expanded, step) {
  const all = stops(catalog, boundary, expanded);
  return all[all.indexOf(boundary.at) + step] ?? null;
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
    document.removeEventListener("pointerdown", outside, true);
    ctx.closeMenu = null;
    if (refocus) opener.focus();
  };
  const outside = (event) => {
    if (!menu.contains(event.target)) close(false);
  };
  ctx.closeMenu = close;
  menu.addEventListener("click", (event) => {
    const chosen = event.target.closest("button:not([aria-disabled])");
    if (!chosen) return;
    close();
    if (chosen.dataset.toLane != null) ctx.move(positions, chosen.dataset.toLane);
    else if (chosen.dataset.hold === "pin") ctx.togglePins(positions);
    else ctx.toggleLock(chosen.dataset.hold);
  });
  menu.addEventListener("keydown", (event) => menuKey(event, items, close));
  ctx.root.append(menu);
  placeMenu(ctx, menu, opener, at);
  document.addEventListener("pointerdown", outside, true);
  (items.find((button) => !button.ariaDisabled) ?? items[0]).focus();
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
  const button = (action, text, click) => h("button", { class: "sx-btn", "data-action": action, text, on: { click } });
  const facts = h("div", { class: "b-facts" });
  const pin = button("pin", "Pin", () => ctx.togglePins(ctx.selected));
  const lock = button("lock", "Lock lane", () => ctx.toggleLock(homeOf(ctx, ctx.selected)?.id));
  const moveTo = button("move-to", "Move to…", () => openMoveMenu(ctx, moveTo));
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
  const shut = ctx.model.link?.shut;
  const off = shut ? "Not without the kernel" : !ctx.editable ? "This board is only shown" : carrying ? "Drop what you carry first" : "Select a block first";
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
function enable(button, on) {
  if (button.disabled === on) button.disabled = !on;
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
  let place = null;
  for (const [lane, pieces] of ctx.pieces) {
    if (pieces.some((piece2) => piece2.key === key)) return { lane, key };
    const same = pieces.find((piece2) => piece2.first <= first && first < piece2.first + piece2.count);
    if (same) place = { lane, key: same.key };
  }
  return place;
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
    "aria-label": `${name}, ${plural(lanes.length, "lane")}, slowest ${sum.slowest.name}, fullest ${sum.fullest.name} with ${bytes(sum.fullest.peak_bytes)} a device`
  });
  if (folded) drawMemory(ctx, memory, sum.fullest, null);
  patch(track.firstChild, {
    style: { width: pct(Math.min(1, time3(sum.slowest) / ctx.scale_s)), display: folded ? null : "none" }
  });
  const over = lanes.filter((lane) => memoryLevel(lane) === "bad").length;
  patch(track.lastChild, {
    text: `${plural(lanes.length, "lane")}, ${seconds(sum.time_s)} in all; slowest ${sum.slowest.name}: ${seconds(time3(sum.slowest))}, ${overIdeal(sum.slowest, ctx.view.ideal_s)}; fullest ${sum.fullest.name}: ${bytes(sum.fullest.peak_bytes)} a device${over ? `; ▲ ${over} over capacity` : ""}`
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
  const same = !target || target.runs === ctx.lane(carried.target).runs;
  const way = same ? null : detour(ctx.catalog, ctx.view, view, carried.positions, carried.target);
  return { ...carried, view: same ? null : view, refused: null, detour: way && way.extra > 0 ? way : null };
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
  const over = memoryLevel(next) === "bad" ? next.peak_bytes - next.capacity_bytes : 0;
  return `${signed(seconds(time4(next) - time4(was)))}, ${signed(bytes(next.peak_bytes - was.peak_bytes))} a device${over > 0 ? `; ${bytes(over)} over capacity` : ""}`;
}
function verdictOf(ctx, preview) {
  const note = `${preview.simulated ? "Simulated" : "Estimate"}. Esc cancels.`;
  if (preview.refused) return { level: "warn", text: `**Cannot move.** ${preview.refused}.`, note };
  const { view } = preview;
  if (!view) return { level: "none", text: "Over its own lane: nothing would change.", note };
  const over = (lane) => lane.peak_bytes - lane.capacity_bytes;
  const full = view.lanes.filter((lane) => memoryLevel(lane) === "bad");
  const worst = full.reduce((a, b) => over(b) > over(a) ? b : a, full[0]);
  const slowest = view.lanes.reduce((a, b) => time4(b) > time4(a) ? b : a);
  const away = (lane) => `${seconds(time4(lane))}, ${percent(Math.abs(time4(lane) / view.ideal_s - 1))} ${time4(lane) >= view.ideal_s ? "over" : "under"} the ideal cut`;
  const way = preview.detour ? ` Running out of order: ${detourWords(view, preview.detour)}${preview.simulated ? "" : "; lanes may also wait for each other"}.` : "";
  if (worst)
    return {
      level: "bad",
      text: `**Would not fit.** ${worst.name}: ${bytes(over(worst))} over capacity and ${away(worst)}.${full.length > 1 ? ` ${full.length} lanes would be over.` : ""}${way}`,
      note
    };
  const still = slowest.binds && !(slowest.id === preview.target && !ctx.lane(slowest.id)?.binds);
  const binds = !still ? "would bind" : slowest.name.startsWith("Stages") ? "bind" : "binds";
  return { level: "ok", text: `**Would fit.** ${slowest.name} ${binds}: ${away(slowest)}.${way}`, note };
}
function tellPreview(ctx, preview, answered = false) {
  const bench = ctx.model.get("bench") ?? "";
  document.dispatchEvent(new CustomEvent("sx-preview", { detail: { bench, answered, ...detailOf(ctx, preview) } }));
}
function detailOf(ctx, preview) {
  if (!preview || preview.target == null && !preview.boundary) return { values: null, levels: {}, verdict: null };
  const verdict = verdictOf(ctx, preview);
  const view = preview.view ?? ctx.view;
  const found = preview.detour;
  const values = preview.simulated ?? tileValues(ctx.view, view, found ? 2 * found.extra * found.seconds : 0);
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
  fabric: "chip fabric",
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
  const thin = compact && ctx.once("thin", [ctx.view.links], () => allAlike(ctx.view.links));
  if (!stale(element, [lane.runs, compact, thin, found, last, ctx.order, ...mine])) return;
  const notes = lane.runs.map((run) => run.note).filter(Boolean);
  if (found) notes.splice(0, notes.length, detourWords(ctx.preview.view, found));
  patch(element, {
    class: `b-row b-links${compact ? " compact" : ""}${thin ? " thin" : ""}${last && !mine.length && !notes.length ? " last" : ""}`
  });
  const shown = mine.slice(0, compact ? 1 : 2);
  const rows = [
    ...compact ? [] : notes.map((note, i) => ({ key: `note${i}`, note })),
    ...shown.map((link) => ({
      key: `to:${link.to_lane}:${link.kind}`,
      link,
      far: ctx.order.get(link.to_lane) !== ctx.order.get(lane.id) + 1
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
  patch(div, { title: `${name}: ${words}`, role: "img", "aria-label": `${name}: ${words}` });
  patch(label, { text: compact ? "" : name });
  patch(arrow, {
    class: `b-arrow b-k-${linkClass(link.kind)}${link.dashed ? " dashed" : ""}${link.backward_bytes ? " both" : ""}`
  });
  patch(arrow.firstChild, { style: { height: `${linkThickness(link.step_bytes)}px` } });
  patch(text, { text: compact ? "" : words });
}

// src/board/overview.js
var MOST_CUTS = 64;
var MOST_NAMED = 24;
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
  const named = view.lanes.length <= MOST_NAMED;
  if (stale(element, [catalog, ctx.trackPx, named])) {
    const [name, time5] = element.children;
    patch(name.lastChild, { text: `${plural(catalog.layers.length, "layer")}${named ? "   ▲ ideal cut" : ""}` });
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
    (segment, { owner, first, end }) => patch(segment, {
      class: owner < 0 ? "nowhere" : owner % 2 ? "odd" : "even",
      title: view.lanes[owner]?.name ?? "nowhere",
      style: { left: pct(catalog.until[first]), width: pct(catalog.until[end] - catalog.until[first]) }
    })
  );
}
function drawSeams(ctx, element) {
  const { catalog } = ctx;
  const px = (b) => (catalog.until[catalog.starts[b + 1]] - catalog.until[catalog.starts[b]]) * ctx.trackPx;
  const wide = catalog.blocks.length < 2 || ctx.trackPx / catalog.blocks.length > 4;
  const items = catalog.blocks.flatMap((block, b) => {
    const left = catalog.until[catalog.starts[b]];
    const named = block.kind !== "block" && px(b) > 8 * block.label.length;
    return [
      ...wide && b ? [{ key: `x${b}`, left, width: null, text: "" }] : [],
      ...named ? [{ key: `n${b}`, left, width: px(b) / ctx.trackPx, text: block.label }] : []
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
    (mark, { first, end }) => patch(mark, { style: { left: pct(until[first]), width: `max(2px, ${pct(until[end] - until[first])})` } })
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
  })).filter((mark) => length <= MOST_NAMED && mark.width * trackPx > 7 * mark.text.length);
  const ideals = Array.from({ length: length > MOST_NAMED ? 0 : Math.max(0, length - 1) }, (_, i) => ({
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
  const px = MEMORY_PX[ctx.compact ? "compact" : "full"][ctx.narrow ? 1 : 0];
  const apart = (size) => (capacity - size) / ctx.memory_bytes * px > 44;
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
    (tick, value, i) => patch(tick, {
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
    (tick, e) => patch(tick, {
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
  const near = y < top + reach ? y - (top + reach) : y > bottom - reach ? y - (bottom - reach) : 0;
  return Math.max(-1, Math.min(1, near / reach)) * FASTEST_PX;
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
  constructor(root, changed2, near = /* @__PURE__ */ new Set()) {
    this.near = near;
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
      { root, rootMargin: root ? "160px 0px" : "300px 0px" }
      // in a box that scrolls, some five lanes
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
var LAZY_LANES = 24;
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
  ctx.linksOf = ctx.once("linksOf", [view.links], () => by(view.links, (link) => link.from_lane));
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
    const { scheduler } = (
      /** @type {any} */
      globalThis
    );
    if (scheduler?.postTask) return void scheduler.postTask(done, { priority: "user-blocking" });
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
    const { ghost } = this;
    if (ghost) this.ctx.hold.take(() => ghost.remove());
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

// src/board/hold.js
var HOLD_MS = 60;
var Hold = class {
  /** @param {BoardContext} ctx */
  constructor(ctx) {
    this.ctx = ctx;
    this.timer = 0;
    this.leaving = [];
  }
  get on() {
    return this.timer !== 0;
  }
  begin() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.end(), HOLD_MS);
  }
  /** Take something off the page: at once, or with the preview that stands. @param {() => void} remove */
  take(remove) {
    if (this.on) this.leaving.push(remove);
    else remove();
  }
  /** The answer is there, or takes too long: draw what is known. */
  end() {
    this.drop(() => this.ctx.show(), true);
  }
  /** The preview is over, for the tiles as well. @param {() => void} [draw] @param {boolean} [answered] their own answer follows */
  drop(draw = () => {
  }, answered = false) {
    const { preview } = this.ctx;
    clearTimeout(this.timer);
    this.timer = 0;
    this.ctx.preview = null;
    for (const remove of this.leaving.splice(0)) remove();
    draw();
    if (preview) tellPreview(this.ctx, null, answered);
  }
};

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
    if (carried && to && !ctx.root.contains(to)) end(false);
  });
  ctx.putDown = () => carried && end(false);
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
    if (drop || event.key === "Escape" || event.key === "Tab") end(drop);
    else carried.key(event.key);
    return event.key !== "Tab";
  }
  function end(drop) {
    const done = carried;
    carried = null;
    if (drop) return done.drop();
    ctx.setPreview(null);
    return ctx.say("Move cancelled");
  }
}
function carryLayers(ctx, positions, from) {
  let lane = from;
  const show = () => ctx.setPreview({ positions, target: lane });
  show();
  return {
    key(key) {
      const order = ctx.view.lanes.map((item2) => item2.id);
      const at = order.indexOf(lane);
      const to = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - PAGE_LANES, PageDown: at + PAGE_LANES, Home: 0, End: order.length }[key];
      if (to == null) return;
      const next = order[Math.max(0, Math.min(order.length - 1, to))];
      if (next === lane) return;
      lane = next;
      show();
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
      const step = STEPS[key];
      if (step == null) return;
      const next = nextStop(ctx.catalog, { ...boundary, at: to }, ctx.expanded, step);
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
function keyAt(ctx, chip, { along, lanes, end }) {
  const rows = ctx.rowElements.filter((row) => row.dataset.lane != null).map((row) => row.dataset.lane);
  const filled = rows.filter((id) => ctx.pieces.get(id).length);
  const own = laneOf2(chip);
  const mine = ctx.pieces.get(own);
  const at = mine.findIndex((piece2) => piece2.key === chip.dataset.key);
  if (end != null) return { lane: own, key: mine.at(end).key };
  if (along) {
    const inside2 = mine[at + along];
    if (inside2) return { lane: own, key: inside2.key };
    const lane2 = filled[filled.indexOf(own) + along];
    return lane2 == null ? null : { lane: lane2, key: ctx.pieces.get(lane2).at(along > 0 ? 0 : -1).key };
  }
  const place = filled.indexOf(own);
  const lane = filled[Math.max(0, Math.min(filled.length - 1, place + lanes))];
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
function moveToNeighbour(ctx, chip, step) {
  const order = ctx.view.lanes.map((lane) => lane.id);
  const target = order[order.indexOf(laneOf2(chip)) + step];
  if (target == null) return ctx.say("No lane there"), true;
  ctx.move(selectionOr(ctx, chip), target);
  return true;
}
function shiftEnd(ctx, chip, step, side) {
  const lane = ctx.lane(laneOf2(chip));
  const first = Number(chip.dataset.first);
  const stage = lane.runs.find((run) => run.first <= first && first < run.first + run.count)?.stage;
  const boundary = ctx.view.boundaries.find((b) => b[side] === stage) ?? ctx.view.boundaries.find((b) => b[side === "before" ? "after" : "before"] === stage);
  if (!boundary) return ctx.say("No boundary here");
  return shift(ctx, boundary, step);
}
function shift(ctx, boundary, step) {
  const to = nextStop(ctx.catalog, boundary, ctx.expanded, step);
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
  const step = STEPS[event.key];
  return step != null && shift(ctx, boundary, step);
}
function modesKey(ctx, event) {
  const radio = event.target.closest?.("[role=radio]");
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!radio || !step) return false;
  const all = [...radio.parentElement.children];
  const next = all[(all.indexOf(radio) + step + all.length) % all.length];
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
    links: settledList(old.links, next.links, (link) => `${link.from_lane}>${link.to_lane}>${link.kind}`),
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
    this.answer = null;
    this.hold = new Hold(this);
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
    this.hear = (content) => this.considered(content);
    model.on("msg:custom", this.hear);
    this.unwork = onWorking(
      () => model.get("bench") ?? "",
      (text) => this.root.classList.toggle("b-waiting", Boolean(text))
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
    return this.actual.editable !== false && !this.model.link?.shut;
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
    const known2 = this.preview?.simulated && this.preview.target === target ? this.preview.view : null;
    const view = known2 ?? moved(this.catalog, this.view, positions, target);
    this.commit(view, kind, fields, () => this.result(what, target));
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
    const { time: time5, memory } = laneWords(lane);
    return `${what} moved to ${lane.name}: ${time5}, ${memory}`;
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
};
function render({ model, el }) {
  const context = new BoardContext(model, el);
  return () => context.close();
}
var board_default = { render: linked(render) };
export {
  board_default as default
};
