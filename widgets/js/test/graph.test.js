import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { contrast, luminance } from "../src/common/scales.js";
import { near, Positions, search, select, step, without } from "../src/graph/choose.js";
import { diverging } from "../src/common/errors.js";
import { errorText, scaleOf, valueText } from "../src/graph/colour.js";
import { textsOf } from "../src/graph/draw.js";
import { across, crossings, IN, layered, neighbours, OUT, rankOf, spread } from "../src/graph/layered.js";
import { INNER_STYLE, nest, ROOT_STYLE } from "../src/graph/nest.js";
import { breaks, place } from "../src/graph/place.js";
import { details, movedTexts, nodeName, numbersText, whereText } from "../src/graph/words.js";

// ---- made-up graphs: the same ones every time

function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

/** A DAG in which each node reads some before it; `far` how far back. */
function dag(seed, count, far = 6) {
  const next = random(seed);
  const ids = Array.from({ length: count }, (_, i) => `n${i}`);
  const edges = [];
  for (let i = 1; i < count; i += 1) {
    const reads = new Set([i - 1 - Math.floor(next() * Math.min(i, far))]);
    if (next() < 0.4) reads.add(i - 1 - Math.floor(next() * Math.min(i, far)));
    for (const j of reads) edges.push([ids[j], ids[i]]);
  }
  return { ids, edges };
}

const item = (id, style = INNER_STYLE) => ({ id, w: style.least, h: style.high, inY: style.high / 2, outY: style.high / 2, fixed: false });
const overlap = (a, b) => a.x < b.x + b.w - 0.01 && b.x < a.x + a.w - 0.01 && a.y < b.y + b.h - 0.01 && b.y < a.y + a.h - 0.01;
const pairs = (all) => all.flatMap((a, i) => all.slice(i + 1).map((b) => [a, b]));

// ---- ranks

test("rank is the longest path: by hand", () => {
  const rank = rankOf(["a", "b", "c", "d"], [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"], ["a", "d"]]);
  assert.deepEqual([...rank.values()], [0, 1, 1, 2]);
});

test("what nothing feeds stands just before what it feeds", () => {
  const rank = rankOf(["a", "b", "c", "mask"], [["a", "b"], ["b", "c"], ["mask", "c"]]);
  assert.equal(rank.get("mask"), 1);
});

test("ports stand before and behind all others", () => {
  const rank = rankOf([IN, "a", "b", "c", OUT], [[IN, "b"], ["a", "b"], ["b", OUT], ["b", "c"]]);
  assert.equal(rank.get(IN), 0);
  for (const id of ["a", "b", "c"]) assert.ok(rank.get(id) > 0 && rank.get(id) < rank.get(OUT));
});

test("every edge goes forward and a longest path is as long as the ranks, whatever the graph", () => {
  for (let seed = 1; seed <= 60; seed += 1) {
    const { ids, edges } = dag(seed, 5 + (seed % 40));
    for (const late of [false, true]) {
      const rank = rankOf(ids, edges, late);
      for (const [a, b] of edges) assert.ok(rank.get(a) < rank.get(b));
      const longest = new Map();
      for (const id of ids) longest.set(id, Math.max(0, ...edges.filter(([, b]) => b === id).map(([a]) => longest.get(a) + 1)));
      assert.equal(Math.max(...rank.values()), Math.max(...longest.values()));
    }
  }
});

test("a cycle does not hang", () => assert.equal(layered(["a", "b"], [["a", "b"], ["b", "a"]]).rank.size, 2));

test("a long edge passes every rank between as a point, and one source has one chain", () => {
  const { lines, ranks } = layered(["a", "b", "c", "d"], [["a", "b"], ["b", "c"], ["c", "d"], ["a", "c"], ["a", "d"]]);
  assert.deepEqual(lines.map((line) => line.via.length), [0, 0, 0, 1, 2]);
  assert.equal(ranks.flat().filter((p) => !p.real).length, 2, "a to c and a to d share the first point");
});

test("sweeps never add crossings, and undo one that need not be", () => {
  const crossed = [["a", "d"], ["b", "c"], ["s", "a"], ["s", "b"]];
  const { ranks, lines } = layered(["s", "a", "b", "c", "d"], crossed);
  assert.equal(crossings(ranks, neighbours(lines).after), 0);
});

test("spread: the nearest places that are apart", () => {
  assert.deepEqual(spread([0, 100], [10], [1, 1]), [0, 100]);
  assert.deepEqual(spread([0, 0, 0], [10, 10], [1, 1, 1]), [-10, 0, 10]);
  const next = random(7);
  for (let k = 0; k < 50; k += 1) {
    const wishes = Array.from({ length: 9 }, () => next() * 50);
    const apart = Array.from({ length: 8 }, () => next() * 12);
    const places = spread(wishes, apart, wishes.map(() => 1));
    apart.forEach((least, i) => assert.ok(places[i + 1] - places[i] >= least - 1e-9));
    const mean = (all) => all.reduce((a, b) => a + b, 0) / all.length;
    assert.ok(Math.abs(mean(places) - mean(wishes)) < 1e-9, "least squares keep the mean");
  }
});

test("a chain is a straight line, also beside a skip", () => {
  const { ranks, lines } = layered(["a", "b", "c", "d"], [["a", "b"], ["b", "c"], ["c", "d"], ["a", "d"]]);
  const at = across({ ranks, lines }, (p) => (p.real ? [10, 10, 0] : [2, 2, 0]), () => 5);
  for (const id of ["b", "c", "d"]) assert.ok(Math.abs(at.get(id) - at.get("a")) < 0.1, id);
});

// ---- boxes

for (const width of [260, 440, 640, 1000])
  test(`no two boxes overlap, none leaves ${width} px, ranks go on from left to right and down`, () => {
    for (let seed = 1; seed <= 40; seed += 1) {
      const { ids, edges } = dag(seed, 3 + ((seed * 7) % 38), seed % 3 ? 3 : 9);
      const placed = place(ids.map((id) => item(id)), edges, width, INNER_STYLE);
      const boxes = [...placed.boxes.values()];
      for (const [a, b] of pairs(boxes)) assert.ok(!overlap(a, b), `seed ${seed}`);
      for (const box of boxes) assert.ok(box.x >= -0.01 && box.x + box.w <= placed.w + 0.01 && box.y >= -0.01 && box.y + box.h <= placed.h + 0.01);
      assert.ok(placed.w <= width + 1, `seed ${seed}: ${placed.w}`);
      for (const [a, b] of edges) {
        const [p, q] = [placed.boxes.get(a), placed.boxes.get(b)];
        assert.ok(placed.down ? q.y > p.y : q.band > p.band || (q.band === p.band && q.x > p.x));
      }
      assert.deepEqual(place(ids.map((id) => item(id)), edges, width, INNER_STYLE), placed, "the same every time");
    }
  });

/** Corners of a path, relative commands do not occur. */
const ends = (d) => {
  const numbers = d.match(/[MLHVCQ][^MLHVCQ]*/g).map((part) => [part[0], part.slice(1).trim().split(/[ ,]+/).map(Number)]);
  let [x, y] = [0, 0];
  return numbers.map(([letter, v]) => {
    if (letter === "H") [x] = v;
    else if (letter === "V") [y] = v;
    else [x, y] = v.slice(-2);
    return [x, y];
  });
};

test("a line runs from its box to its box, and straight parts cross no other box", () => {
  for (let seed = 1; seed <= 30; seed += 1) {
    const { ids, edges } = dag(seed, 24, seed % 2 ? 2 : 5);
    const placed = place(ids.map((id) => item(id)), edges, 440, INNER_STYLE);
    if (placed.down) continue;
    assert.equal(placed.paths.length, edges.length);
    for (const { from, to, d } of placed.paths) {
      const [a, b] = [placed.boxes.get(from), placed.boxes.get(to)];
      const points = ends(d);
      assert.ok(Math.abs(points[0][0] - a.x - a.w) < 0.2 && Math.abs(points[0][1] - a.y - a.h / 2) < 0.2, `seed ${seed}: ${from} to ${to}`);
      assert.ok(Math.abs(points.at(-1)[0] - b.x) < 1.2 && Math.abs(points.at(-1)[1] - b.y - b.h / 2) < 0.6, `seed ${seed}: ${from} to ${to} ${d} ${JSON.stringify(b)}`);
      for (let i = 1; i < points.length; i += 1) {
        const [[x1, y1], [x2, y2]] = [points[i - 1], points[i]];
        if (Math.abs(y1 - y2) > 0.2) continue;
        const line = { x: Math.min(x1, x2) + 0.5, y: y1 - 0.1, w: Math.abs(x1 - x2) - 1, h: 0.2 };
        for (const [id, box] of placed.boxes) if (id !== from && id !== to) assert.ok(!overlap(line, box), `seed ${seed}: ${from} to ${to} over ${id}`);
      }
    }
  }
});

test("rows break where few lines cross, and fill from the first", () => {
  const chain = Array.from({ length: 7 }, () => ["x"]);
  assert.deepEqual(breaks(Array(7).fill(100), chain, 420, 5), [[0, 4], [4, 7]]);
  const waist = [["x"], ["x"], ["x"], ["a", "b", "c"], ["x"], ["x"], ["x"]];
  assert.deepEqual(breaks(Array(7).fill(100), waist, 420, 5), [[0, 3], [3, 7]]);
});

test("branches that a row's end would tear run downwards instead", () => {
  const branches = [0, 1, 2, 3].map((b) => Array.from({ length: 7 }, (_, i) => `b${b}.${i}`));
  const ids = ["fork", ...branches.flat(), "join"];
  const edges = branches.flatMap((own) => [["fork", own[0]], ...own.slice(1).map((id, i) => [own[i], id]), [own[6], "join"]]);
  const placed = place(ids.map((id) => item(id)), edges, 440, INNER_STYLE);
  assert.ok(placed.down);
  assert.ok(placed.w <= 440);
  const columns = branches.map((own) => new Set(own.map((id) => Math.round(placed.boxes.get(id).x))));
  for (const column of columns) assert.equal(column.size, 1, "a branch is a column");
  assert.equal(place(ids.map((id) => item(id)), edges, 1200, INNER_STYLE).down, false);
});

// ---- frames

const node = (id, parent = null, open = false, more = {}) => ({ id, label: id, name: id, parent, open, opens: open ? [id] : [], count: 1, ranges: [[0, 1]], stages: [0], lanes: [["0", 1]], forward_s: 1, backward_s: 2, memory_bytes: 3, saved_bytes: 1, traffic_bytes: 4, parameters: 5, flops: 6, error: null, text: null, kind: "linear", repeat: null, unfolded: false, ...more });

/** Three levels: in a chain a, M[p, N[x, y], q], b. */
const NODES = [node("a"), node("M", null, true), node("p", "M"), node("N", "M", true), node("x", "N"), node("y", "N"), node("q", "M"), node("b")];
const EDGES = [["a", "M", 1], ["M", "p", 1], ["M", "q", 1], ["p", "N", 1], ["N", "x", 1], ["x", "y", 1], ["y", "N", 1], ["N", "q", 1], ["q", "M", 1], ["M", "b", 1]];

for (const width of [300, 480, 900])
  test(`what is in a part stands in its frame at ${width} px, and nothing else does`, () => {
    const { boxes, w } = nest(NODES, EDGES, width);
    assert.equal(boxes.size, NODES.length);
    assert.ok(w <= width + 1);
    const within = (a, b) => a.x >= b.x && a.y >= b.y + 20 && a.x + a.w <= b.x + b.w && a.y + a.h <= b.y + b.h;
    const under = (id, frame) => id != null && (id === frame || under(NODES.find((n) => n.id === id).parent, frame));
    for (const frame of ["M", "N"])
      for (const { id, parent } of NODES) {
        if (id === frame || under(frame, id)) continue;
        if (under(parent, frame)) assert.ok(within(boxes.get(id), boxes.get(frame)), `${id} in ${frame}`);
        else assert.ok(!overlap(boxes.get(id), boxes.get(frame)), `${id} beside ${frame}`);
      }
  });

test("lines inside a frame start and end at its border", () => {
  const { boxes, paths } = nest(NODES, EDGES, 480);
  const frame = boxes.get("N");
  const stubs = paths.filter((path) => path.key.startsWith("N|") && path.stub && path.from === path.to);
  const xs = stubs.map((path) => Number(path.d.match(/M([-\d.]+)/)[1]) + path.x);
  assert.deepEqual(xs.map(Math.round), [frame.x, frame.x + frame.w].map(Math.round));
});

test("400 nodes are laid out in a moment and apart", () => {
  const { ids, edges } = dag(3, 400, 3);
  const nodes = ids.map((id) => node(id));
  const { boxes } = nest(nodes, edges.map(([a, b]) => [a, b, 1]), 640);
  assert.equal(boxes.size, 400);
  for (const [a, b] of pairs([...boxes.values()])) assert.ok(!overlap(a, b));
});

// ---- colours and words

const hex = (text) => [0, 2, 4].map((i) => Number.parseInt(text.slice(i, i + 2), 16));
const rgbOf = (text) => text.match(/\d+/g).map(Number);
const inkOf = (text) => (text === "#000" ? [0, 0, 0] : [255, 255, 255]);

test("every colour of every scale can be written on: 4.5 to 1", () => {
  for (const mode of ["time", "memory", "traffic"]) {
    const nodes = Array.from({ length: 400 }, (_, i) => node(`n${i}`, null, false, { forward_s: 10 ** (-6 + i / 60), backward_s: 0, memory_bytes: 10 ** (i / 40), traffic_bytes: 10 ** (i / 40) }));
    const scale = scaleOf(nodes, mode);
    for (const n of nodes) {
      const { fill, ink } = scale.colour(n);
      assert.ok(contrast(rgbOf(fill), inkOf(ink)) >= 4.5, `${mode} ${fill}`);
    }
  }
  const nodes = Array.from({ length: 401 }, (_, i) => node(`n${i}`, null, false, { error: (i - 200) / 500 }));
  const scale = scaleOf(nodes, "error");
  for (const n of nodes) {
    const { fill, ink } = scale.colour(n);
    assert.ok(contrast(rgbOf(fill), inkOf(ink)) >= 4.5, `error ${fill}`);
  }
});

test("the shades of devices can be written on in both themes", () => {
  const css = readFileSync(new URL("../src/common/tokens.css", import.meta.url), "utf8");
  for (const theme of css.split('data-dark="true"')) {
    const value = (name) => hex(/^#([0-9a-f]{6})/i.exec(expand(new RegExp(`--${name}: (#[0-9a-f]{3,6})`, "i").exec(theme)[1]))[1]);
    for (const shade of ["chip", "chip-other"]) assert.ok(contrast(value(shade), value("chip-other-ink")) >= 4.5, shade);
  }
});

const expand = (text) => (text.length === 4 ? `#${[...text.slice(1)].map((c) => c + c).join("")}` : text);

test("the scale is one for all levels, logarithmic, and brighter for more", () => {
  const nodes = [1e-6, 1e-4, 1e-2, 1].map((s, i) => node(`n${i}`, null, false, { forward_s: s, backward_s: 0 }));
  const frame = node("frame", null, true, { forward_s: 100 });
  const scale = scaleOf([frame, ...nodes], "time");
  assert.deepEqual([scale.low, scale.top], [1e-4, 1], "at most four decades; frames do not count");
  const light = nodes.map((n) => luminance(rgbOf(scale.colour(n).fill)));
  assert.ok(light[0] === light[1] && light[1] < light[2] && light[2] < light[3]);
});

test("an error is blue below, orange above, with its sign, and unknown is no colour", () => {
  const [low, middle, high] = [-1, 0, 1].map(diverging);
  assert.ok(low[2] > low[0] && high[0] > high[2]);
  assert.ok(Math.max(...middle) - Math.min(...middle) < 12);
  assert.equal(errorText(0.123).replace("\u00a0", " "), "+12 %");
  assert.equal(errorText(-0.05).replace("\u00a0", " "), "−5.0 %");
  const scale = scaleOf([node("a", null, false, { error: 0.01 }), node("b")], "error");
  assert.equal(scale.top, 0.05, "noise does not shout");
  assert.equal(scale.colour(node("b")), null);
  assert.equal(valueText(node("b"), "error"), "–");
});

test("stages in words", () => {
  assert.equal(numbersText([2]), "2");
  assert.equal(numbersText([1, 0]), "0 and 1");
  assert.equal(numbersText([0, 1, 2, 3]), "0 – 3");
  assert.equal(numbersText([0, 2, 5]), "0, 2 and 5");
  assert.equal(whereText([]), "nowhere");
});

test("a plan compared with is said where it differs, and only there", () => {
  const moved = node("a", null, false, { stages: [1], other_stages: [2], moved: 1 });
  assert.equal(movedTexts(moved)[0], "stage 1 → 2");
  assert.deepEqual(movedTexts(node("a", null, false, { other_stages: [0], moved: 0 })), []);
  const some = node("a", null, false, { stages: [0, 1], other_stages: [0, 1], moved: 3, ranges: [[0, 9]] });
  assert.equal(movedTexts(some)[0], "3 layers moved");
  assert.match(nodeName(moved, { otherName: "B" }), /in B stage 2/);
  assert.ok(details(moved, { reads: [], feeds: [], otherName: "B" }).some(([name, value]) => name === "B" && value === "stage 2"));
});

test("a frame says once for all in it where they run", () => {
  const frame = node("f", null, true, { stages: [1] });
  const box = { w: 120, level: 1 };
  assert.equal(textsOf(node("a", "f", false, { stages: [1] }), box, "time", frame).where, "");
  assert.equal(textsOf(node("a", "f", false, { stages: [2] }), box, "time", frame).where, "stage 2");
  assert.equal(textsOf(node("a", "f", false, { stages: [1] }), box, "device", frame).where, "stage 1");
});

// ---- choosing

const INDEX = { layers: ["embed", "b.0.x", "b.0.y", "b.1.x", "b.1.y", "head"], blocks: [["embed", 0, 1], ["b.0", 1, 2], ["b.1", 3, 2], ["head", 5, 1]] };

test("what is selected in a node, and where in it", () => {
  const positions = new Positions(INDEX);
  const held = (ids, ranges) => positions.held(positions.ranges(ids), ranges);
  assert.deepEqual(held(["b.1"], [[1, 4]]), { held: 2, total: 4, ids: ["b.1"], share: 0.75 });
  assert.equal(held(["b.0.x", "nowhere"], [[1, 4]]).held, 1);
  assert.equal(held(["head"], [[1, 4]]).held, 0);
});

test("a node's layers as ids that the board knows: whole blocks, else layers", () => {
  const positions = new Positions(INDEX);
  assert.deepEqual(positions.idsOf([[0, 6]]), ["embed", "b.0", "b.1", "head"]);
  assert.deepEqual(positions.idsOf([[2, 2]]), ["b.0.y", "b.1.x"]);
  for (const ranges of [[[0, 6]], [[1, 3]], [[4, 2]]]) {
    const chosen = positions.ranges(positions.idsOf(ranges));
    assert.equal(chosen.reduce((sum, { range }) => sum + range[1], 0), ranges.reduce((sum, [, n]) => sum + n, 0));
  }
});

test("selecting sets, adds and takes out", () => {
  assert.deepEqual(select(["a"], ["b"], false), ["b"]);
  assert.deepEqual(select(["a"], ["b"], true), ["a", "b"]);
  assert.deepEqual(select(["a", "b"], ["b"], true), ["a"]);
});

test("search: any part of a name, all words, whole segments first, and how many", () => {
  assert.deepEqual(search(INDEX.layers, "x").hits.map((hit) => hit.name), ["b.0.x", "b.1.x"]);
  assert.deepEqual(search(INDEX.layers, "1 Y"), { total: 1, hits: [{ name: "b.1.y", at: 4 }] });
  assert.deepEqual(search(INDEX.layers, "e").hits[0].name, "embed");
  assert.deepEqual(search(INDEX.layers, "  "), { total: 0, hits: [] });
  assert.equal(search(INDEX.layers, "zzz").total, 0);
  const many = Array.from({ length: 5000 }, (_, i) => `layers.${i}.mlp.up`);
  const found = search(many, "up", 8);
  assert.deepEqual([found.total, found.hits.length], [5000, 8]);
});

test("arrows: along edges over the borders of frames, up and down among siblings", () => {
  const go = (id, key) => step(NODES, EDGES, id, key);
  assert.equal(go("a", "ArrowRight"), "p", "into the frame");
  assert.equal(go("p", "ArrowRight"), "x", "into the frame inside");
  assert.equal(go("y", "ArrowRight"), "q", "out of it");
  assert.equal(go("q", "ArrowRight"), "b", "out of the outer one");
  assert.equal(go("b", "ArrowRight"), null);
  assert.equal(go("b", "ArrowLeft"), "q");
  assert.equal(go("x", "ArrowLeft"), "p");
  assert.equal(go("p", "ArrowLeft"), "a");
  assert.equal(go("p", "ArrowUp"), "M", "the frame itself");
  assert.equal(go("M", "ArrowDown"), "p");
  assert.equal(go("x", "ArrowDown"), "y");
  assert.equal(go("y", "ArrowDown"), null);
  assert.deepEqual([go("M", "Home"), go("M", "End")], ["a", "b"]);
});

test("right reaches every node of a chain, whatever is open", () => {
  const seen = [];
  for (let id = "a"; id != null; id = step(NODES, EDGES, id, "ArrowRight")) seen.push(id);
  assert.deepEqual(seen, ["a", "p", "x", "y", "q", "b"]);
});

test("what a node reads and feeds is told over borders", () => {
  assert.deepEqual(near(NODES, EDGES, "y", true), ["q"]);
  assert.deepEqual(near(NODES, EDGES, "x", false), ["p"]);
});

test("closing a part closes what is in it", () => {
  assert.deepEqual(without(NODES, ["M", "N", "other"], "M"), ["other"]);
  assert.deepEqual(without(NODES, ["M", "N"], "N"), ["M"]);
});

test("styles leave room for a finger", () => {
  for (const style of [ROOT_STYLE, INNER_STYLE]) assert.ok(style.high >= 24 && style.least * 0.86 >= 24);
});
