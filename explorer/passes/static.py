"""Static pass: every task starts when its predecessors have ended; the longest path over arrays.

Exact whenever no shared resource is asked for more than it has in the pass's own timeline; that is
checked after, and where it fails the `events` pass decides.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.identity import IdentityCache
from explorer.passes.timing import FloatArray, Shares, Tasks, Timing

TOLERANCE = 1e-9
"""Relative excess of demand over capacity that still counts as full, not over-full."""
ROUNDING = 1e-12
"""Relative difference of times that still counts as the same moment."""


def run_static(tasks: Tasks, seconds: FloatArray) -> Timing:
    """Times of all tasks, given the seconds of every slot.

    The loop is plain Python on purpose: at two predecessors a task it needs about 0.07 microseconds
    a task, less than NumPy by level needs for the graphs met here.
    """
    durations = seconds[tasks.slot]
    end = [0.0]
    add = end.append
    for a, b, duration in zip(tasks.first, tasks.second, durations.tolist(), strict=True):
        x, y = end[a], end[b]
        add((x if x > y else y) + duration)
    ends = np.array(end[1:])
    return Timing(start_s=ends - durations, end_s=ends, pass_name="static")


def overfull_resources(tasks: Tasks, timing: Timing, shares: Shares) -> list[str]:
    """Names of shared resources that the timeline asks for more than they have."""
    suspects = _SUSPECTS.get((tasks, shares), None, lambda: _suspects(tasks, shares))
    return [
        shares.names[users.resource]
        for users in suspects
        if _overlapping(users, timing) and _peak(users, timing) > users.capacity * (1 + TOLERANCE)
    ]


class _Users(NamedTuple):
    """Tasks that use one resource."""

    resource: int
    capacity: float
    tasks: npt.NDArray[np.int64]
    demand: FloatArray
    """Per task."""
    by_channel: tuple[npt.NDArray[np.int64], ...]
    """The tasks of each channel, in the order in which it runs them."""


_SUSPECTS = IdentityCache(256)


def _suspects(tasks: Tasks, shares: Shares) -> list[_Users]:
    """Resources whose users could together ask too much, each exclusive channel counted once."""
    amount: dict[int, dict[int, float]] = defaultdict(dict)
    for slot, asked in enumerate(shares.demands):
        for resource, part in asked:
            amount[resource][slot] = amount[resource].get(slot, 0.0) + part
    found = []
    for resource, by_slot in amount.items():
        of_slot = np.zeros(len(shares.demands))
        of_slot[list(by_slot)] = list(by_slot.values())
        demand = of_slot[tasks.slot]
        users = np.flatnonzero(demand > 0)
        channels = tasks.channel[users]
        distinct = np.unique(channels)
        most = sum(float(demand[users[channels == channel]].max()) for channel in distinct)
        capacity = float(shares.capacity[resource])
        if most > capacity * (1 + TOLERANCE):
            by_channel = tuple(users[channels == channel] for channel in distinct)
            found.append(_Users(resource, capacity, users, demand[users], by_channel))
    return found


def _overlapping(users: _Users, timing: Timing) -> bool:
    """Whether demands can add up; quick for the common case of two channels that alone ask little."""
    if len(users.by_channel) != 2 or users.demand.max() > users.capacity * (1 + TOLERANCE):
        return True
    one, other = users.by_channel
    ends = timing.end_s[other] * (1 - ROUNDING)
    following = np.searchsorted(ends, timing.start_s[one], side="right")
    inside = following < len(other)
    starts = timing.start_s[other][following[inside]]
    return bool(np.any(starts < timing.end_s[one][inside] * (1 - ROUNDING)))


def _peak(users: _Users, timing: Timing) -> float:
    """Largest sum of demands at one time; tasks that end when others start do not overlap."""
    start, end = timing.start_s[users.tasks], timing.end_s[users.tasks]
    lasting = end > start
    # ends a rounding error after a start are the same moment; equal ends come before starts (stable sort)
    times = np.concatenate([end[lasting] * (1 - ROUNDING), start[lasting]])
    changes = np.concatenate([-users.demand[lasting], users.demand[lasting]])
    return float(np.max(np.cumsum(changes[np.argsort(times, kind="stable")]), initial=0.0))
