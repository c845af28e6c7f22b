// The board's data as the page uses it: the flat layer list, the pieces (chips) of each lane, selections. No DOM.

/**
 * @typedef {{id: string, label: string, kind?: string, part?: string|null, forward_s: number, backward_s: number, weight_bytes: number,
 *   gradient_bytes: number, optimizer_bytes: number, saved_bytes: number, output_bytes?: number|null, parameters?: number|null}} Layer
 * @typedef {{id: string, label: string, name: string, kind: string, layers: Layer[]}} Block
 * @typedef {{stage: number, copy?: number, first: number, count: number, first_share?: number|null, last_share?: number|null, note?: string|null}} Run
 * @typedef {Layer & {index: number, block: number, time_s: number, state_bytes: number}} FlatLayer
 * @typedef {{key: string, block: Block, blockIndex: number, run: number, stage: number, first: number, count: number, layer: FlatLayer|null,
 *   whole: boolean, share: number, time_s: number, forward_s: number, backward_s: number, state_bytes: number, saved_bytes: number,
 *   output_bytes: number, parameters: number}} Piece
 */

/** The flat layer list with what is often needed, and a map from id to positions. */
export class Catalog {
  /** @param {Block[]} blocks */
  constructor(blocks) {
    this.blocks = blocks;
    /** @type {FlatLayer[]} */
    this.layers = [];
    /** @type {number[]} first flat position of each block, and the end */
    this.starts = [];
    /** @type {Map<string, [number, number]>} id to [first, end) */
    this.ranges = new Map();
    blocks.forEach((block, b) => {
      this.starts.push(this.layers.length);
      for (const layer of block.layers) {
        const index = this.layers.length;
        this.layers.push({
          ...layer,
          index,
          block: b,
          time_s: layer.forward_s + layer.backward_s,
          state_bytes: layer.weight_bytes + layer.gradient_bytes + layer.optimizer_bytes,
        });
        this.ranges.set(layer.id, [index, index + 1]);
      }
      this.ranges.set(block.id, [this.starts[b], this.layers.length]);
    });
    this.starts.push(this.layers.length);
    this.total_s = this.layers.reduce((sum, layer) => sum + layer.time_s, 0);
    /** Names of the first two parts of blocks: the two tones of a chip's foot. */
    this.parts = [...new Set(this.layers.map((layer) => layer.part).filter(Boolean))].slice(0, 2);
    /** Share of the model's time before each layer, and 1. @type {Float64Array} */
    this.until = new Float64Array(this.layers.length + 1);
    this.layers.forEach((layer, i) => {
      this.until[i + 1] = this.until[i] + layer.time_s / (this.total_s || 1);
    });
  }

  /** Flat positions of ids. @param {Iterable<string>} ids @returns {Set<number>} */
  positions(ids) {
    const result = new Set();
    for (const id of ids) {
      const range = this.ranges.get(id);
      for (let i = range?.[0] ?? 0; i < (range?.[1] ?? 0); i += 1) result.add(i);
    }
    return result;
  }

  /** Shortest list of ids for flat positions: block ids where whole. @param {Set<number>} positions */
  ids(positions) {
    const result = [];
    this.blocks.forEach((block, b) => {
      const [start, end] = [this.starts[b], this.starts[b + 1]];
      let held = 0;
      for (let i = start; i < end; i += 1) held += positions.has(i) ? 1 : 0;
      if (held === end - start) result.push(block.id);
      else if (held) for (let i = start; i < end; i += 1) if (positions.has(i)) result.push(this.layers[i].id);
    });
    return result;
  }

  /** "block 12", "blocks 17, 18", "3 layers of block 7 and 2 blocks". @param {Set<number>} positions */
  describe(positions) {
    const whole = [];
    const parts = [];
    this.blocks.forEach((block, b) => {
      let held = 0;
      for (let i = this.starts[b]; i < this.starts[b + 1]; i += 1) held += positions.has(i) ? 1 : 0;
      if (held && held === block.layers.length) whole.push(block);
      else if (held) parts.push(`${held} ${held === 1 ? "layer" : "layers"} of ${block.name}`);
    });
    const names =
      whole.length === 1
        ? [whole[0].name]
        : whole.length > 1 && whole.length <= 4 && whole.every((block) => block.kind === "block")
          ? [`blocks ${whole.map((block) => block.label).join(", ")}`]
          : whole.length > 1
            ? [`${whole.length} blocks, ${whole[0].label} to ${whole[whole.length - 1].label}`]
            : [];
    return [...names, ...parts].join(" and ") || "nothing";
  }
}

/** Stages (and copies) of some runs. @param {Run[]} runs */
export const stagesOf = (runs) => new Set(runs.map((run) => `${run.stage}|${run.copy ?? 0}`)).size;

/** What a layer's seconds count for on a lane: `time_factor` without the share of the calls, which stay when layers go. */
export function ownFactor(lane) {
  const whole = lane.forward_s + lane.backward_s;
  const calls = (lane.call_s ?? 0) * stagesOf(lane.runs ?? []);
  return (lane.time_factor ?? 1) * (whole > calls ? (whole - calls) / whole : 1);
}

/**
 * Chips of one lane, in drawing order: each run cut at block edges; opened blocks cut into layers.
 * @param {Catalog} catalog @param {{runs: Run[], time_factor?: number}} lane @param {Set<string>} expanded @returns {Piece[]}
 */
export function piecesOf(catalog, lane, expanded) {
  const known = kept.get(lane);
  if (known && known.catalog === catalog && known.expanded === expanded) return known.pieces;
  const pieces = cut(catalog, lane, expanded);
  kept.set(lane, { catalog, expanded, pieces });
  return pieces;
}

/** @type {WeakMap<object, {catalog: Catalog, expanded: Set<string>, pieces: Piece[]}>} chips of lanes that did not change */
const kept = new WeakMap();

function cut(catalog, lane, expanded) {
  const pieces = [];
  const factors = { drawn: lane.time_factor ?? 1, own: ownFactor(lane) };
  lane.runs.forEach((run, r) => {
    const end = run.first + run.count;
    for (let at = run.first; at < end;) {
      const b = catalog.layers[at].block;
      const block = catalog.blocks[b];
      const open = expanded.has(block.id) && block.layers.length > 1;
      const stop = open ? at + 1 : Math.min(end, catalog.starts[b + 1]);
      pieces.push(piece(catalog, run, r, b, at, stop, open, factors));
      at = stop;
    }
  });
  return pieces;
}

/** `time_s` is the width drawn, so that chips fill the row; the other figures are the layers' own. @returns {Piece} */
function piece(catalog, run, r, b, first, stop, open, factors) {
  const block = catalog.blocks[b];
  const whole = first === catalog.starts[b] && stop === catalog.starts[b + 1];
  const result = {
    key: `${open ? catalog.layers[first].id : whole ? block.id : `${block.id}@${first}`}~${run.copy ?? 0}`,
    block,
    blockIndex: b,
    run: r,
    stage: run.stage,
    first,
    count: stop - first,
    layer: open ? catalog.layers[first] : null,
    whole,
    share: 1,
    time_s: 0,
    forward_s: 0,
    backward_s: 0,
    state_bytes: 0,
    saved_bytes: 0,
    output_bytes: 0,
    parameters: 0,
  };
  for (let i = first; i < stop; i += 1) {
    const layer = catalog.layers[i];
    const share = i === run.first ? (run.first_share ?? 1) : i === run.first + run.count - 1 ? (run.last_share ?? 1) : 1;
    if (share < 1) {
      result.share = share;
      result.key += `%${run.stage}`;
    }
    result.time_s += layer.time_s * factors.drawn * share;
    result.forward_s += layer.forward_s * factors.own * share;
    result.backward_s += layer.backward_s * factors.own * share;
    result.state_bytes += layer.state_bytes * share;
    result.saved_bytes += layer.saved_bytes * share;
    result.parameters += (layer.parameters ?? 0) * share;
    result.output_bytes = layer.output_bytes ?? 0;
  }
  return result;
}

/** Positions a piece stands for. @param {Piece} p */
export const positionsOf = (p) => Array.from({ length: p.count }, (_, i) => p.first + i);

/** Does a sorted list hold a number of [first, end)? @param {number[]} sorted */
export function holdsAny(sorted, first, end) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < first) low = middle + 1;
    else high = middle;
  }
  return low < sorted.length && sorted[low] < end;
}

/** Position of the lane that holds each layer, -1 for nobody; the first where several do. @param {{lanes: {runs: Run[]}[]}} view */
export function ownersOf(view, count) {
  const owners = new Int32Array(count).fill(-1);
  for (let l = view.lanes.length - 1; l >= 0; l -= 1)
    for (const run of view.lanes[l].runs) owners.fill(l, run.first, run.first + run.count);
  return owners;
}

/** Are all, some or none of [first, first + count) in a set? @returns {"all" | "some" | "none"} @param {Set<number>} set */
export function heldBy(set, first, count) {
  if (!set.size) return "none";
  let held = 0;
  for (let i = first; i < first + count; i += 1) held += set.has(i) ? 1 : 0;
  return held === count ? "all" : held ? "some" : "none";
}

/** What a chip is called aloud. @param {Piece} p */
export function pieceName(p) {
  if (p.layer && p.block.layers.length > 1) return `${p.layer.label} of ${p.block.name}`;
  return p.whole ? p.block.name : `part of ${p.block.name}, ${p.count} of ${p.block.layers.length} layers`;
}

/** Short text on a chip. @param {Piece} p */
export function pieceLabel(p) {
  if (p.layer && p.block.layers.length > 1) return p.layer.label;
  return p.whole ? p.block.label : `${p.block.label} (${p.count}/${p.block.layers.length})`;
}
