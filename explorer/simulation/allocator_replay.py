"""Replay of an allocator over the memory events of a predicted step: what a process would reserve.

A lane's states are allocated first, parameter by parameter. Then its memory events come in their order: what
a forward keeps is allocated tensor by tensor, layer after layer, with a temporary beside it; what is freed is
freed in the reverse order, as a backward does, beside a gradient. Sizes of a section's tensors share out the
bytes that the prediction says of the event, so that the sum of all tensors is the predicted peak and what
comes on top is the allocator's own: rounding, splitting, and room that nothing fits in.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from explorer.costs.caching_allocator import CachingAllocator
from explorer.framework import EXPANDABLE
from explorer.simulation.lane_memory import MEMORY_PARTS, activation_changes
from explorer.simulation.report import Report

_STATES = ("weights", "versions", "gradients", "optimizer")
_MOST_TENSORS = 64
"""Tensors of one event that are told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What an allocator did for one lane."""

    allocated_bytes: float
    """Most bytes in use."""
    reserved_bytes: float
    """Most bytes of its segments."""
    retries: int
    """Times that it gave cached segments back for want of room."""
    fits: bool
    """Whether every request was met."""


def replay(report: Report, lane: int, capacity_bytes: float = float("inf")) -> Replayed:
    """Play the memory events of one lane through the allocator of the plan's framework.

    Args:
        report: of a plan with one job.
        lane: number of the lane.
        capacity_bytes: bytes that the device gives to tensors (its memory less what is reserved for others).
    """
    framework = report.timeline.prices.pricer.framework
    allocator = CachingAllocator(capacity=capacity_bytes, expandable=framework.allocator == EXPANDABLE)
    sizes = [size for part in _STATES for size in _split(_part(report, lane, part), _weights(report))]
    sizes += _split(_part(report, lane, "buffers") / 2, [1.0])  # buffers that stay; the rest comes and goes
    fits = None not in [allocator.allocate(size) for size in sizes]
    fits = fits and _events(report, lane, allocator)
    return Replayed(
        allocated_bytes=float(allocator.most_allocated),
        reserved_bytes=float(allocator.most_reserved),
        retries=allocator.retries,
        fits=fits,
    )


def _part(report: Report, lane: int, name: str) -> float:
    return report.memory_parts_bytes[lane][MEMORY_PARTS.index(name)]


def _weights(report: Report) -> list[float]:
    return [item.elements for item in report.timeline.prices.pricer.graph.parameters]


def _split(total: float, shares: list[float]) -> list[float]:
    """Share bytes out; none for nothing."""
    whole = sum(shares)
    if total <= 0 or whole <= 0:
        return []
    return [total * share / whole for share in shares if share > 0]


def _events(report: Report, lane: int, allocator: CachingAllocator) -> bool:
    """Play the events; False if a request found no room."""
    program, prices = report.timeline.program, report.timeline.prices
    events = program.memory
    mine = np.flatnonzero(events.lane == lane)
    changes = activation_changes(program, prices)[mine].tolist()
    keys = list(zip(events.section[mine].tolist(), events.part[mine].tolist(), strict=True))
    shares = {section: _saved(report, section) for section, _ in set(keys)}
    passing = _part(report, lane, "buffers") / 2
    held: dict[tuple[int, int], deque[list[int]]] = defaultdict(deque)
    for key, change in zip(keys, changes, strict=True):
        if change > 0:
            found: list[int] = []
            for size in _split(change, shares[key[0]]):
                beside, own = allocator.allocate(passing), allocator.allocate(size)
                if own is None or beside is None:
                    return False
                allocator.release(beside)
                found.append(own)
            held[key].append(found)
        elif change < 0 and held[key]:
            for own in reversed(held[key].popleft()):
                beside = allocator.allocate(passing)
                if beside is None:
                    return False
                allocator.release(own)
                allocator.release(beside)
    return True


def _saved(report: Report, section: int) -> list[float]:
    """Return the sizes of the tensors that a section keeps, in the order of its layers; neighbours together
    where there are more than are told apart.
    """
    graph, placement = report.timeline.prices.pricer.graph, report.timeline.placement
    precision = report.timeline.prices.pricer.job.precision
    seen: dict[str, float] = {}
    for number in placement.layers[section].tolist():
        for tensor in graph.layers[number].saves:
            if tensor in graph.tensor:
                seen.setdefault(tensor, graph.tensor[tensor].bytes_per_sample(precision))
    sizes = list(seen.values()) or [1.0]
    step = -(-len(sizes) // _MOST_TENSORS)
    return [sum(sizes[i : i + step]) for i in range(0, len(sizes), step)]
