import assert from "node:assert/strict";
import test from "node:test";
import { Asking } from "../src/common/asking.js";
import { gridOf, mostOf } from "../src/heatmap/cells.js";
import { boxOf, cellUnder, columnOf, panelsOf, timeX, xTime } from "../src/heatmap/panels.js";
import { spanWords, sumWords } from "../src/timeline/area.js";
import { inUse, momentWords, tensorWords } from "../src/timeline/moment.js";

const plain = (text) => text.replace(/[\u00a0\u202f]/g, " ");
const GIB = 2 ** 30;

test("one question at a time, then the newest", () => {
  const sent = [];
  const asking = new Asking((question) => sent.push(question), 10_000);
  asking.ask();
  assert.deepEqual([sent, asking.waiting], [[], false], "nothing to ask");
  asking.want("a");
  asking.ask();
  asking.want("b");
  asking.want("c");
  asking.ask();
  assert.deepEqual([sent, asking.waiting], [["a"], true], "while one is under way");
  asking.answered();
  assert.deepEqual(sent, ["a", "c"]);
  asking.answered();
  asking.answered();
  assert.deepEqual([sent, asking.waiting], [["a", "c"], false]);
  asking.want("d");
  asking.stop();
  asking.ask();
  assert.deepEqual(sent, ["a", "c"], "no longer wanted");
  let there = false;
  const later = new Asking((question) => there && Boolean(sent.push(question)), 10_000);
  later.want("e");
  later.ask();
  assert.ok(later.waiting, "nobody was there to be asked");
  there = true;
  later.ask();
  assert.deepEqual(sent, ["a", "c", "e"]);
});

test("a question is asked once its cursor rests", async () => {
  const sent = [];
  const asking = new Asking((question) => sent.push(question), 20);
  for (const question of [1, 2, 3]) asking.want(question);
  assert.deepEqual(sent, []);
  await new Promise((done) => setTimeout(done, 60));
  assert.deepEqual(sent, [3]);
});

const plan = {
  name: "A",
  length_s: 2,
  busy: ["forward", "backward", "update"],
  moved: ["transfers", "gradient reduction"],
  all: { count: 4, busy_s: [2, 4, 0], computing_s: 6, inside_s: 0, bubble_s: 2, bytes: [GIB, 0] },
};

test("an area is told as shares of the time of all devices", () => {
  assert.deepEqual(sumWords(plan).map(plain), [
    "computing 75.0 %: forward 25.0 %, backward 50.0 %",
    "bubble 25.0 %",
    "1.0 GiB sent, all of it transfers",
  ]);
  const more = { ...plan, all: { ...plan.all, inside_s: 0.8, bytes: [GIB, 3 * GIB] } };
  assert.deepEqual(sumWords(more).slice(1).map(plain), [
    "bubble 25.0 % (10.0 % in collectives inside layers)",
    "4.0 GiB sent: transfers 1.0 GiB, gradient reduction 3.0 GiB",
  ]);
  const idle = { ...plan, all: { ...plan.all, busy_s: [0, 0, 0], computing_s: 0, bubble_s: 8, bytes: [0, 0] } };
  assert.deepEqual(sumWords(idle).map(plain), ["computing 0.0 %", "bubble 100.0 %", "nothing sent"]);
  assert.deepEqual(sumWords({ ...plan, length_s: 0 }), ["has ended before"]);
  assert.equal(plain(spanWords({ from_s: 0.5, to_s: 1.25 })), "0.50 s to 1.25 s");
});

test("memory is told by its sum and its largest tensors", () => {
  const moment = {
    name: "stage 1",
    time_s: 1.5,
    capacity_bytes: 80 * GIB,
    parts: [
      { name: "weights", bytes: 10 * GIB },
      { name: "activations", bytes: 5 * GIB },
    ],
    tensors: [{ name: "mlp.up", part: "activations", count: 12, bytes: 3 * GIB }],
  };
  assert.equal(inUse(moment).total, 15 * GIB);
  assert.equal(plain(momentWords(moment)), "stage 1 at 1.50 s: 15.0 GiB of 80.0 GiB in use; largest: mlp.up, activations, 12 tensors, 3.0 GiB");
  assert.equal(tensorWords({ name: "buffers", part: "buffers", count: 1 }), "buffers");
});

const memory = {
  kind: "memory",
  rows: [{ name: "gpu 0", lane: "0" }],
  columns: 8,
  start_s: 0,
  end_s: 4,
  capacity_bytes: 10,
};
const grid = gridOf(memory, new Float32Array([1, 2, 3, 4, 5, 6, 7, 8]), "time");

test("a zoomed map has its cells where their time is", () => {
  const { panels } = panelsOf([grid], 800, { t0: 1, t1: 3 });
  const [panel] = panels;
  assert.ok(Math.abs(xTime(panel.axis, timeX(panel.axis, 1.7)) - 1.7) < 1e-9);
  for (let k = 2; k < 6; k += 1) {
    const [x, y, w, h] = boxOf(grid, panel, { r: 0, k });
    assert.ok(Math.abs(w - panel.axis.room / 4) < 1e-9, "four of eight columns are seen");
    assert.deepEqual(cellUnder(grid, panel, x + w / 2, y + h / 2), { r: 0, k });
  }
  assert.deepEqual([panel.from, panel.right], [panel.left, panel.left + panel.axis.room]);
  assert.equal(columnOf(grid, 3), 6);
});

test("what ends before the whole leaves the rest empty", () => {
  const [panel] = panelsOf([grid], 800, { t0: 0, t1: 8 }).panels;
  assert.ok(Math.abs(panel.right - panel.left - panel.axis.room / 2) < 1e-9);
  assert.equal(cellUnder(grid, panel, panel.right + 20, panel.tops[0] + 2), null);
  const [gone] = panelsOf([grid], 800, { t0: 5, t1: 8 }).panels;
  assert.equal(gone.right, gone.from, "nothing of it is seen");
});

test("pixels of a part show that part's columns", () => {
  const seen = Array.from({ length: 100 }, (_, p) => mostOf(grid, 0, p, 100, 2, 4));
  assert.deepEqual([...new Set(seen)], [3, 4, 5, 6]);
  assert.deepEqual([mostOf(grid, 0, 0, 2, 2, 4), mostOf(grid, 0, 1, 2, 2, 4)], [4, 6], "the largest of each");
});
