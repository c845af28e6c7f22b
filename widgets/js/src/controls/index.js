// The control bar: fields left, buttons right.

import { h, keyed, set } from "../common/dom.js";
import { makeRoot } from "../common/root.js";
import { Sync } from "../common/sync.js";

function render({ model, el }) {
  const { root, close } = makeRoot(el, model, "controls", "Controls");
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
  root.append(h("div", { class: "c-bar", role: "toolbar", "aria-label": "Strategy" }, fields, buttons));
  const sync = new Sync(model, ["view"], draw);
  function draw() {
    const view = model.get("view") ?? {};
    keyed(
      fields,
      view.fields ?? [],
      (field) => `${field.key}:${field.kind}`,
      (field) => makeField(field, (key, value) => sync.send("set", { key, value })),
      drawField,
    );
    drawButtons(buttons, view.buttons ?? []);
  }
  draw();
  return () => {
    sync.close();
    close();
    root.remove();
  };
}

function makeField(field, send) {
  const input =
    field.kind === "select"
      ? h("select", { class: "c-input" })
      : h("input", {
          class: "c-input",
          type: "text",
          inputmode: field.kind === "number" ? "numeric" : null,
          spellcheck: "false",
        });
  const element = h("label", { class: "c-field" }, h("span", {}), input, h("em", { role: "alert" }));
  input.addEventListener("change", () => {
    const text = input.value.trim();
    if (element.kind !== "number") return send(element.key, text);
    const complaint = numberComplaint(text, element.field);
    element.local = complaint;
    drawError(element);
    return complaint ? undefined : send(element.key, Number(text));
  });
  return element;
}

/** What is wrong with a typed number, in words, or null. */
export function numberComplaint(text, { minimum, maximum, step }) {
  const x = Number(text);
  if (text === "" || !Number.isFinite(x)) return "not a number";
  if (minimum != null && x < minimum) return `at least ${minimum}`;
  if (maximum != null && x > maximum) return `at most ${maximum}`;
  if (step != null && step >= 1 && !Number.isInteger(x)) return "a whole number";
  return null;
}

function drawField(element, field) {
  Object.assign(element, { key: field.key, kind: field.kind, field });
  const [label, input] = element.children;
  set(label, { text: field.label });
  set(input, {
    "data-field": field.key,
    title: field.title ?? null,
    style: { width: field.width_px ? `${field.width_px}px` : null },
  });
  if (field.kind === "select")
    keyed(
      input,
      field.options ?? [],
      (option) => String(option.value),
      () => h("option", {}),
      (option, { value, label: text }) => set(option, { value: String(value), text }),
    );
  const value = field.value == null ? "" : String(field.value);
  if (element.sent !== value || document.activeElement !== input) {
    input.value = value;
    element.sent = value;
    element.local = null;
  }
  drawError(element);
}

function drawError(element) {
  const error = element.local ?? element.field.error ?? "";
  const [, input, place] = element.children;
  set(place, { text: error });
  set(input, { "aria-invalid": error ? "true" : null });
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

export default { render };
