// Heatmap widget: memory by device and time, or traffic from device to device.

import { float32 } from "../common/binary.js";
import { family, prepare, Tip, tokens } from "../common/canvas.js";
import { h, heading, set } from "../common/dom.js";
import { bytes, bytesParts, percent, seconds, secondsParts } from "../common/format.js";
import { makeRoot } from "../common/root.js";
import { cividis, inkOn, rgb, ticks } from "../common/scales.js";
import { Sync } from "../common/sync.js";
import { table, tableToggle } from "../common/table.js";
import { memoryGrid, rowPlaces, rowUnder, trafficGrid } from "./cells.js";

const TOKENS = ["ink", "ink-2", "ink-strong", "brand-ink", "wash", "bg", "line"];

class HeatmapView {
  constructor(model, el) {
    this.model = model;
    const { root, close } = makeRoot(el, model, "heatmap", "Heatmap");
    this.root = root;
    this.closeRoot = close;
    this.head = heading("", "");
    this.canvas = h("canvas", { class: "hm-canvas", role: "img" });
    this.tableBox = h("div", {});
    this.legend = h(
      "div",
      { class: "hm-legend" },
      h("span", {}),
      h("i", { class: "sx-ramp" }),
      h("span", {}),
      h("span", { class: "sx-sub" }),
    );
    this.empty = h("div", { class: "sx-empty", text: "Nothing to show yet." });
    this.toggle = tableToggle(this.canvas, this.tableBox, () => this.makeTable());
    this.head.append(h("span", { class: "sx-space" }), this.toggle.button);
    root.append(this.head, this.empty, this.canvas, this.tableBox, this.legend);
    this.tip = new Tip(root);
    this.sync = new Sync(model, ["view", "cells"], () => this.load());
    this.repaint = () => this.paint();
    model.on("change:selected_lanes", this.repaint);
    root.addEventListener("sx-theme", () => {
      this.look = null;
      this.paint();
    });
    this.observer = new ResizeObserver(() => this.paint());
    this.observer.observe(root);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.tip.hide());
    this.load();
  }

  get view() {
    return this.model.get("view") ?? {};
  }

  load() {
    const { view } = this;
    const ready = Boolean(view.rows?.length);
    for (const part of [this.head, this.canvas, this.legend]) part.style.display = ready ? "" : "none";
    this.empty.hidden = ready;
    if (!ready) return;
    this.grid = view.kind === "traffic" ? trafficGrid(view) : memoryGrid(view, float32(this.model.get("cells")));
    const title = view.title ?? (view.kind === "traffic" ? "Traffic, device to device" : "Memory, device by time");
    const [head, rest] = title.split(/,(.*)/s);
    set(this.head.children[0], { text: head });
    set(this.head.children[1], { text: rest?.trim() ?? "" });
    const [low, , high, note] = this.legend.children;
    set(low, { text: this.grid.log ? bytes(this.grid.low) : "0" });
    set(high, { text: bytes(this.grid.high) });
    set(note, { text: this.grid.log ? "log scale" : "capacity" });
    set(this.canvas, { "aria-label": `${title}. ${this.summary()} The Table button gives the same as a table.` });
    this.toggle.refresh();
    this.paint();
  }

  summary() {
    const { view } = this;
    if (view.kind === "traffic") return `${view.pairs.length} pairs, at most ${bytes(this.grid.high)}.`;
    return view.peak
      ? `Peak ${bytes(view.peak.bytes)} on ${view.rows[view.peak.row]?.name} at ${seconds(view.peak.time_s)}.`
      : "";
  }

  paint() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const width = this.canvas.clientWidth;
      if (!this.grid || !width) return;
      this.look ??= { ...tokens(this.root, TOKENS), font: family(this.root) };
      this.measure(width);
      const g = prepare(this.canvas, width, this.place.height + (this.view.kind === "traffic" ? 4 : 20));
      if (this.view.kind === "traffic") this.drawTraffic(g);
      else this.drawMemory(g, width);
      this.drawNames(g);
    });
  }

  measure(width) {
    const rows = this.view.rows;
    const traffic = this.view.kind === "traffic";
    const longest = Math.max(...rows.map((row) => row.name.length));
    const left = Math.min(110, longest * 7 + 12);
    const size = traffic
      ? Math.max(6, Math.min(36, Math.floor((width - left) / rows.length) - 2))
      : rows.length <= 16
        ? 30
        : rows.length <= 32
          ? 16
          : 11;
    this.place = { left, size, right: width - 4, ...rowPlaces(rows, size, traffic ? 22 : 18) };
  }

  drawNames(g) {
    const marked = new Set(this.model.get("selected_lanes") ?? []);
    const { tops, size } = this.place;
    if (size < 11) return;
    this.view.rows.forEach((row, r) => {
      const on = row.lane != null && marked.has(row.lane);
      g.font = `${on ? "600 " : ""}${size < 16 ? 11 : 12}px ${this.look.font}`;
      g.textAlign = "left";
      g.fillStyle = on ? this.look["brand-ink"] : this.look.ink;
      g.fillText(row.name, 0, tops[r] + size / 2 + 4);
    });
  }

  drawMemory(g, width) {
    const { grid, view, look: c } = this;
    const { left, right, tops, size, height } = this.place;
    const strip = document.createElement("canvas");
    strip.width = Math.max(1, grid.columns);
    strip.height = 1;
    const pen = strip.getContext("2d");
    g.imageSmoothingEnabled = false;
    for (let r = 0; r < grid.rows; r += 1) {
      const image = pen.createImageData(strip.width, 1);
      for (let k = 0; k < grid.columns; k += 1) {
        const value = grid.value(r, k);
        if (value != null) image.data.set([...cividis(grid.position(value)), 255], k * 4);
      }
      pen.clearRect(0, 0, strip.width, 1);
      pen.putImageData(image, 0, 0);
      g.fillStyle = c.wash;
      g.fillRect(left, tops[r], right - left, size);
      g.drawImage(strip, left, tops[r], right - left, size);
    }
    const x = (t) => left + ((t - view.start_s) / (view.end_s - view.start_s)) * (right - left);
    g.font = `11px ${c.font}`;
    g.fillStyle = c["ink-2"];
    for (const t of ticks(view.end_s, Math.max(2, (right - left) / 110), view.start_s)) {
      const { text, unit } = secondsParts(t, view.end_s);
      g.textAlign = x(t) < left + 10 ? "left" : x(t) > right - 14 ? "right" : "center";
      g.fillText(`${text.replace(/\.0+$/, "")} ${unit}`, x(t), height + 14);
    }
    if (view.peak) this.drawPeak(g, x(view.peak.time_s), tops[view.peak.row], width);
  }

  drawPeak(g, x, y, width) {
    const { look: c, view } = this;
    g.fillStyle = c["ink-strong"];
    const first = view.peak.row === 0;
    g.beginPath();
    if (first) {
      g.moveTo(x, y - 1);
      g.lineTo(x + 5, y - 9);
      g.lineTo(x - 5, y - 9);
    } else {
      g.moveTo(x, y + 9);
      g.lineTo(x + 5, y + 1);
      g.lineTo(x - 5, y + 1);
    }
    g.fill();
    const over = view.peak.bytes > view.capacity_bytes;
    const text = `${over ? "▲ " : ""}peak ${bytes(view.peak.bytes)}${first ? "" : ` on ${view.rows[view.peak.row].name}`} at ${seconds(view.peak.time_s)}${over ? `, ${bytes(view.peak.bytes - view.capacity_bytes)} over` : ""}`;
    g.font = `11px ${c.font}`;
    const w = g.measureText(text).width;
    g.textAlign = "left";
    g.fillText(text, first && x + 9 + w > width ? x - 9 - w : Math.min(x + 9, width - w - 2), first ? y - 4 : 11);
  }

  drawTraffic(g) {
    const { grid, view, look: c } = this;
    const { left, tops, size } = this.place;
    const columns = tops.map((top) => left + top - tops[0]);
    g.font = `11px ${c.font}`;
    const like = grid.high;
    for (let r = 0; r < grid.rows; r += 1) {
      for (let k = 0; k < grid.columns; k += 1) {
        const value = grid.value(r, k);
        const colour = value == null ? null : cividis(grid.position(value));
        g.fillStyle = colour ? rgb(colour) : c.wash;
        g.fillRect(columns[k], tops[r], size - (size > 12 ? 1 : 0), size - (size > 12 ? 1 : 0));
        if (!colour || size < 28) continue;
        g.fillStyle = inkOn(colour);
        g.textAlign = "center";
        g.fillText(bytesParts(value, like).text, columns[k] + size / 2, tops[r] + size / 2 + 4, size - 4);
      }
    }
    if (size < 14) return;
    g.fillStyle = c["ink-2"];
    g.textAlign = "center";
    view.rows.forEach((row, k) => g.fillText(row.name.replace(/^\D+/, "") || row.name, columns[k] + size / 2, tops[0] - 7, size));
  }

  cellUnder(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const { left, right, tops, size } = this.place;
    const r = rowUnder(tops, size, y);
    if (r < 0 || x < left) return null;
    const k =
      this.view.kind === "traffic"
        ? rowUnder(
            tops.map((top) => left + top - tops[0]),
            size,
            x,
          )
        : Math.floor(((x - left) / (right - left)) * this.grid.columns);
    return k < 0 || k >= this.grid.columns ? null : { r, k };
  }

  hover(event) {
    const cell = this.place ? this.cellUnder(event) : null;
    if (!cell) return this.tip.hide();
    const { view, grid } = this;
    const value = grid.value(cell.r, cell.k);
    if (view.kind === "traffic")
      return this.tip.show(
        `${view.rows[cell.r].name} → ${view.rows[cell.k].name}\n${value == null ? "nothing" : `${bytes(value)} a step`}`,
        event,
      );
    const t = view.start_s + ((cell.k + 0.5) / grid.columns) * (view.end_s - view.start_s);
    return this.tip.show(
      `${view.rows[cell.r].name} at ${seconds(t, view.end_s)}\n${value == null ? "unknown" : `${bytes(value)}, ${percent(value / view.capacity_bytes)} of capacity`}`,
      event,
    );
  }

  makeTable() {
    const { view, grid } = this;
    if (view.kind === "traffic")
      return table(
        "Bytes sent in one step",
        ["from", "to", "bytes"],
        view.pairs.slice(0, 400).map(([a, b, n]) => [view.rows[a].name, view.rows[b].name, bytes(n)]),
        view.pairs.length,
      );
    const at = Array.from({ length: Math.min(8, grid.columns) }, (_, i) =>
      Math.floor(((i + 0.5) / Math.min(8, grid.columns)) * grid.columns),
    );
    const time = (k) => seconds(view.start_s + ((k + 0.5) / grid.columns) * (view.end_s - view.start_s), view.end_s);
    const most = (r) => {
      let top = null;
      for (let k = 0; k < grid.columns; k += 1) {
        const v = grid.value(r, k);
        if (v != null && (top == null || v > top)) top = v;
      }
      return top;
    };
    return table(
      "Memory in use",
      ["device", "peak", ...at.map(time)],
      view.rows.map((row, r) => [row.name, bytes(most(r)), ...at.map((k) => bytes(grid.value(r, k)))]),
    );
  }

  close() {
    this.sync.close();
    this.model.off("change:selected_lanes", this.repaint);
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.closeRoot();
    this.root.remove();
  }
}

function render({ model, el }) {
  const view = new HeatmapView(model, el);
  return () => view.close();
}

export default { render };
