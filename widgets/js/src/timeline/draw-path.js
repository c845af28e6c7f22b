// What is drawn over the bars: the critical path, a followed microbatch, the bar with the focus.

import { FIRST_WIRE } from "./bars.js";
import { drawBar } from "./draw-bar.js";

/** Height and top of a bar, compute or wire. */
const spanOf = (bars, i, row) =>
  bars.kind(i) >= FIRST_WIRE
    ? { y: row.y + row.bar + (row.wire > 1 ? 1 : 0), h: Math.max(2, row.wire) }
    : { y: row.y, h: row.bar };

/**
 * The chain in full strength, outlined; bars that follow each other on one lane share an outline, and lines join the
 * stretches from lane to lane.
 */
export function drawCritical(g, scene, plan, place, x) {
  const { look: c, window: win } = scene;
  const { bars } = plan;
  const chain = plan.view.critical.bars;
  for (const i of chain) {
    if (bars.end(i) < win.t0 || bars.start(i) > win.t1) continue;
    const row = place.rows[bars.lane(i)];
    if (!bars.isWire(i)) drawBar(g, scene, bars, i, row, x);
    else {
      const { y, h } = spanOf(bars, i, row);
      g.fillStyle = c.kinds[bars.kind(i)];
      g.fillRect(x(bars.start(i)), y, Math.max(1.5, x(bars.end(i)) - x(bars.start(i))), h);
    }
  }
  const runs = runsOf(bars, chain, (1.5 * win.span) / (scene.width - scene.places.left));
  const joints = new Path2D();
  runs.slice(1).forEach((run, k) => {
    const before = runs[k];
    if (before.lane === run.lane || run.end < win.t0 || before.start > win.t1) return;
    const [a, b] = [place.rows[before.lane], place.rows[run.lane]];
    const down = run.lane > before.lane;
    joints.moveTo(x(before.end), down ? a.y + a.bar : a.y);
    joints.lineTo(x(run.start), down ? b.y : b.y + b.bar);
  });
  const boxes = new Path2D();
  for (const run of runs) {
    if (run.end < win.t0 || run.start > win.t1) continue;
    const row = place.rows[run.lane];
    boxes.rect(x(run.start), row.y - 0.5, Math.max(1, x(run.end) - x(run.start)), row.bar + 1);
  }
  for (const [colour, width] of [
    [c.bg, 4],
    [c["warn-line"], 2],
  ]) {
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.stroke(joints);
    g.stroke(boxes);
  }
}

/** Stretches of a chain's compute on one lane; what is less than `reach` apart is one. @returns {{lane: number, start: number, end: number}[]} */
export function runsOf(bars, chain, reach = 0) {
  const runs = [];
  for (const i of chain) {
    if (bars.isWire(i)) continue;
    const last = runs[runs.length - 1];
    const gap = last ? bars.start(i) - last.end : Infinity;
    if (last && last.lane === bars.lane(i) && gap <= Math.max(reach, 1e-6 * bars.end_s)) last.end = bars.end(i);
    else runs.push({ lane: bars.lane(i), start: bars.start(i), end: bars.end(i) });
  }
  return runs;
}

/** Outline the followed microbatch everywhere and join its bars from stage to stage. */
export function drawJourney(g, { look: c, microbatch }, bars, place, x) {
  const path = bars.journey(microbatch).filter((i) => !bars.isWire(i));
  const boxes = new Path2D();
  const joints = new Path2D();
  for (const i of path) {
    const row = place.rows[bars.lane(i)];
    boxes.rect(x(bars.start(i)) + 0.5, row.y + 0.5, Math.max(2, x(bars.end(i)) - x(bars.start(i)) - 1), row.bar - 1);
  }
  const through = path.filter((i) => bars.kind(i) <= 2);
  for (let k = 1; k < through.length; k += 1) {
    const [p, q] = [through[k - 1], through[k]];
    if (bars.lane(p) === bars.lane(q)) continue;
    const [a, b] = [place.rows[bars.lane(p)], place.rows[bars.lane(q)]];
    const down = bars.lane(q) > bars.lane(p);
    joints.moveTo(x(bars.end(p)), a.y + (down ? a.bar - 2 : 2));
    joints.lineTo(x(bars.start(q)), b.y + (down ? 2 : b.bar - 2));
  }
  const thin = (place.rows[0]?.bar ?? 0) < 12;
  for (const [colour, extra] of thin ? [[c["ink-strong"], -1]] : [[c.bg, 2], [c["ink-strong"], 0]]) {
    g.strokeStyle = colour;
    g.lineWidth = 2 + extra;
    g.stroke(boxes);
    g.lineWidth = Math.max(1, 1.5 + extra);
    g.stroke(joints);
  }
}

/** The bar that the keyboard is on. */
export function drawFocus(g, { look: c, focus }, bars, place, x) {
  const { y, h } = spanOf(bars, focus.i, place.rows[bars.lane(focus.i)]);
  const [a, b] = [x(bars.start(focus.i)), x(bars.end(focus.i))];
  for (const [colour, width] of [
    [c.bg, 5],
    [c.brand, 3],
  ]) {
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.strokeRect(a - 1, y - 1, Math.max(3, b - a) + 2, h + 2);
  }
}
