"""Events pass: the same tasks as in `static`, at the rates that shared resources leave them.

If no resource is over-full, every rate is 1 and the result equals the static pass.
"""

from __future__ import annotations

import numpy as np

from explorer.passes.rates import Rates
from explorer.passes.timing import FloatArray, Shares, Tasks, Timing


def run_events(tasks: Tasks, seconds: FloatArray, shares: Shares) -> Timing:
    """Time all tasks under shared rates: each begins when its predecessors have ended."""
    duration, slot = seconds[tasks.slot].tolist(), tasks.slot.tolist()
    start, end = [0.0] * tasks.size, [0.0] * tasks.size
    missing, successors = _links(tasks)
    rates = Rates(shares.capacity.tolist())
    for task, count in enumerate(missing):
        if not count:
            rates.begin(task, duration[task], shares.demands[slot[task]], 0.0)
    while (found := rates.next_end()) is not None:
        now, task = found
        end[task] = now
        for after in successors[task]:
            missing[after] -= 1
            if not missing[after]:
                start[after] = now
                rates.begin(after, duration[after], shares.demands[slot[after]], now)
    return Timing(start_s=np.array(start), end_s=np.array(end), pass_name="events")


def _links(tasks: Tasks) -> tuple[list[int], list[list[int]]]:
    """Return the number of predecessors each task waits for, and its successors."""
    pairs = list(zip(tasks.first.tolist(), tasks.second.tolist(), strict=True))
    missing = [(a > 0) + (b > 0) for a, b in pairs]
    successors: list[list[int]] = [[] for _ in missing]
    for task, pair in enumerate(pairs):
        for before in pair:
            if before:
                successors[before - 1].append(task)
    return missing, successors
