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
function bold(text) {
  return String(text ?? "").split("**").map((part, i) => i % 2 ? h("b", { text: part }) : document.createTextNode(part));
}
function heading(title, sub) {
  return h("div", { class: "sx-head" }, h("h2", { text: title }), h("span", { class: "sx-sub", text: sub ?? "" }));
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
  const buttons = [...cell.querySelectorAll("button")].map((button) => button.innerText);
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
      const button = h("button", { class: "sx-btn", text, title, "aria-label": title, "data-action": `copy-${action}` });
      button.addEventListener("click", async () => {
        const found = table2();
        if (!found) return;
        const done = await copy(make(cellsOf(found)), button.parentElement);
        button.textContent = done ? "Copied" : "Not allowed";
        setTimeout(() => button.textContent = text, SAID_MS);
      });
      return button;
    })
  );
}

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
  const n = view.rows.length;
  const cells = /* @__PURE__ */ new Map();
  for (const [source, target, bytes2] of view.pairs)
    if (bytes2 > 0) cells.set(source * n + target, (cells.get(source * n + target) ?? 0) + bytes2);
  const all = [...cells.values()];
  const high = Math.max(0, ...all);
  const least = all.length ? Math.min(...all) : 0;
  return {
    kind: "pairs",
    unit: "bytes",
    rows: view.rows,
    columns: n,
    names: view.rows.map((row) => row.name),
    value: (r, c) => cells.get(r * n + c) ?? null,
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
function scaleOf(grids) {
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
function moveCell(grid, cell, key, shift = false) {
  if (!cell) return { r: 0, k: 0 };
  const stride = grid.kind === "time" && !shift ? Math.max(1, Math.round(grid.columns / 50)) : 1;
  const by = { ArrowRight: [0, stride], ArrowLeft: [0, -stride], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[key];
  if (key === "Home") return { r: cell.r, k: 0 };
  if (key === "End") return { r: cell.r, k: grid.columns - 1 };
  if (!by) return cell;
  const clamp = (x, most2) => Math.min(most2, Math.max(0, x));
  return { r: clamp(cell.r + by[0], grid.rows.length - 1), k: clamp(cell.k + by[1], grid.columns - 1) };
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

// src/heatmap/panels.js
var BESIDE_PX = 860;
var NUMBER_PX = 24;
var GAP_PX = 24;
var LETTER_PX = 6.6;
var TITLE_PX = 18;
var rowSize = (rows, least = 11) => rows <= 16 ? 28 : rows <= 32 ? 16 : least;
function panelsOf(grids, width) {
  const several = grids.length > 1;
  const end = Math.max(...grids.map((grid) => grid.end_s ?? 0));
  const share = (width - GAP_PX) / grids.length;
  const legible = grids.every((grid) => grid.kind === "pairs" && panelOf(grid, 0, share, 0, end).size >= NUMBER_PX);
  const beside = several && (width >= BESIDE_PX || legible);
  const each = beside ? share : width;
  let y = 0;
  let height = 0;
  const panels = grids.map((grid, p) => {
    const panel = panelOf(grid, beside ? p * (each + GAP_PX) : 0, each, y + (several ? TITLE_PX : 0), end);
    panel.title = several ? y + 12 : null;
    if (!beside) y = panel.height + 14;
    height = Math.max(height, panel.height);
    return panel;
  });
  return { panels, height };
}
function panelOf(grid, x, width, top, end) {
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
  return { x, left, right: left + room * grid.end_s / (end || 1), size, tops, lefts: null, widths: null, top, height: height + 20 };
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
        const end = u === 0 ? "first" : u === 1 ? "last" : null;
        set(span, { text: write(scale.at(at)), "data-end": end, style: { left: `${u * 100}%`, color: inkOn(cividis(at)), ...ground } });
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
  const row = other.rows.findIndex((item) => item.name === grid.rows[r].name);
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
    const rows2 = plans.flatMap(({ view, name }) => view.pairs.map(([a, b, n]) => first(name, [view.rows[a].name, view.rows[b].name, bytes(n)])));
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
    this.scale = scaleOf(this.plans.map((plan) => plan.grid));
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
      (button, [name]) => set(button, { "aria-checked": String(name === this.shown), tabindex: name === this.shown ? "0" : "-1" })
    );
  }
  choose(name) {
    this.cell = null;
    this.tip.hide();
    this.sync.set("shown", name);
    this.load();
  }
  switchKey(event, pictures) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = pictures.findIndex(([name]) => name === this.shown);
    this.choose(pictures[(at + by + pictures.length) % pictures.length][0]);
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
function render({ model, el }) {
  const view = new HeatmapView(model, el);
  return () => view.close();
}
var heatmap_default = { render: linked(render) };
export {
  heatmap_default as default
};
