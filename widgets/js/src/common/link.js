// Whether the kernel still hears this page, and what is said when it does not. No DOM but one event of the document.

import { greet } from "./greet.js";

/** Event of the document by which the widgets of one workbench tell each other that their kernel is gone. */
const LOST = "sx-lost";
/** After this long without an answer it is said; a kernel that runs a cell answers only afterwards. */
export const SLOW_MS = 8000;
/** An interrupted connection that is back within this time is not worth a word. */
const GRACE_MS = 2000;

const CAUSES = {
  restarting: "The kernel was restarted",
  autorestarting: "The kernel ended and was started again",
  dead: "The kernel has ended",
  terminating: "The kernel was shut down",
  gone: "The kernel of this page is gone",
};

/**
 * Follows the kernel by what its frontend tells (status and connection where it has them), by the comm, and by whether
 * sending fails. `state` is `here`; `slow` while an intent waits long; `away` while the connection is interrupted; or
 * `lost`, for good: what this page belongs to is no more.
 */
export class Link {
  /** @param {any} model the anywidget model */
  constructor(model) {
    this.raw = model;
    this.cause = "";
    this.dropped = false; // was an intent under way when the kernel went?
    this.touched = false; // was something tried since?
    this.slow = false;
    this.away = false;
    this.watchers = new Set();
    this.model = this.guarded(model);
    this.onLive = () => this.lose("gone"); // the widget manager let go of its kernel
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
      save_changes: () => this.reach(() => model.save_changes()),
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
      [kernel.disposed, disposed],
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
      way: wayBack(this.raw.get("way_back")),
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
}

/** An application has no cells. */
const wayBack = (way) => (globalThis.document?.body.dataset.voila ? "Load this page again." : way || "Run the cells again.");

/** @param {string} state of a `Link` @param {{cause?: string, dropped?: boolean, busy?: boolean, way?: string}} more */
export function linkWords(state, { cause = "gone", dropped = false, busy = false, way = "" }) {
  if (state === "lost") {
    const undone = dropped ? " Your last change was not made." : "";
    return { level: "error", text: `**${CAUSES[cause]}:** what you see stays readable, but nothing can be changed.${undone} ${way}` };
  }
  if (state === "away") {
    return { level: "error", text: "**The connection to the kernel is interrupted.** The page keeps trying; nothing can be changed meanwhile." };
  }
  if (state !== "slow") return null;
  if (busy) return { level: "info", text: "The kernel is busy; your change will be made as soon as it is free." };
  return { level: "info", text: `The kernel has not answered yet. If it was restarted or has ended: ${way}` };
}

/** A render function whose `model` knows its link and never throws. @param {(given: {model: any, el: HTMLElement}) => (() => void)} render */
export const linked =
  (render) =>
  ({ model, el }) => {
    const link = new Link(model);
    const close = render({ model: link.model, el });
    const silence = greet(model);
    return () => {
      silence();
      close();
      link.close();
    };
  };
