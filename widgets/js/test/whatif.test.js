import assert from "node:assert/strict";
import test from "node:test";
import { nearest, parsed, typed } from "../src/whatif/stops.js";

test("stops: the nearest by ratio", () => {
  const stops = [0.1, 0.5, 1, 2, 10];
  assert.equal(nearest(stops, 1), 2);
  assert.equal(nearest(stops, 1.3), 2);
  assert.equal(nearest(stops, 1.6), 3);
  assert.equal(nearest(stops, 1e9), 4);
  assert.equal(nearest(stops, 0), 0);
  for (const [i, stop] of stops.entries()) assert.equal(nearest(stops, stop), i);
});

test("numbers as they are typed, and back", () => {
  for (const value of [1, 64, 8192, 0.1, 3.16, 12]) assert.equal(parsed(typed(value)), value);
  assert.equal(typed(3.1623), "3.16");
  assert.equal(parsed("16 384"), 16384);
  assert.equal(parsed("16,384"), 16384);
  assert.equal(parsed("1e3"), 1000);
  for (const wrong of ["", "many", "1,5x", "Infinity"]) assert.equal(parsed(wrong), null);
});
