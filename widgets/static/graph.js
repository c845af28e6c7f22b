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
function drawNotices(place2, given, dismiss) {
  keyed(
    place2,
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
    return ids.map((id) => ({ id, range: this.at.get(id) })).filter((item) => item.range).sort((a, b) => a.range[0] - b.range[0]);
  }
  /** What of a selection lies in a node. @param {{id: string, range: [number, number]}[]} chosen @param {[number, number][]} ranges */
  held(chosen, ranges) {
    let held = 0;
    let place2 = 0;
    let passed = 0;
    const ids = /* @__PURE__ */ new Set();
    for (const [first, n2] of ranges) {
      for (const { id, range } of chosen) {
        const a = Math.max(first, range[0]);
        const b = Math.min(first + n2, range[0] + range[1]);
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
function search(names, query, most = 8) {
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
  return { total: found.length, hits: found.slice(0, most).map(({ name, at }) => ({ name, at })) };
}
function step(nodes, edges, id, key) {
  const byId = new Map(nodes.map((n2) => [n2.id, n2]));
  const node = byId.get(id);
  if (!node) return null;
  const siblings = nodes.filter((n2) => n2.parent === node.parent);
  const at = siblings.indexOf(node);
  if (key === "ArrowUp") return siblings[at - 1]?.id ?? node.parent;
  if (key === "ArrowDown") return node.open ? inside(nodes, id)[0]?.id : siblings[at + 1]?.id ?? null;
  if (key === "Home") return siblings[0].id;
  if (key === "End") return siblings[siblings.length - 1].id;
  return key === "ArrowRight" ? follow(byId, edges, id, 0, 1) : key === "ArrowLeft" ? follow(byId, edges, id, 1, 0) : null;
}
var inside = (nodes, id) => nodes.filter((n2) => n2.parent === id);
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
function without(nodes, opened, id) {
  const byId = new Map(nodes.map((n2) => [n2.id, n2]));
  const under = (key) => {
    for (let n2 = byId.get(key); n2; n2 = byId.get(n2.parent)) if (n2.id === id) return true;
    return false;
  };
  return opened.filter((key) => key !== id && !under(key));
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

// src/common/scales.js
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

// src/graph/colour.js
var MODES = [
  ["time", "Time"],
  ["memory", "Memory"],
  ["traffic", "Traffic"],
  ["device", "Device"],
  ["error", "Error"]
];
var SPAN = 1e4;
var LEAST_ERROR = 0.05;
var MOST_ERROR = 1;
var VALUE = {
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
  const values = nodes.filter((n2) => !n2.open).map((n2) => VALUE[mode](n2)).filter(known);
  if (mode === "device") return { low: 0, top: 0, colour: () => null };
  if (mode === "error") {
    const top2 = Math.min(MOST_ERROR, Math.max(LEAST_ERROR, ...values.map(Math.abs)));
    return { low: -top2, top: top2, colour: (n2) => known(n2.error) ? painted(diverging(n2.error / top2)) : null };
  }
  const top = Math.max(...values, 0);
  const least = Math.min(...values.filter((v) => v > 0), top);
  const low = Math.max(least, top / SPAN);
  return { low, top, colour: (n2) => painted(cividis(logPosition(VALUE[mode](n2), low, top))) };
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
  return mode === "time" ? seconds(VALUE.time(node)) : bytes(VALUE[mode](node));
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
function drawNode(element, n2, box, { scale, mode, held, focus, place: place2, otherName, frame }) {
  const all = held.held > 0 && held.held === held.total;
  const moved = n2.moved > 0 && !saidBy(frame, n2);
  const paint = n2.open ? null : scale.colour(n2);
  const cls = ["g-node", n2.open ? "frame" : "", n2.count > 1 ? "fold" : "", all ? "selected" : "", moved ? "moved" : ""];
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
  const texts = textsOf(n2, box, mode, frame);
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
function textsOf(n2, box, mode, frame) {
  const moved = movedTexts(n2);
  if (n2.open) return { where: moved[0] ?? whereText(n2.stages), value: seconds(n2.forward_s + n2.backward_s) };
  const value = valueText(n2, mode);
  const fits = (text) => (text.length + value.length) * 6.3 + (value ? 6 : 0) <= box.w - 16;
  if (mode !== "device" && saidBy(frame, n2)) return { where: "", value };
  const wishes = moved.length ? moved : [whereText(n2.stages), whereShort(n2.stages)];
  const where = wishes.find(fits) ?? (moved.length || mode === "device" ? wishes.at(-1) : "");
  return { where, value };
}
var saidBy = (frame, n2) => frame != null && String(frame.stages) === String(n2.stages) && movedTexts(frame)[0] === movedTexts(n2)[0];
function fontFor(label, box) {
  const room = (box.w - 16) / label.length;
  return room >= 9 ? null : room >= 8.2 ? "12px" : "11px";
}
function stripesOf(lanes) {
  const total = lanes.reduce((sum, [, n2]) => sum + Number(n2), 0) || 1;
  let at = 0;
  const stops = lanes.map(([id, n2], i) => {
    const from = at;
    at += n2 / total;
    const same = i > 0 && Number(id) % 2 === Number(lanes[i - 1][0]) % 2;
    const line = same ? `var(--bg) ${(from * 100).toFixed(2)}% calc(${(from * 100).toFixed(2)}% + 2px), ` : "";
    const start = same ? `calc(${(from * 100).toFixed(2)}% + 2px)` : `${(from * 100).toFixed(2)}%`;
    return `${line}var(--chip${Number(id) % 2 ? "-other" : ""}) ${start} ${(at * 100).toFixed(2)}%`;
  });
  return stops.length ? `linear-gradient(90deg, ${stops.join(", ")})` : "var(--chip)";
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
      MODES.map(
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
    MODES.forEach(([m, name], i) => {
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
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    if (!by) return false;
    const all = MODES.map(([m]) => m).filter((m) => m !== "error" || !noErrors);
    const next = all[(all.indexOf(mode) + by + all.length) % all.length];
    this.choose(next);
    this.modes.children[MODES.findIndex(([m]) => m === next)].focus();
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
  let least = crossings(best, after);
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
    const found = crossings(now, after);
    if (found < least) [best, least] = [now, found];
  }
  return best;
}
function crossings(ranks, after) {
  let total = 0;
  for (let r = 0; r + 1 < ranks.length; r += 1) {
    const place2 = new Map(ranks[r + 1].map((p, i) => [p.key, i]));
    const ends = ranks[r].flatMap((p) => (after.get(p.key) ?? []).map((key) => place2.get(key)).sort((a, b) => a - b));
    for (let i = 0; i < ends.length; i += 1) for (let j = i + 1; j < ends.length; j += 1) if (ends[i] > ends[j]) total += 1;
  }
  return total;
}
function spread(wishes, apart, weights) {
  let shift = 0;
  const pools = [];
  const shifts = wishes.map((wish, i) => {
    if (i) shift += apart[i - 1];
    pools.push({ sum: (wish - shift) * weights[i], weight: weights[i], count: 1 });
    while (pools.length > 1) {
      const [a, b] = pools.slice(-2);
      if (a.sum / a.weight <= b.sum / b.weight) break;
      pools.splice(-2, 2, { sum: a.sum + b.sum, weight: a.weight + b.weight, count: a.count + b.count });
    }
    return shift;
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
      const told = own.length ? own : all;
      const line = (key) => at.get(key) + (near2 === before ? drop.get(key) : -drop.get(p.key));
      return told.length ? told.reduce((sum, key) => sum + line(key), 0) / told.length : at.get(p.key) ?? 0;
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
  const ids = [...ends.filter((id) => id === IN), ...items.map((item) => item.id), ...ends.filter((id) => id === OUT)];
  const byId = new Map(items.map((item) => [item.id, item]));
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
  const widthsFor = (node) => own.map((items) => Math.max(0, ...items.map((item) => item.fixed ? item.w : node)));
  const free = own.filter((items) => items.some((item) => !item.fixed)).length;
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
var sized = (item, node) => item.fixed ? item : { ...item, w: node };
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
    const stop = last && !isPort(to) ? x2 - 1 : x2;
    if (rows[r] === rows[r - 1]) {
      d += curve(x, y, stop, y2, rankX[r - 1][1]);
    } else {
      const { top, right, lines } = channels[rows[r - 1]];
      const i = Math.max(0, lines.indexOf(before));
      const outside = right + 7 + LANE * (lines.length - 1 - i);
      const inside2 = 2 + LANE * i;
      const track = top + LANE * (lines.length - 1 - i);
      d += bent([
        [x, y],
        [outside, y],
        [outside, track],
        [inside2, track],
        [inside2, y2],
        [stop, y2]
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
  const inside2 = /* @__PURE__ */ new Map();
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
    inside2.set(level, { ...placed, counts: new Map(own.map(([a, b, count2]) => [`${a}>${b}`, count2])) });
    return placed;
  };
  const root = layOut(null, width, 0);
  const boxes = /* @__PURE__ */ new Map();
  const paths = [];
  const put = (level, x, y, depth, frame) => {
    const { boxes: own, paths: lines, counts, ports } = inside2.get(level);
    for (const { from, to, d, skip } of lines)
      paths.push({ key: `${level}|${from}>${to}`, from: end(from, level), to: end(to, level), d, x, y, skip, stub: to === OUT, count: counts.get(`${from}>${to}`) ?? 1 });
    if (frame) paths.push(...borderStubs(level, ports, x, y, frame));
    for (const [id, box] of own) {
      if (id === IN || id === OUT) continue;
      const spot = { ...box, x: x + box.x, y: y + box.y, level: depth };
      boxes.set(id, spot);
      if (inside2.has(id)) put(id, spot.x + PAD, spot.y + TITLE, depth + 1, spot);
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
function borderStubs(level, ports, x, y, frame) {
  const left = frame.x - x;
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
  return [...ports.in ? [stub("in", ports.in, left)] : [], ...ports.out ? [stub("out", ports.out, left + frame.w)] : []];
}

// src/graph/searchbox.js
var SearchBox = class {
  /** @param {() => string[]} names all layers @param {(name: string) => void} go @param {(text: string) => void} say */
  constructor(names, go, say) {
    this.names = names;
    this.go = go;
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
      const hit = event.target.closest("[role=option]");
      if (hit) this.choose(Number(hit.dataset.at));
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
      (hit) => hit.name,
      () => h("div", { role: "option", class: "g-hit" }),
      (element, hit, i) => {
        set(element, { id: `${this.list.id}-${i}`, "data-at": i, "aria-selected": String(i === this.at), text: hit.name });
      }
    );
    set(this.input, { "aria-activedescendant": this.hits.length && !this.drop.hidden ? `${this.list.id}-${this.at}` : null });
  }
  choose(i) {
    const hit = this.hits[i];
    if (!hit) return;
    this.input.value = "";
    this.close();
    this.go(hit.name);
  }
  close() {
    this.drop.hidden = true;
    set(this.input, { "aria-expanded": "false", "aria-activedescendant": null });
  }
  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && this.hits.length) {
      if (this.drop.hidden) this.typed();
      else this.at = (this.at + by + this.hits.length) % this.hits.length;
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
var HINT = "Enter opens, Escape closes, arrows follow the edges, Space selects, / finds a layer.";
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
      (node ? factsOf(node, view) : [["", HINT]]).map((row, i) => ({ row, i })),
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
      (button, [action, text]) => set(button, { "data-action": action, "data-for": node.id, text })
    );
  }
};
function factsOf(node, { nodes, edges, other_name: otherName }) {
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
  const inside2 = /* @__PURE__ */ new Set([node.id]);
  for (const n2 of nodes) if (inside2.has(n2.parent)) inside2.add(n2.id);
  return nodes.some((n2) => inside2.has(n2.parent) && !n2.open && n2.count === 1 && n2.opens.length > 0);
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
    const told = this.model.get("colour") ?? "time";
    return told === "error" && this.view.no_errors ? "time" : told;
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
    const rest = without(this.nodes, opened, id);
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
      const frame = n2.open ? n2.id : n2.parent;
      if (frame == null) return false;
      this.act("close", frame);
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
function render({ model, el }) {
  const widget = new GraphWidget(model, el);
  return () => widget.close();
}
var graph_default = { render: linked(render) };
export {
  graph_default as default
};
