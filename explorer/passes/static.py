"""Static pass: every task starts when its predecessors have ended; the longest path over arrays.

The result is exact unless a shared resource is asked for more than it has in the pass's own timeline; that is
checked afterwards, and if it happens the `events` pass decides.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.caching import remembered
from explorer.base.compiling import kernel
from explorer.passes.timing import FloatArray, Shares, Tasks, Timing

IntArray = npt.NDArray[np.int64]

TOLERANCE = 1e-9
"""Relative excess of demand over capacity up to which a resource counts as full, not over-full."""
ROUNDING = 1e-12
"""Relative difference of times up to which they count as the same moment."""


def run_static(tasks: Tasks, seconds: FloatArray) -> Timing:
    """Time all tasks, given the seconds of every slot."""
    durations = seconds[tasks.slot]
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


def overfull_resources(tasks: Tasks, timing: Timing, shares: Shares) -> list[str]:
    """List the shared resources that the timeline asks for more than they have, by name."""
    return [shares.names[resource] for resource in _suspects_of(tasks, shares).overfull(timing)]


class _Users(NamedTuple):
    """Tasks that use one resource."""

    resource: int
    capacity: float
    tasks: npt.NDArray[np.int64]
    demand: FloatArray
    """Demand of each task."""
    by_channel: tuple[npt.NDArray[np.int64], ...]
    """Tasks of each channel, in the order in which the channel runs them."""


class _Suspects:
    """Resources to check; those that only two channels use in turn are checked all at once."""

    def __init__(self, users: list[_Users]) -> None:
        self.others = [item for item in users if not _takes_turns(item)]
        self.turns = [item for item in users if _takes_turns(item)]
        pairs = [item.by_channel for item in self.turns]
        empty = np.zeros(0, dtype=np.int64)
        self.one = np.concatenate([one for one, _ in pairs] or [empty])
        self.other = np.concatenate([other for _, other in pairs] or [empty])
        numbers = np.arange(len(pairs))
        self.one_of = np.repeat(numbers, [len(one) for one, _ in pairs])
        self.other_of = np.repeat(numbers, [len(other) for _, other in pairs])

    def overfull(self, timing: Timing) -> list[int]:
        """Return the numbers of resources that are asked for too much."""
        found = [item.resource for item in self.others if _too_much(item, timing)]
        return found + [item.resource for item in self._overlapping(timing) if _too_much(item, timing)]

    def _overlapping(self, timing: Timing) -> list[_Users]:
        """Return the resources used in turn whose two channels overlap after all.

        Each resource's times are shifted behind those of the resource before, so one sorted search serves
        all. Shifting rounds times by less than `ROUNDING` of the whole; whatever that flags wrongly is
        checked exactly.
        """
        if not self.turns:
            return []
        away = 2.0 * float(timing.end_s.max(initial=0.0)) + 1.0
        ends = timing.end_s[self.other] * (1 - ROUNDING) + away * self.other_of
        following = np.searchsorted(ends, timing.start_s[self.one] + away * self.one_of, side="right")
        following = np.minimum(following, len(self.other) - 1)
        same = self.other_of[following] == self.one_of
        begun = timing.start_s[self.other[following]] < timing.end_s[self.one] * (1 - ROUNDING)
        unfinished = timing.end_s[self.other[following]] > timing.start_s[self.one]
        return [self.turns[number] for number in np.unique(self.one_of[same & begun & unfinished])]


def _takes_turns(users: _Users) -> bool:
    """Tell whether only two channels use a resource and neither alone asks too much."""
    return len(users.by_channel) == 2 and users.demand.max() <= users.capacity * (1 + TOLERANCE)


def _too_much(users: _Users, timing: Timing) -> bool:
    return _peak(users, timing) > users.capacity * (1 + TOLERANCE)


@remembered(256, total=100_000, size_of=lambda tasks, _: tasks.size)
def _suspects_of(tasks: Tasks, shares: Shares) -> _Suspects:
    return _Suspects(_suspects(tasks, shares))


def _suspects(tasks: Tasks, shares: Shares) -> list[_Users]:
    """Return the resources whose users could together ask too much, each exclusive channel counted once."""
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


def _peak(users: _Users, timing: Timing) -> float:
    """Return the largest sum of demands at one time; tasks that end when others start do not overlap."""
    start, end = timing.start_s[users.tasks], timing.end_s[users.tasks]
    lasting = end > start
    # ends a rounding error after a start are the same moment; equal ends come before starts (stable sort)
    times = np.concatenate([end[lasting] * (1 - ROUNDING), start[lasting]])
    changes = np.concatenate([-users.demand[lasting], users.demand[lasting]])
    return float(np.max(np.cumsum(changes[np.argsort(times, kind="stable")]), initial=0.0))
