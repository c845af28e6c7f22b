import assert from "node:assert/strict";
import test from "node:test";
import { contrast, cividis } from "../src/common/scales.js";
import { gridOf, memoryGrid, mostOf, moveCell, partsGrid, picturesOf, roundUp, rowPlaces, scaleOf, trafficGrid } from "../src/heatmap/cells.js";
import { boxOf, cellUnder, panelsOf } from "../src/heatmap/panels.js";
import { againstWords, columnAt, placeWords, summary, titleOf, valueWords } from "../src/heatmap/words.js";

const plain = (text) => text.replace(/[\u00a0\u202f]/g, " ");
const GIB = 2 ** 30;
const rows = [
  { name: "gpu 0", lane: "0" },
  { name: "gpu 1", lane: "1" },
];
const memory = {
  kind: "memory",
  rows,
  columns: 2,
  start_s: 0,
  end_s: 4,
  capacity_bytes: 10 * GIB,
  peak: { row: 1, time_s: 1, bytes: 12 * GIB },
  parts: { names: ["weights", "activations"], bytes: [[GIB, 0], [2 * GIB, 10 * GIB]], capacity_bytes: [10 * GIB, 10 * GIB] },
};
const traffic = { kind: "traffic", rows, pairs: [[0, 1, 4], [0, 1, 4], [1, 0, 0]] };
const links = {
  rows: [{ name: "gpu 0 → nvswitch", kind: "nvswitch", bytes_per_s: 3e11, step_bytes: 9, share: 0.1, count: 1, lane: "0" }],
  columns: 4,
  start_s: 0,
  end_s: 4,
};

test("-1 is empty, missing and zero pairs are empty, repeated pairs add up", () => {
  const grid = memoryGrid({ ...memory, capacity_bytes: 10 }, new Float32Array([5, -1, 10, 0]));
  assert.deepEqual([grid.value(0, 0), grid.value(0, 1), grid.value(1, 1)], [5, null, 0]);
  const pairs = trafficGrid(traffic);
  assert.deepEqual([pairs.value(0, 1), pairs.value(1, 0), pairs.value(0, 0)], [8, null, null]);
  const used = gridOf({ ...traffic, links }, new Float32Array([0, 0.2, 0, 1]), "links");
  assert.deepEqual([used.value(0, 0), used.value(0, 3)], [null, 1], "what is not used is blank");
});

test("parts have their sum behind them, and nothing is blank", () => {
  const grid = partsGrid(memory);
  assert.deepEqual(grid.names, ["weights", "activations", "all"]);
  assert.deepEqual([grid.value(0, 1), grid.value(1, 2)], [null, 12 * GIB]);
  assert.equal(grid.high, 10 * GIB, "the sum does not stretch the scale");
});

test("a view shows the pictures it has data for", () => {
  const names = (view) => picturesOf(view).map(([name]) => name);
  assert.deepEqual(names(memory), ["time", "parts"]);
  assert.deepEqual(names({ ...memory, parts: null }), ["time"]);
  assert.deepEqual(names(traffic), ["pairs"]);
  assert.deepEqual(names({ ...traffic, links }), ["pairs", "links"]);
  assert.deepEqual(names({ ...traffic, links: { ...links, rows: [] } }), ["pairs"]);
  assert.deepEqual(names({}), []);
});

test("two plans have one scale", () => {
  const linear = scaleOf([{ low: 0, high: 4, log: false }, { low: 0, high: 10, log: false }]);
  assert.deepEqual([linear.position(5), linear.at(0.5), linear.position(99)], [0.5, 5, 1]);
  const log = scaleOf([{ low: 10, high: 100, log: true }, { low: 1, high: 10, log: true }]);
  assert.deepEqual([log.low, log.high], [1, 100]);
  assert.ok(Math.abs(log.position(10) - (log.from + 1) / 2) < 1e-12);
  for (const t of [log.from, 0.3, 1]) assert.ok(Math.abs(log.position(log.at(t)) - t) < 1e-9, "the numbers on the bar stand where they belong");
  assert.equal(scaleOf([{ low: 0, high: 0, log: true }]).position(1) <= 1, true);
});

test("numbers on the colour bar can be read everywhere", () => {
  for (let t = 0; t <= 1; t += 0.01) {
    const best = Math.max(contrast(cividis(t), [0, 0, 0]), contrast(cividis(t), [255, 255, 255]));
    assert.ok(best >= 4.5, `at ${t}: ${best}`);
  }
});

test("ends of scales read well", () => {
  assert.deepEqual([0.36, 0.5, 0.0013, 0.9, 0].map(roundUp), [0.5, 0.5, 0.002, 1, 1]);
});

test("every cell lies under its own box, gaps under none", () => {
  for (const [view, shown, cells] of [
    [memory, "time", new Float32Array([1, 2, 3, 4])],
    [memory, "parts", null],
    [traffic, "pairs", null],
  ]) {
    const grid = gridOf(view, cells, shown);
    const { panels } = panelsOf([grid, grid], 1000);
    assert.ok(panels[1].x > panels[0].right, "beside each other");
    for (const panel of panels)
      for (let r = 0; r < grid.rows.length; r += 1)
        for (let k = 0; k < grid.columns; k += 1) {
          const [x, y, w, h] = boxOf(grid, panel, { r, k });
          assert.deepEqual(cellUnder(grid, panel, x + w / 2, y + h / 2), { r, k });
        }
    assert.equal(cellUnder(grid, panels[0], panels[0].left - 3, panels[0].tops[0] + 3), null, "a name");
  }
});

test("without room the second plan stands below", () => {
  const grid = gridOf(memory, new Float32Array(4), "time");
  const { panels, height } = panelsOf([grid, grid], 500);
  assert.ok(panels[1].tops[0] > panels[0].tops[1] && height > panels[1].tops[1]);
});

test("two plans share one axis of time", () => {
  const grid = gridOf(memory, new Float32Array(4), "time");
  const { panels } = panelsOf([grid, { ...grid, end_s: 8 }], 1000);
  const length = (panel) => panel.right - panel.left;
  assert.ok(Math.abs(length(panels[0]) * 2 - length(panels[1])) < 1e-9);
});

test("no column is lost where pixels are fewer", () => {
  const cells = Float32Array.from({ length: 480 }, (_, k) => (k % 37 === 5 ? 1 : 0));
  const grid = { columns: 480, rows: [{}], value: (r, k) => cells[k] || null };
  for (const pixels of [480, 271, 100]) {
    const seen = Array.from({ length: pixels }, (_, p) => mostOf(grid, 0, p, pixels)).filter(Boolean).length;
    assert.equal(seen, 13, `${pixels} pixels`);
  }
});

test("neighbours of one lane stand close", () => {
  const { tops } = rowPlaces([{ lane: "0" }, { lane: "0" }, { lane: "1" }], 30);
  assert.deepEqual(tops, [0, 31, 65]);
});

test("arrow keys stay inside; time goes in larger steps, with Shift in single ones", () => {
  const grid = { kind: "time", columns: 200, rows: [1, 2, 3] };
  assert.deepEqual(moveCell(grid, null, "ArrowRight"), { r: 0, k: 0 });
  assert.deepEqual(moveCell(grid, { r: 0, k: 0 }, "ArrowRight"), { r: 0, k: 4 });
  assert.deepEqual(moveCell(grid, { r: 0, k: 0 }, "ArrowRight", true), { r: 0, k: 1 });
  assert.deepEqual(moveCell(grid, { r: 2, k: 199 }, "ArrowDown"), { r: 2, k: 199 });
  assert.deepEqual(moveCell(grid, { r: 1, k: 9 }, "End"), { r: 1, k: 199 });
  assert.deepEqual(moveCell({ ...grid, kind: "pairs", columns: 3 }, { r: 0, k: 0 }, "ArrowRight"), { r: 0, k: 1 });
});

test("cells are told with what they mean", () => {
  const time = gridOf(memory, new Float32Array([GIB, 2 * GIB, 3 * GIB, 12 * GIB]), "time");
  assert.equal(plain(placeWords(time, { r: 1, k: 1 })), "gpu 1 at 3.00 s");
  assert.equal(plain(valueWords(memory, time, { r: 1, k: 1 })), "12.0 GiB, 120 % of capacity, ▲ 2.0 GiB over");
  const parts = partsGrid(memory);
  assert.equal(plain(valueWords(memory, parts, { r: 0, k: 1 })), "none");
  assert.equal(placeWords(parts, { r: 0, k: 0 }), "gpu 0, weights");
  const pairs = trafficGrid(traffic);
  assert.deepEqual([placeWords(pairs, { r: 0, k: 1 }), plain(valueWords(traffic, pairs, { r: 0, k: 1 }))], ["gpu 0 → gpu 1", "8 B a step"]);
  const used = gridOf({ ...traffic, links }, new Float32Array([0, 0.25, 0, 1]), "links");
  assert.equal(plain(valueWords(traffic, used, { r: 0, k: 1 })), "25 % in use, of 279 GiB/s");
});

test("the second plan is told at the same time and by difference", () => {
  const a = gridOf(memory, new Float32Array([GIB, 2 * GIB, 3 * GIB, 4 * GIB]), "time");
  const b = gridOf({ ...memory, end_s: 2, columns: 4 }, new Float32Array([1, 2, 3, 4, 5, 6, 7, 8].map((x) => x * GIB)), "time");
  assert.equal(columnAt(b, 1), 2);
  assert.equal(plain(againstWords(a, b, "B", { r: 0, k: 0 })), "B: 3.0 GiB, +2.0 GiB");
  assert.equal(plain(againstWords(a, b, "B", { r: 0, k: 1 })), "B: nothing", "it is over by then");
  assert.equal(plain(againstWords(a, a, "B", { r: 1, k: 1 })), "B: 4.0 GiB, the same");
});

test("headings say what is folded; the summary names the peak", () => {
  assert.deepEqual(titleOf({ ...memory, title: "Memory, device by time, one step", folded: "the fullest device of each" }, "time"), [
    "Memory",
    "device by time, one step; rows are folded: the fullest device of each",
  ]);
  const grid = gridOf(memory, new Float32Array(4), "time");
  assert.equal(plain(summary(memory, grid, "time")), "Peak 12.0 GiB on gpu 1 at 1.00 s.");
});
