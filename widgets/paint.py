"""From a state to what every part draws. Nothing here decides anything."""

from __future__ import annotations

from typing import Any

from explorer.errors import ExplorerError
from explorer.explain import Sentence, explain
from explorer.identity import IdentityCache
from explorer.simulate import simulate
from explorer.views import (
    blocks_view,
    board_view,
    graph_view,
    memory_view,
    tiles_view,
    timeline_view,
    traffic_view,
    verdict_view,
)
from explorer.views.tiles import Baseline

from .edits import Shape, even_strategy, shape_of
from .parts import Parts
from .session import History, Point


class Comparisons:
    """What the tiles compare with, remembered by inputs and shape."""

    def __init__(self) -> None:
        self._kept = IdentityCache(256)

    def baseline(self, point: Point) -> Baseline | None:
        """The even cut of the same shape; None where there is none (an odd batch, an odd mesh)."""
        shape = shape_of(point.strategy, point.groups)
        return self._get(point, shape, "even cut")

    def single(self, point: Point) -> Baseline | None:
        """One device, whether it would fit or not."""
        shape = shape_of(point.strategy, point.groups)
        alone = Shape(
            stages=1, replicas=1, tensor=1, chunks=1, microbatch_size=shape.microbatch_size, schedule="1f1b",
            recompute=shape.recompute, zero=0,
        )  # fmt: skip
        return self._get(point, alone, "1 device")

    def _get(self, point: Point, shape: Shape, name: str) -> Baseline | None:
        own = point.inputs
        return self._kept.get(
            (own.graph, own.cluster), (own.workload, shape), lambda: _simulated(point, shape, name)
        )


def _simulated(point: Point, shape: Shape, name: str) -> Baseline | None:
    own = point.inputs
    try:
        report = simulate(own.graph, own.cluster, own.workload, even_strategy(own, shape))
    except ExplorerError:
        return None
    return Baseline(name=name, report=report)


def paint(parts: Parts, history: History, comparisons: Comparisons) -> None:
    """Draw the present state on the board and in the tiles: what a gesture waits for."""
    now = history.now
    if now is None:
        return
    scene = now.scene
    baseline = comparisons.baseline(now)
    blocks = blocks_view(scene)
    with parts.board.hold_sync():  # one message: a view of other blocks must never be drawn
        if parts.board.blocks != blocks:
            parts.board.blocks = blocks
            parts.graph.opened = _middle(blocks, parts.graph.opened)
        parts.board.view = board_view(
            scene, can_undo=history.can_undo, can_redo=history.can_redo,
            baseline_name=baseline.name if baseline else None,
        )  # fmt: skip
    parts.figures = tiles_view(scene, baseline=baseline, single=comparisons.single(now))


def paint_rest(parts: Parts, point: Point) -> None:
    """Draw a state in all other parts."""
    scene = point.scene
    view, bars = timeline_view(scene)
    with parts.timeline.hold_sync():
        parts.timeline.view, parts.timeline.bars = view, bars
    view, cells = memory_view(scene)
    with parts.memory.hold_sync():
        parts.memory.view, parts.memory.cells = view, cells
    parts.traffic.view = traffic_view(scene)
    paint_graph(parts, point)


def _middle(blocks: list[dict[str, Any]], opened: str | None) -> str | None:
    """The block to open for a new model: the one that was, else a typical one."""
    several = [block["id"] for block in blocks if len(block["layers"]) > 1]
    return opened if opened in several else several[len(several) // 2] if several else None


def paint_graph(parts: Parts, point: Point) -> None:
    """The layer graph, with the block that the page asked to open."""
    blocks = blocks_view(point.scene)
    if parts.graph.opened not in {None, *(block["id"] for block in blocks)}:
        parts.graph.opened = None
    parts.graph.view = graph_view(point.scene, opened=parts.graph.opened)


def paint_verdict(point: Point) -> tuple[dict[str, Any], Sentence | None]:
    """The sentence with its proposal; re-simulates, so it is kept for quiet moments."""
    own = point.inputs
    said = explain(own.graph, own.cluster, own.workload, point.strategy, point.report)
    return verdict_view(point.scene, said)
