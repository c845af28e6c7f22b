"""Lowering: actions become tasks with dependencies, channels and one sequence on every wire and group.

In this order: compute tasks of every lane (`compute`); dependencies and transfers by overlap of sample
intervals (same copy, sweep minus lag), forward then backward (`waits`), both ends held up where transfers
block (`blocking`); reductions of the holders of each
shard, before the `U` that applies those samples, and gathers of ZeRO (`collectives`); the schedule's extra
edges; the sequence of every wire and group by structural level (longest path in tasks), then id; the cycle
check (`assemble`). Ordering by level adds no cycle, because every edge goes up in (level, id).
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from explorer.actions import Action, Order, Shape
from explorer.base.errors import DeadlockError, PlanError
from explorer.tasks.lanes import Lanes, find_lanes
from explorer.tasks.placement import Piece, Skeleton
from explorer.tasks.program import Program, Slot

Site = tuple[Piece, int]
"""A piece in one sweep."""


class Made:
    """Tasks of one kind of work by site and microbatch."""

    def __init__(self) -> None:
        self.tasks: dict[Site, dict[int, int]] = {}
        """Per site: microbatch -> task."""
        self.order: list[tuple[Site, int]] = []
        """Every (site, microbatch), as they were first made."""

    def record(self, site: Site, numbers: range | tuple[int, ...], task: int) -> None:
        """`task` does this work on these microbatches."""
        found = self.tasks.setdefault(site, {})
        for n in numbers:
            if n not in found:
                self.order.append((site, n))
            found[n] = task


class Lowering:
    """Tasks under construction: parallel lists by task id, filled phase by phase."""

    def __init__(self, skeleton: Skeleton, shape: Shape, order: Order, lanes: Lanes) -> None:
        self.skeleton, self.shape, self.order, self.lanes = skeleton, shape, order, lanes
        self.sections = skeleton.sections
        self.slots: dict[Slot, int] = {Slot(-1, -1, Piece(-1, -1, -1), Piece(-1, -1, -1), 0): 0}
        self.channels: dict[tuple[object, ...], int] = {}
        self.slot: list[int] = []
        self.preds: list[list[int]] = []
        self.channel: list[int] = []
        self.action: list[Action] = []
        self.step: list[int] = []
        self.programs: list[list[int]] = [[] for _ in order.lanes]
        self.shared_lanes: dict[int, tuple[int, ...]] = {}
        self.forward, self.input_grad, self.weight_grad = Made(), Made(), Made()
        # piece -> (low sample, high sample, sweep) -> task
        self.updates: dict[Piece, dict[tuple[int, int, int], int]] = defaultdict(dict)

    def slot_id(self, slot: Slot) -> int:
        """Number of a slot, a new one where none is equal."""
        return self.slots.setdefault(slot, len(self.slots))

    def channel_id(self, *name: object) -> int:
        """Number of a channel: ("lane", lane), ("wire", from, to), ("group", devices) or ("gather", lane)."""
        return self.channels.setdefault(name, len(self.channels))

    def add(self, slot: int, channel: int, preds: list[int], action: Action, step: int) -> int:
        """A new task; returns its id."""
        self.slot.append(slot)
        self.preds.append(preds)
        self.channel.append(channel)
        self.action.append(action)
        self.step.append(step)
        return len(self.slot) - 1

    def kept(self, section: int) -> tuple[int, ...]:
        """Replicas of a section that are lowered (equal ones are folded away)."""
        return tuple(
            r for r in range(self.sections[section].replicas) if Piece(section, 0, r) in self.lanes.of_piece
        )


def lower(skeleton: Skeleton, shape: Shape, order: Order, replicas: tuple[int, ...] | None = None) -> Program:
    """Lower an order to a program.

    Args:
        skeleton: sections, flows and holders.
        shape: what the schedule was given.
        order: what it answered.
        replicas: lower only these replicas, the others being equal to one of them.

    Raises:
        PlanError: an action misses its data; every such miss is listed.
        DeadlockError: program order and dependencies form a cycle.
    """
    from explorer.tasks.assembly import assemble
    from explorer.tasks.blocking_transfers import add_blocking
    from explorer.tasks.collectives import add_gathers, add_reductions
    from explorer.tasks.compute import add_compute
    from explorer.tasks.dependencies import add_waits

    with uncollected():
        work = Lowering(skeleton, shape, order, find_lanes(skeleton.sections, replicas))
        add_compute(work)
        problems = add_waits(work)
        if problems:
            raise PlanError(problems)
        if order.blocking:
            add_blocking(work)
        add_reductions(work)
        add_gathers(work)
        _extra_edges(work)
        return assemble(work)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the cycle collector: many small objects that all stay make it search, and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _extra_edges(work: Lowering) -> None:
    if not work.order.edges:
        return
    by_action: dict[Action, list[int]] = defaultdict(list)
    for task in dict.fromkeys(task for program in work.programs for task in program):
        by_action[work.action[task]].append(task)
    for edge in work.order.edges:
        if edge.before not in by_action or edge.after not in by_action:
            raise PlanError([f"edge {edge.before} -> {edge.after} names an action that no lane runs"])
        for after in by_action[edge.after]:
            work.preds[after].extend(by_action[edge.before])


__all__ = ["DeadlockError", "Lowering", "Made", "Site", "lower", "uncollected"]
