// What the kernel is working on for the bar, told to the other parts of the same workbench. No DOM but events.

/** Name of the page's event: `{bench, text}`; `text: null` says that it is done. */
export const WORKING = "sx-working";
/** An answer within this time is not worth a word: a flicker would cost more than it says. */
export const SAID_AFTER_MS = 150;

const tell = (bench, text) => document.dispatchEvent(new CustomEvent(WORKING, { detail: { bench, text } }));

/** What setting a field makes the kernel do. @param {{key: string, label?: string}|undefined} field */
export function fieldWords(field, value) {
  if (field?.key === "model") return `Loading ${value}`;
  if (field?.key === "cluster") return `Placing it on ${value || "the usual devices"}`;
  return `Working out ${(field?.label ?? "it").toLowerCase()} ${value}`;
}

/** Says what is under way once it takes a moment, and when it is done. */
export class Telling {
  /** @param {() => string} bench @param {() => boolean} pending whether an answer is outstanding */
  constructor(bench, pending) {
    this.bench = bench;
    this.pending = pending;
    this.timer = 0;
    this.told = false;
  }

  begin(text) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (!this.pending()) return;
      this.told = true;
      tell(this.bench(), text);
    }, SAID_AFTER_MS);
  }

  /** Something was answered: is it the last? */
  answered() {
    if (this.pending()) return;
    clearTimeout(this.timer);
    if (this.told) tell(this.bench(), null);
    this.told = false;
  }
}

/** Call back with the text of a workbench, or null. Returns what ends it. @param {() => string} bench @param {(text: string|null) => void} heard */
export function onWorking(bench, heard) {
  const listen = (event) => event.detail && (event.detail.bench ?? "") === bench() && heard(event.detail.text);
  document.addEventListener(WORKING, listen);
  return () => document.removeEventListener(WORKING, listen);
}

/** "3 s" since a moment; nothing in the first second. @param {number} ms */
export const sinceWords = (ms) => (ms < 1000 ? "" : `${Math.floor(ms / 1000)}\u00a0s`);
