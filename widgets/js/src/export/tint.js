// A light tint for previews: comments, strings, keys. Not a parser: what it does not know stays plain. No DOM.

const RULES = {
  yaml: /(?<comment>#[^\n]*)|(?<string>"[^"\n]*"|'[^'\n]*')|(?<key>^[ \t-]*[\w.]+(?=:))/gm,
  py: /(?<string>"""[\s\S]*?"""|"[^"\n]*"|'[^'\n]*')|(?<comment>#[^\n]*)|(?<key>\b(?:def|return|import|from|class|for|in|if|else|None|True|False)\b)/gm,
  sh: /(?<comment>(?<=^|\s)#[^\n]*)|(?<string>"[^"\n]*"|'[^'\n]*')|(?<key>(?<=\s)--[\w-]+)/gm,
  json: /(?<key>"[^"\n]*"(?=\s*:))|(?<string>"[^"\n]*")/gm,
};
const KIND = { yaml: "yaml", yml: "yaml", toml: "sh", py: "py", sh: "sh", json: "json" };

/** Pieces of a text: [class or "", piece]. Joined they are the text. @param {string} name @param {string} text */
export function tint(name, text) {
  const rule = RULES[KIND[name.split(".").pop()]];
  if (!rule) return [["", text]];
  const pieces = [];
  let at = 0;
  for (const match of text.matchAll(rule)) {
    if (match.index > at) pieces.push(["", text.slice(at, match.index)]);
    const found = Object.entries(match.groups).find(([, value]) => value != null);
    pieces.push([found[0], match[0]]);
    at = match.index + match[0].length;
  }
  if (at < text.length) pieces.push(["", text.slice(at)]);
  return pieces;
}
