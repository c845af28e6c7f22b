"""Stages of even cuts: which kinds of runs of layers lie at the positions of a pipeline, as sparse sums.

What bounds need of a pipeline is sums over its stages: of the seconds at a position, of those before it, of
the bytes at the first. A model of equal blocks has few kinds of runs (`explorer.tables.RunKinds`), so that
each sum is a handful of (kind, how many), the same for every layout, and all sums are one pass over an array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.graph import LayerGraph
from explorer.schedules.placements import Grid, Placement
from explorer.strategies.cuts import units
from explorer.tables import RunKinds

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


LEADING = (0, 1)
"""Positions whose bytes are bounded: the first has most microbatches in flight, but of as many positions as
units no more of the model than its embedding.
"""


class Sums(NamedTuple):
    """Sums of values by kind of run; sum i has the terms from `starts[i]` on. None is without terms."""

    starts: IntArray
    """(sums,): its first term."""
    kinds: IntArray
    """(terms,): kind of run."""
    times: FloatArray
    """(terms,): how often it counts."""

    def of(self, values: FloatArray) -> FloatArray:
        """Return the (sums, R) sums of (kinds, R) values."""
        if not len(self.starts):
            return np.zeros((0, values.shape[1]))
        found: FloatArray = np.add.reduceat(values[self.kinds] * self.times[:, None], self.starts, axis=0)
        return found

    def of_each(self, values: FloatArray, which: IntArray) -> FloatArray:
        """Return the (sums, R) sums of (tables, kinds, R) values, each of its table in (sums,) `which`."""
        found: FloatArray = np.add.reduceat(
            self._each(values, which) * self.times[:, None], self.starts, axis=0
        )
        return found

    def most_of_each(self, values: FloatArray, which: IntArray) -> FloatArray:
        """Return the largest values as `of_each` returns their sums, however often they count."""
        found: FloatArray = np.maximum.reduceat(self._each(values, which), self.starts, axis=0)
        return found

    def _each(self, values: FloatArray, which: IntArray) -> FloatArray:
        terms = np.diff(self.starts, append=len(self.kinds))
        found: FloatArray = values[np.repeat(which, terms), self.kinds]
        return found

    def most(self, values: FloatArray) -> FloatArray:
        """Return the (sums, R) largest of the (kinds, R) values that are terms, however often."""
        return self._reduced(np.maximum, values)

    def least(self, values: FloatArray) -> FloatArray:
        """Return the (sums, R) smallest of them."""
        return self._reduced(np.minimum, values)

    def _reduced(self, reduce: np.ufunc, values: FloatArray) -> FloatArray:
        if not len(self.starts):
            return np.zeros((0, values.shape[1]))
        found: FloatArray = reduce.reduceat(values[self.kinds], self.starts, axis=0)
        return found

    @staticmethod
    def made(parts: Sequence[tuple[Sequence[int], Sequence[float]]]) -> Sums:
        """Return the sums of (kinds, how often); one without terms counts kind 0 no times."""
        parts = [part if len(part[0]) else ((0,), (0.0,)) for part in parts]
        sizes = np.array([len(kinds) for kinds, _ in parts], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        kinds = np.fromiter((kind for some, _ in parts for kind in some), np.int64)
        times = np.fromiter((number for _, some in parts for number in some), np.float64)
        return Sums(starts, kinds, times)

    @staticmethod
    def joined(parts: Iterable[Sums]) -> Sums:
        """Return the sums of several, one after the other."""
        some = list(parts)
        if not some:
            none = np.zeros(0, dtype=np.int64)
            return Sums(none, none, np.zeros(0))
        sizes = np.array([len(part.kinds) for part in some])
        behind = np.repeat(np.cumsum(sizes) - sizes, [len(part.starts) for part in some])
        starts, kinds, times = (np.concatenate(column) for column in zip(*some, strict=True))
        return Sums(starts + behind, kinds, times)


class Laid(NamedTuple):
    """A grid laid over a model: sums of what may be its longest path.

    Of positions with the same kinds of runs only the one with most stages before it is there.
    """

    at: Sums
    """Stages of every copy at each of these positions."""
    before: Sums
    """Stages that a microbatch passes before it reaches it; none where several copies run."""
    fill: Sums
    """Stages before its first one, whichever copy's that is; none where they may work side by side."""
    near: tuple[int, ...]
    """How many these are."""
    leading: tuple[tuple[int, ...], ...]
    """Kinds of the stages at the first two positions, by (stage, copy); of a single one twice."""
    chain: bool
    """Whether a microbatch goes from each stage to the next, never in two at once."""


class EvenStages:
    """Kinds of runs of all even cuts of a model between its units.

    Args:
        graph: the model.
    """

    def __init__(self, graph: LayerGraph) -> None:
        self.most = len(units(graph))
        """Most stages."""
        kinds = RunKinds(graph)
        self._cuts = [kinds.cut(count) for count in range(1, self.most + 1)]
        self.starts, self.stops = np.array(kinds.starts), np.array(kinds.stops)
        self._laid: dict[tuple[str, int, int], Laid] = {}

    @staticmethod
    def of(graph: LayerGraph) -> EvenStages:
        """Return those of a model, made once."""
        return graph.memo("search.even_stages", lambda: EvenStages(graph))

    @property
    def whole(self) -> int:
        """Kind of the run of all layers."""
        return int(self._cuts[0].runs[0])

    def laid(self, placement: Placement, positions: int, chunks: int) -> Laid:
        """Return what a placement's grid makes of the model."""
        key = placement.name, positions, chunks
        if key not in self._laid:
            self._laid[key] = self._lay(placement, placement.grid(positions, chunks))
        return self._laid[key]

    def _lay(self, placement: Placement, grid: Grid) -> Laid:
        cut = self._cuts[placement.stages(grid) - 1]
        kinds, held = cut.runs.tolist(), placement.held(grid)
        last: dict[tuple[int, ...], int] = {}
        for pairs in held:
            mine = tuple(kinds[stage] for stage, _ in pairs)
            last[mine] = max(last.get(mine, 0), pairs[0][0] if cut.chain else 0)
        at = [_counted(mine) for mine in last]
        fill = Sums.made([_counted(kinds[:stage]) for stage in last.values()])
        before = fill if grid.copies == 1 else Sums.made([((), ())] * len(last))
        leading = tuple(tuple(kinds[stage] for stage, _ in held[r]) for r in LEADING[: len(held)])
        return Laid(
            Sums.made(at), before, fill, tuple(last.values()), (leading * 2)[: len(LEADING)], cut.chain
        )


def _counted(kinds: Iterable[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    found = Counter(kinds)
    return tuple(found), tuple(map(float, found.values()))
