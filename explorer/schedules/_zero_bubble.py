"""The automatic scheduler of Zero Bubble Pipeline Parallelism (Qi et al., 2024), section 3.1.

Its heuristic:

1. In the warm-up a lane runs as many forwards as memory allows. A last one that would delay the first
   gradient may be left out (`hold`).
2. Then forwards and input gradients take turns (`alternate`; or whatever can start first goes first). A
   weight gradient fills a gap as long as itself, or any gap that would make the lane the one that has waited
   longest of all (`level`); and it runs where memory is full.
3. Once forwards and input gradients have run out, the weight gradients that are left follow.

It searches over such settings and keeps the shortest order, and so does `shortest`, which also tries other
orders that are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

from explorer.actions import BACKWARD, FORWARD, INPUT_GRAD, WEIGHT_GRAD, Action, Place, Shape
from explorer.schedules._assumed_costs import Caps, Costs
from explorer.schedules._common import LaneOrders, roles, turns
from explorer.schedules._list_scheduler import UNFINISHED, Choice, Lane, Queue, Run, TimedOrder

GREEDY = (0.25, 0.5, 0.75, 1.0)
"""Patience of orders that run whatever can start first."""
SETTINGS = (
    *((0, 0.5, hold, alternate, level) for hold, alternate, level in product((False, True), repeat=3)),
    *((-1, 1.0, False, alternate, level) for alternate, level in product((False, True), repeat=2)),
)
"""Settings of the paper's rules: which cap, the part of a weight gradient's seconds from which a gap is
filled (1 in the paper; 0.5 fills those that are nearer to one than to none), hold, alternate, level.
"""
MOST_ACTIONS = 400_000
"""Actions after which no other order is begun."""


class Ruled(Run):
    """A pass by the paper's rules."""

    def __init__(
        self,
        shape: Shape,
        costs: Costs,
        caps: Caps,
        *,
        hold: bool,
        alternate: bool,
        level: bool,
        **others: Any,
    ) -> None:
        self.hold, self.alternate, self.level = hold, alternate, level
        super().__init__(shape, costs, caps, **others)
        self.waited_s = [0.0] * len(self.numbered)
        self.number = {id(lane): i for i, lane in enumerate(self.numbered)}
        self.last = [FORWARD] * len(self.numbered)

    def _best(self, lane: Lane, offers: list[Choice]) -> Choice | None:
        best = super()._best(lane, offers)
        gradients = [choice for choice in offers if choice.op != FORWARD]
        forwards = [choice for choice in offers if choice.op == FORWARD]
        if best is None or not gradients or not forwards:
            return best
        begun = any(queue.done[BACKWARD] for queue in lane.queues)
        if begun and self.alternate:
            return min(gradients if self.last[self.number[id(lane)]] == FORWARD else forwards, key=self._rank)
        if not begun and self.hold and best.op == FORWARD:
            gradient = min(gradients, key=self._rank)
            ends_s = best.start_s + self.costs.of(FORWARD, best.queue.place.stage)
            return gradient if ends_s > gradient.start_s else best
        return best

    def _fills(self, lane: Lane, best: Choice, weight_grad_s: float) -> bool:
        if super()._fills(lane, best, weight_grad_s):
            return True
        gap_s = best.start_s - lane.time_s
        longest = max(self.waited_s) * (1 + 1e-9)
        return self.level and gap_s > 0 and self.waited_s[self.number[id(lane)]] + gap_s > longest

    def _act(self, choice: Choice) -> None:
        for i in choice.queue.lanes:
            lane = self.numbered[i]
            self.waited_s[i] += choice.start_s - lane.time_s if lane.actions else 0.0
            if choice.op != WEIGHT_GRAD:
                self.last[i] = choice.op
        super()._act(choice)


class Given(Run):
    """A pass through given orders of lanes, given up if one holds more than there is room for.

    If these have no weight gradients, they fill gaps.
    """

    def __init__(self, shape: Shape, costs: Costs, caps: Caps, lanes: LaneOrders, **others: Any) -> None:
        super().__init__(shape, costs, caps, **others)
        wanted = {roles(shape, places): lane for places, lane in zip(shape.lanes, lanes, strict=True)}
        self.wanted = [wanted[key] for key in self.lanes]
        self.at = [0] * len(self.numbered)
        self.number = {id(lane): i for i, lane in enumerate(self.numbered)}
        for lane, actions in zip(self.numbered, self.wanted, strict=True):
            for queue in lane.queues:
                queue.orders = _orders(queue, actions)
        self.fills = not any(action.op == WEIGHT_GRAD for lane in self.wanted for action in lane)

    def made(self) -> TimedOrder:
        found = super().made()
        whole = all(at == len(wanted) for at, wanted in zip(self.at, self.wanted, strict=True))
        return found if whole else UNFINISHED

    def _next(self, i: int) -> Action | None:
        return self.wanted[i][self.at[i]] if self.at[i] < len(self.wanted[i]) else None

    def _choose(self, lane: Lane) -> Choice | None:
        best = self._given(lane)
        return self._filled(lane, best) if self.fills else best

    def _given(self, lane: Lane) -> Choice | None:
        """Return the next action of the order, if it can run."""
        action = self._next(self.number[id(lane)])
        if action is None:
            return None
        replica = action.first_microbatch % turns(self.shape, action.stage)
        queue = self.queue_of[Place(action.stage, action.copy, replica)]
        if any(self._next(i) != action for i in queue.lanes):
            return None  # the last of them to get here will run it
        if action.op == WEIGHT_GRAD:
            return Choice(self._free_s(queue), WEIGHT_GRAD, queue) if self._owed(queue) else None
        return next((choice for choice in self._ready(queue, capped=False) if choice.op == action.op), None)

    def _act(self, choice: Choice) -> None:
        for i in choice.queue.lanes:
            self.at[i] += choice.op != WEIGHT_GRAD or not self.fills
        super()._act(choice)

    def _held_back(self) -> None:
        """Return that nothing is held back: the order is what it is."""

    def _too_long(self, lane: Lane) -> bool:
        return lane.held > lane.room * (1 + 1e-9) or super()._too_long(lane)


def _orders(queue: Queue, actions: Sequence[Action]) -> dict[str, list[int]]:
    """Return the microbatches of a place by op, as actions name them; weight gradients in the order of I."""
    mine = set(queue.numbers)
    found: dict[str, list[int]] = {FORWARD: [], INPUT_GRAD: []}
    for op, stage, number, _, copy, _ in actions:
        if op in found and (stage, copy) == queue.place[:2] and number in mine:
            found[op].append(number)
    return {FORWARD: found[FORWARD], BACKWARD: found[INPUT_GRAD], WEIGHT_GRAD: found[INPUT_GRAD]}


def shortest(
    shape: Shape,
    costs: Costs,
    caps: Sequence[Caps],
    given: Sequence[LaneOrders] = (),
    *,
    step: int = 0,
    from_start: bool = False,
) -> LaneOrders:
    """Return the shortest of all orders that keep to some caps.

    Args:
        shape: any stage DAG, microbatch sizes, copies and replicas.
        costs: seconds of actions and transfers, with split backwards.
        caps: what holds forwards back, the widest first; given orders must keep to that.
        given: other orders that are tried, in F, I and W.
        step: the step whose microbatches are ordered.
        from_start: whether the time of all lanes together counts, not that of the slowest.
    """
    best, spent = UNFINISHED, 0
    for make in _passes(caps, given):
        taken_s = best.makespan_s if from_start else best.span_s
        tried = make(shape, costs, step=step, within_s=taken_s * (1 - 1e-12), from_start=from_start)
        found = tried.made()
        best = found if found is not UNFINISHED else best
        spent += sum(len(lane.actions) for lane in tried.numbered)
        if spent > MOST_ACTIONS:
            break
    return best.lanes


def filled(shape: Shape, costs: Costs, lanes: LaneOrders, step: int) -> LaneOrders:
    """Return an order of forwards and input gradients whose weight gradients fill its gaps.

    Of the orders for several sizes of gaps that are filled the shortest is returned.
    """
    best = UNFINISHED
    for patience in GREEDY:
        made = Given(
            shape, costs, Caps(), lanes, patience=patience, step=step, within_s=best.span_s * (1 - 1e-12)
        ).made()
        best = made if made is not UNFINISHED else best
    return best.lanes


def _passes(caps: Sequence[Caps], given: Sequence[LaneOrders]) -> Iterator[Callable[..., Run]]:
    """Yield what makes the passes."""
    for lanes in given:
        yield partial(Given, caps=caps[0], lanes=lanes)
    for patience in GREEDY:
        yield partial(Run, caps=caps[-1], patience=patience)
    for cap, patience, hold, alternate, level in SETTINGS:
        yield partial(Ruled, caps=caps[cap], patience=patience, hold=hold, alternate=alternate, level=level)
