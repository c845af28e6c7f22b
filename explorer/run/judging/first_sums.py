"""First sums: backwards whose gradients are the first since an update, and are added to none.

A layer is timed with its gradients added to those of earlier microbatches. Of the first backward since a
rank's last update of a piece, or since its gradients were sent away (ZeRO 2 and 3 scatter those of every
microbatch), there are no earlier ones. Gradients that several layers of a stage have of one weight are added
to each other all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from explorer.actions import BACKWARD, UPDATE, WEIGHT_GRAD
from explorer.graph import LayerGraph
from explorer.passes.timing import FloatArray
from explorer.run.cases.build import Prepared
from explorer.run.ranks.lane import LanePlan, RankLanes
from explorer.tasks.placement import Piece


def first_sums(prepared: Prepared, graph: LayerGraph, sums: Mapping[str, float]) -> FloatArray:
    """Return by task the seconds in which it adds up nothing.

    Args:
        prepared: the case.
        graph: the layers that its placement counts.
        sums: by layer, the seconds in which its gradients are added up.
    """
    found = np.zeros(prepared.program.size)
    if not sums:  # stand-ins, whose sums are not timed apart
        return found
    lanes = RankLanes(prepared.program)
    seconds = [
        sum(sums.get(name, 0.0) for name in _own_weights(graph, layers.tolist()))
        for layers in prepared.placement.layers
    ]
    for lane in range(len(prepared.program.programs)):
        for task, piece in _firsts(lanes.plan(lane), lanes):
            found[task] = seconds[piece.section]
    return found


def _own_weights(graph: LayerGraph, layers: Iterable[int]) -> Iterator[str]:
    """Yield the layers with a weight that none before them uses."""
    seen: set[str] = set()
    for layer in (graph.layers[i] for i in layers):
        names = {use.name for use in layer.parameters}
        if not names <= seen:
            yield layer.name
        seen |= names


def _firsts(plan: LanePlan, lanes: RankLanes) -> list[tuple[int, Piece]]:
    """Return the tasks of a lane that make the first gradients of a piece, each with the piece."""
    holders = lanes.program.skeleton.holders
    begun, found = set[Piece](), []
    for i, task in enumerate(plan.tasks):
        if task.op in (BACKWARD, WEIGHT_GRAD) and task.piece not in begun:
            begun.add(task.piece)
            found.append((task.task, task.piece))
        elif task.op == UPDATE:
            begun.discard(task.piece)
        for item in plan.collectives[i + 1]:
            begun.difference_update(holders[item.group].pieces)
    return found


__all__ = ["first_sums"]
