"""States of a tensor over one mesh axis, and the share of the tensor that a device then holds.

Over each mesh axis a tensor is *split* along one of its own axes, a *broadcast* (every device has all of it),
a *partial* sum (the sum over the devices is the tensor), or split by *sample*: devices of that mesh axis work
on different samples. A state is one integer, a `TensorPlacement` one state per mesh axis (the SBP signatures
of OneFlow, except that the batch axis is separate because `LayerGraph` implies it everywhere).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TypeAlias

State: TypeAlias = int
"""State over one mesh axis: 0 or more for a split along that axis of the tensor, else one of the three
below."""

BROADCAST, PARTIAL, SAMPLE = -1, -2, -3

TensorPlacement: TypeAlias = tuple[State, ...]
"""One state per mesh axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A mesh axis other than the replica axis."""

    name: str
    """Name in the mesh (`tensor`, `expert`, `context`)."""
    size: int
    """Number of devices along the axis, at least 1."""
    carved: bool = False
    """Whether the axis is carved out of the replicas: its devices hold different samples outside its own
    layers."""
    shares: tuple[float, ...] = ()
    """Share of each device along the axis; () if equal."""
    place: int = 0
    """Position of the device to look at if shares differ."""

    @property
    def stretch(self) -> float:
        """Size of the largest piece over that of an equal one; passing pieces on waits for the largest."""
        return self.size * max(self.shares) / sum(self.shares) if self.shares else 1.0


def describe(state: State) -> str:
    """Return the name of a state.

    >>> [describe(state) for state in (1, BROADCAST, PARTIAL, SAMPLE)]
    ['split(1)', 'broadcast', 'partial', 'sample']
    """
    return f"split({state})" if state >= 0 else {-1: "broadcast", -2: "partial", -3: "sample"}[state]


def dual(state: State) -> State:
    """Return the state a written tensor's gradient is needed in: the same, or whole for a partial sum."""
    return BROADCAST if state == PARTIAL else state


def piece(size: float, parts: int) -> float:
    """Return the share of the largest of `parts` pieces: ceil(size / parts) / size, at least 1 / size.

    >>> piece(8, 4), piece(12, 8), piece(2, 4)
    (0.25, 0.16666666666666666, 0.5)
    """
    return math.ceil(size / parts) / size if size > 0 else 1.0


def part(size: float, axes: Iterable[Axis]) -> float:
    """Return the share that a device holds of a dimension that is split over some mesh axes.

    Over axes with equal shares the largest piece counts (see `piece`). Over an axis with unequal shares the
    device looked at has whole units, by largest remainder; dimensions with fewer units than devices are held
    as over an equal axis.

    >>> uneven = Axis(name="tensor", size=2, shares=(3.0, 1.0), place=1)
    >>> part(16, [uneven]), part(16, [uneven, Axis(name="context", size=2)])
    (0.25, 0.125)
    """
    count, fraction = 1, 1.0
    for axis in axes:
        if axis.shares and size >= axis.size:
            fraction *= dealt(int(size), axis.shares)[axis.place] / int(size)
        else:
            count *= axis.size
    return fraction * piece(size, count)


@lru_cache(maxsize=4096)
def dealt(units: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Deal whole units out by share, by largest remainder; of equal remainders the first comes first.

    >>> dealt(8, (3.0, 1.0)), dealt(5, (1.0, 1.0))
    ((6, 2), (3, 2))
    """
    exact = [units * each / sum(shares) for each in shares]
    found = [math.floor(each) for each in exact]
    order = sorted(range(len(shares)), key=lambda i: (found[i] - exact[i], i))
    for i in order[: units - sum(found)]:
        found[i] += 1
    return tuple(found)


def runs(units: int, n: int, shares: tuple[float, ...] = ()) -> tuple[tuple[int, int], ...]:
    """Return the run [low, high) of units that each of n devices has; of fewer than n each has one.

    >>> runs(5, 2), runs(2, 4)
    (((0, 3), (3, 5)), ((0, 1), (0, 1), (1, 2), (1, 2)))
    """
    if units < n:
        return tuple((units * i // n, units * i // n + min(1, units)) for i in range(n))
    ends = tuple(accumulate(dealt(units, shares or (1.0,) * n)))
    return tuple(zip((0, *ends), ends, strict=False))


def share(placement: TensorPlacement, sizes: Sequence[float], axes: Sequence[Axis]) -> float:
    """Return the share of one sample of a tensor that a device holds.

    Over a carved axis of n devices there are n times the samples, so a tensor split by sample there counts 1
    and a broadcast n.

    Args:
        placement: one state per axis of `axes`.
        sizes: size of each axis of the tensor.
        axes: the mesh axes.
    """
    result = 1.0
    parts: dict[State, list[Axis]] = {}
    for state, axis in zip(placement, axes, strict=True):
        if axis.carved:
            result *= axis.size
        if state == SAMPLE:
            result /= axis.size
        elif state >= 0:
            parts.setdefault(state, []).append(axis)
    return result * math.prod(part(sizes[position], over) for position, over in parts.items())
