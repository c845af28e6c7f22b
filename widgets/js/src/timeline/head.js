// The heading of the timeline: its buttons, and what the colours mean.

import { h, heading, keyed } from "../common/dom.js";
import { keysButton } from "../common/keys.js";
import { pictureButtons } from "../common/picture.js";
import { FIRST_WIRE, KIND_NAMES } from "./bars.js";

/** @param {any} view the timeline @returns {{head: Element, title: Element, legend: Element, criticalButton: Element, linksButton: Element, momentButton: Element, editButton: Element, traceButton: Element}} */
export function buildHead(view) {
  const button = (text, action, title, work, pressed) =>
    h("button", {
      class: "sx-btn",
      text,
      title,
      "aria-label": text.length < 3 ? title : null,
      "aria-pressed": pressed ?? null,
      "data-action": action,
      on: { click: work },
    });
  const move = (work) => () => {
    work(view.window);
    view.paint();
  };
  const head = heading("Timeline", "");
  const legend = h("span", { class: "sx-legend" });
  const criticalButton = button("Critical path", "critical", "Outline the chain that decides the end (C)", () => view.toggle("critical"), "false");
  const editButton = button("Edit order", "edit-order", "", () => view.editor.toggle(), "false");
  const momentButton = button("At cursor", "moment", "Memory at the cursor, by part and by its largest tensors (T)", () => view.moment.toggle(), "false");
  const linksButton = button("Links", "links", "Show how busy each link is (L)", () => view.toggle("links_shown"), "false");
  const traceButton = button("Chrome trace", "trace", "Download the step as a trace for Perfetto or chrome://tracing", () => view.sync.send("trace"));
  head.append(
    h("span", { class: "sx-space" }),
    legend,
    h("span", { class: "sx-seg" }, criticalButton, linksButton, momentButton, editButton),
    h(
      "span",
      { class: "sx-seg", role: "group", "aria-label": "Time range" },
      button("‹", "pan-left", "Earlier (A)", move((window) => window.pan(-0.3))),
      button("−", "zoom-out", "Zoom out (S)", move((window) => window.zoom(2))),
      button("Whole", "zoom-all", "Whole step (0)", move((window) => window.all())),
      button("+", "zoom-in", "Zoom in (W)", move((window) => window.zoom(0.5))),
      button("›", "pan-right", "Later (D)", move((window) => window.pan(0.3))),
    ),
    h(
      "span",
      { class: "sx-acts" },
      traceButton,
      view.table.button,
      pictureButtons("timeline"),
      keysButton("timeline"),
    ),
  );
  return { head, title: head.querySelector("h2"), legend, criticalButton, linksButton, momentButton, editButton, traceButton };
}

/** The kinds of bars that there are, and the bubble. */
export function drawLegend(legend, plans) {
  const kinds = [...new Set(plans.flatMap((plan) => [...plan.bars.kinds]))].sort((a, b) => a - b);
  keyed(
    legend,
    [...kinds, "bubble"],
    String,
    (kind) =>
      h(
        "span",
        {},
        h("i", { class: kind === "bubble" ? "tl-bubble" : `tl-k${kind}${kind >= FIRST_WIRE ? " line" : ""}` }),
        kind === "bubble" ? "bubble" : KIND_NAMES[kind],
      ),
    () => {},
  );
}
