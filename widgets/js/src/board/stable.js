// A view arrives as fresh objects; what is equal in value to what is drawn is taken from there, so that drawing
// can compare by identity. No DOM.

/** Equal in value; numbers up to rounding. */
export function equal(a, b) {
  if (a === b) return true;
  if (typeof a === "number" && typeof b === "number")
    return Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b)) || (a !== a && b !== b);
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return (a ?? null) === (b ?? null);
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i += 1) if (!equal(a[i], b[i])) return false;
    return true;
  }
  for (const key in a) if (!equal(a[key], b[key])) return false;
  for (const key in b) if (!(key in a) && b[key] != null) return false;
  return true;
}

/** `next` with every item that equals one of `old` replaced by it; `old` itself if all are. @template T @param {T[]} old @param {T[]} next @param {(item: T) => string} key */
function settledList(old = [], next = [], key) {
  const known = new Map(old.map((item) => [key(item), item]));
  const result = next.map((item) => {
    const before = known.get(key(item));
    if (before === undefined || before === item) return item;
    return equal(before, item) ? before : withKnownParts(before, item);
  });
  return result.length === old.length && result.every((item, i) => item === old[i]) ? old : result;
}

/** An item that changed, with those of its parts that did not. */
function withKnownParts(before, item) {
  const result = { ...item };
  for (const key in item)
    if (typeof item[key] === "object" && item[key] !== null && equal(before[key], item[key])) result[key] = before[key];
  return result;
}

/** The next view, made of the drawn one's objects wherever they are equal. @param {any} old @param {any} next */
export function settled(old, next) {
  if (!old?.lanes || !next?.lanes) return next;
  return {
    ...next,
    lanes: settledList(old.lanes, next.lanes, (lane) => lane.id),
    boundaries: settledList(old.boundaries, next.boundaries, (boundary) => boundary.id),
    links: settledList(old.links, next.links, (link) => `${link.from_lane}>${link.to_lane}>${link.kind}`),
    pinned: equal(old.pinned ?? [], next.pinned ?? []) ? old.pinned : next.pinned,
  };
}
