// After a drop: the answer alone is drawn if it comes soon, else the estimate.

import assert from "node:assert/strict";
import test from "node:test";

import { Hold } from "../src/board/hold.js";

/** A board that counts its drawings. */
function board() {
  const ctx = { preview: { view: {}, target: null }, shown: 0, model: { get: () => "" } };
  ctx.show = () => {
    assert.equal(ctx.preview, null, "the preview is over before anything is drawn");
    ctx.shown += 1;
  };
  ctx.hold = new Hold(ctx);
  return ctx;
}

function withTimers(context, work) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const events = [];
  globalThis.document = { dispatchEvent: (event) => events.push(event.detail.values) };
  try {
    work(events);
  } finally {
    delete globalThis.document;
  }
}

test("an answer that comes soon is drawn once, and the tiles are told that the preview is over", (context) => {
  withTimers(context, (events) => {
    const ctx = board();
    ctx.hold.begin();
    context.mock.timers.tick(30);
    assert.deepEqual([ctx.hold.on, ctx.shown], [true, 0]);
    ctx.hold.end();
    context.mock.timers.tick(1000);
    assert.deepEqual([ctx.hold.on, ctx.shown, ctx.preview], [false, 1, null]);
    assert.deepEqual(events, [null]);
  });
});

test("without an answer the estimate is drawn by itself", (context) => {
  withTimers(context, (events) => {
    const ctx = board();
    ctx.hold.begin();
    context.mock.timers.tick(1000);
    assert.deepEqual([ctx.hold.on, ctx.shown], [false, 1]);
    assert.deepEqual(events, [null]);
  });
});

test("what is dropped without a word draws nothing more", (context) => {
  withTimers(context, (events) => {
    const ctx = board();
    ctx.hold.begin();
    ctx.hold.drop();
    context.mock.timers.tick(1000);
    assert.deepEqual([ctx.hold.on, ctx.shown], [false, 0]);
    assert.deepEqual(events, [null]);
    ctx.hold.drop();
    assert.deepEqual(events, [null], "told once");
  });
});

test("what was in the hand goes with the preview: a frame without it would only keep the answer waiting", (context) => {
  withTimers(context, () => {
    const ctx = board();
    let gone = 0;
    ctx.hold.take(() => (gone += 1));
    assert.equal(gone, 1, "nothing is waited for");
    ctx.hold.begin();
    ctx.hold.take(() => (gone += 1));
    assert.equal(gone, 1);
    ctx.hold.end();
    ctx.hold.end();
    assert.equal(gone, 2);
  });
});
