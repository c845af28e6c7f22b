"""Structure of a strategy without names, bytes and seconds: sections, flows between them, holders of shards.

A *section* is a run of a stage's layers on one device set and sample split (a stage has one, unless
some layers run on a subset of its devices). A *piece* is one replica of one copy of a section: the unit
that computes. *Flows* are the tensors that cross sections, *holders* the pieces that hold the same
shard of a parameter. Two strategies with equal skeletons lower to the same tasks, which is what makes
re-evaluation cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.caching import STAGES_KEPT, Hashed, Owner, Same, remembered
from explorer.updates import PLAIN, Chosen

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class Piece(NamedTuple):
    """One replica of one copy of a section."""

    section: int
    copy: int
    replica: int


class Flow(NamedTuple):
    """Tensors that go from one section to others on another set of devices (or stay on the same)."""

    source: int
    targets: tuple[int, ...]
    gradient: bool
    """Whether a gradient comes back."""


class Holders(NamedTuple):
    """Pieces that hold the same shard of some parameters and exchange gradients or weights of it."""

    pieces: tuple[Piece, ...]
    method: str
    servers: tuple[int, ...]
    update: Chosen = PLAIN
    """Rule by which they are updated."""
    buckets: int = 0
    """Number, from 1, of the `Sync` by which all but the last bucket of the reduction overlap with the last
    backward; 0 waits for all.
    """
    turn: tuple[int, int] = (0, 1)
    """(k, n): of every n exchanges of the rule this group makes the k-th, from 0; other groups make the
    others.
    """


class SectionShape(NamedTuple):
    """Everything the tasks need to know of a section."""

    stage: int
    rows: tuple[tuple[tuple[int, ...], ...], ...]
    """Devices by copy and replica; of one mesh they are `Hashed`, since there may be thousands."""
    microbatch_samples: int
    round_robin: bool
    offsets: tuple[int, ...]
    """Sample offsets of split replicas inside a microbatch, one more than replicas."""
    zero: int
    full_recompute: bool
    zero_replicas: int = 0
    """Replicas that ZeRO shards over, in order of copies and replicas; 0 is all."""
    reshard: str = ""
    """`Stage.reshard`."""
    recomputes: bool = False
    """Whether a backward makes anything again: whole blocks, or what is cheap to make."""

    def samples(self, replica: int) -> int:
        """Return the samples of one microbatch that a replica works on."""
        if self.round_robin:
            return self.microbatch_samples
        return self.offsets[replica + 1] - self.offsets[replica]

    def interval(self, replica: int, microbatch: int) -> tuple[int, int]:
        """Return the samples [low, high) of one microbatch that a replica works on."""
        base = microbatch * self.microbatch_samples
        if self.round_robin:
            return base, base + self.microbatch_samples
        return base + self.offsets[replica], base + self.offsets[replica + 1]

    @property
    def replicas(self) -> int:
        """Replicas of each copy."""
        return len(self.rows[0])

    @property
    def shards(self) -> int:
        """Devices over which ZeRO spreads one shard of a parameter, its owner included."""
        return self.zero_replicas or self.replicas * len(self.rows)

    def shard_group(self, copy: int, replica: int) -> int:
        """Return the number of the group of a replica; each group holds everything."""
        return (copy * self.replicas + replica) // self.shards


def rows_held(pieces: tuple[Piece, ...], sections: tuple[SectionShape, ...]) -> Hashed[tuple[int, ...]]:
    """Return the different rows of devices of some pieces, in their order."""
    numbers = dict.fromkeys([piece.section for piece in pieces])
    known = pieces if isinstance(pieces, Hashed) else Hashed(pieces)
    return _rows_held(known, tuple(numbers), Same([sections[number] for number in numbers]))


@remembered(STAGES_KEPT)
def _rows_held(
    pieces: Hashed[Piece], numbers: tuple[int, ...], shapes: Same[SectionShape]
) -> Hashed[tuple[int, ...]]:
    of = dict(zip(numbers, shapes, strict=True))
    return Hashed(dict.fromkeys([of[section].rows[copy][replica] for section, copy, replica in pieces]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton(Owner):
    """Structure without names, bytes and seconds: the key of the program cache."""

    sections: tuple[SectionShape, ...]
    """In topological order of stages, then layer order."""
    flows: tuple[Flow, ...]
    """Tensors between sections."""
    holders: tuple[Holders, ...]
    """Groups that exchange with one another."""
    updates: tuple[bool, ...]
    """Per section: whether it has something to update."""
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)

    def __hash__(self) -> int:
        return self.memo("hash", lambda: hash((self.sections, self.flows, self.holders, self.updates)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStrategy:
    """A strategy resolved against its graph, without names."""

    skeleton: Skeleton
    """Its structure."""
    layers: tuple[IntArray, ...]
    """Per section: indices of its layers."""
    fractions: tuple[FloatArray | None, ...]
    """Per section: share of each layer; None if all are whole."""
    flow_tensors: tuple[tuple[tuple[int, float], ...], ...]
    """Per flow: (tensor index, fraction of it)."""
    flow_ranges: tuple[tuple[tuple[tuple[int, float, float], ...], ...], ...]
    """Per flow and tensor: (axis, start, stop) of every axis of which it carries a part; () if no layer is
    cut.
    """
    held: tuple[tuple[int, ...], ...]
    """Per holders group: parameter indices."""
    whole: tuple[tuple[int, ...], ...] = ()
    """Per section: parameters of cut layers that it holds whole nevertheless; () if none is cut."""


@lru_cache(maxsize=1024)
def split_offsets(samples: int, replicas: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Return the sample offsets of split replicas: whole samples, largest remainder by share.

    >>> split_offsets(6, 3, ())
    (0, 2, 4, 6)
    >>> split_offsets(5, 2, (3, 1))
    (0, 4, 5)
    """
    if not shares:  # the first few have one more
        each, more = divmod(samples, replicas)
        return tuple(each * r + min(r, more) for r in range(replicas + 1))
    total = sum(shares)
    ideal = [samples * share / total for share in shares]
    counts = [int(value + 1e-9) for value in ideal]
    by_remainder = sorted(range(replicas), key=lambda r: (counts[r] - ideal[r], r))
    for r in by_remainder[: samples - sum(counts)]:
        counts[r] += 1
    offsets = [0]
    for count in counts:
        offsets.append(offsets[-1] + count)
    return tuple(offsets)
