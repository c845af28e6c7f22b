// What calibrating would change, before it is pressed.

import { h, keyed, set } from "../common/dom.js";
import { percent, seconds } from "../common/format.js";
import { errorText, valueText } from "./words.js";

/** Numbers before and after, the step that follows, what stays and why. */
export function makeCalibration() {
  const title = h("h3", { text: "Calibrate" });
  const text = h("p", {});
  const list = h("ul", { class: "run-changes" });
  const step = h("p", { class: "run-becomes" });
  const kept = h("p", { class: "sx-sub" });
  const element = h("div", { class: "run-calibration" }, title, text, list, step, kept);
  return {
    element,
    draw(view) {
      element.hidden = !view;
      if (!view) return;
      set(element, { "data-possible": String(view.possible) });
      set(text, { text: view.text });
      keyed(
        list,
        view.changes,
        (row) => row.what,
        () => h("li", {}, h("span", {}), h("b", {})),
        (item, row) => {
          set(item.firstChild, { text: row.what });
          const band = row.band == null ? "" : ` ±${percent(row.band, row.band < 0.1 ? 1 : 0)}`;
          set(item.lastChild, {
            text: `${valueText(row.before, row.quantity)} → ${valueText(row.after, row.quantity)}${band}`,
            title: row.band == null ? null : "80 % band of the corrected number",
          });
        },
      );
      list.hidden = !view.changes.length;
      step.hidden = !view.possible || view.step_s == null;
      if (!step.hidden) {
        const change = errorText(view.step_s / view.now_s - 1);
        set(step, { text: `The step becomes ${seconds(view.step_s)}, ${change} against now (${seconds(view.now_s)}).` });
      }
      set(kept, { text: view.kept.length ? `Not corrected: ${view.kept.join("; ")}.` : "" });
      kept.hidden = !view.kept.length;
    },
  };
}
