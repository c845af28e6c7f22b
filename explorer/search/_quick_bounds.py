"""Bounds of a block before it is made: work shared evenly, states and activations, exchanges these force."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.schedules.spec import ROUNDING, Schedule
from explorer.search._devices import DeviceOrder
from explorer.search._forwards_first import one_way
from explorer.search._frames import BoolArray, Frame
from explorer.search._layout_costs import LayoutCosts
from explorer.search._least_bytes import any_level, fitting, states_needed, with_activations
from explorer.search._least_exchanges import FORCING, least_exchanged
from explorer.search._rates import Rates, room_of
from explorer.search.problem import Problem
from explorer.strategies.degrees import RECOMPUTE
from explorer.strategies.degrees_neighbours import most_replicas

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Before = tuple[tuple[int, int], ...]
"""Of every order before: its devices, and how many of them both begin with."""
FULL = RECOMPUTE.index("full")


def there_of(problem: Problem, costs: LayoutCosts, frame: Frame, before: Before) -> BoolArray:
    """Tell which grids experts allow, and no order before has."""
    row, used = costs.row, frame.positions * frame.replicas * costs.row
    found: BoolArray = frame.replicas * row % costs.layout.expert == 0
    for devices, common in before:
        most = [
            most_replicas(devices // (row * p), problem.job.global_batch) for p in frame.positions.tolist()
        ]
        found &= ~((used <= common) & (np.array(most) == frame.replicas))
    return found


def shared_evenly(
    problem: Problem,
    order: DeviceOrder,
    costs: LayoutCosts,
    schedule: Schedule,
    frame: Frame,
    rows: IntArray | None = None,
    recompute: int = 0,
) -> FloatArray:
    """Return the bounds of an objective if positions share all work evenly.

    Args:
        problem: the search problem.
        order: device of every rank.
        costs: costs of the layout.
        schedule: the schedule.
        frame: its pipelines.
        rows: (N,) rows that are asked; None for all.
        recompute: position in `RECOMPUTE`.
    """
    rows = np.arange(len(frame)) if rows is None else rows
    alone, count, grid = costs.whole(frame.size[rows], recompute), frame.count[rows], frame.grid[rows]
    work = alone.once * count
    if schedule.hides:
        beside = frame.paired[rows] * (schedule.placement.copies or 1)
        work = alone.once * (count - beside) + np.maximum(alone.bare, alone.comm) * beside
    work = work * costs.waits(frame.replicas)[grid]
    p, used = frame.positions[grid], (frame.positions * frame.replicas)[grid] * costs.row
    return Rates(problem, order).least(work / p * ROUNDING, np.zeros(len(p)), used)


def few_in_flight_s(
    problem: Problem,
    costs: LayoutCosts,
    schedule: Schedule,
    frame: Frame,
    fits: BoolArray,
    states: FloatArray,
    room: float,
) -> FloatArray:
    """Return the (rows, recomputations) seconds of a step whose first positions have room for few in flight.

    If position r has room for w microbatches, and each of m waits there while it passes all positions behind
    and comes back (Little's law), w T >= m (P - P_r), with P seconds of the whole way and P_r of that through
    the positions up to r. These have m such ways to go in a step, m P_r <= (r + 1) T, so that

        T  >=  m P / (w + r + 1)

    in any order, also one that is made up as memory allows. Of mixed devices it says nothing: where
    samples are dealt out by speed, the replica with most of them may have most room.

    Args:
        problem: the search problem.
        costs: costs of the layout.
        schedule: the schedule.
        frame: its pipelines.
        fits: which may fit.
        states: (leading positions, rows, recomputations) bytes besides what is in flight.
        room: bytes that a device has.
    """
    found = np.zeros(fits.shape)
    if not one_way(problem, costs, schedule):
        return found
    lines = (frame.chunks == 1) & frame.chains
    fits = fits & lines[frame.grid][:, None]
    held, size, p = costs.per_sample[0], frame.size[:, None], frame.positions[frame.grid][:, None]
    waits = costs.waits(frame.replicas)[frame.grid]
    for r, (stages, there) in enumerate(zip(frame.leading, states, strict=False)):
        each = np.maximum(stages.of(held)[frame.grid] * size, 1.0)
        most = np.floor((room - there) / each / ROUNDING).clip(1.0) + r + 1
        for level in np.flatnonzero((fits & (most <= p)).any(axis=0)).tolist():
            way = costs.whole(frame.size, level).passed * frame.count * waits * ROUNDING
            np.maximum(found[:, level], way / most[:, level], out=found[:, level], where=fits[:, level])
    return found


def forced_s(
    problem: Problem,
    costs: LayoutCosts,
    schedule: Schedule,
    frame: Frame,
    fits: BoolArray,
    without: FloatArray | None = None,
) -> FloatArray:
    """Return the (rows, recomputations) seconds of exchanges that none avoids, as only so states fit: a level
    that any position needs is that of all.

    Args:
        problem: the search problem.
        costs: costs of the layout.
        schedule: the schedule.
        frame: its pipelines.
        fits: (ZeRO levels, rows, recomputations) that may fit.
        without: bounds without exchanges, where only the least of all with them is asked: exchanges of those
            that have to exchange nothing, or are no better than one of these, are then left out.
    """
    found = np.zeros(fits.shape[1:])
    if not problem.job.training or not schedule.placement.copies or problem.rules:
        return found
    any_fits = any_level(fits)
    tight = [any_fits & ~any_level(fits[:level]) for level in FORCING]
    asked = tight[0]
    if without is not None:
        asked = asked & (without < without[any_fits & ~tight[0]].min(initial=np.inf))
    if not asked.any():
        return found
    exchanged = least_exchanged(costs, schedule, frame, np.asarray(asked.any(axis=1)))
    for part, mine in zip(exchanged, tight, strict=True):
        found = np.where(mine, part[:, None], found)
    return found * ROUNDING


def least_of_block(
    problem: Problem,
    order: DeviceOrder,
    costs: LayoutCosts,
    schedule: Schedule,
    before: Before,
    frame: Frame,
    limit: float,
) -> float:
    """Return what no strategy of a block that is better than a limit is better than; infinite if none is.

    Args:
        problem: the search problem.
        order: device of every rank.
        costs: costs of the layout.
        schedule: the schedule.
        before: orders before this one, whose strategies are left out.
        frame: sizes of pipelines of this schedule.
        limit: objective.
    """
    work = shared_evenly(problem, order, costs, schedule, frame)
    there = there_of(problem, costs, frame, before)[frame.grid] & (work < limit)
    if not there.any():
        return np.inf
    states = states_needed(problem, costs, schedule, frame)
    room = room_of(problem, costs.cluster.kind_of(order[0]))
    levels = fitting(with_activations(problem, costs, schedule, frame, states), room) & there[:, None]
    fits = any_level(levels)
    used = (frame.positions * frame.replicas * costs.row)[frame.grid]
    rates, none = Rates(problem, order), np.zeros(len(frame))
    few = few_in_flight_s(problem, costs, schedule, frame, fits, states.min(axis=0), room)
    found = np.stack([np.maximum(work, rates.least(part, none, used)) for part in few.T], axis=1)
    found[~fits] = np.inf
    if found.shape[1] > FULL:  # who needs to recompute all works longer
        rows = np.flatnonzero(found[:, FULL] < limit)
        if len(rows):
            again = shared_evenly(problem, order, costs, schedule, frame, rows, FULL)
            found[rows, FULL] = np.maximum(found[rows, FULL], again)
    forced = forced_s(problem, costs, schedule, frame, levels & (found < limit), found)
    found = np.stack(
        [np.maximum(a, rates.least(b, none, used)) for a, b in zip(found.T, forced.T, strict=True)]
    )
    return float(found.min())
