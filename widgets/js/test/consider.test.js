// What a drop would ask of Python, told beforehand.

import assert from "node:assert/strict";
import test from "node:test";
import { boundaryFields, considerSoon, gainedBy, intentOf, moveFields, withAnswer } from "../src/board/consider.js";

const boundary = { id: "0|1", before: 0, after: 1, before_lane: "0", after_lane: "1", at: 4, minimum: 1, maximum: 7 };
const lanes = [
  { id: "0", runs: [{ first: 0, count: 4 }] },
  { id: "1", runs: [{ first: 4, count: 4 }] },
];

function context() {
  const sent = [];
  return {
    sent,
    view: { lanes, boundaries: [boundary] },
    catalog: { layers: [...Array(8).keys()].map((i) => ({ id: `l${i}` })) },
    lane: (id) => lanes.find((lane) => lane.id === id),
    model: { send: (message) => sent.push(message) },
    preview: null,
    pending: false,
  };
}

test("fields are those of the intents", () => {
  assert.deepEqual(moveFields(context(), [3, 1], "1"), { layers: ["l1", "l3"], to_lane: "1" });
  assert.deepEqual(boundaryFields(boundary, 6), { boundary: "0|1", before: 0, after: 1, layers: 2 });
  assert.deepEqual(gainedBy(lanes[1], new Set([3, 4, 5])), [3]);
});

test("a preview becomes the intent that dropping it would send", () => {
  const ctx = context();
  const view = {};
  assert.deepEqual(intentOf(ctx, { view, positions: new Set([2, 3]), target: "1" }), {
    kind: "move",
    layers: ["l2", "l3"],
    to_lane: "1",
  });
  const cut = { view, boundary: "0|1", positions: new Set([4, 5]), target: "0" };
  assert.equal(intentOf(ctx, cut).layers, 2);
  assert.equal(intentOf(ctx, { ...cut, positions: new Set([3]), target: "1" }).layers, -1);
  assert.equal(intentOf(ctx, { view: null, positions: new Set([2]), target: "1" }), null);
  assert.equal(intentOf(ctx, { view, positions: new Set([5]), target: "1" }), null);
});

test("only what rests is told, and only while nothing waits for an answer", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const ctx = context();
  const over = (target) => {
    ctx.preview = target && { view: {}, positions: new Set([1]), target };
    considerSoon(ctx, ctx.preview);
  };
  over("1");
  t.mock.timers.tick(10);
  over("0");
  over("1");
  t.mock.timers.tick(100);
  assert.equal(ctx.sent.length, 1);
  assert.equal(ctx.sent[0].consider.to_lane, "1");
  assert.equal(ctx.sent[0].seq, undefined, "it is no intent");
  over("1");
  over(null);
  t.mock.timers.tick(100);
  ctx.pending = true;
  over("1");
  t.mock.timers.tick(100);
  assert.equal(ctx.sent.length, 1);
});

test("what Python simulated takes the place of the estimate, for that gesture from that state only", () => {
  const ctx = context();
  const estimate = { lanes: lanes.map((lane) => ({ ...lane, peak_bytes: 84, forward_s: 1 })), boundaries: [] };
  const preview = { view: estimate, positions: new Set([2, 3]), target: "1" };
  const told = { considered: intentOf(ctx, preview), lanes: { 0: { peak_bytes: 62 }, 1: { peak_bytes: 93 } }, values: { step_time: 11.9 } };
  assert.equal(withAnswer(ctx, preview), preview, "nothing is known yet");
  ctx.answer = { view: ctx.view, ...told };
  const known = withAnswer(ctx, preview);
  assert.deepEqual(
    known.view.lanes.map((lane) => lane.peak_bytes),
    [62, 93],
  );
  assert.equal(known.view.lanes[0].forward_s, 1, "what was not told stays");
  assert.deepEqual(known.simulated, { step_time: 11.9 });
  assert.equal(withAnswer(ctx, known), known);
  const other = { ...preview, positions: new Set([3]) };
  assert.equal(withAnswer(ctx, other), other, "another set is another gesture");
  ctx.view = { ...ctx.view };
  assert.equal(withAnswer(ctx, preview), preview, "another state has another answer");
});

test("what is known already is not asked for again", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const ctx = context();
  ctx.preview = { view: {}, positions: new Set([1]), target: "1", simulated: { step_time: 1 } };
  considerSoon(ctx, ctx.preview);
  t.mock.timers.tick(100);
  assert.equal(ctx.sent.length, 0);
});
