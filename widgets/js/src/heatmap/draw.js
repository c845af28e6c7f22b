// Drawing of heatmaps on a canvas.

import { bytes, bytesParts, seconds, secondsParts } from "../common/format.js";
import { cividis, inkOn, rgb, ticks } from "../common/scales.js";
import { mostOf } from "./cells.js";
import { boxOf, columnOf, NUMBER_PX, timeX, xTime } from "./panels.js";

export const TOKENS = ["ink", "ink-2", "ink-strong", "brand", "brand-ink", "wash", "bg", "line", "bad"];

/**
 * One plan. @param {CanvasRenderingContext2D} g
 * @param {{view: any, grid: any, name: string}} plan @param {any} panel @param {any} scale
 * @param {{look: any, marked: Set<string>, cell: {r: number, k: number}|null, shown: string}} scene
 */
export function drawPanel(g, plan, panel, scale, scene) {
  const { look: c } = scene;
  if (panel.title != null) {
    g.font = `600 12px ${c.font}`;
    g.textAlign = "left";
    g.fillStyle = c["ink-strong"];
    g.fillText(plan.name, panel.x, panel.title);
  }
  if (plan.grid.kind === "time") drawTime(g, plan, panel, scale, scene);
  else drawCells(g, plan, panel, scale, scene);
  drawNames(g, plan, panel, scene);
  if (scene.cell && scene.cell.r < plan.grid.rows.length && scene.cell.k < plan.grid.columns) drawCursor(g, plan, panel, scene);
}

function drawNames(g, { grid }, panel, { look: c, marked }) {
  const every = Math.max(1, Math.ceil(11 / panel.size));
  grid.rows.forEach((row, r) => {
    const on = row.lane != null && marked.has(row.lane);
    if (r % every && !on) return;
    g.font = `${on ? "600 " : ""}${panel.size < 16 ? 11 : 12}px ${c.font}`;
    g.textAlign = "left";
    g.fillStyle = on ? c["brand-ink"] : c.ink;
    g.fillText(on ? `${row.name} ◂` : row.name, panel.x, panel.tops[r] + panel.size / 2 + 4, panel.left - panel.x - 4);
  });
}

function drawTime(g, plan, panel, scale, scene) {
  const { grid, view } = plan;
  const { look: c } = scene;
  const { axis, from, right, tops, size } = panel;
  const [first, last] = [from, right].map((at) => Math.min(grid.columns, Math.max(0, columnOf(grid, xTime(axis, at)))));
  const pixels = Math.round(right - from);
  const strip = document.createElement("canvas");
  strip.width = Math.max(1, last - first > grid.columns * 0.999 ? Math.min(grid.columns, pixels) : pixels);
  strip.height = 1;
  const pen = strip.getContext("2d");
  g.imageSmoothingEnabled = false;
  grid.rows.forEach((_, r) => {
    const image = pen.createImageData(strip.width, 1);
    for (let p = 0; p < strip.width; p += 1) {
      const value = mostOf(grid, r, p, strip.width, first, last - first);
      if (value != null) image.data.set([...cividis(scale.position(value)), 255], p * 4);
    }
    if (!pixels) return;
    pen.putImageData(image, 0, 0);
    g.fillStyle = c.wash;
    g.fillRect(from, tops[r], right - from, size);
    g.drawImage(strip, from, tops[r], right - from, size);
  });
  const x = (t) => timeX(axis, t);
  const [t0, t1] = [Math.max(grid.start_s, axis.t0), Math.min(grid.end_s, axis.t0 + axis.span)];
  const foot = tops[tops.length - 1] + size + 14;
  g.font = `11px ${c.font}`;
  g.fillStyle = c["ink-2"];
  const fine = axis.span < t1 / 50; // then digits behind the point tell ticks apart
  for (const t of ticks(t1, Math.max(2, (right - from) / 110), t0)) {
    const { text, unit } = secondsParts(t, grid.end_s);
    g.textAlign = x(t) < axis.left + 10 ? "left" : x(t) > right - 14 ? "right" : "center";
    g.fillText(`${fine ? text : text.replace(/\.0+$/, "")} ${unit}`, x(t), foot);
  }
  const peak = view.peak?.time_s;
  if (peak >= t0 && peak <= t1 && scene.shown === "time") drawPeak(g, view, panel, x(view.peak.time_s), c);
}

/** A triangle above the fullest cell's row and what it is. */
function drawPeak(g, view, panel, x, c) {
  const y = panel.tops[view.peak.row];
  const first = view.peak.row === 0;
  const tip = first ? y - 1 : y + 9;
  const over = view.peak.bytes > view.capacity_bytes;
  g.fillStyle = over ? c.bad : c["ink-strong"];
  g.beginPath();
  g.moveTo(x, tip);
  g.lineTo(x + 5, tip - 8);
  g.lineTo(x - 5, tip - 8);
  g.fill();
  const where = first ? "" : ` on ${view.rows[view.peak.row].name}`;
  const text = `peak ${bytes(view.peak.bytes)}${where} at ${seconds(view.peak.time_s)}${over ? `, ▲ ${bytes(view.peak.bytes - view.capacity_bytes)} over` : ""}`;
  g.font = `${over ? "600 " : ""}11px ${c.font}`;
  const w = g.measureText(text).width;
  g.textAlign = "left";
  const at = x + 9 + w > panel.right ? Math.max(panel.left, x - 9 - w) : x + 9;
  g.fillText(text, at, panel.tops[0] - 5);
}

function drawCells(g, { grid, view }, panel, scale, { look: c, shown }) {
  const like = scale.high;
  drawHeads(g, grid, panel, c);
  g.textAlign = "center";
  grid.rows.forEach((_, r) => {
    for (let k = 0; k < grid.columns; k += 1) {
      const [x, y, w, h] = boxOf(grid, panel, { r, k });
      const value = grid.value(r, k);
      const plain = k === grid.plain;
      const colour = value == null || plain ? null : cividis(scale.position(value));
      g.fillStyle = colour ? rgb(colour) : c.wash;
      if (!plain) g.fillRect(x, y, w - (w > 12 ? 1 : 0), h - (h > 12 ? 1 : 0));
      if (value == null || w < NUMBER_PX || h < 11) continue;
      const over = plain && value > grid.capacity[r];
      g.font = `${plain ? "600 " : ""}11px ${c.font}`;
      g.fillStyle = colour ? inkOn(colour) : over ? c.bad : c.ink;
      const text = shown === "parts" ? (plain ? `${over ? "▲ " : ""}${bytes(value)}` : bytes(value)) : bytesParts(value, like).text;
      g.fillText(text, x + w / 2, y + h / 2 + 4, w - 2);
    }
  });
}

/** Names of the columns; numbers alone where they are devices. */
function drawHeads(g, grid, panel, c) {
  const width = panel.widths[0];
  if (width < 14) return;
  g.font = `11px ${c.font}`;
  g.fillStyle = c["ink-2"];
  g.textAlign = "center";
  grid.names.forEach((name, k) => {
    const text = grid.kind === "pairs" ? name.replace(/^\D+/, "") || name : name;
    g.fillText(text, panel.lefts[k] + width / 2, panel.tops[0] - 7, width);
  });
}

/** The cell that the keyboard is on. */
function drawCursor(g, { grid }, panel, { look: c, cell }) {
  const [x, y, w, h] = boxOf(grid, panel, cell);
  for (const [colour, width] of [
    [c.bg, 5],
    [c.brand, 3],
  ]) {
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.strokeRect(x - 1, y - 1, Math.max(4, w) + 1, h + 1);
  }
}

/**
 * The cursor, and the marked area, over one plan. @param {CanvasRenderingContext2D} g @param {any} panel
 * @param {{look: any, cursor: {t: number}|null, area: {from_s: number, to_s: number}|null}} scene
 */
export function drawOver(g, { axis, from, right, tops, size }, { look: c, cursor, area }) {
  const [top, foot] = [tops[0] - 3, tops[tops.length - 1] + size + 3];
  const clip = (t) => Math.min(right, Math.max(from, timeX(axis, t)));
  g.fillStyle = c.brand;
  if (area) {
    const [a, b] = [clip(area.from_s), clip(area.to_s)]; // outlined, not filled: colours mean bytes here
    for (const [colour, width] of [
      [c.bg, 3],
      [c.brand, 1],
    ]) {
      g.strokeStyle = colour;
      g.lineWidth = width;
      if (b > a) g.strokeRect(a + 0.5, top + 0.5, b - a - 1, foot - top - 1);
    }
  }
  const at = cursor && Math.round(timeX(axis, cursor.t));
  if (at == null || at < axis.left || at > axis.left + axis.room) return;
  g.fillStyle = c.bg;
  g.globalAlpha = 0.6;
  g.fillRect(at - 1, top, 3, foot - top);
  g.globalAlpha = 1;
  g.fillStyle = c.brand;
  g.fillRect(at, top, 1, foot - top);
}
