import assert from "node:assert/strict";
import test from "node:test";
import { BoardThere } from "../src/tiles/board-there.js";

globalThis.CSS ??= { escape: (text) => text };

/** Tiles in a frame of which the test says whether a board stands there. */
function tiles(t, { framed = true } = {}) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const page = { board: false, plan: true, drawn: 0 };
  const frame = { querySelector: (selector) => (page.board && selector.includes('"b1"') ? {} : null) };
  const root = { dataset: { bench: "b1" }, closest: () => (framed ? frame : null) };
  const there = new BoardThere(/** @type {any} */ (root), () => page.plan, () => (page.drawn += 1));
  const wait = (seconds) => {
    for (let i = 0; i < seconds; i += 1) t.mock.timers.tick(1000);
  };
  return { page, there, wait };
}

test("a board that does not come is said after some seconds, and no longer once it has come", (t) => {
  const { page, there, wait } = tiles(t);
  wait(7);
  assert.deepEqual([there.missing, page.drawn], [false, 0]);
  wait(1);
  assert.deepEqual([there.missing, page.drawn], [true, 1]);
  there.again();
  assert.equal(there.missing, false, "it is given time anew");
  wait(8);
  assert.equal(there.missing, true);
  page.board = true;
  wait(1);
  assert.equal(there.missing, false);
  page.board = false;
  wait(20);
  assert.equal(there.missing, false, "what has come once is not looked for");
});

test("no board is missed without a plan, or outside of a workbench", (t) => {
  const alone = tiles(t, { framed: false });
  alone.wait(20);
  assert.equal(alone.there.missing, false);
});

test("the time counts from the plan", (t) => {
  const { page, there, wait } = tiles(t);
  page.plan = false;
  wait(20);
  assert.equal(there.missing, false);
  page.plan = true;
  wait(7);
  assert.equal(there.missing, false);
  wait(1);
  assert.equal(there.missing, true);
});
