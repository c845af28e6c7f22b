// Selection, search and steps from node to node: everything about ids and positions. No DOM.

/** @typedef {{layers: string[], blocks: [string, number, number][]}} Index */

/** Ids of the page's selection to positions in the model, and back. */
export class Positions {
  /** @param {Index|null|undefined} index */
  constructor(index) {
    this.layers = index?.layers ?? [];
    this.blocks = index?.blocks ?? [];
    this.at = new Map();
    this.layers.forEach((name, i) => this.at.set(name, [i, 1]));
    for (const [id, first, n] of this.blocks) if (!this.at.has(id) || n > 1) this.at.set(id, [first, n]);
  }

  /** Ids as ranges of positions, in order; unknown ids are left out. @param {string[]} ids */
  ranges(ids) {
    return ids
      .map((id) => ({ id, range: this.at.get(id) }))
      .filter((item) => item.range)
      .sort((a, b) => a.range[0] - b.range[0]);
  }

  /** What of a selection lies in a node. @param {{id: string, range: [number, number]}[]} chosen @param {[number, number][]} ranges */
  held(chosen, ranges) {
    let held = 0;
    let place = 0;
    let passed = 0;
    const ids = new Set();
    for (const [first, n] of ranges) {
      for (const { id, range } of chosen) {
        const a = Math.max(first, range[0]);
        const b = Math.min(first + n, range[0] + range[1]);
        if (a < b) {
          if (!held) place = passed + a - first + (b - a) / 2;
          held += b - a;
          ids.add(id);
        }
      }
      passed += n;
    }
    return { held, total: passed, ids: [...ids], share: passed ? place / passed : 0 };
  }

  /** Ids for a node's layers: blocks where they are whole, layers else. @param {[number, number][]} ranges */
  idsOf(ranges) {
    const found = [];
    for (const [first, n] of ranges) {
      let i = first;
      while (i < first + n) {
        const block = this.blockAt(i);
        if (block && block[1] === i && i + block[2] <= first + n) {
          found.push(block[0]);
          i += block[2];
        } else {
          found.push(this.layers[i]);
          i += 1;
        }
      }
    }
    return found.filter((id) => id != null);
  }

  /** The block that holds a position, by halving. */
  blockAt(i) {
    let [low, high] = [0, this.blocks.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.blocks[middle][1] + this.blocks[middle][2] <= i) low = middle + 1;
      else high = middle;
    }
    return this.blocks[low];
  }
}

/** Short name of a selected id. @param {string} id */
export const tail = (id) => id.replace(/#\d+$/, "").replace(/^.*\./, "");

/** A selection with a node's ids set, added, or taken out if they were all in. */
export function select(now, ids, extend) {
  if (!extend) return ids;
  return ids.every((id) => now.includes(id)) ? now.filter((id) => !ids.includes(id)) : [...new Set([...now, ...ids])];
}

// ---- search --------------------------------------------------------------------------------------

/**
 * Layers whose name has every word of a query, best first: whole segments before parts of them, short names before long.
 * @param {string[]} names @param {string} query @param {number} [most] @returns {{total: number, hits: {name: string, at: number}[]}}
 */
export function search(names, query, most = 8) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return { total: 0, hits: [] };
  const found = [];
  names.forEach((name, at) => {
    const low = name.toLowerCase();
    if (!words.every((word) => low.includes(word))) return;
    const segments = low.split(".");
    const cost = words.reduce((sum, word) => {
      const whole = segments.includes(word);
      return sum + (low === word ? 0 : whole ? 1 : segments.some((s) => s.startsWith(word)) ? 2 : 3);
    }, 0);
    found.push({ name, at, cost });
  });
  found.sort((a, b) => a.cost - b.cost || a.at - b.at);
  return { total: found.length, hits: found.slice(0, most).map(({ name, at }) => ({ name, at })) };
}

// ---- steps ---------------------------------------------------------------------------------------

/**
 * The node that an arrow leads to, or null. Right and left follow edges, over borders of frames; up and down go to the
 * siblings of the same frame, and from the first to the frame itself.
 * @param {any[]} nodes @param {[string, string, number][]} edges @param {string} id @param {string} key
 */
export function step(nodes, edges, id, key) {
  const byId = new Map(nodes.map((n) => [n.id, n]));
  const node = byId.get(id);
  if (!node) return null;
  const siblings = nodes.filter((n) => n.parent === node.parent);
  const at = siblings.indexOf(node);
  if (key === "ArrowUp") return siblings[at - 1]?.id ?? node.parent;
  if (key === "ArrowDown") return node.open ? inside(nodes, id)[0]?.id : (siblings[at + 1]?.id ?? null);
  if (key === "Home") return siblings[0].id;
  if (key === "End") return siblings[siblings.length - 1].id;
  return key === "ArrowRight" ? follow(byId, edges, id, 0, 1) : key === "ArrowLeft" ? follow(byId, edges, id, 1, 0) : null;
}

const inside = (nodes, id) => nodes.filter((n) => n.parent === id);

/** Along the first edge out of (or into) a node: out of its frame where it leads there, into a frame where it leads in. */
function follow(byId, edges, id, from, to) {
  const within = (a, b) => byId.get(b)?.parent === a; // b stands in frame a
  let here = id;
  for (let left = byId.size; left > 0; left -= 1) {
    const own = edges.filter((e) => e[from] === here && !within(here, e[to]));
    const sibling = own.find((e) => !within(e[to], here));
    const next = (sibling ?? own[0])?.[to];
    if (next == null) return null;
    if (sibling) return enter(byId, edges, next, from, to);
    here = next; // over the border: on from the frame
  }
  return null;
}

function enter(byId, edges, id, from, to) {
  let here = id;
  while (byId.get(here)?.open) {
    const next = edges.find((e) => e[from] === here && byId.get(e[to])?.parent === here);
    if (!next) break;
    here = next[to];
  }
  return here;
}

/** Names of the nodes just before or behind a node, on its own level and over its frame's border. */
export function near(nodes, edges, id, ahead) {
  const byId = new Map(nodes.map((n) => [n.id, n]));
  const [from, to] = ahead ? [0, 1] : [1, 0];
  const found = [];
  let here = [id];
  const seen = new Set(here);
  while (here.length) {
    const border = [];
    for (const own of here)
      for (const e of edges)
        if (e[from] === own && byId.get(e[to])?.parent !== own && !seen.has(e[to])) {
          seen.add(e[to]);
          if (byId.get(own).parent === e[to]) border.push(e[to]);
          else found.push(e[to]);
        }
    here = border;
  }
  return found.map((key) => byId.get(key)?.label ?? key);
}

/** Open ids without a part and what is open in it. @param {any[]} nodes @param {string[]} opened @param {string} id */
export function without(nodes, opened, id) {
  const byId = new Map(nodes.map((n) => [n.id, n]));
  const under = (key) => {
    for (let n = byId.get(key); n; n = byId.get(n.parent)) if (n.id === id) return true;
    return false;
  };
  return opened.filter((key) => key !== id && !under(key));
}
