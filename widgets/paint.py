"""Drawing: what every part shows of a state. Nothing here decides anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from explorer.base.caching import IdentityCache
from explorer.base.errors import ExplorerError
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_reading import read_degrees
from explorer.views import (
    Scene,
    blocks_view,
    board_view,
    communication_view,
    graph_view,
    memory_view,
    tiles_view,
    timeline_view,
)
from explorer.views.graph import first_opened, graph_index, still_open
from explorer.views.link_map import links_view
from explorer.views.tiles import Baseline

from .edits import degrees_of, even_strategy
from .heatmap import Heatmap
from .order_edit import why_fixed
from .parts import Parts
from .session import History, Point

HeatView = Callable[..., tuple[dict[str, Any], bytes]]
"""Function `view(scene, name=...)` that makes a heatmap's view and its cells."""


class Errors(NamedTuple):
    """What a run says of the layers."""

    by_layer: Mapping[str, float] | None
    """Predicted over measured seconds, minus 1; None if no run tells."""
    missing: str
    """Reason why none tells."""


class Comparisons:
    """Baselines that the tiles compare with, remembered by inputs and degrees."""

    def __init__(self) -> None:
        self._kept = IdentityCache(8)  # each holds a whole report

    def baseline(self, history: History) -> Baseline | None:
        """Return plan B, else the first state with these inputs, else the even cut of the same degrees.

        None if the present state is that plan itself, or there is no such cut (an odd batch or mesh).
        """
        point = history.now
        if point is None:
            return None
        if point.other is not None:
            return Baseline(name="B", report=point.other.report)
        own, first = point.inputs, _began(history, point)
        if first.strategy != point.strategy:
            return self._kept.get(
                (own.graph, own.cluster), (own.workload, first.strategy), lambda: _predicted(first)
            )
        degrees = degrees_of(point)
        if read_degrees(point.strategy) is not None and _even(point, degrees):
            return None
        return self._get(point, degrees, "even cut")

    def single(self, point: Point) -> Baseline | None:
        """Return the baseline of one device, whether it would fit or not."""
        degrees = degrees_of(point)
        alone = Degrees(microbatch_size=degrees.microbatch_size, recompute=degrees.recompute)
        return self._get(point, alone, "1 device")

    def _get(self, point: Point, degrees: Degrees, name: str) -> Baseline | None:
        own = point.inputs
        return self._kept.get(
            (own.graph, own.cluster), (own.workload, degrees), lambda: _simulated(point, degrees, name)
        )


def _began(history: History, point: Point) -> Point:
    """Return the first state that can be reached and has the same inputs."""
    own = point.inputs
    return next(
        item
        for item in history.points[: history.at + 1]
        if item.inputs.graph is own.graph
        and item.inputs.cluster is own.cluster
        and item.inputs.workload == own.workload
    )


def _predicted(point: Point) -> Baseline:
    own = point.inputs
    return Baseline(
        name="start", report=simulate(own.graph, own.cluster.steady, own.workload, point.strategy)
    )


def _even(point: Point, degrees: Degrees) -> bool:
    """Tell whether a strategy is the even cut of its degrees."""
    try:
        return even_strategy(point.inputs, degrees) == point.strategy
    except ExplorerError:
        return False


def _simulated(point: Point, degrees: Degrees, name: str) -> Baseline | None:
    own = point.inputs
    try:
        report = simulate(own.graph, own.cluster.steady, own.workload, even_strategy(own, degrees))
    except ExplorerError:
        return None
    return Baseline(name=name, report=report)


def paint(parts: Parts, history: History, comparisons: Comparisons) -> None:
    """Draw the present state on the board and in the tiles, for which a gesture waits."""
    now = history.now
    if now is None:
        return
    scene = now.scene
    baseline = comparisons.baseline(history)
    blocks = blocks_view(scene)
    with parts.board.hold_sync():  # one message: a view of other blocks must never be drawn
        # the same list for the same costs: comparing a thousand blocks takes long
        if parts.blocks is not blocks:
            parts.blocks = parts.board.blocks = blocks
        parts.board.view = board_view(
            scene, can_undo=history.can_undo, can_redo=history.can_redo,
            baseline_name=baseline.name if baseline else None,
            pinned=now.holds.pinned, locked=now.holds.locked,
            other=now.other.scene if now.other else None,
            other_name=f"B: {now.other.note}" if now.other else None,
        )  # fmt: skip
    parts.figures = tiles_view(scene, baseline=baseline, single=comparisons.single(now))


def paint_rest(parts: Parts, point: Point, errors: Errors) -> Iterator[None]:
    """Draw a state in all other parts, one at a time: the workbench may do something else in between.

    `errors`: what the last run says of the layers.
    """
    other = point.other.scene if point.other is not None else None
    _paint_timeline(parts, point, other)
    yield
    _paint_heat(parts.memory, memory_view, point.scene, other)
    yield
    links_view(point.scene)  # kept with the scene; on thousands of devices as slow as all the rest
    yield
    _paint_traffic(parts, point.scene, other)
    yield
    paint_graph(parts, point, errors)


def _paint_timeline(parts: Parts, point: Point, other: Scene | None) -> None:
    view, bars = timeline_view(point.scene, name="A" if other else "current")
    view["fixed"] = why_fixed(point)
    view_b, bars_b = timeline_view(other, name="B") if other else ({}, b"")
    line = parts.timeline
    with line.hold_sync():
        line.view, line.bars, line.view_b, line.bars_b = view, bars, view_b, bars_b
        line.moment, line.area = {}, {}  # of the plan before


def _paint_heat(heat: Heatmap, make: HeatView, scene: Scene, other: Scene | None) -> dict[str, Any]:
    """Draw a heatmap of a plan, and of plan B next to it; return the plan's view."""
    view, cells = make(scene, name="A" if other else "")
    view_b, cells_b = make(other, name="B") if other else ({}, b"")
    with heat.hold_sync():
        heat.view, heat.cells, heat.view_b, heat.cells_b = view, cells, view_b, cells_b
    return view


def _paint_traffic(parts: Parts, scene: Scene, other: Scene | None) -> None:
    """Draw the communication, and the same links for the timeline."""
    view = _paint_heat(parts.traffic, communication_view, scene, other)
    line = parts.timeline
    with line.hold_sync():
        line.links, line.link_cells = view["links"], parts.traffic.cells


def paint_graph(parts: Parts, point: Point, errors: Errors) -> None:
    """Draw the layer graph, with what the page asked to open; a new model as far as can be taken in at once.

    `errors`: what the last run says of the layers.
    """
    graph, own = parts.graph, point.inputs.graph
    index, opened = graph_index(own), still_open(own, graph.opened)
    if graph.index != index and not opened:
        opened = first_opened(own)
    other = point.other.scene if point.other is not None else None
    view = graph_view(
        point.scene,
        opened=opened,
        errors=errors.by_layer,
        no_errors=errors.missing,
        other=other,
        other_name="B",
    )
    with graph.hold_sync():  # one message: a view never meets the names of another model
        graph.index, graph.view = index, view
        graph.opened = view["opened"]
