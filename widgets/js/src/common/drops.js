// Files dropped on a workbench: without this the browser would leave the page to show the file.

/** Event of the document that hands a dropped file to the workbench's tiles, which always are there. */
export const DROPPED = "sx-file-dropped";
/** Bytes above which a file is not read: plans are a thousandth of it. */
const MOST = 16 * 2 ** 20;

const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

/**
 * Take files that are dropped on a widget, unless a part of it has a use for them of its own (a trainer's log).
 * @param {HTMLElement} root @param {() => string} bench id of the workbench
 */
export function takeDrops(root, bench) {
  root.addEventListener("dragover", (event) => {
    if (holdsFiles(event) && bench()) event.preventDefault();
  });
  root.addEventListener("drop", async (event) => {
    if (!holdsFiles(event) || event.defaultPrevented || !bench()) return; // a report opens nothing
    event.preventDefault();
    const file = event.dataTransfer.files?.[0];
    if (!file) return;
    const text = file.size > MOST ? null : await file.text();
    document.dispatchEvent(new CustomEvent(DROPPED, { detail: { bench: bench(), name: file.name, text } }));
  });
}

/** Call back with every file dropped on a workbench. Returns what ends it. @param {() => string} bench @param {(name: string, text: string|null) => void} take */
export function onDropped(bench, take) {
  const listen = ({ detail }) => detail.bench === bench() && take(detail.name, detail.text);
  document.addEventListener(DROPPED, listen);
  return () => document.removeEventListener(DROPPED, listen);
}
