"""Lowering: turns actions into tasks with dependencies, channels and one sequence on every wire and group.

In this order: compute tasks of every lane (`compute`); dependencies and transfers by overlap of sample
intervals (same copy, sweep minus lag), forward then backward (`dependencies`), both ends held up if transfers
block (`blocking_transfers`); reductions of the holders of each shard, before the `U` that applies those
samples, and gathers of ZeRO (`collectives`); the schedule's extra edges; the sequence of every wire and group
by structural level (longest path in tasks), then id; the cycle check (`assembly`). Ordering by level adds no
cycle, because every edge goes up in (level, id).

An order that says itself which replica works on what (`Order.assignments`) has the first three from
`assignments`; all else is the same.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from explorer.actions import Action, Order, Shape
from explorer.base.errors import PlanError
from explorer.tasks.lanes import find_lanes
from explorer.tasks.placement import Skeleton
from explorer.tasks.program import Program
from tests.support.plain_lowering.assembly import assemble
from tests.support.plain_lowering.assignments import add_assigned
from tests.support.plain_lowering.blocking_transfers import add_blocking
from tests.support.plain_lowering.collectives import add_gathers, add_reductions
from tests.support.plain_lowering.compute import add_compute, wait_together
from tests.support.plain_lowering.dependencies import add_waits
from tests.support.plain_lowering.offloads import ActivationMove, add_offloads
from tests.support.plain_lowering.runs import find_runs
from tests.support.plain_lowering.work import Lowering


def lower(skeleton: Skeleton, shape: Shape, order: Order, replicas: tuple[int, ...] | None = None) -> Program:
    """Lower an order to a program.

    Args:
        skeleton: sections, flows and holders.
        shape: the shape that the schedule was given.
        order: the order that it returned.
        replicas: lower only these replicas, the others being equal to one of them.

    Raises:
        PlanError: an action misses its data; every such miss is listed.
        DeadlockError: program order and dependencies form a cycle.
    """
    with uncollected():
        work = Lowering(skeleton, shape, order, find_lanes(skeleton.sections, replicas))
        moved = add_assigned(work) if order.assignments else _add_by_rule(work)
        runs = find_runs(work)
        add_reductions(work, runs)
        add_gathers(work, runs)
        _extra_edges(work)
        return assemble(work, runs, moved)


def _add_by_rule(work: Lowering) -> list[ActivationMove]:
    """Add the tasks and transfers of an order whose stages' rules say who works on what."""
    add_compute(work)
    problems = add_waits(work)
    if problems:
        raise PlanError(problems)
    if work.order.blocking:
        add_blocking(work)
    wait_together(work)
    return add_offloads(work)


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the cycle collector off: many small objects that all stay make it search in vain."""
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
