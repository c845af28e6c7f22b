import assert from "node:assert/strict";
import test from "node:test";
import { rowName, rowTexts } from "../src/graph/card.js";
import { nodeName } from "../src/graph/words.js";

const GIB = 2 ** 30;
const now = { step_s: 2, peak_bytes: 40 * GIB, over_bytes: 0 };
const card = { now: { layout: now, memory: now }, waits: true };
const layout = { kind: "layout", key: "by heads", words: "by heads", work_s: 0.003, collectives_s: 0, state_bytes: GIB, saved_bytes: 0, problem: null };

test("a layout says what it costs by itself and what the step comes to", () => {
  const outcome = { step_s: 2.1, peak_bytes: 42 * GIB, over_bytes: 2 * GIB };
  const texts = rowTexts({ ...layout, outcome }, card);
  assert.equal(texts.facts, "3.0\u00a0ms of work, no collectives, 1.0\u00a0GiB of states, nothing kept");
  assert.deepEqual([texts.step, texts.change, texts.peak, texts.over], ["2.10\u00a0s", "+5.00\u00a0%", "+2.0\u00a0GiB", "over by 2.0\u00a0GiB"]);
});

test("the present one has no change, one still to come a mark, a large plan's says when it is known", () => {
  assert.deepEqual([rowTexts({ ...layout, outcome: now }, card).change, rowTexts({ ...layout, outcome: now }, card).peak], ["", "40.0\u00a0GiB"]);
  assert.equal(rowTexts({ ...layout, outcome: null }, card).step, "…");
  assert.equal(rowTexts({ ...layout, outcome: null }, { ...card, waits: false }).change, "known once chosen");
});

test("a forbidden one says its rule and nothing else", () => {
  const row = { ...layout, problem: "a norm needs all of it", outcome: null };
  assert.deepEqual(rowTexts(row, card), { facts: "a norm needs all of it", step: "", change: "", peak: "", over: "" });
  assert.ok(rowName(row, card).includes("not possible: a norm needs"));
});

test("a node says how many of its layers have a layout of their own", () => {
  const node = { id: "a", label: "a", name: "a", kind: "linear", count: 1, ranges: [[0, 1]], stages: [0], own_layouts: 1 };
  assert.ok(nodeName(node).includes("a layout of its own"));
  assert.ok(nodeName({ ...node, ranges: [[0, 9]], own_layouts: 3 }).includes("3 layers with layouts of their own"));
});
