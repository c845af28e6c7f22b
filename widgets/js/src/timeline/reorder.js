// Moving an action to another place in its lane: what can be moved, and where it would come to stand. No DOM.

const OPS = ["F", "B", "I", "W", "U"];
const RECOMPUTE = 5;

/** Is a bar of an action (not something sent)? What a backward makes again is a part of it. */
export const movable = (bars, i) => i >= 0 && bars.kind(i) <= RECOMPUTE;

/** The actions of a lane in their order: bars of its compute track, without the parts that recompute. */
export const sequence = (bars, lane) => [...bars.track(lane, false)].filter((i) => bars.kind(i) !== RECOMPUTE);

/** The bar of the action that a bar belongs to. */
export function actionBar(bars, i) {
  if (bars.kind(i) !== RECOMPUTE) return i;
  const { stage, microbatch, copy, start_s } = bars.row(i);
  const own = (row) => row.stage === stage && row.microbatch === microbatch && row.copy === copy;
  const found = sequence(bars, bars.lane(i)).find((j) => bars.start(j) >= start_s && bars.kind(j) <= 2 && own(bars.row(j)));
  return found ?? i;
}

/** The action as an intent names it. */
export function actionOf(bars, i) {
  const { kind, stage, microbatch, copy } = bars.row(i);
  return { op: OPS[kind] ?? "B", stage, microbatch, copy };
}

/** "0F4", as orders are written. */
export function actionWords(bars, i) {
  const { kind, stage, microbatch, count, copy } = bars.row(i);
  const last = count > 1 ? `-${microbatch + count - 1}` : "";
  return `${stage}${OPS[kind] ?? "B"}${microbatch < 0 ? "" : microbatch + last}${copy ? `~${copy}` : ""}`;
}

/**
 * Where an action dropped at a time would stand: before or after which other; null where that is its own place.
 * @returns {{beside: number, before: boolean, t: number}|null} `t`: where the gap is, in seconds
 */
export function placeAt(bars, i, t) {
  const all = sequence(bars, bars.lane(i));
  const others = all.filter((j) => j !== i);
  const own = all.indexOf(i);
  let k = others.findIndex((j) => (bars.start(j) + bars.end(j)) / 2 > t);
  if (k < 0) k = others.length;
  if (k === own || !others.length) return null;
  return k < others.length
    ? { beside: others[k], before: true, t: bars.start(others[k]) }
    : { beside: others[k - 1], before: false, t: bars.end(others[k - 1]) };
}

/** The place one action further on (1) or back (-1); null at the end of the lane. */
export function placeBeside(bars, i, by) {
  const all = sequence(bars, bars.lane(i));
  const beside = all[all.indexOf(i) + by];
  return beside == null ? null : { beside, before: by < 0, t: by < 0 ? bars.start(beside) : bars.end(beside) };
}

/** "0F4 before 0B0". */
export const placeWords = (bars, i, place) =>
  `${actionWords(bars, i)} ${place.before ? "before" : "after"} ${actionWords(bars, place.beside)}`;

/** The bar that shows the same action in other bars, or -1. */
export function sameAction(bars, row) {
  const same = (i) => {
    const other = bars.row(i);
    return ["kind", "stage", "microbatch", "copy", "lane", "peer"].every((key) => other[key] === row[key]);
  };
  for (let i = 0; i < bars.length; i += 1) if (bars.kind(i) === row.kind && bars.microbatch(i) === row.microbatch && same(i)) return i;
  return -1;
}
