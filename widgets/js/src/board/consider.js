// What a drop would ask of Python, told while it is still held: the answer is then known when it is dropped.

/** How long something rests over one place before Python is told: not at every lane that is passed. */
const REST_MS = 25;

/** Fields of the intent that puts layers on a lane. @param {any} ctx @param {number[]} positions those it has not yet */
export function moveFields(ctx, positions, toLane) {
  const sorted = [...positions].sort((a, b) => a - b);
  return { layers: sorted.map((p) => ctx.catalog.layers[p].id), to_lane: toLane };
}

/** Fields of the intent that moves a cut. @param {any} boundary @param {number} to new position of the cut */
export function boundaryFields(boundary, to) {
  return { boundary: boundary.id, before: boundary.before, after: boundary.after, layers: to - boundary.at };
}

/** Layers of a carried set that a lane does not hold yet. */
export function gainedBy(lane, positions) {
  return [...positions].filter((p) => !lane?.runs.some((run) => run.first <= p && p < run.first + run.count));
}

/** The intent that dropping a preview here would send, or null. @param {any} ctx @param {any} preview */
export function intentOf(ctx, preview) {
  if (!preview?.view) return null;
  const boundary = ctx.view.boundaries.find((item) => item.id === preview.boundary);
  if (!boundary) {
    const gained = gainedBy(ctx.lane(preview.target), preview.positions);
    return gained.length ? { kind: "move", ...moveFields(ctx, gained, preview.target) } : null;
  }
  const count = preview.positions.size;
  const to = boundary.at + (preview.target === boundary.before_lane ? count : -count);
  return { kind: "move_boundary", ...boundaryFields(boundary, to) };
}

/**
 * The preview with what Python simulated of it in place of the estimate, if that is what it was told.
 * @param {any} ctx @param {any} preview
 */
export function withAnswer(ctx, preview) {
  const { answer } = ctx;
  if (!answer || answer.view !== ctx.view || !preview?.view || preview.simulated) return preview;
  if (JSON.stringify(intentOf(ctx, preview)) !== JSON.stringify(answer.considered)) return preview;
  const lanes = preview.view.lanes.map((lane) => ({ ...lane, ...answer.lanes[lane.id] }));
  return { ...preview, view: { ...preview.view, lanes }, simulated: answer.values };
}

/** Tell Python of a preview once it has rested, if it is still the one shown and nothing waits for an answer. */
export function considerSoon(ctx, preview) {
  clearTimeout(ctx.considering);
  if (!preview?.view || preview.simulated) return;
  ctx.considering = setTimeout(() => {
    const intent = ctx.preview === preview && !ctx.pending ? intentOf(ctx, preview) : null;
    if (intent) ctx.model.send({ consider: intent });
  }, REST_MS);
}
