"""Clock of one step's order on a chain of stages: seconds from step to step, from idle, and what is held."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np

from explorer.actions import BACKWARD, FORWARD, FREE, INPUT_GRAD, OFFLOAD, RELOAD, WEIGHT_GRAD, Shape
from explorer.schedules._assumed_costs import costs_of
from explorer.schedules.pipelines import FloatArray

ROUNDING = 1e-9
"""Relative excess over a room that sums in another sequence may have."""
Work = tuple[str, int]
"""An op and a microbatch of one step."""
LaneWork = tuple[tuple[Work, ...], ...]
"""Per stage: its work in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain of stages, one at a lane, in the seconds and bytes of one microbatch."""

    microbatches: int
    """Microbatches m of a step."""
    forward_s: tuple[float, ...]
    """Per stage: F."""
    input_grad_s: tuple[float, ...]
    """Per stage: I."""
    weight_grad_s: tuple[float, ...]
    """Per stage: W."""
    transfer_s: tuple[float, ...]
    """Per boundary: seconds there, and back."""
    held: tuple[float, ...]
    """Per stage: what a microbatch holds from F to I, in any unit."""
    waiting: tuple[float, ...]
    """Per stage: the part of it that stays until W."""
    room: tuple[float, ...]
    """Per stage: most that it may hold; inf for any."""
    host_s: tuple[float, ...]
    """Per stage: seconds in which what a microbatch holds goes to the host, or comes back; inf for never."""
    coupled: tuple[tuple[int, int], ...] = ()
    """Pairs (a, b) of stages that share parameters: a begins its next step when b has ended this one."""

    @property
    def stages(self) -> int:
        """Number of stages p."""
        return len(self.forward_s)

    def seconds(self, op: str, stage: int) -> float:
        """Return the seconds of an op of one microbatch."""
        f, i, w = self.forward_s[stage], self.input_grad_s[stage], self.weight_grad_s[stage]
        return {FORWARD: f, INPUT_GRAD: i, WEIGHT_GRAD: w, BACKWARD: i + w}[op]

    def work_s(self, stage: int) -> float:
        """Return the seconds of work of a stage in a step."""
        return self.microbatches * (self.seconds(FORWARD, stage) + self.seconds(BACKWARD, stage))

    def peak(self, stage: int, work: Iterable[Work]) -> float:
        """Return the most that a stage holds while it works in this order."""
        held, waiting = self.held[stage], self.waiting[stage]
        change = {
            FORWARD: held, BACKWARD: -held, INPUT_GRAD: waiting - held, WEIGHT_GRAD: -waiting,
            FREE: -held, RELOAD: held,
        }  # fmt: skip
        level = most = 0.0
        for op, _ in work:
            level += change.get(op, 0.0)
            most = max(most, level)
        return most

    def fits(self, lanes: LaneWork) -> bool:
        """Tell whether no stage ever holds more than its room."""
        peaks = (self.peak(stage, work) for stage, work in enumerate(lanes))
        return all(peak <= room * (1 + ROUNDING) for peak, room in zip(peaks, self.room, strict=True))


def chain_of(shape: Shape, limit: int) -> Chain:
    """Return the chain of a shape with one stage at every lane.

    Args:
        shape: the shape; bytes are microbatches where it says none.
        limit: room in multiples of what the fullest stage of 1F1B holds; 0 is that of the devices, any if the
            shape does not say.
    """
    costs = costs_of(shape, split=True)
    across = dict(zip(shape.edges, costs.transfer_s or (0.0,) * len(shape.edges), strict=True))
    p, m = shape.stages, shape.microbatches[0]
    held = shape.activation_bytes or (1.0,) * p
    waiting = shape.waiting_bytes or tuple(size / 2 for size in held)
    # what waits for W may be more than F kept, by the gradients that it reads: so much counts from F on
    held = tuple(map(max, held, waiting))
    room = [math.inf] * p
    if limit:
        room = [limit * max(min(p - s, m) * size for s, size in enumerate(held))] * p
    elif shape.memory_cap_bytes:
        for places, free in zip(shape.lanes, shape.memory_cap_bytes, strict=True):
            room[places[0].stage] = min(room[places[0].stage], free)
    return Chain(
        microbatches=m,
        forward_s=tuple(costs.forward_s),
        input_grad_s=tuple(costs.input_grad_s),
        weight_grad_s=tuple(costs.weight_grad_s),
        transfer_s=tuple(across[s, s + 1] for s in range(p - 1)),
        held=held,
        waiting=waiting,
        room=tuple(room),
        host_s=shape.host_s or (math.inf,) * p,
        coupled=coupled_stages(shape),
    )


def coupled_stages(shape: Shape) -> tuple[tuple[int, int], ...]:
    """Return the pairs (a, b) of different stages whose updates wait for each other."""
    pairs = {pair for stages in shape.tied if shape.training for pair in permutations(stages, 2)}
    return tuple(sorted(pairs))


class Timed(NamedTuple):
    """An order and what it takes, to be compared in this sequence."""

    period_s: float
    """From step to step."""
    makespan_s: float
    """From idle."""
    lanes: LaneWork


class Seconds(NamedTuple):
    """What an order takes."""

    period_s: float
    """From step to step, if every stage begins the next one as soon as it has ended this one."""
    makespan_s: float
    """From idle."""


def seconds_of(chain: Chain, lanes: LaneWork) -> Seconds:
    """Return the seconds of an order; infinite ones if its lanes wait for each other for ever.

    With D(a, b) the longest path from the first action of stage a to the end of the last one of stage b,
    steps follow each other at the largest mean of a cycle of D, which goes on where b ends or, if they are
    coupled, at another stage.
    """
    ends = _ends(chain, lanes)
    if ends is None:
        return Seconds(np.inf, np.inf)
    return Seconds(cycle_s(ends[:-1], chain.coupled), float(ends[-1].max()))


def cycle_s(paths: FloatArray, coupled: Iterable[tuple[int, int]]) -> float:
    """Return the largest mean of a cycle: the seconds from step to step.

    Args:
        paths: (p, p) longest paths from the first action of a lane to the end of the last one of a lane.
        coupled: pairs (a, b) of lanes where a begins its next step when b has ended this one.
    """
    onward = paths.copy()
    for begins, ended in coupled:
        np.maximum(onward[:, begins], paths[:, ended], out=onward[:, begins])
    longest, power = -math.inf, onward
    for length in range(1, len(paths) + 1):
        longest = max(longest, float(np.diag(power).max()) / length)
        power = (power[:, :, None] + onward[None, :, :]).max(axis=1)
    return longest


class HostMoves:
    """Moves of one stage to its host and back, one after the other each way."""

    def __init__(self, none: FloatArray, seconds: float) -> None:
        self.seconds, self.none = seconds, none
        self.out_s = self.back_s = none
        self.gone: dict[int, FloatArray] = {}
        """Per microbatch: when it has left."""
        self.here: dict[tuple[str, int], FloatArray] = {}
        """Per backward or input gradient: when what it reads is back."""

    def ordered(self, op: str, number: int, free_s: FloatArray) -> FloatArray:
        """Begin a move, or wait for one, where a stage comes to it; return when the stage goes on."""
        if op == OFFLOAD:
            self.out_s = np.maximum(self.out_s, free_s) + self.seconds
            self.gone[number] = self.out_s
        elif op == RELOAD:
            begun_s = np.maximum(np.maximum(self.back_s, free_s), self.gone[number])
            self.back_s = begun_s + self.seconds
            self.here[BACKWARD, number] = self.here[INPUT_GRAD, number] = self.back_s
        else:
            return np.maximum(free_s, self.gone[number])
        return free_s


def _ends(chain: Chain, lanes: LaneWork) -> FloatArray | None:
    """Return the (p + 1, p) ends of stages, begun with each stage alone, and with all of them at once."""
    p = chain.stages
    none = np.full(p + 1, -np.inf)
    begun_with = np.eye(p, p + 1, dtype=bool) | (np.arange(p + 1) == p)
    free = list(np.where(begun_with, 0.0, -np.inf))
    wires: dict[tuple[int, int], FloatArray] = {}
    made: dict[tuple[str, int, int], FloatArray] = {}
    moves = [HostMoves(none, seconds) for seconds in chain.host_s]
    at, moving = [0] * p, True
    while moving:
        moving = False
        for s in range(p):
            while at[s] < len(lanes[s]):
                op, number = lanes[s][at[s]]
                if op in (OFFLOAD, FREE, RELOAD):
                    free[s] = moves[s].ordered(op, number, free[s])
                    at[s] += 1
                    continue
                other = _waits_on(op, s, p)
                start = free[s]
                if other is not None:
                    what = FORWARD if op == FORWARD else INPUT_GRAD
                    if (what, other, number) not in made:
                        break
                    begun = np.maximum(made[what, other, number], wires.get((other, s), none))
                    wires[other, s] = begun + chain.transfer_s[min(s, other)]
                    start = np.maximum(start, wires[other, s])
                free[s] = np.maximum(start, moves[s].here.get((op, number), none)) + chain.seconds(op, s)
                if op != WEIGHT_GRAD:
                    made[FORWARD if op == FORWARD else INPUT_GRAD, s, number] = free[s]
                at[s] += 1
                moving = True
    if any(at[s] < len(lanes[s]) for s in range(p)):
        return None
    return np.array(free).T


def _waits_on(op: str, stage: int, stages: int) -> int | None:
    """Return the stage from which an op waits for a tensor; None for its own."""
    if op == FORWARD:
        return stage - 1 if stage else None
    return stage + 1 if op != WEIGHT_GRAD and stage + 1 < stages else None


def best_of(chain: Chain, found: Iterable[LaneWork]) -> Timed:
    """Return the order that takes least among those that fit, one of which must; the first of equal ones."""
    fitting = (Timed(*seconds_of(chain, lanes), lanes) for lanes in found if chain.fits(lanes))
    return min(fitting, key=lambda timed: timed[:2])
