"""Split backward: a schedule made from another, whose weight gradients run later than its input gradients."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from explorer.actions import BACKWARD, INPUT_GRAD, UPDATE, WEIGHT_GRAD, Action, Order, Shape
from explorer.schedules._clock import Clock, one_step
from explorer.schedules._common import each_step, turns, updates

Lag = Callable[[int, int], float]
"""For a stage and copy: by how many of its input gradients a weight gradient lags behind its own."""


def at_the_end(_stage: int, _copy: int) -> float:
    """Lag weight gradients until the last input gradient of the step."""
    return float("inf")


def split_backward(actions: Iterable[Action], lag: Lag) -> list[Action]:
    """Return the actions of a lane with every B made an I, and its W moved back by so many I of that stage.

    Weight gradients still owed at an update, or at the end, run just before it.

    >>> lane = [Action(op, 0, n) for op, n in (("F", 0), ("F", 1), ("B", 0), ("B", 1))]
    >>> " ".join(map(str, split_backward(lane, lambda stage, copy: 1)))
    '0F0 0F1 0I0 0I1 0W0 0W1'
    """
    made: list[Action] = []
    owed: dict[tuple[int, int], deque[Action]] = defaultdict(deque)

    def pay() -> None:
        for waiting in owed.values():
            made.extend(waiting)
            waiting.clear()

    for action in actions:
        if action.op == UPDATE:
            pay()
        if action.op != BACKWARD:
            made.append(action)
            continue
        made.append(action._replace(op=INPUT_GRAD))
        waiting = owed[action.stage, action.copy]
        waiting.append(action._replace(op=WEIGHT_GRAD))
        if len(waiting) > lag(action.stage, action.copy):
            made.append(waiting.popleft())
    pay()
    return made


def rejoined(actions: Iterable[Action], shape: Shape) -> list[Action]:
    """Return the actions with every I of a first stage made a B again if its W follows at once.

    Nobody waits for that input gradient, so nothing is won by two halves, and between them the output
    gradients of the whole stage would have to be kept.

    >>> lane = [Action(op, 0, 0) for op in "FIW"]
    >>> " ".join(map(str, rejoined(lane, Shape(stages=1, edges=(), lanes=((),), microbatches=(1,)))))
    '0F0 0B0'
    """
    waited_for = {target for _, target in shape.edges}
    made: list[Action] = []
    for action in actions:
        whole = made and action.op == WEIGHT_GRAD and made[-1] == action._replace(op=INPUT_GRAD)
        if whole and action.stage not in waited_for:
            made[-1] = action._replace(op=BACKWARD)
        else:
            made.append(action)
    return made


def split_order(order: Order, lag: Lag) -> Order:
    """Split all backwards of an order."""
    return replace(order, lanes=tuple(tuple(split_backward(lane, lag)) for lane in order.lanes))


def levelled(shape: Shape, clock: Clock, *, steps: int) -> Order:
    """Return the order of a clock with split backwards, every stage holding as much as the fullest one."""
    lag = level_lag(shape, clock)
    lanes = each_step(
        shape,
        steps,
        lambda places, step: [
            *rejoined(split_backward(one_step(shape, clock, places, step), lag), shape),
            *updates(shape, places, step),
        ],
    )
    return Order(lanes=lanes, steps=steps)


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
