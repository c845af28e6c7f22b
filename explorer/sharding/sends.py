"""Collectives of a sharded graph as rows, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.sharding.result import IntArray, Kind, Sends

_Part = tuple[IntArray, IntArray, IntArray, int, int]
"""Layers, places among what a layer waits for, tensors; turn within the place, and kind."""


class Rows:
    """Rows of the three ways, gathered in any order."""

    def __init__(self, tensors: int) -> None:
        self._tensors = tensors
        self._numbers: dict[Kind, int] = {}
        self._ways: tuple[list[_Part], list[_Part], list[_Part]] = ([], [], [])

    def add(
        self,
        way: int,
        kind: Kind,
        turn: int,
        layers: IntArray,
        tensors: IntArray,
        place: IntArray | None = None,
    ) -> None:
        """Add one collective of several layers.

        Args:
            way: 0 forward, 1 backward, 2 gathers that the backward repeats.
            kind: what it costs.
            turn: its turn among those of the same layer and place.
            layers: who wait for it, each with its own.
            tensors: their tensors.
            place: their turn among what a layer waits for; None for what happens inside it, which is first.
        """
        number = self._numbers.setdefault(kind, len(self._numbers))
        places = np.zeros(len(layers), dtype=np.int64) if place is None else place + 1
        self._ways[way].append((layers, places, tensors, turn, number))

    def sorted(self) -> tuple[tuple[Kind, ...], tuple[Sends, Sends, Sends]]:
        """Return the kinds in the order of their first use, and the rows of each way in order."""
        ways = [self._sorted(parts, backward=way > 0) for way, parts in enumerate(self._ways)]
        every = np.concatenate([kind for _, _, kind in ways])
        _, first = np.unique(every, return_index=True)
        used = every[np.sort(first)]
        renumbered = np.zeros(max(1, len(self._numbers)), dtype=np.int64)
        renumbered[used] = np.arange(len(used))
        kinds = tuple(self._numbers)
        forward, backward, regather = (
            Sends(layer=layer, tensor=tensor, kind=renumbered[kind]) for layer, tensor, kind in ways
        )
        return tuple([kinds[k] for k in used.tolist()]), (forward, backward, regather)

    def _sorted(self, parts: Sequence[_Part], *, backward: bool) -> tuple[IntArray, IntArray, IntArray]:
        if not parts:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing
        lengths = [len(layers) for layers, *_ in parts]
        layer, place, tensor = (np.concatenate([part[k] for part in parts]) for k in range(3))
        turn, kind = (np.repeat([part[k] for part in parts], lengths) for k in (3, 4))
        key = (-layer if backward else layer) * (self._tensors + 2) + place
        order = np.argsort(key * (int(turn.max(initial=0)) + 1) + turn, kind="stable")
        return layer[order], tensor[order], kind[order]
