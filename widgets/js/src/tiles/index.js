// KPI tiles, the sentence that judges the strategy, and why. While something is dragged on the same page they
// show what the board estimates.

import { h, keyed } from "../common/dom.js";
import { onDropped } from "../common/drops.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { enough, onEnough, onWorking, openingWords, sinceWords, Telling } from "../common/working.js";
import { BoardThere, MISSING } from "./board-there.js";
import { Own } from "./own.js";
import { Ending, PREVIEW, previewed, previewedVerdict, previewOf } from "./preview.js";
import { Sure } from "./sure.js";
import { drawTile, makeTile } from "./tile.js";
import { Tour } from "./tour.js";
import { drawVerdict, holdVerdict, makeVerdict } from "./verdict.js";
import { Why } from "./why.js";

/** Action of the button that ends what the kernel does for a field. */
const CANCEL = "cancel_work";

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "tiles", "Predicted figures");
  const act = (action) => {
    if (action === CANCEL) return enough(model.get("bench") ?? "");
    sync.send("action", { action });
    if (action === "show_board") board.again();
  };
  const tiles = h("div", { class: "t-tiles" });
  const verdict = makeVerdict(act);
  const why = new Why(act);
  const own = new Own((fields) => sync.send("measured", fields), act);
  const tour = new Tour(root, () => model.get("bench") ?? "", act);
  const sure = new Sure(tiles);
  root.append(tiles, sure.element, own.element, verdict, why.element);
  const sync = new Sync(model, ["view"], () => changed());
  const bench = () => model.get("bench") ?? "";
  const telling = new Telling(bench, () => sync.pending, root);
  let preview = null;
  let working = null; // what the kernel does for the bar, and since when
  let frame = 0;
  const ending = new Ending(
    () => model.get("view"),
    () => {
      preview = null;
      draw();
    },
  );
  function changed() {
    telling.answered();
    if (ending.on) preview = null;
    ending.stop();
    draw();
  }
  function draw() {
    cancelAnimationFrame(frame);
    const view = model.get("view") ?? {};
    root.dataset.state = preview ? "preview" : view.pending || sync.pending || working ? "computing" : "ready";
    tiles.hidden = !view.tiles?.length;
    tiles.style.setProperty("--count", view.tiles?.length ?? 1);
    const now = view.tiles ?? [];
    keyed(tiles, preview ? now.map((tile) => previewed(tile, preview)) : now, (tile) => tile.key, makeTile, drawTile);
    sure.draw(now);
    tour.draw(model.link?.shut ? null : view.tour);
    own.draw(view.own ?? null, model.link?.shut ?? false);
    holdVerdict(verdict, preview != null);
    drawVerdict(verdict, sentence(view.verdict));
    why.element.inert = model.link?.shut ?? false;
    const reasons = view.reasons ?? [];
    const ended = model.link?.state === "lost" && !reasons.some((row) => row.old); // nothing more is worked out
    why.draw(reasons, !ended && (view.reasoning ?? false));
  }
  /** Of the kernel, if there is something to say of it; else of what is dragged; else Python's. */
  function sentence(now) {
    const { link } = model;
    if (link?.words) return { level: link.shut ? "bad" : "busy", text: link.words.text, actions: link.shut ? [] : now?.actions };
    if (working) return workingVerdict(working);
    if (preview) return previewedVerdict(now, preview);
    return board.missing ? MISSING : now;
  }
  const board = new BoardThere(
    root,
    () => Boolean(model.get("view")?.tiles?.length) && !model.link?.shut,
    () => draw(),
  );
  const unwork = onWorking(
    () => model.get("bench") ?? "",
    (work) => {
      clearInterval(working?.timer);
      working = work && { ...work, timer: setInterval(draw, 1000) };
      draw();
    },
  );
  const undrop = onDropped(bench, (name, text) => {
    sync.send("drop_text", { name, text });
    telling.begin(openingWords(name));
  });
  const unheard = onEnough(bench, () => telling.told && model.send({ cancel: true }));
  const listen = (event) => {
    const next = previewOf(event.detail, model.get("bench"), preview);
    if (next === preview) return;
    if (!next && event.detail.answered && ending.waits()) return;
    if (next && (!preview || ending.on)) ending.begin();
    ending.stop();
    preview = next;
    cancelAnimationFrame(frame); // a drag moves more often than the screen is drawn
    frame = requestAnimationFrame(draw);
  };
  document.addEventListener(PREVIEW, listen);
  draw();
  return () => {
    document.removeEventListener(PREVIEW, listen);
    clearInterval(working?.timer);
    unwork();
    undrop();
    unheard();
    telling.stop();
    tour.close();
    board.stop();
    cancelAnimationFrame(frame);
    ending.stop();
    sync.close();
    close();
    root.remove();
  };
}

/** Of what the kernel does for a field: what, how far, how to end it. */
function workingVerdict({ text, phase, share, since }) {
  return {
    level: "busy",
    text: phase ? `**${text}:** ${phase}.` : `**${text}.**`,
    progress: share,
    note: sinceWords(Date.now() - since),
    actions: [{ action: CANCEL, label: "Cancel", title: "Keep the plan as it is (Esc)" }],
  };
}

export default { render: linked(render) };
