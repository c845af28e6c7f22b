// A workbench that was just made comes into sight: its cell stands below an introduction, and what it is for should be on
// the first screen. Once for each workbench, and never against a hand that scrolls, presses or types.

/** Given up after this long. */
const LONGEST_MS = 20000;
/** Done when nothing above or in the board has grown for this long. */
const REST_MS = 700;
/** A lane of the board, or its place where nothing is loaded. */
const DRAWN = "[data-lane], .xp-absent";
const HANDS = ["wheel", "pointerdown", "touchstart", "keydown"];

/**
 * Keep the frame of a workbench at the top of what is seen until its board is drawn. While it lasts the root carries
 * `data-arriving`. Returns what ends it.
 * @param {any} model has the trait `fresh`, which is set back @param {HTMLElement} root of the first widget in the frame
 */
export function arrive(model, root) {
  if (!model.get("fresh")) return () => {};
  let [rest, frame] = [0, 0];
  const watcher = new ResizeObserver(follow);
  const limit = setTimeout(done, LONGEST_MS);
  for (const hand of HANDS) document.addEventListener(hand, done, { capture: true, passive: true });
  root.dataset.arriving = "";
  begin();
  return stop;

  function begin() {
    if (!root.isConnected) return void (frame = requestAnimationFrame(begin));
    const whole = root.closest(".xp-frame");
    if (!whole) return done(); // the bar alone, in a page of somebody's own
    watcher.observe(whole);
  }
  function follow([{ target }]) {
    target.scrollIntoView({ block: "start", behavior: "instant" });
    clearTimeout(rest);
    if (target.querySelector(DRAWN)) rest = setTimeout(done, REST_MS);
  }
  function stop() {
    for (const hand of HANDS) document.removeEventListener(hand, done, { capture: true });
    watcher.disconnect();
    cancelAnimationFrame(frame);
    clearTimeout(limit);
    clearTimeout(rest);
    delete root.dataset.arriving;
  }
  function done() {
    stop();
    model.set("fresh", false);
    model.save_changes();
  }
}
