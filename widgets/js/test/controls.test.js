import assert from "node:assert/strict";
import test from "node:test";
import { grouped, numberComplaint } from "../src/controls/fields.js";

const field = (key, group = null) => ({ key, kind: "number", group });

test("consecutive fields of one group stand together, all others alone, in their order", () => {
  const fields = [field("batch"), field("stages", "shape"), field("replicas", "shape"), field("zero"), field("late", "shape")];
  const groups = grouped(fields);
  assert.deepEqual(
    groups.map((g) => [g.name, g.fields.map((f) => f.key)]),
    [
      [null, ["batch"]],
      ["shape", ["stages", "replicas"]],
      [null, ["zero"]],
      ["shape", ["late"]],
    ],
  );
  assert.deepEqual(groups.flatMap((g) => g.fields), fields);
  assert.equal(new Set(groups.map((g) => g.key)).size, groups.length);
});

test("no fields, no groups", () => assert.deepEqual(grouped([]), []));

test("a wrong number is told by the first rule it breaks", () => {
  const rules = { minimum: 1, maximum: 9, step: 1 };
  const told = ["", "many", "0", "10", "1.5", "4"].map((text) => numberComplaint(text, rules));
  assert.deepEqual(told, ["not a number", "not a number", "at least 1", "at most 9", "a whole number", null]);
  assert.equal(numberComplaint("1.5", {}), null);
});
