import assert from "node:assert/strict";
import test from "node:test";
import { byGroup, cells, deviceWords, footWords, stateWords } from "../src/schedules/words.js";

const GIB = 2 ** 30;
const plain = (text) => text.replace(/[\u00a0\u202f]/g, " ").replace("−", "-");
const figures = { step_s: 2, bubble: 0.25, activation_bytes: [4 * GIB, 2 * GIB], versions: 2, peak_bytes: 9 * GIB, over_bytes: 0 };
const row = (more) => ({ name: "x", group: "flush", paper: "P (2020)", needs: "1 copy", cuts: null, problem: null, state: "counted", figures, ...more });

test("rows stand under their groups, in the order of the groups", () => {
  const view = { groups: [{ name: "a" }, { name: "flush" }, { name: "none" }], rows: [row({}), row({ name: "y", group: "a" })] };
  assert.deepEqual(byGroup(view).map((group) => [group.name, group.rows.map((item) => item.name)]), [
    ["a", ["y"]],
    ["flush", ["x"]],
  ]);
  assert.deepEqual(byGroup({}), []);
});

test("figures are told against those of the schedule on the board", () => {
  const told = cells(row({}), { ...figures, step_s: 1.6 });
  assert.deepEqual([told.bubble, told.activations, told.versions, told.step, told.change].map(plain), ["25.0 %", "4.0 GiB", "2", "2.00 s", "+25.0 %"]);
  assert.equal(cells(row({}), figures).change, "the same");
  assert.equal(cells(row({ shown: true }), { ...figures, step_s: 1 }).change, "");
  assert.deepEqual(Object.values(cells(row({ figures: null }), figures)), ["", "", "", "", ""]);
  assert.equal(plain(deviceWords(row({}), ["stage 0"])), "stage 0: 4.0 GiB, 1: 2.0 GiB");
});

test("paper, needs and cut stand in one line; what is missing is left out", () => {
  assert.equal(footWords(row({})), "P (2020) · needs 1 copy");
  assert.equal(footWords(row({ paper: "", needs: "", cuts: "evenly" })), "cuts the model anew: evenly");
  assert.equal(stateWords(row({ problem: "2 copies" })), "2 copies");
  assert.equal(stateWords(row({ state: "waiting" })), "being simulated");
  assert.equal(stateWords(row({})), "");
});
