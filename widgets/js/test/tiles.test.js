import assert from "node:assert/strict";
import test from "node:test";
import { Ending, previewed, previewedVerdict, previewOf } from "../src/tiles/preview.js";
import { typeset } from "../src/common/format.js";
import { bandText, bandTitle, deltaText, measuredText, sureWords, valueParts, whyWords } from "../src/tiles/words.js";

const tile = { key: "step_time", name: "Step time", quantity: "seconds", value: 6.44, baseline: 7, baseline_name: "even cut", low: 6, high: 7, measured: 6.6 };

test("preview: the estimate against what is now", () => {
  const then = previewed(tile, { values: { step_time: 6.7816 } });
  assert.equal(deltaText(then).replace("\u00a0", " "), "+5.3 %");
  assert.deepEqual(measuredText(then), { lead: "now", value: "6.44\u00a0s" });
  assert.equal(then.measured, null, "the measurement is not of the estimate");
});

test("preview: what the page cannot estimate keeps its value and says so", () => {
  const still = previewed(tile, { values: { memory: 1.2 } });
  assert.equal(still.value, 6.44);
  assert.equal(still.waits, true);
  assert.equal(deltaText(still), null);
});

test("preview: levels are the estimate's, never the old ones", () => {
  const full = { ...tile, key: "memory", quantity: "fraction", value: 0.95, level: "warn" };
  assert.equal(previewed(full, { values: { memory: 1.2 }, levels: { memory: "bad" } }).level, "bad");
  assert.equal(previewed(full, { values: { memory: 0.5 }, levels: { memory: null } }).level, null);
  assert.equal(previewed(full, { values: { memory: 0.5 } }).level, null);
});

test("preview: only of the same workbench, and over with null", () => {
  const one = { bench: "a", values: { step_time: 1 } };
  assert.equal(previewOf(one, "a", null), one);
  assert.equal(previewOf({ ...one, bench: "b" }, "a", one), one, "another workbench's drag changes nothing");
  assert.equal(previewOf({ bench: "a", values: null }, "a", one), null);
  assert.equal(previewOf(undefined, "a", one), one);
});

test("preview: its sentence has no buttons; without one the present sentence stays", () => {
  const now = { level: "ok", text: "Fits.", actions: [{ action: "apply_hint" }] };
  const then = previewedVerdict(now, { verdict: { level: "bad", text: "Would not fit." } });
  assert.deepEqual(then, { level: "bad", text: "Would not fit.", note: "Estimate. Esc cancels.", actions: [] });
  assert.equal(previewedVerdict(now, {}), now);
});

test("third line: measured, then the note, then the band", () => {
  assert.equal(measuredText({ ...tile, note: "6.6 × 1 device" }).lead, "measured");
  assert.deepEqual(measuredText({ ...tile, measured: null, note: "6.6 × 1 device" }), { lead: "6.6 × 1 device", value: "" });
  assert.equal(measuredText({ ...tile, measured: null }).lead, "80 %");
});

test("band: half of it beside the name, whole and with its origin in words", () => {
  assert.equal(bandText(tile), "±8.7\u00a0%");
  assert.equal(bandText({ ...tile, low: null }), null);
  assert.equal(bandText({ ...tile, quantity: "fraction", value: 0.2, low: 0.15, high: 0.22 }), "±5.0\u00a0pt");
  assert.equal(bandText({ ...tile, compare: "difference", value: 0, low: 0, high: 0.014 }), "±14.0\u00a0ms");
  assert.match(bandTitle({ ...tile, band_from: "From 12 runs" }), /^80 % band 6\.00\u00a0s to 7\.00\u00a0s\. From 12 runs$/);
  assert.equal(bandText(previewed(tile, { values: { step_time: 6.8 } })), null, "an estimate has none");
});

test("why: how many, and whether they are of the plan shown", () => {
  const rows = [{ key: "a" }, { key: "b", old: true }, { key: "c" }, { key: "d" }];
  const state = { working: false, open: false };
  assert.deepEqual(whyWords(rows, state), { toggle: "▸ Why (4)", status: "" });
  assert.equal(whyWords(rows, { ...state, open: true }).toggle, "▾ Why (4)");
  assert.match(whyWords(rows, { ...state, working: true }).status, /former plan/);
  assert.equal(whyWords([], { ...state, working: true }).status, "working it out");
});

test("a space before every per cent sign", () => {
  assert.equal(typeset("6.6% of 100% (7 %)"), "6.6\u00a0% of 100\u00a0% (7 %)");
  assert.equal(typeset("451 us and 9us, thus 3 ms"), "451\u00a0µs and 9\u00a0µs, thus 3 ms");
});

test("preview: after a drop it stands until the tiles have their own answer, or a moment", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let view = {};
  let over = 0;
  const ending = new Ending(
    () => view,
    () => (over += 1),
  );
  ending.begin();
  assert.equal(ending.waits(), true);
  assert.equal(ending.on, true);
  context.mock.timers.tick(1000);
  assert.deepEqual([over, ending.on], [1, false], "a refused move changes no figure");
  ending.begin();
  view = {};
  assert.equal(ending.waits(), false, "the answer was here first");
  context.mock.timers.tick(1000);
  assert.equal(over, 1);
});

test("how sure a figure is: its band, its source and what would narrow it; without a band that is said", () => {
  const tile = { name: "Step time", quantity: "seconds", value: 8.6, low: 8.19, high: 9.07, band_from: "From 12 runs", narrow: "Measure it." };
  const { title, lines } = sureWords(tile);
  assert.match(title, /^Step time 8\.60\u00a0s ±5\.5\u00a0%$/);
  assert.deepEqual(lines.slice(1), ["From 12 runs.", "Measure it."]);
  assert.match(lines[0], /between 8\.19\u00a0s and 9\.07\u00a0s/);
  assert.match(sureWords({ ...tile, low: null, high: null }).lines[0], /^No band yet/);
});

test("millions of tokens a second are said in millions", () => {
  const tile = { quantity: "per_second", unit: "tokens/s" };
  assert.deepEqual(valueParts({ ...tile, value: 2174782 }), { text: "2.17", unit: "M tokens/s" });
  assert.equal(valueParts({ ...tile, value: 30654 }).unit, "tokens/s");
});
