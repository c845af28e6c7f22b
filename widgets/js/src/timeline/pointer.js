// The timeline by mouse, wheel and touch.

import { bytes, percent, seconds } from "../common/format.js";
import { spanWords } from "./area.js";
import { shareIn } from "./draw-links.js";
import { hit, linkUnder } from "./layout.js";

export class Pointer {
  /** @param {any} view the timeline */
  constructor(view) {
    this.view = view;
    this.pan = null;
    this.marking = false; // is an area being marked?
    const { canvas } = view;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", () => this.drop());
    canvas.addEventListener("pointerleave", () => {
      view.tip.hide();
      if (!this.marking) view.marks.leave();
    });
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => view.key(event));
    canvas.addEventListener("blur", () => view.focus && view.setFocus(null));
  }

  down(event) {
    if (event.button) return;
    this.marking = event.shiftKey && this.view.can && this.view.timeAt(event).share >= 0;
    if (!this.marking && this.view.editor.pick(event)) return this.view.canvas.setPointerCapture(event.pointerId);
    if (this.marking) this.view.marks.begin(this.view.timeAt(event).t);
    this.pan = { x: event.clientX, t0: this.view.window.t0, moved: false };
    this.view.canvas.setPointerCapture(event.pointerId);
  }

  /** Let go of everything, without doing anything. */
  drop() {
    this.pan = null;
    if (this.marking) this.view.marks.clear();
    this.marking = false;
    this.view.editor.cancel();
  }

  move(event) {
    const { view, pan } = this;
    if (view.editor.carried) return view.editor.drag(event);
    if (this.marking) return this.mark(event);
    if (!pan || (!pan.moved && Math.abs(event.clientX - pan.x) <= 4)) return view.hover(event);
    pan.moved = true;
    view.window.place(pan.t0 - (event.clientX - pan.x) * view.timeAt(event).perPx, view.window.span);
    view.tip.hide();
    return view.paint();
  }

  /** Shift and a drag mark an area. */
  mark(event) {
    const { view } = this;
    if (Math.abs(event.clientX - this.pan.x) <= 4) return view.marks.mark(null);
    view.marks.extend(view.timeAt(event).t);
    const { area } = view.marks;
    return area ? view.tip.show(`${spanWords(area)}\n${seconds(area.to_s - area.from_s)}`, event) : view.tip.hide();
  }

  /** Say what is under the pointer, and move the cursor there. */
  hover(event) {
    const { view } = this;
    const { links, places } = view;
    const found = view.under(event);
    const at = view.timeAt(event);
    view.marks.point(at, hit(places.plans, at.y), found);
    view.canvas.style.cursor = view.editor.canMove(found) ? "grab" : found || view.nameUnder(event) != null ? "pointer" : "";
    if (found) return view.tip.show(view.lines(found).join("\n"), event);
    const k = links && at.share >= 0 ? linkUnder(places.links, at.y) : -1;
    return k < 0 ? view.tip.hide() : view.tip.show(linkLines(links, k, at).join("\n"), event);
  }

  up(event) {
    const { view } = this;
    if (view.editor.release(event)) return undefined;
    const { pan, marking } = this;
    this.pan = null;
    this.marking = false;
    if (marking) {
      view.tip.hide();
      return view.marks.finish();
    }
    if (!pan || pan.moved) return;
    const lane = view.nameUnder(event);
    if (lane != null) return view.markLane(lane);
    const found = view.under(event);
    const microbatch = found ? view.plans[found.plan].bars.microbatch(found.i) : -1;
    view.focus = found;
    return view.follow(microbatch < 0 || microbatch === view.microbatch ? null : microbatch);
  }

  wheel(event) {
    const { view } = this;
    const mine = event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === view.canvas;
    if (!mine || !view.plans.length) return; // the page scrolls until the timeline is clicked
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.window.pan((event.deltaX || event.deltaY) / 800);
    else view.window.zoom(Math.exp(event.deltaY / 400), Math.min(1, Math.max(0, view.timeAt(event).share)));
    view.tip.hide();
    view.paint();
  }
}

/** What is told of a link at a time. */
function linkLines({ view, cells, drawn }, k, { t, perPx }) {
  const row = view.rows[drawn[k]];
  return [
    `${row.name}${row.count > 1 ? `, the busiest of ${row.count}` : ""}`,
    `${percent(shareIn(view, cells, drawn[k], t, t + perPx), 1)} of ${bytes(row.bytes_per_s)}/s at ${seconds(t, view.end_s)}`,
    `${bytes(row.step_bytes)} a step, ${percent(row.share, 1)} on average`,
  ];
}
