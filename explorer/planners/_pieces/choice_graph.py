"""A model as planners of shardings see it: a choice for each vertex, costs of choices and of pairs of them.

    F(phi) = sum over v of t(v, phi_v)  +  sum over edges (u, v) of x(u, v, phi_u, phi_v)

Vertices are layers; t are seconds of a step of the layer by itself, its collectives and the reduction of its
gradients included; x are seconds to bring tensors from one layer's sharding to the other's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceGraph:
    """Costs of the choices of n vertices. Equal layers and equal pairs share arrays."""

    seconds: tuple[FloatArray, ...]
    """Per vertex: (choices,) seconds t."""
    held_bytes: tuple[FloatArray, ...]
    """Per vertex: (choices,) bytes on a device."""
    edges: Mapping[tuple[int, int], FloatArray]
    """(u, v), u before v: (choices of u, choices of v) seconds x."""

    @property
    def count(self) -> int:
        """Number of vertices n."""
        return len(self.seconds)

    def total_s(self, chosen: Sequence[int]) -> float:
        """Return the seconds F of a choice for every vertex."""
        alone = sum(float(own[k]) for own, k in zip(self.seconds, chosen, strict=True))
        return alone + sum(float(x[chosen[u], chosen[v]]) for (u, v), x in self.edges.items())

    def total_bytes(self, chosen: Sequence[int]) -> float:
        """Return the bytes of a choice for every vertex."""
        return sum(float(own[k]) for own, k in zip(self.held_bytes, chosen, strict=True))
