"""Even cuts: where uniform strategies of every number of stages cut a model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from explorer.graph import LayerGraph
from explorer.strategies.cuts import balanced_cuts
from explorer.tasks.skeleton import IntArray


def even_bounds(graph: LayerGraph, counts: Iterable[int]) -> dict[int, IntArray]:
    """Return the bounds of stages by their number: stage i has the layers from [i] to before [i + 1].

    They are those of `Degrees.build`; p positions of v chunks are p v stages, stage i on position i mod p.

    Raises:
        InputError: more stages than layers.
    """
    return {count: _bounds(graph, count) for count in dict.fromkeys(counts)}


def _bounds(graph: LayerGraph, count: int) -> IntArray:
    cuts = graph.memo(f"balanced cuts {count}", lambda: balanced_cuts(graph, count))
    return np.array([0, *cuts, len(graph.layers)], dtype=np.int64)
