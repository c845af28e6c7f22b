// History: every state that undo and redo can reach, newest first; plan files in and out; the report.

import { copy, copyButtons } from "../common/copying.js";
import { download } from "../common/download.js";
import { h, keyed, set, triangle } from "../common/dom.js";
import { bytes, plural } from "../common/format.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { onEnough, openingWords, Telling } from "../common/working.js";
import { cells, mark, nextRow, spoken } from "./words.js";

const COLUMNS = [
  ["time", "time"],
  ["note", "what was done"],
  ["maker", "by"],
  ["step", "step time"],
  ["change", "change"],
  ["memory", "memory"],
  ["fits", ""],
  ["mark", ""],
];
const NUMBERS = new Set(["step", "change", "memory"]);

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "states", "History");
  let chosen = null; // number of the row with the focus
  const act = (action) => () => sync.send("action", { action });
  const button = (text, action, click, title) =>
    h("button", { class: "sx-btn", text, "data-action": action, title, on: { click } });
  const go = button("Go to selected", "go", () => send("go"), "The same as so many steps of Undo or Redo; Enter does it too");
  const compare = button("Compare with selected", "compare-state", () => send("compare"), "Make it plan B in every view; c does it too");
  const head = h("div", { class: "sx-head" }, h("h2", { text: "History" }), h("span", { class: "sx-sub" }), h("span", { class: "sx-space" }), go, compare);
  const offerButton = button("Reopen", "reopen", act("reopen"), "All states, pins, plan B and the selection as they were");
  offerButton.classList.add("suggested");
  const offer = h("div", { class: "h-offer" }, h("span", {}), offerButton);
  const table = h(
    "table",
    { class: "h-table", role: "grid", "aria-label": "States, newest first: Enter goes to one, c compares with one", on: { click, keydown, focusin } },
    h("thead", {}, h("tr", {}, COLUMNS.map(([key, label]) => h(label ? "th" : "td", { text: label, class: classOf(key), scope: label ? "col" : null })))),
    h("tbody", {}),
  );
  const copying = copyButtons(() => table);
  const empty = h("p", { class: "sx-empty", text: "Nothing is loaded yet." });
  const files = makeFiles();
  const shared = makeShared();
  const saved = h("p", { class: "h-saved sx-sub", role: "status" });
  const remarks = h("ul", { class: "h-remarks sx-sub" });
  root.append(head, offer, h("div", { class: "h-scroll", tabindex: "-1" }, table), copying, empty, files.element, shared.element, saved, remarks);
  const sync = new Sync(model, ["view"], draw, true);
  const bench = () => model.get("bench") ?? "";
  const telling = new Telling(bench, () => sync.pending, root);
  const unheard = onEnough(bench, () => telling.told && model.send({ cancel: true }));
  const loaded = () => save();
  model.on("change:download", loaded);
  let last = model.get("download")?.number ?? 0;

  const rows = () => model.get("view")?.rows ?? [];
  const rowAt = (event) => rows().find((row) => String(row.number) === event.target.closest("tbody tr")?.dataset.row);

  function send(kind, number = chosen) {
    if (number != null) sync.send(kind, { number });
  }
  function click(event) {
    const row = rowAt(event);
    if (!row) return;
    choose(row.number);
    if (!row.shown) send("go", row.number);
  }
  function focusin(event) {
    const row = rowAt(event);
    if (row) choose(row.number);
  }
  function choose(number) {
    if (chosen === number) return;
    chosen = number;
    draw();
  }
  function keydown(event) {
    const row = rowAt(event);
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (!row.shown) send("go", row.number);
    } else if (event.key === "c") {
      event.preventDefault();
      if (!row.shown) send("compare", row.number);
    } else {
      const all = [...table.tBodies[0].rows];
      const to = nextRow(event.key, all.indexOf(event.target.closest("tr")), all.length);
      if (to == null) return;
      event.preventDefault();
      all[to].focus();
    }
  }

  /** Python has made a file: save it, and say so. */
  function save() {
    const wanted = model.get("download") ?? {};
    if (!wanted.number || wanted.number === last) return;
    last = wanted.number;
    const data = model.get("data");
    const size = data?.byteLength ?? 0;
    download(wanted.name, [data], wanted.type);
    set(files.done, { text: `${wanted.name}, ${bytes(size)}, is in your downloads.` });
  }

  function makeFiles() {
    const path = h("input", { class: "h-path", type: "text", spellcheck: "false", autocomplete: "off", "data-field": "open_path", "aria-describedby": `h-error-${++count}` });
    const error = h("em", { class: "h-error", id: `h-error-${count}`, role: "alert" });
    const picker = h("input", { type: "file", accept: ".yaml,.yml,.json,.toml,.sh,.py,.txt", class: "sx-live", tabindex: "-1", "aria-hidden": "true", "data-field": "upload" });
    const ask = (kind, fields, name) => {
      sync.send(kind, fields);
      telling.begin(openingWords(name));
    };
    const open = () => path.value.trim() && ask("open_path", { path: path.value.trim() }, path.value.trim());
    path.addEventListener("keydown", (event) => event.key === "Enter" && open());
    picker.addEventListener("change", async () => {
      const file = picker.files?.[0];
      picker.value = ""; // the same file again is a change as well
      if (!file) return;
      if (file.size > 16 * 2 ** 20) set(error, { text: `${file.name} is too long for a plan: ${bytes(file.size)}` });
      else ask("open_text", { name: file.name, text: await file.text() }, file.name);
    });
    const done = h("span", { class: "sx-sub", role: "status" });
    const save = button("Save plan", "save_plan", act("save_plan"), "The plan shown as a file; open it here, or with the command line");
    const share = button("Copy plan as text", "share_plan", act("share_plan"), "One short text to send in a message; whoever pastes it into the field here has this plan");
    const report = button("Make report", "make_report", act("make_report"), "One HTML file with everything on this page, to send to someone; opens without network");
    const element = h(
      "div",
      { class: "h-files" },
      h("label", { class: "h-open" }, h("span", { text: "A plan or its text, a session, a trainer's config" }), path),
      button("Open", "open_path", open),
      button("Choose file…", "upload", () => picker.click()),
      picker,
      h("span", { class: "h-gap" }),
      save,
      share,
      report,
      error,
      done,
    );
    return { element, path, error, done, buttons: [save, share, report] };
  }

  function draw() {
    telling.answered();
    const view = model.get("view") ?? {};
    const list = rows();
    const at = list.find((row) => row.shown);
    const focusable = list.find((row) => row.number === chosen) ?? at ?? list[0];
    const selected = list.find((row) => row.number === chosen);
    go.disabled = compare.disabled = !selected || selected.shown;
    for (const button of [go, compare]) set(button, { title: button.disabled ? "Select another state in the table first" : null });
    set(head.querySelector(".sx-sub"), { text: list.length ? plural(list.length, "state") : "" });
    offer.hidden = !view.offer;
    set(offer.firstChild, { text: view.offer ? `${view.offer}.` : "" });
    table.hidden = !list.length;
    empty.hidden = list.length > 0;
    copying.hidden = !list.length;
    keyed(table.tBodies[0], list, (row) => String(row.number), makeRow, (element, row) =>
      drawRow(element, row, row === selected, row === focusable),
    );
    drawFiles(files, view);
    drawShared(shared, view.shared);
    set(saved, { text: view.problem ? `Not saved: ${view.problem}` : (view.saved ?? ""), "data-level": view.problem ? "error" : null });
    keyed(remarks, view.remarks ?? [], (text) => text, () => h("li", {}), (element, text) => set(element, { text }));
    remarks.hidden = !view.remarks?.length;
  }
  draw();
  return () => {
    model.off("change:download", loaded);
    unheard();
    telling.stop();
    sync.close();
    close();
    root.remove();
  };
}

let count = 0;

const classOf = (key) => `h-${key}${NUMBERS.has(key) ? " n" : ""}`;

function makeRow() {
  return h("tr", { tabindex: "-1" }, COLUMNS.map(([key]) => h(key === "note" ? "th" : "td", { class: classOf(key), scope: key === "note" ? "row" : null })));
}

function drawRow(element, row, selected, focusable) {
  set(element, {
    "data-row": String(row.number),
    tabindex: focusable ? "0" : "-1",
    "aria-selected": String(selected),
    "aria-current": row.shown ? "step" : null,
    "aria-label": spoken(row),
    title: row.shown ? null : "Click or Enter shows this state",
  });
  const texts = { ...cells(row), mark: mark(row) };
  COLUMNS.forEach(([key], i) => {
    const cell = element.children[i];
    set(cell, { "data-level": key === "fits" && row.over_bytes > 0 ? "bad" : null });
    if (cell.dataset.text === texts[key]) return;
    cell.dataset.text = texts[key];
    cell.replaceChildren(...(key === "fits" && row.over_bytes > 0 ? [triangle()] : []), texts[key]);
  });
}

function drawFiles({ path, error, buttons }, view) {
  const { value = "", error: complaint = null } = view.file ?? {};
  if (path.dataset.sent !== value || path.dataset.error !== String(complaint)) {
    path.value = value;
    path.dataset.sent = value;
    path.dataset.error = String(complaint);
    set(error, { text: complaint ?? "" });
    set(path, { "aria-invalid": complaint ? "true" : null });
  }
  for (const button of buttons) button.disabled = !view.ready;
}

/** The plan as a text: selected when the field is entered, so that it can be copied by hand where nothing else may. */
function makeShared() {
  const text = h("textarea", { class: "h-text", readonly: "", rows: "3", spellcheck: "false", "aria-label": "The plan shown, as a text", on: { focus: () => text.select() } });
  const note = h("span", { class: "sx-sub", role: "status" });
  return { element: h("div", { class: "h-shared", hidden: true }, text, note), text, note, number: 0 };
}

/** @param {any} given `view.shared`; a number that was not seen is copied */
function drawShared(shared, given) {
  shared.element.hidden = !given;
  if (!given) shared.number = 0;
  if (!given || given.number === shared.number) return;
  shared.number = given.number;
  shared.text.value = given.text;
  copy(given.text, shared.element).then((done) =>
    set(shared.note, { text: `${done ? "Copied" : "Copy it from here"}: ${given.note}.` }),
  );
}

export default { render: linked(render) };
