"""Local search of the orders of one step: one action of a lane at a time moves to another place of it.

A move may not pass an action of the same stage that is of its op or of its microbatch, nor let a lane hold
more than it has room for. It is taken if the step becomes no longer than it is by more than a threshold,
which falls to nothing (threshold accepting: Dueck and Scheuer, 1990); the best order met is returned. What a
step takes is the longest path from the first action of a lane to its last one, and round two lanes: with
D(a, b) the longest path from the first action of lane a to the end of lane b, the largest of D(a, a), of
(D(a, b) + D(b, a)) / 2, and of D(a, b) where a's updates wait for b's gradients.

The moves are tried by one kernel (`_local_moves`); how many is counted in rounds of its inner loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from explorer.actions import BACKWARD, FORWARD, INPUT_GRAD, WEIGHT_GRAD
from explorer.schedules._local_moves import MOVES_A_CALL, try_moves
from explorer.schedules._step_clock import ROUNDING, cycle_s
from explorer.schedules.pipelines import FloatArray

MOVES_AN_ACTION = 300
"""Most moves for every action of an order."""
NONE = -1
"""No action, in columns of actions."""
WIDEST = 0.05
"""The first threshold, in multiples of the longest action."""
StageWork = tuple[str, int, int]
"""An op, a stage and a microbatch."""
Lanes = tuple[tuple[StageWork, ...], ...]
"""Per lane: its work in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """A chain of stages, one or several at a lane, in the seconds and bytes of one microbatch."""

    forward_s: Sequence[float]
    """Per stage: F."""
    input_grad_s: Sequence[float]
    """Per stage: I."""
    weight_grad_s: Sequence[float]
    """Per stage: W."""
    transfer_s: Sequence[float]
    """Per boundary: seconds there, and back; 0 inside a lane."""
    held: Sequence[float]
    """Per stage: what a microbatch holds from F to I, in any unit."""
    waiting: Sequence[float]
    """Per stage: the part of it that stays until W."""
    room: Sequence[float]
    """Per lane: most that it may hold; inf for any."""
    coupled: Sequence[tuple[int, int]] = ()
    """Pairs (a, b) of lanes: the next step of a begins when b has ended this one."""
    wires: bool = True
    """Whether tensors from stage to stage take turns on the way."""

    def seconds(self, op: str, stage: int) -> float:
        """Return the seconds of an op of one microbatch."""
        f, i, w = self.forward_s[stage], self.input_grad_s[stage], self.weight_grad_s[stage]
        return {FORWARD: f, INPUT_GRAD: i, WEIGHT_GRAD: w, BACKWARD: i + w}[op]

    def change(self, op: str, stage: int) -> float:
        """Return what an op takes, or frees (below 0)."""
        held, waiting = self.held[stage], self.waiting[stage]
        return {FORWARD: held, BACKWARD: -held, INPUT_GRAD: waiting - held, WEIGHT_GRAD: -waiting}[op]

    def fits(self, lanes: Lanes) -> bool:
        """Tell whether no lane ever holds more than its room."""
        return all(
            max(accumulate(self.change(op, stage) for op, stage, _ in lane), default=0.0)
            <= room * (1 + ROUNDING)
            for lane, room in zip(lanes, self.room, strict=True)
        )


def improved(stages: Stages, lanes: Lanes, *, rounds: float, least_s: float = 0.0) -> Lanes:
    """Return the best order that is met from a given one on, which fits; itself if none is better.

    Args:
        stages: what the actions take.
        lanes: whole backwards, or both parts, of every microbatch of every stage.
        rounds: most rounds of the inner loop that are spent; short orders take fewer.
        least_s: seconds that no order takes less, at which it ends; it knows of the work of lanes itself.
    """
    search = _Search(stages, lanes)
    work_s = max((sum(stages.seconds(op, s) for op, s, _ in lane) for lane in lanes), default=0.0)
    least_s = max(least_s, work_s) * (1 + ROUNDING)
    calls = max(1, int(min(MOVES_AN_ACTION * len(search.order), rounds / search.moves_rounds) / MOVES_A_CALL))
    for call in range(calls):
        if search.state[2] > least_s:
            search.go_on(1 - (call + 0.5) / calls)
    return search.best()


def period_s(stages: Stages, lanes: Lanes) -> float:
    """Return the seconds from step to step under an order; infinite if its lanes wait for each other."""
    return cycle_s(_Search(stages, lanes).paths(), stages.coupled)


class _Search:
    """The search as columns: actions numbered lane by lane in the order that is given."""

    def __init__(self, stages: Stages, lanes: Lanes) -> None:
        self.actions = [work for lane in lanes for work in lane]
        number = {work: i for i, work in enumerate(self.actions)}
        count, width = len(self.actions), len(lanes)
        self.begins = np.cumsum([0, *map(len, lanes)])
        self.order = np.arange(count)
        ops = [work[0] for work in self.actions]
        self.stage = np.array([work[1] for work in self.actions])
        self.number = np.array([work[2] for work in self.actions])
        self.op = np.array([(FORWARD, INPUT_GRAD, WEIGHT_GRAD, BACKWARD).index(op) for op in ops])
        last = len(stages.forward_s) - 1
        self.before = np.full(count, NONE)
        self.across_s = np.zeros(count)
        self.wire = np.zeros(count, dtype=np.int64)
        for i, (op, stage, n) in enumerate(self.actions):
            source = stage - 1 if op == FORWARD else stage + 1
            if op == WEIGHT_GRAD or not 0 <= source <= last:
                continue
            self.before[i] = number[op, source, n]
            self.across_s[i] = stages.transfer_s[min(stage, source)]
            self.wire[i] = 2 * stage + (op != FORWARD)
        self.seconds = np.array([stages.seconds(op, stage) for op, stage, _ in self.actions])
        self.change = np.array([stages.change(op, stage) for op, stage, _ in self.actions])
        self.room = np.array(stages.room) * (1 + ROUNDING)
        pairs = [(a, b) for a, b in stages.coupled if a != b]
        self.coupled = np.array([item for pair in pairs for item in pair], dtype=np.int64)
        self.wires = int(stages.wires)
        self.longest_s = float(self.seconds.max(initial=0.0))
        # room to work in, and the state: see `try_moves`
        self.places = np.zeros(width, dtype=np.int64)
        self.done = np.zeros(count, dtype=np.int64)
        self.free_s = np.zeros(width * width)
        self.made_s = np.zeros(count * width)
        self.wire_s = np.zeros(2 * (last + 1) * width)
        self.found = np.arange(count)
        self.state = np.array([1.0, np.inf, np.inf, np.inf])
        self.moves_rounds = max(1, 2 * count * width)

    def go_on(self, left: float) -> None:
        """Try the moves of one call, with a threshold for this part of the search that is left."""
        try_moves(*self._arguments(MOVES_A_CALL, WIDEST * left * left * self.longest_s))

    def _arguments(self, moves: int, threshold_s: float) -> tuple[Any, ...]:
        return (
            self.begins, self.stage, self.number, self.op, self.before, self.across_s, self.wire,
            self.seconds, self.change, self.room, self.coupled, self.wires, moves, threshold_s, self.places,
            self.done, self.free_s, self.made_s, self.wire_s, self.order, self.found, self.state,
        )  # fmt: skip

    def paths(self) -> FloatArray:
        """Return the longest paths from the first action of a lane to the end of a lane, as it is given."""
        try_moves(*self._arguments(0, 0.0))
        width = len(self.places)
        return (
            self.free_s.reshape(width, width).T
            if self.state[1] < math.inf
            else np.full((width, width), math.inf)
        )

    def best(self) -> Lanes:
        """Return the best order that was met."""
        ends = self.begins.tolist()
        order = [self.actions[i] for i in self.found.tolist()]
        return tuple(tuple(order[a:b]) for a, b in pairwise(ends))
