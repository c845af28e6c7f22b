// Schedules: every registered one under its group, what it comes to on the plan shown, and two of them in words.

import { copyButtons } from "../common/copying.js";
import { h, keyed, set, triangle } from "../common/dom.js";
import { bytes } from "../common/format.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { byGroup, cells, deviceWords, footWords, stateWords } from "./words.js";

const HEADS = [
  ["Schedule", ""],
  ["Bubble", "Share of a step in which devices are idle"],
  ["Activations", "Most bytes of activations on the fullest device; a bar for each stage's devices"],
  ["Versions", "Most versions of its weights that a stage keeps"],
  ["Step", "Seconds of a step, and against the schedule on the board"],
];

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "schedules", "Schedules");
  const sub = h("span", { class: "sx-sub" });
  const said = h("ul", { class: "s-said", "aria-label": "Difference between A and B" });
  const body = h("div", { class: "s-scroll" });
  const table = h(
    "table",
    { class: "s-table", on: { click: pressed } },
    h("caption", { class: "sx-live", text: "Schedules by group" }),
    h("thead", {}, h("tr", {}, ...HEADS.map(([text, title], i) => h("th", { scope: "col", text, title: title || null, class: i ? "n" : null })), h("td", {}))),
  );
  body.append(table);
  const copying = copyButtons(() => table);
  const empty = h("p", { class: "sx-empty", text: "Load a model and a cluster first." });
  root.append(h("div", { class: "sx-head" }, h("h2", { text: "Schedules" }), sub), said, body, copying, empty);
  const sync = new Sync(model, ["view"], draw, true);

  function pressed(event) {
    const button = event.target.closest("button[data-kind]");
    if (button) sync.send(button.dataset.kind, { schedule: button.dataset.schedule });
  }

  function draw() {
    const view = model.get("view") ?? {};
    const groups = byGroup(view);
    const shown = (view.rows ?? []).find((row) => row.shown)?.figures;
    const most = Math.max(0, ...(view.rows ?? []).flatMap((row) => row.figures?.activation_bytes ?? []));
    set(sub, { text: view.text ?? "" });
    root.setAttribute("aria-busy", String((view.rows ?? []).some((row) => row.state === "waiting")));
    table.hidden = !groups.length;
    empty.hidden = Boolean(groups.length) || !model.get("visible");
    copying.hidden = !groups.length;
    said.hidden = !view.difference?.length;
    keyed(said, view.difference ?? [], (text) => text, () => h("li", {}), (li, text) => set(li, { text })); // prettier-ignore
    keyed(
      table,
      groups,
      (group) => group.name,
      () => h("tbody", {}, h("tr", { class: "s-group" }, h("th", { colspan: "6", scope: "rowgroup" }, h("b", {}), h("span", {})))),
      (element, group) => {
        const [name, title] = element.rows[0].firstChild.children;
        set(name, { text: group.name });
        set(title, { text: group.title });
        keyed(element, group.rows, (row) => row.name, makeRow, (tr, row) => drawRow(tr, row, shown, most, view)); // prettier-ignore
      },
    );
  }
  draw();
  const unwatch = watchSight(root, (seen) => {
    if (Boolean(model.get("visible")) !== seen) sync.set("visible", seen);
  });
  return () => {
    unwatch();
    sync.close();
    close();
    root.remove();
  };
}

/** Tell whether an element is in sight: in an open tab, scrolled to or nearly so. */
function watchSight(element, tell) {
  const observer = new IntersectionObserver((entries) => tell(entries[entries.length - 1].isIntersecting), { rootMargin: "200px" });
  observer.observe(element);
  return () => observer.disconnect();
}

function makeRow() {
  const cell = (cls) => h("td", { class: `n ${cls}` });
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("div", {}, h("b", {}), h("em", {})), h("span", {}), h("small", {})),
    cell("s-bubble"),
    h("td", { class: "n s-activations" }, h("span", { class: "s-bars", role: "img" }), h("span", {})),
    cell("s-versions"),
    h("td", { class: "n s-step" }, h("b", {}), h("small", {})),
    h(
      "td",
      { class: "s-state" },
      h("span", { class: "s-why" }, triangle(), h("span", {})),
      h("span", { class: "s-acts" }, ...["use", "beside", "count"].map((kind) => h("button", { class: "sx-btn", "data-kind": kind }))),
    ),
  );
}

const LABELS = { use: "Use", beside: "Beside", count: "Simulate" };

function drawRow(tr, row, shown, most, view) {
  const [head, bubble, activations, versions, step, state] = tr.children;
  const [name, title, foot] = head.children;
  const text = cells(row, shown);
  set(tr, { "data-schedule": row.name, class: [row.shown ? "shown" : "", row.beside ? "beside" : "", row.state].filter(Boolean).join(" ") });
  set(name.firstChild, { text: row.name });
  set(name.lastChild, { text: row.shown ? (view.names?.[1] ? "A, on the board" : "on the board") : row.beside ? "B" : "" });
  set(title, { text: row.title });
  set(foot, { text: footWords(row) });
  set(bubble, { text: text.bubble });
  drawDevices(activations.firstChild, row, most, view.lanes ?? []);
  set(activations.lastChild, { text: text.activations });
  set(versions, { text: text.versions });
  set(step.firstChild, { text: text.step });
  set(step.lastChild, { text: text.change, class: row.figures?.over_bytes > 0 ? "over" : null });
  if (row.figures?.over_bytes > 0) set(step.lastChild, { text: `${text.change}${text.change ? "; " : ""}${bytes(row.figures.over_bytes)} over` });
  const [why, acts] = state.children;
  const words = stateWords(row);
  why.hidden = !words;
  why.firstChild.toggleAttribute("hidden", !row.problem);
  set(why.lastChild, { text: words });
  for (const button of acts.children) {
    const { kind } = button.dataset;
    button.hidden = row.shown || Boolean(row.problem) || (kind === "count" && row.state !== "asked") || (kind === "beside" && row.beside);
    set(button, { text: LABELS[kind], "data-schedule": row.name, "aria-label": `${LABELS[kind]} ${row.name}`, title: titleOf(kind, row) });
  }
}

function titleOf(kind, row) {
  if (kind === "use") return `Put ${row.name} on the board; Undo takes it back`;
  if (kind === "beside") return `Draw ${row.name} as plan B below the plan shown, on one axis`;
  return `Simulate ${row.name}: it is large or slow, so it is not simulated unasked`;
}

/** A bar for each stage's devices, on one scale for all schedules. */
function drawDevices(place, row, most, lanes) {
  place.hidden = !row.figures;
  if (!row.figures) return;
  const words = deviceWords(row, lanes);
  set(place, { "aria-label": words, title: words });
  keyed(
    place,
    row.figures.activation_bytes.map((size, i) => ({ size, i })),
    ({ i }) => String(i),
    () => h("i", {}),
    (bar, { size }) => set(bar, { style: { height: `${most ? Math.max(4, (100 * size) / most) : 0}%` } }),
  );
}

export default { render: linked(render) };
