import assert from "node:assert/strict";
import test from "node:test";
import { crossings, detour, moved, tileValues } from "../src/board/estimate.js";
import { allPinned, boundaryRefusal, pinnedPositions, refusal, withLock, withPins } from "../src/board/holds.js";
import { rowsHeight } from "../src/board/layout.js";
import { Catalog, heldBy, holdsAny, ownersOf } from "../src/board/model.js";
import { otherSegments } from "../src/board/other.js";
import { layerAt } from "../src/board/overview.js";
import { detourWords, verdictOf } from "../src/board/preview.js";
import { speedAt } from "../src/board/scroll.js";
import { equal, settled } from "../src/board/stable.js";

const block = (i, seconds = 1) => ({
  id: `b${i}`,
  label: String(i),
  name: `block ${i}`,
  kind: "block",
  layers: [
    {
      id: `b${i}.x`,
      label: "x",
      forward_s: seconds,
      backward_s: 2 * seconds,
      weight_bytes: 10,
      gradient_bytes: 20,
      optimizer_bytes: 60,
      saved_bytes: 5,
      output_bytes: 1000,
    },
  ],
});
const catalog = new Catalog([0, 1, 2, 3, 4, 5].map((i) => block(i)));
const lane = (id, first, count, more = {}) => ({
  id,
  name: `Stage ${id}`,
  replicas: [[2 * Number(id)]],
  runs: count ? [{ stage: Number(id), first, count }] : [],
  in_flight: 1,
  capacity_bytes: 1000,
  memory: { weight_bytes: 10 * count, gradient_bytes: 20 * count, optimizer_bytes: 60 * count, activation_bytes: 5 * count },
  forward_s: count,
  backward_s: 2 * count,
  peak_bytes: 95 * count,
  ...more,
});
const MICROBATCHES = 8;
/** A view whose step is that of 1F1B without communication: (m - 1) of the slowest and one of each. */
function view(lanes = [lane("0", 0, 2), lane("1", 2, 2), lane("2", 4, 2)]) {
  const times = lanes.map((l) => l.forward_s + l.backward_s);
  const step_s = (MICROBATCHES - 1) * Math.max(...times) + times.reduce((a, b) => a + b, 0);
  const busy_s = Object.fromEntries(lanes.map((l, i) => [l.id, MICROBATCHES * times[i]]));
  const work = Object.values(busy_s).reduce((a, b) => a + b, 0);
  return {
    lanes,
    boundaries: [
      { id: "0|1", before: 0, after: 1, before_lane: "0", after_lane: "1", at: 2, minimum: 1, maximum: 3 },
      { id: "1|2", before: 1, after: 2, before_lane: "1", after_lane: "2", at: 4, minimum: 3, maximum: 5 },
    ],
    links: [{ from_lane: "0", to_lane: "1", kind: "pcie", forward_bytes: 1000, transfer_s: 0.5, step_bytes: 1 }],
    ideal_s: 6,
    estimate: {
      step_s,
      samples: 16,
      tokens_per_sample: 10,
      microbatches: MICROBATCHES,
      mfu: 0.5,
      bubble: 1 - work / (lanes.length * step_s),
      busy_s,
    },
  };
}
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);

test("tile values after a move are those of the closed form of the new lanes", () => {
  const before = view();
  const after = moved(catalog, before, new Set([2]), "0");
  const found = tileValues(before, after);
  const direct = view([lane("0", 0, 3), lane("1", 3, 1), lane("2", 4, 2)]).estimate;
  near(found.step_time, direct.step_s);
  near(found.bubble, direct.bubble);
  near(found.throughput, 160 / direct.step_s);
  near(found.mfu, (0.5 * before.estimate.step_s) / direct.step_s);
  near(found.memory, 0.285);
});

test("tile values of no move are what is known; without an estimate only memory is", () => {
  const before = view();
  near(tileValues(before, before).step_time, before.estimate.step_s);
  near(tileValues(before, before).bubble, before.estimate.bubble);
  const { step_time, memory } = tileValues({ ...before, estimate: null }, before);
  assert.equal(step_time, null);
  near(memory, 0.19);
});

test("a step is never shorter than the work of its busiest lane", () => {
  const one = view([lane("0", 0, 6), lane("1", 0, 0), lane("2", 0, 0)]);
  const after = moved(catalog, one, new Set([3, 4, 5]), "1");
  assert.ok(tileValues(one, after).step_time >= 8 * 9 - 1e-9);
});

test("what a call costs beside its layers stays until the last layer goes, and comes with the first", () => {
  const call = 3;
  const with_call = (found) => ({ ...found, call_s: call, forward_s: found.forward_s + call / 2, backward_s: found.backward_s + call / 2 });
  const layers = (found) => found.forward_s + found.backward_s;
  const own = lane("0", 0, 6);
  const full = { ...with_call(own), time_factor: (layers(own) + call) / layers(own) };
  const before = view([full, { ...lane("1", 0, 0), call_s: call }, { ...lane("2", 0, 0), call_s: call }]);
  const some = moved(catalog, before, new Set([3, 4, 5]), "1");
  near(layers(some.lanes[0]), layers(lane("0", 0, 3)) + call);
  near(layers(some.lanes[1]), layers(lane("1", 3, 3)) + call);
  const all = moved(catalog, before, new Set([0, 1, 2, 3, 4, 5]), "1");
  near(layers(all.lanes[0]), 0);
  near(layers(all.lanes[1]), layers(own) + call);
});

test("running out of order is counted in crossings and costed by the slowest link", () => {
  const before = view();
  assert.equal(crossings(ownersOf(before, 6)), 2);
  const after = moved(catalog, before, new Set([4]), "0"); // 0 0 1 1 0 2
  const found = detour(catalog, before, after, new Set([4]), "0");
  assert.deepEqual(found, { extra: 1, bytes: 1000, seconds: 0.5, way: [0, 1, 0, 2] });
  assert.equal(
    detourWords(after, found).replaceAll("\u00a0", " "),
    "+1 transfer each way, 500 ms and 1.0 KiB a microbatch: gpu 0 → 2 → 0 → 4",
  );
  const inside = moved(catalog, before, new Set([3]), "0"); // 0 0 1 0 2 2
  assert.equal(detour(catalog, before, inside, new Set([3]), "0").extra, 1);
  const tidy = moved(catalog, before, new Set([2]), "0");
  assert.equal(detour(catalog, before, tidy, new Set([2]), "0").extra, 0);
});

test("lanes that a move does not touch stay the same objects", () => {
  const before = view();
  const after = moved(catalog, before, new Set([2]), "0");
  assert.equal(after.lanes[2], before.lanes[2]);
  assert.equal(after.boundaries[1], before.boundaries[1]);
  assert.notEqual(after.lanes[0], before.lanes[0]);
});

test("the sentence names the lane that would be over, or that would bind", () => {
  const before = view();
  const ctx = { view: before, catalog, lane: (id) => before.lanes.find((l) => l.id === id) };
  const after = moved(catalog, before, new Set([2]), "0");
  const said = verdictOf(ctx, { view: after, target: "0", refused: null, detour: null });
  assert.equal(said.level, "ok");
  assert.match(said.text, /^\*\*Would fit\.\*\* Stage 0 would bind: .*50.% over the ideal cut\.$/);
  const tight = { ...after, lanes: after.lanes.map((l) => ({ ...l, capacity_bytes: 200 })) };
  const bad = verdictOf(ctx, { view: tight, target: "0", refused: null, detour: null });
  assert.equal(bad.level, "bad");
  assert.match(bad.text, /^\*\*Would not fit\.\*\* Stage 0: 85.B over capacity/);
  const no = verdictOf(ctx, { view: null, target: "0", refused: "Stage 0 is locked", detour: null });
  assert.deepEqual([no.level, no.text], ["warn", "**Cannot move.** Stage 0 is locked."]);
});

test("pins and locks refuse moves, by name, and only those they speak of", () => {
  const held = { ...view([lane("0", 0, 2), lane("1", 2, 2, { locked: true }), lane("2", 4, 2)]), pinned: ["b4"] };
  const board = { catalog, view: held, pinned: pinnedPositions(catalog, held) };
  assert.match(refusal(board, new Set([0]), "1"), /Stage 1 is locked: it takes no other layers/);
  assert.match(refusal(board, new Set([2]), "0"), /Stage 1 is locked: its layers stay/);
  assert.match(refusal(board, new Set([4]), "0"), /block 4 is pinned to its devices/);
  assert.equal(refusal(board, new Set([5]), "0"), null);
  assert.equal(refusal(board, new Set([4]), "2"), null, "where it already is, nothing moves");
  assert.equal(boundaryRefusal(held, held.boundaries[0]), "Stage 1 is locked");
  assert.equal(boundaryRefusal(view(), view().boundaries[0]), null);
});

test("pinning and locking are shown at once, and taken back the same way", () => {
  const pinned = withPins(catalog, view(), ["b1.x"], true);
  assert.deepEqual(pinned.pinned, ["b1.x"]);
  assert.ok(allPinned(pinnedPositions(catalog, pinned), new Set([1])));
  assert.ok(!allPinned(pinnedPositions(catalog, pinned), new Set([1, 2])));
  assert.ok(!allPinned(new Set(), new Set()));
  assert.deepEqual(withPins(catalog, pinned, ["b1.x"], false).pinned, []);
  assert.equal(withLock(view(), "1", true).lanes[1].locked, true);
});

test("a fresh view keeps the drawn objects that are equal in value", () => {
  const old = view();
  const next = structuredClone(old);
  next.lanes[1].peak_bytes += 5;
  const kept = settled(old, next);
  assert.equal(kept.lanes[0], old.lanes[0]);
  assert.notEqual(kept.lanes[1], old.lanes[1]);
  assert.equal(kept.lanes[1].runs, old.lanes[1].runs, "parts that did not change are kept as well");
  assert.equal(kept.boundaries, old.boundaries);
  assert.equal(kept.links, old.links);
  assert.equal(settled(old, structuredClone(old)).lanes, old.lanes);
  assert.equal(settled({}, next), next);
});

test("equality is by value, up to rounding, and knows missing from null", () => {
  assert.ok(equal({ a: [1, { b: 2 }] }, { a: [1, { b: 2 + 1e-12 }] }));
  assert.ok(equal({ a: 1, note: null }, { a: 1 }));
  assert.ok(!equal({ a: 1 }, { a: 1, b: 0 }));
  assert.ok(!equal([1, 2], [1]));
  assert.ok(!equal({ a: 1 }, { a: 1.001 }));
});

test("plan B of a lane: what both hold and what only B holds, stretched to B's time", () => {
  const own = { ...lane("0", 0, 2), other: { forward_s: 4, backward_s: 8, peak_bytes: 1, runs: [[0, 3]] } };
  const segments = otherSegments(catalog, own, 24);
  assert.deepEqual(
    segments.map((s) => [s.own, s.label]),
    [
      [true, "0, 1"],
      [false, "2"],
    ],
  );
  near(
    segments.reduce((sum, s) => sum + s.width, 0),
    0.5,
  );
  assert.deepEqual(otherSegments(catalog, lane("0", 0, 2), 24), []);
});

test("intervals, owners and the layer at a share of the time", () => {
  assert.ok(holdsAny([1, 5, 9], 4, 6) && !holdsAny([1, 5, 9], 6, 9) && !holdsAny([], 0, 9));
  assert.deepEqual([heldBy(new Set([1, 2]), 1, 2), heldBy(new Set([1]), 1, 2), heldBy(new Set(), 1, 2)], ["all", "some", "none"]);
  assert.deepEqual([...ownersOf(view(), 6)], [0, 0, 1, 1, 2, 2]);
  assert.deepEqual([layerAt(catalog, 0), layerAt(catalog, 0.49), layerAt(catalog, 0.51), layerAt(catalog, 1)], [0, 2, 3, 5]);
});

test("scrolling starts near an edge, grows towards it, and never overshoots", () => {
  assert.equal(speedAt(300, 0, 600), 0);
  assert.ok(speedAt(10, 0, 600) < 0 && speedAt(595, 0, 600) > 0);
  assert.ok(speedAt(1, 0, 600) <= speedAt(20, 0, 600));
  assert.equal(speedAt(-500, 0, 600), speedAt(0, 0, 600));
  assert.equal(rowsHeight([{ type: "group" }, { type: "lane", compact: true }, { type: "lane", compact: false }]), 28 + 30 + 86);
});
