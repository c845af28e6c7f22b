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

// src/run/words.js
var NBSP2 = " ";
function errorText(error) {
  if (!known(error)) return DASH;
  const text = percent(Math.abs(error), Math.abs(error) >= 9.995 ? 0 : 1);
  if (Number(Math.abs(error * 100).toFixed(1)) === 0) return text;
  return (error < 0 ? MINUS : "+") + text;
}
function valueText(x, quantity) {
  if (!known(x)) return DASH;
  if (quantity === "ratio") return `${fixed(x, 2)}${NBSP2}×`;
  if (quantity === "fraction") return fixed(x, 2);
  if (quantity === "bytes_per_s") return rate(x);
  if (quantity === "bytes") return bytes(x);
  return seconds(x);
}
function rate(x) {
  for (const [scale, unit] of [
    [1e12, "TB/s"],
    [1e9, "GB/s"],
    [1e6, "MB/s"],
    [1e3, "kB/s"]
  ]) {
    if (x >= scale * 0.9995) return `${fixed(x / scale, x / scale >= 99.95 ? 0 : 1)}${NBSP2}${unit}`;
  }
  return `${bytes(x)}/s`;
}
function barShares(rows) {
  const parts = rows.filter((row) => row.quantity === "seconds" && !row.strong);
  const widest = Math.max(1e-12, ...parts.flatMap((row) => [row.predicted ?? 0, row.measured ?? 0]));
  return new Map(parts.map((row) => [row.name, [(row.predicted ?? 0) / widest, (row.measured ?? 0) / widest]]));
}
function leftText(left) {
  if (!known(left)) return "";
  if (left > 90) return `about ${fixed(left / 60)}${NBSP2}min left`;
  return `about ${Math.max(1, Math.round(left))}${NBSP2}s left`;
}
var courseShare = ({ at_s, of_s }) => known(at_s) && known(of_s) && of_s > 0 ? Math.min(1, at_s / of_s) : null;
function engineText(engines) {
  if (engines.length < 2) return "";
  const [own, other] = engines;
  const change = other.step_s / own.step_s - 1;
  const than = Math.abs(change) < 5e-4 ? "as long as" : `${percent(Math.abs(change), 1)} ${change < 0 ? "less than" : "more than"}`;
  const [far, near] = [other, own].map(({ gradient }) => known(gradient) ? gradient.toExponential(0) : DASH);
  return `The same steps took ${seconds(other.step_s)} on ${other.name}, ${than} on ${own.name} (${seconds(own.step_s)}). Gradients differ from those of one process by ${far} and ${near}.`;
}

// src/run/calibration.js
function makeCalibration() {
  const title = h("h3", { text: "Calibrate" });
  const text = h("p", {});
  const list = h("ul", { class: "run-changes" });
  const step = h("p", { class: "run-becomes" });
  const kept = h("p", { class: "sx-sub" });
  const element = h("div", { class: "run-calibration" }, title, text, list, step, kept);
  return {
    element,
    draw(view) {
      element.hidden = !view;
      if (!view) return;
      set(element, { "data-possible": String(view.possible) });
      set(text, { text: view.text });
      keyed(
        list,
        view.changes,
        (row) => row.what,
        () => h("li", {}, h("span", {}), h("b", {})),
        (item, row) => {
          set(item.firstChild, { text: row.what });
          const band = row.band == null ? "" : ` ±${percent(row.band, row.band < 0.1 ? 1 : 0)}`;
          set(item.lastChild, {
            text: `${valueText(row.before, row.quantity)} → ${valueText(row.after, row.quantity)}${band}`,
            title: row.band == null ? null : "80 % band of the corrected number"
          });
        }
      );
      list.hidden = !view.changes.length;
      step.hidden = !view.possible || view.step_s == null;
      if (!step.hidden) {
        const change = errorText(view.step_s / view.now_s - 1);
        set(step, { text: `The step becomes ${seconds(view.step_s)}, ${change} against now (${seconds(view.now_s)}).` });
      }
      set(kept, { text: view.kept.length ? `Not corrected: ${view.kept.join("; ")}.` : "" });
      kept.hidden = !view.kept.length;
    }
  };
}

// src/run/ranks.js
var SIGNS = { starting: "○", computing: "●", waiting: "◐", done: "✓", failed: "▲" };
function makeRanks() {
  const body = h("tbody", {});
  const head = ["rank", "state", "doing", "round", "predicted time", "last step", "memory"].map((text) => h("th", { scope: "col", text }));
  const table = h("table", {}, h("thead", {}, h("tr", {}, head)), body);
  const element = h("div", { class: "sx-tablebox run-ranks", tabindex: "0", role: "region", "aria-label": "Ranks" }, table);
  return {
    element,
    draw(rows) {
      keyed(body, rows, (row) => String(row.rank), makeRow, drawRow);
    }
  };
}
var makeRow = () => h(
  "tr",
  {},
  h("th", { scope: "row" }),
  h("td", {}, h("i", { "aria-hidden": "true" }), h("span", {})),
  h("td", {}),
  h("td", {}),
  h("td", { class: "run-course" }, h("span", { class: "run-meter", "aria-hidden": "true" }, h("i", {})), h("span", {})),
  h("td", {}),
  h("td", {})
);
function drawRow(element, row) {
  const [name, how, what, where, course, took, memory] = element.children;
  set(element, { "data-rank": row.rank, "data-state": row.state });
  set(name, { text: `rank ${row.rank}` });
  set(how.firstChild, { text: SIGNS[row.state] ?? "", class: `run-sign run-is-${row.state}` });
  set(how.lastChild, { text: row.state, class: `run-is-${row.state}` });
  set(what, { text: row.doing || DASH });
  set(where, { text: row.round || DASH });
  const share = courseShare(row);
  set(course.firstChild.firstChild, { style: { width: `${((share ?? 0) * 100).toFixed(1)}%` } });
  set(course.lastChild, { text: share == null ? DASH : `${secondsParts(row.at_s, row.of_s).text} of ${seconds(row.of_s)}` });
  set(took, { text: row.step_s == null ? DASH : seconds(row.step_s) });
  set(memory, { text: row.memory_bytes == null ? DASH : bytes(row.memory_bytes) });
}

// src/run/result.js
function makeResult(act) {
  const old = h("p", { class: "run-old" });
  const verdict = h("p", { class: "run-verdict" });
  const about = h("p", { class: "run-about sx-sub" });
  const body = h("tbody", {});
  const part = h("th", { scope: "col" });
  const head = [
    part,
    h("th", { class: "run-bar", "aria-hidden": "true" }),
    h("th", { scope: "col", text: "predicted" }),
    h("th", { scope: "col", text: "measured" }),
    h("th", { scope: "col", text: "error" })
  ];
  const table = h(
    "table",
    { class: "run-parts" },
    h("caption", { text: "Error of the prediction: predicted over measured, minus 1" }),
    h("thead", {}, h("tr", {}, head)),
    body
  );
  const stages = h("p", { class: "run-stages" });
  const layers = makeLayers(act);
  const engines = h("p", { class: "run-engines" });
  const checks = h("ul", { class: "run-checks" });
  const more = h("p", { class: "run-more sx-sub" });
  const less = makeShortened();
  const yes = makeList("Validated", "✓", "ok");
  const no = makeList("Not validated", "–", "");
  const element = h(
    "div",
    { class: "run-result" },
    old,
    verdict,
    about,
    h("div", { class: "run-columns" }, h("div", { class: "run-left" }, table, stages, layers.element, engines, more), h("div", { class: "run-right" }, checks, less.element, yes.element, no.element))
  );
  return {
    element,
    draw(result, state) {
      element.hidden = !result;
      if (!result) return;
      const stale = Boolean(result.old) || state === "running";
      element.dataset.old = String(stale);
      old.hidden = !stale;
      set(old, { text: result.old ?? "The result of the run before stays until this one ends." });
      drawVerdict(verdict, result.verdict);
      set(about, { text: result.about });
      set(part, { text: result.part ?? "part of a step" });
      const shares = barShares(result.rows);
      keyed(
        body,
        result.rows,
        (row) => row.name,
        makeRow2,
        (line, row) => drawRow2(line, row, shares.get(row.name))
      );
      set(stages, { text: stageText(result.stages) });
      stages.hidden = !result.stages.length;
      layers.draw(result.layers ?? [], Boolean(result.errors));
      less.draw(result.shortened ?? []);
      set(engines, { text: engineText(result.engines ?? []) });
      engines.hidden = !engines.textContent;
      keyed(checks, result.checks, (item) => item.text, () => h("li", {}), drawCheck);
      set(more, { text: result.more });
      more.hidden = !result.more;
      yes.draw(result.validated);
      no.draw(result.not_validated);
    }
  };
}
function drawVerdict(place, { level, text }) {
  if (place.dataset.text === text) return;
  Object.assign(place.dataset, { text, level });
  place.replaceChildren(...level === "ok" ? [] : [triangle()], ...bold(text));
}
var makeRow2 = () => h("tr", {}, h("th", { scope: "row" }), h("td", { class: "run-bar", "aria-hidden": "true" }, h("i", { class: "run-predicted" }), h("i", { class: "run-measured" })), h("td", {}), h("td", {}), h("td", { class: "run-err" }, triangle(), h("b", {})));
function drawRow2(line, row, shares) {
  const [name, bars, predicted, measured, error] = line.children;
  set(line, { class: row.strong ? "strong" : "", "data-part": row.name, "data-level": row.level });
  set(name, { text: row.name });
  bars.firstChild.hidden = bars.lastChild.hidden = !shares;
  if (shares) {
    set(bars.firstChild, { style: { width: `${(shares[0] * 100).toFixed(2)}%` } });
    set(bars.lastChild, { style: { width: `${(shares[1] * 100).toFixed(2)}%` } });
  }
  set(predicted, { text: valueText(row.predicted, row.quantity) });
  set(measured, { text: valueText(row.measured, row.quantity) });
  set(error.lastChild, { text: errorText(row.error) });
}
var stageText = (stages) => `Compute by stage: ${stages.map(({ name, error }) => `${name.includes(",") ? `[${name}]` : name} ${errorText(error)}`).join(", ")}`;
function drawCheck(item, { ok, text }) {
  if (item.dataset.text === text) return;
  item.dataset.text = text;
  set(item, { class: ok === true ? "ok" : ok === false ? "bad" : "" });
  item.replaceChildren(h("span", { class: "run-sign", "aria-hidden": "true", text: ok === true ? "✓" : ok === false ? "▲" : "–" }), h("span", { text }));
}
function makeList(title, sign, kind) {
  const list = h("ul", { class: "run-checks" });
  const element = h("div", {}, h("h3", { text: title }), list);
  return {
    element,
    draw(texts) {
      element.hidden = !texts.length;
      keyed(
        list,
        texts,
        (text) => text,
        (text) => h("li", { class: kind }, h("span", { class: "run-sign", "aria-hidden": "true", text: sign }), h("span", { text })),
        () => {
        }
      );
    }
  };
}
function makeLayers(act) {
  const rows = makeRows(["layers furthest off", "predicted", "measured", "error"]);
  const all = h("button", {
    class: "sx-btn",
    "data-action": "show_errors",
    text: "Show errors in layer graph",
    on: {
      click: () => {
        act("show_errors");
        all.closest(".xp-frame")?.querySelector(".sx-graph")?.scrollIntoView({ block: "nearest" });
      }
    }
  });
  const element = h("div", { class: "run-layers" }, rows.element, all);
  return {
    element,
    draw(layers, told) {
      element.hidden = !layers.length && !told;
      all.hidden = !told;
      rows.draw(layers.map((row) => [row.name, seconds(row.predicted_s), seconds(row.measured_s), errorText(row.error)]));
    }
  };
}
function makeShortened() {
  const rows = makeRows(["shortened", "in the plan", "here"]);
  return { element: rows.element, draw: (less) => rows.draw(less.map((row) => [row.what, row.plan, row.here])) };
}
function makeRows(head) {
  const body = h("tbody", {});
  const element = h("table", { class: "run-rows" }, h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col", text })))), body);
  return {
    element,
    draw(rows) {
      element.hidden = !rows.length;
      keyed(
        body,
        rows,
        (row) => row[0],
        () => h("tr", {}, head.map((_, i) => h(i ? "td" : "th", i ? {} : { scope: "row" }))),
        (line, row) => row.forEach((text, i) => set(line.children[i], { text }))
      );
    }
  };
}

// src/run/index.js
function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "run", "Run");
  const act = (action) => sync.send("action", { action });
  const page = makePage(root, act);
  const sync = new Sync(model, ["view"], draw);
  function draw() {
    page(model.get("view") ?? {});
  }
  draw();
  return () => {
    sync.close();
    close();
    root.remove();
  };
}
function makePage(root, act) {
  const sub = h("span", { class: "sx-sub" });
  const legend = h(
    "span",
    { class: "sx-legend" },
    h("span", {}, h("i", { class: "run-predicted" }), "predicted"),
    h("span", {}, h("i", { class: "run-measured" }), "measured")
  );
  const calibrate = h("button", {
    class: "sx-btn suggested",
    "data-action": "calibrate",
    text: "Calibrate",
    on: { click: () => act("calibrate") }
  });
  const intro = h("div", { class: "run-intro" });
  const live = makeLive();
  const failure = makeFailure(act);
  const standIns = h("p", { class: "run-other" });
  const stopped = h("p", { class: "run-stopped", text: "The last run was stopped midway; it says nothing. Every rank is ended." });
  const result = makeResult(act);
  const calibration = makeCalibration();
  root.append(
    h("div", { class: "sx-head" }, h("h2", { text: "Run" }), sub, h("span", { class: "sx-space" }), legend, calibrate),
    failure.element,
    stopped,
    live.element,
    standIns,
    intro,
    result.element,
    calibration.element
  );
  return (view) => {
    const state = view.state ?? "none";
    root.dataset.run = state;
    const done = view.result ?? null;
    set(sub, { text: done ? view.note : state === "none" ? "no run yet" : "" });
    legend.hidden = !done;
    calibrate.hidden = !done || !view.calibration;
    calibrate.disabled = !view.calibration?.possible || state === "running";
    intro.hidden = Boolean(done) || state === "running";
    keyed(
      intro,
      view.intro ?? [],
      (text) => text,
      (text) => h("p", { text }),
      () => {
      }
    );
    live.draw(view.progress);
    failure.draw(view.failure);
    stopped.hidden = state !== "stopped";
    set(standIns, { text: view.stand_ins ?? "" });
    standIns.hidden = !view.stand_ins;
    result.draw(done, state);
    calibration.draw(done ? view.calibration : null);
  };
}
function makeLive() {
  const phase = h("b", {});
  const note = h("span", { class: "run-note" });
  const fill = h("i", {});
  const meter = h("span", { class: "run-meter", role: "progressbar", "aria-label": "Rounds", "aria-valuemin": "0", "aria-valuemax": "100" }, fill);
  const contention = h("span", { class: "run-contention" });
  const other = h("p", { class: "run-other" });
  const said = h("div", { class: "sx-live", role: "status", "aria-live": "polite" });
  const ranks = makeRanks();
  const element = h("div", { class: "run-live" }, h("div", { class: "run-line" }, phase, meter, note, contention), other, ranks.element, said);
  return {
    element,
    draw(progress) {
      element.hidden = !progress;
      if (!progress) {
        set(said, { text: "" });
        return;
      }
      const percent2 = Math.round(progress.share * 100);
      set(phase, { text: progress.phase });
      set(meter, { "aria-valuenow": percent2, "aria-valuetext": `${percent2} %, ${progress.phase}` });
      set(fill, { style: { width: `${percent2}%` } });
      const left = leftText(progress.left_s);
      set(note, { text: `${fixed(progress.elapsed_s)} s${left ? `, ${left}` : ""}` });
      const load = progress.contention;
      if (contention.dataset.text !== (load?.text ?? "")) {
        contention.dataset.text = load?.text ?? "";
        set(contention, { class: `run-contention ${load?.level ?? ""}` });
        contention.replaceChildren(...load?.level === "warn" ? [triangle()] : [], load?.text ?? "");
      }
      set(other, { text: progress.other ?? "" });
      other.hidden = !progress.other;
      ranks.element.hidden = !progress.ranks.length;
      ranks.draw(progress.ranks);
      set(said, { text: progress.said });
    }
  };
}
function makeFailure(act) {
  const text = h("div", { class: "run-error" });
  const fix = h("p", { class: "run-fix" });
  const fixButton = h("button", { class: "sx-btn suggested", on: { click: () => act(fixButton.dataset.action) } });
  const log = h("pre", { class: "run-log", tabindex: "0", role: "region", "aria-label": "Last lines of the ranks" });
  const logButton = h("button", {
    class: "sx-btn",
    "data-action": "log",
    "aria-expanded": "false",
    text: "Show log",
    on: { click: () => show(logButton.getAttribute("aria-expanded") !== "true") }
  });
  const show = (open) => {
    set(logButton, { "aria-expanded": String(open), text: open ? "Hide log" : "Show log" });
    log.hidden = !open;
  };
  const element = h("div", { class: "run-failure", role: "alert" }, text, fix, h("div", { class: "run-ways" }, fixButton, logButton));
  const box = h("div", { class: "run-failed" }, element, log);
  show(false);
  return {
    element: box,
    draw(failure) {
      box.hidden = !failure;
      if (!failure) return show(false);
      if (text.dataset.text !== failure.text) {
        text.dataset.text = failure.text;
        text.replaceChildren(triangle(), h("b", { text: "The run failed." }), ` ${failure.text}`);
        show(false);
      }
      set(fix, { text: failure.fix });
      fixButton.hidden = !failure.action;
      set(fixButton, { text: failure.label ?? "", "data-action": failure.action });
      set(log, { text: failure.log });
      logButton.hidden = !failure.log;
      if (!failure.log) show(false);
    }
  };
}
var run_default = { render: linked(render) };
export {
  run_default as default
};
