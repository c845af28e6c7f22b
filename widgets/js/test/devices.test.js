import assert from "node:assert/strict";
import test from "node:test";
import { deviceEffect, gpu, homeOfDevice, movedWords, placeOf, placesFor } from "../src/board/devices.js";

const VIEW = {
  lanes: [
    { id: "0", name: "Stage 0", replicas: [[0, 1], [2, 3]] },
    { id: "1", name: "Stage 1", replicas: [[4, 5]] },
  ],
  idle: { kinds: [{ kind: null, devices: [6, 7] }], count: 2 },
  estimate: { step_s: 2 },
};

test("a replica is named by its devices", () => {
  assert.equal(gpu([4]), "gpu 4");
  assert.equal(gpu([4, 7]), "gpu 4–7");
  assert.equal(homeOfDevice(VIEW, 4).lane.id, "1");
  assert.equal(homeOfDevice(VIEW, 6).lane, null);
});

test("a device may go to another lane, change places, or leave; one out of use only joins", () => {
  const [lanes, boxes, out] = placesFor(VIEW, 4);
  assert.deepEqual(lanes.choices, [["lane:0", "Stage 0"]]);
  assert.deepEqual(boxes.choices.map(([value]) => value), ["device:0", "device:2", "device:6", "device:7"]);
  assert.deepEqual(out.choices, [["out", "Out of use"]]);
  const idle = placesFor(VIEW, 6);
  assert.deepEqual(idle.map((group) => group.name), ["One more replica of", "Changes places with"]);
  assert.deepEqual(idle[1].choices.map(([value]) => value), ["device:0", "device:2", "device:4"]);
});

test("a choice becomes the intent's fields", () => {
  assert.deepEqual(placeOf("lane:1"), { to_lane: "1", to_device: null });
  assert.deepEqual(placeOf("device:6"), { to_lane: null, to_device: 6 });
  assert.deepEqual(placeOf("out"), { to_lane: null, to_device: null });
});

test("what it comes to is said, or why it cannot be", () => {
  assert.deepEqual(deviceEffect({ refused: "no" }, VIEW), { text: "no", bad: true });
  assert.equal(deviceEffect({ values: { step_time: 1.5, memory: 0.5 } }, VIEW).text, "A step: 2.00\u00a0s → 1.50\u00a0s");
  const over = deviceEffect({ values: { step_time: 1.5, memory: 1.25 } }, VIEW);
  assert.ok(over.bad && over.text.includes("does not fit, the fullest device is at 125"));
});

test("a move is told", () => {
  assert.equal(movedWords(VIEW, 2, placeOf("lane:1")), "gpu 2–3 is now with Stage 1");
  assert.equal(movedWords(VIEW, 2, placeOf("device:4")), "gpu 2–3 and gpu 4–5 changed places");
  assert.equal(movedWords(VIEW, 2, placeOf("out")), "gpu 2–3 is out of use");
});
