// Whether the board that belongs to these tiles has come onto the page. The code of a widget may fail to start, on a busy
// machine above all, and then its place stays blank without a word: the tiles say so, and offer to start it again.

const LOOK_MS = 1000;
/** So many looks in a row without a board until it is said; a look that comes late, on a busy page, counts once. */
const LOOKS = 8;

export const MISSING = {
  level: "warn",
  text: "**The board did not start.** Everything else goes on as usual.",
  actions: [{ action: "show_board", label: "Show it again", suggested: true }],
};

/** Looks for the board in the frame of a workbench, only while there is a plan to show. */
export class BoardThere {
  /** @param {HTMLElement} root of the tiles @param {() => boolean} expected is there a plan, and a kernel? @param {() => void} changed */
  constructor(root, expected, changed) {
    Object.assign(this, { root, expected, changed, missed: 0 });
    this.wait();
  }

  get missing() {
    return this.missed >= LOOKS;
  }

  wait() {
    this.timer = setTimeout(() => this.look(), LOOK_MS);
  }

  look() {
    const frame = this.root.closest(".xp-frame"); // elsewhere somebody shows the tiles alone
    const there = frame?.querySelector(`.sx-board[data-bench="${CSS.escape(this.root.dataset.bench)}"]`);
    const before = this.missing;
    this.missed = !frame || there || !this.expected() ? 0 : this.missed + 1;
    if (this.missing !== before) this.changed();
    if (!there) this.wait(); // what has started once is drawn by itself from then on
  }

  /** It is being started again: wait as long as the first time. */
  again() {
    this.missed = 0;
    this.changed();
  }

  stop() {
    clearTimeout(this.timer);
  }
}
