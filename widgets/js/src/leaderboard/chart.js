// The chart beside the leaderboard comes from a library whose code anywidget gives two seconds to start. On a machine that
// is too busy for that it never appears. Then it is asked for again: its code is in the browser by now.

/** Seconds of a kernel and a page that are free, after which a chart that is not there will not come. */
const PATIENCE_MS = 8000;
const LOOK_MS = 500;
/** So often it is asked for again. */
const TRIES = 3;

/** Whether the place shows a drawn chart: its titles come with its layout. @param {ParentNode|null} place */
export const drawn = (place) => place?.querySelector(".js-plotly-plot .annotation") != null;

/**
 * Ask for the chart again where it does not start. Returns what ends the watch.
 * @param {any} model with the trait `charts`, how many Python has put there
 * @param {() => ParentNode|null} place where it should be
 * @param {() => void} again asks for another
 */
export function watchChart(model, place, again, { patience = PATIENCE_MS, look = LOOK_MS, tries = TRIES } = {}) {
  let left = tries;
  let timer = 0;
  const begin = () => {
    clearTimeout(timer);
    let waited = 0;
    const step = () => {
      const there = place();
      if (drawn(there)) return;
      // nothing is drawn in a tab that is not in sight
      if (there?.getClientRects?.().length && model.widget_manager?.kernel?.status !== "busy") waited += look;
      if (waited < patience) timer = setTimeout(step, look);
      else if (left > 0) {
        left -= 1;
        again();
      }
    };
    timer = setTimeout(step, look);
  };
  model.on("change:charts", begin);
  if (model.get("charts")) begin();
  return () => {
    clearTimeout(timer);
    model.off("change:charts", begin);
  };
}
