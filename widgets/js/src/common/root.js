// What every widget's root element does: theme, keyboard guard, notice strip, clean-up.

import { bold, h, keyed, set } from "./dom.js";
import { takeDrops } from "./drops.js";
import { attachKeys } from "./keys.js";
import { onWorking } from "./working.js";

/** Widgets that are still good to look at when their kernel is gone; in the others nothing can be pressed. */
const READABLE = new Set(["tiles", "board", "timeline", "graph", "heatmap"]);
/** Widgets that show by themselves that the plan is about to change. */
const CURRENT = new Set(["controls", "tiles", "board"]);
/** Widgets that say by themselves that it is gone. */
const SAYING = ".sx-tiles, .sx-board";

/**
 * Make the root. Plain keys stop here (JupyterLab would run its shortcuts); Ctrl and Cmd combinations pass, so Save works.
 * @param {HTMLElement} el the cell's output element @param {any} model @param {string} name class suffix @param {string} label
 */
export function makeRoot(el, model, name, label) {
  const root = h("section", { class: `sx sx-${name}`, "aria-label": label, "data-widget": name });
  root.dataset.bench = model.get("bench") ?? "";
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
  });
  attachKeys(root, name);
  takeDrops(root, () => root.dataset.bench);
  const notices = h("div", { class: "sx-notices" });
  root.append(notices);
  const dismiss = () => {
    model.set("notice", null);
    model.save_changes();
  };
  const show = () => {
    const { link } = model;
    const state = link?.state ?? "here";
    set(root, { "data-link": state === "here" ? null : state });
    if (!READABLE.has(name)) for (const child of root.children) if (child !== notices) child.inert = link?.shut ?? false;
    drawNotices(notices, [sayable(root, name, link), model.get("notice")], dismiss);
  };
  model.on("change:notice", show);
  const unwatch = model.link?.watch(show);
  show();
  const unwork = onWorking(
    () => root.dataset.bench,
    (work) => set(root, { "data-stale": work && !CURRENT.has(name) ? "" : null }),
  );
  el.append(root);
  return { root, close: watchTheme(root, () => {}, [() => model.off("change:notice", show), () => unwatch?.(), unwork]) };
}

/** What this widget says of its kernel: the tiles say it in their sentence, the board always, any other if nobody else does. */
function sayable(root, name, link) {
  const words = link?.words;
  if (!words || name === "tiles") return null;
  const others = [...document.querySelectorAll(SAYING)].some((element) => element !== root && element.dataset.bench === root.dataset.bench);
  return name === "board" || link.touched || link.state === "slow" || !others ? { ...words, lasting: true } : null;
}

/** Strips at the top. One that lasts goes by itself, the other is dismissed. */
function drawNotices(place, given, dismiss) {
  keyed(
    place,
    given.filter((notice) => notice?.text),
    ({ lasting }) => (lasting ? "link" : "notice"),
    ({ lasting }) =>
      h(
        "div",
        { class: "sx-notice" },
        h("span", {}),
        lasting ? null : h("button", { class: "sx-btn", text: "Dismiss", "data-action": "dismiss", on: { click: dismiss } }),
      ),
    (element, { level, text, lasting }) => {
      set(element, { "data-level": level ?? "info", "data-lasting": lasting ? "" : null });
      element.setAttribute("role", level === "error" ? "alert" : "status");
      if (lasting) element.firstChild.replaceChildren(...bold(text));
      else element.firstChild.textContent = text;
    },
  );
}

/**
 * Is the host dark? JupyterLab, VS Code and Colab say so; elsewhere the lightness of the host's background does, and
 * without any host colour the reader's system.
 * @param {Element} element a root with class `sx`
 */
function isDark(element) {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight) return jpThemeLight === "false";
  if (vscodeThemeKind) return /dark|high-contrast$/.test(vscodeThemeKind);
  const page = document.documentElement;
  const named = page.getAttribute("theme") ?? page.dataset.theme;
  if (named) return named.includes("dark");
  const style = getComputedStyle(element);
  if (HOST_COLOURS.some((name) => style.getPropertyValue(name).trim())) return dim(style.backgroundColor);
  return darkSystem.matches;
}

const HOST_COLOURS = ["--jp-layout-color1", "--vscode-editor-background"];
const darkSystem = matchMedia("(prefers-color-scheme: dark)");

/** Is a computed colour, "rgb(17, 17, 17)", nearer to black? */
function dim(colour) {
  const [red, green, blue] = (colour.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  return red + green + blue < 384;
}

/** Keep `data-dark` on the root and call back on a change of theme. Returns the function that stops it all. */
function watchTheme(root, changed, cleanups = []) {
  const timers = [];
  const apply = () => {
    const dark = isDark(root);
    if ((root.dataset.dark === "true") === dark && root.dataset.dark != null) return;
    root.dataset.dark = String(dark);
    changed(dark);
    const tell = () => root.dispatchEvent(new CustomEvent("sx-theme", { detail: { dark } }));
    tell();
    // JupyterLab says the theme before its style sheet is there: canvases read their colours again once it is
    for (const wait of [150, 600, 2000]) timers.push(setTimeout(tell, wait));
  };
  apply();
  const observer = new MutationObserver(apply);
  observer.observe(document.body, {
    attributes: true,
    attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "class"],
  });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme", "theme", "style"] });
  darkSystem.addEventListener("change", apply);
  requestAnimationFrame(apply);
  return () => {
    observer.disconnect();
    darkSystem.removeEventListener("change", apply);
    timers.forEach(clearTimeout);
    for (const cleanup of cleanups) cleanup();
  };
}
