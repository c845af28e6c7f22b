import assert from "node:assert/strict";
import test from "node:test";
import { float32 } from "../src/common/binary.js";
import { Bars } from "../src/timeline/bars.js";
import { drawnLinks, MOST_LINKS, shareIn } from "../src/timeline/draw-links.js";
import { runsOf } from "../src/timeline/draw-path.js";
import { firstBar, moveFocus } from "../src/timeline/keys.js";
import { Window } from "../src/common/window.js";
import { hit, layout, laneSizes, linkUnder } from "../src/timeline/layout.js";
import { SLICES, Strips } from "../src/timeline/strips.js";
import { accountFacts, barLines, pathParts, stagesWords } from "../src/timeline/words.js";

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
const plain = (text) => text.replace(/[\u00a0\u202f]/g, " ");
const random = (seed) => () => {
  seed = (seed * 1664525 + 1013904223) % 2 ** 32;
  return seed / 2 ** 32;
};

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
  const reversed = new Bars(new Float32Array([...rows].reverse().flat()), 2);
  assert.deepEqual([...reversed.lanes[0].compute].map((i) => reversed.start(i)), [0, 1, 4], "sorted whatever the order");
});

test("bars of lanes that are not there are left out", () => {
  const found = new Bars(new Float32Array([...rows[0], 0, 1, 5, 0, 0, 0, 0, 1, -1, 0]), 1);
  assert.deepEqual([...found.lanes[0].compute], [0]);
});

test("shares of pixels add up to the busy time", () => {
  const shares = new Strips(bars).shares(0, 0, 6, 12);
  const total = [...shares.values()].flatMap((row) => [...row]).reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(total * 0.5 - 4) < 1e-5);
  assert.ok([...shares.values()].every((row) => row.every((x) => x <= 1.0001)));
});

test("kept sums and single bars give the same strip, at any zoom", () => {
  const next = random(7);
  const many = [];
  let t = 0;
  for (let k = 0; k < 3000; k += 1) {
    const length = next() * 0.01;
    many.push([t, t + length, 0, k % 4, 0, 0, k, 1, -1, 0]);
    t += length + next() * 0.002;
  }
  const strips = new Strips(new Bars(new Float32Array(many.flat()), 1));
  for (const [t0, t1, pixels] of [
    [0, t, 700],
    [t / 3, t / 2, 500],
    [0.9 * t, 1.1 * t, 300],
  ]) {
    const pixel = (t1 - t0) / pixels;
    assert.ok(pixel * SLICES >= strips.bars.end_s, "this goes by sums");
    const [fast, slow] = [strips.shares(0, t0, t1, pixels), strips.exact(0, t0, pixel, pixels, false)];
    assert.deepEqual([...fast.keys()].sort(), [0, 2, 3]);
    for (const [group, row] of slow) {
      const difference = Math.max(...row.map((x, p) => Math.abs(x - fast.get(group)[p])));
      assert.ok(difference < 0.35, `a pixel differs by no more than a slice: ${difference}`);
      const sum = (r) => r.reduce((a, b) => a + b, 0);
      assert.ok(Math.abs(sum(row) - sum(fast.get(group))) < 0.5);
    }
  }
});

test("wires have a strip of their own", () => {
  const shares = new Strips(bars).shares(0, 0, 6, 12, true);
  assert.deepEqual([...shares.keys()], [6]);
  assert.ok(Math.abs(shares.get(6).reduce((a, b) => a + b, 0) * 0.5 - 0.5) < 1e-6);
});

test("a microbatch's time is computing, transit and waiting", () => {
  const account = bars.account(0);
  assert.equal(account.hops, 2);
  assert.ok(Math.abs(account.computing_s + account.transit_s + account.waiting_s - (account.leaves_s - account.enters_s)) < 1e-6);
  assert.equal(account.transit_s, 1);
  assert.equal(bars.account(99), null);
  assert.equal(bars.lastMicrobatch, 1);
});

test("ranges of microbatches count", () => {
  const range = new Bars(new Float32Array([0, 1, 0, 3, 0, 0, 4, 4, -1, 0]), 1);
  assert.deepEqual(
    [3, 4, 7, 8].map((m) => range.holds(0, m)),
    [false, true, true, false],
  );
  assert.equal(range.lastMicrobatch, 7);
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

test("the window moves to what must be seen, without zooming", () => {
  const window = new Window(10);
  window.place(0, 2);
  window.show(1, 1.5);
  assert.deepEqual([window.t0, window.t1], [0, 2], "in sight already");
  window.show(7, 7.5);
  assert.ok(window.t0 <= 7 && window.t1 >= 7.5 && Math.abs(window.span - 2) < 1e-12);
  window.show(4, 9);
  assert.equal(window.t0, 4, "longer than the window: its start");
});

test("rows of two plans lie below each other, links below the first", () => {
  const places = layout([2, 3]);
  assert.deepEqual(hit(places.plans, places.plans[1].rows[2].y + 3), { plan: 1, lane: 2, wire: false });
  assert.equal(hit(places.plans, 2), null);
  const linked = layout([2, 3], ["gpu 0 → nvswitch", "nvswitch → gpu 0"]);
  assert.ok(linked.plans[0].rows[1].y < linked.links[0].y && linked.links[1].y < linked.plans[1].rows[0].y);
  assert.equal(linkUnder(linked.links, linked.links[1].y + 4), 1);
  assert.equal(linkUnder(linked.links, 3), -1);
  assert.ok(linked.left > places.left, "long names have room");
});

test("many lanes get thinner, and then not all are named", () => {
  assert.ok(layout([64]).every > 1);
  assert.equal(layout([4]).every, 1);
  for (const lanes of [1, 12, 13, 64, 97, 200, 400]) {
    const { bar, wire } = laneSizes(lanes);
    assert.ok(bar >= 2 && wire >= 1);
  }
  assert.ok(layout([256]).height < 1200);
});

test("arrow keys go from bar to bar, over wires, lanes and plans", () => {
  const plans = [{ bars }, { bars }];
  const window = new Window(6);
  const first = firstBar(plans, window);
  assert.deepEqual(first, { plan: 0, i: 0 });
  const go = (...keys) => keys.reduce((focus, key) => moveFocus(plans, window, focus, key), first);
  assert.deepEqual(go("ArrowRight"), { plan: 0, i: 1 });
  assert.deepEqual(go("ArrowRight", "ArrowLeft", "ArrowLeft"), { plan: 0, i: 0 }, "stops at the first");
  assert.deepEqual(go("End"), { plan: 0, i: 2 });
  assert.deepEqual(go("End", "Home"), { plan: 0, i: 0 });
  assert.deepEqual(go("ArrowDown"), { plan: 0, i: 3 }, "the lane's wires");
  assert.deepEqual(go("ArrowDown", "ArrowDown"), { plan: 0, i: 4 });
  assert.deepEqual(go("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"), { plan: 1, i: 2 }, "the same time in the next plan");
  assert.deepEqual(go("ArrowUp"), { plan: 0, i: 0 }, "stops at the top");
  assert.deepEqual(moveFocus(plans, window, { plan: 0, i: 99 }, "ArrowRight"), first, "what is gone is forgotten");
});

test("a chain's neighbours on one lane share an outline", () => {
  assert.deepEqual(
    runsOf(bars, [0, 3, 4, 5, 6, 2]).map((run) => [run.lane, run.start, run.end]),
    [
      [0, 0, 1],
      [1, 1.5, 3.5],
      [0, 4, 6],
    ],
  );
});

test("a critical path is told by its shares, the smallest together", () => {
  const critical = {
    length_s: 10,
    parts: [
      { name: "compute", seconds: 8.3 },
      { name: "transfer", seconds: 1.66 },
      { name: "update", seconds: 0.03 },
      { name: "waiting", seconds: 0.01 },
    ],
  };
  assert.deepEqual(
    pathParts(critical).map((part) => plain(`${part.share} ${part.name}`)),
    ["83 % compute", "17 % transfer", "0.3 % update", "0.1 % waiting"],
  );
  const all = { length_s: 1, parts: [{ name: "compute", seconds: 0.99995 }, { name: "transfer", seconds: 3e-5 }, { name: "waiting", seconds: 2e-5 }] };
  assert.deepEqual(
    pathParts(all).map((part) => plain(`${part.share} ${part.name}`)),
    ["100.0 % compute", "under 0.1 % transfer, waiting"],
  );
});

test("a bar is told with where it goes and why it starts", () => {
  const lanes = [{ name: "stage 0" }, { name: "stage 1" }];
  const lines = barLines(bars.row(3), lanes, "channel").map(plain);
  assert.deepEqual(lines, [
    "transfer, microbatch 0",
    "stage 0 → stage 1: 500 ms, 64 B",
    "1.00 s to 1.50 s",
    "on the critical path: starts when its link is free",
  ]);
});

test("the stages of a journey are told by its turns", () => {
  assert.equal(stagesWords([0, 1, 2, 3, 3, 2, 1, 0]), "0 → 3 → 0");
  assert.equal(stagesWords([2]), "2");
  assert.equal(stagesWords([0, 1, 0, 1, 2]), "0 → 1 → 0 → 2");
  assert.equal(stagesWords(Array.from({ length: 40 }, (_, i) => (i % 2) * i)), "0 → 1 → 0 → 3 → … → 37 → 0 → 39");
});

test("a microbatch's facts tell the second plan by difference", () => {
  const a = bars.account(0);
  const facts = accountFacts(a, { ...a, waiting_s: a.waiting_s + 0.5 });
  assert.deepEqual(
    facts.map(([name]) => name),
    ["enters, leaves", "computing", "in transit, 2 hops", "waiting"],
  );
  assert.deepEqual([plain(facts[3][2]), facts[1][2]], ["+500 ms", "the same"]);
});

test("of many links the busiest are drawn, in their order", () => {
  const view = { rows: Array.from({ length: MOST_LINKS + 6 }, (_, i) => ({ share: i < 6 ? 0.9 : i / 1000 })) };
  const drawn = drawnLinks(view);
  assert.equal(drawn.length, MOST_LINKS);
  assert.deepEqual(drawn.slice(0, 6), [0, 1, 2, 3, 4, 5]);
  assert.deepEqual([...drawn].sort((a, b) => a - b), drawn);
  assert.equal(drawnLinks({ rows: [{ share: 1 }] }).length, 1);
});

test("a pixel of a link shows the largest share it meets", () => {
  const view = { columns: 4, start_s: 0, end_s: 8 };
  const cells = new Float32Array([0, 0.5, 0.25, 1]);
  assert.equal(shareIn(view, cells, 0, 2, 6), 0.5);
  assert.equal(shareIn(view, cells, 0, 4.1, 4.2), 0.25);
  assert.equal(shareIn(view, cells, 0, 7.9, 9), 1);
});

test("bytes with an odd offset are copied", () => {
  const bytes = new Uint8Array(9);
  new DataView(bytes.buffer).setFloat32(1, 2.5, true);
  assert.deepEqual([...float32(new DataView(bytes.buffer, 1, 8))], [2.5, 0]);
  assert.equal(float32(null).length, 0);
});
