// Export: target tabs, files with their preview, copy and download, what each target can express.

import { h, keyed, set, triangle } from "../common/dom.js";
import { bytes, plural } from "../common/format.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { drawAnswers, drawRefusals } from "./answers.js";
import { drawTable } from "./capabilities.js";
import { drawChanges } from "./changes.js";
import { copy, download } from "./handing.js";
import { tint } from "./tint.js";
import { zip } from "./zip.js";

const PREVIOUS = { ArrowLeft: -1, ArrowUp: -1 };
const NEXT = { ArrowRight: 1, ArrowDown: 1 };

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "export", "Export");
  const page = makePage(root, {
    target: (name) => sync.set("target", name),
    file: (name) => sync.set("file", name),
    act: (action) => sync.send("action", { action }),
  });
  const sync = new Sync(model, ["view", "target", "file"], draw, true);
  function draw() {
    const view = model.get("view") ?? {};
    const target = model.get("target");
    const other = Boolean(view.target) && view.target !== target; // chosen a moment ago: what is shown is not its own
    page.draw(view, target, model.get("file"), Boolean(view.pending) || sync.pending || other);
  }
  draw();
  return () => {
    sync.close();
    close();
    root.remove();
  };
}

function makePage(root, tell) {
  const buttons = h(
    "span",
    { class: "ex-buttons" },
    h("button", { class: "sx-btn", "data-action": "copy", text: "Copy" }),
    h("button", { class: "sx-btn", "data-action": "download", text: "Download" }),
    h("button", { class: "sx-btn suggested", "data-action": "download-zip", text: "Download .zip" }),
  );
  const sub = h("span", { class: "sx-sub" });
  const said = h("span", { class: "ex-said", role: "status", "aria-live": "polite" });
  const head = h("div", { class: "sx-head" }, h("h2", { text: "Export" }), sub, h("span", { class: "sx-space" }), said, buttons);
  const empty = h(
    "div",
    { class: "ex-empty sx-empty" },
    h("p", {
      text: "Nothing exported yet. The files of a target are made from the plan on the board, shown here, and follow every edit; nothing is written on this machine until you download.",
    }),
    h("button", { class: "sx-btn suggested", "data-action": "export", text: "Show the files", on: { click: () => tell.act("export") } }),
  );
  const tabs = h("div", { class: "ex-tabs", role: "tablist", "aria-label": "Targets" });
  const what = h("span", {});
  const documentation = h("a", { class: "ex-link", target: "_blank", rel: "noopener noreferrer", "data-action": "documentation" });
  const title = h("p", { class: "ex-title sx-sub" }, what, documentation);
  const refusals = h("div", { class: "ex-refused", role: "alert" });
  const answers = h("section", { class: "ex-answers", "aria-label": "What the target makes of this plan" });
  const changes = h("section", { class: "ex-changes", "aria-label": "Changes since the baseline" });
  const beside = h("div", { class: "ex-beside" }, answers, changes);
  const files = h("div", { class: "ex-files", role: "listbox", "aria-label": "Files" });
  const preview = h("pre", { class: "ex-pre", tabindex: "0", role: "region" });
  const omitted = h("p", { class: "ex-omitted sx-sub" });
  const body = h("div", { class: "ex-body" }, files, h("div", { class: "ex-shown" }, preview, omitted));
  const checks = h("ul", { class: "ex-checks" });
  const checkButton = h("button", {
    class: "sx-btn",
    "data-action": "check_export",
    text: "Check that it loads back",
    on: { click: () => tell.act("check_export") },
  });
  const table = h("div", { class: "ex-table" });
  const panel = h("div", { class: "ex-panel", role: "tabpanel", tabindex: "-1" }, title, refusals, beside, body, checks, checkButton);
  root.append(head, empty, tabs, panel, table);

  let shown = { view: {}, file: null };
  choose(tabs, (name) => tell.target(name));
  choose(files, (name) => tell.file(name));
  buttons.addEventListener("click", async (event) => {
    const action = event.target.closest("[data-action]")?.dataset.action;
    const { view, file } = shown;
    if (!action || !file) return;
    if (action === "copy") {
      const done = await copy(file.text, root);
      if (!done) selectAll(preview);
      say(done ? `Copied ${file.name}` : `The browser does not let us copy ${file.name}. What is shown is selected: press Ctrl+C`);
    } else if (action === "download") {
      download(file.name, file.text, "text/plain;charset=utf-8");
      say(`Downloaded ${file.name}`);
    } else {
      const name = `${view.target}.zip`;
      download(name, zip(view.files, new Date()), "application/zip");
      say(`Downloaded ${name}, ${plural(view.files.length, "file")}`);
    }
  });
  const say = (text) => set(said, { text });

  return {
    draw(view, target, wanted, pending) {
      const ready = Boolean(view.targets);
      const file = view.files?.find((item) => item.name === wanted) ?? view.files?.[0] ?? null;
      if (file?.text !== shown.file?.text || file?.name !== shown.file?.name) say("");
      shown = { view, file };
      root.dataset.state = pending ? "computing" : "ready";
      set(panel, { "aria-busy": pending ? "true" : null });
      empty.hidden = ready;
      for (const part of [tabs, panel, table, buttons]) part.hidden = !ready;
      set(sub, { text: ready ? `files a trainer reads, of the plan on the board${pending ? "; computing" : ""}` : "files a trainer reads" });
      if (!ready) return;
      keyed(tabs, view.targets, (item) => item.name, makeTab, (tab, item) => drawTab(tab, item, item.name === target));
      const now = view.targets.find((item) => item.name === view.target);
      set(panel, { "aria-label": `${view.target}: ${now?.title ?? ""}` });
      set(what, { text: now?.title ?? "" });
      const address = safeAddress(view.documentation);
      set(documentation, { text: `Documentation of ${view.target}`, href: address });
      documentation.hidden = !address;
      for (const button of buttons.children) button.disabled = !file || pending; // nobody takes away the files of another target or a former plan
      drawRefusals(refusals, view, () => tell.act("use_nearest"));
      drawAnswers(answers, view);
      drawChanges(changes, view, async (file) => {
        const done = await copy(file.text, root);
        say(done ? saidOf(file) : `The browser does not let us copy; the lines stand in ${file.name}`);
      });
      body.hidden = !file;
      if (file) drawFiles({ files, preview, omitted }, view.files, file);
      keyed(checks, checkRows(view), (row) => row.text, () => h("li", {}), drawCheck);
      checkButton.hidden = !view.can_check || view.back != null;
      drawTable(table, view);
    },
  };
}

/** One of several by click, arrows, Home and End; what is chosen takes the focus. */
function choose(place, pick) {
  const items = () => [...place.querySelectorAll("[data-value]")];
  place.addEventListener("click", (event) => {
    const item = event.target.closest("[data-value]");
    if (item) pick(item.dataset.value);
  });
  place.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(event.target.closest("[data-value]"));
    const step = PREVIOUS[event.key] ?? NEXT[event.key];
    const to = step ? (at + step + all.length) % all.length : { Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to == null) return;
    event.preventDefault();
    all[to].focus();
    pick(all[to].dataset.value);
  });
}

const makeTab = () => h("button", { class: "ex-tab", role: "tab" }, h("span", {}), h("small", {}));

function drawTab(tab, { name, notes, refused }, chosen) {
  set(tab, { "data-value": name, "data-target": name, "aria-selected": String(chosen), tabindex: chosen ? "0" : "-1" });
  set(tab.firstChild, { text: name });
  const small = tab.lastChild;
  const text = refused ? "refuses" : notes ? plural(notes, "note") : "";
  if (small.dataset.text === text) return;
  small.dataset.text = text;
  set(small, { class: refused ? "bad" : "" });
  small.replaceChildren(...(refused ? [triangle()] : []), text);
}

/** An address that may be a link; anything but the web is not. */
const safeAddress = (text) => (/^https:\/\//.test(text ?? "") ? text : null);

const saidOf = ({ name, lines, gone }) => `Copied ${plural(lines, "line")} of ${name}${gone > lines ? `; ${plural(gone - lines, "more line")} to be deleted` : ""}`;

function drawFiles({ files, preview, omitted }, rows, file) {
  keyed(
    files,
    rows,
    (row) => row.name,
    () => h("div", { class: "ex-file", role: "option", tabindex: "-1" }, h("span", {}), h("small", {})),
    (item, row) => {
      const chosen = row === file;
      set(item, { "data-value": row.name, "aria-selected": String(chosen), tabindex: chosen ? "0" : "-1" });
      set(item.firstChild, { text: row.name });
      set(item.lastChild, { text: bytes(row.bytes) });
    },
  );
  const shown = file.text.slice(0, file.shown);
  if (preview.dataset.file !== file.name || preview.shown !== shown) {
    const same = preview.dataset.file === file.name;
    set(preview, { "data-file": file.name, "aria-label": `Preview of ${file.name}` });
    preview.shown = shown;
    preview.classList.toggle("long", longest(shown) > 400);
    const top = preview.scrollTop;
    preview.replaceChildren(...tint(file.name, shown).map(([kind, text]) => (kind ? h("span", { class: `ex-${kind}`, text }) : document.createTextNode(text))));
    preview.scrollTop = same ? top : 0;
  }
  set(omitted, { text: file.omitted ?? "" });
  omitted.hidden = !file.omitted;
}

/** Characters of the longest line: a file that is one line is wrapped. */
const longest = (text) => text.split("\n").reduce((most, line) => Math.max(most, line.length), 0);

/** What reading the files back gave; what is not exact stands in the answers. */
const checkRows = (view) => (view.back ? [{ ok: view.back.ok, text: view.back.text }] : []);

const SIGNS = { true: ["✓", "ok"], false: ["▲", "bad"], null: ["–", ""] };

function drawCheck(item, { ok, text }) {
  const [sign, kind] = SIGNS[String(ok)];
  if (item.dataset.text === sign + text) return;
  item.dataset.text = sign + text;
  set(item, { class: kind });
  item.replaceChildren(h("span", { class: "ex-sign", "aria-hidden": "true", text: sign }), h("span", { text }));
}

function selectAll(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

export default { render: linked(render) };
