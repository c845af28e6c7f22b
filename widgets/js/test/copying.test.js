// Tables as text.

import assert from "node:assert/strict";
import test from "node:test";
import { csv, markdown } from "../src/common/copying.js";

test("a bar in a cell does not end it in Markdown", () => {
  assert.equal(markdown([["a", "b|c"], ["1", "x\\y"]]), "| a | b\\|c |\n|---|---|\n| 1 | x\\\\y |\n");
  assert.equal(markdown([]), "|  |\n|\n");
});

test("commas, quotes and lines are quoted in CSV", () => {
  assert.equal(csv([["a", "b"], ['say "so"', "1,5"], ["x\ny", ""]]), 'a,b\r\n"say ""so""","1,5"\r\n"x\ny",\r\n');
});
