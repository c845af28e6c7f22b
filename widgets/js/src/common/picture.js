// Figures to take along: a widget as it is seen, as an SVG file or as a PNG on the clipboard. Made in the page, offline.

import { h } from "./dom.js";
import { download } from "./download.js";

/** What belongs to the page and not to the figure. */
const LEFT_OUT = ".sx-btn, input, .sx-seg, .sx-acts, .sx-live, .sx-notices, .sx-tip, .b-detail, dialog, [hidden]";
/** Host variables that our own colours come from. */
const HOST = /--(?:jp|vscode)-[\w-]+/g;
/** Pixels of the PNG for one of the page. */
const SHARPNESS = 2;

/**
 * A widget as SVG text: its elements with our style sheets, drawings on canvases as pictures. What shows it must know
 * HTML within SVG, as browsers do.
 * @param {HTMLElement} root
 */
export function svgOf(root) {
  const { width, height } = root.getBoundingClientRect();
  const copy = withoutControls(root);
  const size = `width="${Math.ceil(width)}" height="${Math.ceil(height)}"`;
  const style = h("style", { text: sheets() });
  const host = h("div", { class: "sx-picture" }, style, copy);
  host.setAttribute("style", `width:${width}px;${hostColours(root, style.textContent)}`);
  host.setAttribute("xmlns", "http://www.w3.org/1999/xhtml");
  const inner = new XMLSerializer().serializeToString(host);
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size}><foreignObject width="100%" height="100%">${inner}</foreignObject></svg>`;
}

/** A copy of what is drawn; room that controls took stays, so that nothing moves. */
function withoutControls(root) {
  const copy = root.cloneNode(true);
  const drawn = [...root.querySelectorAll("canvas")];
  [...copy.querySelectorAll("canvas")].forEach((canvas, i) => {
    const picture = h("img", { src: drawn[i].toDataURL(), class: canvas.className });
    const { width, height } = drawn[i].getBoundingClientRect();
    picture.setAttribute("style", `${canvas.getAttribute("style") ?? ""};width:${width}px;height:${height}px`);
    canvas.replaceWith(picture);
  });
  for (const element of copy.querySelectorAll(LEFT_OUT)) element.remove();
  return copy;
}

/** Rules of all style sheets that speak of our widgets. */
function sheets() {
  const rules = [...document.styleSheets].flatMap((sheet) => {
    try {
      return [...sheet.cssRules].map((rule) => rule.cssText);
    } catch {
      return []; // of another origin
    }
  });
  return rules.filter((text) => OURS.test(text)).join("\n");
}

const OURS = /\.(?:sx|b|tl|g|hm|t|c|l|s|h|e|r|w|x|xp)-|\.(?:sx|compact)\b|@container sx/;

/** Values of the host's variables that the rules ask for, as they are now. */
function hostColours(root, css) {
  const now = getComputedStyle(root);
  return [...new Set(css.match(HOST) ?? [])]
    .map((name) => [name, now.getPropertyValue(name).trim()])
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}:${value}`)
    .join(";");
}

/** The same as a PNG. @param {HTMLElement} root @returns {Promise<Blob>} */
export async function pngOf(root) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(root))}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width * SHARPNESS, picture.height * SHARPNESS];
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(root).backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const SAID_MS = 1500;

/**
 * Two buttons for a figure: its PNG is copied, or saved where that is not allowed; its SVG is saved.
 * @param {string} name @param {() => string} [now] the name of what is shown now, where that changes
 */
export function pictureButtons(name, now = () => name) {
  const button = (text, action, title, work) => {
    const made = h("button", { class: "sx-btn", text, title, "aria-label": title, "data-action": action });
    made.addEventListener("click", async () => {
      const said = await work(made.closest(".sx")).catch(() => "Failed");
      made.textContent = said;
      setTimeout(() => (made.textContent = text), SAID_MS);
    });
    return made;
  };
  return h(
    "span",
    { class: "sx-seg sx-picture-buttons", role: "group", "aria-label": `The ${name} as a picture` },
    button("PNG", "copy-png", `Copy the ${name} as a picture (PNG)`, (root) => copyPng(root, now())),
    button("SVG", "save-svg", `Save the ${name} as SVG, to open in a browser`, async (root) => {
      download(`${now()}.svg`, [svgOf(root)], "image/svg+xml");
      return "Saved";
    }),
  );
}

async function copyPng(root, name) {
  const picture = pngOf(root); // not awaited: the clipboard asks within the click
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
    return "Copied";
  } catch {
    download(`${name}.png`, [await picture], "image/png");
    return "Saved";
  }
}
