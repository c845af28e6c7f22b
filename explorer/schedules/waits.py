"""Whether an order can run to its end, and in what memory: in words that name actions, before lowering.

Whoever edits an order asks `check_order`: an order that it passes can be lowered and run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from explorer.actions import (
    BACKWARD,
    FORWARD,
    FREE,
    INPUT_GRAD,
    NAMED,
    OFFLOAD,
    RELOAD,
    UPDATE,
    WEIGHT_GRAD,
    Action,
    Order,
    Shape,
    with_free,
)
from explorer.schedules.check import coverage

_MADE = {FORWARD: ("F",), BACKWARD: ("gradient", "sum"), INPUT_GRAD: ("gradient",), WEIGHT_GRAD: ("sum",)}
"""What an op makes: an output, the gradient of an input, a part of the gradients that an update applies."""
ROUNDING = 1e-9
"""Relative excess over a room that sums in another sequence may have."""

Key = tuple[str, int, int, int, int]
"""What is made, of which stage, microbatch, copy and sweep."""
At = tuple[int, int]
"""A lane and a position in it."""


def check_order(order: Order, shape: Shape) -> list[str]:
    """List everything wrong with an order, one line each: work that is missing or done twice, actions that
    wait for each other for ever, lanes that hold more than they have room for; [] if nothing is.

    Memory is asked of where the shape states bytes.
    """
    return coverage(order, shape) or [*deadlock(order, shape), *over_full(order, shape)]


def deadlock(order: Order, shape: Shape) -> list[str]:
    """Return the circle of actions that wait for each other, in words; [] if all can run.

    Of an order that covers its shape.
    """
    run = _Run(order, shape)
    stuck = run.stuck()
    return [] if stuck is None else [f"deadlock: {_circle(order, stuck, run)}"]


def over_full(order: Order, shape: Shape) -> Iterator[str]:
    """Yield the lanes that hold more microbatches than their devices have room for, with the first action
    that does.
    """
    if not shape.activation_bytes or not shape.memory_cap_bytes or not shape.training:
        return
    held = shape.activation_bytes
    kept = shape.waiting_bytes or (0.0,) * shape.stages
    for lane, (actions, room) in enumerate(zip(order.lanes, shape.memory_cap_bytes, strict=True)):
        level = leaving = 0.0
        freed = with_free(actions)
        for at, action in enumerate(actions):
            whole, waiting = held[action.stage] * action.count, kept[action.stage] * action.count
            level += {
                FORWARD: whole, RELOAD: whole, BACKWARD: -whole, FREE: -whole,
                INPUT_GRAD: waiting - whole, WEIGHT_GRAD: -waiting,
            }.get(action.op, 0.0)  # fmt: skip
            leaving += whole if action.op == OFFLOAD and at not in freed else 0.0
            if level > room * (1 + ROUNDING):
                yield (
                    f"lane {lane}: {action} needs {level:.4g} bytes of activations, its devices have room for"
                    f" {max(room, 0.0):.4g}"
                )
                break
            if action.op not in NAMED:  # what has no FREE is gone when the action after its OFFLOAD is done
                level, leaving = level - leaving, 0.0


class _Run:
    """Lanes that run as far as they can."""

    def __init__(self, order: Order, shape: Shape) -> None:
        self.order, self.shape = order, shape
        self.makers: dict[Key, list[At]] = defaultdict(list)
        self.places: dict[Action, list[At]] = defaultdict(list)
        for lane, actions in enumerate(order.lanes):
            for position, action in enumerate(actions):
                self.places[action].append((lane, position))
                for key in _made_by(action):
                    self.makers[key].append((lane, position))
        self.before: dict[Action, list[Action]] = defaultdict(list)
        for edge in order.edges:
            self.before[edge.after].append(edge.before)
        self.at = [0] * len(order.lanes)

    def stuck(self) -> list[int] | None:
        """Return how far every lane comes; None if all come to their end."""
        moving = True
        while moving:
            moving = False
            for lane, actions in enumerate(self.order.lanes):
                while self.at[lane] < len(actions) and self.missing(actions[self.at[lane]]) is None:
                    self.at[lane] += 1
                    moving = True
        done = all(at == len(lane) for at, lane in zip(self.at, self.order.lanes, strict=True))
        return None if done else self.at

    def missing(self, action: Action) -> At | None:
        """Return where something that an action waits for has yet to run; None if nothing has."""
        for key in self._needs(action):
            for at in self.makers.get(key, ()):
                if at[1] >= self.at[at[0]]:
                    return at
        for other in self.before.get(action, ()):
            for at in self.places.get(other, ()):
                if at[1] >= self.at[at[0]]:
                    return at
        return None

    def _needs(self, action: Action) -> Iterator[Key]:
        """Yield the keys of all that an action reads."""
        op, stage, first, count, copy, sweep = action
        if op in NAMED:
            return
        source = sweep - (self.order.lag[sweep] if self.order.lag else 0)
        for n in range(first, first + count):
            if op == UPDATE:
                yield from (("sum", stage, n, c, sweep) for c in range(self.shape.copies))
            elif op == WEIGHT_GRAD:
                yield ("gradient", stage, n, copy, sweep)
            else:
                yield from self._flowing(op, stage, n, copy, source)
                if op != FORWARD:
                    yield ("F", stage, n, copy, sweep)

    def _flowing(self, op: str, stage: int, n: int, copy: int, sweep: int) -> Iterator[Key]:
        """Yield what comes from neighbours: outputs for a forward, gradients for a backward."""
        if sweep < 0:
            return
        what = "F" if op == FORWARD else "gradient"
        for source, target in self.shape.edges:
            mine, other = (target, source) if op == FORWARD else (source, target)
            if mine == stage:
                own, its = self.shape.microbatches[stage], self.shape.microbatches[other]
                for i in range(n * its // own, -(-(n + 1) * its // own)):
                    yield (what, other, i, copy, sweep)


def _made_by(action: Action) -> Iterator[Key]:
    for what in _MADE.get(action.op, ()):
        for n in range(action.first_microbatch, action.first_microbatch + action.count):
            yield (what, action.stage, n, action.copy, action.sweep)


def _circle(order: Order, stuck: Sequence[int], run: _Run) -> str:
    """Follow what waits for what from lane to lane, until a lane comes again."""
    lane = next(i for i, actions in enumerate(order.lanes) if stuck[i] < len(actions))
    path: dict[int, At] = {}
    while lane not in path:
        found = run.missing(order.lanes[lane][stuck[lane]])
        if found is None:  # a lane whose head waits for nothing would have run on
            break
        path[lane] = found
        lane = found[0]
    lanes = list(path)[list(path).index(lane) :] if lane in path else list(path)
    parts = []
    for number in lanes:
        other, position = path[number]
        head, wanted = order.lanes[number][stuck[number]], order.lanes[other][position]
        blocked = order.lanes[other][stuck[other]]
        behind = "" if blocked == wanted else f" behind {blocked}"
        parts.append(f"{head} on lane {number} waits for {wanted} on lane {other}{behind}")
    return "; ".join(parts)


__all__ = ["check_order", "deadlock", "over_full"]
