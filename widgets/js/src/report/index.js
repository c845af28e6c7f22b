// The report: the workbench's own drawings over data that stands in the page. No kernel, no network, no editing.

import board from "../board/index.js";
import graph from "../graph/index.js";
import heatmap from "../heatmap/index.js";
import tiles from "../tiles/index.js";
import timeline from "../timeline/index.js";
import { Model, graphAnswers, link } from "./model.js";

const KINDS = { board, graph, heatmap, tiles, timeline };

/** The theme of the reader's system, light on paper. */
function followTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = (paper = false) => {
    document.body.dataset.jpThemeLight = String(paper || !dark.matches);
  };
  apply();
  dark.addEventListener("change", () => apply());
  addEventListener("beforeprint", () => {
    apply(true);
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
  addEventListener("afterprint", () => apply());
}

/** The data of the page: JSON, compressed where it is long. */
async function read() {
  const place = document.querySelector("#report-data");
  if (place.dataset.packed !== "gzip") return JSON.parse(place.textContent);
  const packed = Uint8Array.from(atob(place.textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function show() {
  followTheme();
  const data = await read();
  const models = {};
  for (const { name, kind, state, answers } of data.parts) {
    const host = document.querySelector(`[data-part="${name}"]`);
    if (!host) continue;
    models[name] = new Model(state, answers ? graphAnswers(answers) : undefined);
    host.replaceChildren();
    KINDS[kind].render({ model: models[name], el: host });
  }
  link([models.board, models.graph].filter(Boolean), "selection");
  document.body.dataset.ready = "true";
}

show().catch((error) => {
  const place = document.querySelector("#report-failed");
  place.hidden = false;
  place.append(` (${error.message})`);
});
