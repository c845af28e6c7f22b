// One number to vary: a slider over its stops, and the number itself to type.

import { h, set } from "../common/dom.js";
import { nearest, parsed, typed } from "./stops.js";

/** @param {(key: string, value: number|string, final: boolean) => void} change */
export function makeSlider(change) {
  const range = h("input", { type: "range", class: "w-range", min: "0", step: "1" });
  const text = h("input", { type: "text", class: "w-text", inputmode: "decimal", spellcheck: "false" });
  const element = h(
    "div",
    { class: "w-slider", role: "group" },
    h("span", { class: "w-label" }),
    range,
    text,
    h("span", { class: "w-unit" }),
    h("span", { class: "w-now" }),
    h("em", { class: "w-error", role: "alert" }),
  );
  range.addEventListener("input", () => {
    const value = element.field.stops[Number(range.value)];
    text.value = typed(value);
    describe(element, value);
    change(element.field.key, value, false);
  });
  text.addEventListener("input", () => {
    element.typing = true;
  });
  text.addEventListener("blur", () => {
    element.typing = false;
  });
  text.addEventListener("change", () => {
    element.typing = false;
    const value = parsed(text.value);
    change(element.field.key, value ?? text.value.trim(), true);
  });
  return element;
}

/**
 * What is being typed stays, whatever Python answers meanwhile: an answer to the last change may come late.
 * @param {boolean} busy the page is ahead of Python: what was moved or typed stays
 */
export function drawSlider(element, field, busy) {
  element.field = field;
  const [label, range, text, unit, now, error] = element.children;
  set(element, { "data-slider": field.key, "aria-label": field.label, class: `w-slider${field.changed ? " changed" : ""}` });
  set(label, { text: field.label });
  set(unit, { text: field.unit ?? "" });
  set(now, { text: `now ${typed(field.now)}` });
  set(error, { text: field.error ?? "", id: `${field.key}-error` });
  set(range, { max: String(field.stops.length - 1), "aria-label": field.label, "data-field": field.key, title: field.title ?? null });
  range.disabled = text.disabled = field.stops.length < 2;
  set(text, {
    "aria-label": `${field.label}, number`,
    "aria-invalid": field.error ? "true" : null,
    "data-field": `${field.key}.text`,
    title: field.title ?? null,
  });
  if (busy) return;
  const value = field.value;
  range.value = String(nearest(field.stops, value));
  if (!element.typing) text.value = field.error ? String(field.typed ?? "") : typed(value);
  describe(element, value);
}

function describe(element, value) {
  const { unit, now } = element.field;
  const same = value === now ? ", as now" : "";
  element.children[1].setAttribute("aria-valuetext", `${typed(value)} ${unit ?? ""}${same}`.trim());
}
