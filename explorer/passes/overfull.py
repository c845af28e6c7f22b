"""Resources that a timeline asks for more than they have: where there is one, the static pass is not exact.

Only resources whose users could together ask too much are suspected; they are found once for a program and
its demands. As a channel runs its tasks one after the other, each timeline is looked at channel by channel:
compiled by merging them, else over arrays.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from explorer.base.caching import remembered
from explorer.base.compiling import kernel
from explorer.passes.timing import FloatArray, IntArray, Shares, Tasks, Timing
from explorer.tasks.indexing import BoolArray, sorting

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


class _Table(NamedTuple):
    """Tasks that use some resources, resource by resource and channel by channel."""

    resource: IntArray
    capacity: FloatArray
    channel_at: IntArray
    """First channel of each resource, and the end."""
    task_at: IntArray
    """First task of each channel, and the end."""
    task: IntArray
    """Tasks of each channel, in the order in which the channel runs them."""
    demand: FloatArray
    """Demand of each task."""

    def some(self, chosen: BoolArray) -> _Table:
        """Return the table of some of the resources."""
        if chosen.all():
            return self
        channels, tasks = np.diff(self.channel_at), np.diff(self.task_at)
        own = np.repeat(chosen, channels)
        inside = np.repeat(own, tasks)
        return _Table(
            self.resource[chosen], self.capacity[chosen], _starts(channels[chosen]), _starts(tasks[own]),
            self.task[inside], self.demand[inside],
        )  # fmt: skip

    def users(self) -> list[_Users]:
        """Return the users of each resource."""
        found = []
        for number, (resource, capacity) in enumerate(
            zip(self.resource.tolist(), self.capacity.tolist(), strict=True)
        ):
            ends = self.task_at[self.channel_at[number] : self.channel_at[number + 1] + 1].tolist()
            own = slice(ends[0], ends[-1])
            parts = tuple(self.task[a:b] for a, b in pairwise(ends))
            found.append(_Users(resource, capacity, self.task[own], self.demand[own], parts))
        return found


def _starts(counts: IntArray) -> IntArray:
    """Return where each of some runs begins, and the end."""
    return np.concatenate([[0], np.cumsum(counts)])


class _Suspects:
    """Resources to check."""

    def __init__(self, table: _Table) -> None:
        merged = np.diff(table.channel_at) <= MOST_MERGED
        self.few, self.many = table.some(merged), table.some(~merged).users()
        self.most = self.few.capacity * (1 + TOLERANCE)

    @cached_property
    def sorted(self) -> tuple[_Turns, list[_Users]]:
        """The few as resources that two channels use in turn, and others."""
        users = self.few.users()
        turns = _Turns([item for item in users if _takes_turns(item)])
        return turns, [item for item in users if not _takes_turns(item)]

    def overfull(self, timing: Timing) -> Iterator[int]:
        """Find the numbers of resources that are asked for too much, one after the other."""
        few = self.few
        given = (
            self.most, few.channel_at, few.task_at, few.task, few.demand, timing.start_s, timing.end_s
        )  # fmt: skip
        room = np.zeros(len(few.task_at)), np.zeros(len(few.task_at), dtype=np.int64)
        if next_overfull.compiles(0, *given, *room):
            found = -1
            while (found := next_overfull(found + 1, *given, *room)) >= 0:
                yield int(few.resource[found])
        else:
            turns, others = self.sorted
            yield from (item.resource for item in others if _too_much(item, timing))
            yield from (item.resource for item in turns.overlapping(timing) if _too_much(item, timing))
        yield from (item.resource for item in self.many if _too_much(item, timing))


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


def _suspects(tasks: Tasks, shares: Shares) -> _Table:
    """Return the resources whose users could together ask too much, each exclusive channel counted once."""
    slot, resource, amount = _amounts(shares)
    counts = np.bincount(slot, minlength=len(shares.demands))
    at = np.cumsum(counts) - counts
    asking = np.flatnonzero((counts > 0)[tasks.slot])
    slots = tasks.slot[asking]
    each = counts[slots]
    task = np.repeat(asking, each)  # once for every resource that it uses
    asked = np.arange(len(task)) + np.repeat(at[slots] - (np.cumsum(each) - each), each)
    width = int(tasks.channel.max(initial=0)) + 2
    key = resource[asked] * width + tasks.channel[task] + 1
    order = sorting(key)
    task, demand, key = task[order], amount[asked[order]], key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    owner = key[first] // width
    most = np.zeros(len(shares.capacity))
    if len(first):
        np.add.at(most, owner, np.maximum.reduceat(demand, first))
    channels = np.bincount(owner, minlength=len(shares.capacity))
    table = _Table(
        np.arange(len(shares.capacity)), np.asarray(shares.capacity), _starts(channels),
        np.append(first, len(task)), task, demand,
    )  # fmt: skip
    return table.some(most > shares.capacity * (1 + TOLERANCE))


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
