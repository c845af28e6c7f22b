"""Bytes that a device of the first positions of a pipeline holds at least, by ZeRO level.

A device holds the weights, gradients and optimizer states of its stages, as far as its ZeRO level leaves them
to it, the buffers of the stage that needs most, and the activations of the microbatches in flight. Those who
stay with a stage for several microbatches (`Schedule.stays`) keep all its weights and gradients gathered
meanwhile. Where only a higher level fits, no strategy of the group has a lower one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.schedules.spec import ROUNDING, Schedule
from explorer.search._even_stages import LEADING
from explorer.search._frames import BoolArray, Frame
from explorer.search._layout_costs import LayoutCosts
from explorer.search.problem import Problem
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS

FloatArray = npt.NDArray[np.float64]


def leading(costs: LayoutCosts) -> int:
    """Return how many positions of `LEADING` count: of mixed devices the second may have more room."""
    return 1 if len(costs.cluster.device_kinds) > 1 else len(LEADING)


def states_needed(problem: Problem, costs: LayoutCosts, schedule: Schedule, frame: Frame) -> FloatArray:
    """Return the (ZeRO levels, leading positions, rows, recomputations) bytes that a device of each needs at
    least, whatever is in flight: weights, gradients, optimizer states, buffers and what it reserves.

    Args:
        problem: the search problem.
        costs: costs of the layout.
        schedule: the schedule.
        frame: its pipelines.
    """
    training, copies = problem.job.training, schedule.placement.copies
    levels, again = (len(ZERO_LEVELS), len(RECOMPUTE)) if training else (1, 1)
    reserved = costs.cluster.kind_of(costs.table.devices[0]).reserved_bytes
    need = np.full((levels, leading(costs), len(frame), again), reserved)
    if not copies or problem.rules or not len(frame):
        return need
    shards, stays = frame.replicas * copies, frame.stays[:, None]
    counts, which = np.unique(shards, return_inverse=True)
    by_count = [costs.held(count) for count in counts.tolist()]
    states_of, buffers_of, whole_of = (np.stack(part) for part in zip(*by_count, strict=True))
    for place, stages in enumerate(frame.leading[: need.shape[1]]):
        states = stages.of_each(states_of, which)
        buffers, whole = stages.most_of_each(buffers_of, which), stages.most_of_each(whole_of, which)
        fixed = (states + buffers)[frame.grid], (states + whole)[frame.grid]
        need[:, place] += np.where(stays, fixed[1], fixed[0]).T[:levels, :, None]
        # of the stage with the largest buffers, at least what any adds for a sample
        need[:, place] += stages.least(costs.per_sample[1])[frame.grid, :again] * frame.size[:, None]
    return need


def with_activations(
    problem: Problem, costs: LayoutCosts, schedule: Schedule, frame: Frame, states: FloatArray
) -> FloatArray:
    """Return the bytes of `states_needed` with those of the microbatches in flight."""
    need = states.copy()
    if schedule.placement.copies and not problem.rules:
        held = costs.per_sample[0][:, : need.shape[-1]]
        for place, saved in enumerate(frame.held[: need.shape[1]]):
            need[:, place] += saved.of(held) * frame.size[:, None]
    return need


def fitting(need: FloatArray, room: float) -> BoolArray:
    """Return the (ZeRO levels, rows, recomputations) that may fit, given the bytes that they need."""
    found: BoolArray = np.all(need * ROUNDING <= room, axis=1)
    return found


def any_level(fits: BoolArray) -> BoolArray:
    """Return the (rows, recomputations) that may fit under some ZeRO level."""
    found: BoolArray = np.any(fits, axis=0)
    return found
