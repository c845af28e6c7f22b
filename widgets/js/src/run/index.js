// Run: what it would do, its ranks while it goes on, then predicted against measured, checks and calibration.

import { h, keyed, set, triangle } from "../common/dom.js";
import { fixed } from "../common/format.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { makeCalibration } from "./calibration.js";
import { makeRanks } from "./ranks.js";
import { makeResult } from "./result.js";
import { leftText } from "./words.js";

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "run", "Run");
  const act = (action) => sync.send("action", { action });
  const page = makePage(root, act);
  const sync = new Sync(model, ["view"], draw);
  function draw() {
    page(model.get("view") ?? {});
  }
  draw();
  return () => {
    sync.close();
    close();
    root.remove();
  };
}

function makePage(root, act) {
  const sub = h("span", { class: "sx-sub" });
  const legend = h(
    "span",
    { class: "sx-legend" },
    h("span", {}, h("i", { class: "run-predicted" }), "predicted"),
    h("span", {}, h("i", { class: "run-measured" }), "measured"),
  );
  const calibrate = h("button", {
    class: "sx-btn suggested",
    "data-action": "calibrate",
    text: "Calibrate",
    on: { click: () => act("calibrate") },
  });
  const intro = h("div", { class: "run-intro" });
  const live = makeLive();
  const failure = makeFailure(act);
  const standIns = h("p", { class: "run-other" });
  const stopped = h("p", { class: "run-stopped", text: "The last run was stopped midway, so it has no result. All of its ranks have ended." });
  const result = makeResult(act);
  const calibration = makeCalibration();
  root.append(
    h("div", { class: "sx-head" }, h("h2", { text: "Run" }), sub, h("span", { class: "sx-space" }), legend, calibrate),
    failure.element,
    stopped,
    live.element,
    standIns,
    intro,
    result.element,
    calibration.element,
  );
  return (view) => {
    const state = view.state ?? "none";
    root.dataset.run = state;
    const done = view.result ?? null;
    set(sub, { text: done ? view.note : state === "none" ? "no run yet" : "" });
    legend.hidden = !done;
    calibrate.hidden = !done || !view.calibration;
    calibrate.disabled = !view.calibration?.possible || state === "running";
    intro.hidden = Boolean(done) || state === "running";
    keyed(
      intro,
      view.intro ?? [],
      (text) => text,
      (text) => h("p", { text }),
      () => {},
    );
    live.draw(view.progress);
    failure.draw(view.failure);
    stopped.hidden = state !== "stopped";
    set(standIns, { text: view.stand_ins ?? "" });
    standIns.hidden = !view.stand_ins;
    result.draw(done, state);
    calibration.draw(done ? view.calibration : null);
  };
}

/** Progress of the whole, a row for each rank, contention; announced seldom. */
function makeLive() {
  const phase = h("b", {});
  const note = h("span", { class: "run-note" });
  const fill = h("i", {});
  const meter = h("span", { class: "run-meter", role: "progressbar", "aria-label": "Rounds", "aria-valuemin": "0", "aria-valuemax": "100" }, fill);
  const contention = h("span", { class: "run-contention" });
  const other = h("p", { class: "run-other" });
  const said = h("div", { class: "sx-live", role: "status", "aria-live": "polite" });
  const ranks = makeRanks();
  const element = h("div", { class: "run-live" }, h("div", { class: "run-line" }, phase, meter, note, contention), other, ranks.element, said);
  return {
    element,
    draw(progress) {
      element.hidden = !progress;
      if (!progress) {
        set(said, { text: "" });
        return;
      }
      const percent = Math.round(progress.share * 100);
      set(phase, { text: progress.phase });
      set(meter, { "aria-valuenow": percent, "aria-valuetext": `${percent} %, ${progress.phase}` });
      set(fill, { style: { width: `${percent}%` } });
      const left = leftText(progress.left_s);
      set(note, { text: `${fixed(progress.elapsed_s)}\u00a0s${left ? `, ${left}` : ""}` });
      const load = progress.contention;
      if (contention.dataset.text !== (load?.text ?? "")) {
        contention.dataset.text = load?.text ?? "";
        set(contention, { class: `run-contention ${load?.level ?? ""}` });
        contention.replaceChildren(...(load?.level === "warn" ? [triangle()] : []), load?.text ?? "");
      }
      set(other, { text: progress.other ?? "" });
      other.hidden = !progress.other;
      ranks.element.hidden = !progress.ranks.length;
      ranks.draw(progress.ranks);
      set(said, { text: progress.said });
    },
  };
}

/** Rank, error in one line, way out, and the last lines on demand. */
function makeFailure(act) {
  const text = h("div", { class: "run-error" });
  const fix = h("p", { class: "run-fix" });
  const fixButton = h("button", { class: "sx-btn suggested", on: { click: () => act(fixButton.dataset.action) } });
  const log = h("pre", { class: "run-log", tabindex: "0", role: "region", "aria-label": "Last lines of the ranks" });
  const logButton = h("button", {
    class: "sx-btn",
    "data-action": "log",
    "aria-expanded": "false",
    text: "Show log",
    on: { click: () => show(logButton.getAttribute("aria-expanded") !== "true") },
  });
  const show = (open) => {
    set(logButton, { "aria-expanded": String(open), text: open ? "Hide log" : "Show log" });
    log.hidden = !open;
  };
  const element = h("div", { class: "run-failure", role: "alert" }, text, fix, h("div", { class: "run-ways" }, fixButton, logButton));
  const box = h("div", { class: "run-failed" }, element, log);
  show(false);
  return {
    element: box,
    draw(failure) {
      box.hidden = !failure;
      if (!failure) return show(false);
      if (text.dataset.text !== failure.text) {
        text.dataset.text = failure.text;
        text.replaceChildren(triangle(), h("b", { text: "The run failed." }), ` ${failure.text}`);
        show(false);
      }
      set(fix, { text: failure.fix });
      fixButton.hidden = !failure.action;
      set(fixButton, { text: failure.label ?? "", "data-action": failure.action });
      set(log, { text: failure.log });
      logButton.hidden = !failure.log;
      if (!failure.log) show(false);
    },
  };
}

export default { render: linked(render) };
