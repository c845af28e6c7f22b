"""Split backward: a schedule made from another, whose weight gradients run later than its input gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from explorer.actions import (
    BACKWARD,
    INPUT_GRAD,
    OP_CODE,
    UPDATE,
    WEIGHT_GRAD,
    Action,
    Actions,
    Order,
    Shape,
)
from explorer.schedules._clock import Clock, one_step
from explorer.schedules._clocked_lanes import AllLanes, clocked_lanes
from explorer.schedules._common import LaneOrders, each_lane, turns

_B, _I, _W, _U = (OP_CODE[op] for op in (BACKWARD, INPUT_GRAD, WEIGHT_GRAD, UPDATE))

Lag = Callable[[int, int], float]
"""For a stage and copy: by how many of its input gradients a weight gradient lags behind its own."""


def at_the_end(_stage: int, _copy: int) -> float:
    """Lag weight gradients until the last input gradient of the step."""
    return float("inf")


def split_backward(actions: Iterable[Action], lag: Lag) -> Actions:
    """Return the actions of a lane with every B made an I, and its W moved back by so many I of that stage.

    Weight gradients still owed at an update, or at the end, run just before it.

    >>> lane = [Action(op, 0, n) for op, n in (("F", 0), ("F", 1), ("B", 0), ("B", 1))]
    >>> " ".join(map(str, split_backward(lane, lambda stage, copy: 1)))
    '0F0 0F1 0I0 0I1 0W0 0W1'
    """
    columns = Actions.of(actions).columns
    return Actions(_split(AllLanes(columns, np.zeros(columns.shape[1], dtype=np.int64)), lag).columns)


def _split(made: AllLanes, lag: Lag) -> AllLanes:
    """Return the actions of all lanes, each split as `split_backward` does."""
    columns, owner = made.columns.copy(), made.owner
    size = columns.shape[1]
    backward = np.flatnonzero(columns[0] == _B)
    columns[0, backward] = _I
    weight_grads = columns[:, backward]
    weight_grads[0] = _W
    updates = np.flatnonzero(columns[0] == _U)
    before = np.searchsorted(updates, backward)  # updates that precede each
    stage, copy = weight_grads[1], weight_grads[4]
    copies = int(copy.max(initial=0)) + 1
    key = (owner[backward] * (int(stage.max(initial=0)) + 1) + stage) * copies + copy
    most = int(key.max(initial=0)) + 1
    group = before * most + key
    order = np.argsort(group, kind="stable")
    # the W of the j-th I of a stage between two updates runs after I number j + lag
    ends = np.searchsorted(group[order], group, side="right")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    lags = np.full(most, size, dtype=np.int64)
    kinds = np.unique(key, return_index=True)[1].tolist()
    for row in kinds:
        lags[key[row]] = min(size, lag(int(stage[row]), int(copy[row])))
    paid = place + lags[key]
    in_time = paid < ends
    at = np.append(updates, size)[before] * 2 - 1
    at[in_time] = 2 * backward[order[paid[in_time]]] + 1
    joined = np.concatenate([columns, weight_grads], axis=1)
    owner = np.concatenate([owner, owner[backward]])
    moments = np.concatenate([2 * np.arange(size), at])
    if len(kinds) <= len(np.unique(owner[backward])):  # one stage and copy on each lane
        order = np.argsort(moments, kind="stable")
        return AllLanes(joined[:, order], owner[order])
    first_owed = np.full(most, size, dtype=np.int64)
    np.minimum.at(first_owed, key, np.arange(len(key)))
    late = np.where(in_time, -1, first_owed[key])
    owed = np.concatenate([np.zeros(size, dtype=np.int64), late])
    order = np.lexsort((owed, moments))
    return AllLanes(joined[:, order], owner[order])


def rejoined(actions: Iterable[Action], shape: Shape) -> Actions:
    """Return the actions with every I of a first stage made a B again if its W follows at once.

    Nobody waits for that input gradient, so nothing is won by two halves, and between them the output
    gradients of the whole stage would have to be kept.

    >>> lane = [Action(op, 0, 0) for op in "FIW"]
    >>> " ".join(map(str, rejoined(lane, Shape(stages=1, edges=(), lanes=((),), microbatches=(1,)))))
    '0F0 0B0'
    """
    columns = Actions.of(actions).columns
    return Actions(_rejoined(AllLanes(columns, np.zeros(columns.shape[1], dtype=np.int64)), shape).columns)


def _rejoined(made: AllLanes, shape: Shape) -> AllLanes:
    """Return the actions of all lanes, each as `rejoined` makes it."""
    columns, owner = made
    pair = np.flatnonzero((columns[0, :-1] == _I) & (columns[0, 1:] == _W))
    pair = pair[(columns[1:, pair] == columns[1:, pair + 1]).all(axis=0)]
    if len(pair):
        waited_for = {target for _, target in shape.edges}
        last = np.array([stage not in waited_for for stage in range(shape.stages)])
        pair = pair[last[columns[1, pair]] & (owner[pair] == owner[pair + 1])]
    if not len(pair):
        return made
    joined = columns.copy()
    joined[0, pair] = _B
    return AllLanes(np.delete(joined, pair + 1, axis=1), np.delete(owner, pair + 1))


def split_order(order: Order, lag: Lag) -> Order:
    """Split all backwards of an order."""
    return replace(order, lanes=each_distinct(order.lanes, lambda lane: split_backward(lane, lag)))


def each_distinct(lanes: LaneOrders, change: Callable[[Sequence[Action]], Sequence[Action]]) -> LaneOrders:
    """Change the actions of every lane; lanes of equal roles share one object before and after."""
    made: dict[int, Sequence[Action]] = {}
    for lane in lanes:
        if id(lane) not in made:
            made[id(lane)] = change(lane)
    return tuple(made[id(lane)] for lane in lanes)


def levelled(shape: Shape, clock: Clock, *, steps: int) -> Order:
    """Return the order of a clock with split backwards, every stage holding as much as the fullest one."""
    lag = level_lag(shape, clock)
    lanes = clocked_lanes(shape, clock, steps, lambda made: _rejoined(_split(made, lag), shape))
    return Order(lanes=lanes, steps=steps)


def levelled_step(shape: Shape, clock: Clock, step: int) -> LaneOrders:
    """Return one step of that order in F, I and W alone, without updates."""
    lag = level_lag(shape, clock)
    return each_lane(shape, lambda places: split_backward(one_step(shape, clock, places, step), lag))


def level_lag(shape: Shape, clock: Clock) -> Lag:
    """Return the lag at which every stage holds as much as the stage with most microbatches in flight.

    Stage s of a chain of p has p - s microbatches under way between F and I, so s more may wait for W:
    fewer if the shape states the bytes, and they would exceed those of a stage that lets none wait.
    """
    under_way = [ahead // turns(shape, stage) + 1 for stage, ahead in enumerate(clock.ahead)]
    most = max(count * size for count, size in zip(under_way, clock.samples, strict=True))
    lags = [most // size - count for count, size in zip(under_way, clock.samples, strict=True)]
    if any(shape.activation_bytes):
        lags = [min(pair) for pair in zip(lags, _lags_within(shape, under_way), strict=True)]
    return lambda stage, _copy: lags[stage]


def _lags_within(shape: Shape, under_way: Sequence[int]) -> list[int]:
    """Return how many microbatches of each stage may wait for W in the bytes of the fullest whole-B stage.

    A stage with n under way and `lag` waiting holds n whole microbatches and `lag` halves before an I, and
    n - 1 whole ones and lag + 1 halves after it.
    """
    stages = list(zip(under_way, shape.activation_bytes, shape.waiting_bytes, strict=True))
    room = max(n * whole for n, whole, _ in stages)
    left = [max(0.0, room - (n - 1) * whole - max(whole, half)) for n, whole, half in stages]
    return [
        int(spare / half * (1 + 1e-9)) if half else shape.microbatches[s]
        for s, (spare, half) in enumerate(zip(left, shape.waiting_bytes, strict=True))
    ]
