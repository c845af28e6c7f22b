// One chip: a block, a part of one, or a layer of an opened block.

import { h, set } from "../common/dom.js";
import { bytes, seconds, secondsParts } from "../common/format.js";
import { cividis, inkOn, rgb } from "../common/scales.js";
import { pieceLabel, pieceName } from "./model.js";

export function makeChip() {
  return h(
    "div",
    { class: "b-chip", role: "option", tabindex: "-1" },
    h("span", { class: "b-label" }),
    h("span", { class: "b-num" }),
    h("i", { class: "b-foot" }),
  );
}

/** What the chips' colour stands for in this mode, on one scale for all lanes. Made once per drawing. */
export function chipLook(ctx) {
  const mode = ctx.colour;
  const value = (piece, lane) =>
    mode === "time"
      ? piece.time_s
      : mode === "traffic"
        ? piece.output_bytes
        : piece.state_bytes * (lane.state_factor ?? 1) +
          piece.saved_bytes * (lane.saved_factor ?? 1) * Math.max(1, lane.in_flight);
  let top = 0;
  if (mode !== "kind")
    for (const lane of ctx.view.lanes) for (const piece of ctx.pieces.get(lane.id)) top = Math.max(top, value(piece, lane));
  return { mode, value, top: top || 1 };
}

export function drawChip(ctx, chip, place, before, lane) {
  const { piece, left, width } = place;
  const { look } = ctx;
  const px = width * ctx.trackPx;
  const selected = isSelected(ctx, piece);
  const hole = ctx.preview?.target != null && ctx.preview.target !== lane.id && holds(piece, ctx.preview.positions);
  const broken = before && before.piece.run !== piece.run && before.piece.stage === piece.stage;
  const newStage = before && before.piece.stage !== piece.stage;
  const label = pieceLabel(piece);
  const number =
    look.mode === "memory"
      ? bytes(look.value(piece, lane))
      : look.mode === "traffic"
        ? bytes(look.value(piece, lane))
        : seconds(piece.time_s);
  const short = look.mode === "kind" || look.mode === "time" ? secondsParts(piece.time_s).text : number;
  const colour = look.mode === "kind" ? null : cividis(look.value(piece, lane) / look.top);
  const labelFits = px >= 12 + 7 * label.length;
  const told = !before || number !== before.number || selected;
  place.number = number;
  set(chip, {
    class: `b-chip${piece.block.kind === "block" ? "" : " other"}${selected ? " selected" : ""}${hole ? " hole" : ""}${broken ? " broken" : ""}${newStage ? " chunk" : ""}${px < 20 ? " slim" : ""}${colour && !hole ? " filled" : ""}`,
    "data-block": piece.block.id,
    "data-layer": piece.layer && piece.block.layers.length > 1 ? piece.layer.id : null,
    "data-first": piece.first,
    "data-count": piece.count,
    tabindex: piece.key === ctx.focusKey ? "0" : "-1",
    "aria-selected": String(selected),
    "aria-label": `${pieceName(piece)}, ${seconds(piece.time_s)}, ${bytes(piece.state_bytes + piece.saved_bytes * Math.max(1, lane.in_flight))}, ${lane.name}`,
    "aria-expanded": piece.block.layers.length > 1 ? String(Boolean(piece.layer)) : null,
    title: `${pieceName(piece)}: forward ${seconds(piece.forward_s)}, backward ${seconds(piece.backward_s)}, state ${bytes(piece.state_bytes)}, saves ${bytes(piece.saved_bytes)} a microbatch`,
    style: {
      left: `${(left * 100).toFixed(4)}%`,
      width: `${(width * 100).toFixed(4)}%`,
      "--fill": colour ? rgb(colour) : null,
      "--fill-ink": colour ? inkOn(colour) : null,
    },
  });
  set(chip.children[0], { text: labelFits ? label : "" });
  set(chip.children[1], {
    text:
      told && labelFits && px >= 34 ? (px >= 30 + 7 * number.length - 14 ? number : px >= 8 + 7 * short.length ? short : "") : "",
  });
  set(chip.children[2], {
    style: {
      background: look.mode === "kind" && piece.block.kind === "block" && !piece.layer ? footOf(ctx, piece) : null,
      display: look.mode === "kind" && piece.block.kind === "block" ? "" : "none",
    },
  });
}

/** Two-tone foot: the share of each part of a block. */
function footOf(ctx, piece) {
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

function isSelected(ctx, piece) {
  const { chosen } = ctx;
  for (let i = piece.first; i < piece.first + piece.count; i += 1) if (!chosen.has(i)) return false;
  return true;
}

function holds(piece, positions) {
  for (let i = piece.first; i < piece.first + piece.count; i += 1) if (positions.has(i)) return true;
  return false;
}
