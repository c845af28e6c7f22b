"""A tiny simulator for tests: lanes in order, dependencies by samples, seconds per op, transfers free.

Written apart from the product's lowering, so that each can be an oracle for the other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from explorer.actions import Action, Order, Shape

Key = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Timeline:
    """Start and end of every action; `blocked` are the heads of lanes that cannot go on."""

    spans: tuple[tuple[tuple[float, float, Action], ...], ...]
    blocked: tuple[Action, ...]

    @property
    def makespan(self) -> float:
        return max((lane[-1][1] for lane in self.spans if lane), default=0)

    def start(self, text: str) -> float:
        return next(a for lane in self.spans for a, _, action in lane if str(action) == text)


def overlapping(shape: Shape, stage: int, n: int, other: int) -> range:
    """Microbatches of stage `other` that share samples with microbatch n of `stage`."""
    ratio = Fraction(shape.microbatches[other], shape.microbatches[stage])
    return range(int(n * ratio), -int(-(n + 1) * ratio // 1))


def waits_for(order: Order, shape: Shape, action: Action) -> Iterator[Key]:
    """What one action needs: F the tensors before it, B the gradients after it, U all its gradients."""
    op, stage, first, count, copy, sweep = action
    from_sweep = sweep - (order.lag[sweep] if order.lag else 0)
    for n in range(first, first + count):
        if op == "U":
            for c in range(shape.copies):
                yield ("done", stage, n, c, sweep)
            continue
        if op == "W":
            yield ("grad", stage, n, copy, sweep)
            continue
        if op != "F":
            yield ("F", stage, n, copy, sweep)
        for source, target in shape.edges:
            mine, other, what = (target, source, "F") if op == "F" else (source, target, "grad")
            if mine == stage and from_sweep >= 0:
                for i in overlapping(shape, stage, n, other):
                    yield (what, other, i, copy, from_sweep)


def grouped(actions: Sequence[Action]) -> list[tuple[Action, ...]]:
    """Actions one by one, but a forward and a backward that OVERLAP joins together."""
    groups: list[tuple[Action, ...]] = []
    joins = False
    for action in actions:
        if action.op == "OVERLAP":
            joins = True
        elif joins:
            groups[-1] += (action,)
            joins = False
        else:
            groups.append((action,))
    return groups


def makes(action: Action) -> list[Key]:
    names = {"F": ["F"], "B": ["grad", "done"], "I": ["grad"], "W": ["done"], "U": []}[action.op]
    samples = range(action.first_microbatch, action.first_microbatch + action.count)
    return [(name, action.stage, n, action.copy, action.sweep) for name in names for n in samples]


def simulate(
    order: Order,
    shape: Shape,
    seconds: Mapping[str, float] | None = None,
    weight: Sequence[float] | None = None,
    transfer_s: float = 0,
) -> Timeline:
    """Times of all actions: seconds of the op times the stage's weight, by default its microbatch size.

    Tensors and gradients reach another lane `transfer_s` after they are made, beside all work.
    """
    seconds = {"F": 1, "B": 1, "I": 1, "W": 1, "U": 0} | dict(seconds or {})
    weight = weight or [max(shape.microbatches) / count for count in shape.microbatches]
    lanes = [grouped(lane) for lane in order.lanes]
    listed = [action for lane in lanes for group in lane for action in group]
    left: Counter[Key] = Counter(key for action in listed for key in makes(action))
    after: dict[Action, list[Action]] = defaultdict(list)
    for edge in order.edges:
        after[edge.after].append(edge.before)
    needs_copy = {key for key in left if key[0] == "done"}
    ready: dict[Key, float] = defaultdict(float)
    ended: dict[Action, float] = {}
    pending = Counter(listed)
    made_here: list[set[Key]] = [set() for _ in order.lanes]
    spans: list[list[tuple[float, float, Action]]] = [[] for _ in order.lanes]
    at = [0] * len(lanes)
    moving = True
    while moving:
        moving = False
        for lane, groups in enumerate(lanes):
            while at[lane] < len(groups):
                group = groups[at[lane]]
                own = {key for action in group for key in makes(action)}
                keys = [
                    key
                    for action in group
                    for key in waits_for(order, shape, action)
                    if (action.op != "U" or key in needs_copy) and key not in own
                ]
                if any(left[key] or key not in ready for key in keys):
                    break
                if any(pending[before] for action in group for before in after[action]):
                    break
                start = max(
                    [spans[lane][-1][1] if spans[lane] else 0]
                    + [ready[key] + (transfer_s if key not in made_here[lane] else 0) for key in keys]
                    + [ended.get(before, 0) for action in group for before in after[action]]
                )
                for action in group:  # a pair begins together, and what it makes is there at its end
                    size = weight[action.stage] * action.count if action.op != "U" else 1
                    end = start + seconds[action.op] * size
                    spans[lane].append((start, end, action))
                    start = end
                for action in group:
                    pending[action] -= 1
                    ended[action] = max(ended.get(action, 0), end)
                    for key in makes(action):
                        made_here[lane].add(key)
                        left[key] -= 1
                        ready[key] = max(ready[key], end)
                at[lane] += 1
                moving = True
    blocked = tuple(groups[done][0] for groups, done in zip(lanes, at, strict=True) if done < len(groups))
    return Timeline(tuple(map(tuple, spans)), blocked)


def peak_in_flight(actions: tuple[Action, ...]) -> int:
    """Most microbatches of a lane between their F and the end of their B or W."""
    live = peak = 0
    for action in actions:
        live += action.count if action.op == "F" else 0
        peak = max(peak, live)
        live -= action.count if action.op in "BW" else 0
    return peak


def stashed_versions(actions: tuple[Action, ...]) -> tuple[int, list[int]]:
    """Most weight versions alive at once when B reads what its F read, and updates between F and B."""
    version, peak, read, delays = 0, 1, {}, []
    for action in actions:
        if action.op == "F":
            read[action.first_microbatch] = version
        elif action.op == "B":
            delays.append(version - read.pop(action.first_microbatch))
        elif action.op == "U":
            version += 1
        peak = max(peak, len({*read.values(), version}))
    return peak, delays
