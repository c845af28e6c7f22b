import assert from "node:assert/strict";
import { test } from "node:test";
import { Model, SHUT, graphAnswers, link, openKey } from "../src/report/model.js";
import { cells, mark, nextRow, spoken } from "../src/states/words.js";

const row = {
  number: 3,
  note: "moved 2 layers",
  maker: "board",
  step_time_s: 6.44,
  change: -0.034,
  peak_fraction: 0.95,
  over_bytes: 0,
  time: "14:02:31",
  shown: false,
  is_b: false,
};

test("a row in words", () => {
  const own = cells(row);
  assert.equal(own.maker, "by hand");
  assert.equal(own.change, "\u22123.4\u00a0%");
  assert.equal(own.fits, "fits");
  assert.equal(cells({ ...row, change: 0.00001 }).change, "");
  assert.equal(cells({ ...row, change: null }).change, "");
  assert.match(cells({ ...row, over_bytes: 2 ** 31 }).fits, /GiB over$/);
  assert.equal(spoken({ ...row, shown: true }), "moved 2 layers, 6.44\u00a0s, memory 95\u00a0%, fits, at 14:02:31, shown");
  assert.deepEqual(
    [
      [false, false],
      [true, false],
      [false, true],
      [true, true],
    ].map(([shown, is_b]) => mark({ shown, is_b })),
    ["", "shown", "plan B", "shown, B"],
  );
});

test("keys lead to rows that exist", () => {
  assert.equal(nextRow("ArrowDown", 0, 3), 1);
  assert.equal(nextRow("ArrowUp", 0, 3), 0);
  assert.equal(nextRow("PageDown", 0, 3), 2);
  assert.equal(nextRow("Home", 2, 3), 0);
  assert.equal(nextRow("End", 0, 3), 2);
  assert.equal(nextRow("x", 0, 3), null);
  assert.equal(nextRow("End", -1, 0), null);
});

test("the model of a report decodes bytes, tells listeners and links", () => {
  const model = new Model({ bars: { $bytes: btoa("\x00\x00\x80\x3f") }, selection: [] });
  assert.equal(model.get("bars").getFloat32(0, true), 1);
  const other = new Model({ selection: [] });
  link([model, other], "selection");
  let told = 0;
  const listener = () => told++;
  other.on("change:selection", listener);
  model.set("selection", ["a"]);
  assert.deepEqual(other.get("selection"), ["a"]);
  assert.equal(told, 1);
  other.off("change:selection", listener);
  model.set("selection", ["b"]);
  assert.equal(told, 1);
});

test("the graph opens what the report brings, and says so of the rest", () => {
  const answers = { [openKey(["b", "a"])]: { opened: ["a", "b"] } };
  const model = new Model({ opened: ["a"], view: { opened: ["a"] }, notice: null }, graphAnswers(answers));
  model.set("opened", ["a", "b"]);
  assert.deepEqual(model.get("view").opened, ["a", "b"]);
  model.set("opened", ["a", "b", "c"]);
  assert.deepEqual(model.get("opened"), ["a", "b"]);
  assert.equal(model.get("notice").text, SHUT);
  assert.deepEqual(model.get("view").opened, ["a", "b"]);
});
