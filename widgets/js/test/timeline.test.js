import assert from "node:assert/strict";
import test from "node:test";
import { float32 } from "../src/common/binary.js";
import { Bars } from "../src/timeline/bars.js";
import { hit, layout, Window } from "../src/timeline/layout.js";

const rows = [
  // start end lane kind stage copy microbatch count peer bytes
  [0, 1, 0, 0, 0, 0, 0, 1, -1, 0],
  [1, 2, 0, 0, 0, 0, 1, 1, -1, 0],
  [4, 6, 0, 1, 0, 0, 0, 1, -1, 0],
  [1, 1.5, 0, 6, 0, 0, 0, 1, 1, 64],
  [1.5, 2.5, 1, 0, 1, 0, 0, 1, -1, 0],
  [2.5, 3.5, 1, 1, 1, 0, 0, 1, -1, 0],
  [3.5, 4, 1, 6, 1, 0, 0, 1, 0, 64],
];
const bars = new Bars(new Float32Array(rows.flat()), 2);

test("bars are split by lane and track, and found by time", () => {
  assert.equal(bars.length, 7);
  assert.equal(bars.at(0, false, 0.5), 0);
  assert.equal(bars.at(0, false, 3), -1, "a bubble");
  assert.equal(bars.at(0, false, 5), 2);
  assert.equal(bars.at(0, true, 1.2), 3);
  assert.equal(bars.at(7, false, 1), -1, "no such lane");
});

test("what is visible includes bars that began before the window", () => {
  const [from, to] = bars.visible(0, false, 5, 7);
  assert.ok(bars.lanes[0].compute.slice(from, to).includes(2));
  assert.deepEqual(new Bars(new Float32Array([...rows].reverse().flat()), 2).lanes[0].compute.length, 3);
});

test("shares of pixels add up to the busy time", () => {
  const shares = bars.shares(0, 0, 6, 12);
  const total = [...shares.values()].flatMap((row) => [...row]).reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(total * 0.5 - 4) < 1e-5);
  assert.ok([...shares.values()].every((row) => row.every((x) => x <= 1.0001)));
});

test("a microbatch's time is computing, transit and waiting", () => {
  const account = bars.account(0);
  assert.equal(account.hops, 2);
  assert.ok(Math.abs(account.computing_s + account.transit_s + account.waiting_s - (account.leaves_s - account.enters_s)) < 1e-6);
  assert.equal(account.transit_s, 1);
  assert.equal(bars.account(99), null);
});

test("ranges of microbatches count", () => {
  const range = new Bars(new Float32Array([0, 1, 0, 3, 0, 0, 4, 4, -1, 0]), 1);
  assert.deepEqual(
    [3, 4, 7, 8].map((m) => range.holds(0, m)),
    [false, true, true, false],
  );
});

test("the window zooms about the pointer and stays inside", () => {
  const window = new Window(10);
  window.zoom(0.5, 0.25);
  assert.deepEqual([window.t0, window.t1], [1.25, 6.25]);
  window.pan(10);
  assert.equal(window.t1, 10);
  window.zoom(100);
  assert.deepEqual([window.t0, window.t1], [0, 10]);
});

test("rows of two plans lie below each other", () => {
  const places = layout([2, 3]);
  assert.deepEqual(hit(places.plans, places.plans[1].rows[2].y + 3), { plan: 1, lane: 2, wire: false });
  assert.equal(hit(places.plans, 2), null);
});

test("bytes with an odd offset are copied", () => {
  const bytes = new Uint8Array(9);
  new DataView(bytes.buffer).setFloat32(1, 2.5, true);
  assert.deepEqual([...float32(new DataView(bytes.buffer, 1, 8))], [2.5, 0]);
  assert.equal(float32(null).length, 0);
});
