// Copying: any text to the clipboard, also where the host grants no permission, and any table as Markdown or CSV.

import { h } from "./dom.js";

/** Copy; resolves to whether it worked. @param {string} text @param {Element} root where a helper may stand */
export async function copy(text, root) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text, root); // no permission, or no clipboard in an insecure page or frame
  }
}

/** The older way: select a hidden text area and ask the browser to copy it. */
function copyBySelection(text, root) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sx-live";
  area.setAttribute("aria-hidden", "true");
  const before = document.activeElement;
  root.append(area);
  area.select();
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch {
    done = false; // said to the user, who can copy by hand
  }
  area.remove();
  before?.focus?.();
  return done;
}

/** Texts of a table's cells, heads first; buttons are left out, and columns that hold nothing else. @param {HTMLTableElement} table */
export function cellsOf(table) {
  const rows = [...table.rows].filter((row) => row.getClientRects().length).map((row) => [...row.cells].map(textOf));
  const width = Math.max(0, ...rows.map((row) => row.length));
  const kept = Array.from({ length: width }, (_, i) => i).filter((i) => rows.slice(1).some((row) => row[i]));
  return rows.map((row) => kept.map((i) => row[i] ?? ""));
}

/** What is read in a cell: its lines in one. */
function textOf(cell) {
  const buttons = [...cell.querySelectorAll("button")].map((button) => button.innerText);
  const text = buttons.reduce((all, part) => (part ? all.replace(part, "") : all), cell.innerText);
  return text.replace(/[\u00a0\u202f]/g, " ").replace(/\s+/g, " ").trim();
}

/** A table in Markdown; its first row is the head. @param {string[][]} rows */
export function markdown(rows) {
  const line = (cells) => `| ${cells.map((cell) => cell.replaceAll("\\", "\\\\").replaceAll("|", "\\|")).join(" | ")} |`;
  const [head = [], ...rest] = rows;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rest.map(line)].join("\n") + "\n";
}

/** A table in CSV (RFC 4180). @param {string[][]} rows */
export function csv(rows) {
  const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  return rows.map((cells) => cells.map(quoted).join(",") + "\r\n").join("");
}

const FORMS = [
  ["Copy", "markdown", "Copy the table as Markdown", markdown],
  ["CSV", "csv", "Copy the table as CSV", csv],
];
const SAID_MS = 1500;

/** Two buttons that copy a table. @param {() => HTMLTableElement|null|undefined} table */
export function copyButtons(table) {
  return h(
    "span",
    { class: "sx-seg sx-copy" },
    FORMS.map(([text, action, title, make]) => {
      const button = h("button", { class: "sx-btn", text, title, "aria-label": title, "data-action": `copy-${action}` });
      button.addEventListener("click", async () => {
        const found = table();
        if (!found) return;
        const done = await copy(make(cellsOf(found)), button.parentElement);
        button.textContent = done ? "Copied" : "Not allowed";
        setTimeout(() => (button.textContent = text), SAID_MS);
      });
      return button;
    }),
  );
}
