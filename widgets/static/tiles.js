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
function bold(text) {
  return String(text ?? "").split("**").map((part, i) => i % 2 ? h("b", { text: part }) : document.createTextNode(part));
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
  let timer = setTimeout(look, LOOK_MS);
  const stop = () => clearTimeout(timer);
  const send = (hello) => {
    try {
      model.send({ hello });
    } catch {
      stop();
    }
  };
  send("here");
  function look() {
    if (model.get("heard") !== before) return;
    if (manager.kernel?.status === "idle") left -= 1;
    if (left > 0) timer = setTimeout(look, LOOK_MS);
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
var sinceWords = (ms) => ms < 1e3 ? "" : `${Math.floor(ms / 1e3)} s`;

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
var join = ({ text, unit }) => unit ? `${text}${NBSP}${unit}` : text;
var typeset = (text) => String(text ?? "").replace(/(\d)%/g, "$1 %").replace(/(\d)[ \u00a0]?us\b/g, "$1 µs");

// src/tiles/own.js
var HEAD = 2e5;
var TAIL = 2e6;
function excerpt(text) {
  if (text.length <= HEAD + TAIL) return text;
  return `${text.slice(0, HEAD)}
${text.slice(-TAIL)}`;
}
var Own = class {
  /** @param {(fields: Record<string, string>) => void} send @param {(action: string) => void} act */
  constructor(send, act) {
    this.send = send;
    const field = (name, label, hint) => h("label", {}, h("span", { text: label }), h("input", { name, placeholder: hint, autocomplete: "off", spellcheck: "false", class: "t-input" }));
    this.file = h("input", { type: "file", class: "t-file", "aria-label": "Log of a trainer", on: { change: () => this.read(this.file.files?.[0]) } });
    this.form = h(
      "form",
      { class: "t-own-form", "aria-label": "A step that you measured" },
      field("time", "Step time", "2.31 s"),
      field("memory", "Peak memory, if known", "41.5 GiB"),
      h("button", { class: "sx-btn", type: "submit", text: "Calibrate" }),
      h("label", { class: "t-drop" }, h("span", { text: "or a trainer’s log:" }), this.file)
    );
    this.problem = h("p", { class: "t-own-error", role: "alert" });
    this.said = h("div", { class: "t-own-said", role: "status", "aria-live": "polite" });
    this.undo = h("button", { class: "sx-btn", text: "Undo", title: "Back to the profile as it was", on: { click: () => act("undo") } });
    this.element = h(
      "details",
      { class: "t-own" },
      h("summary", {}, h("span", { text: "I measured …" })),
      this.form,
      this.problem,
      this.said,
      this.undo
    );
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = new FormData(this.form);
      this.send({ time: String(values.get("time") ?? ""), memory: String(values.get("memory") ?? ""), log: "" });
    });
    for (const [name, on] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
      this.element.addEventListener(name, (event) => {
        if (![...event.dataTransfer?.types ?? []].includes("Files")) return;
        event.preventDefault();
        this.element.classList.toggle("over", on);
        if (name === "drop") this.read(event.dataTransfer.files?.[0]);
      });
    }
  }
  /** Send what a file says. @param {File|undefined} file */
  async read(file) {
    if (!file) return;
    const memory = this.form.elements.namedItem("memory").value;
    this.send({ time: "", memory, log: excerpt(await file.text()) });
    this.file.value = "";
  }
  /** @param {any} own `view.own`; null where nothing can be measured @param {boolean} shut */
  draw(own, shut) {
    this.element.hidden = own == null;
    if (own == null) return;
    this.form.inert = shut;
    this.undo.hidden = !own.text;
    this.undo.disabled = shut;
    set(this.problem, { text: own.error ?? "" });
    this.problem.hidden = !own.error;
    this.said.hidden = !own.text;
    if (own.error || own.text) this.element.open = true;
    const look = JSON.stringify(own);
    if (this.said.dataset.look === look) return;
    this.said.dataset.look = look;
    this.said.replaceChildren(
      ...own.text ? [
        h("p", {}, ...bold(typeset(own.text)), " Band ", h("b", { text: typeset(own.band) }), "."),
        h("ul", {}, ...own.lines.map((line) => h("li", { text: typeset(line) }))),
        h("p", { text: typeset(own.next) }),
        h("p", { class: "t-own-file", text: `Saved as ${own.file}; plans and exports name it.` })
      ] : []
    );
  }
};

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
function previewOf(detail, bench, before) {
  if (!detail || (detail.bench ?? "") !== (bench ?? "")) return before;
  return detail.values ? detail : null;
}
var ANSWER_MS = 100;
var Ending = class {
  /** @param {() => any} view what Python says now @param {() => void} over */
  constructor(view, over) {
    this.view = view;
    this.over = over;
    this.timer = 0;
  }
  get on() {
    return this.timer !== 0;
  }
  /** A preview begins. */
  begin() {
    this.before = this.view();
  }
  /** The board has its answer: does this widget still wait for its own? If so, what is shown stands a moment. */
  waits() {
    if (this.view() !== this.before) return false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.over();
    }, ANSWER_MS);
    return true;
  }
  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }
};

// src/tiles/words.js
function valueParts({ quantity, value, unit }) {
  if (!known(value)) return { text: DASH, unit: "" };
  if (quantity === "seconds") return secondsParts(value);
  if (quantity === "bytes") return bytesParts(value);
  if (quantity === "fraction") return { text: fixed(value * 100, Math.abs(value) >= 0.9 ? 0 : 1), unit: "%" };
  if (quantity === "ratio") return { text: significant(value), unit: "×" };
  return { text: significant(value), unit: unit ?? "" };
}
function valueText({ quantity, unit }, value) {
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
  if (compare === "difference") return signed(valueText(tile, value - baseline));
  return baseline === 0 ? null : signed(percent(value / baseline - 1, 1));
}
function bandText(tile) {
  const { value, low, high } = tile;
  if (!known(value) || !known(low) || !known(high)) return null;
  const half = Math.max(high - value, value - low);
  if (tile.quantity === "fraction") return `±${fixed(half * 100, 1)} pt`;
  if (tile.compare === "difference" || value === 0) return `±${valueText(tile, half)}`;
  return `±${percent(half / value, half < 0.1 * value ? 1 : 0)}`;
}
function endsText(tile) {
  const [low, high] = [valueText(tile, tile.low), valueText(tile, tile.high)];
  const [number, unit] = low.split(/(?=\u00a0\D|\s[^\d\s])/);
  return unit && high.endsWith(unit) ? `${number}–${high}` : `${low}–${high}`;
}
function bandTitle(tile) {
  const from = tile.band_from ? `. ${tile.band_from}` : "";
  return `80 % band ${valueText(tile, tile.low)} to ${valueText(tile, tile.high)}${from}`;
}
var outside = ({ measured, low, high, old }) => !old && known(measured) && known(low) && known(high) && (measured < low || measured > high);
function measuredText(tile) {
  if (known(tile.measured))
    return {
      lead: tile.old ? "measured before" : "measured",
      value: `${valueText(tile, tile.measured)}${outside(tile) ? " ▲" : ""}`
    };
  if (known(tile.now)) return { lead: "now", value: valueText(tile, tile.now) };
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
function bandOf({ value, low, high, measured, old }) {
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
  const worse = tile.level === "bad" ? ", too much" : tile.level === "warn" ? ", tight" : "";
  set(element, {
    "data-kpi": tile.key,
    class: `t-tile ${tile.level ?? ""}${tile.preview ? " preview" : ""}${tile.waits ? " waits" : ""}`,
    "aria-label": `${tile.name} ${text} ${unit} ${tile.context ?? ""}${worse}`.replace(/\s+/g, " ").trim()
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
  const same = change != null && !tile.preview && !/[1-9]/.test(change);
  set(delta.firstChild, { text: same ? "" : change ?? "" });
  set(delta.lastChild, { text: same ? against(tile, change).replace(/^vs/, "same as") : against(tile, change) });
  const line = measuredText(tile);
  set(measured.children[1], { text: typeset(line.lead) });
  set(measured.children[2], { text: line.value });
  const out = outside(tile);
  set(measured, {
    class: `t-measured${out ? " outside" : ""}`,
    "aria-label": out ? `${line.lead} ${line.value}, outside the predicted error band` : null,
    role: out ? "note" : null
  });
  const band = tile.note && tile.measured == null ? null : bandOf(tile);
  const look = JSON.stringify(band);
  if (measured.firstChild.dataset.look === look) return;
  measured.firstChild.dataset.look = look;
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
    (button, a) => set(button, {
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
          const button = event.target.closest("[data-action]");
          if (button && button.getAttribute("aria-disabled") !== "true") act(button.dataset.action);
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
    visible.find((button) => button && button.offsetParent)?.focus();
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
  const [topic, text, button] = element.children;
  set(element, { class: `t-reason${row.old ? " old" : ""}${row.worth ? " worth" : ""}`, "data-reason": row.key });
  set(topic, { text: row.topic });
  if (text.dataset.text !== row.text) {
    text.dataset.text = row.text;
    text.replaceChildren(...bold(typeset(row.text)));
  }
  button.hidden = !row.action;
  set(button, {
    "data-action": row.action ?? null,
    "aria-disabled": row.old ? "true" : null,
    "aria-label": row.action ? `Apply: ${row.label}${row.old ? " (of the former plan)" : ""}` : null,
    title: row.label ?? null,
    class: `sx-btn${row.worth && !row.old ? " suggested" : ""}`
  });
}

// src/tiles/index.js
function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "tiles", "Predicted figures");
  const act = (action) => sync.send("action", { action });
  const tiles = h("div", { class: "t-tiles" });
  const verdict = makeVerdict(act);
  const why = new Why(act);
  const own = new Own((fields) => sync.send("measured", fields), act);
  root.append(tiles, own.element, verdict, why.element);
  const sync = new Sync(model, ["view"], () => changed());
  let preview = null;
  let working = null;
  let frame = 0;
  const ending = new Ending(
    () => model.get("view"),
    () => {
      preview = null;
      draw();
    }
  );
  function changed() {
    if (ending.on) preview = null;
    ending.stop();
    draw();
  }
  function draw() {
    cancelAnimationFrame(frame);
    const view = model.get("view") ?? {};
    root.dataset.state = preview ? "preview" : view.pending || sync.pending || working ? "computing" : "ready";
    tiles.hidden = !view.tiles?.length;
    tiles.style.setProperty("--count", view.tiles?.length ?? 1);
    const now = view.tiles ?? [];
    keyed(tiles, preview ? now.map((tile) => previewed(tile, preview)) : now, (tile) => tile.key, makeTile, drawTile);
    own.draw(view.own ?? null, model.link?.shut ?? false);
    holdVerdict(verdict, preview != null);
    drawVerdict(verdict, sentence(view.verdict));
    why.element.inert = model.link?.shut ?? false;
    const reasons = view.reasons ?? [];
    const ended = model.link?.state === "lost" && !reasons.some((row) => row.old);
    why.draw(reasons, !ended && (view.reasoning ?? false));
  }
  function sentence(now) {
    const { link } = model;
    if (link?.words) return { level: link.shut ? "bad" : "busy", text: link.words.text, actions: link.shut ? [] : now?.actions };
    if (working) return { level: "busy", text: `**${working.text}.**`, note: sinceWords(Date.now() - working.since), actions: [] };
    return preview ? previewedVerdict(now, preview) : now;
  }
  const unwork = onWorking(
    () => model.get("bench") ?? "",
    (text) => {
      clearInterval(working?.timer);
      working = text ? { text, since: Date.now(), timer: setInterval(draw, 1e3) } : null;
      draw();
    }
  );
  const listen = (event) => {
    const next = previewOf(event.detail, model.get("bench"), preview);
    if (next === preview) return;
    if (!next && event.detail.answered && ending.waits()) return;
    if (next && (!preview || ending.on)) ending.begin();
    ending.stop();
    preview = next;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(draw);
  };
  document.addEventListener(PREVIEW, listen);
  draw();
  return () => {
    document.removeEventListener(PREVIEW, listen);
    clearInterval(working?.timer);
    unwork();
    cancelAnimationFrame(frame);
    ending.stop();
    sync.close();
    close();
    root.remove();
  };
}
var tiles_default = { render: linked(render) };
export {
  tiles_default as default
};
