// The control bar: fields left, buttons right.

import { arrive } from "../common/arrive.js";
import { h, keyed, set } from "../common/dom.js";
import { linked } from "../common/link.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";
import { fieldWords, onEnough, onWorking, Telling } from "../common/working.js";
import { BusyField } from "./busy.js";
import { drawFields, giveBack } from "./fields.js";

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "controls", "Strategy");
  const fields = h("div", { class: "c-fields" });
  const buttons = h("div", {
    class: "c-buttons",
    on: {
      click: (event) => {
        const button = event.target.closest("[data-action]");
        if (button && !button.disabled) sync.send("action", { action: button.dataset.action });
      },
    },
  });
  root.append(h("div", { class: "c-bar" }, fields, buttons));
  const sync = new Sync(model, ["view"], draw);
  const bench = () => model.get("bench") ?? "";
  const telling = new Telling(bench, () => sync.pending, root);
  const busy = new BusyField(root);
  const ends = [
    onWorking(bench, (work) => busy.show(telling.told ? work : null)), // tabs have bars of their own
    onEnough(bench, () => {
      if (!telling.told) return;
      giveBack(fields);
      model.send({ cancel: true });
    }),
  ];
  const doing = () => telling.doing(model.get("doing"));
  model.on("change:doing", doing);
  const send = (key, value) => {
    sync.send("set", { key, value });
    const field = (model.get("view")?.fields ?? []).find((item) => item.key === key);
    telling.begin(fieldWords(field, value), key);
    root.dataset.state = "computing";
  };
  function draw() {
    telling.answered();
    root.dataset.state = sync.pending ? "computing" : "ready";
    const view = model.get("view") ?? {};
    set(root, { "aria-label": view.name ?? "Strategy" });
    drawFields(fields, view.fields ?? [], send);
    drawButtons(buttons, view.buttons ?? []);
  }
  draw();
  const stay = arrive(model, root);
  return () => {
    stay();
    model.off("change:doing", doing);
    for (const end of ends) end();
    busy.stop();
    telling.stop();
    sync.close();
    close();
    root.remove();
  };
}

/** Undo and redo stand together; everything else apart. */
function drawButtons(place, buttons) {
  const groups = [];
  for (const button of buttons) {
    const last = groups[groups.length - 1];
    if (last && button.action === "redo" && last[last.length - 1].action === "undo") last.push(button);
    else groups.push([button]);
  }
  keyed(
    place,
    groups,
    (group) => group[0].action,
    () => h("span", { class: "sx-seg" }),
    (span, group) =>
      keyed(
        span,
        group,
        (b) => b.action,
        () => h("button", { class: "sx-btn" }),
        (button, b) => {
          set(button, {
            text: b.label,
            "data-action": b.action,
            class: `sx-btn${b.primary ? " primary" : ""}${b.suggested ? " suggested" : ""}`,
            title: b.title ?? null,
            "aria-pressed": b.pressed == null ? null : String(b.pressed),
          });
          button.disabled = b.enabled === false;
        },
      ),
  );
}

export default { render: linked(render) };
