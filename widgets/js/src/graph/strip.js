// The strip at the foot: facts about the node in focus and what can be done with it, else how to get about.

import { h, keyed, set } from "../common/dom.js";
import { near } from "./choose.js";
import { details } from "./words.js";

const HINT = "Enter opens, Escape closes, arrows follow the edges, Space selects, / finds a layer.";

export class Strip {
  constructor() {
    this.facts = h("div", { class: "g-facts" });
    this.acts = h("span", { class: "g-acts" });
    this.element = h("div", { class: "g-strip" }, this.facts, this.acts);
  }

  /** @param {any|null} node in focus @param {any} view @param {boolean} edits whether its layout can be chosen */
  draw(node, view, edits) {
    keyed(
      this.facts,
      (node ? factsOf(node, view) : [["", HINT]]).map((row, i) => ({ row, i })),
      ({ i }) => String(i),
      () => h("span", {}, h("span", {}), h("b", {})),
      (element, { row: [name, value, strong] }) => {
        set(element.firstChild, { text: name ? `${name}\u00a0` : "" });
        set(element.lastChild, { text: value, class: strong ? "strong" : null });
      },
    );
    keyed(
      this.acts,
      node ? actionsOf(node, view.nodes, edits) : [],
      ([action]) => action,
      () => h("button", { class: "sx-btn" }),
      (button, [action, text]) => set(button, { "data-action": action, "data-for": node.id, text }),
    );
  }
}

function factsOf(node, { nodes, edges, other_name: otherName }) {
  const [reads, feeds] = [near(nodes, edges, node.id, false), near(nodes, edges, node.id, true)];
  return [["", node.label, true], ...details(node, { reads, feeds, otherName })];
}

/** What can be done with a node, as [action, words]. @param {any} node @param {any[]} nodes */
function actionsOf(node, nodes, edits) {
  const found = [];
  if (node.open) found.push(["close", "Close"]);
  else if (node.opens.length) found.push(["open", "Open"]);
  if (node.open ? closedIn(node, nodes) : node.opens.length) found.push(["open-all", "Open all levels"]);
  if (node.repeat) found.push(node.unfolded ? ["fold", "Fold repeats"] : ["unfold", "Unfold repeats"]);
  if (edits) found.push(["inspect", node.open || node.opens.length || node.count > 1 ? "Memory…" : "Split and memory…"]);
  return found;
}

/** Is anything in an open part still closed? */
function closedIn(node, nodes) {
  const inside = new Set([node.id]);
  for (const n of nodes) if (inside.has(n.parent)) inside.add(n.id);
  return nodes.some((n) => inside.has(n.parent) && !n.open && n.count === 1 && n.opens.length > 0);
}
