"""The least that a drop can take in this browser. `python benchmarks/gestures_floor.py`

The harness of `gestures.py` around next to nothing, three times: an empty page that writes one number when
the button is released; a notebook with one widget that does the same; and that widget once it sends the
release to the kernel and writes what the kernel answers. From the release to the end of the frame that shows
the number, with the milliseconds of an empty loop beside, as there. A workbench adds to the third line.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

from gestures import REFERENCE_LOOP_MS, REST_MS, WARM_UP, middle, percentile, pull
from gestures_page import CLOCKS, Page, opened

LISTEN = """
const target = Object.assign(document.createElement("div"), { className: "floor", textContent: "0" });
target.style.cssText = "width: 300px; height: 100px; background: #4477aa; touch-action: none";
host.append(target);
let number = 0, at = null;
const shown = (value) => {
  target.textContent = String(value);
  const start = at;
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => performance.measure("sx-repaint", { start, end: performance.now() });
    port2.postMessage(0);
  });
};
target.addEventListener("pointerup", (event) => { at = event.timeStamp; released(++number); });
"""
"""What each page does: `released(number)` is called at the release, `shown(number)` writes and measures."""
ALONE = f"const released = (number) => shown(number);\n{LISTEN}"
ASKING = f"""const released = (number) => model.send({{ seq: number }});
{LISTEN}
model.on("change:seq", () => shown(model.get("seq")));"""
KERNEL = """import anywidget, traitlets
import benchmarks.gestures_kernel as clocks
class Floor(anywidget.AnyWidget):
    _esm = {esm!r}
    seq = traitlets.Int(0).tag(sync=True)
    def __init__(self):
        super().__init__()
        self.on_msg(lambda _widget, content, _buffers: setattr(self, 'seq', content['seq']))
Floor()"""


def esm(body: str) -> str:
    """Return the module of a widget that runs some code when it is drawn."""
    return f"export default {{ render({{ model, el: host }}) {{ {body} }} }};"


def drops(page: Page, count: int) -> list[float]:
    """Return the milliseconds of drags over the coloured field."""
    found = []
    for _ in range(count + WARM_UP):
        before = page.drops()
        x, y = page.spot(".floor", 0) or (0, 0)
        pull(page, (x - 60, y), lambda x=x, y=y: (x + 60, y), REST_MS)
        drop = page.drop_done(before)
        found.append(drop["painted"] - drop["at"])
    return found[WARM_UP:]


def open_empty(page: Page) -> None:
    """Open a page that holds nothing but the field."""
    page.page.goto("about:blank")
    page.page.evaluate(CLOCKS)
    page.page.evaluate(f"() => {{ const host = document.body; {ALONE} }}")


def open_widget(name: str, body: str) -> Callable[[Page], None]:
    """Return what opens a notebook that shows one widget."""

    def opens(page: Page) -> None:
        page.load(name, [KERNEL.format(esm=esm(body))])
        page.run_cell(0, ".floor")
        page.page.wait_for_timeout(2000)

    return opens


PAGES: dict[str, Callable[[Page], None]] = {
    "empty page": open_empty,
    "notebook, without the kernel": open_widget("alone", ALONE),
    "notebook, with the kernel's answer": open_widget("asking", ASKING),
}
"""What is measured, from the least on."""


def print_floor(page: Page, count: int) -> None:
    """Print the table."""
    print("| release to frame, ms | drops | median | p95 | p95 scaled | empty loop (CPU) |")
    print("|---" * 6 + "|")
    rows = []
    for name, opens in PAGES.items():
        opens(page)
        rows.append((name, drops(page, count)))
    gauge = middle([page.ask("clocks.gauge_ms()") for _ in range(5)])
    for name, found in rows:
        p95 = percentile(found, 0.95)
        print(
            f"| {name} | {len(found)} | {statistics.median(found):.1f} | {p95:.1f} |"
            f" {p95 * REFERENCE_LOOP_MS / gauge[0]:.1f} | {gauge[0]:.1f} ({gauge[1]:.1f}) |"
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=40, help="drops on each page")
    arguments = parser.parse_args()
    with opened() as page:
        print_floor(page, arguments.count)


if __name__ == "__main__":
    main()
