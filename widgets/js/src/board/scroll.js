// Scrolling: by itself while something is dragged near an edge, and which lanes are near enough to be built.

const EDGE_PX = 44;
const FASTEST_PX = 18;

/** Elements around `from` that scroll up and down, innermost first. @param {Element} from */
function scrollers(from) {
  const found = [];
  for (let element = from; element; element = element.parentElement) {
    const { overflowY } = getComputedStyle(element);
    const page = element === document.scrollingElement;
    if (element.scrollHeight > element.clientHeight + 1 && (page || overflowY === "auto" || overflowY === "scroll"))
      found.push(element);
  }
  return found;
}

/** Pixels to scroll a frame when the pointer is at `y` between `top` and `bottom`. Outside it goes fastest. */
export function speedAt(y, top, bottom, edge = EDGE_PX) {
  const reach = Math.min(edge, (bottom - top) / 4);
  const near = y < top + reach ? y - (top + reach) : y > bottom - reach ? y - (bottom - reach) : 0;
  return Math.max(-1, Math.min(1, near / reach)) * FASTEST_PX;
}

/** Scrolls while a pointer rests near an edge. `moved` is called after every scroll. */
export class AutoScroll {
  /** @param {Element} from @param {() => void} moved */
  constructor(from, moved) {
    this.moved = moved;
    this.found = scrollers(from);
    this.frame = 0;
  }

  /** The pointer is here now. @param {number} y in the viewport */
  at(y) {
    this.y = y;
    if (!this.frame && this.found.some((element) => this.step(element))) this.frame = requestAnimationFrame(() => this.run());
  }

  step(element) {
    const page = element === document.scrollingElement;
    const box = page ? { top: 0, bottom: innerHeight } : element.getBoundingClientRect();
    const speed = Math.round(speedAt(this.y, Math.max(0, box.top), Math.min(innerHeight, box.bottom)));
    const room = speed < 0 ? element.scrollTop : element.scrollHeight - element.clientHeight - element.scrollTop;
    return room > 0.5 ? speed : 0;
  }

  run() {
    this.frame = 0;
    for (const element of this.found) {
      const speed = this.step(element);
      if (!speed) continue;
      element.scrollTop += speed;
      this.moved();
      this.frame = requestAnimationFrame(() => this.run());
      return;
    }
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.found = [];
  }
}

/** Keeps `near`, and calls `changed` as lanes come near the part of the page that is seen, and go. */
export class Nearness {
  /** @param {Element|null} root what scrolls, or null for the page @param {() => void} changed @param {Set<string>} [near] known already */
  constructor(root, changed, near = new Set()) {
    this.near = near;
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const id = /** @type {HTMLElement} */ (entry.target).dataset.lane;
          if (entry.isIntersecting) this.near.add(id);
          else this.near.delete(id);
        }
        changed();
      },
      { root, rootMargin: root ? "160px 0px" : "300px 0px" }, // in a box that scrolls, some five lanes
    );
  }

  watch(element) {
    this.observer.observe(element);
  }
  close() {
    this.observer.disconnect();
  }
}
