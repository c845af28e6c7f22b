// Small helpers for building and updating DOM without losing focus.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an HTML element. `class`, `text` and `on` are special; null attributes are left out.
 * Whatever can take focus also tells JupyterLab to keep its shortcuts away (`d d` deletes a cell).
 * @param {string} tag @param {Record<string, any>} [attributes] @param {...(Node|string|null)} children
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  if ("tabindex" in attributes || /^(button|select|input|textarea|summary)$/.test(tag)) {
    element.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  if (tag === "button" && !("type" in attributes)) element.setAttribute("type", "button");
  for (const child of children.flat()) if (child != null) element.append(child);
  return element;
}

/** Make an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  for (const child of children.flat()) if (child != null) element.append(child);
  return element;
}

/** Set attributes, writing only what differs. `style` may be an object of properties. */
export function set(element, attributes) {
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

/**
 * Keyed children: keep, make, order and drop, touching only what changed, so that focus and hover survive.
 * @template T
 * @param {Element} parent @param {T[]} items @param {(item: T, i: number) => string} key
 * @param {(item: T) => Element} make @param {(element: Element, item: T, i: number) => void} update
 */
export function keyed(parent, items, key, make, update) {
  const old = new Map();
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

/** `**bold**` to nodes; nothing else is markup. @param {string} text @returns {Node[]} */
export function bold(text) {
  return String(text ?? "")
    .split("**")
    .map((part, i) => (i % 2 ? h("b", { text: part }) : document.createTextNode(part)));
}

/** Give a label to a region and its heading row. Returns the heading row for more controls. */
export function heading(title, sub) {
  return h("div", { class: "sx-head" }, h("h2", { text: title }), h("span", { class: "sx-sub", text: sub ?? "" }));
}

/** Triangle used for every warning, so that colour is never alone. */
export function triangle(cls = "") {
  return svg(
    "svg",
    { class: `sx-tri ${cls}`, viewBox: "0 0 12 11", width: 12, height: 11, "aria-hidden": "true" },
    svg("path", { d: "M0.6 10.4 L6 0.6 L11.4 10.4 Z" }),
  );
}
