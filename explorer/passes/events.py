"""Events pass: the same tasks as in `static`, at the rates that shared resources leave them.

If no resource is over-full, every rate is 1 and the result equals the static pass. The rules are those of
`explorer.passes.rates`, and so are the results, bit for bit; here tasks and resources are numbered before
time runs, so that the whole pass is one kernel over arrays. What happens at one moment touches only the users
of resources that give another share than before: a resource that stays within its capacity changes nobody's
rate. A running task has a seat; there are about as many as channels, and what the kernel looks at all the
time stays small.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.caching import remembered
from explorer.base.compiling import kernel
from explorer.passes.timing import FloatArray, IntArray, Shares, Tasks, Timing

ByteArray = npt.NDArray[np.int8]

TOLERANCE = 1e-9
"""Relative excess of demand over capacity up to which a resource counts as full, not over-full."""


def run_events(tasks: Tasks, seconds: FloatArray, shares: Shares) -> Timing:
    """Time all tasks under shared rates: each begins when its predecessors have ended."""
    size, resources = tasks.size, len(shares.capacity)
    asked = _demands(tasks, shares)
    missing, after_at, after = _successors(tasks)
    start, end = np.zeros(size), np.zeros(size)
    let_time_run(
        seconds, tasks.slot, after_at, after, missing.copy(), _room(size),
        *asked, shares.capacity,
        _room(asked.user_at[-1]), _room(resources), np.zeros(resources), np.ones(resources), _room(resources),
        _room(size), _room(size), _room(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size),
        start, end,
    )  # fmt: skip
    return Timing(start_s=start, end_s=end, pass_name="events")


def _room(size: int) -> IntArray:
    return np.empty(size, dtype=np.int64)


class _Demands(NamedTuple):
    """Demands of all slots, one after the other."""

    at: IntArray
    """First demand of each slot; its demands end where the next slot's begin."""
    resource: IntArray
    """Resource of each demand."""
    amount: FloatArray
    """Amount of each demand."""
    user_at: IntArray
    """Where the users of each resource find room."""


@remembered(256, total=100_000, size_of=lambda tasks, _: tasks.size)
def _demands(tasks: Tasks, shares: Shares) -> _Demands:
    counts = np.array([len(asked) for asked in shares.demands], dtype=np.int64)
    pairs = [pair for asked in shares.demands for pair in asked]
    resource = np.array([number for number, _ in pairs], dtype=np.int64)
    uses = np.repeat(np.bincount(tasks.slot, minlength=len(counts)), counts)
    room = np.bincount(resource, weights=uses, minlength=len(shares.capacity)).astype(np.int64)
    return _Demands(
        at=np.concatenate(([0], np.cumsum(counts))),
        resource=resource,
        amount=np.array([part for _, part in pairs], dtype=np.float64),
        user_at=np.concatenate(([0], np.cumsum(room))),
    )


@remembered(256, total=100_000, size_of=lambda tasks: tasks.size)
def _successors(tasks: Tasks) -> tuple[ByteArray, IntArray, IntArray]:
    """Return the number of predecessors of each task, where its successors begin, and all successors, task by
    task, each task's in ascending order.
    """
    missing = np.zeros(tasks.size, dtype=np.int8)
    at, after = np.zeros(tasks.size + 2, dtype=np.int64), np.zeros(2 * tasks.size, dtype=np.int64)
    find_successors(tasks.first, tasks.second, missing, at, after)
    return missing, at, after


@kernel(results=3, rounds=lambda first, *_: 5 * len(first))
def find_successors(
    first: IntArray, second: IntArray, missing: ByteArray, at: IntArray, after: IntArray
) -> None:
    """Count the predecessors of each task, and list its successors in ascending order; all but `first` and
    `second` are zeros.
    """
    for task, (a, b) in enumerate(zip(first, second)):  # noqa: B905 - numba knows no `strict`
        missing[task] = (1 if a else 0) + (1 if b else 0)
        at[a + 1] += 1
        at[b + 1] += 1
    at[1] = 0
    for task in range(1, len(at)):
        at[task] += at[task - 1]
    # Each task's begin moves to its end while its successors are entered, that is to the next task's begin.
    for task, (a, b) in enumerate(zip(first, second)):  # noqa: B905
        if a:
            after[at[a]] = task
            at[a] += 1
        if b:
            after[at[b]] = task
            at[b] += 1


@kernel(results=2, rounds=lambda _, slot, *__: 30 * len(slot))
def let_time_run(
    seconds: FloatArray, slot: IntArray,
    after_at: IntArray, after: IntArray, missing: ByteArray, ready: IntArray,
    at: IntArray, resource: IntArray, amount: FloatArray, user_at: IntArray, capacity: FloatArray,
    user: IntArray, users: IntArray, load: FloatArray, give: FloatArray, changed: IntArray,
    heap: IntArray, place: IntArray, seated: IntArray,
    until: FloatArray, left: FloatArray, rate: FloatArray, since: FloatArray,
    start: FloatArray, end: FloatArray,
) -> None:  # fmt: skip
    """Go from one end of a task to the next, the earliest first, of several the task of the smallest number.

    Args:
        seconds: duration of each slot's tasks that nothing slows down.
        slot: slot of each task.
        after_at: first successor of each task, in `after`.
        after: successors, task by task.
        missing: predecessors that each task still waits for.
        ready: tasks that are to begin now (room).
        at: first demand of each slot.
        resource: resource of each demand.
        amount: amount of each demand.
        user_at: first user of each resource, in `user`.
        capacity: amount that each resource gives.
        user: seats of the tasks that use a resource now (room).
        users: number of tasks that use each resource now (room).
        load: amount that each resource is asked for now (zeros).
        give: fraction that each resource gives its users (ones).
        changed: resources that give another fraction (room).
        heap: taken seats, a binary heap by `until`, and behind them the free ones (room).
        place: place of each taken seat in the heap (room).
        seated: task of each taken seat (room).
        until: time at which that task ends if its rate stays (room).
        left: seconds of its work that were left when it got its rate (room).
        rate: its rate; 0 as long as it has none (room).
        since: time since when it has its rate (room).
        start: start of each task.
        end: end of each task.
    """
    waiting = _first(missing, users, ready)
    running, seats, now = 0, 0, 0.0
    while True:
        for i in range(waiting):
            task = ready[i]
            if running == seats:
                heap[running] = seats
                seats += 1
            seat, duration = heap[running], seconds[slot[task]]
            start[task], seated[seat], place[seat], until[seat] = now, task, running, now + duration
            left[seat], rate[seat], since[seat] = duration, 0.0, now
            _rise(seat, heap, place, seated, until)
            running += 1
            first, last = at[slot[task]], at[slot[task] + 1]
            if first == last or duration <= 0:
                continue
            for k in range(first, last):
                number = resource[k]
                user[user_at[number] + users[number]] = seat
                users[number] += 1
                load[number] += amount[k]
            _rescale(
                now, first, last, slot, at, resource, user_at, capacity, user, users, load, give, changed,
                running, heap, place, seated, until, left, rate, since,
            )  # fmt: skip
            if rate[seat] == 0:
                _set_rate(
                    now, seat, slot, at, resource, give,
                    running, heap, place, seated, until, left, rate, since,
                )  # fmt: skip
        if running == 0:
            return
        seat = heap[0]
        task, now = seated[seat], until[seat]
        end[task] = now
        running -= 1
        heap[0], heap[running] = heap[running], seat
        place[heap[0]] = 0
        _sink(heap[0], running, heap, place, seated, until)
        first, last = at[slot[task]], at[slot[task] + 1]
        if first < last and seconds[slot[task]] > 0:
            for k in range(first, last):
                number = resource[k]
                users[number] -= 1
                _remove(seat, user_at[number], user_at[number] + users[number], user)
                load[number] = load[number] - amount[k] if users[number] else 0.0
            _rescale(
                now, first, last, slot, at, resource, user_at, capacity, user, users, load, give, changed,
                running, heap, place, seated, until, left, rate, since,
            )  # fmt: skip
        waiting = 0
        for k in range(after_at[task], after_at[task + 1]):
            missing[after[k]] -= 1
            if missing[after[k]] == 0:
                ready[waiting] = after[k]
                waiting += 1


def _first(missing: ByteArray, users: IntArray, ready: IntArray) -> int:
    """List the tasks that wait for nothing, and return how many there are; no resource has a user yet."""
    count = 0
    for task, number in enumerate(missing):
        if number == 0:
            ready[count] = task
            count += 1
    for resource in range(len(users)):
        users[resource] = 0
    return count


def _rescale(
    now: float, first: int, last: int,
    slot: IntArray, at: IntArray, resource: IntArray, user_at: IntArray, capacity: FloatArray,
    user: IntArray, users: IntArray, load: FloatArray, give: FloatArray, changed: IntArray,
    running: int, heap: IntArray, place: IntArray, seated: IntArray,
    until: FloatArray, left: FloatArray, rate: FloatArray, since: FloatArray,
) -> None:  # fmt: skip
    """Give the users of some demands' resources their new rates, where these give another fraction now."""
    count = 0
    for k in range(first, last):
        number = resource[k]
        fraction = 1.0
        if load[number] > capacity[number] * (1 + TOLERANCE):
            fraction = capacity[number] / load[number]
        if fraction != give[number]:
            give[number] = fraction
            changed[count] = number
            count += 1
    for i in range(count):
        begin = user_at[changed[i]]
        for k in range(begin, begin + users[changed[i]]):
            _set_rate(
                now, user[k], slot, at, resource, give, running, heap, place, seated, until, left, rate, since
            )  # fmt: skip


def _set_rate(
    now: float, seat: int, slot: IntArray, at: IntArray, resource: IntArray, give: FloatArray,
    running: int, heap: IntArray, place: IntArray, seated: IntArray,
    until: FloatArray, left: FloatArray, rate: FloatArray, since: FloatArray,
) -> None:  # fmt: skip
    """Let a task go on at the smallest of the fractions that it is given, from now."""
    least = 1.0
    for k in range(at[slot[seated[seat]]], at[slot[seated[seat]] + 1]):
        if give[resource[k]] < least:
            least = give[resource[k]]
    if least != rate[seat]:
        left[seat] -= (now - since[seat]) * rate[seat]
        since[seat], rate[seat], until[seat] = now, least, now + left[seat] / least
        _rise(seat, heap, place, seated, until)
        _sink(seat, running, heap, place, seated, until)


def _remove(seat: int, first: int, last: int, user: IntArray) -> None:
    """Take a seat out of the users from `first` to `last`, which takes its place."""
    for k in range(first, last):
        if user[k] == seat:
            user[k] = user[last]
            return


def _rise(seat: int, heap: IntArray, place: IntArray, seated: IntArray, until: FloatArray) -> None:
    """Move a seat up the heap until its task ends after the one above, or is the first."""
    k = place[seat]
    while k > 0:
        above = heap[(k - 1) >> 1]
        if until[above] < until[seat] or (until[above] == until[seat] and seated[above] < seated[seat]):
            break
        heap[k], place[above] = above, k
        k = (k - 1) >> 1
    heap[k], place[seat] = seat, k


def _sink(
    seat: int, running: int, heap: IntArray, place: IntArray, seated: IntArray, until: FloatArray
) -> None:
    """Move a seat down the heap until its task ends before those below."""
    k = place[seat]
    while 2 * k + 1 < running:
        below = 2 * k + 1
        least = heap[below]
        if below + 1 < running:
            other = heap[below + 1]
            if until[other] < until[least] or (
                until[other] == until[least] and seated[other] < seated[least]
            ):
                below, least = below + 1, other
        if until[seat] < until[least] or (until[seat] == until[least] and seated[seat] < seated[least]):
            break
        heap[k], place[least] = least, k
        k = below
    heap[k], place[seat] = seat, k
