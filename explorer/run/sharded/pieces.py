"""Pieces: which indices of every axis of a tensor each device has.

The mesh axes that split a dimension are digits of its index, the slowest axis first: over (a, b) device
(i, j) has block i n_b + j, and where only b splits it the blocks j, n_b + j, 2 n_b + j, .... So conversions
over different mesh axes do not interfere, whatever their order. A dimension that only one mesh axis ever
splits has contiguous pieces. Sizes that do not divide are dealt out by largest remainder; of fewer units than
devices a unit is held by several.

Tensors and parameters share a dimension wherever a layer iterates it by one name (`Dimensions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from explorer.sharding.stage import GraphSharding
from explorer.sharding.states import PARTIAL, SAMPLE, Axis, TensorPlacement, runs

Indices = npt.NDArray[np.int64]
Sides = tuple[tuple[int, tuple[float, ...]], ...]
"""(devices, their shares or ()) of the mesh axes that split a dimension, the slowest first."""

SAMPLES = ("samples", 0)
"""Dimension of the samples, which every tensor has first."""


@lru_cache(maxsize=4096)
def masks(size: int, sides: Sides) -> tuple[npt.NDArray[np.bool_], ...]:
    """Return per mesh axis a table (device along it, index): whether the device's piece has the index.

    >>> masks(4, ((2, ()), (2, ())))[1].astype(int).tolist()
    [[1, 0, 1, 0], [0, 1, 0, 1]]
    """
    blocks = [(0, size)]
    found = []
    for n, shares in sides:
        table = np.zeros((n, size), dtype=bool)
        inner = []
        for low, high in blocks:
            for place, (first, last) in enumerate(runs(high - low, n, shares)):
                table[place, low + first : low + last] = True
                inner.append((low + first, low + last))
        found.append(table)
        blocks = inner
    return tuple(found)


class Dimensions:
    """The dimensions of a sharded graph: which mesh axes ever split each, and the pieces that follow.

    Args:
        whole: the graph under its layout.
        held: per (layer, position among its parameters) the state of the parameter over every mesh axis.
    """

    def __init__(self, whole: GraphSharding, held: Mapping[tuple[int, int], TensorPlacement]) -> None:
        self.axes: tuple[Axis, ...] = whole.axes
        self._parent: dict[tuple[str, int], tuple[str, int]] = {}
        self._split: dict[tuple[str, int], set[int]] = {}
        self._join(whole)
        self._note(whole, held)
        self._known: dict[tuple[str, int], tuple[int, ...]] = {}

    def _find(self, key: tuple[str, int]) -> tuple[str, int]:
        while (up := self._parent.get(key, key)) != key:
            key = up
        return key

    def _join(self, whole: GraphSharding) -> None:
        for layer in whole.graph.layers:
            first: dict[str, tuple[str, int]] = {}
            for use in (*layer.reads, *layer.writes, *layer.parameters):
                for position, dim in enumerate(use.dims):
                    if dim:
                        key = self._find((use.name, position + 1))
                        root = self._find(first.setdefault(dim, key))
                        if key != root:
                            self._parent[key] = root

    def _note(self, whole: GraphSharding, held: Mapping[tuple[int, int], TensorPlacement]) -> None:
        for i, layer in enumerate(whole.graph.layers):
            plan = whole.plans[i]
            pairs = [
                *zip(layer.reads, plan.reads, strict=True),
                *zip(layer.reads, plan.read_gradients, strict=True),
                *zip(layer.writes, plan.writes, strict=True),
                *((use, held[i, k]) for k, use in enumerate(layer.parameters)),
            ]
            for use, placement in pairs:
                self._add(use.name, placement)
        for t, tensor in enumerate(whole.graph.tensors):
            self._add(tensor.name, whole.rest(t).placement)

    def _add(self, name: str, placement: TensorPlacement) -> None:
        for a, state in enumerate(placement):
            if state >= 0:
                self._split.setdefault(self._find((name, state + 1)), set()).add(a)
            elif state == SAMPLE:
                self._split.setdefault(SAMPLES, set()).add(a)

    def splitting(self, name: str, position: int) -> tuple[int, ...]:
        """Return the mesh axes that ever split an axis of a tensor (0: its samples)."""
        key = (name, position)
        if key not in self._known:
            root = self._find(key) if position else SAMPLES
            self._known[key] = tuple(sorted(self._split.get(root, ())))
        return self._known[key]

    def mask(self, name: str, position: int, size: int, a: int) -> npt.NDArray[np.bool_]:
        """Return the table (device along mesh axis `a`, index) of an axis of a tensor."""
        over = self.splitting(name, position)
        sides = tuple((self.axes[i].size, self.axes[i].shares) for i in over)
        return masks(size, sides)[over.index(a)]

    def first_holders(self, name: str, position: int, size: int, a: int) -> tuple[bool, ...]:
        """Tell for each device along a mesh axis whether no device before it has the same indices."""
        table = self.mask(name, position, size, a)
        return tuple(not (table[:c] == table[c]).all(1).any() for c in range(len(table)))

    def indices(
        self, name: str, shape: Sequence[int], placement: TensorPlacement, place: Sequence[int]
    ) -> list[Indices]:
        """Return the indices that a device has along every axis of a tensor.

        Args:
            name: tensor or parameter.
            shape: its whole shape, samples first.
            placement: its state over every mesh axis.
            place: coordinates of the device.
        """
        kept = [np.ones(size, dtype=bool) for size in shape]
        for a, state in enumerate(placement):
            position = array_axis(state)
            if position is not None:
                kept[position] &= self.mask(name, position, shape[position], a)[place[a]]
        return [np.flatnonzero(item) for item in kept]


def array_axis(state: int) -> int | None:
    """Return the axis of an array, samples first, that a state splits; None for a whole or a partial sum."""
    return None if state != SAMPLE and state < 0 else 0 if state == SAMPLE else state + 1


__all__ = ["PARTIAL", "SAMPLES", "Dimensions", "Indices", "array_axis", "masks"]
