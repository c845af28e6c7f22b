"""Occupancy: how much of every link the transfers and collectives of a step use, over time.

A *link* is a resource that transfers share (a device's port, a node's uplink, a named bus) or, if a pair has
a link to itself, that pair. A transfer uses it for the bytes it sends over it. A collective uses the part of
the link that it occupies while it runs, including what its protocol wastes: that part is not there for
others. Collectives inside compute tasks (tensor, context, expert parallelism) count as rings over their
lines. If equal replicas were folded into one, the links of that one are counted. Traffic of collectives over
links of a pair's own is not counted: which of them a ring takes is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.base.caching import IdentityCache
from explorer.costs.collective_ports import ring_use
from explorer.passes.timing import FloatArray, Shares, Timing
from explorer.pricing.mesh_lines import Line, lines_along, summed_with
from explorer.pricing.pricer import Pricer
from explorer.pricing.prices import Prices
from explorer.tasks.program import TRANSFER, F, Program, Slot, U

IntArray = npt.NDArray[np.int64]
FULL = 1 + 1e-9
"""Demand over capacity that still counts as full, not as over-full."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkUse:
    """Links, and the intervals of time in which each carries something."""

    names: tuple[str, ...]
    """Per link: `level:out:3`, `level:in:group2`, the own name of a shared resource, or `pair:0:1`."""
    capacity: FloatArray
    """Per link: bytes/s."""
    link: IntArray
    """Per interval: position of the link."""
    start_s: FloatArray
    """Per interval: seconds from the start of the timing."""
    end_s: FloatArray
    """Per interval: seconds; never before its start."""
    bytes: FloatArray
    """Per interval: bytes that the link carries, at an even rate."""

    def carried_bytes(self) -> FloatArray:
        """Sum the bytes of all intervals by link."""
        return np.bincount(self.link, weights=self.bytes, minlength=len(self.names)).astype(np.float64)

    def shares(self, columns: int, end_s: float) -> FloatArray:
        """Return (links, columns): share of the capacity in use, the mean of each slice of [0, end_s].

        A slice carries its share times capacity times its width; summed over a row that is what the link
        carries (of intervals that pass `end_s`, their part before it).
        """
        if not len(self.names) or end_s <= 0:
            return np.zeros((len(self.names), columns))
        total = self._before(np.linspace(0.0, end_s, columns + 1))
        return np.maximum(np.diff(total, axis=1), 0.0) / (self.capacity[:, None] * end_s / columns)

    def _before(self, edges: FloatArray) -> FloatArray:
        """Return (links, edges): bytes carried before each moment."""
        lasting = self.end_s > self.start_s
        rate = np.zeros(len(self.link))
        np.divide(self.bytes, self.end_s - self.start_s, out=rate, where=lasting)
        found = np.zeros((len(self.names), len(edges)))
        for moments, sign in ((self.start_s, 1.0), (self.end_s, -1.0)):
            speed = _summed(self.link, moments, sign * rate, edges, len(self.names))
            offset = _summed(self.link, moments, sign * rate * moments, edges, len(self.names))
            found += speed * edges - offset
        sudden = np.where(lasting, 0.0, self.bytes)
        return found + _summed(self.link, self.start_s, sudden, edges, len(self.names))


def _summed(
    link: IntArray, moments: FloatArray, values: FloatArray, edges: FloatArray, links: int
) -> FloatArray:
    """Return (links, edges): sum of the values whose moment is before each edge."""
    column = np.searchsorted(edges, moments, side="left")
    table = np.bincount(
        link * (len(edges) + 1) + column, weights=values, minlength=links * (len(edges) + 1)
    ).reshape(links, -1)
    return np.cumsum(table[:, : len(edges)], axis=1)


def link_use(program: Program, prices: Prices, timing: Timing, steps: int = 1) -> LinkUse:
    """Return what the first steps of a program use of every link.

    Args:
        program: the tasks.
        prices: their seconds and bytes.
        timing: when they ran.
        steps: number of steps, from the first on.
    """
    names, capacity, by_slot = _carried(program, prices)
    count = np.array([len(items) for items in by_slot], dtype=np.int64)
    flat_link = np.array([link for items in by_slot for link, _ in items], dtype=np.int64)
    flat_size = np.array([size for items in by_slot for _, size in items])
    offset = np.cumsum(count) - count
    task = np.flatnonzero((program.step < steps) & (count[program.slot] > 0))
    pieces = _pieces(program, prices.shares, timing, task)
    slot = program.slot[pieces.task]
    times = count[slot]
    within = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    item = np.repeat(offset[slot], times) + within
    return LinkUse(
        names=names,
        capacity=capacity,
        link=flat_link[item] if len(item) else np.zeros(0, dtype=np.int64),
        start_s=np.repeat(pieces.start_s, times),
        end_s=np.repeat(pieces.end_s, times),
        bytes=(flat_size[item] if len(item) else np.zeros(0)) * np.repeat(pieces.share, times),
    )


# ---- bytes that one task of a slot carries ------------------------------------------------------------


class _Links:
    """Links by name, numbered in order of appearance."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.capacity: list[float] = []

    def number(self, name: str, capacity: float) -> int:
        if name not in self.index:
            self.index[name] = len(self.capacity)
            self.capacity.append(capacity)
        return self.index[name]


Carried = list[tuple[tuple[int, float], ...]]


def _carried(program: Program, prices: Prices) -> tuple[tuple[str, ...], FloatArray, Carried]:
    """Return the links, their capacity, and by slot the bytes that each link carries in one task."""
    links, shares = _Links(), prices.shares
    found: Carried = []
    for number, slot in enumerate(program.slots):
        sizes: dict[int, float] = defaultdict(float)
        if slot.kind < 0:
            pass
        elif slot.kind == TRANSFER:
            _transfer(prices, number, slot, links, sizes)
        elif slot.kind > TRANSFER:
            for resource, amount in shares.demands[number]:
                link = links.number(shares.names[resource], float(shares.capacity[resource]))
                sizes[link] += amount * float(prices.seconds[number])
        elif prices.comm_s[number] > 0:
            _inside(prices.pricer, slot, float(prices.comm_s[number]), links, sizes)
        found.append(tuple((link, size) for link, size in sizes.items() if size > 0))
    return tuple(links.index), np.array(links.capacity), found


def _transfer(prices: Prices, number: int, slot: Slot, links: _Links, sizes: dict[int, float]) -> None:
    """Add the bytes of a transfer, without its start-up time, in which nothing flows."""
    pricer, shares = prices.pricer, prices.shares
    route = pricer.route(slot)
    flowing = float(prices.seconds[number]) - route.latency_s
    for resource, amount in shares.demands[number]:
        sizes[links.number(shares.names[resource], float(shares.capacity[resource]))] += amount * flowing
    size = pricer.flow(slot.where)[0] * slot.samples
    for sender, receiver, share in route.pairs:
        path = pricer.cluster.path(sender, receiver)
        if not path.resources:
            sizes[links.number(f"pair:{sender}:{receiver}", path.bandwidth_bytes_per_s)] += share * size


def _inside(pricer: Pricer, slot: Slot, comm_s: float, links: _Links, sizes: dict[int, float]) -> None:
    """Add collectives along the axes of a lane; several share the time by what each would take alone."""
    row = pricer.row(slot.piece)
    lines = pricer.lines(slot.where, slot.piece.copy, row)
    groups: list[tuple[tuple[Line, ...], float]] = []
    if slot.kind == U:
        for sums, size in pricer.summed(slot.piece):
            along = dict.fromkeys(tuple(sorted(summed_with(lines, device, sums))) for device in row)
            groups.append((tuple(along), size))
    else:
        for (axis, count), size in pricer.sends(slot.piece, slot.samples, backward=slot.kind != F).items():
            groups.append((lines_along(lines, axis, count), size))
    rings = [(_ring(pricer, along, row), size) for along, size in groups]
    alone = [size / max((amount for _, amount in held.values()), default=np.inf) for held, size in rings]
    for (held, _), seconds in zip(rings, alone, strict=True):
        for name, (capacity, amount) in held.items():
            part = comm_s * seconds / sum(alone)
            sizes[links.number(name, capacity)] += min(capacity, amount) * part


def _ring(pricer: Pricer, lines: tuple[Line, ...], row: Line) -> dict[str, tuple[float, float]]:
    """Return resource -> (capacity, bytes/s) that rings along some lines by a row's devices demand."""
    found: dict[str, tuple[float, float]] = {}
    for line in lines:
        use = ring_use(pricer.cluster, line, len(lines))
        for device in set(line) & set(row):
            for item in use.of(device):
                before = found[item.resource][1] if item.resource in found else 0.0
                found[item.resource] = (item.capacity, before + item.own)
    return found


# ---- when: a task that is slowed down carries less meanwhile -------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pieces:
    """Intervals of tasks, each with a constant rate."""

    task: IntArray
    start_s: FloatArray
    end_s: FloatArray
    share: FloatArray
    """Share of the task's bytes."""


def _pieces(program: Program, shares: Shares, timing: Timing, task: IntArray) -> _Pieces:
    """Return one interval per task; several if shared links are over-full, at the events pass's rates."""
    whole = _Pieces(
        task=task, start_s=timing.start_s[task], end_s=timing.end_s[task], share=np.ones(len(task))
    )
    slowed = _slowed(program, shares, timing) if timing.pass_name == "events" else {}
    if not slowed:
        return whole
    of_slot = [[slowed[r] for r, _ in asked if r in slowed] for asked in shares.demands]
    touched = np.array([bool(curves) for curves in of_slot])[program.slot[task]]
    rows: list[tuple[int, float, float, float]] = []
    for number in task[touched].tolist():
        start, end = float(timing.start_s[number]), float(timing.end_s[number])
        rows += [
            (number, a, b, part) for a, b, part in _split(start, end, of_slot[int(program.slot[number])])
        ]
    table = np.array(rows).reshape(-1, 4)
    return _Pieces(
        task=np.concatenate([task[~touched], table[:, 0].astype(np.int64)]),
        start_s=np.concatenate([whole.start_s[~touched], table[:, 1]]),
        end_s=np.concatenate([whole.end_s[~touched], table[:, 2]]),
        share=np.concatenate([whole.share[~touched], table[:, 3]]),
    )


LoadCurve = tuple[FloatArray, FloatArray]
"""(moments, share of the demand that a resource grants from each moment on)."""


def _slowed(program: Program, shares: Shares, timing: Timing) -> dict[int, LoadCurve]:
    """Return the share of their demand that over-full resources grant, over time."""
    known = program.memo("occupancy.users", lambda: IdentityCache(4))  # kept as long as the program lives
    users = known.get((shares,), None, lambda: _users(program, shares))
    found = {}
    for resource, (tasks, demand) in users.items():
        start, end = timing.start_s[tasks], timing.end_s[tasks]
        lasting = end > start
        moments = np.concatenate([end[lasting] * (1 - 1e-12), start[lasting]])
        order = np.argsort(moments, kind="stable")
        load = np.cumsum(np.concatenate([-demand[lasting], demand[lasting]])[order])
        capacity = float(shares.capacity[resource])
        if load.max(initial=0.0) > capacity * FULL:
            found[resource] = (moments[order], np.minimum(1.0, capacity / np.maximum(load, capacity)))
    return found


def _users(program: Program, shares: Shares) -> dict[int, tuple[IntArray, FloatArray]]:
    """Return by resource the tasks that use it, and how much each demands."""
    asked: dict[int, dict[int, float]] = defaultdict(dict)
    for slot, demands in enumerate(shares.demands):
        for resource, amount in demands:
            asked[resource][slot] = asked[resource].get(slot, 0.0) + amount
    found = {}
    for resource, by_slot in asked.items():
        of_slot = np.zeros(len(shares.demands))
        of_slot[list(by_slot)] = list(by_slot.values())
        demand = of_slot[program.slot]
        tasks = np.flatnonzero(demand > 0)
        found[resource] = (tasks, demand[tasks])
    return found


def _split(start: float, end: float, curves: list[LoadCurve]) -> list[tuple[float, float, float]]:
    """Split a task into (start, end, share of the work), at the pace of the fullest of its resources."""
    inner = [moments[(moments > start) & (moments < end)] for moments, _ in curves]
    edges = np.unique(np.concatenate([[start, end], *inner]))
    if len(edges) < 2:
        return [(start, end, 1.0)]
    middle = (edges[:-1] + edges[1:]) / 2
    rate = np.ones(len(middle))
    for moments, given in curves:
        at = np.searchsorted(moments, middle, side="right") - 1
        rate = np.minimum(rate, np.where(at >= 0, given[np.maximum(at, 0)], 1.0))
    work = rate * np.diff(edges)
    parts = work / work.sum()
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), parts.tolist(), strict=True))
