// What every widget's root element does: theme, keyboard guard, notice strip, clean-up.

import { h, keyed } from "./dom.js";

/**
 * Make the root. Plain keys stop here (JupyterLab would run its shortcuts); Ctrl and Cmd combinations pass, so Save works.
 * @param {HTMLElement} el the cell's output element @param {any} model @param {string} name class suffix @param {string} label
 */
export function makeRoot(el, model, name, label) {
  const root = h("section", { class: `sx sx-${name}`, "aria-label": label, "data-widget": name });
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey) event.stopPropagation();
  });
  const notices = h("div", { class: "sx-notices" });
  root.append(notices);
  const showNotice = () => {
    const notice = model.get("notice");
    keyed(
      notices,
      notice?.text ? [notice] : [],
      () => "notice",
      () =>
        h(
          "div",
          { class: "sx-notice" },
          h("span", {}),
          h("button", {
            class: "sx-btn",
            text: "Dismiss",
            "data-action": "dismiss",
            on: {
              click: () => {
                model.set("notice", null);
                model.save_changes();
              },
            },
          }),
        ),
      (element, { level, text }) => {
        element.dataset.level = level ?? "info";
        element.setAttribute("role", level === "error" ? "alert" : "status");
        element.firstChild.textContent = text;
      },
    );
  };
  model.on("change:notice", showNotice);
  showNotice();
  el.append(root);
  return { root, close: watchTheme(root, () => {}, [() => model.off("change:notice", showNotice)]) };
}

/** Is the host dark? JupyterLab says so; elsewhere the background's lightness does. @param {Element} element */
export function isDark(element) {
  const told = document.body.dataset.jpThemeLight;
  if (told) return told === "false";
  const kind = document.body.dataset.vscodeThemeKind;
  if (kind) return /dark|high-contrast$/.test(kind);
  const colour = getComputedStyle(element).getPropertyValue("--jp-layout-color1").trim();
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(colour)?.[1];
  if (!hex) return false;
  const full = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
  return [0, 2, 4].reduce((sum, i) => sum + Number.parseInt(full.slice(i, i + 2), 16), 0) < 384;
}

/** Keep `data-dark` on the root and call back on a change of theme. Returns the function that stops it all. */
export function watchTheme(root, changed, cleanups = []) {
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
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
  requestAnimationFrame(apply);
  return () => {
    observer.disconnect();
    timers.forEach(clearTimeout);
    for (const cleanup of cleanups) cleanup();
  };
}
