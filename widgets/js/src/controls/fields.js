// One field of the bar: a select, a number or a text, with what is wrong said at it.

import { h, keyed, set } from "../common/dom.js";

/**
 * Consecutive fields of one `group` stand together under its name; any other is a group of its own.
 * @param {any[]} fields @returns {{key: string, name: string|null, fields: any[]}[]}
 */
export function grouped(fields) {
  const groups = [];
  for (const field of fields) {
    const last = groups[groups.length - 1];
    if (field.group && last?.name === field.group) last.fields.push(field);
    else groups.push({ key: `${field.key}:${field.kind}`, name: field.group ?? null, fields: [field] });
  }
  return groups;
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

/** @param {HTMLElement} place @param {any[]} fields @param {(key: string, value: any) => void} send */
export function drawFields(place, fields, send) {
  keyed(
    place,
    grouped(fields),
    (group) => group.key,
    () => h("div", { class: "c-group" }, h("span", { class: "c-name", "aria-hidden": "true" }), h("div", { class: "c-joined" })),
    (element, group) => {
      const [name, joined] = element.children;
      set(element, { class: group.name ? "c-group named" : "c-group", role: group.name ? "group" : null, "aria-label": group.name });
      set(name, { text: group.name ?? "" });
      keyed(
        joined,
        group.fields,
        (field) => `${field.key}:${field.kind}`,
        (field) => makeField(field, send),
        drawField,
      );
    },
  );
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
  // a name picked from the list below a text is as good as one that was typed to its end
  input.addEventListener("input", (event) => {
    if (element.kind === "text" && event.inputType !== "insertText" && named(element, input.value)) input.dispatchEvent(new Event("change"));
  });
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

function drawField(element, field) {
  Object.assign(element, { key: field.key, kind: field.kind, field });
  const [label, input] = element.children;
  set(label, { text: field.label });
  set(input, {
    "data-field": field.key,
    title: field.title ?? null,
    style: { width: field.width_px ? `${field.width_px}px` : null },
  });
  if (field.kind === "select") drawOptions(input, field.options ?? []);
  else if (field.kind === "text" && field.options?.length) drawList(element, input, field.options);
  const value = field.value == null ? "" : String(field.value);
  if (element.sent !== value || document.activeElement !== input) {
    input.value = value;
    element.sent = value;
    element.local = null;
  }
  drawError(element);
}

const named = (element, text) => (element.field?.options ?? []).some((option) => String(option.value) === text);

/** The names that a text may be, which the browser offers as far as they match. */
function drawList(element, input, options) {
  element.list ??= h("datalist", { id: `c-list-${++lists}` });
  if (!element.list.isConnected) element.append(element.list);
  set(input, { list: element.list.id });
  keyed(element.list, options, (option) => String(option.value), () => h("option", {}), drawOption); // prettier-ignore
}

let lists = 0;

const drawOption = (option, { value, label: text, disabled, title }) =>
  set(option, { value: String(value), text, title: title ?? null, disabled: Boolean(disabled) });

/** Consecutive options of one `group` stand under its name. */
function drawOptions(input, options) {
  if (!options.some((option) => option.group)) {
    keyed(input, options, (option) => String(option.value), () => h("option", {}), drawOption); // prettier-ignore
    return;
  }
  const groups = new Map();
  for (const option of options) groups.set(option.group ?? "", [...(groups.get(option.group ?? "") ?? []), option]);
  keyed(
    input,
    [...groups],
    ([name]) => `group ${name}`,
    () => h("optgroup", {}),
    (element, [name, members]) => {
      set(element, { label: name });
      keyed(element, members, (option) => String(option.value), () => h("option", {}), drawOption); // prettier-ignore
    },
  );
}

/** What was typed is given up: every field shows the plan's value again when it is next drawn. @param {HTMLElement} place */
export function giveBack(place) {
  for (const element of place.querySelectorAll(".c-field")) element.sent = null;
}

function drawError(element) {
  const error = element.local ?? element.field.error ?? "";
  const [, input, place] = element.children;
  set(place, { text: error });
  set(input, { "aria-invalid": error ? "true" : null });
}
