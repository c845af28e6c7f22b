// The strip below a lane: what travels from it to other lanes, over which link, and what a broken run costs.

import { h, keyed, set, triangle } from "../common/dom.js";
import { bytes, seconds } from "../common/format.js";
import { linkClass, linkThickness } from "./layout.js";

export function makeLinks(ctx, { lane }) {
  return h(
    "div",
    { class: "b-row b-links", "data-links": lane.id },
    h("div", {}),
    h("div", {}),
    h("div", { class: "b-cell-track" }),
  );
}

const KIND_NAMES = {
  nvlink: "NVLink",
  nvswitch: "NVSwitch",
  pcie: "PCIe",
  infiniband: "InfiniBand",
  ethernet: "Ethernet",
  internet: "internet",
  shared: "shared memory",
  host: "host",
};

export function drawLinks(ctx, element, { lane, compact }) {
  const order = new Map(ctx.view.lanes.map((other, i) => [other.id, i]));
  const mine = ctx.view.links.filter((link) => link.from_lane === lane.id);
  const notes = lane.runs.map((run) => run.note).filter(Boolean);
  element.classList.toggle("compact", compact);
  element.classList.toggle("last", order.get(lane.id) === ctx.view.lanes.length - 1 && !mine.length && !notes.length);
  const shown = mine.slice(0, compact ? 1 : 2);
  const rows = [
    ...(compact ? [] : notes.map((note, i) => ({ key: `note${i}`, note }))),
    ...shown.map((link) => ({
      key: `to:${link.to_lane}:${link.kind}`,
      link,
      far: order.get(link.to_lane) !== order.get(lane.id) + 1,
    })),
    ...(compact || mine.length <= shown.length ? [] : [{ key: "more", more: mine.slice(shown.length) }]),
  ];
  keyed(
    element.lastChild,
    rows,
    (row) => row.key,
    (row) =>
      row.link
        ? h(
            "div",
            { class: "b-link" },
            h("span", {}),
            h("span", { class: "b-arrow" }, h("i", {})),
            h("span", { class: "b-link-text" }),
          )
        : h("div", { class: row.note ? "b-note" : "b-link" }, row.note ? triangle() : null, h("span", {})),
    (div, row) => {
      if (row.note) set(div.lastChild, { text: row.note });
      else if (row.more)
        set(div.lastChild, {
          text: `and ${row.more.length} more links, ${bytes(row.more.reduce((sum, link) => sum + (link.step_bytes ?? 0), 0))} a step`,
        });
      else drawLink(ctx, div, row, compact);
    },
  );
}

function drawLink(ctx, div, { link, far }, compact) {
  const name = `${far ? `to ${ctx.lane(link.to_lane)?.name ?? link.to_lane}, ` : ""}${link.name ?? KIND_NAMES[link.kind] ?? link.kind}`;
  const both = link.forward_bytes != null && link.backward_bytes === link.forward_bytes;
  const per =
    link.forward_bytes == null
      ? ""
      : both
        ? `${bytes(link.forward_bytes)} each way`
        : `${bytes(link.forward_bytes)} forward, ${bytes(link.backward_bytes ?? 0)} back`;
  const words = [
    [per, link.transfer_s == null ? "" : seconds(link.transfer_s)].filter(Boolean).join(", "),
    link.step_bytes == null ? "" : `${bytes(link.step_bytes)} a step`,
  ]
    .filter(Boolean)
    .join("; ");
  const [label, arrow, text] = div.children;
  set(div, { title: `${name}: ${words}`, role: "img", "aria-label": `${name}: ${words}` });
  set(label, { text: compact ? "" : name });
  set(arrow, {
    class: `b-arrow b-k-${linkClass(link.kind)}${link.dashed ? " dashed" : ""}${link.backward_bytes ? " both" : ""}`,
  });
  set(arrow.firstChild, { style: { height: `${linkThickness(link.step_bytes)}px` } });
  set(text, { text: compact ? "" : words });
}
