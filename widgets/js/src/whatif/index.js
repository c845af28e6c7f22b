// What if: sliders over the plan shown, and its figures beside those of the variation. Python simulates.

import { bold, h, heading, keyed, set, triangle } from "../common/dom.js";
import { typeset } from "../common/format.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { deltaText, valueText } from "../tiles/words.js";
import { drawSlider, makeSlider } from "./slider.js";

const HEAD = ["", "now", "then", "change"];

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "whatif", "What if");
  const sliders = h("div", { class: "w-sliders" });
  const body = h("tbody", {});
  const head = h("tr", {}, HEAD.map((text) => h(text ? "th" : "td", { text, scope: text ? "col" : null })));
  const table = h("table", { class: "w-table", "aria-label": "Figures now and then" }, h("thead", {}, head), body);
  const verdict = makeVerdict((action) => sync.send("action", { action }));
  const empty = h("p", { class: "sx-empty", text: "No plan yet: choose a model and a cluster." });
  const columns = h("div", { class: "w-columns" }, sliders, h("div", { class: "w-result" }, table));
  root.append(heading("What if", "the plan shown, simulated anew; nothing changes before Apply"), columns, verdict, empty);
  const sync = new Sync(model, ["view"], draw);
  let waiting = null; // the newest value that was not sent yet: an answer is still awaited
  function change(key, value, final) {
    if (sync.pending && !final) waiting = { key, value };
    else {
      waiting = null;
      sync.send("set", { key, value });
    }
    root.dataset.state = "computing";
  }
  function draw() {
    if (waiting && !sync.pending) {
      const next = waiting;
      waiting = null;
      sync.send("set", next);
    }
    const view = model.get("view") ?? {};
    const there = (view.sliders ?? []).length > 0;
    columns.hidden = verdict.hidden = !there;
    empty.hidden = there;
    root.dataset.state = sync.pending ? "computing" : "ready";
    keyed(
      sliders,
      view.sliders ?? [],
      (field) => field.key,
      () => makeSlider(change),
      (element, field) => drawSlider(element, field, sync.pending),
    );
    keyed(body, view.rows ?? [], (row) => row.key, makeRow, drawRow);
    drawVerdict(verdict, view);
  }
  draw();
  return () => {
    sync.close();
    close();
    root.remove();
  };
}

function makeRow() {
  return h("tr", {}, h("th", { scope: "row" }), h("td", {}), h("td", {}, triangle(), h("span", {})), h("td", {}));
}

function drawRow(element, row) {
  const [name, now, then, change] = element.children;
  const tell = (value) => `${valueText(row, value)}${row.unit && row.quantity === "per_second" ? ` ${row.unit}` : ""}`;
  set(element, { "data-figure": row.key, class: row.level ?? "" });
  set(name, { text: row.name });
  set(now, { text: tell(row.now) });
  set(then.lastChild, { text: row.then == null ? "–" : tell(row.then) });
  set(change, { text: deltaText({ ...row, value: row.then, baseline: row.now }) ?? "" });
}

function makeVerdict(act) {
  return h(
    "div",
    { class: "w-verdict" },
    triangle(),
    h("span", { class: "w-said", role: "status", "aria-live": "polite" }),
    h("span", { class: "w-note" }),
    h("span", {
      class: "w-actions",
      on: {
        click: (event) => {
          const button = event.target.closest("[data-action]");
          if (button && button.getAttribute("aria-disabled") !== "true") act(button.dataset.action);
        },
      },
    }),
  );
}

function drawVerdict(element, { verdict, note, actions }) {
  const [, text, beside, buttons] = element.children;
  set(element, { "data-level": verdict?.level ?? "none" });
  const said = typeset(verdict?.text ?? "");
  if (text.dataset.text !== said) {
    text.dataset.text = said;
    text.replaceChildren(...bold(said));
  }
  set(beside, { text: note ?? "" });
  keyed(
    buttons,
    actions ?? [],
    (a) => a.action,
    () => h("button", { class: "sx-btn" }),
    (button, a) =>
      set(button, {
        text: a.label,
        "data-action": a.action,
        title: a.title ?? null,
        "aria-disabled": a.enabled === false ? "true" : null,
        class: `sx-btn${a.suggested && a.enabled !== false ? " suggested" : ""}`,
      }),
  );
}

export default { render: linked(render) };
