import assert from "node:assert/strict";
import test from "node:test";
import { bytes, count, fixed, percent, seconds, secondsParts, signed } from "../src/common/format.js";

const plain = (text) => text.replace(/[\u00a0\u202f]/g, " ").replace(/\u2212/g, "-");

test("seconds take the unit that suits them", () => {
  for (const [s, text] of [
    [6.44, "6.44 s"],
    [0.351, "351 ms"],
    [0.0351, "35.1 ms"],
    [0.0015, "1.5 ms"],
    [12.3e-6, "12.3 µs"],
    [0, "0 ms"],
    [0.99999, "1.00 s"],
    [null, "–"],
    [Number.NaN, "–"],
  ])
    assert.equal(plain(seconds(s)), text);
  assert.equal(plain(seconds(0.35, 6.44)), "0.35 s", "like another number");
});

test("bytes are binary, three digits at most", () => {
  for (const [b, text] of [
    [75.2 * 2 ** 30, "75.2 GiB"],
    [129 * 2 ** 30, "129 GiB"],
    [32 * 2 ** 20, "32 MiB"],
    [1.5 * 2 ** 20, "1.5 MiB"],
    [0, "0 B"],
    [undefined, "–"],
  ])
    assert.equal(plain(bytes(b)), text);
});

test("signs, thousands and counts", () => {
  assert.equal(plain(fixed(20340)), "20 340");
  assert.equal(fixed(-1.5, 1).codePointAt(0), 0x2212, "a true minus");
  assert.equal(plain(fixed(-0.001, 1)), "0.0", "no minus zero");
  assert.equal(plain(signed(percent(0.06))), "+6 %");
  assert.equal(plain(signed(percent(-0.07))), "-7 %");
  assert.equal(plain(signed(percent(0))), "0 %");
  assert.equal(plain(count(218112000)), "218 M");
  assert.deepEqual(secondsParts(null), { text: "–", unit: "" });
});
