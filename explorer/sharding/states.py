"""States of a tensor over one mesh axis, and the share of it that a device then holds.

Over each mesh axis a tensor is *split* along one of its own axes, a *broadcast* (every device has all of it),
a *partial* sum (the sum over the devices is the tensor), or split by *sample*: devices of that mesh axis work
on different samples. A state is one integer, a `Placement` one state per mesh axis (the SBP signatures of
OneFlow, with the batch axis apart because `LayerGraph` implies it everywhere).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

State: TypeAlias = int
"""0 or more: split along that axis of the tensor; else one of the three below."""

BROADCAST, PARTIAL, SAMPLE = -1, -2, -3

Placement: TypeAlias = tuple[State, ...]
"""One state per mesh axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One mesh axis that is not the replica axis."""

    name: str
    """Name in the mesh (`tensor`, `expert`, `context`)."""
    size: int
    """Devices along it, at least 1."""
    carved: bool = False
    """True if carved out of the replicas: outside its own layers its devices hold different samples."""


def describe(state: State) -> str:
    """A state in words.

    >>> [describe(state) for state in (1, BROADCAST, PARTIAL, SAMPLE)]
    ['split(1)', 'broadcast', 'partial', 'sample']
    """
    return f"split({state})" if state >= 0 else {-1: "broadcast", -2: "partial", -3: "sample"}[state]


def dual(state: State) -> State:
    """State in which the gradient of a written tensor is needed: as it, or whole for a partial sum."""
    return BROADCAST if state == PARTIAL else state


def piece(size: float, parts: int) -> float:
    """Share of the largest of `parts` pieces of an axis: ceil(size / parts) / size, at least 1 / size.

    >>> piece(8, 4), piece(12, 8), piece(2, 4)
    (0.25, 0.16666666666666666, 0.5)
    """
    return math.ceil(size / parts) / size if size > 0 else 1.0


def share(placement: Placement, sizes: Sequence[float], axes: Sequence[Axis]) -> float:
    """Share of one sample of a tensor that a device holds.

    Over a carved axis of n devices there are n times the samples, so that a tensor split by sample there
    counts 1, a broadcast n.

    Args:
        placement: one state per axis of `axes`.
        sizes: size of each axis of the tensor.
        axes: the mesh axes.
    """
    result = 1.0
    parts: dict[State, int] = {}
    for state, axis in zip(placement, axes, strict=True):
        if axis.carved:
            result *= axis.size
        if state == SAMPLE:
            result /= axis.size
        elif state >= 0:
            parts[state] = parts.get(state, 1) * axis.size
    return result * math.prod(piece(sizes[position], count) for position, count in parts.items())


def axis_names(axes: Iterable[Axis]) -> tuple[str, ...]:
    """Names of mesh axes, in order."""
    return tuple(axis.name for axis in axes)
