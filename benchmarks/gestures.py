"""Milliseconds from a drop to its repaint, in a real JupyterLab. `python benchmarks/gestures.py [--session]`

Real mouse drags of stage boundaries and of blocks, an undo after each, the next one without a pause: from the
release of the button to the first frame that shows Python's answer, and where that time goes. Also the first
paint of the board and of a timeline of 98,304 bars. `--session` instead does 500 random gestures and watches
errors, figures and memory of page and kernel; `--throttle 20 --restart-every 40 --reload-every 25` make it
hard.

Machines differ, and are shared: beside every figure stands an empty Python loop of a million rounds in the
same kernel at the same time (on the clock, and in CPU time: they differ where others ask for the cores), and
the figure scaled to a machine whose loop takes 9.4 ms.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gestures_page import Page, opened
from gestures_session import Strain, session

REFERENCE_LOOP_MS = 9.4
"""Empty loop of the machine for which the bounds were set."""
WARM_UP = 4
"""Drops that are not counted."""
REST_MS = 100
"""A hand rests over its target before it lets go, at least about this long."""
NODES = """schema: explorer.cluster/1
extends: dgx-a100
name: dgx-a100-8
title: 8 DGX A100 on InfiniBand HDR, 64 x A100 80 GB
nodes:
  - {count: 8, device_kind: a100-sxm-80gb, devices_per_node: 8}
sources:
  - {key: "*", how: assumed, reference: "as many nodes as the benchmark needs"}
"""
IMPORTS = "from widgets import Explorer\nimport benchmarks.gestures_kernel as clocks"

Drop = dict[str, float]
Gauge = tuple[float, float]
"""Milliseconds of the empty loop: on the clock, of CPU time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One board."""

    name: str
    """As printed."""
    model: str
    """Factory in `gestures_models`."""
    cluster: str
    """Reference."""
    stages: int
    """Lanes."""
    batch: int
    """Samples of a step; microbatches of one sample."""
    bound_ms: float
    """Asked of the 95th percentile."""


SIZES = (
    Size(name="100 blocks x 8 devices", model="hundred", cluster="dgx-a100", stages=8, batch=64, bound_ms=33),
    Size(name="1000 x 64", model="thousand", cluster="dgx-a100-8.yaml", stages=64, batch=256, bound_ms=100),
)
"""A lane per device and four to eight microbatches per lane: 3,900 and 130,000 tasks to simulate."""


def percentile(values: Iterable[float], share: float) -> float:
    """Nearest-rank percentile.

    >>> percentile([3, 1, 2, 4], 0.95), percentile([3, 1, 2, 4], 0.5)
    (4, 2)
    """
    ordered = sorted(values)
    return ordered[max(0, -(-round(share * 100 * len(ordered)) // 100) - 1)]


# -- drops ------------------------------------------------------------------------------------------------


def opened_board(page: Page, size: Size) -> None:
    """A notebook whose board has the size, quiet."""
    (page.folder / "root" / "dgx-a100-8.yaml").write_text(NODES, encoding="utf-8")
    make = (
        f"explorer = Explorer('benchmarks.gestures_models:{size.model}', '{size.cluster}', "
        f"global_batch={size.batch})\nexplorer.set(stages={size.stages}, microbatch_size=1)"
    )
    page.load(size.model, [IMPORTS, make, "clocks.watch(explorer)\nexplorer"])
    page.run_cell(0)
    page.run_cell(1)
    page.run_cell(2, ".b-chip")
    page.page.wait_for_timeout(3000)


Spot = tuple[float, float]


def drag_boundary(page: Page, number: int, rest_ms: float) -> None:
    """Give one block over a boundary: the handle goes a chip's width to the left."""
    lane = number % (page.page.locator(".b-lanes [data-lane]").count() - 1)
    seen(page, ".b-lanes [data-lane]", lane)
    x, y = seen(page, f".b-lanes [data-lane='{lane}'] .b-handle", 0)
    width = page.page.evaluate(
        """([x, y]) => {
          const lane = document.elementFromPoint(x, y).closest("[data-lane]");
          const chips = [...lane.querySelectorAll(".b-chip")].map((chip) => chip.getBoundingClientRect());
          return chips.sort((a, b) => Math.abs(a.right - x) - Math.abs(b.right - x))[0].width;
        }""",
        [x, y],
    )
    pull(page, (x, y), lambda: (x - width * 1.1 - 5, y), rest_ms)


def drag_block(page: Page, number: int, rest_ms: float) -> None:
    """Carry a block out of the middle of its lane to the next lane."""
    lane = number % (page.page.locator(".b-lanes [data-lane]").count() - 1)
    seen(page, ".b-lanes [data-lane]", lane)
    start = seen(page, f".b-lanes [data-lane='{lane}'] .b-chip", 1)
    pull(page, start, lambda: (start[0] + 60, seen(page, ".b-lanes [data-lane]", lane + 1)[1]), rest_ms)


DRAGS = {"boundary": drag_boundary, "block out of its run": drag_block}


def seen(page: Page, selector: str, number: int) -> Spot:
    """Where an element is on the screen, scrolled to if it is not; a far lane is built a frame later."""
    page.page.wait_for_selector(selector, state="attached")
    found = page.spot(selector, number)
    assert found is not None
    return found


def pull(page: Page, start: Spot, end: Callable[[], Spot], rest_ms: float) -> None:
    """Press, move in steps to where the target is now, rest, release."""
    mouse = page.page.mouse
    mouse.move(*start)
    mouse.down()
    mouse.move(start[0] - 5, start[1] + 2)
    mouse.move(*end(), steps=6)
    page.page.wait_for_timeout(rest_ms)
    mouse.up()


def drops(page: Page, size: Size, count: int, rest_ms: float) -> tuple[dict[str, list[Drop]], Gauge]:
    """Parts of every drop, in milliseconds, by kind; and the gauge."""
    opened_board(page, size)
    found = []
    gauges = []
    kinds = list(DRAGS)
    for number in range(count + WARM_UP):
        before = page.drops()
        DRAGS[kinds[number % 2]](page, number // 2, rest_ms)
        found.append(page.drop_done(before))
        at = page.ask("explorer.history.at")
        page.page.locator(".c-bar [data-action=undo]").first.click()
        page.until(lambda at=at: page.ask("explorer.history.at") == at - 1, "undone")
        page.settled()
        if number % 4 == 0:
            gauges.append(page.ask("clocks.gauge_ms()"))
    trouble = page.trouble()
    if trouble:
        raise AssertionError("; ".join(trouble))
    answers = page.ask("clocks.ANSWERS")
    parts = [split(drop, answers) for drop in found]
    by_kind = {kind: parts[WARM_UP + i :: 2] for i, kind in enumerate(kinds)}
    return by_kind, middle(gauges)


def split(drop: dict[str, Any], answers: list[Drop]) -> Drop:
    """Milliseconds of a drop's parts; kernel and page share the machine's clock."""
    released, painted = (drop["origin_s"] + drop[key] / 1e3 for key in ("at", "painted"))
    asked = [answer for answer in answers if answer["seq"] >= 0 and released < answer["begin_s"] < painted]
    own = min(asked, key=lambda answer: answer["begin_s"])
    came = [(drop["origin_s"] + at / 1e3, size) for at, size in drop["came"]]
    arrived = min((at for at, _ in came if at >= own["end_s"]), default=painted)
    return {
        "total": drop["painted"] - drop["at"],
        "out": (own["begin_s"] - released) * 1e3,
        "kernel": (own["end_s"] - own["begin_s"]) * 1e3,
        "kernel_cpu": own["cpu_s"] * 1e3,
        "back": (arrived - own["end_s"]) * 1e3,
        "draw": (painted - arrived) * 1e3,
        "kib": sum(size for at, size in came if at <= painted) / 1024,
    }


def middle(gauges: list[list[float]]) -> Gauge:
    """Medians of both."""
    return statistics.median(item[0] for item in gauges), statistics.median(item[1] for item in gauges)


def row(name: str, bound_ms: float, found: list[Drop], gauge: Gauge) -> str:
    """One line of the table: the whole, the scaled figure, its parts."""
    median = {key: statistics.median(part[key] for part in found) for key in found[0]}
    p95 = percentile((part["total"] for part in found), 0.95)
    scaled = p95 * REFERENCE_LOOP_MS / gauge[0]
    return (
        f"| {name} | {len(found)} | {median['total']:.0f} | {p95:.0f} | {scaled:.0f} |"
        f" {bound_ms:.0f} | {gauge[0]:.1f} ({gauge[1]:.1f}) | {median['out']:.1f} | {median['kernel']:.1f}"
        f" ({median['kernel_cpu']:.1f}) | {median['back']:.1f} | {median['draw']:.1f} |"
        f" {median['kib']:.0f} |"
    )


def print_drops(page: Page, sizes: Iterable[Size], count: int, rest_ms: float) -> None:
    """The table of drops."""
    print(
        "| drop to repaint, ms | drops | median | p95 | p95 scaled | bound | empty loop (CPU) |"
        " to the kernel | kernel (CPU) | back | to the frame | KiB |"
    )
    print("|---" * 12 + "|")
    for size in sizes:
        found, gauge = drops(page, size, count, rest_ms)
        for kind, parts in found.items():
            print(row(f"{size.name}, {kind}", size.bound_ms, parts, gauge), flush=True)
        both = [part for parts in found.values() for part in parts]
        print(row(f"{size.name}, all", size.bound_ms, both, gauge), flush=True)


# -- first paints -----------------------------------------------------------------------------------------

DRAWN = """(canvas) => {
  if (!canvas.width || !canvas.height) return false;
  const row = canvas.getContext("2d").getImageData(0, Math.floor(canvas.height / 2), canvas.width, 1).data;
  const middle = row.slice(4 * Math.floor(canvas.width * 0.4), 4 * Math.floor(canvas.width * 0.6));
  return middle.some((value, i) => i % 4 < 3 && value > 0 && value < 250 && middle[i - (i % 4) + 3] > 0);
}"""
"""Whether a canvas shows coloured pixels in its middle."""


def print_first(page: Page) -> None:
    """The table of first paints."""
    shown = "explorer = Explorer('llama3-8b', 'dgx-a100', global_batch=64, sequence_length=4096)\nexplorer"
    page.load("first", [IMPORTS, shown, "clocks.many_bars()"])
    times = {"importing the workbench": page.run_cell(0)}
    times["first paint of the board, llama3-8b on dgx-a100 (bound 1.5)"] = page.run_cell(1, ".b-chip")
    page.page.wait_for_timeout(5000)
    page.page.evaluate("() => document.querySelectorAll('.tl-canvas').forEach((c) => c.classList.add('old'))")
    times["98,304 timeline bars (bound 0.6)"] = page.run_cell(2, ".tl-canvas:not(.old)", DRAWN)
    gauge = middle([page.ask("clocks.gauge_ms()") for _ in range(5)])
    print("\n| from running the cell, s | here | scaled | empty loop (CPU), ms |\n|---|---|---|---|")
    for name, ms in times.items():
        print(
            f"| {name} | {ms / 1e3:.2f} | {ms / 1e3 * REFERENCE_LOOP_MS / gauge[0]:.2f} |"
            f" {gauge[0]:.1f} ({gauge[1]:.1f}) |"
        )


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=40, help="drops at each size")
    parser.add_argument("--size", choices=[size.model for size in SIZES], help="only this board")
    parser.add_argument(
        "--rest", type=float, default=REST_MS, help="ms that the hand rests before it lets go"
    )
    parser.add_argument("--session", type=int, nargs="?", const=500, help="random gestures instead")
    parser.add_argument("--throttle", type=int, default=1, help="slow the page's processor so many times")
    parser.add_argument("--restart-every", type=int, default=0, help="restart the kernel after so many")
    parser.add_argument("--reload-every", type=int, default=0, help="load the page anew after so many")
    parser.add_argument("--seed", type=int, default=7, help="of the random gestures")
    parser.add_argument("--only", choices=("drops", "first"), help="only this table")
    arguments = parser.parse_args()
    with opened() as page:
        if arguments.session:
            strain = Strain(
                throttle=arguments.throttle,
                restart_every=arguments.restart_every,
                reload_every=arguments.reload_every,
            )
            if not session(page, arguments.session, arguments.seed, strain):
                raise SystemExit("the session did not pass")
            return
        if arguments.only != "first":
            chosen = [size for size in SIZES if arguments.size in (None, size.model)]
            print_drops(page, chosen, arguments.count, arguments.rest)
        if arguments.only != "drops":
            print_first(page)
        print(f"\nload of the machine's {os.cpu_count()} cores: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
