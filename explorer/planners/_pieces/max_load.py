r"""Least max-load of a pipeline whose stages are differences of ideals, over devices of several kinds.

    dp[I][a]  =  min over ideals I' in I, kinds k, replicas r of  max( dp[I'][a - r e_k], load(I \ I', k, r) )

with a the devices used of each kind (Tarnawski et al., NeurIPS 2020, section 4, and its appendix on
replication). The load of a stage is its seconds, and the transfers of every tensor that enters or leaves it,
each once; r replicas share both and reduce their gradients. What is no better than a known plan is left out,
as is an ideal whose rest the devices that are left cannot do in that time even if nodes could be divided:

    sum over the rest of min over k of lambda_k seconds_k  <=  limit x sum over k of lambda_k devices_k

for any lambda >= 0. From each ideal all larger ones are visited by adding node after node, depth first, so
that the transfers change by those of one node at a time (`reach`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.base.compiling import expect
from explorer.planners._pieces.lattice import Lattice, bits
from explorer.planners._pieces.reach import reach
from explorer.planners._pieces.work_graph import WorkGraph

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

NEARER = 1 - 1e-12
"""Share of a known plan's load below which another one is better."""
_TURN = 300_000
"""Ideals that are visited between two pauses."""
_SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
"""Where the lambda of a kind lie among the ratios of seconds of its nodes to those of another kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Devices of one kind."""

    count: int
    """Number of devices."""
    room_bytes: float = np.inf
    """Most bytes on one device."""
    pays: bool = True
    """Whether its devices spend time on transfers; the host itself does not."""
    reduce_s_per_byte: float = 0.0
    """Seconds of one microbatch that a byte of gradients takes, times (r - 1) / r, to be reduced over r."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """A stage of a plan."""

    nodes: tuple[int, ...]
    """Its nodes."""
    pool: int
    """Kind of its devices."""
    replicas: int
    """Its devices."""
    load_s: float
    """Seconds of one microbatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxLoadPlan:
    """A plan, its stages in order."""

    load_s: float
    """Seconds of the stage that takes longest."""
    stages: tuple[PlannedStage, ...]


def load_of(work: WorkGraph, nodes: Sequence[int], pool: int, kind: Pool, replicas: int = 1) -> float:
    """Return the seconds of one microbatch of a stage; infinite if the kind may not run or hold it."""
    own = set(nodes)
    if work.held_bytes[list(own)].sum() > kind.room_bytes * (1 + 1e-12):
        return float("inf")
    tensors = zip(work.producer.tolist(), work.readers, work.transfer_s.tolist(), strict=True)
    sent = sum(
        cost
        for p, readers, cost in tensors
        if (p in own and not own.issuperset(readers)) or (p not in own and own.intersection(readers))
    )
    alone = float(work.seconds[pool, list(own)].sum()) + (sent if kind.pays else 0.0)
    reduced = float(work.reduced_bytes[list(own)].sum()) * kind.reduce_s_per_byte
    return alone / replicas + reduced * (replicas - 1) / replicas


def least_max_load(
    work: WorkGraph, lattice: Lattice, pools: Sequence[Pool], *, replicas: int = 1, below_s: float = np.inf
) -> Iterator[MaxLoadPlan | None]:
    """Yield None while working, then the plan of least max-load, if one is below a limit.

    Args:
        work: the model.
        lattice: its ideals, or some of them.
        pools: the devices, by kind; not all need be used.
        replicas: most replicas of a stage.
        below_s: load that a plan must be below to be found.
    """
    if not np.isfinite(below_s):
        finite = np.where(np.isfinite(work.seconds), work.seconds, 0.0)
        below_s = 2.0 * float(finite.sum() + work.transfer_s.sum()) + 1.0
        below_s += float(work.reduced_bytes.sum()) * max(pool.reduce_s_per_byte for pool in pools)
    table = _Table(work, lattice, pools, replicas, below_s)
    expect(lattice.count**2)
    while table.open:
        table.go_on()
        yield None
    if (found := table.plan()) is not None:
        yield found


class _Table:
    """The table of the program, and all that its kernel is given."""

    def __init__(
        self, work: WorkGraph, lattice: Lattice, pools: Sequence[Pool], replicas: int, below_s: float
    ) -> None:
        self.work, self.lattice, self.pools, self.below_s = work, lattice, pools, below_s
        counts = [pool.count for pool in pools]
        self.used = np.array(list(product(*(range(count + 1) for count in counts))), dtype=np.int64)
        behind = [[count + 1 for count in counts[k + 1 :]] for k in range(len(pools))]
        self.radix = np.array([np.prod(sizes, dtype=np.int64) for sizes in behind])
        cells = len(self.used) * lattice.count
        self.value, self.value[0] = np.full(cells, np.inf), 0.0
        self.origin, self.choice = np.full(cells, -1, dtype=np.int64), np.zeros(cells, dtype=np.int64)
        self.progress = np.zeros(2, dtype=np.int64)
        self.most = max(1, min(replicas, max(counts)))
        self._arguments = self._given(counts)

    @property
    def open(self) -> bool:
        """Whether ideals are left from which to go on."""
        return int(self.progress[0]) < self.lattice.count

    def go_on(self) -> None:
        """Visit what is above some more ideals."""
        arguments = (*self._arguments, self.progress, self.value, self.origin, self.choice)
        reach(*arguments)

    def plan(self) -> MaxLoadPlan | None:
        """Return the best plan; None if none is below the limit."""
        last, count = self.lattice.count - 1, self.lattice.count
        ends = self.value.reshape(-1, count)[:, last]
        state, ideal = int(np.argmin(ends)), last
        if not ends[state] < self.below_s:
            return None
        stages = []
        while ideal:
            cell = state * count + ideal
            before, (pool, r) = int(self.origin[cell]), divmod(int(self.choice[cell]), self.most + 1)
            nodes = tuple(bits(self.lattice.sets[ideal] & ~self.lattice.sets[before]))
            load = load_of(self.work, nodes, pool, self.pools[pool], r)
            stages.append(PlannedStage(nodes=nodes, pool=pool, replicas=r, load_s=load))
            state, ideal = state - r * int(self.radix[pool]), before
        return MaxLoadPlan(load_s=max(s.load_s for s in stages), stages=tuple(reversed(stages)))

    def _given(self, counts: list[int]) -> tuple[Any, ...]:
        """Return the arguments of the kernel but for its results."""
        work, lattice, pools, kinds = self.work, self.lattice, self.pools, len(self.pools)
        refused = ~np.isfinite(work.seconds)
        weights = _weights(work.seconds)
        seconds = np.where(refused, 0.0, work.seconds)
        dear = [np.where(refused, np.inf, seconds * row[:, None]) for row in weights]
        rows = [
            *seconds, *refused.astype(float), work.held_bytes, work.reduced_bytes,
            *(item.min(axis=0) for item in dear),
        ]  # fmt: skip
        sums = lattice.sums(np.where(np.isfinite(rows), rows, 0.0))
        left = sums[2 * kinds + 2 :, -1:] - sums[2 * kinds + 2 :]
        room = weights @ (np.array(counts) - self.used).T * self.below_s * (1 + 1e-9)
        touch_start, touch = _touched(work)
        tensors, nodes = len(work.producer) + 1, work.count + 2
        return (
            lattice.start, lattice.node, lattice.to, _TURN, self.below_s, self.most,
            sums[:kinds].ravel(), sums[kinds : 2 * kinds].ravel(), sums[2 * kinds], sums[2 * kinds + 1],
            np.array([pool.room_bytes * (1 + 1e-12) for pool in pools]),
            np.array([float(pool.pays) for pool in pools]),
            np.array([pool.reduce_s_per_byte for pool in pools]),
            touch_start, touch, np.append(work.transfer_s, 0.0),
            np.array([*map(len, work.readers), 0], dtype=np.int64),
            self.used.ravel(), self.radix, np.array(counts, dtype=np.int64), left.ravel(), room.ravel(),
            _zeros(lattice.count) - 1, _zeros(tensors), _zeros(tensors), _zeros(nodes), _zeros(nodes),
            _zeros(nodes), np.zeros(nodes), _zeros(len(self.used)),
        )  # fmt: skip


def _zeros(count: int) -> IntArray:
    return np.zeros(count, dtype=np.int64)


def _weights(seconds: FloatArray) -> FloatArray:
    """Return rows of lambda, one number a kind: as they are, and one kind scaled to another's seconds."""
    kinds = len(seconds)
    rows = [np.ones(kinds), *np.eye(kinds)]
    for one, other in product(range(kinds), repeat=2):
        both = np.isfinite(seconds[one]) & np.isfinite(seconds[other]) & (seconds[other] > 0)
        if one != other and both.any():
            ratios = np.quantile(seconds[one, both] / seconds[other, both], _SHARES)
            for ratio in ratios:
                row = np.zeros(kinds)
                row[one], row[other] = 1.0, ratio
                rows.append(row)
    return np.unique(np.array(rows), axis=0)


def _touched(work: WorkGraph) -> tuple[IntArray, IntArray]:
    """Return by node the tensors that it makes or reads: starts, and 2 t, or 2 t + 1 where it makes t."""
    found: list[list[int]] = [[] for _ in range(work.count)]
    for tensor, (producer, readers) in enumerate(zip(work.producer.tolist(), work.readers, strict=True)):
        found[producer].append(2 * tensor + 1)
        for reader in readers:
            found[reader].append(2 * tensor)
    start = np.cumsum([0, *map(len, found)]).astype(np.int64)
    return start, np.array([item for own in found for item in own] or [0], dtype=np.int64)
