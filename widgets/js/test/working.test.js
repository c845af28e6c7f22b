// What the bar's fields make the kernel do is said once it takes a moment.

import assert from "node:assert/strict";
import test from "node:test";
import { enough, fieldWords, onEnough, onWorking, phaseWords, SAID_AFTER_MS, sinceWords, Telling } from "../src/common/working.js";

function page(t) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const target = new EventTarget();
  globalThis.document = target;
  globalThis.CustomEvent ??= class extends Event {
    constructor(name, { detail }) {
      super(name);
      this.detail = detail;
    }
  };
  const heard = [];
  const stop = onWorking(
    () => "b1",
    (work) => heard.push(work && work.text),
  );
  const state = { pending: false };
  const inside = {};
  const root = { closest: () => ({ contains: (element) => element === inside }) };
  return { heard, stop, state, inside, telling: (bench) => new Telling(() => bench, () => state.pending, root) };
}

/** Press a key somewhere; whether anybody had a use for it. */
function press(key, target) {
  const event = new Event("keydown", { cancelable: true });
  Object.defineProperties(event, { key: { value: key }, target: { value: target } });
  document.dispatchEvent(event);
  return event.defaultPrevented;
}

test("Escape ends what is said to be under way, within this workbench or with the focus nowhere", (t) => {
  const { state, inside, telling } = page(t);
  document.body = {};
  let ended = 0;
  const unheard = onEnough(
    () => "b1",
    () => ended++,
  );
  const own = telling("b1");
  state.pending = true;
  own.begin("Opening plan.yaml");
  assert.ok(!press("Escape", inside), "nothing is said yet");
  t.mock.timers.tick(SAID_AFTER_MS);
  assert.ok(!press("Escape", {}), "another part of the page");
  assert.ok(!press("Enter", inside));
  assert.equal(ended, 0);
  assert.ok(press("Escape", inside));
  assert.ok(press("Escape", document.body));
  assert.equal(ended, 2);
  state.pending = false;
  own.answered();
  assert.ok(!press("Escape", inside), "it is over");
  state.pending = true;
  own.begin("Opening plan.yaml");
  t.mock.timers.tick(SAID_AFTER_MS);
  own.stop();
  assert.ok(!press("Escape", inside), "the widget is gone");
  unheard();
});

test("what takes a moment is said, and that it is done", (t) => {
  const { heard, state, telling, stop } = page(t);
  const own = telling("b1");
  state.pending = true;
  own.begin("Loading llama3-405b");
  t.mock.timers.tick(SAID_AFTER_MS);
  assert.deepEqual(heard, ["Loading llama3-405b"]);
  own.answered();
  assert.equal(heard.length, 1, "an answer to an earlier wish is not the end");
  state.pending = false;
  own.answered();
  own.answered();
  assert.deepEqual(heard, ["Loading llama3-405b", null]);
  stop();
});

test("a quick answer is no word worth, and another workbench's work is not ours", (t) => {
  const { heard, state, telling } = page(t);
  const own = telling("b1");
  state.pending = true;
  own.begin("Working out batch 64");
  state.pending = false;
  own.answered();
  t.mock.timers.tick(1000);
  state.pending = true;
  telling("b2").begin("Working out batch 64");
  t.mock.timers.tick(1000);
  assert.deepEqual(heard, []);
});

test("how far it is follows what Python does, for this field alone", (t) => {
  const { state, telling } = page(t);
  const seen = [];
  const stop = onWorking(
    () => "b1",
    (work) => seen.push(work && [work.phase, work.share]),
  );
  const own = telling("b1");
  own.doing({ key: "model", text: "reading the model", at: 1, of: 3 });
  state.pending = true;
  own.begin("Loading llama3-8b", "model");
  own.doing({ key: "model", text: "reading the model", at: 1, of: 3 });
  t.mock.timers.tick(SAID_AFTER_MS);
  own.doing({ key: "cluster", text: "simulating a step", at: 2, of: 2 });
  own.doing({ key: "model", text: "simulating a step", at: 3, of: 3 });
  own.doing(null);
  state.pending = false;
  own.answered();
  assert.deepEqual(seen, [["reading the model, step 1 of 3", 0], ["simulating a step, step 3 of 3", 2 / 3], null]);
  stop();
});

test("any part of the same workbench can have enough of it", (t) => {
  page(t);
  let asked = 0;
  const stop = onEnough(
    () => "b1",
    () => (asked += 1),
  );
  enough("b2");
  enough("b1");
  stop();
  enough("b1");
  assert.equal(asked, 1);
});

test("words", () => {
  assert.equal(phaseWords(null), "");
  assert.equal(phaseWords({ text: "simulating a step", at: 1, of: 1 }), "simulating a step");
  assert.equal(fieldWords({ key: "model" }, "llama3-8b"), "Loading llama3-8b");
  assert.equal(fieldWords({ key: "cluster" }, ""), "Placing the model on the usual devices");
  assert.equal(fieldWords({ key: "global_batch", label: "Batch" }, 128), "Working out batch 128");
  assert.equal(sinceWords(999), "");
  assert.equal(sinceWords(3200), "3\u00a0s");
});
