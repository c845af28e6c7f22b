// Drawing of the timeline on a canvas: bars while they are wide enough, else how each pixel's time is used.

import { family, hatch, tokens } from "../common/canvas.js";
import { percent, seconds, secondsParts, signed } from "../common/format.js";
import { ticks } from "../common/scales.js";
import { FIRST_WIRE } from "./bars.js";
import { LABEL_PX } from "./layout.js";

const NAMES = [
  "F",
  "B",
  "W",
  "U",
  "ink",
  "ink-2",
  "ink-strong",
  "line",
  "hatch",
  "bg",
  "brand-ink",
  "k-nvlink",
  "k-pcie",
  "k-network",
  "on-fw",
  "m-grad",
  "m-buf-line",
];
/** Below this average width bars become a utilisation strip. */
export const LEAST_PX = 3;

/** Colours and font of the moment; read again when the theme changes. */
export function look(root) {
  const t = tokens(root, NAMES);
  return {
    ...t,
    font: family(root),
    kinds: [
      t.F,
      t.B,
      t.B,
      t.W,
      t["m-grad"],
      t["m-buf-line"],
      t["k-pcie"],
      t["k-nvlink"],
      t["k-network"],
      t["k-network"],
      t["m-grad"],
      t["m-grad"],
    ],
    inks: [t["on-fw"], "#14060a", "#14060a", t["on-fw"]],
  };
}

/**
 * @param {CanvasRenderingContext2D} g
 * @param {{width: number, window: any, plans: any[], look: any, microbatch: number|null, marked: Set<string>, places: any}} scene
 */
export function draw(g, scene) {
  const { width, window: win, look: c } = scene;
  const x = (t) => LABEL_PX + ((t - win.t0) / win.span) * (width - LABEL_PX - 4);
  drawAxis(g, scene, x);
  g.save();
  const pattern = hatch(g, c.hatch);
  scene.plans.forEach((plan, p) => drawPlan(g, scene, plan, scene.places.plans[p], x, pattern, p));
  g.restore();
}

function drawAxis(g, { width, window: win, look: c, places }, x) {
  g.font = `11px ${c.font}`;
  g.textBaseline = "alphabetic";
  for (const t of ticks(win.t1, Math.max(2, (width - LABEL_PX) / 110), win.t0)) {
    const at = x(t);
    g.fillStyle = c.line;
    g.fillRect(Math.round(at), 16, 1, places.height - 18);
    g.fillStyle = c["ink-2"];
    g.textAlign = at < LABEL_PX + 12 ? "left" : at > width - 20 ? "right" : "center";
    const { text, unit } = secondsParts(t, win.t1);
    g.fillText(`${win.span < win.t1 / 50 ? text : text.replace(/\.0+$/, "")} ${unit}`, at, 11);
  }
}

function drawPlan(g, scene, plan, place, x, pattern, p) {
  const { look: c, width } = scene;
  const end = Math.min(width - 4, x(plan.view.end_s));
  g.textAlign = "left";
  g.font = `600 12px ${c.font}`;
  g.fillStyle = c["ink-strong"];
  const title = `${plan.view.name ?? "AB"[p]}  ${seconds(plan.view.end_s)}`;
  g.fillText(title, 0, place.title);
  g.font = `12px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText(
    [plan.view.text, plan.view.omitted].filter(Boolean).join("; "),
    Math.max(LABEL_PX, g.measureText(title).width + 20),
    place.title,
  );
  place.rows.forEach((row, lane) => drawLabel(g, scene, plan.view.lanes[lane], row));
  g.save();
  g.beginPath();
  g.rect(LABEL_PX, place.rows[0]?.y ?? 0, width - LABEL_PX, 1e5);
  g.clip();
  place.rows.forEach((row, lane) => {
    const from = Math.max(LABEL_PX, x(0));
    g.fillStyle = pattern;
    g.fillRect(from, row.y, Math.max(0, end - from), row.bar);
    drawLane(g, scene, plan.bars, lane, row, x);
  });
  if (scene.microbatch != null) drawJourney(g, scene, plan.bars, place, x);
  const last = place.rows[place.rows.length - 1];
  const edge = x(plan.view.end_s);
  if (last && edge >= LABEL_PX && edge <= width) {
    g.fillStyle = c["ink-strong"];
    g.fillRect(Math.min(width - 2, edge), place.rows[0].y - 3, 1.5, last.y + last.bar + last.wire + 3 - place.rows[0].y);
    if (p) {
      g.font = `600 12px ${c.font}`;
      g.textAlign = edge > width - 80 ? "right" : "left";
      g.fillText(
        signed(seconds(plan.view.end_s - scene.plans[0].view.end_s)),
        edge > width - 80 ? edge - 8 : edge + 8,
        last.y + 12,
      );
    }
  }
  g.restore();
}

function drawLabel(g, { look: c, marked }, lane, row) {
  if (!lane || row.bar < 11) return;
  const on = marked.has(lane.id);
  g.font = `${on ? "600 " : ""}${row.bar >= 20 ? 12 : 11}px ${c.font}`;
  g.textAlign = "left";
  g.fillStyle = on ? c["brand-ink"] : c.ink;
  const middle = row.y + row.bar / 2 + 4;
  g.fillText(lane.name, 0, middle, LABEL_PX - 46);
  if (lane.busy_fraction == null) return;
  g.textAlign = "right";
  g.font = `${row.bar >= 20 ? 12 : 11}px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText(percent(lane.busy_fraction), LABEL_PX - 10, middle);
}

function drawLane(g, scene, bars, lane, row, x) {
  const { window: win, look: c, width } = scene;
  const { compute, wire } = bars.lanes[lane];
  const [from, to] = bars.visible(lane, false, win.t0, win.t1);
  const pixels = Math.floor(width - LABEL_PX - 4);
  const dense = to - from > 8 && pixels / (to - from) < LEAST_PX;
  if (dense) drawShares(g, bars.shares(lane, win.t0, win.t1, pixels), row, c, pixels);
  else for (let k = from; k < to; k += 1) drawBar(g, scene, bars, compute[k], row, x);
  const [first, last] = bars.visible(lane, true, win.t0, win.t1);
  let drawn = -1;
  for (let k = first; k < last; k += 1) {
    const i = wire[k];
    const [a, b] = [x(bars.start(i)), x(bars.end(i))];
    if (b < drawn + 0.5) continue; // under the last one
    g.fillStyle = c.kinds[bars.kind(i)] ?? c.ink;
    g.fillRect(a, row.y + row.bar + 1, Math.max(1, b - a), row.wire - 1);
    drawn = b;
  }
}

function drawBar(g, { look: c }, bars, i, row, x) {
  const [a, b] = [x(bars.start(i)), x(bars.end(i))];
  const kind = bars.kind(i);
  const w = Math.max(1, b - a - (b - a > 3 ? 0.8 : 0));
  g.fillStyle = c.kinds[kind] ?? c.ink;
  g.fillRect(a + (b - a > 3 ? 0.4 : 0), row.y, w, row.bar);
  if (b - a <= 15 || kind > 3 || row.bar < 14 || bars.microbatch(i) < 0) return;
  const number = String(bars.microbatch(i)) + (bars.count(i) > 1 ? `–${bars.microbatch(i) + bars.count(i) - 1}` : "");
  if (number.length * 7 > b - a) return;
  g.font = `11px ${c.font}`;
  g.textAlign = "center";
  g.fillStyle = c.inks[kind];
  g.fillText(number, (a + b) / 2, row.y + row.bar / 2 + 4);
}

/** Stacked shares of each pixel, from the lane's foot upward; one small picture, as single rectangles are slow. */
function drawShares(g, shares, row, c, pixels) {
  const image = new ImageData(pixels, row.bar);
  const data = new Uint32Array(image.data.buffer);
  const filled = new Float32Array(pixels);
  for (const kind of [...shares.keys()].sort((a, b) => a - b)) {
    const share = shares.get(kind);
    const colour = packed(c.kinds[kind]);
    for (let p = 0; p < pixels; p += 1) {
      if (!share[p]) continue;
      const from = Math.round(filled[p]);
      filled[p] = Math.min(row.bar, filled[p] + share[p] * row.bar);
      for (let y = from; y < Math.round(filled[p]); y += 1) data[(row.bar - 1 - y) * pixels + p] = colour;
    }
  }
  const tile = new OffscreenCanvas(pixels, row.bar);
  tile.getContext("2d").putImageData(image, 0, 0);
  g.imageSmoothingEnabled = false;
  g.drawImage(tile, LABEL_PX, row.y, pixels, row.bar);
}

/** "#4477aa" as the bytes of a little-endian pixel. */
function packed(hex) {
  const n = Number.parseInt((hex ?? "#888888").slice(1), 16);
  return ((255 << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}

/** Outline the followed microbatch everywhere and join its bars from stage to stage. */
function drawJourney(g, { look: c, microbatch }, bars, place, x) {
  const path = bars.journey(microbatch).filter((i) => bars.kind(i) < FIRST_WIRE);
  g.strokeStyle = c["ink-strong"];
  g.lineWidth = 2;
  for (const i of path) {
    const row = place.rows[bars.lane(i)];
    g.strokeRect(x(bars.start(i)) + 0.5, row.y + 1, Math.max(2, x(bars.end(i)) - x(bars.start(i)) - 1), row.bar - 2);
  }
  g.lineWidth = 1.5;
  g.beginPath();
  const through = path.filter((i) => bars.kind(i) <= 2);
  for (let k = 1; k < through.length; k += 1) {
    const [p, q] = [through[k - 1], through[k]];
    if (bars.lane(p) === bars.lane(q)) continue;
    const [a, b] = [place.rows[bars.lane(p)], place.rows[bars.lane(q)]];
    const down = bars.lane(q) > bars.lane(p);
    g.moveTo(x(bars.end(p)), a.y + (down ? a.bar - 2 : 2));
    g.lineTo(x(bars.start(q)), b.y + (down ? 2 : b.bar - 2));
  }
  g.stroke();
}
