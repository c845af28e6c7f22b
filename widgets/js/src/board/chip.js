// One chip: a block, a part of one, or a layer of an opened block.

import { h } from "../common/dom.js";
import { bytes, seconds } from "../common/format.js";
import { cividis, inkOn, rgb } from "../common/scales.js";
import { heldBy, pieceLabel, pieceName } from "./model.js";
import { elsewhere } from "./other.js";
import { patch, pct } from "./patch.js";

export function makeChip() {
  return h(
    "div",
    { class: "b-chip", role: "option", tabindex: "-1" },
    h("span", { class: "b-label" }),
    h("span", { class: "b-num" }),
    h("i", { class: "b-foot" }),
  );
}

/** Seconds of the layers themselves, as all other views tell them. */
const ownTime = (piece) => piece.forward_s + piece.backward_s;

const VALUE = {
  kind: () => 0,
  time: (piece) => piece.time_s,
  traffic: (piece) => piece.output_bytes,
  memory: (piece, lane) =>
    piece.state_bytes * (lane.state_factor ?? 1) + piece.saved_bytes * (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight),
};

/** What the chips' colour stands for in this mode, on one scale for all lanes. */
export function chipLook(ctx) {
  const mode = ctx.colour;
  const top = ctx.once("top", [mode, ctx.view.lanes, ctx.expanded, ctx.catalog], () => topOf(ctx, mode));
  return { mode, value: VALUE[mode], top };
}

function topOf(ctx, mode) {
  let top = 0;
  if (mode !== "kind")
    for (const lane of ctx.view.lanes)
      for (const piece of ctx.pieces.get(lane.id)) top = Math.max(top, VALUE[mode](piece, lane));
  return top || 1;
}

/** @param {any} ctx @param {Element} chip @param {any} place @param {any} before place of the chip before @param {any} state of its lane */
export function drawChip(ctx, chip, place, before, state) {
  const { piece, left, width } = place;
  const { lane } = state;
  const px = width * ctx.trackPx;
  const marks = marksOf(ctx, place, before, state);
  const texts = textsOf(ctx, place, before, state, marks, px);
  const colour = ctx.look.mode === "kind" ? null : cividis(ctx.look.value(piece, lane) / ctx.look.top);
  patch(chip, {
    class: `b-chip${piece.block.kind === "block" ? "" : " other"}${marks.classes}${px < 20 ? " slim" : ""}${texts.tight ? " tight" : ""}${colour && !marks.hole ? " filled" : ""}`,
    "data-block": piece.block.id,
    "data-layer": piece.layer && piece.block.layers.length > 1 ? piece.layer.id : null,
    "data-first": piece.first,
    "data-count": piece.count,
    tabindex: piece.key === ctx.focusKey ? "0" : "-1",
    "aria-selected": String(marks.selected),
    "aria-label": nameOf(ctx, piece, lane, marks),
    title: `${pieceName(piece)}: forward ${seconds(piece.forward_s)}, backward ${seconds(piece.backward_s)}, state ${bytes(piece.state_bytes)}, saves ${bytes(piece.saved_bytes)} a microbatch`,
    style: {
      left: pct(left),
      width: pct(width),
      "--fill": colour ? rgb(colour) : null,
      "--fill-ink": colour ? inkOn(colour) : null,
    },
  });
  patch(chip.children[0], { text: texts.label });
  patch(chip.children[1], { text: texts.number });
  const foot = ctx.look.mode === "kind" && piece.block.kind === "block";
  patch(chip.children[2], {
    style: { background: foot && !piece.layer ? footOf(ctx, piece) : null, display: foot ? null : "none" },
  });
}

function marksOf(ctx, { piece }, before, { lane, chosen, leaving, pinned }) {
  const selected = chosen != null && heldBy(chosen, piece.first, piece.count) === "all";
  const hole = leaving != null && heldBy(leaving, piece.first, piece.count) !== "none";
  const held = pinned == null ? "none" : heldBy(pinned, piece.first, piece.count);
  const broken = before && before.piece.run !== piece.run && isOutOfOrder(lane, piece);
  const chunk = before && !broken && before.piece.stage !== piece.stage;
  const away = elsewhere(ctx, piece, lane);
  const classes = `${selected ? " selected" : ""}${hole ? " hole" : ""}${broken ? " broken" : ""}${chunk ? " chunk" : ""}${held === "none" ? "" : " pinned"}${away ? " away" : ""}`;
  return { selected, hole, held, away, classes, broken };
}

/** A further run that costs transfers: Python says so in its note; until then, one of the same stage. */
function isOutOfOrder(lane, piece) {
  const run = lane.runs[piece.run];
  return Boolean(run.note) || lane.runs.some((other, i) => i < piece.run && other.stage === run.stage);
}

/** Label and number, where they fit; a number only where it differs from the chip before. */
function textsOf(ctx, place, before, { lane, covered }, { selected, away }, px) {
  const { piece } = place;
  const { mode, value } = ctx.look;
  const timed = mode === "kind" || mode === "time";
  const number = timed ? seconds(ownTime(piece)) : bytes(value(piece, lane));
  place.number = number;
  const label = pieceLabel(piece);
  // numbers of one and of two digits come and go together, so that none is missing from a row of narrow chips
  const under = place.left * ctx.trackPx + 8 + 8 * label.length > covered; // under the words at the lane's end
  if (under || px < 4 + 7 * Math.max(2, label.length)) return { label: "", number: "", tight: false };
  const tight = px < 12 + 7 * label.length;
  if (away) {
    const words = `B: ${away}`;
    return { label, tight, number: px >= 12 + 6.2 * words.length ? words : px >= 40 ? `B: ${away.replace(/^Stages? /, "")}` : "" };
  }
  const told = (!before || number !== before.number || selected) && px >= 34;
  return { label, tight, number: !told ? "" : px >= 10 + 6 * number.length ? number : "" };
}

function nameOf(ctx, piece, lane, { held, away, broken }) {
  const memory = piece.state_bytes + piece.saved_bytes * Math.max(1, lane.in_flight);
  const inside = piece.block.layers.length;
  const more = [
    piece.whole && !piece.layer && inside > 1 ? `${inside} layers` : "",
    held === "all" ? "pinned" : held === "some" ? "partly pinned" : "",
    broken ? "out of order" : "",
    away ? `on ${away} in ${ctx.view.other_name}` : "",
  ].filter(Boolean);
  return [pieceName(piece), seconds(ownTime(piece)), bytes(memory), lane.name, ...more].join(", ");
}

/** @type {WeakMap<object, string>} by piece */
const feet = new WeakMap();

/** Two-tone foot: the share of each part of a block. */
function footOf(ctx, piece) {
  let foot = feet.get(piece);
  if (foot === undefined) feet.set(piece, (foot = makeFoot(ctx, piece)));
  return foot;
}

function makeFoot(ctx, piece) {
  const shares = new Map();
  for (let i = piece.first; i < piece.first + piece.count; i += 1) {
    const layer = ctx.catalog.layers[i];
    shares.set(layer.part ?? "", (shares.get(layer.part ?? "") ?? 0) + layer.time_s);
  }
  if (shares.size < 2) return "var(--chip-1)";
  let at = 0;
  const total = [...shares.values()].reduce((a, b) => a + b, 0) || 1;
  const stops = [...shares.values()].map((share, i) => {
    const from = at;
    at += share / total;
    return `var(--chip-${(i % 2) + 1}) ${(from * 100).toFixed(1)}% ${(at * 100).toFixed(1)}%`;
  });
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}
