// A model whose messages from Python are dropped is opened again.

import assert from "node:assert/strict";
import test from "node:test";
import { greet } from "../src/common/greet.js";

class Plain {
  _handle_comm_msg(message) {
    this.got.push(message);
  }
}
class Stuck extends Plain {
  _handle_comm_msg() {}
}

function setting(status = "idle") {
  const full = new Stuck();
  full.got = [];
  full.comm = {
    on_msg(listener) {
      this.deliver = listener;
    },
  };
  full.comm.on_msg(full._handle_comm_msg.bind(full));
  const state = { own_id: "m1", heard: 0 };
  const sent = [];
  const kernel = { status };
  const model = {
    get: (name) => state[name],
    send: (content) => sent.push(content.hello),
    widget_manager: { kernel, get_model: async (id) => id === "m1" && full },
  };
  return { model, state, sent, full, kernel };
}

/** Time passes, timer by timer. */
function pass(t) {
  for (let i = 0; i < 100; i += 1) t.mock.timers.tick(500);
}

test("an answer in time is all", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { model, state, sent } = setting();
  greet(model);
  state.heard = 1;
  pass(t);
  assert.deepEqual(sent, ["here"]);
});

test("a kernel that is busy is waited for", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { model, sent } = setting("busy");
  greet(model);
  pass(t);
  assert.deepEqual(sent, ["here"]);
});

test("a free kernel without an answer: the way in is opened again, and everything asked for", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { model, sent, full } = setting();
  greet(model);
  full.comm.deliver("lost");
  pass(t);
  await new Promise((done) => setImmediate(done));
  assert.deepEqual(sent, ["here", "again"]);
  full.comm.deliver("state");
  assert.deepEqual(full.got, ["state"]);
});

test("nothing is asked where no kernel is known, and no more once closed", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { model, sent } = setting();
  greet(model)();
  pass(t);
  greet({ ...model, widget_manager: undefined });
  assert.deepEqual(sent, ["here"]);
});
