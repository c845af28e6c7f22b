// KPI tiles and the sentence that judges the strategy.

import { bold, h, keyed, set, svg, triangle } from "../common/dom.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { bandOf, deltaText, measuredText, outside, valueParts } from "./words.js";

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "tiles", "Predicted figures");
  const tiles = h("div", { class: "t-tiles" });
  const verdict = makeVerdict((action) => sync.send("action", { action }));
  root.append(tiles, verdict);
  const sync = new Sync(model, ["view"], draw);
  function draw() {
    const view = model.get("view") ?? {};
    root.dataset.state = view.pending || sync.pending ? "computing" : "ready";
    tiles.hidden = !view.tiles?.length;
    tiles.style.setProperty("--count", view.tiles?.length ?? 1);
    keyed(tiles, view.tiles ?? [], (tile) => tile.key, makeTile, drawTile);
    drawVerdict(verdict, view.verdict);
  }
  draw();
  return () => {
    sync.close();
    close();
    root.remove();
  };
}

function makeTile() {
  return h(
    "div",
    { class: "t-tile", role: "group" },
    h("div", { class: "t-name" }),
    h("div", { class: "t-value" }, triangle(), h("span", { class: "t-number" }), h("small", {})),
    h("div", { class: "t-delta" }, h("b", {}), h("span", {})),
    h("div", { class: "t-measured" }, h("span", { class: "t-band t-opt" }), h("span", {}), h("b", {})),
  );
}

function drawTile(element, tile) {
  const { text, unit } = valueParts(tile);
  const [name, value, delta, measured] = element.children;
  set(element, { "data-kpi": tile.key, class: `t-tile ${tile.level ?? ""}`, "aria-label": `${tile.name} ${text} ${unit}` });
  set(name, { text: tile.name });
  set(value.querySelector(".t-number"), { text });
  const small = value.querySelector("small");
  if (small.dataset.text !== `${unit}|${tile.context ?? ""}`) {
    small.dataset.text = `${unit}|${tile.context ?? ""}`;
    small.replaceChildren(unit, tile.context ? h("span", { class: "t-opt", text: ` ${tile.context}` }) : "");
  }
  const change = deltaText(tile);
  set(delta.firstChild, { text: change ?? "" });
  set(delta.lastChild, { text: change == null ? "" : tile.baseline_name ? `vs ${tile.baseline_name}` : "vs baseline" });
  const line = measuredText(tile);
  set(measured.children[1], { text: line.lead });
  set(measured.children[2], { text: line.value });
  const out = outside(tile);
  set(measured, {
    class: `t-measured${out ? " outside" : ""}`,
    title: out ? "The measurement lies outside the predicted error band" : null,
  });
  const band = bandOf(tile);
  measured.firstChild.replaceChildren(...(band ? [drawBand(band)] : []));
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

function makeVerdict(act) {
  return h(
    "div",
    { class: "t-verdict" },
    h("span", { class: "t-icon", "aria-hidden": "true" }),
    h("div", { class: "t-text", "aria-live": "polite", role: "status" }),
    h(
      "span",
      { class: "t-meter", role: "progressbar", "aria-label": "progress", "aria-valuemin": "0", "aria-valuemax": "100" },
      h("i", {}),
    ),
    h("span", { class: "t-note" }),
    h("span", {
      class: "t-actions",
      on: {
        click: (event) => {
          const action = event.target.closest("[data-action]")?.dataset.action;
          if (action) act(action);
        },
      },
    }),
  );
}

function drawVerdict(element, verdict) {
  element.hidden = !verdict;
  if (!verdict) return;
  const [icon, text, meter, note, actions] = element.children;
  set(element, { "data-level": verdict.level });
  if (icon.dataset.level !== verdict.level) {
    icon.dataset.level = verdict.level;
    icon.replaceChildren(
      ...(verdict.level === "ok" ? [tick()] : verdict.level === "bad" || verdict.level === "warn" ? [triangle("big")] : []),
    );
  }
  if (text.dataset.text !== verdict.text) {
    text.dataset.text = verdict.text;
    text.replaceChildren(...bold(verdict.text));
  }
  const share = verdict.progress;
  meter.hidden = share == null;
  set(meter, { "aria-valuenow": share == null ? null : Math.round(share * 100) });
  set(meter.firstChild, { style: { width: `${Math.min(100, (share ?? 0) * 100)}%` } });
  set(note, { text: verdict.note ?? "" });
  keyed(
    actions,
    verdict.actions ?? [],
    (a) => a.action,
    () => h("button", { class: "sx-btn" }),
    (button, a) =>
      set(button, {
        text: a.label,
        "data-action": a.action,
        title: a.title ?? null,
        class: `sx-btn${a.suggested ? " suggested" : ""}`,
      }),
  );
}

const tick = () =>
  svg(
    "svg",
    { width: 20, height: 20, viewBox: "0 0 20 20" },
    svg("circle", { cx: 10, cy: 10, r: 9 }),
    svg("path", { d: "M5.8 10.3l2.9 2.9 5.6-6" }),
  );

export default { render };
