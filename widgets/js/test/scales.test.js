import assert from "node:assert/strict";
import test from "node:test";
import { cividis, contrast, inkOn, logPosition, ticks } from "../src/common/scales.js";

test("ticks are 1, 2 or 5 times a power of ten and stay inside", () => {
  assert.deepEqual(
    ticks(0.4, 8).map((t) => Math.round(t * 1e3)),
    [0, 50, 100, 150, 200, 250, 300, 350, 400],
  );
  assert.deepEqual(ticks(6.47, 6).map(Math.round), [0, 2, 4, 6]);
  assert.deepEqual(ticks(0, 5), []);
  assert.ok(ticks(2.2, 4, 1.9).every((t) => t >= 1.9 && t <= 2.21));
});

test("every cividis colour has a readable ink", () => {
  for (let i = 0; i <= 100; i += 1) {
    const colour = cividis(i / 100);
    const ink = inkOn(colour) === "#000" ? [0, 0, 0] : [255, 255, 255];
    assert.ok(contrast(colour, ink) >= 4.5, `${i}: ${contrast(colour, ink)}`);
  }
});

test("log positions", () => {
  assert.equal(logPosition(1, 1, 100), 0);
  assert.ok(Math.abs(logPosition(10, 1, 100) - 0.5) < 1e-12);
  assert.equal(logPosition(0, 1, 100), 0);
  assert.equal(logPosition(5, 5, 5), 1);
});
