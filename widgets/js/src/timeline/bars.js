// The bars of one plan: columns of a float32 buffer, an index by lane and track, binary search. No DOM.

const COLUMNS = ["start_s", "end_s", "lane", "kind", "stage", "copy", "microbatch", "count", "peer", "bytes"];
export const KINDS = ["F", "B", "I", "W", "U", "recompute", "transfer", "reduce", "gather", "all_to_all", "offload", "reload"];
export const KIND_NAMES = [
  "F forward",
  "B backward",
  "I input gradient",
  "W weight gradient",
  "U update",
  "recompute",
  "transfer",
  "gradient reduction",
  "gather",
  "all to all",
  "offload",
  "reload",
];
export const FIRST_WIRE = 6;
const WIDTH = COLUMNS.length;
const [START, END, LANE, KIND, STAGE, COPY, MICROBATCH, COUNT, PEER, BYTES] = COLUMNS.map((_, i) => i);

export class Bars {
  /** @param {Float32Array} numbers @param {number} lanes */
  constructor(numbers, lanes) {
    this.numbers = numbers;
    this.length = Math.floor(numbers.length / WIDTH);
    this.kinds = new Set();
    this.end_s = 0;
    const sizes = new Int32Array(2 * lanes);
    for (let i = 0, at = 0; i < this.length; i += 1, at += WIDTH) {
      const lane = numbers[at + LANE];
      this.kinds.add(numbers[at + KIND]);
      if (numbers[at + END] > this.end_s) this.end_s = numbers[at + END];
      if (lane >= 0 && lane < lanes) sizes[2 * lane + (numbers[at + KIND] >= FIRST_WIRE ? 1 : 0)] += 1;
    }
    this.lanes = Array.from({ length: lanes }, (_, lane) => ({
      compute: new Int32Array(sizes[2 * lane]),
      wire: new Int32Array(sizes[2 * lane + 1]),
      longest: [0, 0],
    }));
    this.index(lanes);
  }

  /** Fill the tracks in the order of start; a bar stands in one track of one lane. */
  index(lanes) {
    const { numbers } = this;
    const filled = new Int32Array(2 * lanes);
    for (let i = 0, at = 0; i < this.length; i += 1, at += WIDTH) {
      const lane = this.lanes[numbers[at + LANE]];
      if (!lane) continue;
      const wire = numbers[at + KIND] >= FIRST_WIRE ? 1 : 0;
      const place = 2 * numbers[at + LANE] + wire;
      (wire ? lane.wire : lane.compute)[filled[place]] = i;
      filled[place] += 1;
      const length = numbers[at + END] - numbers[at + START];
      if (length > lane.longest[wire]) lane.longest[wire] = length;
    }
    for (const lane of this.lanes) {
      for (const track of [lane.compute, lane.wire]) if (!this.sorted(track)) track.sort((a, b) => this.start(a) - this.start(b));
    }
  }

  start(i) {
    return this.numbers[i * WIDTH + START];
  }
  end(i) {
    return this.numbers[i * WIDTH + END];
  }
  kind(i) {
    return this.numbers[i * WIDTH + KIND];
  }
  lane(i) {
    return this.numbers[i * WIDTH + LANE];
  }
  microbatch(i) {
    return this.numbers[i * WIDTH + MICROBATCH];
  }
  count(i) {
    return this.numbers[i * WIDTH + COUNT];
  }
  isWire(i) {
    return this.kind(i) >= FIRST_WIRE;
  }

  sorted(track) {
    for (let k = 1; k < track.length; k += 1) if (this.start(track[k]) < this.start(track[k - 1])) return false;
    return true;
  }

  track(lane, wire) {
    const found = this.lanes[lane];
    return found ? (wire ? found.wire : found.compute) : new Int32Array(0);
  }

  /** First place in a track whose start is after `t`. */
  upper(track, t) {
    let [low, high] = [0, track.length];
    while (low < high) {
      const mid = (low + high) >> 1;
      if (this.start(track[mid]) > t) high = mid;
      else low = mid + 1;
    }
    return low;
  }

  /** Places [from, to) of a track that may be seen between t0 and t1. */
  visible(lane, wire, t0, t1) {
    const track = this.track(lane, wire);
    return [this.upper(track, t0 - this.lanes[lane].longest[wire ? 1 : 0] - 1e-12), this.upper(track, t1)];
  }

  /** The bar of a lane's track under a time, or -1; `reach` seconds of tolerance for thin ones. */
  at(lane, wire, t, reach = 0) {
    const track = this.track(lane, wire);
    const longest = this.lanes[lane]?.longest[wire ? 1 : 0] ?? 0;
    for (let k = this.upper(track, t + reach) - 1; k >= 0; k -= 1) {
      if (this.start(track[k]) < t - reach - longest) break;
      if (this.end(track[k]) + reach >= t) return track[k];
    }
    return -1;
  }

  /** The bar of a track nearest to a time, or -1 in an empty one. */
  near(lane, wire, t) {
    const under = this.at(lane, wire, t);
    const track = this.track(lane, wire);
    if (under >= 0 || !track.length) return under;
    const k = this.upper(track, t);
    const [before, after] = [track[k - 1], track[k]];
    if (before == null) return after;
    if (after == null) return before;
    return t - this.end(before) <= this.start(after) - t ? before : after;
  }

  /** The bar `by` places further in the same track; at the ends the bar itself. */
  beside(i, by) {
    const track = this.track(this.lane(i), this.isWire(i));
    let k = this.upper(track, this.start(i)) - 1;
    while (k > 0 && track[k] !== i) k -= 1;
    return track[Math.min(track.length - 1, Math.max(0, k + by))];
  }

  holds(i, microbatch) {
    const first = this.microbatch(i);
    return first >= 0 && microbatch >= first && microbatch < first + Math.max(1, this.count(i));
  }

  /** All bars of one microbatch in the order of time. */
  journey(microbatch) {
    this.kept ??= new Map();
    const known = this.kept.get(microbatch);
    if (known) return known;
    const alone = (this.byMicrobatch ??= this.sortedOut()).get(microbatch) ?? [];
    const bars = [...alone, ...this.ranges.filter((i) => this.holds(i, microbatch))].sort((a, b) => this.start(a) - this.start(b));
    this.kept.set(microbatch, bars);
    return bars;
  }

  /** Microbatch -> its bars, of those that belong to one alone, so that pointing at one after the other is cheap. */
  sortedOut() {
    const found = new Map();
    this.ranges = [];
    for (let i = 0; i < this.length; i += 1) {
      const m = this.microbatch(i);
      if (m < 0) continue;
      if (this.count(i) > 1) this.ranges.push(i);
      else if (found.has(m)) found.get(m).push(i);
      else found.set(m, [i]);
    }
    return found;
  }

  /** Largest microbatch number there is, or -1. */
  get lastMicrobatch() {
    if (this.most == null) {
      this.most = -1;
      for (let i = 0; i < this.length; i += 1)
        if (this.microbatch(i) >= 0) this.most = Math.max(this.most, this.microbatch(i) + Math.max(1, this.count(i)) - 1);
    }
    return this.most;
  }

  /** Where a microbatch's time went. @returns {{enters_s: number, leaves_s: number, computing_s: number, transit_s: number, waiting_s: number, hops: number, path: number[]}|null} */
  account(microbatch) {
    const all = this.journey(microbatch);
    const path = all.filter((i) => !this.isWire(i));
    if (!path.length) return null;
    const wires = all.filter((i) => this.isWire(i));
    const enters_s = this.start(path[0]);
    const leaves_s = Math.max(...path.map((i) => this.end(i)));
    const computing_s = path.reduce((sum, i) => sum + this.end(i) - this.start(i), 0);
    const transit_s = wires.reduce((sum, i) => sum + this.end(i) - this.start(i), 0);
    return {
      enters_s,
      leaves_s,
      computing_s,
      transit_s,
      waiting_s: Math.max(0, leaves_s - enters_s - computing_s - transit_s),
      hops: wires.length,
      path,
    };
  }

  /** One bar as an object. */
  row(i) {
    const n = this.numbers.subarray(i * WIDTH, (i + 1) * WIDTH);
    return {
      start_s: n[START],
      end_s: n[END],
      lane: n[LANE],
      kind: n[KIND],
      stage: n[STAGE],
      copy: n[COPY],
      microbatch: n[MICROBATCH],
      count: n[COUNT],
      peer: n[PEER],
      bytes: n[BYTES],
    };
  }

  /** Positions of the first bars in order of start. */
  first(limit) {
    return Array.from({ length: this.length }, (_, i) => i)
      .sort((a, b) => this.start(a) - this.start(b))
      .slice(0, limit);
  }
}
