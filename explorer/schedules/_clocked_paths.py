"""Longest paths of orders by the clock (`_paths.clocked`) as a loop, compiled where there are many."""

from __future__ import annotations

import math
from typing import Any

from explorer.base.compiling import kernel


def _rounds(m: Any, _forward: Any, _gradient: Any, _weight: Any, _transfer: Any, turns: Any, *_: Any) -> int:
    return len(m) * len(turns) // 2  # what arrays take instead


@kernel(results=1, rounds=_rounds)
def clocked_paths(
    m: Any,
    forward: Any,
    gradient: Any,
    weight: Any,
    transfer: Any,
    turns: Any,
    under_way: Any,
    lag: Any,
    split: Any,
    once: Any,
    down: Any,
    forwards: Any,
    backwards: Any,
    cycles: Any,
    around: Any,
    best: Any,
) -> None:
    """Fill the seconds from the first forward of stage 0 to its last gradient.

    Args:
        m: (N,) microbatches.
        forward: (S N,) seconds of forwards, stage by stage; the others alike.
        gradient: (S N,) seconds of what goes back.
        weight: (S N,) seconds of weight gradients that come between; anything if `split` is 0.
        transfer: (S N - N,) seconds of transfers.
        turns: positions where the longest path may turn, in order.
        under_way: (S,) microbatches under way on each stage.
        lag: (S,) microbatches by which weight gradients lag behind.
        split: 1 if weight gradients come between, else 0.
        once: (S N,) room.
        down: (S N,) room.
        forwards: (N,) room.
        backwards: (N,) room.
        cycles: (N,) room.
        around: (N,) room.
        best: (N,) the seconds.
    """
    n, p = len(m), len(under_way)
    for k in range(p * n):
        once[k] = forward[k] + gradient[k]
    for k in range(n):
        down[k] = forwards[k] = backwards[k] = cycles[k] = best[k] = 0.0
    for k in range(n, p * n):
        step = once[k - n] + 2.0 * transfer[k - n]
        down[k] = down[k - n] + step
    for r in turns:
        at = r * n
        for k in range(n):
            forwards[k] = max(forwards[k], forward[at + k])
            backwards[k] = max(backwards[k], gradient[at + k])
            around[k] = 0.0
        for i in turns:
            if i > r or not (r == p - 1 or i == 0 or i >= r - 1):
                continue
            top, moves = i * n, under_way[i] - under_way[r] + 1
            for k in range(n):
                cycle = down[at + k] + once[at + k] - down[top + k]
                rounds = m[k] - 1 - under_way[i]
                if rounds >= 0:
                    times = math.floor(rounds / moves)
                    alone = rounds * once[top + k]
                    wide = times * cycle + (rounds - times * moves) * once[top + k]
                    if split:
                        alone = alone + max(rounds + 1 - lag[i], 0.0) * weight[top + k]
                        wide = wide + max(rounds - times * (moves - 1) - lag[i], 0.0) * weight[top + k]
                    around[k] = max(around[k], max(alone, wide) + cycle)
        for k in range(n):
            ahead = min(float(under_way[r]), m[k]) - 1.0
            cycles[k] = max(cycles[k], around[k] + ahead * backwards[k])
            best[k] = max(best[k], down[at + k] + once[at + k] + ahead * forwards[k] + cycles[k])
