import assert from "node:assert/strict";
import test from "node:test";
import { Bars } from "../src/timeline/bars.js";
import { actionBar, actionOf, actionWords, movable, placeAt, placeBeside, placeWords, sameAction, sequence } from "../src/timeline/reorder.js";

const rows = [
  // start end lane kind stage copy microbatch count peer bytes
  [0, 1, 0, 0, 0, 0, 0, 1, -1, 0],
  [1, 2, 0, 0, 0, 0, 1, 1, -1, 0],
  [4, 5, 0, 5, 0, 0, 0, 1, -1, 0],
  [5, 7, 0, 1, 0, 0, 0, 1, -1, 0],
  [7, 7, 0, 4, 0, 0, -1, 0, -1, 0],
  [1, 1.5, 0, 6, 0, 0, 0, 1, 1, 64],
  [2, 3, 1, 0, 1, 1, 2, 2, -1, 0],
];
const bars = new Bars(new Float32Array(rows.flat()), 2);

test("actions of a lane are its compute without what a backward makes again", () => {
  assert.deepEqual(sequence(bars, 0), [0, 1, 3, 4]);
  assert.deepEqual([movable(bars, 5), movable(bars, 2), movable(bars, -1)], [false, true, false]);
  assert.equal(actionBar(bars, 2), 3);
  assert.equal(actionBar(bars, 1), 1);
});

test("actions are named as orders write them", () => {
  assert.deepEqual([0, 3, 4, 6].map((i) => actionWords(bars, i)), ["0F0", "0B0", "0U", "1F2-3~1"]);
  assert.deepEqual(actionOf(bars, 4), { op: "U", stage: 0, microbatch: -1, copy: 0 });
});

test("a drop stands before the first action whose middle lies behind it; its own place is none", () => {
  assert.deepEqual(placeAt(bars, 1, 0.2), { beside: 0, before: true, t: 0 });
  assert.equal(placeAt(bars, 1, 1.5), null);
  assert.equal(placeAt(bars, 1, 5.9), null);
  assert.deepEqual(placeAt(bars, 1, 6.5), { beside: 4, before: true, t: 7 });
  assert.deepEqual(placeAt(bars, 1, 9), { beside: 4, before: false, t: 7 });
  assert.equal(placeWords(bars, 1, placeAt(bars, 1, 0.2)), "0F1 before 0F0");
});

test("keys go one action on, and stop at the ends", () => {
  assert.deepEqual(placeBeside(bars, 1, -1), { beside: 0, before: true, t: 0 });
  assert.deepEqual(placeBeside(bars, 1, 1), { beside: 3, before: false, t: 7 });
  assert.equal(placeBeside(bars, 0, -1), null);
});

test("an action is found again in other bars", () => {
  const later = new Bars(new Float32Array(rows.map(([a, b, ...rest]) => [a + 1, b + 2, ...rest]).reverse().flat()), 2);
  for (let i = 0; i < bars.length; i += 1) assert.equal(sameAction(later, bars.row(i)), rows.length - 1 - i);
  assert.equal(sameAction(bars, { ...bars.row(0), microbatch: 9 }), -1);
});
