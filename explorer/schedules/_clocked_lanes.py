"""The lanes of a flush schedule that runs by the clock, all of them made at once.

The same actions as `_clock.one_step` gives lane by lane, with the updates of each lane behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from explorer.actions import BACKWARD, FORWARD, OP_CODE, UPDATE, Actions, IntArray, Place, Shape
from explorer.schedules._clock import RANK, Clock
from explorer.schedules._common import LaneOrders, per_copy, repeated, roles, steps_alike, turns

Roles = tuple[Place, ...]


class AllLanes(NamedTuple):
    """Actions of all lanes, lane by lane."""

    columns: IntArray
    """As those of `Actions`."""
    owner: IntArray
    """Per action: the number of its lane."""


def clocked_lanes(
    shape: Shape, clock: Clock, steps: int, change: Callable[[AllLanes], AllLanes] = lambda made: made
) -> LaneOrders:
    """Make the lanes of a flush schedule whose forwards and backwards run by the clock, and updates behind
    them; lanes of equal roles share one object.

    Args:
        shape: the shape.
        clock: its clock.
        steps: number of steps.
        change: what becomes of the actions of one step.
    """
    lanes = [roles(shape, places) for places in shape.lanes]
    distinct = tuple(dict.fromkeys(lanes))

    def one_step(step: int) -> list[Actions]:
        made = change(_one_step(shape, clock, distinct, step))
        ends = np.cumsum(np.bincount(made.owner, minlength=len(distinct)))
        return [Actions(part) for part in np.split(made.columns, ends[:-1], axis=1)]

    if steps_alike(shape):
        once = [repeated(shape, lane, steps) for lane in one_step(0)]
    else:
        each = [one_step(step) for step in range(steps)]
        once = [Actions.joined(parts) for parts in zip(*each, strict=True)]
    made = dict(zip(distinct, once, strict=True))
    return tuple(made[key] for key in lanes)


def _one_step(shape: Shape, clock: Clock, lanes: Sequence[Roles], step: int) -> AllLanes:
    """Return the actions of one step."""
    lane = np.repeat(np.arange(len(lanes)), [len(places) for places in lanes])
    held = np.array([place for places in lanes for place in places], dtype=np.int64)
    stage, copy, replica = held.reshape(-1, 3).T
    runs = _runs(shape, clock, step, stage, copy, replica)
    kinds = [(FORWARD, runs.forward)]
    if shape.training:
        kinds.append((BACKWARD, runs.backward))
    row = np.tile(runs.row, len(kinds))
    op = np.repeat([OP_CODE[name] for name, _ in kinds], len(runs.row))
    ticks = np.concatenate([tick for _, tick in kinds])
    columns = np.stack(
        [op, stage[row], np.tile(runs.number, len(kinds)), np.ones_like(op), copy[row], np.zeros_like(op)]
    )
    owner = lane[row]
    ticks -= ticks.min(initial=0)
    moment = owner * (int(ticks.max(initial=0)) + 1) + ticks
    order = np.argsort(moment, kind="stable")
    if (np.diff(moment[order]) == 0).any():
        code, *rest = columns
        order = np.lexsort((*rest[::-1], RANK[code], moment))
    return _with_updates(shape, step, lanes, columns[:, order], owner[order])


class _Runs(NamedTuple):
    """Every microbatch of every place in one step."""

    row: IntArray
    """Number of the place."""
    number: IntArray
    """The microbatch."""
    forward: IntArray
    """Tick of its forward."""
    backward: IntArray
    """Tick of its backward."""


def _runs(shape: Shape, clock: Clock, step: int, stage: IntArray, copy: IntArray, replica: IntArray) -> _Runs:
    """Return what the places run: of a copy's microbatches all, or those whose turn it is (`_common.own`)."""
    stages = range(shape.stages)
    count = np.array([per_copy(shape, s) for s in stages], dtype=np.int64)[stage]
    in_turn = np.array([turns(shape, s) for s in stages], dtype=np.int64)[stage]
    base = step * np.array(shape.microbatches, dtype=np.int64)[stage] + copy * count
    start = base + (replica - base) % in_turn
    start = np.where(in_turn > 1, start, base)
    numbers = np.maximum(0, -(-(base + count - start) // in_turn))
    row = np.repeat(np.arange(len(stage)), numbers)
    within = np.arange(len(row)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    number = start[row] + within * in_turn[row]
    apart = 2 * np.array(clock.samples, dtype=np.int64)[stage[row]] * (number - base[row])
    forward = np.array([clock.forward(s, 0) for s in stages], dtype=np.int64)[stage[row]]
    backward = np.array([clock.backward(s, 0) for s in stages], dtype=np.int64)[stage[row]]
    return _Runs(row, number, forward + apart, backward + apart)


def _with_updates(
    shape: Shape, step: int, lanes: Sequence[Roles], columns: IntArray, owner: IntArray
) -> AllLanes:
    """Return the actions of every lane, with its updates (`_common.updates`) behind them.

    Args:
        shape: the shape.
        step: the step.
        lanes: places of each lane.
        columns: actions of all lanes, lane by lane.
        owner: lane of each.
    """
    held = [
        (lane, -negative, copy)
        for lane, places in enumerate(lanes if shape.training else ())
        for negative, copy in sorted({(-place.stage, place.copy) for place in places})
    ]
    of, stage, copy = np.array(held, dtype=np.int64).reshape(-1, 3).T
    count = np.array(shape.microbatches, dtype=np.int64)[stage]
    zeros = np.zeros_like(of)
    more = np.stack([zeros + OP_CODE[UPDATE], stage, step * count, count, copy, zeros])
    owner = np.concatenate([owner, of])
    order = np.argsort(owner, kind="stable")
    return AllLanes(np.concatenate([columns, more], axis=1)[:, order], owner[order])
