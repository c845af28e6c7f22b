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

// src/controls/fields.js
function grouped(fields) {
  const groups = [];
  for (const field of fields) {
    const last = groups[groups.length - 1];
    if (field.group && last?.name === field.group) last.fields.push(field);
    else groups.push({ key: `${field.key}:${field.kind}`, name: field.group ?? null, fields: [field] });
  }
  return groups;
}
function numberComplaint(text, { minimum, maximum, step }) {
  const x = Number(text);
  if (text === "" || !Number.isFinite(x)) return "not a number";
  if (minimum != null && x < minimum) return `at least ${minimum}`;
  if (maximum != null && x > maximum) return `at most ${maximum}`;
  if (step != null && step >= 1 && !Number.isInteger(x)) return "a whole number";
  return null;
}
function drawFields(place, fields, send) {
  keyed(
    place,
    grouped(fields),
    (group) => group.key,
    () => h("div", { class: "c-group" }, h("span", { class: "c-name", "aria-hidden": "true" }), h("div", { class: "c-joined" })),
    (element, group) => {
      const [name, joined] = element.children;
      set(element, { class: group.name ? "c-group named" : "c-group", role: group.name ? "group" : null, "aria-label": group.name });
      set(name, { text: group.name ?? "" });
      keyed(
        joined,
        group.fields,
        (field) => `${field.key}:${field.kind}`,
        (field) => makeField(field, send),
        drawField
      );
    }
  );
}
function makeField(field, send) {
  const input = field.kind === "select" ? h("select", { class: "c-input" }) : h("input", {
    class: "c-input",
    type: "text",
    inputmode: field.kind === "number" ? "numeric" : null,
    spellcheck: "false"
  });
  const element = h("label", { class: "c-field" }, h("span", {}), input, h("em", { role: "alert" }));
  input.addEventListener("change", () => {
    const text = input.value.trim();
    if (element.kind !== "number") return send(element.key, text);
    const complaint = numberComplaint(text, element.field);
    element.local = complaint;
    drawError(element);
    return complaint ? void 0 : send(element.key, Number(text));
  });
  return element;
}
function drawField(element, field) {
  Object.assign(element, { key: field.key, kind: field.kind, field });
  const [label, input] = element.children;
  set(label, { text: field.label });
  set(input, {
    "data-field": field.key,
    title: field.title ?? null,
    style: { width: field.width_px ? `${field.width_px}px` : null }
  });
  if (field.kind === "select")
    keyed(
      input,
      field.options ?? [],
      (option) => String(option.value),
      () => h("option", {}),
      (option, { value: value2, label: text }) => set(option, { value: String(value2), text })
    );
  const value = field.value == null ? "" : String(field.value);
  if (element.sent !== value || document.activeElement !== input) {
    input.value = value;
    element.sent = value;
    element.local = null;
  }
  drawError(element);
}
function drawError(element) {
  const error = element.local ?? element.field.error ?? "";
  const [, input, place] = element.children;
  set(place, { text: error });
  set(input, { "aria-invalid": error ? "true" : null });
}

// src/controls/index.js
function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "controls", "Strategy");
  const fields = h("div", { class: "c-fields" });
  const buttons = h("div", {
    class: "c-buttons",
    on: {
      click: (event) => {
        const button = event.target.closest("[data-action]");
        if (button && !button.disabled) sync.send("action", { action: button.dataset.action });
      }
    }
  });
  root.append(h("div", { class: "c-bar" }, fields, buttons));
  const sync = new Sync(model, ["view"], draw);
  const send = (key, value) => sync.send("set", { key, value });
  function draw() {
    const view = model.get("view") ?? {};
    set(root, { "aria-label": view.name ?? "Strategy" });
    drawFields(fields, view.fields ?? [], send);
    drawButtons(buttons, view.buttons ?? []);
  }
  draw();
  return () => {
    sync.close();
    close();
    root.remove();
  };
}
function drawButtons(place, buttons) {
  const groups = [];
  for (const button of buttons) {
    const last = groups[groups.length - 1];
    if (last && button.action === "redo" && last[last.length - 1].action === "undo") last.push(button);
    else groups.push([button]);
  }
  keyed(
    place,
    groups,
    (group) => group[0].action,
    () => h("span", { class: "sx-seg" }),
    (span, group) => keyed(
      span,
      group,
      (b) => b.action,
      () => h("button", { class: "sx-btn" }),
      (button, b) => {
        set(button, {
          text: b.label,
          "data-action": b.action,
          class: `sx-btn${b.primary ? " primary" : ""}${b.suggested ? " suggested" : ""}`,
          title: b.title ?? null,
          "aria-pressed": b.pressed == null ? null : String(b.pressed)
        });
        button.disabled = b.enabled === false;
      }
    )
  );
}
var controls_default = { render };
export {
  controls_default as default
};
