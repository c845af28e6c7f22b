// What the kernel is working on for the bar, told to the other parts of the same workbench. No DOM but events.

/** Name of the page's event: `{bench, work}`; `work: null` says that it is done. */
export const WORKING = "sx-working";
/** Name of the page's event by which any part of a workbench asks to end it: `{bench}`. */
const ENOUGH = "sx-enough";
/** An answer within this time is not worth a word: a flicker would cost more than it says. */
export const SAID_AFTER_MS = 150;

const send = (name, detail) => document.dispatchEvent(new CustomEvent(name, { detail }));

/** What setting a field makes the kernel do. @param {{key: string, label?: string}|undefined} field */
export function fieldWords(field, value) {
  if (field?.key === "model") return `Loading ${value}`;
  if (field?.key === "cluster") return `Placing the model on ${value || "the usual devices"}`;
  return `Working out ${(field?.label ?? "it").toLowerCase()} ${value}`;
}

/** What is done now, and how far that is: "reading the model, step 1 of 3". @param {{text: string, at: number, of: number}|null} doing of Python */
export const phaseWords = (doing) => (doing ? `${doing.text}${doing.of > 1 ? `, step ${doing.at} of ${doing.of}` : ""}` : "");

/** Most characters of a file's name that are said: a plan as a text has thousands. */
const MOST_NAME = 48;

/** What opening a file makes the kernel do. @param {string} name path or name of the file, or a plan as a text */
export const openingWords = (name) => `Opening ${name.length > MOST_NAME ? `${name.slice(0, MOST_NAME)}…` : name}`;

/** Says what is under way once it takes a moment, how far it is, and when it is done. While it says so Escape ends it. */
export class Telling {
  /**
   * @param {() => string} bench @param {() => boolean} pending whether an answer is outstanding
   * @param {HTMLElement} root of the widget that waits
   */
  constructor(bench, pending, root) {
    Object.assign(this, { bench, pending, root, timer: 0, work: null, told: false });
    this.onKey = (event) => {
      if (event.key !== "Escape" || event.isComposing || !this.concerns(event.target)) return;
      event.preventDefault();
      event.stopPropagation();
      enough(bench());
    };
  }

  /** Is a key meant for this workbench? Its focus is in it, or nowhere. */
  concerns(target) {
    const frame = this.root.closest(".xp-frame") ?? this.root;
    return target === document.body || frame.contains(target);
  }

  begin(text, key = "") {
    clearTimeout(this.timer);
    this.work = { text, key, since: Date.now(), phase: "", share: null };
    this.timer = setTimeout(() => {
      if (!this.pending()) return;
      this.told = true;
      this.tell(this.work);
    }, SAID_AFTER_MS);
  }

  /** Python says what is done now. @param {{key: string, text: string, at: number, of: number}|null} doing */
  doing(doing) {
    if (!this.work || !doing || doing.key !== this.work.key) return;
    this.work = { ...this.work, phase: phaseWords(doing), share: doing.of > 1 ? (doing.at - 1) / doing.of : null };
    if (this.told) this.tell(this.work);
  }

  /** Something was answered: is it the last? */
  answered() {
    if (this.pending()) return;
    clearTimeout(this.timer);
    this.work = null;
    if (this.told) this.tell(null);
    this.told = false;
  }

  /** The widget is gone; what it asked for goes on. */
  stop() {
    clearTimeout(this.timer);
    document.removeEventListener("keydown", this.onKey, { capture: true });
  }

  tell(work) {
    document[work ? "addEventListener" : "removeEventListener"]("keydown", this.onKey, { capture: true });
    send(WORKING, { bench: this.bench(), work });
  }
}

/** Call back with what a workbench works on, or null. Returns what ends it. @param {() => string} bench @param {(work: any) => void} heard */
export function onWorking(bench, heard) {
  const listen = (event) => event.detail && (event.detail.bench ?? "") === bench() && heard(event.detail.work);
  document.addEventListener(WORKING, listen);
  return () => document.removeEventListener(WORKING, listen);
}

/** Ask to end what is under way. @param {string} bench */
export const enough = (bench) => send(ENOUGH, { bench });

/** Call back when somebody has enough of it. Returns what ends it. @param {() => string} bench @param {() => void} heard */
export function onEnough(bench, heard) {
  const listen = (event) => event.detail?.bench === bench() && heard();
  document.addEventListener(ENOUGH, listen);
  return () => document.removeEventListener(ENOUGH, listen);
}

/** "3 s" since a moment; nothing in the first second. @param {number} ms */
export const sinceWords = (ms) => (ms < 1000 ? "" : `${Math.floor(ms / 1000)}\u00a0s`);
