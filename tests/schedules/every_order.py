"""Every order of a short pipeline with split backwards, to find the best by trying all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product

Counts = tuple[int, int, int]
"""Forwards, input gradients and weight gradients done."""


@cache
def sequences(m: int, cap: float) -> tuple[str, ...]:
    """All orders of the F, I and W of one lane, with at most `cap` microbatches between F and W."""

    def more(done: Counts) -> Iterator[str]:
        f, i, w = done
        if w == m:
            yield ""
        if f < m and f - w + 1 <= cap:
            yield from ("F" + rest for rest in more((f + 1, i, w)))
        if i < f:
            yield from ("I" + rest for rest in more((f, i + 1, w)))
        if w < i:
            yield from ("W" + rest for rest in more((f, i, w + 1)))

    return tuple(more((0, 0, 0)))


def shortest_span(
    p: int, m: int, cap: float, seconds: Sequence[tuple[float, float, float]], transfer_s: float = 0.0
) -> float:
    """The least that the slowest lane takes from its first start to its last end, over all orders.

    Args:
        p: lanes, one stage each.
        m: microbatches.
        cap: most microbatches of a lane between F and W.
        seconds: F, I and W of every stage.
        transfer_s: seconds from lane to lane, beside all work.
    """
    best = math.inf
    for lanes in product(sequences(m, cap), repeat=p):
        best = min(best, span(lanes, seconds, transfer_s, best))
    return best


def span(
    lanes: Sequence[str], seconds: Sequence[tuple[float, float, float]], transfer_s: float, best: float
) -> float:
    """The time of the slowest lane; infinite if the orders block each other, or it is `best` or more."""
    last = len(lanes) - 1
    at, clock, begun = [0] * len(lanes), [0.0] * len(lanes), [0.0] * len(lanes)
    forward: list[list[float]] = [[] for _ in lanes]
    gradient: list[list[float]] = [[] for _ in lanes]
    moving = True
    while moving:
        moving = False
        for r, lane in enumerate(lanes):
            while at[r] < len(lane):
                op, ready = lane[at[r]], 0.0
                if op != "W":
                    mine, other = (forward, r - 1) if op == "F" else (gradient, r + 1)
                    if 0 <= other <= last:
                        if len(mine[other]) <= len(mine[r]):
                            break
                        ready = mine[other][len(mine[r])] + transfer_s
                start = max(clock[r], ready)
                begun[r] = start if at[r] == 0 else begun[r]
                clock[r] = start + seconds[r]["FIW".index(op)]
                if op != "W":
                    mine[r].append(clock[r])
                if clock[r] - begun[r] >= best:
                    return math.inf
                at[r] += 1
                moving = True
    done = all(at[r] == len(lane) for r, lane in enumerate(lanes))
    return max(c - b for c, b in zip(clock, begun, strict=True)) if done else math.inf
