import assert from "node:assert/strict";
import test from "node:test";
import { Sync } from "../src/common/sync.js";
import { bandsOf, edgePath, layered, place } from "../src/graph/layout.js";
import { memoryGrid, rowPlaces, rowUnder, trafficGrid } from "../src/heatmap/cells.js";
import { bandOf, deltaText, measuredText, outside, valueParts } from "../src/tiles/words.js";

test("graph: rank is the longest path, branches get columns, a cycle does not hang", () => {
  const { rank, column } = layered(
    ["a", "b", "c", "d"],
    [
      ["a", "b"],
      ["a", "c"],
      ["b", "d"],
      ["c", "d"],
      ["a", "d"],
    ],
  );
  assert.deepEqual(
    ["a", "b", "c", "d"].map((id) => rank.get(id)),
    [0, 1, 1, 2],
  );
  assert.deepEqual([column.get("b"), column.get("c")], [-0.5, 0.5]);
  assert.equal(
    layered(
      ["a", "b"],
      [
        ["a", "b"],
        ["b", "a"],
      ],
    ).rank.size,
    2,
  );
});

test("graph: no two boxes overlap and none leaves the width", () => {
  const ids = Array.from({ length: 40 }, (_, i) => `n${i}`);
  const edges = ids
    .slice(1)
    .map((id, i) => [ids[i], id])
    .concat([
      ["n0", "n5"],
      ["n2", "n9"],
    ]);
  const { boxes, bands, height } = place(ids, edges, { width: 600, high: 30, gap: 16, rowGap: 8, head: 20 });
  const all = [...boxes.values()];
  for (const [i, a] of all.entries()) {
    assert.ok(a.x >= 0 && a.x + a.w <= 600.001 && a.y + a.h <= height);
    for (const b of all.slice(i + 1))
      assert.ok(a.x + a.w <= b.x + 1e-9 || b.x + b.w <= a.x + 1e-9 || a.y + a.h <= b.y + 1e-9 || b.y + b.h <= a.y + 1e-9);
  }
  for (const [a, b] of edges) assert.ok(!/NaN|undefined/.test(edgePath(boxes.get(a), boxes.get(b), bands, 600).d));
});

/** Straight pieces of a path of M, H and V: [x1, y1, x2, y2]. */
function pieces(d) {
  const found = [];
  let [x, y] = [0, 0];
  for (const [, kind, first, second] of d.matchAll(/([A-Z])([-\d.]+)(?: ([-\d.]+))?/g)) {
    assert.ok("MHV".includes(kind), d);
    const to = kind === "M" ? [Number(first), Number(second)] : kind === "H" ? [Number(first), y] : [x, Number(first)];
    if (kind !== "M") found.push([x, y, ...to]);
    [x, y] = to;
  }
  return found;
}

test("graph: an edge into another row runs from box to box and crosses none", () => {
  const ids = ["norm", "q", "k", "v", "rope", "attention", "o", "add", "norm2", "gate", "up", "mul", "down", "add2"];
  const edges = [
    ...["q", "k", "v"].map((id) => ["norm", id]),
    ["q", "rope"],
    ["k", "rope"],
    ["v", "attention"],
    ["rope", "attention"],
    ["attention", "o"],
    ["o", "add"],
    ["norm", "add"],
    ["add", "norm2"],
    ["add", "add2"],
    ["norm", "add2"],
    ["norm2", "gate"],
    ["norm2", "up"],
    ["gate", "mul"],
    ["up", "mul"],
    ["mul", "down"],
    ["down", "add2"],
  ];
  const partOf = (id) => (ids.indexOf(id) < 8 ? "attention" : "mlp");
  for (const width of [200, 408, 560, 700]) {
    const options = { width, partOf, least: 84, wide: 150, high: 34, gap: 18, rowGap: 8, head: 22 };
    const { boxes, bands } = place(ids, edges, options);
    for (const [from, to] of edges.filter(([x, y]) => boxes.get(x).band !== boxes.get(y).band)) {
      const [a, b] = [boxes.get(from), boxes.get(to)];
      const line = pieces(edgePath(a, b, bands, width).d);
      assert.deepEqual(line[0].slice(0, 2), [a.x + a.w, a.y + a.h / 2]);
      const [x, y] = line.at(-1).slice(2);
      assert.ok((x === b.x - 1 && y === b.y + b.h / 2) || (x === b.x + b.w / 2 && y === b.y - 1), `${from} to ${to}`);
      for (const [x1, y1, x2, y2] of line)
        for (const [id, box] of boxes)
          assert.ok(
            Math.max(x1, x2) <= box.x || Math.min(x1, x2) >= box.x + box.w || Math.max(y1, y2) <= box.y || Math.min(y1, y2) >= box.y + box.h,
            `${from} to ${to} runs through ${id} at ${width}`,
          );
    }
  }
});

test("graph: a part that is wrapped is shared out evenly", () => {
  const ranks = ["a", "b", "c", "d", "e", "f", "x"].map((id) => [id]);
  const bands = bandsOf(ranks, (id) => (id === "x" ? "mlp" : "attention"), 5);
  assert.deepEqual(
    bands.map((band) => [band.ranks.length, band.continued]),
    [
      [3, false],
      [3, true],
      [1, false],
    ],
  );
});

test("heatmap cells: -1 is empty, missing pairs are empty, repeated pairs add up", () => {
  const grid = memoryGrid({ rows: [{}, {}], columns: 2, capacity_bytes: 10 }, new Float32Array([5, -1, 10, 0]));
  assert.deepEqual([grid.value(0, 0), grid.value(0, 1), grid.value(1, 1)], [5, null, 0]);
  const traffic = trafficGrid({
    rows: [{}, {}],
    pairs: [
      [0, 1, 4],
      [0, 1, 4],
      [1, 0, 2],
    ],
  });
  assert.deepEqual([traffic.value(0, 1), traffic.value(0, 0), traffic.low, traffic.high], [8, null, 2, 8]);
  const { tops } = rowPlaces([{ lane: "0" }, { lane: "0" }, { lane: "1" }], 30);
  assert.deepEqual([rowUnder(tops, 30, 15), rowUnder(tops, 30, 32), rowUnder(tops, 30, 63)], [0, 1, -1]);
});

test("tiles: value, difference, band", () => {
  assert.deepEqual(valueParts({ quantity: "seconds", value: 6.44 }), { text: "6.44", unit: "s" });
  assert.deepEqual(valueParts({ quantity: "fraction", value: null }).unit, "");
  assert.match(deltaText({ quantity: "seconds", value: 6, baseline: 8 }), /25\.0/);
  assert.match(deltaText({ quantity: "fraction", value: 0.3, baseline: 0.2 }), /^\+10\.0.pt$/);
  assert.equal(deltaText({ quantity: "seconds", value: 6, baseline: null }), null);
  assert.equal(outside({ measured: 5, low: 1, high: 4 }), true);
  assert.equal(outside({ measured: 5, low: 1, high: 4, old: true }), false);
  assert.match(measuredText({ quantity: "seconds", value: 100, low: 96, high: 104 }).value, /±4/);
  const band = bandOf({ value: 10, low: 9, high: 11, measured: 30 });
  assert.ok(band.low < band.value && band.value < band.high && band.measured <= 1);
});

test("sync: a view that comes before the answer is not drawn; every intent has its number", async () => {
  const state = { seq: 4, view: "old" };
  const listeners = {};
  const sent = [];
  const model = {
    get: (name) => state[name],
    on: (event, f) => {
      (listeners[event] ??= []).push(f);
    },
    off() {},
    send: (m) => sent.push(m),
  };
  const emit = (changes) => {
    Object.assign(state, changes);
    for (const name of Object.keys(changes)) for (const f of listeners[`change:${name}`] ?? []) f();
  };
  let draws = 0;
  const sync = new Sync(model, ["view"], () => {
    draws += 1;
  });
  sync.send("move", { layers: ["a"] });
  sync.send("undo");
  assert.deepEqual(
    sent.map((m) => [m.seq, m.kind]),
    [
      [5, "move"],
      [6, "undo"],
    ],
  );
  emit({ view: "stale", seq: 5 });
  await null;
  assert.equal(draws, 0);
  assert.equal(sync.pending, true);
  emit({ view: "new", seq: 6 });
  await null;
  assert.equal(draws, 1, "one drawing for one message");
  assert.equal(sync.pending, false);
});
