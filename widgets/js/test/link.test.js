// What a widget knows and says of its kernel.

import assert from "node:assert/strict";
import test from "node:test";
import { Link, linked, linkWords, SLOW_MS } from "../src/common/link.js";
import { Sync } from "../src/common/sync.js";

class Signal {
  listeners = new Set();
  connect(listener) {
    this.listeners.add(listener);
  }
  disconnect(listener) {
    this.listeners.delete(listener);
  }
  emit() {
    for (const listener of this.listeners) listener();
  }
}

/** A model that can be cut off, of a frontend that tells of its kernel or does not. */
function make({ kernel } = {}) {
  const state = { seq: 0, bench: "b1", way_back: "Run the cells again." };
  const listeners = new Map();
  return {
    sent: [],
    widget_manager: kernel && { kernel },
    get: (name) => state[name],
    on: (event, listener) => listeners.set(event, listener),
    off: (event) => listeners.delete(event),
    send(content) {
      if (this.cut) throw new Error("Cannot send");
      this.sent.push(content);
    },
    save_changes() {},
    receive(change) {
      Object.assign(state, change);
      for (const name of Object.keys(change)) listeners.get(`change:${name}`)?.();
    },
    fire: (event) => listeners.get(event)?.(),
    listeners,
  };
}

const kernelOf = (status = "idle") => ({
  status,
  connectionStatus: "connected",
  statusChanged: new Signal(),
  connectionStatusChanged: new Signal(),
  disposed: new Signal(),
});

function setting(options) {
  const model = make(options);
  const link = new Link(model);
  let drawn = 0;
  const sync = new Sync(link.model, ["view"], () => (drawn += 1));
  return { model, link, sync, drawn: () => drawn };
}

test("a message that cannot be sent is no error of the page: the kernel is gone", () => {
  const { model, link, sync } = setting();
  model.cut = true;
  assert.equal(link.words, null);
  sync.send("move");
  assert.equal(link.state, "lost");
  assert.equal(sync.pending, false, "no answer is awaited");
  assert.match(link.words.text, /^\*\*The kernel of this page is gone:\*\* .* Your last change was not made\. Run the cells again\.$/);
  model.cut = false;
  sync.send("move");
  assert.deepEqual(model.sent, [], "nothing more is sent");
});

test("the widget manager lets go of its kernel", () => {
  const { model, link } = setting();
  model.fire("comm_live_update");
  assert.equal(link.state, "lost");
  assert.doesNotMatch(link.words.text, /not made/, "nothing was under way");
});

for (const [status, words] of Object.entries({
  restarting: "was restarted",
  autorestarting: "ended and was started again",
  dead: "has ended",
  terminating: "was shut down",
}))
  test(`a kernel that is ${status} is lost for good`, () => {
    const kernel = kernelOf();
    const { model, link } = setting({ kernel });
    model.fire("comm_live_update"); // says less; what says more replaces it
    kernel.status = status;
    kernel.statusChanged.emit();
    kernel.status = "idle";
    kernel.statusChanged.emit();
    assert.equal(link.state, "lost");
    assert.ok(link.words.text.includes(words), link.words.text);
  });

test("an interrupted connection is said after a moment, and goes when it is back", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const kernel = kernelOf();
  const { model, link, sync } = setting({ kernel });
  const change = (status) => {
    kernel.connectionStatus = status;
    kernel.connectionStatusChanged.emit();
  };
  change("connecting");
  change("connected");
  t.mock.timers.tick(60_000);
  assert.equal(link.state, "here", "a blink is not worth a word");
  change("disconnected");
  t.mock.timers.tick(60_000);
  assert.equal(link.state, "away");
  sync.send("move");
  assert.deepEqual(model.sent, [], "what is not sent cannot arrive hours later");
  change("connected");
  assert.equal(link.state, "here");
  sync.send("move");
  assert.equal(model.sent.length, 1);
});

test("an answer that is long in coming is said, with why if it is known", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const kernel = kernelOf("busy");
  const { model, link, sync } = setting({ kernel });
  sync.send("set");
  t.mock.timers.tick(SLOW_MS - 1);
  assert.equal(link.words, null);
  t.mock.timers.tick(1);
  assert.match(link.words.text, /busy/);
  kernel.status = "idle";
  assert.match(link.words.text, /has not answered yet.*Run the cells again/);
  assert.equal(link.shut, false, "it may still come");
  model.receive({ seq: 1 });
  await Promise.resolve();
  assert.equal(link.words, null);
  sync.send("set");
  model.receive({ seq: 2 });
  await Promise.resolve();
  t.mock.timers.tick(SLOW_MS);
  assert.equal(link.words, null, "an answer in time");
});

test("a closed widget listens to nobody", () => {
  const kernel = kernelOf();
  const model = make({ kernel });
  let closed = false;
  const close = linked(({ model: guarded }) => {
    assert.equal(guarded.link.state, "here");
    return () => (closed = true);
  })({ model, el: null });
  assert.ok(model.listeners.size && kernel.statusChanged.listeners.size);
  close();
  assert.ok(closed);
  assert.equal(model.listeners.size + kernel.statusChanged.listeners.size + kernel.disposed.listeners.size, 0);
});

test("words exist for every state", () => {
  for (const state of ["lost", "away", "slow"]) assert.ok(linkWords(state, {}).text);
  assert.equal(linkWords("here", {}), null);
});
