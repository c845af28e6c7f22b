"""Resources that a timeline asks for more than they have: where there is one, the static pass is not exact.

Only resources whose users could together ask too much are suspected; they are found once for a program and
its demands. As a channel runs its tasks one after the other, each timeline is looked at channel by channel:
compiled by merging them, else over arrays.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from explorer.base.caching import remembered
from explorer.base.compiling import kernel
from explorer.passes.timing import FloatArray, IntArray, Shares, Tasks, Timing

TOLERANCE = 1e-9
"""Relative excess of demand over capacity up to which a resource counts as full, not over-full."""
ROUNDING = 1e-12
"""Relative difference of times up to which they count as the same moment."""
MOST_MERGED = 16
"""Channels of a resource up to which merging them is faster than sorting."""


def is_overfull(tasks: Tasks, timing: Timing, shares: Shares) -> bool:
    """Tell whether the timeline asks any shared resource for more than it has."""
    return next(_suspects_of(tasks, shares).overfull(timing), None) is not None


def overfull_resources(tasks: Tasks, timing: Timing, shares: Shares) -> list[str]:
    """List the shared resources that the timeline asks for more than they have, by name."""
    return [shares.names[resource] for resource in sorted(_suspects_of(tasks, shares).overfull(timing))]


class _Users(NamedTuple):
    """Tasks that use one resource."""

    resource: int
    capacity: float
    tasks: IntArray
    """All of them, channel by channel."""
    demand: FloatArray
    """Demand of each task."""
    by_channel: tuple[IntArray, ...]
    """Tasks of each channel, in the order in which the channel runs them."""


class _Suspects:
    """Resources to check."""

    def __init__(self, users: list[_Users]) -> None:
        self.many = [item for item in users if len(item.by_channel) > MOST_MERGED]
        self.few = [item for item in users if len(item.by_channel) <= MOST_MERGED]
        self.turns = _Turns([item for item in self.few if _takes_turns(item)])
        self.others = [item for item in self.few if not _takes_turns(item)]
        self.channels = _channels(self.few)

    def overfull(self, timing: Timing) -> Iterator[int]:
        """Find the numbers of resources that are asked for too much, one after the other."""
        given = *self.channels, timing.start_s, timing.end_s
        room = np.zeros(len(self.channels[2])), np.zeros(len(self.channels[2]), dtype=np.int64)
        if next_overfull.compiles(0, *given, *room):
            found = -1
            while (found := next_overfull(found + 1, *given, *room)) >= 0:
                yield self.few[found].resource
        else:
            yield from (item.resource for item in self.others if _too_much(item, timing))
            yield from (item.resource for item in self.turns.overlapping(timing) if _too_much(item, timing))
        yield from (item.resource for item in self.many if _too_much(item, timing))


def _channels(users: list[_Users]) -> tuple[FloatArray, IntArray, IntArray, IntArray, FloatArray]:
    """Return the most that each resource can be asked for; where its channels begin; where each channel's
    tasks begin; tasks and their demands, channel by channel.
    """
    lists = [tasks for item in users for tasks in item.by_channel]
    return (
        np.array([item.capacity * (1 + TOLERANCE) for item in users]),
        np.array([0, *accumulate(len(item.by_channel) for item in users)], dtype=np.int64),
        np.array([0, *accumulate(map(len, lists))], dtype=np.int64),
        np.concatenate([np.zeros(0, dtype=np.int64), *(item.tasks for item in users)]),
        np.concatenate([np.zeros(0), *(item.demand for item in users)]),
    )


@kernel(results=2, rounds=lambda _begin, _most, _at, _first, task, *_: len(task))
def next_overfull(
    begin: int, most: FloatArray, channel_at: IntArray, task_at: IntArray, task: IntArray, demand: FloatArray,
    start: FloatArray, end: FloatArray, due: FloatArray, event: IntArray,
) -> int:  # fmt: skip
    """Find the first resource from `begin` on that is asked for more than it can be; -1 if there is none.

    Args:
        begin: number of the first resource to look at.
        most: the most that each resource can be asked for.
        channel_at: first channel of each resource.
        task_at: first task of each channel, in `task`.
        task: tasks, channel by channel.
        demand: demand of each of them.
        start: start of every task.
        end: end of every task.
        due: time of each channel's next event.
        event: each channel's next event: 2 i for the start of its task i, 2 i + 1 for the end.
    """
    for number in range(begin, len(most)):
        low, high = channel_at[number], channel_at[number + 1]
        for channel in range(low, high):
            event[channel] = _lasting(2 * task_at[channel], task_at[channel + 1], task, start, end)
            due[channel] = _time(event[channel], task_at[channel + 1], task, start, end)
        load = 0.0
        while load <= most[number]:
            # the earliest event; of several an end, as tasks that end when others start do not overlap
            channel = low
            for other in range(low + 1, high):
                if due[other] < due[channel] or (due[other] == due[channel] and event[other] & 1):
                    channel = other
            place, until = event[channel], task_at[channel + 1]
            if place == 2 * until:
                break
            if place & 1:
                load -= demand[place >> 1]
                event[channel] = _lasting(place + 1, until, task, start, end)
            else:
                load += demand[place >> 1]
                event[channel] = place + 1
            due[channel] = _time(event[channel], until, task, start, end)
        else:
            return number
    return -1


def _lasting(event: int, until: int, task: IntArray, start: FloatArray, end: FloatArray) -> int:
    """Return the start of a channel's next task that takes any time."""
    while event < 2 * until and end[task[event >> 1]] * (1 - ROUNDING) <= start[task[event >> 1]]:
        event += 2
    return event


def _time(event: int, until: int, task: IntArray, start: FloatArray, end: FloatArray) -> float:
    """Return the time of an event; an end is a rounding error early, and what does not come is infinite."""
    if event >= 2 * until:
        return math.inf
    number = task[event >> 1]
    time: float = end[number] * (1 - ROUNDING) if event & 1 else start[number]
    return time


class _Turns:
    """Resources that only two channels use, in turn: checked all at once."""

    def __init__(self, users: list[_Users]) -> None:
        self.users = users
        pairs = [item.by_channel for item in users]
        empty = np.zeros(0, dtype=np.int64)
        self.one = np.concatenate([one for one, _ in pairs] or [empty])
        self.other = np.concatenate([other for _, other in pairs] or [empty])
        numbers = np.arange(len(pairs))
        self.one_of = np.repeat(numbers, [len(one) for one, _ in pairs])
        self.other_of = np.repeat(numbers, [len(other) for _, other in pairs])

    def overlapping(self, timing: Timing) -> list[_Users]:
        """Return the resources whose two channels overlap after all.

        Each resource's times are shifted behind those of the resource before, so one sorted search serves
        all. Shifting rounds times by less than `ROUNDING` of the whole; whatever that flags wrongly is
        checked exactly.
        """
        if not self.users:
            return []
        away = 2.0 * float(timing.end_s.max(initial=0.0)) + 1.0
        ends = timing.end_s[self.other] * (1 - ROUNDING) + away * self.other_of
        following = np.searchsorted(ends, timing.start_s[self.one] + away * self.one_of, side="right")
        following = np.minimum(following, len(self.other) - 1)
        same = self.other_of[following] == self.one_of
        begun = timing.start_s[self.other[following]] < timing.end_s[self.one] * (1 - ROUNDING)
        unfinished = timing.end_s[self.other[following]] > timing.start_s[self.one]
        return [self.users[number] for number in np.unique(self.one_of[same & begun & unfinished])]


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
    slot, resource, amount = _amounts(shares)
    counts = np.bincount(slot, minlength=len(shares.demands))
    at, each = np.cumsum(counts) - counts, counts[tasks.slot]
    task = np.repeat(np.arange(tasks.size), each)  # once for every resource that it uses
    asked = np.arange(len(task)) + np.repeat(at[tasks.slot] - (np.cumsum(each) - each), each)
    width = int(tasks.channel.max(initial=0)) + 2
    key = resource[asked] * width + tasks.channel[task] + 1
    short = len(shares.capacity) * width < 1 << 16  # NumPy sorts short numbers in linear time
    order = np.argsort(key.astype(np.uint16) if short else key, kind="stable")
    task, demand, key = task[order], amount[asked[order]], key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    ends, owner = np.append(first[1:], len(task)), key[first] // width
    most = np.zeros(len(shares.capacity))
    if len(first):
        np.add.at(most, owner, np.maximum.reduceat(demand, first))
    found = []
    for number in np.flatnonzero(most > shares.capacity * (1 + TOLERANCE)).tolist():
        low, high = np.searchsorted(owner, (number, number + 1)).tolist()
        own = slice(first[low], ends[high - 1])
        parts = tuple(task[a:b] for a, b in zip(first[low:high], ends[low:high], strict=True))
        found.append(_Users(number, float(shares.capacity[number]), task[own], demand[own], parts))
    return found


def _amounts(shares: Shares) -> tuple[IntArray, IntArray, FloatArray]:
    """Return (slot, resource, amount) of all demands above 0, slot by slot; those of one slot on one resource
    are one.
    """
    found: dict[tuple[int, int], float] = defaultdict(float)
    for slot, asked in enumerate(shares.demands):
        for resource, part in asked:
            found[slot, resource] += part
    rows = [(*key, part) for key, part in found.items() if part > 0]
    slots, resources, amounts = zip(*rows, strict=True) if rows else ((), (), ())
    return (
        np.array(slots, dtype=np.int64),
        np.array(resources, dtype=np.int64),
        np.array(amounts, dtype=float),
    )


def _peak(users: _Users, timing: Timing) -> float:
    """Return the largest sum of demands at one time; tasks that end when others start do not overlap."""
    start, end = timing.start_s[users.tasks], timing.end_s[users.tasks]
    lasting = end > start
    # ends a rounding error after a start are the same moment; equal ends come before starts (stable sort)
    times = np.concatenate([end[lasting] * (1 - ROUNDING), start[lasting]])
    changes = np.concatenate([-users.demand[lasting], users.demand[lasting]])
    return float(np.max(np.cumsum(changes[np.argsort(times, kind="stable")]), initial=0.0))
