// A chart that does not start is asked for again, a few times, and only where it could be seen.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, watchChart } from "../src/leaderboard/chart.js";

function setting({ charts = 1, status = "idle", rects = 1 } = {}) {
  const listeners = {};
  const state = { charts };
  const place = { chart: null, getClientRects: () => Array(rects), querySelector: () => place.chart };
  const model = {
    get: (name) => state[name],
    on: (name, listener) => (listeners[name] = listener),
    off: (name) => delete listeners[name],
    widget_manager: { kernel: { status } },
  };
  let asked = 0;
  const again = () => {
    asked += 1;
    state.charts += 1;
    listeners["change:charts"]?.();
  };
  const stop = watchChart(model, () => place, again);
  return { place, listeners, stop, asked: () => asked };
}

function pass(t, ms) {
  for (let i = 0; i < ms / 500; i += 1) t.mock.timers.tick(500);
}

test("a chart that is drawn is left alone", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { place, asked } = setting();
  pass(t, 3000);
  place.chart = {};
  assert.ok(drawn(place) && !drawn(null));
  pass(t, 60000);
  assert.equal(asked(), 0);
});

test("one that never comes is asked for three times", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { asked } = setting();
  pass(t, 7500);
  assert.equal(asked(), 0);
  pass(t, 1000);
  assert.equal(asked(), 1);
  pass(t, 120000);
  assert.equal(asked(), 3);
});

test("a busy kernel and a tab out of sight are waited for", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const busy = setting({ status: "busy" });
  const hidden = setting({ rects: 0 });
  pass(t, 120000);
  assert.deepEqual([busy.asked(), hidden.asked()], [0, 0]);
});

test("nothing is asked for before there was one, or after the end", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const none = setting({ charts: 0 });
  const over = setting();
  over.stop();
  pass(t, 120000);
  assert.deepEqual([none.asked(), over.asked(), Object.keys(over.listeners)], [0, 0, []]);
});
