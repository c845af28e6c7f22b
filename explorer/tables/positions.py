"""Positions: between which a run of layers lies.

In the order of the model they are cuts, 0 to the number of layers, and a run is what lies between two of
them. In a graph with branches they are ideals (`ideals`), and a run is what one has and another inside of it
has not. Tables sum columns over positions once, and never ask which of the two they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.tasks.skeleton import IntArray

Number = TypeVar("Number", np.float64, np.int64)


class Positions(Protocol):
    """Where runs of layers start and stop."""

    @property
    def ordered(self) -> bool:
        """Whether they are cuts in the order of the model."""

    def sums(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Sum the values of layers (last axis) before every position."""

    def layers(self, start: int, stop: int) -> IntArray:
        """Return the layers of a run, ascending."""

    def check(self, starts: IntArray, stops: IntArray) -> None:
        """Raise where a run has no layers.

        Raises:
            InputError: it has none, or a position does not exist.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Positions in the order of the model."""

    count: int
    """Number of layers."""

    @property
    def ordered(self) -> bool:
        """Whether they are cuts in the order of the model."""
        return True

    def sums(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return prefix sums along the last axis, from 0 to all: shape (..., n + 1)."""
        found = np.zeros((*values.shape[:-1], values.shape[-1] + 1), dtype=values.dtype)
        np.cumsum(values, axis=-1, out=found[..., 1:])
        return found

    def layers(self, start: int, stop: int) -> IntArray:
        """Return the layers of a run."""
        return np.arange(start, stop)

    def check(self, starts: IntArray, stops: IntArray) -> None:
        """Raise where a run has no layers.

        Raises:
            InputError: it has none, or a position does not exist.
        """
        wrong = stops <= starts
        if wrong.any() or starts.min(initial=0) < 0 or stops.max(initial=0) > self.count:
            wrong |= (starts < 0) | (stops > self.count)
            k = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"a run of layers from {starts[k]} to before {stops[k]}", key="stops", found=int(stops[k]),
                allowed=f"above its start, at most {self.count}",
            )  # fmt: skip


def cuts_of(graph: LayerGraph) -> Cuts:
    """Return the positions in the order of a model: one object for each graph."""
    return graph.memo("table cuts", lambda: Cuts(len(graph.layers)))
