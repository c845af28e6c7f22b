// The sentence that judges the strategy, with progress and buttons. It is the widget's live region.

import { bold, h, keyed, set, svg, triangle } from "../common/dom.js";
import { typeset } from "../common/format.js";

/** @param {(action: string) => void} act */
export function makeVerdict(act) {
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

export function drawVerdict(element, verdict) {
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
    text.replaceChildren(...bold(typeset(verdict.text)));
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

/** While a preview lasts the sentence keeps its height and is not read out at every pixel of a drag. */
export function holdVerdict(element, held) {
  if ((element.dataset.held === "true") === held) return;
  element.style.height = held ? `${element.getBoundingClientRect().height}px` : "";
  element.dataset.held = String(held);
  element.querySelector(".t-text").setAttribute("aria-live", held ? "off" : "polite");
}

const tick = () =>
  svg(
    "svg",
    { width: 20, height: 20, viewBox: "0 0 20 20" },
    svg("circle", { cx: 10, cy: 10, r: 9 }),
    svg("path", { d: "M5.8 10.3l2.9 2.9 5.6-6" }),
  );
