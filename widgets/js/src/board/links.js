// The strip below a lane: what travels from it to other lanes, over which link, and what a broken run costs.

import { h, keyed, triangle } from "../common/dom.js";
import { bytes, plural, seconds, typeset } from "../common/format.js";
import { allAlike, linkClass, linkThickness, shortName } from "./layout.js";
import { patch, stale } from "./patch.js";
import { detourWords } from "./preview.js";

export function makeLinks(ctx, { lane, compact }) {
  return h(
    "div",
    { class: `b-row b-links${compact ? " compact" : ""}`, "data-links": lane.id },
    h("div", {}),
    h("div", {}),
    h("div", { class: "b-cell-track" }),
  );
}

const KIND_NAMES = {
  nvlink: "NVLink",
  nvswitch: "NVSwitch",
  fabric: "chip fabric",
  pcie: "PCIe",
  infiniband: "InfiniBand",
  ethernet: "Ethernet",
  internet: "internet",
  shared: "shared memory",
  host: "host",
};

const NONE = [];

export function drawLinks(ctx, element, { lane, compact }) {
  const mine = ctx.linksOf.get(lane.id) ?? NONE;
  const found = ctx.preview?.target === lane.id ? ctx.preview.detour : null;
  const last = ctx.order.get(lane.id) === ctx.view.lanes.length - 1;
  const thin = compact && ctx.once("thin", [ctx.view.links], () => allAlike(ctx.view.links));
  if (!stale(element, [lane.runs, compact, thin, found, last, ctx.order, ...mine])) return;
  const notes = lane.runs.map((run) => run.note).filter(Boolean);
  if (found) notes.splice(0, notes.length, detourWords(ctx.preview.view, found));
  patch(element, {
    class: `b-row b-links${compact ? " compact" : ""}${thin ? " thin" : ""}${last && !mine.length && !notes.length ? " last" : ""}`,
  });
  const shown = mine.slice(0, compact ? 1 : 2);
  const rows = [
    ...(compact ? [] : notes.map((note, i) => ({ key: `note${i}`, note }))),
    ...shown.map((link) => ({
      key: `to:${link.to_lane}:${link.kind}`,
      link,
      far: ctx.order.get(link.to_lane) !== ctx.order.get(lane.id) + 1,
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
      if (row.note) patch(div.lastChild, { text: typeset(row.note) });
      else if (row.more)
        patch(div.lastChild, {
          text: `and ${plural(row.more.length, "more link")}, ${bytes(row.more.reduce((sum, link) => sum + (link.step_bytes ?? 0), 0))} a step`,
        });
      else drawLink(ctx, div, row, compact);
    },
  );
}

function drawLink(ctx, div, { link, far }, compact) {
  const name = `${far ? `to ${shortName(ctx.lane(link.to_lane)?.name ?? link.to_lane)}, ` : ""}${link.name ?? KIND_NAMES[link.kind] ?? link.kind}`;
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
  patch(div, { title: `${name}: ${words}`, role: "img", "aria-label": `${name}: ${words}` });
  patch(label, { text: compact ? "" : name });
  patch(arrow, {
    class: `b-arrow b-k-${linkClass(link.kind)}${link.dashed ? " dashed" : ""}${link.backward_bytes ? " both" : ""}`,
  });
  patch(arrow.firstChild, { style: { height: `${linkThickness(link.step_bytes)}px` } });
  patch(text, { text: compact ? "" : words });
}
