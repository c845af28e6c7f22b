// Drawing of the timeline on a canvas: bars while they are wide enough, else how each pixel's time is used.

import { family, hatch, mixed, packed, tokens } from "../common/canvas.js";
import { percent, seconds, secondsParts } from "../common/format.js";
import { ticks } from "../common/scales.js";
import { drawBar } from "./draw-bar.js";
import { drawLinks } from "./draw-links.js";
import { drawCarried } from "./draw-carry.js";
import { drawCritical, drawFocus, drawJourney } from "./draw-path.js";
import { AXIS_PX, RIGHT_PX } from "./layout.js";
import { GROUPS, reachFor } from "./strips.js";
import { differenceWords } from "./words.js";

const NAMES = [
  "F", "B", "W", "U", "ink", "ink-2", "ink-strong", "line", "line-strong", "hatch", "bg", "wash", "brand", "brand-ink",
  "k-nvlink", "k-pcie", "k-network", "k-internet", "on-fw", "m-grad", "m-buf-line", "warn-line",
];
/** Below this average width bars become a utilisation strip. */
const LEAST_PX = 3;
/** How strongly what is not on the critical path is drawn. */
const FAINT = 0.3;

/** Colours and font of the moment; read again when the theme changes. */
export function look(root) {
  const t = tokens(root, NAMES);
  const network = t["k-network"];
  return {
    ...t,
    font: family(root),
    kinds: [
      t.F, t.B, t.B, t.W, t.U, mixed(t.F, t["on-fw"] === "#fff" ? "#ffffff" : "#212121", 0.4),
      t["k-pcie"], t["k-nvlink"], network, network, t["m-grad"], t["m-grad"],
    ],
    inks: [t["on-fw"], "#14060a", "#14060a", t["on-fw"]],
    links: { nvlink: t["k-nvlink"], nvswitch: t["k-nvlink"], fabric: t["k-nvlink"], pcie: t["k-pcie"], internet: t["k-internet"], other: network },
  };
}

/**
 * @param {CanvasRenderingContext2D} g
 * @param {{width: number, window: any, plans: any[], look: any, microbatch: number|null, marked: Set<string>, places: any,
 *   critical: boolean, links: any, focus: {plan: number, i: number}|null}} scene
 */
export function draw(g, scene) {
  const { width, window: win, look: c, places } = scene;
  const { left } = places;
  const x = (t) => left + ((t - win.t0) / win.span) * (width - left - RIGHT_PX);
  drawAxis(g, scene, x);
  const pattern = hatch(g, c.hatch);
  scene.again = hatch(g, c.kinds[5], 4, c.kinds[0]);
  scene.plans.forEach((plan, p) => drawPlan(g, scene, plan, places.plans[p], x, pattern, p));
  if (places.links.length) drawLinks(g, scene, x);
}

/** What stands at the ticks of the axis. @returns {{at: number, text: string, align: CanvasTextAlign}[]} */
export function axisLabels({ width, window: win, places }, x) {
  return ticks(win.t1, Math.max(2, (width - places.left) / 110), win.t0).map((t) => {
    const at = x(t);
    const { text, unit } = secondsParts(t, win.t1);
    const align = at < places.left + 12 ? "left" : at > width - 20 ? "right" : "center";
    return { at, text: `${win.span < win.t1 / 50 ? text : text.replace(/\.0+$/, "")} ${unit}`, align };
  });
}

function drawAxis(g, scene, x) {
  const { width, window: win, look: c, places } = scene;
  g.font = `11px ${c.font}`;
  g.textBaseline = "alphabetic";
  for (const { at, text, align } of axisLabels(scene, x)) {
    g.fillStyle = c.line;
    g.fillRect(Math.round(at), 16, 1, places.height - 18);
    g.fillStyle = c["ink-2"];
    g.textAlign = align;
    g.fillText(text, at, 11);
  }
  if (win.span > win.end * 0.999) return;
  // which stretch of the whole is seen
  const [from, whole] = [places.left, width - places.left - RIGHT_PX];
  g.fillStyle = c.line;
  g.fillRect(from, AXIS_PX - 3, whole, 3);
  g.fillStyle = c.brand;
  g.fillRect(from + (win.t0 / win.end) * whole, AXIS_PX - 3, Math.max(3, (win.span / win.end) * whole), 3);
}

function drawPlan(g, scene, plan, place, x, pattern, p) {
  const { look: c, width, places } = scene;
  drawTitle(g, scene, plan, place, p);
  place.rows.forEach((row, lane) => drawLabel(g, scene, plan.view.lanes[lane], row, lane));
  g.save();
  g.beginPath();
  g.rect(places.left, place.rows[0]?.y - 4, width - places.left, 1e5);
  g.clip();
  const end = Math.min(width - RIGHT_PX, x(plan.view.end_s));
  const from = Math.max(places.left, x(0));
  g.fillStyle = pattern;
  for (const row of place.rows) g.fillRect(from, row.y, Math.max(0, end - from), row.bar);
  g.font = `11px ${c.font}`;
  scene.numberPx = g.measureText("0".repeat(String(Math.max(0, plan.bars.lastMicrobatch)).length)).width;
  const path = scene.critical ? plan.view.critical : null;
  scene.plain = Boolean(path); // numbers would not be readable
  if (path) g.globalAlpha = FAINT;
  drawStrips(g, scene, plan, place);
  place.rows.forEach((row, lane) => drawBars(g, scene, plan.bars, lane, row, x));
  g.globalAlpha = 1;
  scene.plain = false;
  if (path) drawCritical(g, scene, plan, place, x);
  if (scene.microbatch != null) drawJourney(g, scene, plan.bars, place, x);
  if (scene.focus?.plan === p) drawFocus(g, scene, plan.bars, place, x);
  if (scene.carry && p === 0) drawCarried(g, scene, plan.bars, place, x);
  drawEnd(g, scene, plan, place, x, p);
  g.restore();
}

function drawTitle(g, { look: c, places }, plan, place, p) {
  g.textAlign = "left";
  g.font = `600 12px ${c.font}`;
  g.fillStyle = c["ink-strong"];
  const title = `${plan.view.name || "AB"[p]}  ${seconds(plan.view.end_s)}`;
  g.fillText(title, 0, place.title);
  const after = Math.max(places.left + 6, g.measureText(title).width + 20);
  g.font = `12px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText([plan.view.text, plan.view.omitted && `not shown: ${plan.view.omitted}`].filter(Boolean).join("; "), after, place.title);
}

/** The line at the end of the step; of the second plan also the difference to the first. */
function drawEnd(g, { look: c, width, places, plans }, plan, place, x, p) {
  const last = place.rows[place.rows.length - 1];
  const edge = x(plan.view.end_s);
  if (!last || edge < places.left || edge > width) return;
  g.fillStyle = c["ink-strong"];
  g.fillRect(Math.min(width - 2, edge), place.rows[0].y - 3, 1.5, last.y + last.bar + last.wire + 3 - place.rows[0].y);
  if (!p) return;
  const text = differenceWords(plan.view.end_s, plans[0].view.end_s);
  g.font = `600 12px ${c.font}`;
  const w = g.measureText(text).width;
  const inside = edge + 12 + w > width;
  const at = inside ? edge - 10 - w : edge + 8;
  g.textAlign = "left";
  g.fillStyle = c.bg;
  if (inside) g.fillRect(at - 4, last.y - 1, w + 8, 16);
  g.fillStyle = c["ink-strong"];
  g.fillText(text, at, last.y + 11);
}

/** A lane's name and busy share; where lanes are thin only every few, and those that are marked. */
function drawLabel(g, { look: c, marked, places }, lane, row, number) {
  if (!lane) return;
  const on = marked.has(lane.id);
  if (number % places.every && !(on && places.every < 3)) return;
  const size = row.bar >= 20 ? 12 : 11;
  g.font = `${on ? "600 " : ""}${size}px ${c.font}`;
  g.textAlign = "left";
  g.fillStyle = on ? c["brand-ink"] : c.ink;
  const middle = row.y + row.bar / 2 + 4;
  g.fillText(on ? `${lane.name} ◂` : lane.name, 0, middle, places.left - 46);
  if (lane.busy_fraction == null) return;
  g.textAlign = "right";
  g.font = `${size}px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.fillText(percent(lane.busy_fraction), places.left - 10, middle);
}

/** Are a track's bars too thin to be told apart here? */
const isDense = (from, to, pixels) => to - from > 8 && pixels / (to - from) < LEAST_PX;

function drawBars(g, scene, bars, lane, row, x) {
  const { window: win, look: c, width, places } = scene;
  const pixels = width - places.left - RIGHT_PX;
  const [from, to] = bars.visible(lane, false, win.t0, win.t1);
  const { compute, wire } = bars.lanes[lane];
  if (!isDense(from, to, pixels)) for (let k = from; k < to; k += 1) drawBar(g, scene, bars, compute[k], row, x);
  const [first, last] = bars.visible(lane, true, win.t0, win.t1);
  if (isDense(first, last, pixels)) return;
  let drawn = -1;
  for (let k = first; k < last; k += 1) {
    const i = wire[k];
    const [a, b] = [x(bars.start(i)), x(bars.end(i))];
    if (b < drawn + 0.5) continue; // under the last one
    g.fillStyle = c.kinds[bars.kind(i)] ?? c.ink;
    g.fillRect(a, row.y + row.bar + (row.wire > 1 ? 1 : 0), Math.max(1, b - a), Math.max(1, row.wire - 1));
    drawn = b;
  }
}

/** All strips of a plan in one picture: stacked shares of each pixel, from a lane's foot upward, wires below it. */
function drawStrips(g, scene, plan, place) {
  const { window: win, look: c, width, places } = scene;
  const pixels = Math.floor(width - places.left - RIGHT_PX);
  const { bars, strips } = plan;
  const top = place.rows[0]?.y ?? 0;
  let image = null;
  let height = 0;
  place.rows.forEach((row, lane) => {
    for (const wire of [false, true]) {
      const [from, to] = bars.visible(lane, wire, win.t0, win.t1);
      if (!isDense(from, to, pixels)) continue;
      if (!image) {
        const last = place.rows[place.rows.length - 1];
        height = Math.ceil(last.y + last.bar + last.wire - top);
        image = new ImageData(pixels, height);
      }
      const data = new Uint32Array(image.data.buffer);
      const shares = strips.shares(lane, win.t0, win.t1, pixels, wire, wire ? 0 : reachFor(to - from, pixels));
      if (wire) fillWires(data, shares, c, pixels, row.y + row.bar + (row.wire > 1 ? 1 : 0) - top, Math.max(1, row.wire - 1));
      else fillStrip(data, shares, c, pixels, row.y - top, row.bar);
    }
  });
  if (!image) return;
  const tile = (scene.scratch.canvas ??= document.createElement("canvas"));
  tile.width = pixels;
  tile.height = height;
  tile.getContext("2d").putImageData(image, 0, 0);
  g.imageSmoothingEnabled = false;
  g.drawImage(tile, places.left, top, pixels, height);
}

function fillStrip(data, shares, c, pixels, top, height) {
  const groups = [...shares.keys()].sort((a, b) => a - b);
  const rows = groups.map((group) => shares.get(group));
  const colours = groups.map((group) => packed(c.kinds[GROUPS[group][0]]));
  for (let p = 0; p < pixels; p += 1) {
    let filled = 0;
    let from = 0;
    for (let k = 0; k < rows.length; k += 1) {
      if (!rows[k][p]) continue;
      filled = Math.min(height, filled + rows[k][p] * height);
      const to = Math.round(filled);
      for (; from < to; from += 1) data[(top + height - 1 - from) * pixels + p] = colours[k];
    }
  }
}

/** A wire's strip is too thin for a stack: the kind that takes most of a pixel, as strong as all of them together. */
function fillWires(data, shares, c, pixels, top, height) {
  for (let p = 0; p < pixels; p += 1) {
    let [most, kind, sum] = [0, -1, 0];
    for (const [k, row] of shares) {
      sum += row[p];
      if (row[p] > most) [most, kind] = [row[p], k];
    }
    if (kind < 0) continue;
    const alpha = Math.round(255 * Math.min(1, 0.25 + 0.75 * sum));
    const colour = ((packed(c.kinds[kind]) & 0xffffff) | (alpha << 24)) >>> 0;
    for (let y = 0; y < height; y += 1) data[(top + y) * pixels + p] = colour;
  }
}
