import assert from "node:assert/strict";
import { test } from "node:test";
import { answerText, cells, changeText, frontierColumns, frontierText, gapShare, heads, nextRow, rowName, significantSmall, wallText } from "../src/leaderboard/words.js";

const row = (id, step, gap, more = {}) => ({
  id, searcher: id, space: "", label: "pp 4", value: step, step_s: step, peak_bytes: 68 * 2 ** 30, change: 0.1, gap,
  answer: "optimal", wall_s: 4.1, level: null, loadable: true, note: "", on_board: false, ...more,
});
const plain = (text) => text.replaceAll("\u00a0", " ").replaceAll("\u202f", " ");

test("all rows share the unit of the shortest step and the largest memory", () => {
  const rows = [row("a", 0.9, 0.1), row("b", 1.25, 0.4, { peak_bytes: 2 ** 29 })];
  assert.equal(plain(heads(rows, null).step), "step, ms");
  assert.deepEqual(rows.map((item) => cells(item, rows).step), ["900", "1\u202f250"]);
  assert.equal(heads(rows, null).peak, "GiB");
  assert.deepEqual(rows.map((item) => cells(item, rows).peak), ["68.0", "0.5"]);
});

test("an objective of its own has a column, small sums keep their digits", () => {
  assert.equal(heads([], null).value, null);
  assert.equal(heads([], { name: "cost", unit: "dollars" }).value, "cost, dollars");
  assert.equal(significantSmall(0.0251), "0.0251");
  assert.equal(significantSmall(0), "0.00");
  assert.equal(significantSmall(12.34), "12.3");
});

test("rows without a strategy show dashes, never NaN", () => {
  const none = row("x", null, null, { peak_bytes: null, value: null, change: null, wall_s: null });
  const text = cells(none, [none]);
  assert.deepEqual([text.step, text.peak, text.gap, text.change, text.value], ["–", "–", "", "", "–"]);
  assert.equal(plain(heads([none], null).step), "step, s");
  assert.equal(gapShare(none, [none]), 0);
});

test("differences have a true minus or a plus, and nothing is +0", () => {
  assert.equal(plain(changeText(-0.149)), "−14.9 %");
  assert.equal(plain(changeText(0.053)), "+5.3 %");
  assert.equal(plain(changeText(0.0001)), "0 %");
  assert.equal(plain(changeText(-0.0001)), "0 %");
  assert.equal(changeText(null), "");
});

test("an answer has its time", () => {
  assert.equal(plain(answerText({ answer: "optimal", wall_s: 4.13 })), "optimal, 4.1 s");
  assert.equal(plain(answerText({ answer: "best so far", wall_s: 38.2 })), "best so far, 38 s");
  assert.equal(answerText({ answer: "waiting", wall_s: null }), "waiting");
  assert.equal(plain(wallText(0.01)), "< 0.1 s");
});

test("the widest bar is the largest gap", () => {
  const rows = [row("a", 1, 0.1), row("b", 2, 0.4)];
  assert.deepEqual(rows.map((item) => gapShare(item, rows)), [25, 100]);
});

test("a row's name says all that its colours say", () => {
  const name = plain(rowName(row("auto", 5.44, 0.13, { on_board: true, note: "loading it releases 2 pins" })));
  assert.equal(name, "auto, pp 4, 5.44 s a step, +10.0 % against yours, on the board, optimal, loading it releases 2 pins");
  assert.match(rowName(row("yours", 5.44, 0.13, { answer: "does not fit" })), /^yours, the strategy on the board.*does not fit$/);
});

test("arrows stay in the table", () => {
  assert.equal(nextRow("ArrowDown", 0, 3), 1);
  assert.equal(nextRow("ArrowDown", 2, 3), 2);
  assert.equal(nextRow("ArrowUp", 0, 3), 0);
  assert.equal(nextRow("End", 0, 3), 2);
  assert.equal(nextRow("Home", 2, 3), 0);
  assert.equal(nextRow("x", 0, 3), null);
  assert.equal(nextRow("ArrowDown", 0, 0), null);
});

const AXES = [
  { name: "time", title: "step time", unit: "s", one: 1 },
  { name: "memory", title: "worst device memory", unit: "GiB", one: 2 ** 30 },
];
const COST = { name: "cost", title: "cost", unit: "$ a thousand steps", one: 1e-3 };
const DEVICES = { name: "devices", title: "devices used", unit: "", one: 1 };

test("the frontier has a column for each axis, and step and memory in any case", () => {
  const point = { values: [0.0345, 8], step_s: 5.44, peak_bytes: 68 * 2 ** 30 };
  const read = (axes, values) => frontierColumns(axes).map(({ head, text }) => [head, plain(text({ ...point, values }))]);
  assert.deepEqual(read(AXES, [5.44, 68 * 2 ** 30]), [["step", "5.44 s"], ["memory", "68.0 GiB"]]);
  assert.deepEqual(read([COST, DEVICES], [0.0345, 8]), [
    ["cost, $ a thousand steps", "34.5"],
    ["devices used", "8"],
    ["step", "5.44 s"],
    ["memory", "68.0 GiB"],
  ]);
  assert.deepEqual(read([COST, AXES[1], AXES[0]], [0.0345, 2 ** 30, 2]).map(([head]) => head), ["cost, $ a thousand steps", "memory", "step"]);
});

test("the frontier is told by its axes", () => {
  assert.equal(frontierText(0, [COST, DEVICES, AXES[0]]), "nothing found is as good in cost, devices used and step time at once");
  assert.equal(frontierText(1, [COST, DEVICES]), "nothing found is as good in cost and devices used at once; 1 more point in the chart");
});

test("the frontier says what is left out", () => {
  assert.equal(frontierText(0, AXES), "nothing found is both faster and smaller");
  assert.equal(frontierText(3, AXES), "nothing found is both faster and smaller; 3 more points in the chart");
});
