"""A list scheduler: one global sequence of actions from seconds, transfers, priorities and caps.

Each distinct lane always runs the action that can start first; among those of equal start the one of the
least *priority*. Weight gradients, for which nothing waits, fill gaps (section 3.1 of Qi et al., Zero Bubble,
2024): a lane runs one if everything else is at least `patience` times its seconds away.

Every action comes later in the sequence than all it waits for, so that lanes that run their parts of it
cannot deadlock, whatever stages, copies and replicas they hold. A *cap* holds back forwards only. If caps
leave nothing to run, the forward of the earliest samples goes ahead all the same: an order that needs more
memory than there is can be shown and refused, a missing one cannot.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.actions import BACKWARD, FORWARD, INPUT_GRAD, WEIGHT_GRAD, Action, Place, Shape, new_action
from explorer.schedules._assumed_costs import NO_CAPS, Caps, Costs
from explorer.schedules._common import LaneOrders, own, roles, turns

Priority = Callable[[str, Place], tuple[int, ...]]
"""Priority of an op of a place; the least goes first."""


def backward_first(op: str, place: Place) -> tuple[int, ...]:
    """Prefer backwards, then the deepest forward: whatever ends a microbatch soonest."""
    return (int(op == FORWARD), -place.stage if op == FORWARD else place.stage)


class TimedOrder(NamedTuple):
    """An order of one step, and how long it takes."""

    lanes: LaneOrders
    span_s: float
    """Longest time of a lane to its last end, from its first start or, if earlier, that of a lane with which
    it shares tied stages.
    """
    makespan_s: float
    """Time from the first start to the last end of all."""


UNFINISHED = TimedOrder((), math.inf, math.inf)
"""What is returned of an order that was given up because it takes too long."""


def list_schedule(
    shape: Shape,
    costs: Costs,
    *,
    caps: Caps = NO_CAPS,
    priority: Priority = backward_first,
    patience: float = 1.0,
    step: int = 0,
) -> TimedOrder:
    """Return one step's actions of every lane, without updates.

    Args:
        shape: any stage DAG, microbatch sizes, copies, replicas and stages on a lane.
        costs: seconds that decide what can start first.
        caps: limits that hold forwards back.
        priority: among actions that can start together.
        patience: a weight gradient runs if all else is this many times its seconds away.
        step: the step whose microbatches are ordered.
    """
    return Run(shape, costs, caps, priority=priority, patience=patience, step=step).made()


@dataclass(slots=True)
class Queue:
    """Progress of the work of one place."""

    place: Place
    numbers: Sequence[int]
    """Its microbatches."""
    lanes: list[int] = field(default_factory=list)
    """Distinct lanes that hold it."""
    done: dict[str, int] = field(default_factory=lambda: {FORWARD: 0, BACKWARD: 0, WEIGHT_GRAD: 0})
    """Forwards, (input) gradients and weight gradients that have run."""
    orders: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Its microbatches by op, in another order."""

    def next(self, op: str) -> int:
        """Return the microbatch of the next F, B (or I) or W."""
        return self.orders.get(op, self.numbers)[self.done[op]]


@dataclass(slots=True)
class Lane:
    """Progress of one distinct lane."""

    queues: list[Queue]
    room: float
    time_s: float = 0.0
    begun_s: float = math.inf
    held: float = 0.0
    version: int = 0
    actions: list[Action] = field(default_factory=list)
    left_s: float = 0.0
    """Seconds of the actions that have not run."""
    tied: list[Lane] = field(default_factory=list)
    """Others that begin the next step only when this one has ended, since their updates wait for it."""

    @property
    def span_s(self) -> float:
        """Seconds from the first start, its own or of a lane that waits for it, to the last end."""
        return self.time_s - min([self.begun_s, *(lane.begun_s for lane in self.tied)])


class Choice(NamedTuple):
    """The action a lane would run next, and its start."""

    start_s: float
    op: str
    queue: Queue


class _Wait:
    """What one forward or gradient still waits for, and when the last of the others arrived."""

    __slots__ = ("left", "ready_s")

    def __init__(self, left: int) -> None:
        self.left, self.ready_s = left, 0.0


class Run:
    """One pass over a step, which always continues with the lane that can act first.

    Args:
        shape: as `list_schedule` takes it, as are costs, caps, priority, patience and step.
        within_s: seconds at which it is given up: a lane that takes as long is of no use.
        from_start: whether these count from the start of the step, not of the lane and those tied to it.
    """

    def __init__(
        self,
        shape: Shape,
        costs: Costs,
        caps: Caps = NO_CAPS,
        *,
        priority: Priority = backward_first,
        patience: float = 1.0,
        step: int = 0,
        within_s: float = math.inf,
        from_start: bool = False,
    ) -> None:
        self.shape, self.costs, self.caps = shape, costs, caps
        self.within_s, self.from_start = within_s, from_start
        self.priority, self.patience = priority, patience
        self.gradient = INPUT_GRAD if costs.split else BACKWARD
        rooms: dict[tuple[Place, ...], float] = defaultdict(lambda: math.inf)
        for i, places in enumerate(shape.lanes):
            key = roles(shape, places)
            rooms[key] = min(rooms[key], caps.room[i] if caps.room else math.inf)
        self.queue_of = {place: Queue(place, own(shape, place, step)) for key in rooms for place in key}
        self.lanes = {key: Lane([self.queue_of[p] for p in key], room) for key, room in rooms.items()}
        self.numbered = list(self.lanes.values())
        for i, lane in enumerate(self.numbered):
            for queue in lane.queues:
                queue.lanes.append(i)
                lane.left_s += len(queue.numbers) * self._once_s(queue.place.stage)
        for stages in shape.tied if shape.training else ():
            group = [lane for lane in self.numbered if any(q.place.stage in stages for q in lane.queues)]
            for lane in group:
                lane.tied += [other for other in group if other is not lane]
        self.edges: dict[int, list[tuple[int, float]]] = defaultdict(list)
        self.back: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for e, (source, target) in enumerate(shape.edges):
            seconds = costs.transfer_s[e] if costs.transfer_s else 0.0
            self.edges[source].append((target, seconds))
            self.back[target].append((source, seconds))
        self.waits: dict[tuple[str, int, int, int], _Wait] = {}
        self.wire_s: dict[tuple[int, int], float] = defaultdict(float)
        self.heap: list[tuple[float, int, int, Choice]] = []

    def made(self) -> TimedOrder:
        """Return the actions after all of them have run; `UNFINISHED` if that takes too long."""
        for i in range(len(self.numbered)):
            self._offer(i)
        while True:
            while self.heap:
                _, i, version, choice = heapq.heappop(self.heap)
                if version == self.numbered[i].version:
                    self._act(choice)
                    if self._too_long(self.numbered[i]):
                        return UNFINISHED
            if (held_back := self._held_back()) is None:
                break
            self._act(held_back)
        lanes = tuple(tuple(self.lanes[roles(self.shape, places)].actions) for places in self.shape.lanes)
        spans = [lane.span_s for lane in self.numbered if lane.actions]
        ends = [lane.time_s for lane in self.numbered if lane.actions]
        return TimedOrder(lanes, max(spans, default=0.0), max(ends, default=0.0))

    def _once_s(self, stage: int) -> float:
        """Return the seconds of all actions of a microbatch."""
        costs = self.costs
        backward = costs.input_grad_s[stage] + costs.weight_grad_s[stage] if self.shape.training else 0.0
        return costs.forward_s[stage] + backward

    def _too_long(self, lane: Lane) -> bool:
        since_s = 0.0 if self.from_start else lane.begun_s
        taken_s = lane.span_s if lane.tied and not self.from_start else lane.time_s - since_s
        return taken_s + lane.left_s >= self.within_s

    def _offer(self, i: int) -> None:
        """Put what a lane would run next on the heap, replacing its earlier offer."""
        lane = self.numbered[i]
        lane.version += 1
        if (choice := self._choose(lane)) is not None:
            heapq.heappush(self.heap, (choice.start_s, i, lane.version, choice))

    def _choose(self, lane: Lane) -> Choice | None:
        """Return what a lane runs next, as far as it is known by now."""
        best = self._best(lane, [c for queue in lane.queues for c in self._ready(queue, capped=True)])
        return self._filled(lane, best)

    def _filled(self, lane: Lane, best: Choice | None) -> Choice | None:
        """Return the weight gradient that runs before the best of all else, or that."""
        fillers = [queue for queue in lane.queues if self.costs.split and self._owed(queue)]
        if fillers:
            queue = min(fillers, key=lambda item: self.priority(WEIGHT_GRAD, item.place))
            if best is None or self._fills(lane, best, self.costs.of(WEIGHT_GRAD, queue.place.stage)):
                return Choice(self._free_s(queue), WEIGHT_GRAD, queue)
        return best

    def _best(self, _lane: Lane, offers: list[Choice]) -> Choice | None:
        """Return the forward or gradient that runs next, if it is not a weight gradient."""
        return min(offers, key=self._rank, default=None)

    def _fills(self, lane: Lane, best: Choice, weight_grad_s: float) -> bool:
        """Tell whether a weight gradient runs before the best of all else."""
        return best.start_s - lane.time_s >= self.patience * weight_grad_s

    def _rank(self, choice: Choice) -> tuple[float, tuple[int, ...]]:
        return choice.start_s, self.priority(choice.op, choice.queue.place)

    def _owed(self, queue: Queue) -> bool:
        return queue.done[WEIGHT_GRAD] < queue.done[BACKWARD]

    def _free_s(self, queue: Queue) -> float:
        return max(self.numbered[i].time_s for i in queue.lanes)

    def _ready(self, queue: Queue, *, capped: bool) -> Iterator[Choice]:
        """Yield the next gradient and forward of a place, if all they wait for has run."""
        forwards, gradients, free_s = queue.done[FORWARD], queue.done[BACKWARD], self._free_s(queue)
        if self.shape.training and gradients < forwards:
            wait = self._wait(BACKWARD, queue.place, queue.next(BACKWARD))
            if not wait.left:
                yield Choice(max(free_s, wait.ready_s), self.gradient, queue)
        if forwards < len(queue.numbers) and not (capped and self._full(queue)):
            wait = self._wait(FORWARD, queue.place, queue.next(FORWARD))
            if not wait.left:
                yield Choice(max(free_s, wait.ready_s), FORWARD, queue)

    def _full(self, queue: Queue) -> bool:
        """Tell whether the caps hold the next forward of a place back."""
        stage, caps = queue.place.stage, self.caps
        if not self.shape.training:
            return False
        if caps.ahead and queue.done[FORWARD] - queue.done[BACKWARD] >= caps.ahead[stage]:
            return True
        size = caps.held[stage] if caps.held else 0.0
        size += self._reserved(queue) if caps.through and caps.held else 0.0
        lanes = [self.numbered[i] for i in queue.lanes]
        return any(lane.held + size > lane.room * (1 + 1e-9) for lane in lanes)

    def _reserved(self, queue: Queue) -> float:
        """Return what later stages of a place's lane would hold of one microbatch, where they hold none."""
        later = {
            other.place.stage
            for i in queue.lanes
            for other in self.numbered[i].queues
            if other.place.stage > queue.place.stage and other.done[FORWARD] == other.done[BACKWARD]
        }
        return sum(self.caps.held[stage] for stage in later)

    def _held_back(self) -> Choice | None:
        """Return the forward of the earliest samples that only caps hold back; None at the end."""
        offers = [
            choice
            for queue in self.queue_of.values()
            for choice in self._ready(queue, capped=False)
            if choice.op == FORWARD
        ]
        return min(offers, key=self._age, default=None)

    def _age(self, choice: Choice) -> tuple[float, int]:
        queue = choice.queue
        number = queue.next(FORWARD)
        return number / self.shape.microbatches[queue.place.stage], -queue.place.stage

    def _act(self, choice: Choice) -> None:
        """Run an action on every lane that holds its place, and tell those that waited for it."""
        start_s, op, queue = choice
        stage, copy, _ = queue.place
        what = BACKWARD if op == INPUT_GRAD else op
        number = queue.next(what)
        queue.done[what] += 1
        end_s = start_s + self.costs.of(op, stage)
        change = self._change(op, stage)
        for i in queue.lanes:
            lane = self.numbered[i]
            lane.actions.append(new_action((op, stage, number, 1, copy, 0)))
            lane.begun_s, lane.time_s = min(lane.begun_s, start_s), end_s
            lane.left_s -= end_s - start_s
            lane.held += change
        touched = set(queue.lanes)
        if what != WEIGHT_GRAD:
            for other, seconds in (self.edges if op == FORWARD else self.back)[stage]:
                touched |= self._tell(what, queue.place, number, other, end_s, seconds)
        for i in sorted(touched):
            self._offer(i)

    def _change(self, op: str, stage: int) -> float:
        held = self.caps.held[stage] if self.caps.held else 0.0
        waiting = self.caps.waiting[stage] if self.caps.waiting else 0.0
        return {FORWARD: held, BACKWARD: -held, INPUT_GRAD: waiting - held, WEIGHT_GRAD: -waiting}[op]

    def _sent(self, place: Place, lane: int, end_s: float, seconds: float) -> float:
        """Return when what a place made reaches another lane."""
        wire = self.queue_of[place].lanes[0], lane
        begun_s = max(end_s, self.wire_s[wire]) if self.costs.wires and seconds else end_s
        self.wire_s[wire] = begun_s + seconds
        return self.wire_s[wire]

    def _tell(
        self, what: str, place: Place, number: int, other: int, end_s: float, seconds: float
    ) -> set[int]:
        """Note at a neighbouring stage that an action has run; return the lanes that this lets go on."""
        freed: set[int] = set()
        sent: dict[int, float] = {}
        for n in self._overlapping(place.stage, number, other):
            there = Place(other, place.copy, n % turns(self.shape, other))
            wait = self._wait(what, there, n)
            wait.left -= 1
            lane = self.queue_of[there].lanes[0]
            if lane not in sent:
                sent[lane] = self._sent(place, lane, end_s, seconds)
            wait.ready_s = max(wait.ready_s, sent[lane])
            if not wait.left:
                freed.update(self.queue_of[there].lanes)
        return freed

    def _wait(self, what: str, place: Place, number: int) -> _Wait:
        key = (what, place.stage, place.copy, number)
        if key not in self.waits:
            others = (self.back if what == FORWARD else self.edges)[place.stage]
            self.waits[key] = _Wait(
                sum(len(self._overlapping(place.stage, number, other)) for other, _ in others)
            )
        return self.waits[key]

    def _overlapping(self, stage: int, number: int, other: int) -> range:
        """Return the microbatches of another stage that share samples with one of this stage."""
        mine, its = self.shape.microbatches[stage], self.shape.microbatches[other]
        return range(number * its // mine, -(-(number + 1) * its // mine))
