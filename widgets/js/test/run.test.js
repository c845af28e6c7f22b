import assert from "node:assert/strict";
import { test } from "node:test";
import { paintedErrors } from "../src/common/errors.js";
import { actionShares, barShares, courseShare, engineText, errorColours, errorText, leftText, valueText } from "../src/run/words.js";

const plain = (text) => text.replaceAll("\u00a0", " ");

test("errors have their sign, and nothing has none", () => {
  assert.equal(plain(errorText(0.0238)), "+2.4 %");
  assert.equal(plain(errorText(-0.264)), "−26.4 %");
  assert.equal(plain(errorText(0.0004)), "0.0 %");
  assert.equal(plain(errorText(-0.0004)), "0.0 %");
  assert.equal(plain(errorText(12)), "+1\u202f200 %");
  assert.equal(errorText(null), "–");
});

test("values carry their unit", () => {
  assert.equal(plain(valueText(4.83, "seconds")), "4.83 s");
  assert.equal(plain(valueText(22e9, "bytes_per_s")), "22.0 GB/s");
  assert.equal(plain(valueText(1.5e12, "bytes_per_s")), "1.5 TB/s");
  assert.equal(plain(valueText(1.234, "ratio")), "1.23 ×");
  assert.equal(valueText(0.58, "fraction"), "0.58");
  assert.equal(valueText(null, "seconds"), "–");
});

test("bars share one scale; sums and ratios have none", () => {
  const row = (name, predicted, measured, more = {}) => ({ name, predicted, measured, quantity: "seconds", strong: false, ...more });
  const shares = barShares([
    row("compute", 4, 5),
    row("bubble", 1, null),
    row("step time", 9, 9, { strong: true }),
    row("speedup", 2, 2, { quantity: "ratio" }),
  ]);
  assert.deepEqual([...shares.keys()], ["compute", "bubble"]);
  assert.deepEqual(shares.get("compute"), [0.8, 1]);
  assert.deepEqual(shares.get("bubble"), [0.2, 0]);
});

test("time left is told roughly", () => {
  assert.equal(plain(leftText(9.4)), "about 9 s left");
  assert.equal(plain(leftText(0.2)), "about 1 s left");
  assert.equal(plain(leftText(150)), "about 3 min left");
  assert.equal(leftText(null), "");
});

test("how far a rank is in its case", () => {
  assert.equal(courseShare({ at_s: 0.25, of_s: 1 }), 0.25);
  assert.equal(courseShare({ at_s: 2, of_s: 1 }), 1);
  assert.equal(courseShare({ at_s: null, of_s: 1 }), null);
  assert.equal(courseShare({}), null);
});

test("two engines in one sentence, none for one", () => {
  const own = { name: "this interpreter", step_s: 0.33, gradient: 2e-7 };
  const other = { name: "torch's own pipelining", step_s: 0.297, gradient: 3e-7 };
  assert.equal(
    plain(engineText([own, other])),
    "The same steps took 297 ms on torch's own pipelining, 10.0 % less than on this interpreter (330 ms). Gradients differ from those of one process by 3e-7 and 2e-7.",
  );
  assert.match(plain(engineText([own, { ...own, gradient: null }])), /330 ms on this interpreter, as long as .* by – and 2e-7/);
  assert.equal(engineText([]), "");
});

test("actions share one scale, and errors the layer graph's colours", () => {
  const row = (action, predicted_s, measured_s, error, profile_error = null) => ({ stage: "stage 0", action, predicted_s, measured_s, error, profile_error });
  const rows = [row("F", 1, 2, -0.5), row("B", 4, 4, 0, 0.25)];
  assert.deepEqual([...actionShares(rows)], [["stage 0 F", [0.25, 0.5]], ["stage 0 B", [1, 1]]]);
  const colours = errorColours(rows);
  assert.equal(colours(-0.5).fill, "rgb(11 79 148)", "the largest error is as blue as can be");
  assert.equal(colours(null), null, "nothing is known");
  assert.deepEqual(colours(0.25), paintedErrors([-0.5, 0, 0.25]).colour(0.25));
});
