// Devices: a box is dragged to another lane, onto another device or out of use; the panel does the same by keyboard.

import { h, keyed, set } from "../common/dom.js";
import { percent, plural, seconds } from "../common/format.js";
import { rangeWords } from "./layout.js";

const REST_MS = 60;
/** How replicas share the samples of a stage. */
const SHARINGS = [
  ["even", "equally"],
  ["speed", "by speed"],
  ["turns", "in turn, whole microbatches"],
];

/** @typedef {{to_lane: string|null, to_device: number|null}} Place where a device goes; both null: out of use */

/** "gpu 4", "gpu 4–7". @param {number[]} group */
export const gpu = (group) => `gpu ${rangeWords(group)}`;

/** Who holds a device: its lane and the replica that it begins. @param {any} view @param {number} device */
export function homeOfDevice(view, device) {
  for (const lane of view.lanes) {
    const group = lane.replicas.find((replica) => replica[0] === device);
    if (group) return { lane, group };
  }
  return { lane: null, group: [device] };
}

/** Devices out of use, each with its kind if there are several. @param {any} view @returns {[number, string|null][]} */
export const idleOf = (view) => (view.idle?.kinds ?? []).flatMap(({ kind, devices }) => devices.map((device) => [device, kind]));

/** "Stage 0", with the kind of its devices if there are several. */
const laneName = (lane) => (lane.kind ? `${lane.name} (${lane.kind})` : lane.name);

/** Where a device may go, as groups of choices for a select. @param {any} view @param {number} device */
export function placesFor(view, device) {
  const { lane: home } = homeOfDevice(view, device);
  const others = view.lanes.filter((lane) => lane !== home);
  const boxes = others.flatMap((lane) => lane.replicas.map((group) => [`device:${group[0]}`, `${gpu(group)} (${lane.name})`]));
  const idle = home ? idleOf(view).map(([number, kind]) => [`device:${number}`, `gpu ${number} (${kind ? `${kind}, ` : ""}not in use)`]) : [];
  return [
    { name: "One more replica of", choices: others.map((lane) => [`lane:${lane.id}`, laneName(lane)]) },
    { name: "Changes places with", choices: [...boxes, ...idle] },
    { name: "Elsewhere", choices: home ? [["out", "Out of use"]] : [] },
  ].filter((group) => group.choices.length);
}

/** @param {string} value of a choice @returns {Place} */
export function placeOf(value) {
  const [kind, id] = value.split(":");
  return { to_lane: kind === "lane" ? id : null, to_device: kind === "device" ? Number(id) : null };
}

/** What a move of a device would do, in words. @param {any} found Python's answer @param {any} view */
export function deviceEffect(found, view) {
  if (!found) return { text: "", bad: false };
  if (found.refused) return { text: found.refused, bad: true };
  const now = view.estimate?.step_s;
  const then = found.values?.step_time;
  if (then == null) return { text: "", bad: false };
  const full = found.values.memory ?? 0;
  const step = now == null ? seconds(then) : `${seconds(now, then)} → ${seconds(then)}`;
  return { text: `A step: ${step}${full > 1 ? `; does not fit, the fullest device is at ${percent(full)}` : ""}`, bad: full > 1 };
}

/** Where a device went, to be said. @param {any} view @param {number} device @param {Place} place */
export function movedWords(view, device, place) {
  const name = gpu(homeOfDevice(view, device).group);
  if (place.to_device != null) return `${name} and ${gpu(homeOfDevice(view, place.to_device).group)} changed places`;
  const lane = view.lanes.find((item) => item.id === place.to_lane);
  return lane ? `${name} is now with ${lane.name}` : `${name} is out of use`;
}

export class Devices {
  constructor(ctx) {
    this.ctx = ctx;
    const field = (name, text) => {
      const select = h("select", { "data-field": name, "aria-label": text, on: { change: () => this.changed(name) } });
      return [h("label", {}, `${text} `, select), select];
    };
    const [fromLabel, from] = field("device", "Device");
    const [toLabel, to] = field("to", "goes to");
    const [shareLabel, share] = field("sharing", "its replicas share samples");
    Object.assign(this, { from, to, share, shareLabel });
    this.text = h("span", { class: "b-dev-text", role: "status" });
    this.go = h("button", { class: "sx-btn suggested", text: "Move", "data-action": "move-device", on: { click: () => this.move() } });
    const close = h("button", { class: "sx-btn", text: "Close", "data-action": "close-devices", on: { click: () => this.close() } });
    this.panel = h(
      "div",
      { class: "b-devpanel", role: "region", "aria-label": "Devices", hidden: true, on: { keydown: (event) => this.key(event) } },
      fromLabel,
      toLabel,
      this.go,
      this.text,
      shareLabel,
      close,
    );
    this.idle = h("div", { class: "b-idle", hidden: true }, h("span", { text: "Not in use" }), h("span", { class: "b-devices" }));
    this.asked = null;
  }

  /** Draw what is out of use, and the panel if it is open. */
  draw() {
    const { view, editable } = this.ctx;
    const count = view.idle?.count ?? 0;
    const items = (view.idle?.kinds ?? []).flatMap(({ kind, devices }) => [
      ...(kind ? [{ device: null, text: kind }] : []),
      ...devices.map((device) => ({ device, text: String(device) })),
    ]);
    const more = count - items.filter((item) => item.device != null).length;
    if (more > 0) items.push({ device: null, text: `+${more}` });
    this.idle.hidden = !(count || this.dragging);
    set(this.idle, { title: plural(count, "device") });
    keyed(
      this.idle.lastChild,
      items,
      ({ text }) => text,
      (item) => h("span", { class: item.device == null ? "b-kind" : "b-device" }),
      (box, item) => set(box, { text: item.text, "data-device": item.device }),
    );
    if (this.panel.hidden) return;
    if (!editable) return this.close(false);
    this.fill();
  }

  open(device) {
    const { view, editable } = this.ctx;
    if (!editable || !view.lanes?.length) return;
    this.device = device ?? view.lanes[0].replicas[0][0];
    this.place = null;
    this.panel.hidden = false;
    this.fill();
    this.from.focus();
    this.consider();
  }

  close(refocus = true) {
    this.panel.hidden = true;
    clearTimeout(this.timer);
    if (refocus) this.ctx.detail.devices.focus();
  }

  fill() {
    const { view } = this.ctx;
    const lanes = view.lanes.map((lane) => ({ name: laneName(lane), choices: lane.replicas.map((group) => [String(group[0]), gpu(group)]) }));
    const idle = idleOf(view).map(([device, kind]) => [String(device), `gpu ${device}${kind ? ` (${kind})` : ""}`]);
    const given = [...lanes, ...(idle.length ? [{ name: "Not in use", choices: idle }] : [])];
    options(this.from, given, String(this.device));
    this.device = Number(this.from.value);
    const places = placesFor(view, this.device);
    options(this.to, places, this.place);
    this.place = this.to.value;
    this.go.disabled = !places.length;
    const { lane } = homeOfDevice(view, this.device);
    this.shareLabel.hidden = !lane?.sharing || !lane.runs.length;
    if (lane?.sharing) options(this.share, [{ name: laneName(lane), choices: SHARINGS }], lane.sharing);
    this.show();
  }

  changed(name) {
    if (name === "sharing") return this.ctx.shareOtherwise(homeOfDevice(this.ctx.view, this.device).lane, this.share.value);
    if (name === "device") [this.device, this.place] = [Number(this.from.value), null];
    else this.place = this.to.value;
    this.fill();
    this.consider();
  }

  fields() {
    return { device: this.device, ...placeOf(this.place) };
  }

  /** Ask what it would come to, once the choice has rested a moment. */
  consider() {
    clearTimeout(this.timer);
    this.answer = null;
    this.show();
    if (this.panel.hidden || !this.place) return;
    this.timer = setTimeout(() => this.ask(this.fields()), REST_MS);
  }

  ask(fields) {
    this.asked = JSON.stringify(fields);
    this.ctx.model.send({ consider: { kind: "device", ...fields } });
  }

  /** Python's answer to `ask`. */
  considered({ considered: { kind: _, ...fields }, ...found }) {
    if (JSON.stringify(fields) !== this.asked) return;
    this.answer = found;
    this.heard?.(found);
    this.show();
  }

  show() {
    const { text, bad } = deviceEffect(this.answer, this.ctx.view);
    set(this.text, { text, class: bad ? "b-dev-text bad" : "b-dev-text" });
  }

  move() {
    this.ctx.moveDevice(this.device, placeOf(this.place));
    this.answer = null;
    this.place = null;
    this.show();
  }

  key(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    this.close();
  }

  /** Drag a box of a device; a click opens the panel. @param {HTMLElement} box */
  gesture(box) {
    const device = Number(box.dataset.device);
    const { ctx } = this;
    const { lane: home, group } = homeOfDevice(ctx.view, device);
    let over = null;
    let place = null;
    const ghost = h("div", { class: "b-ghost", "aria-hidden": "true" }, h("div", { class: "b-ghost-card" }, h("b", { text: gpu(group) }), h("span", {})));
    const mark = (element) => {
      over?.classList.remove("b-drop");
      element?.classList.add("b-drop");
      over = element;
    };
    const caption = (found) => {
      const { text, bad } = deviceEffect(found, ctx.view);
      ghost.classList.toggle("refused", bad);
      ghost.firstChild.firstChild.textContent = place ? `${gpu(group)} ${whereTo(ctx.view, place)}` : gpu(group);
      ghost.firstChild.lastChild.textContent = place ? text || "known on release" : "Drop on a lane, a device or below. Esc cancels.";
    };
    return {
      edits: true,
      cursor: "grabbing",
      click: () => this.open(device),
      begin: () => {
        this.dragging = true;
        this.heard = caption;
        ctx.root.append(ghost);
        this.draw();
        caption(null);
      },
      drag: (event) => {
        const target = targetAt(ctx, event, device, home);
        if (target?.key !== place?.key) {
          place = target;
          mark(target?.element ?? null);
          this.answer = null;
          caption(null);
          clearTimeout(this.timer);
          if (target) this.timer = setTimeout(() => this.ask({ device, to_lane: target.to_lane, to_device: target.to_device }), REST_MS);
        }
        const root = ctx.root.getBoundingClientRect();
        const far = Math.max(4, root.width - ghost.offsetWidth - 4);
        ghost.style.transform = `translate(${Math.min(far, event.clientX - root.left + 12)}px, ${event.clientY - root.top + 14}px)`;
      },
      drop: () => place && ctx.moveDevice(device, place),
      end: () => {
        clearTimeout(this.timer);
        this.heard = null;
        this.dragging = false;
        mark(null);
        ghost.remove();
        this.draw();
      },
    };
  }
}

const whereTo = (view, place) =>
  place.to_device != null ? `↔ gpu ${rangeWords(homeOfDevice(view, place.to_device).group)}` : place.to_lane == null ? "→ out of use" : `→ ${view.lanes.find((lane) => lane.id === place.to_lane)?.name}`;

/** What is under the pointer that a device can be dropped on. */
function targetAt(ctx, event, device, home) {
  const element = ctx.root.getRootNode().elementFromPoint(event.clientX, event.clientY);
  if (!element || !ctx.root.contains(element)) return null;
  const box = element.closest("[data-device]");
  if (box && Number(box.dataset.device) !== device) {
    const other = Number(box.dataset.device);
    if (home || homeOfDevice(ctx.view, other).lane) return { key: `device:${other}`, element: box, to_lane: null, to_device: other };
  }
  if (element.closest(".b-idle")) return home && { key: "out", element: element.closest(".b-idle"), to_lane: null, to_device: null };
  const lane = element.closest(".b-lane");
  if (!lane || lane.dataset.lane === home?.id) return null;
  return { key: `lane:${lane.dataset.lane}`, element: lane, to_lane: lane.dataset.lane, to_device: null };
}

/** Fill a select with groups of [value, text], keeping what is chosen where it is still there. */
function options(select, groups, chosen) {
  const wanted = JSON.stringify(groups);
  if (select.wanted !== wanted) {
    select.wanted = wanted;
    select.replaceChildren(
      ...groups.map(({ name, choices }) =>
        h(
          "optgroup",
          { label: name },
          choices.map(([value, text]) => h("option", { value, text })),
        ),
      ),
    );
  }
  const values = groups.flatMap((group) => group.choices.map(([value]) => value));
  select.value = values.includes(chosen) ? chosen : (values[0] ?? "");
}
