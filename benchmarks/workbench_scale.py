"""Milliseconds of every gesture in the kernel on thousands of devices. `python benchmarks/workbench_scale.py`

llama3-405b on 16,384 devices (or `--model`, `--cluster`): opening, drops in a run and out of it, what follows
a drop view by view, Why, and a search: its start, the drawing of what it found, its stop. CPU time of the
kernel, beside a loop of a million rounds; what the browser adds is measured by `gestures.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from widgets import Explorer
from widgets.edits import move_layers, shift_boundary
from widgets.paint import Errors, paint, paint_rest
from widgets.reasons import Reasons
from widgets.session import Point

NO_ERRORS = Errors(by_layer=None, missing="no run yet")
ROUNDS = 5
"""Drops of each kind; the first is not counted."""
SEARCH_S = 6.0
"""Seconds after which the search is stopped."""


def spent_ms(work: Callable[[], Any]) -> float:
    """Return the milliseconds of CPU time that something takes."""
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1e3


def row(name: str, values: list[float], note: str = "") -> None:
    """Print a line of the table: median and most."""
    print(f"| {name} | {statistics.median(values):.1f} | {max(values):.1f} | {note} |", flush=True)


def loop() -> None:
    """Do nothing a million times."""
    for _ in range(1_000_000):
        pass


async def opening(model: str, cluster: str) -> tuple[Explorer, float]:
    """Return an open workbench, and the milliseconds until its board was drawn, as in a notebook."""
    made: list[Explorer] = []
    took = spent_ms(lambda: made.append(Explorer(model, cluster, session=None)))
    made[0].showing.cancel()
    return made[0], took


def boundary(point: Point, number: int) -> Point:
    """Give the first block after a boundary to the stage before."""
    stage = point.strategy.job.stages[number + 1]
    graph = point.inputs.graph
    block = graph.layer[stage.layers[0]].block
    return shift_boundary(
        point, number, number + 1, sum(graph.layer[name].block == block for name in stage.layers)
    )


def out_of_run(point: Point, number: int) -> Point:
    """Carry a block from the middle of a stage to the next lane."""
    graph, layers = point.inputs.graph, point.strategy.job.stages[number].layers
    block = graph.layer[layers[len(layers) // 2]].block
    return move_layers(point, graph.blocks[block], number + 1)


def drops(explorer: Explorer, name: str, edit: Callable[[Point, int], Point]) -> None:
    """Print a kind of drop: what it waits for, and what follows."""
    parts: dict[str, list[float]] = {}
    start = explorer.now()
    for number in range(ROUNDS):
        made: list[Point] = []
        took = {"simulated": spent_ms(lambda n=number, out=made: out.append(edit(start, 2 + 2 * n)))}
        point = made[0]
        explorer.history.push(point)
        took["board and tiles"] = spent_ms(
            lambda: paint(explorer.parts, explorer.history, explorer.showing.comparisons)
        )
        took["bar and sentence"] = spent_ms(explorer.showing.redraw)
        views = paint_rest(explorer.parts, point, NO_ERRORS)
        for view in ("timeline", "memory", "links", "traffic", "graph"):
            took[f"then {view}"] = spent_ms(lambda left=views: next(left, None))
        took["then tabs"] = spent_ms(lambda p=point: [panel.settled(p) for panel in explorer.panels])
        explorer.undo()
        for key, value in took.items():
            parts.setdefault(key, []).append(value)
    waits = ("simulated", "board and tiles", "bar and sentence")
    row(f"{name}: all it waits for", [sum(parts[key][i] for key in waits) for i in range(1, ROUNDS)])
    for key, values in parts.items():
        row(f"{name}: {key}", values[1:])


def why(explorer: Explorer) -> None:
    """Print what the reasons take, and the longest slice: a gesture may have to wait for its end."""
    found, slices, walls = Reasons(), [], []
    found.settled(explorer.now(), None)
    work = found.work(explorer.now())
    while found.under_way:
        begun, wall = time.process_time(), time.perf_counter()
        next(work, None)
        slices.append((time.process_time() - begun) * 1e3)
        walls.append((time.perf_counter() - wall) * 1e3)
    row(
        "Why: a slice",
        slices,
        f"{len(found.rows)} reasons in {sum(slices) / 1e3:.1f} s, {len(slices)} slices",
    )
    row("Why: a slice (on the clock)", walls)


async def search(explorer: Explorer) -> None:
    """Print start, drawing and stop of a search."""
    explorer.search_budget_s = 60.0
    row("search: start", [spent_ms(explorer.search)])
    ticks: list[float] = []
    begun, first = time.perf_counter(), 0.0
    while time.perf_counter() - begun < SEARCH_S:
        await asyncio.sleep(0.3)
        wall = time.perf_counter()
        explorer.search_panel.draw()
        ticks.append((time.perf_counter() - wall) * 1e3)
        if not first and explorer.search_panel.task.best() is not None:
            first = time.perf_counter() - begun
    row("search: drawing (on the clock)", ticks, f"first that fits after {first:.1f} s")
    wall = time.perf_counter()
    explorer.stop()
    said = (time.perf_counter() - wall) * 1e3
    for thread in threading.enumerate():
        if thread.name == "search":
            await asyncio.to_thread(thread.join)
    ended = (time.perf_counter() - wall) * 1e3
    row("search: stop (on the clock)", [said], f"its thread ends after {ended:.0f} ms")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="llama3-405b")
    parser.add_argument("--cluster", default="hgx-h100-2048")
    parser.add_argument("--searcher", default="auto")
    chosen = parser.parse_args()
    explorer, opened = asyncio.run(opening(chosen.model, chosen.cluster))
    print(f"{explorer!r}; loop {spent_ms(loop):.0f} ms\n")
    print("| CPU ms in the kernel | median | most | |\n|---|---:|---:|---|")
    row("opening, until the board is drawn", [opened])
    row(
        "opening: the other views",
        [spent_ms(lambda: [*paint_rest(explorer.parts, explorer.now(), NO_ERRORS)])],
    )
    drops(explorer, "drop in a run", boundary)
    drops(explorer, "drop out of a run", out_of_run)
    why(explorer)
    explorer.searcher = chosen.searcher
    asyncio.run(search(explorer))


if __name__ == "__main__":
    main()
