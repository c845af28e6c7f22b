"""The space of `auto`, block by block: all strategies on one order of devices, under one layout and schedule.

A block is arrays: pipeline positions, replicas, chunks, microbatch size and recomputation of every *group* of
strategies, which differ only in ZeRO level and buckets of gradients, with a rough guess and a bound of their
objective that hold for the whole group. Groups that cannot fit, whatever they do, are never in it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.schedules import SCHEDULES
from explorer.schedules.spec import ROUNDING, Pipeline, Schedule
from explorer.search._devices import DeviceOrder
from explorer.search._forwards_first import bounds_forwards, forwards_first_s
from explorer.search._frames import INTERLEAVED, USUAL, BoolArray, Frame, Frames
from explorer.search._layout_costs import LayoutCosts
from explorer.search._least_bytes import any_level, fitting, states_needed, with_activations
from explorer.search._least_exchanges import FORCING, slowed_by_gathers
from explorer.search._quick_bounds import (
    Before,
    few_in_flight_s,
    forced_s,
    shared_evenly,
    there_of,
)
from explorer.search._rates import Rates, room_of
from explorer.search._slow_places import least_at_places, places_used
from explorer.search.exhaustive import divisors, tensor_sizes
from explorer.search.problem import Problem
from explorer.search.spaces import same_training
from explorer.strategies.cuts import balanced_cuts
from explorer.strategies.degrees import ALL_TO_ALL, EXCHANGES, GATHER, RECOMPUTE, Degrees
from explorer.strategies.model_axes import CONTEXT, EXPERT, TENSOR, expert_count, splittable

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_CONTEXT = 16
"""Most devices that share a sequence."""
_REF = 8
"""Positions and microbatches of the pipeline in which the bubbles of schedules are compared."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Groups of strategies, the most promising first."""

    number: int
    """Position of its order among those proposed."""
    order: DeviceOrder
    """Device of every rank."""
    costs: LayoutCosts
    """Costs of its layout."""
    schedule: Schedule
    """Its schedule."""
    options: tuple[tuple[str, Any], ...]
    """Options of the schedule."""
    grids: IntArray
    """(groups, 5): positions, replicas, chunks, microbatch size, recomputation."""
    guess: FloatArray
    """Rough guess of the objective of each group."""
    lower: FloatArray
    """Bound of the objective of each group."""
    hopeless: bool
    """Whether nothing fits; it then has only the group that needs least memory."""

    def degrees(self, group: int) -> Degrees:
        """Return the degrees of a group, without ZeRO and buckets."""
        p, d, v, size, recompute = self.grids[group].tolist()
        layout = self.costs.layout
        return Degrees(
            tensor=layout.tensor, context=layout.context, expert=layout.expert, stages=p, replicas=d,
            chunks=v, microbatch_size=size, recompute=RECOMPUTE[recompute], schedule=self.schedule.name,
            options=self.options, sequence_parallel=layout.sequence_parallel,
            context_exchange=layout.context_exchange,
        )  # fmt: skip


def schedules_of(problem: Problem) -> list[Schedule]:
    """Return the schedules of the space: the one asked for, or all that mean the same training.

    Those that learn from older weights only where they are allowed; none that need an order spelt out or
    compute only about the same.
    """
    if problem.schedule:
        return [SCHEDULES.get(problem.schedule).with_options(dict(problem.schedule_options))]
    found = [item for item in SCHEDULES if same_training(item, problem.weights)]
    return sorted(found, key=lambda item: (item.name not in (USUAL, INTERLEAVED), item.name))


def layouts_of(problem: Problem, order: DeviceOrder) -> list[Degrees]:
    """Return the layouts of the space, plain ones first: all that the model can be split along."""
    graph, cluster = problem.graph, problem.needed_cluster
    axes = splittable(graph)
    tensors = tensor_sizes(cluster, order) if TENSOR in axes else [1]
    contexts = [c for c in (2, 4, 8, 16) if c <= MOST_CONTEXT] if CONTEXT in axes else []
    experts = [e for e in divisors(expert_count(graph)) if e > 1] if EXPERT in axes else []
    found = []
    for t, c, e in product(tensors, (1, *contexts), (1, *experts)):
        if t * c > len(order) or e > len(order):
            continue
        d = e // math.gcd(e, t * c)
        found += [
            Degrees(
                tensor=t, context=c, replicas=d, expert=e, context_exchange=exchange,
                sequence_parallel=sequence,
            )
            for exchange in (EXCHANGES if c > 1 else (GATHER,))
            for sequence in ((False, True) if t > 1 else (False,))
        ]  # fmt: skip
    found = [item for item in found if item.context_exchange != ALL_TO_ALL or _heads_do(problem, item)]
    return sorted(found, key=lambda item: (item.context, item.expert, -item.tensor, -item.sequence_parallel))


def _heads_do(problem: Problem, layout: Degrees) -> bool:
    """Tell whether heads can be split over context and tensor parallelism together."""
    heads = [dim.size for layer in problem.graph.layers for dim in layer.dims if dim.name == "heads"]
    return not heads or min(heads) % (layout.tensor * layout.context) == 0


def make_block(
    problem: Problem,
    number: int,
    order: DeviceOrder,
    costs: LayoutCosts,
    schedule: Schedule,
    before: Before,
    frame: Frame,
    limit: float = math.inf,
) -> Iterator[Block | None]:
    """Yield None while at work, then the groups of one order, layout and schedule that may fit, by guess.

    Args:
        problem: the search problem.
        number: position of the order among those proposed.
        order: device of every rank.
        costs: costs of the layout.
        schedule: the schedule.
        before: orders before this one, whose strategies are left out.
        frame: sizes of pipelines of this schedule.
        limit: objective that groups must be able to be better than.
    """
    there = there_of(problem, costs, frame, before)[frame.grid]
    if limit < math.inf:
        there &= shared_evenly(problem, order, costs, schedule, frame) < limit
    if not there.any():
        return
    states = states_needed(problem, costs, schedule, frame)
    every = with_activations(problem, costs, schedule, frame, states)
    yield None
    room = room_of(problem, costs.cluster.kind_of(order[0]))
    levels = fitting(every, room) & there[:, None]
    fits, need = any_level(levels), every.max(axis=1).min(axis=0)
    forced = forced_s(problem, costs, schedule, frame, levels)
    few = few_in_flight_s(problem, costs, schedule, frame, fits, states.min(axis=0), room)
    np.maximum(forced, few, out=forced)
    yield None
    if limit < math.inf:
        used = (frame.positions * frame.replicas * costs.row)[frame.grid]
        rates, none = Rates(problem, order), np.zeros(len(frame))
        fits &= np.stack([rates.least(part, none, used) for part in forced.T], axis=1) < limit
    hopeless = not fits.any()
    if hopeless and limit < math.inf:
        return
    if hopeless:
        need[~there] = np.inf
        fits[np.unravel_index(need.argmin(), need.shape)] = True
    rows, again = np.nonzero(fits)
    gathers = ~any_level(levels[: FORCING[-1]])[rows, again] & (not problem.rules)
    free = room - states.min(axis=0)[:, rows, again]
    least, slow = yield from _seconds_of(problem, costs, schedule, frame, rows, again, gathers, free)
    grid = frame.grid[rows]
    np.maximum(least, forced[rows, again], out=least)
    if len(np.unique(costs.kinds)) == 1 and not problem.rules:  # replicas may take samples by speed
        sent = np.zeros(len(frame.positions))
        for place in np.unique(grid).tolist():
            sent[place] = _sent_s(costs, schedule, frame, place)
            yield None
        np.maximum(least, sent[grid], out=least)
    size, count = frame.size[rows], frame.count[rows]
    p, d, v = frame.positions[grid], frame.replicas[grid], frame.chunks[grid]
    used = p * d * costs.row
    guess = slow * count / p * (1.0 + _bubble(schedule) * (p - 1) / (v * count))
    rates, peaks = Rates(problem, order), need[rows, again]
    lower = rates.least(least * ROUNDING, peaks * ROUNDING, used)
    guess = rates.least(np.maximum(guess, least), peaks, used)
    along = np.argsort(guess, kind="stable")
    yield Block(
        number=number, order=order, costs=costs, schedule=schedule, options=problem.schedule_options,
        grids=np.stack([p, d, v, size, again], axis=1)[along], guess=guess[along], lower=lower[along],
        hopeless=hopeless,
    )  # fmt: skip


def _seconds_of(
    problem: Problem,
    costs: LayoutCosts,
    schedule: Schedule,
    frame: Frame,
    rows: IntArray,
    again: IntArray,
    gathers: BoolArray,
    free: FloatArray,
) -> Generator[None, None, tuple[FloatArray, FloatArray]]:
    """Return the seconds of a step of rows at least, and those of all layers where they take longest; yield
    between the sizes of microbatches.

    Args:
        problem: the search problem.
        costs: costs of the layout.
        schedule: the schedule.
        frame: its pipelines.
        rows: rows of the frame.
        again: recomputation of each.
        gathers: which of them gather their weights, whatever else they choose.
        free: (leading positions, rows) bytes for what is in flight, at most.
    """
    size = frame.size[rows]
    least, slow = np.zeros((2, len(rows)))
    least_of = _least_cut_anew_s if problem.rules else _least_s
    differ = len(costs.places) > 1 and not problem.rules and bool(schedule.placement.copies)
    used_places = places_used(costs, schedule, frame) if differ else None
    forwards = bounds_forwards(problem, costs, schedule)
    for samples in np.unique(size).tolist():
        mine = np.flatnonzero(size == samples)
        for place in range(len(costs.places)):
            costs.seconds(samples, place)
            yield None
        least[mine] = least_of(costs, schedule, frame, rows[mine], again[mine], samples)
        if used_places is not None:
            here = least_at_places(costs, schedule, frame, used_places, rows[mine], again[mine], samples)
            least[mine] = np.maximum(least[mine], here)
        if forwards:
            here = forwards_first_s(costs, frame, rows[mine], again[mine], samples, free[:, mine])
            least[mine] = np.maximum(least[mine], here)
        beside = mine[gathers[mine]]
        if len(beside):
            here = slowed_by_gathers(costs, schedule, frame, rows[beside], again[beside], samples)
            least[beside] = np.maximum(least[beside], here)
        slow[mine] = costs.most_s(samples)[again[mine]]
    waits = costs.waits(frame.replicas)[frame.grid[rows]]
    return least * waits, slow * waits


def _sent_s(costs: LayoutCosts, schedule: Schedule, frame: Frame, grid: int) -> float:
    """Return the seconds for which transfers keep the busiest port in a step of a grid at least."""
    sizes = frame.positions[grid], frame.replicas[grid], frame.chunks[grid]
    p, d, v = (int(number) for number in sizes)
    return costs.estimator.sent_s(schedule, costs.layout.changed(stages=p, replicas=d, chunks=v))


def least_of_layout(
    problem: Problem, order: DeviceOrder, costs: LayoutCosts, frames: Frames, schedules: Sequence[Schedule]
) -> float:
    """Return what no strategy under a layout is better than, whichever of the schedules it follows.

    Positions share all work evenly at best, and where every step ends with all gradients one microbatch
    passes all layers and comes back. Schedules that hide collectives are bounded by the rest of the work, on
    the grids that they take, so that the bound of all others counts collectives.
    """
    hiding = [item for item in schedules if item.hides]
    found = min((_least_hiding(problem, order, costs, frames, item) for item in hiding), default=math.inf)
    if len(hiding) == len(schedules):
        return found
    positions, replicas = np.array(frames.even_grids(len(order), costs.row)).reshape(-1, 2).T
    allowed = replicas * costs.row % costs.layout.expert == 0
    alone, batch = costs.alone, problem.job.global_batch
    grid, size = np.nonzero((batch % np.multiply.outer(replicas, alone.sizes) == 0) & allowed[:, None])
    if not len(grid):
        return math.inf
    p, d = positions[grid], replicas[grid]
    step_s = alone.once[size] * (batch // (d * alone.sizes[size])) / p
    if problem.job.training and all(item.flush for item in schedules):
        np.maximum(step_s, alone.passed[size], out=step_s)
    step_s *= costs.waits(d)
    least = Rates(problem, order).least(step_s * ROUNDING, np.zeros(len(p)), p * d * costs.row)
    return min(found, float(least.min()))


def _least_hiding(
    problem: Problem, order: DeviceOrder, costs: LayoutCosts, frames: Frames, schedule: Schedule
) -> float:
    """Return what no strategy under a layout and a schedule that hides collectives is better than."""
    frame = frames.of(schedule, len(order), costs.row)
    there = (frame.replicas * costs.row % costs.layout.expert == 0)[frame.grid]
    least = shared_evenly(problem, order, costs, schedule, frame)[there]
    return float(least.min(initial=math.inf))


def has_grids(order: DeviceOrder, layout: Degrees, frames: Frames) -> bool:
    """Tell whether any number of positions leaves devices over which a layout's experts can be spread."""
    row = layout.tensor * layout.context
    return any(d * row % layout.expert == 0 for _, d in frames.even_grids(len(order), row))


def _least_s(
    costs: LayoutCosts, schedule: Schedule, frame: Frame, rows: IntArray, again: IntArray, samples: int
) -> FloatArray:
    """Return the seconds that a step of some rows of one microbatch size takes at least.

    Position r works m times on its stages, after the forwards of the stages before its first and, as every
    step ends with all gradients, before their backwards: what may be put off are weight gradients alone,
    where a schedule has them apart. Where it hides collectives, of pairs only the longer of these and of the
    work beside them is sure; of the weight gradients it puts off as many as there are positions before it.
    """
    once, passed, bare, comm, _ = costs.least_s(samples)
    at, before, starts, numbers = frame.paths
    grid, training = frame.grid[rows], costs.job.training
    copies = schedule.placement.copies or 1
    every = numbers[grid]
    begins = np.cumsum(every) - every
    path = np.arange(int(every.sum())) - np.repeat(begins - starts[grid], every)
    level, count = np.repeat(again, every), np.repeat(frame.count[rows] / copies, every)
    found = count * at.of(once)[path, level]
    if schedule.hides:
        beside = np.repeat(frame.paired[rows], every)
        found -= beside * (at.of(once) - np.maximum(at.of(bare), at.of(comm)))[path, level]
        if training and schedule.flush and len(costs.places) == 1:
            fill, near = frame.fills
            late = (near[:, None] + 1) * np.maximum.reduceat((once - passed)[at.kinds], at.starts, axis=0)
            np.maximum(found, found + (fill.of(passed) - late)[path, level], out=found)
    if training and schedule.flush and not schedule.hides:
        way = once if not schedule.split else passed
        np.maximum(found, count * at.of(way)[path, level] + before.of(way)[path, level], out=found)
    longest: FloatArray = np.maximum.reduceat(found, begins)
    if training and schedule.flush:  # one microbatch goes down through all stages and back
        np.maximum(longest, passed[costs.stages.whole][again], out=longest)
    return longest


def _least_cut_anew_s(
    costs: LayoutCosts, schedule: Schedule, frame: Frame, rows: IntArray, again: IntArray, samples: int
) -> FloatArray:
    """Return the seconds of `_least_s` however the stages are cut, as pins and bans may want them.

    Positions share all work evenly at best, and one microbatch goes down through all stages and back.
    """
    once, passed, bare, comm, _ = costs.least_s(samples)
    whole, grid = costs.stages.whole, frame.grid[rows]
    found: FloatArray = once[whole][again] * frame.count[rows]
    if schedule.hides:
        beside = frame.paired[rows] * (schedule.placement.copies or 1)
        found -= beside * (once[whole] - np.maximum(bare[whole], comm[whole]))[again]
    found /= frame.positions[grid]
    if costs.job.training and schedule.flush:
        np.maximum(found, passed[whole][again], out=found)
    return found


def cut_bounds(problem: Problem, stages: int) -> list[int]:
    """Return the first layer of every stage of an even cut, and the number of layers."""
    graph = problem.graph
    cuts = graph.memo(f"balanced cuts {stages}", lambda: balanced_cuts(graph, stages))
    return [0, *cuts, len(graph.layers)]


def _bubble(schedule: Schedule) -> float:
    """Return the bubble of a schedule over that of 1F1B, by its closed form; 1 if that says nothing."""
    if schedule.closed_form is None or not schedule.flush:
        return float(schedule.flush)
    chunks = schedule.placement.chunks or 1
    even = Pipeline(
        p=_REF, m=2 * _REF, chunks=chunks, forward_s=1 / 3, input_grad_s=1 / 3, weight_grad_s=1 / 3
    )
    found = schedule.closed_form.of(even)
    if found is None:
        return 1.0
    return max(0.0, (found - chunks * even.m) / (_REF - 1))
