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
function bytesParts(b, like = b) {
  if (!known(b)) return { text: DASH, unit: "" };
  const [scale, unit] = pick(Math.abs(like), BYTE_UNITS, 0.95);
  const x = b / scale;
  return { text: fixed(x, unit === "B" || Math.abs(x) >= 99.95 || scale < 2 ** 30 && Math.abs(x) >= 9.95 ? 0 : 1), unit };
}
var bytes = (b, like) => join(bytesParts(b, like));
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

// src/export/answers.js
var WORDS = { exact: ["✓", "exact"], approximate: ["≈", "approximate"], refused: ["▲", "refused"] };
function drawRefusals(place, view, use) {
  place.hidden = !view.refusals?.length;
  const text = JSON.stringify([view.target, view.refusals, view.nearest]);
  if (place.hidden || place.dataset.text === text) return;
  place.dataset.text = text;
  const focused = place.contains(document.activeElement);
  const named = view.answers.length ? [] : view.refusals;
  place.replaceChildren(
    h("p", {}, triangle(), h("b", { text: `${view.target} cannot express this plan.` }), " Nothing is left out in silence, so there are no files."),
    ...named.length ? [h("ul", {}, named.map(refusal))] : [],
    ...view.nearest ? [nearestRow(view.nearest, use)] : []
  );
  if (focused) place.querySelector("button")?.focus();
}
var refusal = ({ what, way_out }) => h("li", {}, h("b", { text: what }), way_out ? h("span", { text: `Way out: ${way_out}` }) : null);
function nearestRow({ state, text, changes }, use) {
  if (state !== "found") return h("p", { class: "ex-nearest", text: `${text}${state === "counting" ? "…" : "."}` });
  return h(
    "div",
    { class: "ex-nearest" },
    h("button", { class: "sx-btn suggested", "data-action": "use_nearest", text: "Use the nearest plan it can run", on: { click: use } }),
    h("b", { class: "ex-price", text }),
    h("span", { text: changes.join("; ") })
  );
}
function drawAnswers(place, view) {
  place.hidden = !view.answers?.length;
  const text = JSON.stringify([view.target, view.answers]);
  if (place.hidden || place.dataset.text === text) return;
  place.dataset.text = text;
  const priced = view.answers.some((row) => row.price);
  const label = `What ${view.target} makes of this plan`;
  place.replaceChildren(
    h("h3", { text: label }),
    h(
      "div",
      { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": label },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", text: "This plan uses" }),
            h("th", { scope: "col", text: "Answer" }),
            h("th", { scope: "col", class: "ex-how", text: "How, or the way out" }),
            priced ? h("th", { scope: "col", text: "A step would take" }) : null
          )
        ),
        h(
          "tbody",
          {},
          view.answers.map((row) => answerRow(row, priced))
        )
      )
    )
  );
}
function answerRow({ feature, where, answer, how, price }, priced) {
  const [sign, word] = WORDS[answer];
  return h(
    "tr",
    { "data-feature": feature },
    h("th", { scope: "row" }, feature, where ? h("small", { text: where }) : null),
    h("td", { class: `ex-is-${answer}`, "data-answer": answer }, h("span", { "aria-hidden": "true", text: `${sign} ` }), word),
    h("td", { class: "ex-how", text: how }),
    priced ? h("td", { class: "ex-price", text: price ?? "" }) : null
  );
}

// src/export/capabilities.js
var WORDS2 = { yes: ["✓", "yes"], note: ["≈", "nearly"], no: ["▲", "refused"] };
function drawTable(place, view) {
  const text = JSON.stringify([view.target, view.capabilities]);
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  const names = view.targets.map((item) => item.name);
  const open = place.querySelector("details")?.open ?? false;
  const focused = place.contains(document.activeElement) && document.activeElement.tagName === "SUMMARY";
  place.replaceChildren(
    h(
      "details",
      { open },
      h("summary", { text: "What every target makes of this plan" }),
      tableBox(view, names)
    )
  );
  if (focused) place.querySelector("summary").focus();
}
var tableBox = (view, names) => h(
  "div",
  { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": "What every target makes of this plan" },
  h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col", text: "This plan uses" }),
        names.map((name) => h("th", { scope: "col", text: name, class: name === view.target ? "chosen" : null })),
        h("th", { scope: "col", class: "ex-how", text: `How ${view.target} does it` })
      )
    ),
    h(
      "tbody",
      {},
      view.capabilities.map((row) => tableRow(row, names, view.target))
    )
  )
);
function tableRow({ feature, where, answers }, names, target) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, feature, h("small", { text: where })),
    names.map((name) => {
      const [sign, word] = WORDS2[answers[name].answer];
      return h(
        "td",
        { class: `${answers[name].answer}${name === target ? " chosen" : ""}`, "data-answer": `${name}:${answers[name].answer}` },
        h("span", { "aria-hidden": "true", text: `${sign} ` }),
        word
      );
    }),
    h("td", { class: "ex-how", text: answers[target].how })
  );
}

// src/export/changes.js
function drawChanges(place, view, hand) {
  const found = view.changes;
  place.hidden = !found;
  const text = JSON.stringify([view.target, found]);
  if (!found || place.dataset.text === text) return;
  place.dataset.text = text;
  const label = `Changed since ${found.against}`;
  if (found.problem || !found.rows.length) {
    const said = found.problem ? `Cannot be said in the words of ${view.target}: ${found.problem}` : "Nothing that these files say.";
    place.replaceChildren(h("h3", { text: label }), h("p", { class: "sx-sub", text: said }));
    return;
  }
  place.replaceChildren(
    h("h3", { text: label }),
    h("div", { class: "sx-tablebox", tabindex: "0", role: "region", "aria-label": label }, changeTable(found)),
    ...found.more ? [h("p", { class: "sx-sub", text: `and ${plural(found.more, "difference")} more` })] : [],
    h("div", { class: "ex-buttons" }, found.files.filter((file) => file.text).map((file) => copyButton(file, hand)))
  );
}
function copyButton(file, hand) {
  const label = `Copy the changed lines of ${file.name}`;
  return h("button", { class: "sx-btn", "data-action": "copy-changes", "data-of": file.name, text: label, on: { click: () => hand(file) } });
}
function changeTable({ rows }) {
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Setting", "Then", "Now"].map((word) => h("th", { scope: "col", text: word }))
      )
    ),
    h(
      "tbody",
      {},
      rows.map(
        ({ key, before, after }) => h("tr", { "data-key": key }, h("th", { scope: "row" }, h("code", { text: key })), cell(before), cell(after))
      )
    )
  );
}
var cell = (value) => value == null ? h("td", { class: "ex-unset", text: "not set" }) : h("td", {}, h("code", { text: value }));

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

// src/export/handing.js
function download(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.split("/").pop();
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1e4);
}

// src/export/tint.js
var RULES = {
  yaml: /(?<comment>#[^\n]*)|(?<string>"[^"\n]*"|'[^'\n]*')|(?<key>^[ \t-]*[\w.]+(?=:))/gm,
  py: /(?<string>"""[\s\S]*?"""|"[^"\n]*"|'[^'\n]*')|(?<comment>#[^\n]*)|(?<key>\b(?:def|return|import|from|class|for|in|if|else|None|True|False)\b)/gm,
  sh: /(?<comment>(?<=^|\s)#[^\n]*)|(?<string>"[^"\n]*"|'[^'\n]*')|(?<key>(?<=\s)--[\w-]+)/gm,
  json: /(?<key>"[^"\n]*"(?=\s*:))|(?<string>"[^"\n]*")/gm
};
var KIND = { yaml: "yaml", yml: "yaml", toml: "sh", py: "py", sh: "sh", json: "json" };
function tint(name, text) {
  const rule = RULES[KIND[name.split(".").pop()]];
  if (!rule) return [["", text]];
  const pieces = [];
  let at = 0;
  for (const match of text.matchAll(rule)) {
    if (match.index > at) pieces.push(["", text.slice(at, match.index)]);
    const found = Object.entries(match.groups).find(([, value]) => value != null);
    pieces.push([found[0], match[0]]);
    at = match.index + match[0].length;
  }
  if (at < text.length) pieces.push(["", text.slice(at)]);
  return pieces;
}

// src/export/zip.js
var TABLE = Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k += 1) c = c & 1 ? 3988292384 ^ c >>> 1 : c >>> 1;
  return c >>> 0;
});
function crc32(data) {
  let c = 4294967295;
  for (const byte of data) c = TABLE[(c ^ byte) & 255] ^ c >>> 8;
  return (c ^ 4294967295) >>> 0;
}
function dosTime(when) {
  const year = Math.max(1980, when.getFullYear());
  const date = year - 1980 << 9 | when.getMonth() + 1 << 5 | when.getDate();
  const time = when.getHours() << 11 | when.getMinutes() << 5 | when.getSeconds() >> 1;
  return { date, time };
}
var EXECUTABLE = 33261;
var PLAIN = 33188;
var UTF8 = 2048;
var UNIX = 3 << 8;
function zip(files, when) {
  const coder = new TextEncoder();
  const { date, time } = dosTime(when);
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const file of files) {
    const name = coder.encode(file.name);
    const data = coder.encode(file.text);
    const common = [
      [2, UTF8],
      [2, 0],
      [2, time],
      [2, date],
      [4, crc32(data)],
      [4, data.length],
      [4, data.length],
      [2, name.length],
      [2, 0]
    ];
    const local = record([[4, 67324752], [2, 20], ...common]);
    const mode = file.name.endsWith(".sh") ? EXECUTABLE : PLAIN;
    const entry = [[4, 33639248], [2, UNIX | 20], [2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, mode * 65536], [4, offset]];
    directory.push(record(entry), name);
    parts.push(local, name, data);
    offset += local.length + name.length + data.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const end = record([
    [4, 101010256],
    [2, 0],
    [2, 0],
    [2, files.length],
    [2, files.length],
    [4, size],
    [4, offset],
    [2, 0]
  ]);
  return joined([...parts, ...directory, end]);
}
function record(fields) {
  const bytes2 = new Uint8Array(fields.reduce((sum, [width]) => sum + width, 0));
  const view = new DataView(bytes2.buffer);
  let at = 0;
  for (const [width, value] of fields) {
    if (width === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += width;
  }
  return bytes2;
}
function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

// src/export/index.js
var PREVIOUS = { ArrowLeft: -1, ArrowUp: -1 };
var NEXT = { ArrowRight: 1, ArrowDown: 1 };
function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "export", "Export");
  const page = makePage(root, {
    target: (name) => sync.set("target", name),
    file: (name) => sync.set("file", name),
    act: (action) => sync.send("action", { action })
  });
  const sync = new Sync(model, ["view", "target", "file"], draw, true);
  function draw() {
    const view = model.get("view") ?? {};
    page.draw(view, model.get("target"), model.get("file"), Boolean(view.pending) || sync.pending);
  }
  draw();
  return () => {
    sync.close();
    close();
    root.remove();
  };
}
function makePage(root, tell) {
  const buttons = h(
    "span",
    { class: "ex-buttons" },
    h("button", { class: "sx-btn", "data-action": "copy", text: "Copy" }),
    h("button", { class: "sx-btn", "data-action": "download", text: "Download" }),
    h("button", { class: "sx-btn suggested", "data-action": "download-zip", text: "Download .zip" })
  );
  const sub = h("span", { class: "sx-sub" });
  const said = h("span", { class: "ex-said", role: "status", "aria-live": "polite" });
  const head = h("div", { class: "sx-head" }, h("h2", { text: "Export" }), sub, h("span", { class: "sx-space" }), said, buttons);
  const empty = h(
    "div",
    { class: "ex-empty sx-empty" },
    h("p", {
      text: "Nothing exported yet. The files of a target are made from the plan on the board, shown here, and follow every edit; nothing is written on this machine until you download."
    }),
    h("button", { class: "sx-btn suggested", "data-action": "export", text: "Show the files", on: { click: () => tell.act("export") } })
  );
  const tabs = h("div", { class: "ex-tabs", role: "tablist", "aria-label": "Targets" });
  const what = h("span", {});
  const documentation = h("a", { class: "ex-link", target: "_blank", rel: "noopener noreferrer", "data-action": "documentation" });
  const title = h("p", { class: "ex-title sx-sub" }, what, documentation);
  const refusals = h("div", { class: "ex-refused", role: "alert" });
  const answers = h("section", { class: "ex-answers", "aria-label": "What the target makes of this plan" });
  const changes = h("section", { class: "ex-changes", "aria-label": "Changes since the baseline" });
  const beside = h("div", { class: "ex-beside" }, answers, changes);
  const files = h("div", { class: "ex-files", role: "listbox", "aria-label": "Files" });
  const preview = h("pre", { class: "ex-pre", tabindex: "0", role: "region" });
  const omitted = h("p", { class: "ex-omitted sx-sub" });
  const body = h("div", { class: "ex-body" }, files, h("div", { class: "ex-shown" }, preview, omitted));
  const checks = h("ul", { class: "ex-checks" });
  const checkButton = h("button", {
    class: "sx-btn",
    "data-action": "check_export",
    text: "Check that it loads back",
    on: { click: () => tell.act("check_export") }
  });
  const table = h("div", { class: "ex-table" });
  const panel = h("div", { class: "ex-panel", role: "tabpanel", tabindex: "-1" }, title, refusals, beside, body, checks, checkButton);
  root.append(head, empty, tabs, panel, table);
  let shown = { view: {}, file: null };
  choose(tabs, (name) => tell.target(name));
  choose(files, (name) => tell.file(name));
  buttons.addEventListener("click", async (event) => {
    const action = event.target.closest("[data-action]")?.dataset.action;
    const { view, file } = shown;
    if (!action || !file) return;
    if (action === "copy") {
      const done = await copy(file.text, root);
      if (!done) selectAll(preview);
      say(done ? `Copied ${file.name}` : `The browser does not let us copy ${file.name}. What is shown is selected: press Ctrl+C`);
    } else if (action === "download") {
      download(file.name, file.text, "text/plain;charset=utf-8");
      say(`Downloaded ${file.name}`);
    } else {
      const name = `${view.target}.zip`;
      download(name, zip(view.files, /* @__PURE__ */ new Date()), "application/zip");
      say(`Downloaded ${name}, ${plural(view.files.length, "file")}`);
    }
  });
  const say = (text) => set(said, { text });
  return {
    draw(view, target, wanted, pending) {
      const ready = Boolean(view.targets);
      const file = view.files?.find((item) => item.name === wanted) ?? view.files?.[0] ?? null;
      if (file?.text !== shown.file?.text || file?.name !== shown.file?.name) say("");
      shown = { view, file };
      root.dataset.state = pending ? "computing" : "ready";
      set(panel, { "aria-busy": pending ? "true" : null });
      empty.hidden = ready;
      for (const part of [tabs, panel, table, buttons]) part.hidden = !ready;
      set(sub, { text: ready ? `files a trainer reads, of the plan on the board${pending ? "; computing" : ""}` : "files a trainer reads" });
      if (!ready) return;
      keyed(tabs, view.targets, (item) => item.name, makeTab, (tab, item) => drawTab(tab, item, item.name === target));
      const now = view.targets.find((item) => item.name === view.target);
      set(panel, { "aria-label": `${view.target}: ${now?.title ?? ""}` });
      set(what, { text: now?.title ?? "" });
      const address = safeAddress(view.documentation);
      set(documentation, { text: `Documentation of ${view.target}`, href: address });
      documentation.hidden = !address;
      for (const button of buttons.children) button.disabled = !file;
      drawRefusals(refusals, view, () => tell.act("use_nearest"));
      drawAnswers(answers, view);
      drawChanges(changes, view, async (file2) => {
        const done = await copy(file2.text, root);
        say(done ? saidOf(file2) : `The browser does not let us copy; the lines stand in ${file2.name}`);
      });
      body.hidden = !file;
      if (file) drawFiles({ files, preview, omitted }, view.files, file);
      keyed(checks, checkRows(view), (row) => row.text, () => h("li", {}), drawCheck);
      checkButton.hidden = !view.can_check || view.back != null;
      drawTable(table, view);
    }
  };
}
function choose(place, pick2) {
  const items = () => [...place.querySelectorAll("[data-value]")];
  place.addEventListener("click", (event) => {
    const item = event.target.closest("[data-value]");
    if (item) pick2(item.dataset.value);
  });
  place.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(event.target.closest("[data-value]"));
    const step = PREVIOUS[event.key] ?? NEXT[event.key];
    const to = step ? (at + step + all.length) % all.length : { Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to == null) return;
    event.preventDefault();
    all[to].focus();
    pick2(all[to].dataset.value);
  });
}
var makeTab = () => h("button", { class: "ex-tab", role: "tab" }, h("span", {}), h("small", {}));
function drawTab(tab, { name, notes, refused }, chosen) {
  set(tab, { "data-value": name, "data-target": name, "aria-selected": String(chosen), tabindex: chosen ? "0" : "-1" });
  set(tab.firstChild, { text: name });
  const small = tab.lastChild;
  const text = refused ? "refuses" : notes ? plural(notes, "note") : "";
  if (small.dataset.text === text) return;
  small.dataset.text = text;
  set(small, { class: refused ? "bad" : "" });
  small.replaceChildren(...refused ? [triangle()] : [], text);
}
var safeAddress = (text) => /^https:\/\//.test(text ?? "") ? text : null;
var saidOf = ({ name, lines, gone }) => `Copied ${plural(lines, "line")} of ${name}${gone > lines ? `; ${plural(gone - lines, "line")} more are gone from it` : ""}`;
function drawFiles({ files, preview, omitted }, rows, file) {
  keyed(
    files,
    rows,
    (row) => row.name,
    () => h("div", { class: "ex-file", role: "option", tabindex: "-1" }, h("span", {}), h("small", {})),
    (item, row) => {
      const chosen = row === file;
      set(item, { "data-value": row.name, "aria-selected": String(chosen), tabindex: chosen ? "0" : "-1" });
      set(item.firstChild, { text: row.name });
      set(item.lastChild, { text: bytes(row.bytes) });
    }
  );
  const shown = file.text.slice(0, file.shown);
  if (preview.dataset.file !== file.name || preview.shown !== shown) {
    const same = preview.dataset.file === file.name;
    set(preview, { "data-file": file.name, "aria-label": `Preview of ${file.name}` });
    preview.shown = shown;
    preview.classList.toggle("long", longest(shown) > 400);
    const top = preview.scrollTop;
    preview.replaceChildren(...tint(file.name, shown).map(([kind, text]) => kind ? h("span", { class: `ex-${kind}`, text }) : document.createTextNode(text)));
    preview.scrollTop = same ? top : 0;
  }
  set(omitted, { text: file.omitted ?? "" });
  omitted.hidden = !file.omitted;
}
var longest = (text) => text.split("\n").reduce((most, line) => Math.max(most, line.length), 0);
var checkRows = (view) => view.back ? [{ ok: view.back.ok, text: view.back.text }] : [];
var SIGNS = { true: ["✓", "ok"], false: ["▲", "bad"], null: ["–", ""] };
function drawCheck(item, { ok, text }) {
  const [sign, kind] = SIGNS[String(ok)];
  if (item.dataset.text === sign + text) return;
  item.dataset.text = sign + text;
  set(item, { class: kind });
  item.replaceChildren(h("span", { class: "ex-sign", "aria-hidden": "true", text: sign }), h("span", { text }));
}
function selectAll(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}
var export_default = { render: linked(render) };
export {
  export_default as default
};
