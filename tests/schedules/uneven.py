"""Steps of uneven pipelines, for tests: every action in its order, transfers on wires that take turns.

Written apart from the product's lowering and from the formulas that are compared with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.actions import Action, Order, Shape
from tests.schedules.slots import grouped

Key = tuple[str, int, int, int, int]
"""What is made: a name, stage, microbatch, copy and sweep."""


@dataclass(frozen=True)
class Costs:
    """Seconds by stage, by edge (from stage s to s + 1) and by lane."""

    forward: Sequence[float]
    input_grad: Sequence[float]
    weight_grad: Sequence[float]
    backward: Sequence[float]
    transfer: Sequence[float]
    after: Sequence[float]
    """By lane: from its last gradient to the end of its last update."""

    def of(self, action: Action) -> float:
        table = {"F": self.forward, "I": self.input_grad, "W": self.weight_grad, "B": self.backward}
        return table[action.op][action.stage] * action.count


def step_seconds(order: Order, shape: Shape, costs: Costs) -> float:
    """The longest time of a lane from its end of a step to its end of the next, in the middle of many."""
    run = _Run(order, shape, costs)
    run.all()
    last = order.steps - 1 if order.flush else order.steps // 2  # without a flush the end is a drain
    return max(late - early for early, late in zip(run.ends[last - 1], run.ends[last], strict=True))


def spans_of(order: Order, shape: Shape, costs: Costs) -> list[float]:
    """Per lane the seconds from its first start to its last end in the first step."""
    run = _Run(order, shape, costs)
    run.all()
    return [end - begun for begun, end in zip(run.begun, run.ends[0], strict=True)]


class _Run:
    def __init__(self, order: Order, shape: Shape, costs: Costs) -> None:
        self.order, self.shape, self.costs = order, shape, costs
        self.lanes = [grouped(lane) for lane in order.lanes]
        self.made: dict[Key, tuple[float, int]] = {}
        self.arrived: dict[tuple[Key, int], float] = {}
        self.wire: dict[tuple[int, int], float] = defaultdict(float)
        self.free = [0.0] * len(order.lanes)
        self.at = [0] * len(order.lanes)
        self.begun = [0.0] * len(order.lanes)
        self.ends = [[0.0] * len(order.lanes) for _ in range(order.steps)]

    def all(self) -> None:
        moving = True
        while moving:
            moving = False
            for lane, groups in enumerate(self.lanes):
                while self.at[lane] < len(groups) and self._act(lane, groups[self.at[lane]]):
                    self.at[lane] += 1
                    moving = True
        assert all(at == len(lane) for at, lane in zip(self.at, self.lanes, strict=True))

    def _needs(self, action: Action) -> list[tuple[Key, float]]:
        """Everything an action waits for, with the seconds of its transfer."""
        op, stage, first, count, copy, sweep = action
        from_sweep = sweep - (self.order.lag[sweep] if self.order.lag else 0)
        found: list[tuple[Key, float]] = []
        for n in range(first, first + count):
            if op == "U":
                found += [(("done", stage, n, c, sweep), 0.0) for c in range(self.shape.copies)]
            elif op == "W":
                found.append((("grad", stage, n, copy, sweep), 0.0))
            elif op == "F" and stage and from_sweep >= 0:
                found.append((("F", stage - 1, n, copy, from_sweep), self.costs.transfer[stage - 1]))
            elif op in "BI":
                found.append((("F", stage, n, copy, sweep), 0.0))
                if stage + 1 < self.shape.stages and from_sweep >= 0:
                    found.append((("grad", stage + 1, n, copy, from_sweep), self.costs.transfer[stage]))
        return found

    def _act(self, lane: int, group: tuple[Action, ...]) -> bool:
        """Run an action, or a pair that begins and ends together; tell whether it could."""
        keys = [pair for action in group for pair in self._needs(action)]
        action = group[-1]
        if action.op == "U":
            keys = [pair for pair in keys if pair[0] in self.made or self._comes(pair[0])]
        if any(key not in self.made for key, _ in keys):
            return False
        start = max([self.free[lane]] + [self._here(key, lane, seconds) for key, seconds in keys])
        if not self.at[lane]:
            self.begun[lane] = start
        step = action.first_microbatch // self.shape.microbatches[action.stage]
        lowest = min(place.stage for place in self.shape.lanes[lane])
        if action.op == "U":
            end = start + (self.costs.after[lane] if action.stage == lowest else 0.0)
        else:
            end = start + sum(map(self.costs.of, group))
        self.free[lane] = end
        self.ends[step][lane] = max(self.ends[step][lane], end)
        names = {"F": ["F"], "B": ["grad", "done"], "I": ["grad"], "W": ["done"], "U": []}
        for item in group:
            for n in range(item.first_microbatch, item.first_microbatch + item.count):
                for name in names[item.op]:
                    self.made[name, item.stage, n, item.copy, item.sweep] = (end, lane)
        return True

    def _comes(self, key: Key) -> bool:
        """Whether any lane makes it: copies share the microbatches of a step."""
        _, stage, number, copy, _ = key
        count = self.shape.microbatches[stage]
        return (number % count) * self.shape.copies // count == copy

    def _here(self, key: Key, lane: int, seconds: float) -> float:
        end, maker = self.made[key]
        if maker == lane:
            return end
        if (key, lane) not in self.arrived:
            begun = max(end, self.wire[maker, lane]) if seconds else end
            self.wire[maker, lane] = self.arrived[key, lane] = begun + seconds
        return self.arrived[key, lane]
