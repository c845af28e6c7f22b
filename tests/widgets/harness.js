// A stand-in for the anywidget model: get, set, save_changes, on, off, send. `window.models` holds one per widget.
function decode(value) {
  if (!value || typeof value !== "object" || typeof value.$bytes !== "string") return value;
  const binary = Uint8Array.from(atob(value.$bytes), (c) => c.charCodeAt(0));
  return new DataView(binary.buffer);
}

export class FakeModel {
  constructor(state) {
    this.state = Object.fromEntries(Object.entries(state).map(([key, value]) => [key, decode(value)]));
    this.listeners = new Map();
    this.sent = [];
    this.saved = [];
    this.changed = new Set();
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = value;
    this.changed.add(name);
    this.emit([name]);
  }
  save_changes() {
    this.saved.push(Object.fromEntries([...this.changed].map((name) => [name, structuredClone(this.state[name])])));
    this.changed.clear();
  }
  on(event, listener) {
    (this.listeners.get(event) ?? this.listeners.set(event, new Set()).get(event)).add(listener);
  }
  off(event, listener) {
    this.listeners.get(event)?.delete(listener);
  }
  send(content) {
    this.sent.push(structuredClone(content));
  }
  emit(names) {
    for (const name of names) for (const listener of this.listeners.get(`change:${name}`) ?? []) listener();
    for (const listener of this.listeners.get("change") ?? []) listener();
  }
  /** What Python does: several traits in one message. */
  receive(state) {
    Object.assign(this.state, Object.fromEntries(Object.entries(state).map(([key, value]) => [key, decode(value)])));
    this.emit(Object.keys(state));
  }
}

const themeAtFirst = document.body.dataset.jpThemeLight;
window.models = {};
window.cleanups = {};
window.leaked = []; // plain keys that reached the page: JupyterLab would act on them
document.addEventListener("keydown", (event) => window.leaked.push(event.key));
window.show = async (name, source, state) => {
  const widget = await import(source);
  const model = new FakeModel(state);
  const el = document.createElement("div");
  el.id = `host-${name}`;
  document.querySelector("#cell").append(el);
  window.models[name] = model;
  window.cleanups[name] = widget.default.render({ model, el });
};
window.reset = () => {
  for (const close of Object.values(window.cleanups)) close();
  document.querySelector("#cell").replaceChildren();
  document.body.dataset.jpThemeLight = themeAtFirst;
  Object.assign(window, { models: {}, cleanups: {}, leaked: [] });
  scrollTo(0, 0);
};

// ---- what tests ask the page

window.geometry = (selector) => {
  const element = document.querySelector(selector);
  if (!element) return null;
  const { x, y, width, height } = element.getBoundingClientRect();
  return { x, y, width, height };
};

window.frames2 = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));

/** How many different colours a canvas holds. */
window.colours = (selector) => {
  const canvas = document.querySelector(selector);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(data[i] * 65536 + data[i + 1] * 256 + data[i + 2]);
  return seen.size;
};

const channel = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = (c) => 0.2126 * channel(c[0] / 255) + 0.7152 * channel(c[1] / 255) + 0.0722 * channel(c[2] / 255);
const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
function colour(text) {
  const n = text.match(/[\d.]+/g).map(Number);
  return [n[0], n[1], n[2], n[3] ?? 1];
}

/** Contrast of every text in the widgets with what is painted behind it: [ratio, which]. */
window.contrasts = () => {
  const result = [];
  for (const element of document.querySelectorAll(".sx *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("[disabled], .sx-live, option, svg")) continue;
    const layers = [];
    for (let parent = element; parent; parent = parent.parentElement) {
      layers.push(colour(getComputedStyle(parent).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    const back = layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
    const ink = over(colour(getComputedStyle(element).color), back);
    const [x, y] = [light(ink), light(back)].sort((a, b) => b - a);
    result.push([(x + 0.05) / (y + 0.05), `${element.className} ${element.textContent.trim().slice(0, 30)}`]);
  }
  return result;
};

/** Elements that can take focus and do not keep JupyterLab's shortcuts away. */
window.unguarded = () =>
  [...document.querySelectorAll(".sx [tabindex], .sx button, .sx input, .sx select")]
    .filter((element) => element.dataset.lmSuppressShortcuts !== "true")
    .map((element) => element.outerHTML.slice(0, 80));

window.boxes = (selector) =>
  [...document.querySelectorAll(selector)].map((element) => {
    const r = element.getBoundingClientRect();
    return [r.x, r.y, r.right, r.bottom];
  });

window.ready = true;
