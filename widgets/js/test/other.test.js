import assert from "node:assert/strict";
import test from "node:test";
import { Sync } from "../src/common/sync.js";
import { bandOf, deltaText, measuredText, outside, valueParts } from "../src/tiles/words.js";

test("tiles: value, difference, band", () => {
  assert.deepEqual(valueParts({ quantity: "seconds", value: 6.44 }), { text: "6.44", unit: "s" });
  assert.deepEqual(valueParts({ quantity: "fraction", value: null }).unit, "");
  assert.match(deltaText({ quantity: "seconds", value: 6, baseline: 8 }), /25\.0/);
  assert.match(deltaText({ quantity: "fraction", value: 0.3, baseline: 0.2 }), /^\+10\.0.pt$/);
  assert.equal(deltaText({ quantity: "seconds", value: 6, baseline: null }), null);
  assert.equal(outside({ measured: 5, low: 1, high: 4 }), true);
  assert.equal(outside({ measured: 5, low: 1, high: 4, old: true }), false);
  const ends = (tile) => measuredText(tile).value.replaceAll(/[\s\u00a0\u202f]/g, " ");
  assert.equal(ends({ quantity: "seconds", value: 100, low: 96, high: 104 }), "96.0–104 s");
  assert.equal(ends({ quantity: "seconds", value: 1, low: 0.8, high: 1.2 }), "800 ms–1.20 s");
  assert.equal(ends({ quantity: "fraction", value: 0.19, low: 0.18, high: 0.2 }), "18.0–20.0 %");
  assert.equal(ends({ quantity: "number", unit: "tokens/s", value: 30364, low: 28846, high: 31882 }), "28.8–31.9 k");
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
