// Drawing only what differs, told from what was drawn last: reading the page back would cost more than writing it.

import { set } from "../common/dom.js";

/** @type {WeakMap<Element, any[]>} what an element was last drawn from */
const inputs = new WeakMap();
/** @type {WeakMap<Element, Record<string, any>>} what was last written to an element */
const written = new WeakMap();

/**
 * Is an element to be drawn again? True when one of the values it is drawn from is another than last time.
 * @param {Element} element @param {any[]} values
 */
export function stale(element, values) {
  const old = inputs.get(element);
  if (old && old.length === values.length && values.every((value, i) => Object.is(value, old[i]))) return false;
  inputs.set(element, values);
  return true;
}

/** Draw this element at the next occasion, whatever it was drawn from. */
export const forget = (element) => void inputs.delete(element);

/**
 * `set`, but compared with what this function wrote last. `style` is an object of properties.
 * @param {Element} element @param {Record<string, any>} attributes
 */
export function patch(element, attributes) {
  let last = written.get(element);
  if (!last) written.set(element, (last = {}));
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
    if (last[key] === value || (value === null && !(key in last))) continue;
    last[key] = value;
    if (value === null) element.style.removeProperty(property);
    else element.style.setProperty(property, value);
  }
}

/** Text without replacing the node: that would lay out more than the line. */
function writeText(element, value) {
  const text = value == null ? "" : String(value);
  const node = element.firstChild;
  if (node && node.nodeType === 3 && !node.nextSibling) node.data = text;
  else if (text || node) element.textContent = text;
}

/** A fraction as CSS percent, fine enough for half a pixel of a wide screen. */
export const pct = (x) => `${(x * 100).toFixed(3)}%`;
