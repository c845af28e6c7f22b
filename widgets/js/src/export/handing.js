// Handing a text over: to the clipboard, also where the host grants no permission, and as a download.

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

/** Save as a file of the browser's. @param {string} name @param {BlobPart} content @param {string} type */
export function download(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.split("/").pop();
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
