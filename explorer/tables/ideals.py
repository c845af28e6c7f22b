r"""Ideals: the positions of a graph with branches, where runs need not be consecutive in the model's order.

An ideal is a set of layers with everything that they read from. What a pipeline has done up to some stage is
an ideal, so that stages are differences of two (Tarnawski et al., Efficient Algorithms for Device Placement
of DNN Graph Operators, NeurIPS 2020, section 4). Blocks stay whole.

        b          ideals:  {}  {a}  {a b}  {a c}  {a b c}  {a b c d}
      /   \
    a       d      runs:    {b} = {a b} - {a}     {c d} = {a b c d} - {a b}     ...
      \\   /
        c
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.base.errors import InputError
from explorer.base.units import scalar_bytes
from explorer.costs.memory_arrays import BoolArray, FloatArray, graph_arrays
from explorer.graph import LayerGraph
from explorer.strategies.cuts import units
from explorer.tables.positions import Number
from explorer.tasks.placement import layer_edges
from explorer.tasks.skeleton import IntArray

MOST_IDEALS = 50_000
"""Ideals of a graph whose tables fit a few hundred MiB: 40 columns of 8 bytes each, for some choices."""
_MOST_STEPS = 20_000
"""Parts of a graph that are looked at to count its ideals."""


@dataclass(frozen=True, slots=True, eq=False)
class Ideals:
    """Ideals of a graph as positions: 0 is the empty one, the last has all layers."""

    graph: LayerGraph
    """The model."""
    members: BoolArray
    """(ideals, units): units in each ideal, the smaller ones first."""
    bounds: IntArray
    """First layer of each unit, and the number of layers."""

    @property
    def ordered(self) -> bool:
        """Whether they are cuts in the order of the model."""
        return False

    @property
    def count(self) -> int:
        """Number of ideals."""
        return len(self.members)

    def sums(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Sum the values of layers (last axis) in every ideal: shape (..., ideals)."""
        per_unit = np.add.reduceat(values, self.bounds[:-1], axis=-1)
        found: npt.NDArray[Number] = per_unit @ self.members.T.astype(values.dtype)
        return found

    def layers(self, start: int, stop: int) -> IntArray:
        """Return the layers of a run, ascending."""
        units_here = self.members[stop] & ~self.members[start]
        return np.flatnonzero(np.repeat(units_here, np.diff(self.bounds)))

    def within(self, ideal: int) -> IntArray:
        """Return the ideals strictly inside another: where a run that stops there may start."""
        inside = ~(self.members[:ideal] & ~self.members[ideal]).any(axis=1)
        return np.flatnonzero(inside)

    def check(self, starts: IntArray, stops: IntArray) -> None:
        """Raise where a run has no layers.

        Raises:
            InputError: it has none, its start is not inside its stop, or a position does not exist.
        """
        wrong = (starts < 0) | (stops >= self.count) | (stops <= starts)
        if not wrong.any():
            wrong |= (self.members[starts] & ~self.members[stops]).any(axis=1)
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"a run from ideal {starts[k]} to ideal {stops[k]} of {self.count}", key="stops",
                found=int(stops[k]), allowed="an ideal that has its start, and more",
            )  # fmt: skip

    def crossing_bytes(self, precision: str) -> FloatArray:
        """Return by ideal the bytes of one sample of tensors that it makes and others read, each whole.

        Args:
            precision: data type of tensors in the workload's precision.
        """
        writer, reader, tensor = layer_edges(self.graph)
        unit = np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))
        arrays = graph_arrays(self.graph)
        size = arrays.compute * scalar_bytes(precision) + arrays.fixed
        found = np.zeros(self.count)
        for t in np.unique(tensor).tolist():
            mine = tensor == t
            made = self.members[:, unit[writer[mine][0]]]
            found += size[t] * (made & ~self.members[:, np.unique(unit[reader[mine]])].all(axis=1))
        return found


def ideals_of(graph: LayerGraph, *, limit: int = MOST_IDEALS) -> Ideals:
    """Return the ideals of a graph, the smaller ones first.

    Raises:
        InputError: there are more than `limit`.
    """
    bounds, above = _units(graph)
    count = count_ideals(above)
    if count is None or count > limit:
        said = "more than can be counted" if count is None else f"{count:,}"
        raise InputError(
            f"model {graph.name!r} has {said} ideals of {len(above)} blocks and layers", key="ideals",
            found=count or said, allowed=f"<= {limit:,}, or cuts in the order of the model",
        )  # fmt: skip
    found = _enumerated(above)
    members = np.array([[ideal >> u & 1 for u in range(len(above))] for ideal in found], dtype=bool)
    return Ideals(graph, members.reshape(len(found), len(above)), bounds)


def _units(graph: LayerGraph) -> tuple[IntArray, list[int]]:
    """Return bounds of units, and for each the bit set of units that it reads from."""
    spans = units(graph)
    bounds = np.array([start for start, _ in spans] + [len(graph.layers)], dtype=np.int64)
    unit = np.repeat(np.arange(len(spans)), np.diff(bounds))
    writer, reader, _ = layer_edges(graph)
    above = [0] * len(spans)
    for source, target in set(zip(unit[writer].tolist(), unit[reader].tolist(), strict=True)):
        if source != target:
            above[target] |= 1 << source
    for target, direct in enumerate(above):  # all that it needs; readers come after writers
        for source in range(target):
            if direct >> source & 1:
                above[target] |= above[source]
    return bounds, above


def _enumerated(above: list[int]) -> list[int]:
    """Return the ideals as bit sets, by size."""
    found = {0}
    waiting = deque([0])
    while waiting:
        ideal = waiting.popleft()
        for u, needed in enumerate(above):
            if not ideal >> u & 1 and not needed & ~ideal:
                more = ideal | 1 << u
                if more not in found:
                    found.add(more)
                    waiting.append(more)
    return sorted(found, key=lambda ideal: (ideal.bit_count(), ideal))


def count_ideals(above: list[int]) -> int | None:
    """Count the ideals; None if that takes too long.

    Parts that nothing joins multiply. In one part each ideal has a unit x, and so all that x needs, or has
    neither x nor anything that needs it.
    """
    below = [sum(1 << v for v, needed in enumerate(above) if needed >> u & 1) for u in range(len(above))]
    known: dict[int, int] = {0: 1}
    steps = 0

    def count(part: int) -> int:
        nonlocal steps
        if part not in known:
            steps += 1
            if steps > _MOST_STEPS:
                raise OverflowError
            pieces = _pieces(part, above, below)
            if len(pieces) > 1:
                known[part] = int(np.prod([count(piece) for piece in pieces], dtype=object))
            else:
                x = _middle(part, above, below)
                known[part] = count(part & ~(above[x] | 1 << x)) + count(part & ~(below[x] | 1 << x))
        return known[part]

    try:
        return count((1 << len(above)) - 1)
    except (OverflowError, RecursionError):
        return None


def _pieces(part: int, above: list[int], below: list[int]) -> list[int]:
    """Split a bit set of units into those that nothing joins."""
    found = []
    while part:
        piece, new = 0, part & -part
        while new:
            piece |= new
            joined = 0
            for u in _bits(new):
                joined |= above[u] | below[u]
            new = joined & part & ~piece
        found.append(piece)
        part &= ~piece
    return found


def _middle(part: int, above: list[int], below: list[int]) -> int:
    """Return the unit with most others before or behind it, and as many before as behind."""

    def weight(u: int) -> tuple[int, int]:
        before, behind = (above[u] & part).bit_count(), (below[u] & part).bit_count()
        return before + behind, min(before, behind)

    return max(_bits(part), key=weight)


def _bits(number: int) -> list[int]:
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found
