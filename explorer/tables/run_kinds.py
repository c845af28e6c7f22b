"""Kinds of runs: the stages of pipelines, of which most have the same content.

Two runs of layers whose layers are alike one by one (the same names but for the numbers of blocks, the same
FLOPs and parameters, equally shared) cost the same under every choice; so do two pairs of neighbours. A model
of equal blocks cut into 96 stages has some five kinds of runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from explorer.base.errors import InputError
from explorer.costs.layer_codes import layer_codes
from explorer.graph import LayerGraph
from explorer.tables.borders import linked_stages
from explorer.tables.even_cuts import even_bounds
from explorer.tasks.skeleton import IntArray


class Cut(NamedTuple):
    """The stages of a pipeline."""

    bounds: tuple[int, ...]
    """Stage i has the layers from [i] to before [i + 1]."""
    runs: IntArray
    """Per stage: its kind of run."""
    pairs: IntArray
    """Per stage but the last: its kind of pair with the next."""
    shared: tuple[tuple[int, ...], ...]
    """Stages that use the same trained parameters; each group once."""
    linked: tuple[bool, ...]
    """Per stage but the last: whether a microbatch goes from it to the next and back."""

    @property
    def chain(self) -> bool:
        """Whether all are linked, so that a microbatch is never in two at once."""
        return all(self.linked)


class RunKinds:
    """Kinds of runs and of pairs met so far, numbered; runs are (start, stop) of one of each kind."""

    def __init__(self, graph: LayerGraph) -> None:
        self._graph = graph
        self._codes = layer_codes(graph)
        self._users = graph.memo("sharing layers", lambda: _sharing(graph))
        self._run_of: dict[tuple[int, ...], int] = {}
        self._pair_of: dict[tuple[int, int], int] = {}
        self._cuts: dict[tuple[int, ...], Cut] = {}
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.pairs: list[tuple[int, int, int]] = []
        """(start, cut, stop) of one pair of each kind."""

    def cut(self, stages: int) -> Cut:
        """Return the stages of uniform strategies of so many stages.

        Raises:
            InputError: more stages than layers.
        """
        return self.cut_at(tuple(even_bounds(self._graph, [stages])[stages].tolist()))

    def cut_at(self, bounds: tuple[int, ...]) -> Cut:
        """Return the stages of which stage i has the layers from `bounds[i]` to before `bounds[i + 1]`.

        Raises:
            InputError: stages without layers, or bounds that leave some out.
        """
        count = len(self._graph.layers)
        if bounds[0] != 0 or bounds[-1] != count or any(b <= a for a, b in pairwise(bounds)):
            raise InputError(
                f"stages that begin at the layers {bounds[:-1]} and end at {bounds[-1]}", key="bounds",
                found=bounds, allowed=f"ascending numbers from 0 to {count}",
            )  # fmt: skip
        if bounds not in self._cuts:
            self._cuts[bounds] = self._cut(bounds)
        return self._cuts[bounds]

    def _cut(self, bounds: tuple[int, ...]) -> Cut:
        runs = [self._run(a, b) for a, b in pairwise(bounds)]
        pairs = []
        for i in range(len(runs) - 1):
            key = runs[i], runs[i + 1]
            if key not in self._pair_of:
                self._pair_of[key] = len(self.pairs)
                self.pairs.append((bounds[i], bounds[i + 1], bounds[i + 2]))
            pairs.append(self._pair_of[key])
        shared = {tuple(sorted({bisect_right(bounds, i) - 1 for i in users})) for users in self._users}
        several = tuple(sorted(stages for stages in shared if len(stages) > 1))
        linked = linked_stages(self._graph, bounds)
        return Cut(bounds, np.array(runs), np.array(pairs, dtype=np.int64), several, linked)

    def _run(self, start: int, stop: int) -> int:
        key = tuple(self._codes[start:stop])
        if key not in self._run_of:
            self._run_of[key] = len(self.starts)
            self.starts.append(start)
            self.stops.append(stop)
        return self._run_of[key]


def _parameters(graph: LayerGraph) -> list[str]:
    return [use.name for layer in graph.layers for use in layer.parameters]


def _sharing(graph: LayerGraph) -> list[tuple[int, ...]]:
    """Return the layers that use the same trained parameter, where several do; each group once."""
    users: dict[str, list[int]] = defaultdict(list)
    for i, layer in enumerate(graph.layers):
        for use in layer.parameters:
            if graph.parameter[use.name].trainable:
                users[use.name].append(i)
    return sorted({tuple(found) for found in users.values() if len(found) > 1})
