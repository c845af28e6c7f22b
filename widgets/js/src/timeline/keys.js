// The timeline by keyboard: zoom and pan, and a focus that goes from bar to bar.

/** Where the focus begins: the first bar in sight of the first lane that has one. */
export function firstBar(plans, window) {
  for (const [plan, { bars }] of plans.entries()) {
    for (let lane = 0; lane < bars.lanes.length; lane += 1) {
      for (const wire of [false, true]) {
        const i = bars.near(lane, wire, window.t0 + window.span * 1e-3);
        if (i >= 0) return { plan, i };
      }
    }
  }
  return null;
}

/** The bar that an arrow key leads to. @param {{plan: number, i: number}|null} focus @param {string} key */
export function moveFocus(plans, window, focus, key) {
  if (!focus || !plans[focus.plan] || focus.i >= plans[focus.plan].bars.length) return firstBar(plans, window);
  const { bars } = plans[focus.plan];
  const { i } = focus;
  const along = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[key];
  if (along) return { plan: focus.plan, i: bars.beside(i, Math.max(-1e9, Math.min(1e9, along))) };
  return stepLane(plans, focus, key === "ArrowDown" ? 1 : -1, (bars.start(i) + bars.end(i)) / 2);
}

/** The nearest bar of the next track: a lane's compute, its wires, the next lane, the next plan. */
function stepLane(plans, focus, by, t) {
  const tracks = plans.flatMap(({ bars }, plan) => bars.lanes.flatMap((_, lane) => [false, true].map((wire) => ({ plan, lane, wire }))));
  const { bars } = plans[focus.plan];
  let at = tracks.findIndex((x) => x.plan === focus.plan && x.lane === bars.lane(focus.i) && x.wire === bars.isWire(focus.i));
  for (at += by; at >= 0 && at < tracks.length; at += by) {
    const { plan, lane, wire } = tracks[at];
    const i = plans[plan].bars.near(lane, wire, t);
    if (i >= 0) return { plan, i };
  }
  return focus;
}

/**
 * What a key does. @param {any} view the timeline
 * @returns {Record<string, () => void>}
 */
export function keyTable(view) {
  const focus = (key) => () => view.setFocus(moveFocus(view.plans, view.window, view.focus, key));
  const table = {
    w: () => view.window.zoom(0.7, view.focusShare()),
    s: () => view.window.zoom(1 / 0.7, view.focusShare()),
    a: () => view.window.pan(-0.15),
    d: () => view.window.pan(0.15),
    0: () => view.window.all(),
    n: () => view.followNext(1),
    p: () => view.followNext(-1),
    c: () => view.toggle("critical"),
    l: () => view.toggle("links_shown"),
    m: () => view.focus && view.markLane(view.plans[view.focus.plan].view.lanes[view.laneOf(view.focus)]?.id),
    o: () => view.editor.toggle(),
    Enter: () => view.followFocus(),
    " ": () => view.followFocus(),
    t: () => view.can && view.moment.toggle(),
    b: () => view.marks.border(false),
    e: () => view.marks.border(true),
    z: () => view.marks.zoom(),
    Escape: () => (view.editor.cancel() || view.marks.clear() ? undefined : view.focus ? view.setFocus(null) : view.follow(null)),
  };
  for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"]) table[key] = focus(key);
  return { ...table, "+": table.w, "=": table.w, "-": table.s };
}
