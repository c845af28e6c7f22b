"""Lowering: turns actions into tasks with dependencies, channels and one sequence on every wire and group.

In this order: compute tasks of every lane (`compute`); dependencies and transfers by overlap of sample
intervals (same copy, sweep minus lag), forward then backward (`dependencies`), both ends held up if transfers
block (`blocking_transfers`); reductions of the holders of each shard, before the `U` that applies those
samples (`reductions`), and gathers of ZeRO (`gathers`); the schedule's extra edges; the sequence of every
wire and group by structural level (longest path in tasks), then id, and the cycle check (`sequence`); joins
where a task waits for more than two (`predecessors`); arrays in topological order (`assembly`). Ordering by
level adds no cycle, because every edge goes up in (level, id).

All tasks of a phase are made at once, as columns; only what is rare goes task by task.

An order that says itself which replica works on what (`Order.assignments`) has the first three from
`assignments`; all else is the same.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from explorer.actions import Action, Order, Shape
from explorer.base.checkpoints import checkpoint
from explorer.base.collector import uncollected
from explorer.base.errors import PlanError
from explorer.tasks.assembly import assemble
from explorer.tasks.assignments import add_assigned
from explorer.tasks.blocking_transfers import add_blocking
from explorer.tasks.compute import add_compute, wait_together
from explorer.tasks.dependencies import add_waits
from explorer.tasks.gathers import add_gathers
from explorer.tasks.indexing import NO_INTS, IntArray, Places
from explorer.tasks.lanes import find_lanes
from explorer.tasks.offloads import ActivationMove, add_offloads
from explorer.tasks.placement import Skeleton
from explorer.tasks.predecessors import find_predecessors
from explorer.tasks.program import Program
from explorer.tasks.reductions import add_reductions
from explorer.tasks.repeated_steps import find_crossings, first_step, repeat_steps
from explorer.tasks.runs import Runs, find_runs
from explorer.tasks.sequence import Sequence, sequence
from explorer.tasks.work import Lowering, MadeTasks


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
    lanes = find_lanes(skeleton.sections, replicas)
    with uncollected():
        step = first_step(skeleton, shape, order)
        if step is not None:
            with suppress(PlanError):  # named below, of all steps
                built = _built(Lowering(skeleton, shape, step, lanes))
                crossings = find_crossings(built.work, built.sequence)
                if crossings is not None:
                    predecessors = find_predecessors(built.sequence)
                    one = assemble(*built, predecessors)
                    return repeat_steps(one, order, built.work, built.sequence, predecessors.at, crossings)
        built = _built(Lowering(skeleton, shape, order, lanes))
        return assemble(*built, find_predecessors(built.sequence))


class _Built(NamedTuple):
    """A lowering with all its tasks, in sequence."""

    work: Lowering
    runs: Runs
    moved: list[ActivationMove]
    sequence: Sequence


def _built(work: Lowering) -> _Built:
    """Add all tasks, and order them."""
    moved, weight_grad = add_assigned(work) if work.order.assignments else _add_by_rule(work)
    checkpoint()
    runs = find_runs(work)
    checkpoint()
    add_reductions(work, runs, weight_grad)
    checkpoint()
    add_gathers(work, runs)
    _extra_edges(work)
    checkpoint()
    return _Built(work, runs, moved, sequence(work))


def _add_by_rule(work: Lowering) -> tuple[list[ActivationMove], MadeTasks]:
    """Add the tasks and transfers of an order whose stages' rules say who works on what; return what moves
    in memory, and the tasks that make weight gradients.
    """
    computed = add_compute(work)
    problems = add_waits(work, computed)
    if problems:
        raise PlanError(problems)
    if work.order.blocking:
        add_blocking(work)
    wait_together(work)
    return add_offloads(work, computed.forward), computed.weight_grad


def _extra_edges(work: Lowering) -> None:
    if not work.order.edges:
        return
    number = {action: n for n, action in enumerate(work.actions)}
    task = np.flatnonzero(work.compute_piece >= 0)
    places = Places(work.action[task], len(work.actions))

    def of(action: Action) -> IntArray:
        return task[places.of(np.array([number[action]]))[1]] if action in number else NO_INTS

    for edge in work.order.edges:
        before, after = of(edge.before), of(edge.after)
        if not len(before) or not len(after):
            raise PlanError([f"edge {edge.before} -> {edge.after} names an action that no lane runs"])
        work.wait(np.repeat(after, len(before)), np.tile(before, len(after)))
