// Every plain key of the timeline stands on its sheet.

import assert from "node:assert/strict";
import test from "node:test";
import { SHEETS } from "../src/common/keys.js";
import { keyTable } from "../src/timeline/keys.js";

test("the sheet of the timeline has every letter that does something", () => {
  const letters = Object.keys(keyTable({})).filter((key) => /^[a-z0-9]$/.test(key));
  const named = SHEETS.timeline.flatMap(([keys]) => keys.split(" "));
  assert.deepEqual(letters.filter((key) => !named.includes(key.toUpperCase())), []);
});

test("no sheet says one key twice", () => {
  for (const rows of Object.values(SHEETS)) {
    const keys = rows.flatMap(([words]) => words.split(" "));
    assert.equal(new Set(keys).size, keys.length);
  }
});
