// src/common/dom.js
var SVG = "http://www.w3.org/2000/svg";
function h(tag2, attributes = {}, ...children) {
  const element = document.createElement(tag2);
  set(element, attributes);
  if ("tabindex" in attributes || /^(button|select|input|textarea|summary)$/.test(tag2)) {
    element.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  if (tag2 === "button" && !("type" in attributes)) element.setAttribute("type", "button");
  for (const child of children.flat()) if (child != null) element.append(child);
  return element;
}
function svg(tag2, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag2);
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
function cellsOf(table) {
  const rows = [...table.rows].filter((row) => row.getClientRects().length).map((row) => [...row.cells].map(textOf));
  const width = Math.max(0, ...rows.map((row) => row.length));
  const kept = Array.from({ length: width }, (_, i) => i).filter((i) => rows.slice(1).some((row) => row[i]));
  return rows.map((row) => kept.map((i) => row[i] ?? ""));
}
function textOf(cell) {
  const buttons = [...cell.querySelectorAll("button")].map((button) => button.innerText);
  const text = buttons.reduce((all, part) => part ? all.replace(part, "") : all, cell.innerText);
  return text.replace(/[\u00a0\u202f]/g, " ").replace(/\s+/g, " ").trim();
}
function markdown(rows) {
  const line = (cells2) => `| ${cells2.map((cell) => cell.replaceAll("\\", "\\\\").replaceAll("|", "\\|")).join(" | ")} |`;
  const [head = [], ...rest] = rows;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rest.map(line)].join("\n") + "\n";
}
function csv(rows) {
  const quoted = (cell) => /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
  return rows.map((cells2) => cells2.map(quoted).join(",") + "\r\n").join("");
}
var FORMS = [
  ["Copy", "markdown", "Copy the table as Markdown", markdown],
  ["CSV", "csv", "Copy the table as CSV", csv]
];
var SAID_MS = 1500;
function copyButtons(table) {
  return h(
    "span",
    { class: "sx-seg sx-copy" },
    FORMS.map(([text, action, title, make]) => {
      const button = h("button", { class: "sx-btn", text, title, "aria-label": title, "data-action": `copy-${action}` });
      button.addEventListener("click", async () => {
        const found = table();
        if (!found) return;
        const done = await copy(make(cellsOf(found)), button.parentElement);
        button.textContent = done ? "Copied" : "Not allowed";
        setTimeout(() => button.textContent = text, SAID_MS);
      });
      return button;
    })
  );
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
function pick(size, units2, least) {
  for (const unit of units2) if (size >= unit[0] * least) return unit;
  return units2[units2.length - 1];
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

// src/leaderboard/chart.js
var PATIENCE_MS = 8e3;
var LOOK_MS2 = 500;
var TRIES = 3;
var drawn = (place) => place?.querySelector(".js-plotly-plot .annotation") != null;
function watchChart(model, place, again, { patience = PATIENCE_MS, look = LOOK_MS2, tries = TRIES } = {}) {
  let left = tries;
  let timer = 0;
  const begin = () => {
    clearTimeout(timer);
    let waited = 0;
    const step = () => {
      const there = place();
      if (drawn(there)) return;
      if (there?.getClientRects?.().length && model.widget_manager?.kernel?.status !== "busy") waited += look;
      if (waited < patience) timer = setTimeout(step, look);
      else if (left > 0) {
        left -= 1;
        again();
      }
    };
    timer = setTimeout(step, look);
  };
  model.on("change:charts", begin);
  if (model.get("charts")) begin();
  return () => {
    clearTimeout(timer);
    model.off("change:charts", begin);
  };
}

// src/leaderboard/words.js
function units(rows) {
  const steps = rows.map((row) => row.step_s).filter(known);
  const peaks = rows.map((row) => row.peak_bytes).filter(known);
  const [step, peak] = [Math.min(...steps), Math.max(...peaks)];
  return {
    step: steps.length ? step : 1,
    peak: peaks.length ? peak : 2 ** 30,
    stepUnit: steps.length ? secondsParts(step).unit : "s",
    peakUnit: peaks.length ? bytesParts(peak).unit : "GiB"
  };
}
function heads(rows, objective) {
  const { stepUnit, peakUnit } = units(rows);
  return {
    searcher: "searcher",
    space: "chooses from",
    label: "best strategy",
    value: objective ? `${objective.name}, ${objective.unit}` : null,
    step: `step, ${stepUnit}`,
    change: "vs yours",
    peak: peakUnit,
    gap: "gap to bound",
    answer: "answer"
  };
}
function cells(row, rows) {
  const { step, peak } = units(rows);
  return {
    searcher: row.searcher,
    space: row.space,
    label: row.label,
    value: known(row.value) ? significantSmall(row.value) : DASH,
    step: known(row.step_s) ? secondsParts(row.step_s, step).text : DASH,
    change: row.id === "yours" ? "" : changeText(row.change),
    peak: known(row.peak_bytes) ? bytesParts(row.peak_bytes, peak).text : DASH,
    gap: known(row.gap) ? percent(row.gap) : "",
    answer: answerText(row)
  };
}
function changeText(change) {
  if (!known(change)) return "";
  const text = percent(change, 1);
  return text.replace(/[^0-9]/g, "").replace(/0/g, "") === "" ? percent(0) : signed(text);
}
var significantSmall = (x) => x !== 0 && Math.abs(x) < 0.0995 ? fixed(x, Math.min(12, 2 - Math.floor(Math.log10(Math.abs(x))))) : significant(x);
var answerText = ({ answer, wall_s: wall }) => known(wall) && wall > 0 ? answer ? `${answer}, ${wallText(wall)}` : wallText(wall) : answer;
var wallText = (s) => (s < 0.05 ? "< 0.1" : fixed(s, s < 9.95 ? 1 : 0)) + " s";
function gapShare(row, rows) {
  const most = Math.max(...rows.map((item) => item.gap).filter(known), 0);
  return known(row.gap) && most > 0 ? Math.max(2, 100 * Math.max(0, row.gap) / most) : 0;
}
function rowName(row) {
  const parts = [row.id === "yours" ? "yours, the strategy on the board" : row.searcher, row.label];
  if (known(row.step_s)) parts.push(`${seconds(row.step_s)} a step`);
  if (row.id !== "yours" && known(row.change)) parts.push(`${changeText(row.change)} against yours`);
  if (row.on_board && row.id !== "yours") parts.push("on the board");
  if (row.answer) parts.push(row.answer);
  if (row.note) parts.push(row.note);
  return parts.filter(Boolean).join(", ");
}
function nextRow(key, at, count) {
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: count - 1, PageDown: at + 5, PageUp: at - 5 }[key];
  return to == null || !count ? null : Math.min(count - 1, Math.max(0, to));
}
function frontierText(points, omitted) {
  const more = omitted ? `; ${plural(omitted, "more point")} in the chart` : "";
  return `nothing found is both faster and smaller${more}`;
}

// src/leaderboard/index.js
var COLUMNS = ["searcher", "space", "label", "value", "step", "change", "peak", "gap", "answer"];
var NUMBERS = /* @__PURE__ */ new Set(["value", "step", "change", "peak", "gap"]);
function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "leaderboard", "Search results");
  const load = h("button", { class: "sx-btn", text: "Load selected", "data-action": "load-selected", on: { click: loadSelected } });
  const undo = h("button", {
    class: "sx-btn",
    text: "Undo",
    "data-action": "undo",
    on: { click: () => sync.send("action", { action: "undo" }) }
  });
  const copying = copyButtons(() => grid);
  const head = h(
    "div",
    { class: "sx-head" },
    h("h2", { text: "Leaderboard" }),
    h("span", { class: "sx-sub" }),
    h("span", { class: "sx-space" }),
    load
  );
  const said = h("div", { class: "l-said", role: "status" }, h("span", {}), undo);
  const empty = h("p", { class: "l-empty" });
  const grid = h(
    "table",
    {
      class: "l-table",
      role: "grid",
      "aria-label": "Leaderboard: Enter or a click loads a strategy",
      on: { click: clicked, keydown: keyed_, focusin: focused }
    },
    h("thead", {}, h("tr", {})),
    h("tbody", {})
  );
  const frontier = makeFrontier((id) => sync.send("load_point", { point: id }));
  root.append(head, said, h("div", { class: "l-scroll" }, grid), copying, empty, frontier);
  const sync = new Sync(model, ["view", "selected"], draw, true);
  const rows = () => model.get("view")?.rows ?? [];
  const rowOf = (id) => rows().find((row) => row.id === id);
  function loadRow(id) {
    const row = rowOf(id);
    if (!row) return;
    select(id);
    if (row.loadable) sync.send("load", { row: id });
  }
  function loadSelected() {
    loadRow(model.get("selected"));
  }
  function select(id) {
    if (model.get("selected") !== id) sync.set("selected", id);
  }
  function clicked(event) {
    const id = event.target.closest("tbody tr")?.dataset.row;
    if (id) loadRow(id);
  }
  function focused(event) {
    const id = event.target.closest("tbody tr")?.dataset.row;
    if (id) select(id);
  }
  function keyed_(event) {
    const own = event.target.closest("tbody tr");
    if (!own || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      loadRow(own.dataset.row);
      return;
    }
    const all = [...grid.tBodies[0].rows];
    const to = nextRow(event.key, all.indexOf(own), all.length);
    if (to == null) return;
    event.preventDefault();
    all[to].focus();
  }
  function draw() {
    const view = model.get("view") ?? {};
    const list = view.rows ?? [];
    root.dataset.state = view.state ?? "empty";
    root.setAttribute("aria-busy", String(sync.pending));
    set(head.querySelector(".sx-sub"), { text: view.text ?? "" });
    const chosen = list.find((row) => row.id === model.get("selected"));
    load.hidden = copying.hidden = !list.some((row) => row.loadable);
    load.disabled = !chosen?.loadable || chosen.on_board;
    const onBoard = chosen?.on_board || chosen?.id === "yours";
    const off = onBoard ? "It is on the board" : chosen ? "This row has no strategy to load" : "Choose a row with the arrow keys";
    set(load, { title: load.disabled ? off : `Load ${chosen.searcher}: ${chosen.label}` });
    said.hidden = !view.said;
    set(said.firstChild, { text: view.said ?? "" });
    empty.hidden = root.dataset.state !== "empty";
    empty.replaceChildren(...empty.hidden ? [] : emptyWords(!list.length));
    grid.hidden = !list.length;
    drawHead(grid.tHead.rows[0], heads(list, view.objective), view);
    const focusable = chosen ? chosen.id : list[0]?.id;
    keyed(
      grid.tBodies[0],
      list,
      (row) => row.id,
      makeRow,
      (element, row) => drawRow(element, row, list, view, { selected: row.id === chosen?.id, focusable: row.id === focusable })
    );
    drawFrontier(frontier, view, list);
  }
  draw();
  const stopTelling = tellOfWidth(root, (width) => sync.set("chart_px", width));
  const stopWatching = watchChart(model, () => chartPlace(root), () => sync.send("chart_again"));
  return () => {
    stopTelling();
    stopWatching();
    sync.close();
    close();
    root.remove();
  };
}
function chartPlace(root) {
  let place = null;
  for (let parent = root.parentElement; parent && !place; parent = parent.parentElement) place = parent.querySelector(".xp-chart");
  return place;
}
function tellOfWidth(root, tell) {
  let told = 0;
  let timer = 0;
  let place = null;
  const look = () => {
    place ??= chartPlace(root);
    const width = Math.round(place?.getBoundingClientRect().width ?? 0);
    if (width && width !== told) tell(told = width);
  };
  const observer = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(look, 120);
  });
  observer.observe(root);
  return () => {
    clearTimeout(timer);
    observer.disconnect();
  };
}
function emptyWords(nothing) {
  if (nothing) return ["Load a model and a cluster first."];
  return [
    h("b", { text: "No search yet." }),
    " Search asks the searcher chosen above; Compare all asks each of them in turn, and every answer becomes a row beside yours. For example: least step time, 20 s, on half of the devices. The board stays yours meanwhile."
  ];
}
function shown(name, view) {
  return (name !== "value" || view.objective) && (name !== "gap" || view.bound);
}
function drawHead(row, words, view) {
  keyed(
    row,
    COLUMNS.filter((name) => shown(name, view)),
    (name) => name,
    (name) => h("th", { scope: "col", role: "columnheader", class: `l-${name}${NUMBERS.has(name) ? " n" : ""}` }),
    (th, name) => {
      set(th, {
        text: words[name],
        title: name === "gap" ? `How far above the lower bound of any strategy: ${seconds(view.bound.value_s)} (${view.bound.name})` : null
      });
    }
  );
}
function makeRow() {
  return h("tr", { tabindex: "-1", role: "row" });
}
function drawRow(tr, row, rows, view, { selected, focusable }) {
  const text = cells(row, rows);
  set(tr, {
    "data-row": row.id,
    "aria-selected": String(selected),
    "aria-label": rowName(row),
    tabindex: focusable ? "0" : "-1",
    class: [row.id === "yours" ? "yours" : "", row.loadable ? "loadable" : "", row.level ?? ""].filter(Boolean).join(" "),
    title: [row.detail, row.note].filter(Boolean).join("; ") || null
  });
  keyed(
    tr,
    COLUMNS.filter((name) => shown(name, view)),
    (name) => name,
    (name) => makeCell(name),
    (cell, name) => drawCell(cell, name, text[name], row, rows)
  );
}
function makeCell(name) {
  const cls = `l-${name}${NUMBERS.has(name) ? " n" : ""}`;
  if (name === "searcher") return h("th", { scope: "row", role: "rowheader", class: cls });
  if (name === "label") return h("td", { role: "gridcell", class: cls }, h("span", {}), h("em", {}));
  if (name === "gap") return h("td", { role: "gridcell", class: cls }, h("i", { "aria-hidden": "true" }, h("b", {})), h("span", {}));
  if (name === "answer") return h("td", { role: "gridcell", class: cls }, triangle(), h("span", {}));
  return h("td", { role: "gridcell", class: cls });
}
function drawCell(cell, name, text, row, rows) {
  if (name === "label") {
    set(cell.firstChild, { text });
    set(cell.lastChild, { text: tag(row) });
  } else if (name === "gap") {
    const [bar, number] = cell.children;
    bar.hidden = !text;
    set(bar.firstChild, { style: { width: `${gapShare(row, rows)}%` } });
    set(number, { text });
  } else if (name === "answer") {
    cell.firstChild.toggleAttribute("hidden", row.level !== "bad");
    set(cell.lastChild, { text });
  } else set(cell, { text });
}
function tag(row) {
  if (row.on_board && row.id !== "yours") return "on the board";
  return row.note ?? "";
}
function makeFrontier(load) {
  return h(
    "details",
    { class: "l-frontier", open: true, on: { click: (event) => pointed(event, load) } },
    h("summary", { tabindex: "0" }, h("b", { text: "Frontier" }), h("span", { class: "sx-sub" })),
    h(
      "div",
      { class: "l-scroll" },
      h(
        "table",
        { class: "l-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["step", "memory", "strategy", "found by", ""].map(
              (text, i) => text ? h("th", { scope: "col", text, class: i < 2 ? "n" : null }) : h("td", {}, h("span", { class: "sx-live", text: "load" }))
            )
          )
        ),
        h("tbody", {})
      )
    )
  );
}
function pointed(event, load) {
  const id = event.target.closest("[data-point]")?.dataset.point;
  if (id) load(id);
}
function drawFrontier(details, view) {
  const points = view.points ?? [];
  details.hidden = !points.length;
  set(details.querySelector(".sx-sub"), {
    text: `${points.length} ${points.length === 1 ? "strategy" : "strategies"}: ${frontierText(points, view.points_omitted)}`
  });
  keyed(
    details.querySelector("tbody"),
    points,
    (point) => point.id,
    (point) => h(
      "tr",
      {},
      h("td", { class: "n" }),
      h("td", { class: "n" }),
      h("td", { class: "l-label" }),
      h("td", {}),
      h("td", { class: "n" }, h("button", { class: "sx-btn l-load", text: "Load", "data-point": point.id }))
    ),
    (tr, point) => {
      const [step, peak, label, who, act] = tr.children;
      set(step, { text: seconds(point.step_s) });
      set(peak, { text: bytes(point.peak_bytes) + (point.may_fit ? ", may fit" : "") });
      set(label, { text: point.label, title: point.detail });
      set(who, { text: point.searchers.join(", ") });
      set(act.firstChild, { "aria-label": `Load ${point.label}, ${seconds(point.step_s)}, ${bytes(point.peak_bytes)}${point.may_fit ? ", may fit" : ""}` });
    }
  );
}
var leaderboard_default = { render: linked(render) };
export {
  leaderboard_default as default
};
