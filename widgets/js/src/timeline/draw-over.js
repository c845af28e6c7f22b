// What lies over the timeline and changes with every move of the mouse: the cursor, a marked area, the way of the
// microbatch that is pointed at. On a canvas of its own, so that no bar is drawn again.

import { seconds } from "../common/format.js";
import { axisLabels } from "./draw.js";
import { flowsOf } from "./flows.js";
import { AXIS_PX, RIGHT_PX } from "./layout.js";

/**
 * @param {CanvasRenderingContext2D} g
 * @param {{width: number, window: any, plans: any[], look: any, places: any, cursor: any, area: {from_s: number, to_s: number}|null,
 *   flow: {plan: number, microbatch: number}|null}} scene
 * @returns {number} how many arrows were drawn
 */
export function drawOver(g, scene) {
  const { width, window: win, places, area, cursor, flow } = scene;
  const { left } = places;
  const room = width - left - RIGHT_PX;
  const x = (t) => left + ((t - win.t0) / win.span) * room;
  g.save();
  g.beginPath();
  g.rect(left - 1, 0, room + RIGHT_PX + 1, places.height);
  g.clip();
  if (area) drawArea(g, scene, area, x);
  const plan = flow && scene.plans[flow.plan];
  const arrows = plan ? drawFlows(g, scene, plan.bars, places.plans[flow.plan], flow.microbatch, x) : 0;
  if (cursor && cursor.t >= win.t0 && cursor.t <= win.t1) drawCursor(g, scene, cursor.t, x);
  g.restore();
  return arrows;
}

function drawArea(g, { look: c, places }, { from_s, to_s }, x) {
  const [a, b] = [x(from_s), x(to_s)];
  g.fillStyle = c.brand;
  g.globalAlpha = 0.14;
  g.fillRect(a, AXIS_PX, b - a, places.height - AXIS_PX);
  g.globalAlpha = 1;
  for (const at of [a, b]) g.fillRect(at - 0.5, AXIS_PX - 4, 1, places.height - AXIS_PX + 4);
}

/** A line from top to bottom, and the time on the axis, in the place of the labels that it would touch. */
function drawCursor(g, scene, t, x) {
  const { look: c, places, width, window: win } = scene;
  const at = Math.round(x(t));
  g.fillStyle = c.bg;
  g.globalAlpha = 0.6;
  g.fillRect(at - 1, 15, 3, places.height - 15);
  g.globalAlpha = 1;
  g.fillStyle = c.brand;
  g.fillRect(at, 15, 1, places.height - 15);
  const text = seconds(t, win.span < win.t1 / 50 ? t / 1000 : t);
  g.font = `600 11px ${c.font}`;
  const w = g.measureText(text).width + 8;
  const from = Math.max(places.left, Math.min(width - w, at - w / 2));
  g.fillStyle = c.bg;
  g.fillRect(from, 0, w, 15);
  for (const label of axisLabels(scene, x)) {
    const wide = g.measureText(label.text).width + 2;
    const left = label.at - { left: 1, center: wide / 2, right: wide }[label.align];
    if (left < from + w && left + wide > from) g.fillRect(left, 0, wide, 14);
  }
  g.fillStyle = c["brand-ink"];
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
  g.fillText(text, from + 4, 11);
}

/** Arrows in light ink from lane to lane, and a thin outline around what the microbatch is computed by. */
function drawFlows(g, { look: c, window: win }, bars, place, microbatch, x) {
  const boxes = new Path2D();
  for (const i of bars.journey(microbatch)) {
    if (bars.isWire(i) || bars.end(i) < win.t0 || bars.start(i) > win.t1) continue;
    const row = place.rows[bars.lane(i)];
    boxes.rect(x(bars.start(i)) + 0.5, row.y + 0.5, Math.max(1, x(bars.end(i)) - x(bars.start(i)) - 1), row.bar - 1);
  }
  const flows = flowsOf(bars, microbatch).filter(({ from, to }) => bars.end(from) <= win.t1 && bars.start(to) >= win.t0);
  const arrows = new Path2D();
  const heads = new Path2D();
  for (const { from, to } of flows) {
    const [a, b] = [place.rows[bars.lane(from)], place.rows[bars.lane(to)]];
    const down = bars.lane(to) > bars.lane(from);
    const tail = [x(bars.end(from)), down ? a.y + a.bar : a.y];
    const tip = [x(bars.start(to)), down ? b.y : b.y + b.bar];
    arrows.moveTo(...tail);
    arrows.lineTo(...tip);
    head(heads, tail, tip, a.bar < 12 ? 4 : 6);
  }
  for (const [colour, more, alpha] of [
    [c.bg, 2, 0.7],
    [c["ink-2"], 0, 1],
  ]) {
    g.strokeStyle = g.fillStyle = colour;
    g.globalAlpha = alpha;
    g.lineWidth = 1 + more;
    g.stroke(boxes);
    g.stroke(arrows);
    if (!more) g.fill(heads);
  }
  g.globalAlpha = 1;
  return flows.length;
}

/** The head of an arrow, on its tip. */
function head(path, [x0, y0], [x1, y1], size) {
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const [dx, dy] = [((x1 - x0) / length) * size, ((y1 - y0) / length) * size];
  path.moveTo(x1, y1);
  path.lineTo(x1 - dx - dy * 0.45, y1 - dy + dx * 0.45);
  path.lineTo(x1 - dx + dy * 0.45, y1 - dy - dx * 0.45);
  path.closePath();
}
