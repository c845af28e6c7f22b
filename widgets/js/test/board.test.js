import assert from "node:assert/strict";
import test from "node:test";
import { costOn, moved, nearestStop, nextStop, stops } from "../src/board/estimate.js";
import { allAlike, compactDevices, fitScale, groupSummary, shortName, linkThickness, mayFit, memoryLevel, memorySegments, rowAt, rowsOf, shownReplicas } from "../src/board/layout.js";
import { Catalog, pieceLabel, piecesOf } from "../src/board/model.js";

const layer = (id, seconds = 1) => ({
  id,
  label: id,
  forward_s: seconds,
  backward_s: 2 * seconds,
  weight_bytes: 10,
  gradient_bytes: 20,
  optimizer_bytes: 60,
  saved_bytes: 5,
  parameters: 5,
});
const block = (i) => ({
  id: `b${i}`,
  label: String(i),
  name: `block ${i}`,
  kind: "block",
  layers: [layer(`b${i}.x`), layer(`b${i}.y`)],
});
const catalog = new Catalog([
  { id: "embed", label: "embed", name: "embedding", kind: "embed", layers: [layer("embed", 0.5)] },
  block(0),
  block(1),
  block(2),
]);
const lane = (id, runs, in_flight, capacity_bytes = 2000) => {
  const held = runs.flatMap((run) => catalog.layers.slice(run.first, run.first + run.count));
  const sum = (key) => held.reduce((total, item) => total + item[key], 0);
  const memory = {
    weight_bytes: sum("weight_bytes"),
    gradient_bytes: sum("gradient_bytes"),
    optimizer_bytes: sum("optimizer_bytes"),
    activation_bytes: sum("saved_bytes") * in_flight,
    buffer_bytes: 7,
  };
  return {
    id,
    name: `Stage ${id}`,
    runs,
    replicas: [[Number(id)]],
    in_flight,
    capacity_bytes,
    memory,
    forward_s: sum("forward_s"),
    backward_s: sum("backward_s"),
    peak_bytes: Object.values(memory).reduce((a, b) => a + b, 0),
  };
};
const view = () => ({
  lanes: [lane("0", [{ stage: 0, first: 0, count: 3 }], 2), lane("1", [{ stage: 1, first: 3, count: 4 }], 1)],
  boundaries: [{ id: "0|1", before: 0, after: 1, before_lane: "0", after_lane: "1", at: 3, minimum: 1, maximum: 6 }],
  links: [],
  ideal_s: 9.75,
});

test("ids and positions go both ways; whole blocks are named once", () => {
  const positions = catalog.positions(["b0", "b1.x"]);
  assert.deepEqual([...positions], [1, 2, 3]);
  assert.deepEqual(catalog.ids(positions), ["b0", "b1.x"]);
  assert.equal(catalog.describe(catalog.positions(["b0", "b1"])), "blocks 0, 1");
  assert.equal(catalog.describe(new Set([3])), "1 layer of block 1");
  assert.deepEqual([...catalog.positions(["nothing such"])], []);
});

test("chips: blocks, opened blocks, parts of blocks, shares", () => {
  const whole = piecesOf(catalog, { runs: [{ stage: 0, first: 0, count: 3 }] }, new Set());
  assert.deepEqual(
    whole.map((p) => [p.block.id, p.count, p.whole, p.time_s]),
    [
      ["embed", 1, true, 1.5],
      ["b0", 2, true, 6],
    ],
  );
  assert.equal(piecesOf(catalog, { runs: [{ stage: 0, first: 0, count: 3 }] }, new Set(["b0"])).length, 3);
  const part = piecesOf(catalog, { runs: [{ stage: 0, first: 2, count: 2 }] }, new Set());
  assert.deepEqual(part.map(pieceLabel), ["0 (1/2)", "1 (1/2)"]);
  const cut = piecesOf(catalog, { runs: [{ stage: 0, first: 1, count: 2, last_share: 0.5 }], time_factor: 2 }, new Set());
  assert.equal(cut[0].time_s, 2 * (3 + 1.5));
  assert.equal(new Set([...whole, ...part, ...cut].map((p) => p.key)).size, 5, "keys tell pieces apart");
});

test("moving adds to one lane what it takes from the other, with that lane's microbatches in flight", () => {
  const before = view();
  const after = moved(catalog, before, catalog.positions(["b1"]), "0");
  assert.deepEqual(after.lanes[0].runs, [{ stage: 0, copy: 0, first: 0, count: 5 }]);
  assert.equal(after.lanes[1].runs[0].first, 5);
  assert.equal(after.lanes[0].forward_s, before.lanes[0].forward_s + 2);
  assert.equal(after.lanes[0].peak_bytes - before.lanes[0].peak_bytes, 2 * 90 + 2 * 5 * 2);
  assert.equal(after.lanes[1].peak_bytes - before.lanes[1].peak_bytes, -(2 * 90 + 2 * 5 * 1));
  assert.equal(after.boundaries[0].at, 5);
  assert.equal(before.lanes[0].runs[0].count, 3, "the old view is untouched");
});

test("moving there and back gives the same costs", () => {
  const there = moved(catalog, view(), catalog.positions(["b2"]), "0");
  assert.equal(there.lanes[0].runs.length, 2, "a broken run");
  assert.equal(there.boundaries.length, 1);
  const back = moved(catalog, there, catalog.positions(["b2"]), "1");
  for (const [a, b] of back.lanes.map((l, i) => [l, view().lanes[i]])) {
    assert.ok(Math.abs(a.peak_bytes - b.peak_bytes) < 1e-9);
    assert.deepEqual(
      a.runs.map((run) => [run.first, run.count]),
      b.runs.map((run) => [run.first, run.count]),
    );
  }
});

test("a move to where everything already is changes nothing", () => {
  const before = view();
  const after = moved(catalog, before, catalog.positions(["b0"]), "0");
  assert.deepEqual(
    after.lanes.map((l) => l.runs),
    before.lanes.map((l) => l.runs),
  );
  assert.equal(costOn(catalog, before.lanes[0], []).forward_s, 0);
});

test("boundaries snap to block edges, and to layers only inside opened blocks", () => {
  const boundary = view().boundaries[0];
  assert.deepEqual(stops(catalog, boundary, new Set()), [1, 3, 5]);
  assert.deepEqual(stops(catalog, boundary, new Set(["b1"])), [1, 3, 4, 5]);
  assert.equal(nearestStop(catalog, boundary, new Set(), 5), 5);
  assert.equal(nearestStop(catalog, boundary, new Set(), 2.9), 3);
  assert.equal(nearestStop(catalog, boundary, new Set(), -99), 1);
  assert.equal(nextStop(catalog, boundary, new Set(), 1), 5);
  assert.equal(nextStop(catalog, { ...boundary, at: 5 }, new Set(), 1), null);
});

test("time scale is 1.32 x ideal unless a lane is longer", () => {
  assert.ok(Math.abs(fitScale({ ideal_s: 10, lanes: [{ forward_s: 4, backward_s: 6 }] }) - 13.2) < 1e-9);
  assert.ok(fitScale({ ideal_s: 10, lanes: [{ forward_s: 10, backward_s: 10 }] }) > 20);
});

test("memory segments keep their order and stop at the edge", () => {
  const segments = memorySegments(
    { weight_bytes: 10, gradient_bytes: 0, optimizer_bytes: 30, activation_bytes: 100, buffer_bytes: 5 },
    100,
  );
  assert.deepEqual(
    segments.map((s) => s.name),
    ["weights", "optimizer", "activations", "buffers"],
  );
  assert.ok(segments.every((s) => s.left + s.width <= 1));
  assert.equal(memoryLevel({ peak_bytes: 101, capacity_bytes: 100 }), "bad");
  assert.equal(memoryLevel({ peak_bytes: 90, capacity_bytes: 100 }), "warn");
  const open = { capacity_bytes: 100, fits_bytes: 80, most_bytes: 110 };
  assert.deepEqual(
    [79, 81, 105, 111].map((peak_bytes) => memoryLevel({ ...open, peak_bytes })),
    ["", "warn", "warn", "bad"],
  );
  assert.deepEqual(
    [79, 81, 105, 111].map((peak_bytes) => mayFit({ ...open, peak_bytes })),
    [false, true, true, false],
  );
});

test("many lanes are grouped; a folded group is one row", () => {
  const lanes = Array.from({ length: 12 }, (_, i) => ({ id: String(i), group: `node ${Math.floor(i / 4)}` }));
  assert.equal(rowsOf(lanes.slice(0, 8), new Set()).length, 8);
  assert.equal(rowsOf(lanes, new Set()).length, 15);
  assert.deepEqual(
    rowsOf(lanes, new Set(["node 1"]))
      .map((row) => row.type)
      .join(" "),
    "group lane lane lane lane group group lane lane lane lane",
  );
});

test("hit test finds the row, or the nearest in reach", () => {
  const rows = [
    { id: "a", top: 0, bottom: 50 },
    { id: "b", top: 80, bottom: 130 },
  ];
  assert.equal(rowAt(rows, 20), "a");
  assert.equal(rowAt(rows, 70), "b");
  assert.equal(rowAt(rows, 400), null);
  assert.ok(linkThickness(2 ** 30) === 2 && linkThickness(null) === 1 && linkThickness(2 ** 50) === 12);
});

test("strips are thin where the same travels everywhere", () => {
  const link = { kind: "infiniband", step_bytes: 2 ** 30 };
  assert.ok(allAlike([link, { ...link }, { ...link }]));
  assert.ok(!allAlike([link, link, { ...link, step_bytes: 1 }]));
  assert.ok(!allAlike([link, link, { ...link, kind: "nvlink" }]));
  assert.ok(!allAlike([link, link]), "two strips are no heavy ink");
});

test("as many replicas are named as the column holds", () => {
  const range = (first, count) => Array.from({ length: count }, (_, i) => first + i);
  assert.equal(shownReplicas([[0], [1]]), 2);
  assert.equal(shownReplicas([range(0, 8), range(8, 8)]), 2);
  assert.equal(shownReplicas([range(96, 8), range(104, 8)]), 1);
  assert.equal(shownReplicas([[0], [1], [2], [3]]), 4);
  assert.equal(shownReplicas([[0], [1], [2], [3], [4]]), 3);
  assert.equal(shownReplicas([range(1000, 64)]), 1);
  assert.equal(shownReplicas([[0], [1], [2], [3]], 8), 3, "+5 stands beside them");
  assert.equal(shownReplicas([[0], [1], [2], [3]], 8, true), 2, "where the column is narrow");
  assert.equal(shownReplicas([[16], [17], [18], [19]], 8), 2, "two digits take more");
});

test("a compact lane names its replicas, else the span of its devices, else their number", () => {
  const big = { replicas: Array.from({ length: 8 }, (_, i) => [1024 + 8 * i, 1031 + 8 * i]), replica_count: 128, device_count: 1024 };
  assert.deepEqual(compactDevices({ ...big, span: [1024, 2047] }), ["1024–2047"]);
  assert.deepEqual(compactDevices({ ...big, span: null }), ["1\u202f024 devices"]);
  assert.deepEqual(compactDevices({ replicas: [[4, 7]], span: [4, 7] }), ["4–7"]);
  assert.deepEqual(compactDevices({ replicas: [[4], [9]], span: null, device_count: 2 }), ["4", "9"]);
});

test("a group says the memory of one device, the fullest, and not a sum over devices", () => {
  const member = (id, peak_bytes, forward_s) => ({ id, forward_s, backward_s: 2 * forward_s, peak_bytes, capacity_bytes: 80 });
  const sum = groupSummary([member("a", 60, 1), member("b", 70, 1), member("c", 50, 2)]);
  assert.deepEqual([sum.time_s, sum.slowest.id, sum.fullest.id], [12, "c", "b"]);
  assert.ok(!("peak_bytes" in sum));
});

test("a compact lane of many stages is named by the first and the last", () => {
  assert.equal(shortName("Stages 0, 16, 32, 112"), "Stages 0…112");
  assert.equal(shortName("Stages 3, 11"), "Stages 3, 11");
  assert.equal(shortName("Stage 7"), "Stage 7");
});

test("replicas are named as long as their number has room beside them", () => {
  const group = (from, count) => Array.from({ length: count }, (_, i) => from + i);
  assert.equal(shownReplicas([group(0, 8), group(8, 8)], 2), 2);
  assert.equal(shownReplicas([group(0, 8), group(8, 8)], 1024), 1, "one, and +1023");
  assert.equal(shownReplicas([group(8192, 8), group(8200, 8)], 1024), 0, "then the span of all");
  assert.equal(shownReplicas([[0], [1], [2], [3], [4]], 5), 3);
});
