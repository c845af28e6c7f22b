// The handles between neighbouring stages: the main gesture. One stands at the end of the stage before.

import { h, keyed } from "../common/dom.js";
import { boundaryRefusal } from "./holds.js";
import { patch, pct } from "./patch.js";

const make = (boundary) =>
  h(
    "div",
    { class: "b-handle", role: "slider", tabindex: "0", "data-boundary": boundary.id, "aria-orientation": "horizontal" },
    h("i", { class: "b-handle-bar" }),
  );

/** @param {any} ctx @param {Element} place @param {any[]} boundaries that end on this lane @param {Map<number, number>} ends by stage */
export function drawHandles(ctx, place, boundaries, ends) {
  const last = Math.max(...ends.values());
  keyed(
    place,
    boundaries.filter((boundary) => ends.has(boundary.before)),
    (boundary) => boundary.id,
    make,
    (handle, boundary) => drawHandle(ctx, handle, boundary, ends.get(boundary.before), last),
  );
}

function drawHandle(ctx, handle, boundary, end, laneEnd) {
  const pulled = ctx.preview?.boundary === boundary.id;
  const shift = pulled ? ctx.preview.shift_s / ctx.scale_s : 0;
  const refused = boundaryRefusal(ctx.view, boundary);
  const { layers, blocks } = ctx.catalog;
  const at = pulled ? ctx.preview.to : boundary.at;
  const lastName = blocks[layers[at - 1]?.block]?.name ?? "nothing";
  patch(handle, {
    class: `b-handle${pulled ? " pulled" : ""}${end < laneEnd - 1e-9 ? " inner" : ""}`,
    style: { left: pct(Math.min(0.985, Math.max(0, end + shift))) },
    "aria-label": `boundary between stage ${boundary.before} and stage ${boundary.after}`,
    "aria-valuemin": boundary.minimum,
    "aria-valuemax": boundary.maximum,
    "aria-valuenow": at,
    "aria-valuetext": `${ctx.lane(boundary.before_lane)?.name} ends after ${lastName}${refused ? `; ${refused}` : ""}`,
    "aria-disabled": !ctx.editable || refused ? "true" : null,
    "data-still": ctx.editable ? null : "true",
    title: refused ?? `Drag, or [ and ]: move blocks between stage ${boundary.before} and stage ${boundary.after}`,
  });
}
