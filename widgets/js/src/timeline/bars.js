// The bars of one plan: columns of a float32 buffer, an index by lane and track, binary search. No DOM.

export const COLUMNS = ["start_s", "end_s", "lane", "kind", "stage", "copy", "microbatch", "count", "peer", "bytes"];
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
    this.lanes = Array.from({ length: lanes }, () => ({ compute: [], wire: [], longest: [0, 0] }));
    this.kinds = new Set();
    for (let i = 0; i < this.length; i += 1) {
      const lane = this.lanes[numbers[i * WIDTH + LANE]];
      if (!lane) continue;
      this.kinds.add(numbers[i * WIDTH + KIND]);
      const wire = numbers[i * WIDTH + KIND] >= FIRST_WIRE;
      (wire ? lane.wire : lane.compute).push(i);
      lane.longest[wire ? 1 : 0] = Math.max(lane.longest[wire ? 1 : 0], this.end(i) - this.start(i));
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

  sorted(track) {
    for (let k = 1; k < track.length; k += 1) if (this.start(track[k]) < this.start(track[k - 1])) return false;
    return true;
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
    const track = wire ? this.lanes[lane].wire : this.lanes[lane].compute;
    return [this.upper(track, t0 - this.lanes[lane].longest[wire ? 1 : 0] - 1e-12), this.upper(track, t1)];
  }

  /** The bar of a lane's track under a time, or -1; `reach` seconds of tolerance for thin ones. */
  at(lane, wire, t, reach = 0) {
    const { [wire ? "wire" : "compute"]: track, longest } = this.lanes[lane] ?? { compute: [], wire: [], longest: [0, 0] };
    for (let k = this.upper(track, t + reach) - 1; k >= 0; k -= 1) {
      if (this.start(track[k]) < t - reach - longest[wire ? 1 : 0]) break;
      if (this.end(track[k]) + reach >= t) return track[k];
    }
    return -1;
  }

  holds(i, microbatch) {
    const first = this.microbatch(i);
    return first >= 0 && microbatch >= first && microbatch < first + Math.max(1, this.count(i));
  }

  /** Compute bars of one microbatch in the order of time. */
  journey(microbatch) {
    const result = [];
    for (let i = 0; i < this.length; i += 1) if (this.holds(i, microbatch)) result.push(i);
    return result.sort((a, b) => this.start(a) - this.start(b));
  }

  /** Where a microbatch's time went. @returns {{enters_s: number, leaves_s: number, computing_s: number, transit_s: number, waiting_s: number, hops: number, path: number[]}|null} */
  account(microbatch) {
    const all = this.journey(microbatch);
    const path = all.filter((i) => this.kind(i) < FIRST_WIRE);
    if (!path.length) return null;
    const wires = all.filter((i) => this.kind(i) >= FIRST_WIRE);
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

  /** Share of every pixel taken by each kind, between t0 and t1. @returns {Map<number, Float32Array>} */
  shares(lane, t0, t1, pixels) {
    const result = new Map();
    const per = (t1 - t0) / pixels;
    const track = this.lanes[lane].compute;
    const [from, to] = this.visible(lane, false, t0, t1);
    for (let k = from; k < to; k += 1) {
      const i = track[k];
      const [a, b] = [Math.max(0, (this.start(i) - t0) / per), Math.min(pixels, (this.end(i) - t0) / per)];
      if (b <= a) continue;
      let row = result.get(this.kind(i));
      if (!row) result.set(this.kind(i), (row = new Float32Array(pixels)));
      for (let p = Math.floor(a); p < b; p += 1) row[p] += Math.min(p + 1, b) - Math.max(p, a);
    }
    return result;
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
