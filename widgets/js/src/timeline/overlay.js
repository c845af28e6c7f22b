// What the timeline shares with the other views of its workbench, and the canvas over the bars that shows it.

import { prepare } from "../common/canvas.js";
import { h, set } from "../common/dom.js";
import { joinTime, leaveTime } from "../common/shared-time.js";
import { drawOver } from "./draw-over.js";

export class Overlay {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    this.canvas = h("canvas", { class: "tl-over", "aria-hidden": "true" });
    this.bench = null;
    this.join(null, true);
  }

  /** Share the time of a workbench; that of a run, and of none, is another. @param {string|null} bench */
  join(bench, first = false) {
    if (bench === this.bench && !first) return;
    this.leave();
    this.bench = bench;
    this.time = joinTime(bench, this, (what) => this.told(what));
    this.time.kept = Boolean(this.view.moment?.open);
  }

  leave() {
    if (!this.time) return;
    this.time.kept = false;
    leaveTime(this.bench, this.time, this);
  }

  told(what) {
    if (what === "window") return this.view.paint();
    this.view.moment.follow();
    return this.paint();
  }

  /** Say when what is shown ends: the timeline decides for all. @param {number} end */
  reach(end) {
    this.time.reach(this, end, true);
  }

  /** Draw in the next frame. */
  paint() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.paintNow();
    });
  }

  paintNow() {
    const { view, time } = this;
    const width = view.canvas.parentElement ? view.canvas.clientWidth : 0;
    if (!view.plans?.length || !width || !view.look) return;
    const began = performance.now();
    const g = prepare(this.canvas, width, view.places.height);
    const arrows = drawOver(g, {
      width,
      window: time.window,
      plans: view.plans,
      look: view.look,
      places: view.places,
      cursor: time.cursor,
      area: time.area,
      flow: view.editor.carried ? null : view.marks.flow,
    });
    set(view.root, { "data-cursor": time.cursor?.t.toFixed(6), "data-arrows": String(arrows), "data-over-ms": (performance.now() - began).toFixed(2) });
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.leave();
  }
}
