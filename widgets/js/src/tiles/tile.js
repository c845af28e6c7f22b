// One figure: name, value, difference, and the third line: measured, the predicted band, or what it is now.

import { h, set, svg, triangle } from "../common/dom.js";
import { known, typeset } from "../common/format.js";
import { bandOf, bandText, bandTitle, NO_BAND, deltaText, measuredText, outside, valueParts } from "./words.js";

export function makeTile() {
  return h(
    "div",
    { class: "t-tile", role: "group" },
    h("div", { class: "t-name" }, h("span", {}), h("button", { class: "t-half", "aria-expanded": "false" })),
    h("div", { class: "t-value" }, triangle(), h("span", { class: "t-number" }), h("small", {})),
    h("div", { class: "t-delta" }, h("b", {}), h("span", {})),
    h("div", { class: "t-measured" }, h("span", { class: "t-band t-opt" }), h("span", {}), h("b", {})),
  );
}

export function drawTile(element, tile) {
  const { text, unit } = valueParts(tile);
  const [name, value, delta, measured] = element.children;
  const worse = tile.level === "bad" ? ", too much" : tile.level === "warn" ? ", tight" : "";
  set(element, {
    "data-kpi": tile.key,
    class: `t-tile ${tile.level ?? ""}${tile.preview ? " preview" : ""}${tile.waits ? " waits" : ""}`,
    "aria-label": `${tile.name} ${text} ${unit} ${tile.context ?? ""}${worse}`.replace(/\s+/g, " ").trim(),
  });
  set(name.firstChild, { text: tile.name, title: tile.name });
  const half = bandText(tile);
  const unknown = known(tile.value) && !half; // its band is still worked out, or cannot be
  const said = half ? bandTitle(tile) : NO_BAND;
  name.lastChild.hidden = !half && !unknown;
  set(name.lastChild, {
    text: half ?? "±?",
    title: said,
    "aria-label": `How sure is ${tile.name}: ${half ?? "not known"}`,
    "data-sure": tile.key,
  });
  set(value.querySelector(".t-number"), { text });
  const small = value.querySelector("small");
  if (small.dataset.text !== `${unit}|${tile.context ?? ""}`) {
    small.dataset.text = `${unit}|${tile.context ?? ""}`;
    small.replaceChildren(unit, tile.context ? h("span", { class: "t-opt", text: ` ${tile.context}` }) : "");
  }
  const change = deltaText(tile);
  const same = change != null && !tile.preview && !/[1-9]/.test(change);
  set(delta.firstChild, { text: same ? "" : (change ?? "") });
  set(delta.lastChild, { text: same ? against(tile, change).replace(/^vs/, "same as") : against(tile, change) });
  const line = measuredText(tile);
  set(measured.children[1], { text: typeset(line.lead) });
  set(measured.children[2], { text: line.value });
  const out = outside(tile);
  set(measured, {
    class: `t-measured${out ? " outside" : ""}`,
    "aria-label": out ? `${line.lead} ${line.value}, outside the predicted error band` : null,
    role: out ? "note" : null,
  });
  const band = tile.note && tile.measured == null ? null : bandOf(tile); // no room for both
  const look = JSON.stringify(band);
  if (measured.firstChild.dataset.look === look) return;
  measured.firstChild.dataset.look = look;
  measured.firstChild.replaceChildren(...(band ? [drawBand(band)] : []));
}

function against(tile, change) {
  if (tile.waits) return "known on release";
  if (change == null) return "";
  if (tile.preview) return "against now";
  return tile.baseline_name ? `vs ${tile.baseline_name}` : "vs baseline";
}

/** Band = predicted error band, tick = predicted, dot = measured. */
function drawBand({ low, high, value, measured }) {
  const x = (t) => 2 + t * 60;
  return svg(
    "svg",
    { width: 64, height: 12, "aria-hidden": "true", class: "t-opt" },
    svg("line", { x1: 0, x2: 64, y1: 6, y2: 6, class: "t-axis" }),
    svg("rect", { x: x(low), y: 3, width: Math.max(1, x(high) - x(low)), height: 6, rx: 1, class: "t-range" }),
    svg("line", { x1: x(value), x2: x(value), y1: 1, y2: 11, class: "t-tick" }),
    measured == null ? null : svg("circle", { cx: x(measured), cy: 6, r: 3.2, class: "t-dot" }),
  );
}
