// What stands for the kernel in a report: the anywidget model over data of the page. Nothing is sent anywhere.

/** Bytes that JSON cannot hold come as `{"$bytes": base64}`. @param {any} value */
export function decode(value) {
  if (!value || typeof value !== "object" || typeof value.$bytes !== "string") return value;
  const bytes = Uint8Array.from(atob(value.$bytes), (c) => c.charCodeAt(0));
  return new DataView(bytes.buffer);
}

/** The same calls as the model of anywidget; intents go nowhere. */
export class Model {
  /** @param {Record<string, any>} state @param {(model: Model, name: string, before: any) => void} [answer] */
  constructor(state, answer = () => {}) {
    this.state = Object.fromEntries(Object.entries(state).map(([name, value]) => [name, decode(value)]));
    this.listeners = new Map();
    this.answer = answer;
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    const before = this.state[name];
    if (before === value) return;
    this.state[name] = value;
    this.tell(name);
    this.answer(this, name, before);
  }
  save_changes() {}
  send() {}
  on(event, listener) {
    if (!this.listeners.has(event)) this.listeners.set(event, new Set());
    this.listeners.get(event).add(listener);
  }
  off(event, listener) {
    this.listeners.get(event)?.delete(listener);
  }
  /** @param {...string} names */
  tell(...names) {
    for (const name of names) for (const listener of this.listeners.get(`change:${name}`) ?? []) listener();
    for (const listener of this.listeners.get("change") ?? []) listener();
  }
}

/** Traits that are the same in several widgets: one follows the other. @param {Model[]} models @param {string} name */
export function link(models, name) {
  for (const model of models)
    model.on(`change:${name}`, () => {
      for (const other of models) if (other !== model && !same(other.get(name), model.get(name))) other.set(name, model.get(name));
    });
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export const SHUT = "The report holds the graph as it was opened when it was made. The workbench opens more.";

/**
 * The graph asks Python for what it opens: here for the answers that the report brings, else it stays as it is.
 * @param {Record<string, any>} answers views by what is open
 */
export const graphAnswers = (answers) => (model, name, before) => {
  if (name !== "opened") return;
  const view = answers[openKey(model.get("opened"))];
  if (view) model.state.view = view;
  else Object.assign(model.state, { opened: before, notice: { level: "info", text: SHUT } });
  model.tell("view", "opened", "notice");
};

/** @param {string[]} opened */
export const openKey = (opened) => JSON.stringify([...(opened ?? [])].sort());
