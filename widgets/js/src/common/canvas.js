// Canvas helpers: sharp at every pixel ratio, colours from the tokens, hatching.

/** Size a canvas to CSS pixels and return a context in those units. */
export function prepare(canvas, width, height) {
  const ratio = globalThis.devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

/** Values of CSS tokens on an element. @param {Element} element @param {string[]} names */
export function tokens(element, names) {
  const style = getComputedStyle(element);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** The font family of an element, for canvas text. */
export const family = (element) => getComputedStyle(element).fontFamily || "sans-serif";

/** A 45 degree hatch pattern, on a ground or on nothing. */
export function hatch(g, colour, size = 6, ground = null) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const t = tile.getContext("2d");
  if (ground) {
    t.fillStyle = ground;
    t.fillRect(0, 0, size, size);
  }
  t.strokeStyle = colour;
  t.lineWidth = 1;
  t.beginPath();
  for (const shift of [-size, 0, size]) {
    t.moveTo(shift, size);
    t.lineTo(shift + size, 0);
  }
  t.stroke();
  return g.createPattern(tile, "repeat");
}

/** One floating text near the pointer, inside the root; above the pointer where it would reach beyond an element's foot. */
export class Tip {
  /** @param {HTMLElement} root @param {HTMLElement} [above] */
  constructor(root, above = root) {
    this.root = root;
    this.above = above;
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
    const { offsetWidth: w, offsetHeight: h } = this.element;
    const x = event.clientX - box.left + 14;
    const y = event.clientY - box.top + 16;
    this.element.style.left = `${Math.max(2, x + w > box.width ? x - w - 24 : x)}px`;
    const foot = this.above.getBoundingClientRect().bottom - box.top;
    this.element.style.top = `${y + h > foot && y - h - 28 > 0 ? y - h - 28 : y}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}

/** A colour between two "#rrggbb", `t` of the way to the second. */
export function mixed(a, b, t) {
  const [x, y] = [a, b].map((hex) => [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16)));
  return `#${x.map((v, k) => Math.round(v + (y[k] - v) * t).toString(16).padStart(2, "0")).join("")}`;
}

/** "#4477aa" as one little-endian pixel of image data. */
export function packed(hex) {
  const n = Number.parseInt((hex || "#888888").slice(1), 16);
  return ((255 << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}
