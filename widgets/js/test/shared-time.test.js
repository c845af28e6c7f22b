import assert from "node:assert/strict";
import test from "node:test";
import { joinTime, leaveTime, SharedTime } from "../src/common/shared-time.js";
import { Window } from "../src/common/window.js";
import { Bars } from "../src/timeline/bars.js";
import { flowsOf } from "../src/timeline/flows.js";

test("a window says when another stretch is seen, and only then", () => {
  let told = 0;
  const window = new Window(10, () => (told += 1));
  window.zoom(0.5);
  assert.deepEqual([window.t0, window.t1, told, window.whole], [2.5, 7.5, 1, false]);
  window.place(2.5, 5);
  assert.equal(told, 1, "the same stretch");
  window.reach(10);
  assert.deepEqual([window.t0, window.t1], [2.5, 7.5], "the same whole: stays");
  window.reach(20);
  assert.deepEqual([window.t0, window.t1, window.whole, told], [0, 20, true, 2]);
});

test("all views of a workbench see one stretch and one cursor", () => {
  globalThis.document = {};
  const told = { a: [], b: [], c: [] };
  const [a, b, c] = [{}, {}, {}];
  const one = joinTime("bench", a, (what) => told.a.push(what));
  const two = joinTime("bench", b, (what) => told.b.push(what));
  const other = joinTime("another", c, (what) => told.c.push(what));
  assert.equal(one, two);
  assert.notEqual(one, other);
  one.reach(a, 5);
  two.window.zoom(0.5);
  two.point({ t: 1, plan: 0, lane: "2", row: null });
  two.point({ t: 1, plan: 0, lane: "2", row: null });
  assert.deepEqual(told.a, ["window", "window", "cursor"], "said once");
  assert.deepEqual(told.b, told.a);
  assert.deepEqual(told.c, []);
  assert.notEqual(joinTime("", {}, () => {}), joinTime("", {}, () => {}), "views of no workbench have their own");
  leaveTime("bench", one, a);
  assert.equal(joinTime("bench", a, () => {}), two, "while one is left");
  leaveTime("bench", two, a);
  leaveTime("bench", two, b);
  assert.notEqual(joinTime("bench", a, () => {}), two);
  delete globalThis.document;
});

test("the view that leads decides how long the whole is", () => {
  const time = new SharedTime();
  const [timeline, heatmap] = [{}, {}];
  time.join(timeline, () => {});
  time.join(heatmap, () => {});
  time.reach(heatmap, 8);
  assert.equal(time.window.end, 8);
  time.reach(timeline, 6, true);
  assert.equal(time.window.end, 6);
  time.reach(heatmap, 9);
  assert.equal(time.window.end, 6);
  time.leave(timeline);
  time.reach(heatmap, 9);
  assert.equal(time.window.end, 9);
});

const rows = [
  // start end lane kind stage copy microbatch count peer bytes
  [0, 1, 0, 0, 0, 0, 0, 1, -1, 0],
  [1, 1.5, 0, 6, 0, 0, 0, 1, 1, 64],
  [1.5, 2.5, 1, 0, 1, 0, 0, 1, -1, 0],
  [2.5, 3.5, 1, 1, 1, 0, 0, 1, -1, 0],
  [3.5, 4, 1, 6, 1, 0, 0, 1, 0, 64],
  [4, 6, 0, 1, 0, 0, 0, 1, -1, 0],
  [1, 2, 0, 0, 0, 0, 1, 1, -1, 0],
  [6, 7, 0, 4, 0, 0, -1, 0, -1, 0],
];

test("a microbatch flows along its transfers, there and back", () => {
  const bars = new Bars(new Float32Array(rows.flat()), 2);
  assert.deepEqual(flowsOf(bars, 0), [
    { from: 0, to: 2 },
    { from: 3, to: 5 },
  ]);
  assert.deepEqual(flowsOf(bars, 1), [], "it is on one lane");
  assert.deepEqual(flowsOf(bars, 9), []);
});

test("where transfers take no time it goes from each bar to the next one on another lane", () => {
  const bars = new Bars(new Float32Array(rows.filter((row) => row[3] !== 6).flat()), 2);
  assert.deepEqual(flowsOf(bars, 0), [
    { from: 0, to: 1 },
    { from: 2, to: 3 },
  ]);
});

test("a bar of several microbatches belongs to each of them", () => {
  const bars = new Bars(new Float32Array([...rows.flat(), 7, 8, 0, 3, 0, 0, 0, 2, -1, 0]), 2);
  assert.ok(bars.journey(0).includes(8) && bars.journey(1).includes(8));
  assert.deepEqual(bars.journey(1), [6, 8]);
  assert.equal(bars.journey(1), bars.journey(1), "kept");
});
