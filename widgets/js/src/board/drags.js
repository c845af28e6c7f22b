// What a drag does: of chips, of a boundary, of the overview's brush. Nothing reflows until release.

import { h } from "../common/dom.js";
import { between, nearestStop } from "./estimate.js";
import { toggleGroup } from "./group.js";
import { rowAt } from "./layout.js";
import { effectWords } from "./preview.js";
import { chipPositions, clickChip } from "./selecting.js";

const UNFOLD_MS = 600;

/** Free drag of the selection, or of the chip under the pointer. */
export function chipGesture(ctx, chip) {
  const own = chipPositions(chip);
  const drag = new ChipDrag(ctx);
  return {
    edits: true,
    cursor: "grabbing",
    click: (event) => clickChip(ctx, chip, event),
    begin() {
      if (!own.every((p) => ctx.selected.has(p))) {
        ctx.anchor = [own[0], own[own.length - 1]];
        ctx.select(new Set(own));
      }
      drag.begin(ctx.selected);
    },
    drag: (event) => drag.at(event),
    drop: () => drag.target != null && ctx.move(drag.positions, drag.target),
    end: () => drag.end(),
  };
}

class ChipDrag {
  constructor(ctx) {
    this.ctx = ctx;
  }

  begin(positions) {
    this.positions = positions;
    this.rows = null;
    this.ghost = makeGhost(this.ctx, positions);
    this.ctx.root.append(this.ghost);
    this.width = this.ghost.offsetWidth;
  }

  /** The pointer is here: read the page first, then write, so that it is laid out once. */
  at(event) {
    const { ctx } = this;
    const top = ctx.lanes.getBoundingClientRect().top;
    const box = ctx.root.getBoundingClientRect();
    this.measure(top);
    const row = rowAt(this.rows, event.clientY - top);
    const target = row?.startsWith("lane:") ? row.slice(5) : null;
    this.unfoldLater(row?.startsWith("group:") ? row.slice(6) : null);
    if (target !== this.target || !ctx.preview) {
      this.target = target;
      ctx.setPreview({ positions: this.positions, target });
      this.caption();
    }
    this.place(event, box);
  }

  /** Heights of the rows relative to the first: they do not change by scrolling. */
  measure(top) {
    const { rowElements } = this.ctx;
    if (this.rows && this.of === rowElements) return;
    this.of = rowElements;
    this.rows = rowElements
      .filter((row) => row.dataset.lane != null || row.classList.contains("folded"))
      .map((row) => {
        const box = row.getBoundingClientRect();
        const id = row.dataset.lane != null ? `lane:${row.dataset.lane}` : `group:${row.dataset.group}`;
        return { id, top: box.top - top, bottom: box.bottom - top };
      });
  }

  /** Rest over a folded group, and it unfolds. */
  unfoldLater(name) {
    if (name === this.over) return;
    this.over = name;
    clearTimeout(this.timer);
    if (name != null) this.timer = setTimeout(() => toggleGroup(this.ctx, name), UNFOLD_MS);
  }

  caption() {
    const { ctx, ghost, positions } = this;
    const lane = this.target == null ? null : ctx.lane(this.target);
    const [title, text] = ghost.firstChild.children;
    const what = ctx.catalog.describe(positions);
    title.textContent = lane ? `${what} → ${lane.name}` : what;
    text.textContent = lane ? (effectWords(ctx, ctx.preview) ?? "here now") : "Drop on a lane. Esc cancels.";
    ghost.classList.toggle("refused", Boolean(ctx.preview?.refused));
    this.width = ghost.offsetWidth;
  }

  /** Chips under the pointer, the card beside them; on the other side where the board ends. */
  place(event, box) {
    const x = event.clientX - box.left;
    const flip = x + this.width + 14 > box.width;
    if (flip !== this.flip) {
      this.flip = flip;
      this.ghost.classList.toggle("flip", flip);
    }
    const left = flip ? x - this.width + 24 : x - 12;
    const far = Math.max(4, box.width - this.width - 4);
    this.ghost.style.transform = `translate(${Math.min(far, Math.max(4, left))}px, ${event.clientY - box.top + 14}px)`;
  }

  end() {
    clearTimeout(this.timer);
    const { ghost } = this;
    if (ghost) this.ctx.hold.take(() => ghost.remove());
  }
}

function makeGhost(ctx, positions) {
  const names = ctx.catalog.ids(positions).map((id) => {
    const range = ctx.catalog.ranges.get(id);
    const block = ctx.catalog.blocks[ctx.catalog.layers[range[0]].block];
    return block.id === id ? block.label : ctx.catalog.layers[range[0]].label;
  });
  const shown = names.slice(0, 4);
  return h(
    "div",
    { class: "b-ghost", "aria-hidden": "true" },
    h("div", { class: "b-ghost-card" }, h("b", {}), h("span", {})),
    shown.map((name) => h("div", { class: "b-ghost-chip", text: name })),
    names.length > shown.length ? h("div", { class: "b-ghost-chip", text: `+${names.length - shown.length}` }) : null,
  );
}

/** The handle between two stages, on its lane or in the overview. */
export function boundaryGesture(ctx, handle) {
  const id = handle.dataset.boundary ?? handle.dataset.overviewBoundary;
  const boundary = ctx.view.boundaries.find((b) => b.id === id);
  const overview = handle.dataset.overviewBoundary != null;
  const state = { to: boundary.at, x: 0 };
  return {
    edits: true,
    cursor: "ew-resize",
    begin(event) {
      state.x = this.x;
      state.factor = overview ? 1 : (ctx.lane(boundary.before_lane)?.time_factor ?? 1);
      state.perPx = (overview ? ctx.catalog.total_s : ctx.scale_s) / ctx.trackPx;
      this.drag(event);
    },
    drag(event) {
      const shift_s = (event.clientX - state.x) * state.perPx;
      const to = nearestStop(ctx.catalog, boundary, ctx.expanded, shift_s, state.factor);
      if (to === state.to && ctx.preview) return;
      state.to = to;
      previewBoundary(ctx, boundary, to);
    },
    drop: () => ctx.moveBoundary(boundary, state.to),
  };
}

/** Preview of a boundary at another place. */
export function previewBoundary(ctx, boundary, to) {
  const positions = between(boundary.at, to);
  if (!positions.size) return ctx.setPreview(null);
  const factor = ctx.lane(boundary.before_lane)?.time_factor ?? 1;
  const { until, total_s } = ctx.catalog;
  return ctx.setPreview({
    positions,
    boundary: boundary.id,
    to,
    shift_s: (until[to] - until[boundary.at]) * total_s * factor,
    target: to > boundary.at ? boundary.before_lane : boundary.after_lane,
  });
}

/** The brush of the overview scrolls the lanes. */
export function brushGesture(ctx) {
  let from = 0;
  let x = 0;
  return {
    edits: false,
    cursor: "grabbing",
    begin() {
      [from, x] = [ctx.stage.scrollTop, this.x];
    },
    drag(event) {
      ctx.stage.scrollTop = from + ((event.clientX - x) / ctx.trackPx) * ctx.stage.scrollHeight;
    },
    drop() {},
  };
}
