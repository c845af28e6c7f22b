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

// src/schedules/words.js
function byGroup(view) {
  return (view.groups ?? []).map((group) => ({ ...group, rows: (view.rows ?? []).filter((row) => row.group === group.name) })).filter((group) => group.rows.length);
}
function cells(row, shown) {
  const found = row.figures;
  if (!found) return { bubble: "", activations: "", versions: "", step: "", change: "" };
  const most = Math.max(0, ...found.activation_bytes);
  const change = shown && !row.shown ? found.step_s / shown.step_s - 1 : null;
  return {
    bubble: percent(found.bubble, 1),
    activations: bytes(most),
    versions: fixed(found.versions),
    step: seconds(found.step_s),
    change: change == null ? "" : Math.abs(change) < 5e-4 ? "the same" : signed(percent(change, 1))
  };
}
var deviceWords = (row, lanes) => row.figures.activation_bytes.map((size, i) => `${lanes[i] ?? i}: ${bytes(size)}`).join(", ");
function footWords(row) {
  return [row.paper, row.needs && `needs ${row.needs}`, row.cuts ? `cuts the model anew: ${row.cuts}` : ""].filter(Boolean).join(" · ");
}
function stateWords(row) {
  if (row.problem) return row.problem;
  return { waiting: "being counted", asked: "not counted by itself", counted: "" }[row.state] ?? "";
}

// src/schedules/index.js
var HEADS = [
  ["Schedule", ""],
  ["Bubble", "Share of a step in which devices do not compute"],
  ["Activations", "Most bytes of activations on the fullest device; a bar for each stage's devices"],
  ["Versions", "Most versions of its weights that a stage keeps"],
  ["Step", "Seconds of a step, and against the schedule on the board"]
];
function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "schedules", "Schedules");
  const sub = h("span", { class: "sx-sub" });
  const said = h("ul", { class: "s-said", "aria-label": "Difference between A and B" });
  const body = h("div", { class: "s-scroll" });
  const table = h(
    "table",
    { class: "s-table", on: { click: pressed } },
    h("caption", { class: "sx-live", text: "Schedules by group" }),
    h("thead", {}, h("tr", {}, ...HEADS.map(([text, title], i) => h("th", { scope: "col", text, title: title || null, class: i ? "n" : null })), h("td", {})))
  );
  body.append(table);
  const copying = copyButtons(() => table);
  const empty = h("p", { class: "sx-empty", text: "Load a model and a cluster first." });
  root.append(h("div", { class: "sx-head" }, h("h2", { text: "Schedules" }), sub), said, body, copying, empty);
  const sync = new Sync(model, ["view"], draw, true);
  function pressed(event) {
    const button = event.target.closest("button[data-kind]");
    if (button) sync.send(button.dataset.kind, { schedule: button.dataset.schedule });
  }
  function draw() {
    const view = model.get("view") ?? {};
    const groups = byGroup(view);
    const shown = (view.rows ?? []).find((row) => row.shown)?.figures;
    const most = Math.max(0, ...(view.rows ?? []).flatMap((row) => row.figures?.activation_bytes ?? []));
    set(sub, { text: view.text ?? "" });
    root.setAttribute("aria-busy", String((view.rows ?? []).some((row) => row.state === "waiting")));
    table.hidden = !groups.length;
    empty.hidden = Boolean(groups.length) || !model.get("visible");
    copying.hidden = !groups.length;
    said.hidden = !view.difference?.length;
    keyed(said, view.difference ?? [], (text) => text, () => h("li", {}), (li, text) => set(li, { text }));
    keyed(
      table,
      groups,
      (group) => group.name,
      () => h("tbody", {}, h("tr", { class: "s-group" }, h("th", { colspan: "6", scope: "rowgroup" }, h("b", {}), h("span", {})))),
      (element, group) => {
        const [name, title] = element.rows[0].firstChild.children;
        set(name, { text: group.name });
        set(title, { text: group.title });
        keyed(element, group.rows, (row) => row.name, makeRow, (tr, row) => drawRow(tr, row, shown, most, view));
      }
    );
  }
  draw();
  const unwatch = watchSight(root, (seen) => {
    if (Boolean(model.get("visible")) !== seen) sync.set("visible", seen);
  });
  return () => {
    unwatch();
    sync.close();
    close();
    root.remove();
  };
}
function watchSight(element, tell) {
  const observer = new IntersectionObserver((entries) => tell(entries[entries.length - 1].isIntersecting), { rootMargin: "200px" });
  observer.observe(element);
  return () => observer.disconnect();
}
function makeRow() {
  const cell = (cls) => h("td", { class: `n ${cls}` });
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("div", {}, h("b", {}), h("em", {})), h("span", {}), h("small", {})),
    cell("s-bubble"),
    h("td", { class: "n s-activations" }, h("span", { class: "s-bars", role: "img" }), h("span", {})),
    cell("s-versions"),
    h("td", { class: "n s-step" }, h("b", {}), h("small", {})),
    h(
      "td",
      { class: "s-state" },
      h("span", { class: "s-why" }, triangle(), h("span", {})),
      h("span", { class: "s-acts" }, ...["use", "beside", "count"].map((kind) => h("button", { class: "sx-btn", "data-kind": kind })))
    )
  );
}
var LABELS = { use: "Use", beside: "Beside", count: "Count" };
function drawRow(tr, row, shown, most, view) {
  const [head, bubble, activations, versions, step, state] = tr.children;
  const [name, title, foot] = head.children;
  const text = cells(row, shown);
  set(tr, { "data-schedule": row.name, class: [row.shown ? "shown" : "", row.beside ? "beside" : "", row.state].filter(Boolean).join(" ") });
  set(name.firstChild, { text: row.name });
  set(name.lastChild, { text: row.shown ? view.names?.[1] ? "A, on the board" : "on the board" : row.beside ? "B" : "" });
  set(title, { text: row.title });
  set(foot, { text: footWords(row) });
  set(bubble, { text: text.bubble });
  drawDevices(activations.firstChild, row, most, view.lanes ?? []);
  set(activations.lastChild, { text: text.activations });
  set(versions, { text: text.versions });
  set(step.firstChild, { text: text.step });
  set(step.lastChild, { text: text.change, class: row.figures?.over_bytes > 0 ? "over" : null });
  if (row.figures?.over_bytes > 0) set(step.lastChild, { text: `${text.change}${text.change ? "; " : ""}${bytes(row.figures.over_bytes)} over` });
  const [why, acts] = state.children;
  const words = stateWords(row);
  why.hidden = !words;
  why.firstChild.toggleAttribute("hidden", !row.problem);
  set(why.lastChild, { text: words });
  for (const button of acts.children) {
    const { kind } = button.dataset;
    button.hidden = row.shown || Boolean(row.problem) || kind === "count" && row.state !== "asked" || kind === "beside" && row.beside;
    set(button, { text: LABELS[kind], "data-schedule": row.name, "aria-label": `${LABELS[kind]} ${row.name}`, title: titleOf(kind, row) });
  }
}
function titleOf(kind, row) {
  if (kind === "use") return `Put ${row.name} on the board; Undo takes it back`;
  if (kind === "beside") return `Draw ${row.name} as plan B below the plan shown, on one axis`;
  return `Simulate ${row.name}: it is large or slow, so it is not counted by itself`;
}
function drawDevices(place, row, most, lanes) {
  place.hidden = !row.figures;
  if (!row.figures) return;
  const words = deviceWords(row, lanes);
  set(place, { "aria-label": words, title: words });
  keyed(
    place,
    row.figures.activation_bytes.map((size, i) => ({ size, i })),
    ({ i }) => String(i),
    () => h("i", {}),
    (bar, { size }) => set(bar, { style: { height: `${most ? Math.max(4, 100 * size / most) : 0}%` } })
  );
}
var schedules_default = { render: linked(render) };
export {
  schedules_default as default
};
