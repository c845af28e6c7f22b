// A question that follows the pointer: asked once it rests, one at a time, and again if it has moved on meanwhile.

/** Milliseconds without a move after which it is asked. */
export const REST_MS = 120;

export class Asking {
  /** @param {(question: any) => boolean|void} send false: it cannot be sent now @param {number} [restMs] */
  constructor(send, restMs = REST_MS) {
    this.send = send;
    this.restMs = restMs;
    this.question = null;
    this.asked = null;
  }

  /** Is something still to be answered? */
  get waiting() {
    return this.question != null;
  }

  /** Ask soon. @param {any} question */
  want(question) {
    this.question = question;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), this.restMs);
  }

  /** Ask now, if nothing else is being answered. */
  ask() {
    clearTimeout(this.timer);
    if (this.asked || !this.question) return;
    this.asked = this.question;
    if (this.send(this.asked) === false) this.asked = null;
  }

  /** The answer to what was asked has come. */
  answered() {
    if (!this.asked) return;
    const done = this.asked === this.question;
    this.asked = null;
    if (done) this.question = null;
    else this.ask();
  }

  /** Ask no longer. */
  stop() {
    clearTimeout(this.timer);
    this.question = this.asked = null;
  }
}
