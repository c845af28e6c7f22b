"""Events pass: the same tasks as in `static`, at the rates that shared resources leave them.

If no resource is over-full, every rate is 1 and the result equals the static pass. The rules are those of
`explorer.passes.rates`, and so are the results, bit for bit; here tasks and resources are numbered before
time runs, so that the whole pass is one kernel over arrays. What happens at one moment touches only the users
of resources that give another share than before: a resource that stays within its capacity changes nobody's
rate.
"""

from __future__ import annotations

import numpy as np

from explorer.base.caching import remembered
from explorer.base.compiling import kernel
from explorer.passes.timing import FloatArray, IntArray, Shares, Tasks, Timing

TOLERANCE = 1e-9
"""Relative excess of demand over capacity up to which a resource counts as full, not over-full."""


def run_events(tasks: Tasks, seconds: FloatArray, shares: Shares) -> Timing:
    """Time all tasks under shared rates: each begins when its predecessors have ended."""
    size, resources = tasks.size, len(shares.capacity)
    at, resource, amount, user_at = _tables(tasks, shares)
    start, end = np.zeros(size), np.zeros(size)
    let_time_run(
        tasks.first, tasks.second, seconds[tasks.slot], tasks.slot,
        at, resource, amount, shares.capacity,
        _room(size + 2), _room(2 * size), _room(size), _room(size), _room(size), _room(size),
        user_at, _room(user_at[-1]), _room(resources), np.zeros(resources), np.ones(resources),
        _room(resources), np.zeros(size), np.zeros(size), np.zeros(size), start, end,
    )  # fmt: skip
    return Timing(start_s=start, end_s=end, pass_name="events")


def _room(size: int) -> IntArray:
    return np.zeros(size, dtype=np.int64)


@remembered(256, total=400_000, size_of=lambda tasks, _: tasks.size)
def _tables(tasks: Tasks, shares: Shares) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Return the demands of all slots one after the other (where each slot's begin, resources, amounts), and
    where the users of each resource find room.
    """
    counts = np.array([len(asked) for asked in shares.demands], dtype=np.int64)
    at = np.concatenate(([0], np.cumsum(counts)))
    pairs = [pair for asked in shares.demands for pair in asked]
    resource = np.array([number for number, _ in pairs], dtype=np.int64)
    amount = np.array([part for _, part in pairs], dtype=np.float64)
    uses = np.repeat(np.bincount(tasks.slot, minlength=len(counts)), counts)
    room = np.bincount(resource, weights=uses, minlength=len(shares.capacity)).astype(np.int64)
    return at, resource, amount, np.concatenate(([0], np.cumsum(room)))


@kernel(results=2, rounds=lambda first, *_: 50 * len(first))
def let_time_run(
    first: IntArray, second: IntArray, duration: FloatArray, slot: IntArray,
    at: IntArray, resource: IntArray, amount: FloatArray, capacity: FloatArray,
    after_at: IntArray, after: IntArray, missing: IntArray, ready: IntArray, heap: IntArray, place: IntArray,
    user_at: IntArray, user: IntArray, users: IntArray, load: FloatArray, give: FloatArray, changed: IntArray,
    left: FloatArray, rate: FloatArray, since: FloatArray, start: FloatArray, end: FloatArray,
) -> None:  # fmt: skip
    """Go from one end of a task to the next, the earliest first, of several the task of the smallest number.

    Args:
        first: one predecessor + 1 of each task; 0 for none.
        second: another.
        duration: seconds of each task that nothing slows down.
        slot: slot of each task.
        at: first demand of each slot; its demands end where the next slot's begin.
        resource: resource of each demand.
        amount: amount of each demand.
        capacity: amount that each resource gives.
        after_at: first successor of each task, in `after` (zeros).
        after: successors, task by task (room).
        missing: predecessors that each task still waits for (room).
        ready: tasks in the order in which they begin (room).
        heap: running tasks, a binary heap by `end` (room).
        place: place of each running task in the heap (room).
        user_at: first user of each resource, in `user`.
        user: tasks that use a resource now (room).
        users: number of tasks that use each resource now (zeros).
        load: amount that each resource is asked for now (zeros).
        give: fraction that each resource gives its users (ones).
        changed: resources that give another fraction (room).
        left: seconds of work left of each task when it last changed its rate (room).
        rate: rate of each running task; 0 of one that has none yet (zeros).
        since: time from which it has that rate (room).
        start: start of each task.
        end: end of each task; of a running one, if its rate stays.
    """
    known = _find_successors(first, second, missing, after_at, after, ready)
    begun, running, now = 0, 0, 0.0
    while True:
        while begun < known:
            task = ready[begun]
            begun += 1
            start[task], left[task], since[task] = now, duration[task], now
            asked, until = at[slot[task]], at[slot[task] + 1]
            heap[running], place[task], end[task] = task, running, now + duration[task]
            running += 1
            if asked == until or duration[task] <= 0:
                _rise(running - 1, heap, place, end)
                continue
            for k in range(asked, until):
                number = resource[k]
                user[user_at[number] + users[number]] = task
                users[number] += 1
                load[number] += amount[k]
            _rescale(
                now, asked, until, at, slot, resource, capacity, user_at, user, users, load, give, changed,
                left, rate, since, heap, place, end, running,
            )  # fmt: skip
            if rate[task] == 0:
                _set_rate(now, task, at, slot, resource, give, left, rate, since, heap, place, end, running)
        if running == 0:
            return
        task = heap[0]
        now = end[task]
        running -= 1
        heap[0] = heap[running]
        _sink(0, running, heap, place, end)
        asked, until = at[slot[task]], at[slot[task] + 1]
        if asked < until and duration[task] > 0:
            for k in range(asked, until):
                number = resource[k]
                _remove(task, user_at[number], users[number], user)
                users[number] -= 1
                load[number] = load[number] - amount[k] if users[number] else 0.0
            _rescale(
                now, asked, until, at, slot, resource, capacity, user_at, user, users, load, give, changed,
                left, rate, since, heap, place, end, running,
            )  # fmt: skip
        for k in range(after_at[task], after_at[task + 1]):
            missing[after[k]] -= 1
            if missing[after[k]] == 0:
                ready[known] = after[k]
                known += 1


def _find_successors(
    first: IntArray, second: IntArray, missing: IntArray, after_at: IntArray, after: IntArray, ready: IntArray
) -> int:
    """Count the predecessors of each task, and list its successors in ascending order; return how many tasks
    have none to wait for, and list them.
    """
    known = 0
    for task, (a, b) in enumerate(zip(first, second)):  # noqa: B905 - numba knows no `strict`
        missing[task] = (1 if a else 0) + (1 if b else 0)
        if missing[task] == 0:
            ready[known] = task
            known += 1
        after_at[a + 1] += 1
        after_at[b + 1] += 1
    after_at[1] = 0
    for task in range(1, len(after_at)):
        after_at[task] += after_at[task - 1]
    # Each task's begin moves to its end while its successors are entered, that is to the next task's begin.
    for task, (a, b) in enumerate(zip(first, second)):  # noqa: B905
        if a:
            after[after_at[a]] = task
            after_at[a] += 1
        if b:
            after[after_at[b]] = task
            after_at[b] += 1
    return known


def _rescale(
    now: float, asked: int, until: int,
    at: IntArray, slot: IntArray, resource: IntArray, capacity: FloatArray,
    user_at: IntArray, user: IntArray, users: IntArray, load: FloatArray, give: FloatArray, changed: IntArray,
    left: FloatArray, rate: FloatArray, since: FloatArray, heap: IntArray, place: IntArray, end: FloatArray,
    running: int,
) -> None:  # fmt: skip
    """Give the users of some demands' resources their new rates, where these give another fraction now."""
    count = 0
    for k in range(asked, until):
        number = resource[k]
        fraction = 1.0
        if load[number] > capacity[number] * (1 + TOLERANCE):
            fraction = capacity[number] / load[number]
        if fraction != give[number]:
            give[number] = fraction
            changed[count] = number
            count += 1
    for i in range(count):
        first = user_at[changed[i]]
        for k in range(first, first + users[changed[i]]):
            _set_rate(
                now, user[k], at, slot, resource, give, left, rate, since, heap, place, end, running
            )  # fmt: skip


def _set_rate(
    now: float, task: int, at: IntArray, slot: IntArray, resource: IntArray, give: FloatArray,
    left: FloatArray, rate: FloatArray, since: FloatArray, heap: IntArray, place: IntArray, end: FloatArray,
    running: int,
) -> None:  # fmt: skip
    """Let a task go on at the smallest of the fractions that it is given, from now."""
    least = 1.0
    for k in range(at[slot[task]], at[slot[task] + 1]):
        if give[resource[k]] < least:
            least = give[resource[k]]
    if least != rate[task]:
        left[task] -= (now - since[task]) * rate[task]
        since[task], rate[task] = now, least
        end[task] = now + left[task] / least
        _rise(place[task], heap, place, end)
        _sink(place[task], running, heap, place, end)


def _remove(task: int, first: int, count: int, user: IntArray) -> None:
    """Take a task out of the `count` users from `first` on; the last one takes its place."""
    for k in range(first, first + count):
        if user[k] == task:
            user[k] = user[first + count - 1]
            return


def _rise(at: int, heap: IntArray, place: IntArray, end: FloatArray) -> None:
    """Move the task at a place of the heap up until it ends after the one above, or is its first."""
    task = heap[at]
    while at > 0:
        above = heap[(at - 1) >> 1]
        if end[above] < end[task] or (end[above] == end[task] and above < task):
            break
        heap[at], place[above] = above, at
        at = (at - 1) >> 1
    heap[at], place[task] = task, at


def _sink(at: int, running: int, heap: IntArray, place: IntArray, end: FloatArray) -> None:
    """Move the task at a place of the heap down until it ends before those below."""
    task = heap[at]
    while 2 * at + 1 < running:
        below = 2 * at + 1
        least = heap[below]
        if below + 1 < running:
            other = heap[below + 1]
            if end[other] < end[least] or (end[other] == end[least] and other < least):
                below, least = below + 1, other
        if end[task] < end[least] or (end[task] == end[least] and task < least):
            break
        heap[at], place[least] = least, at
        at = below
    heap[at], place[task] = task, at
