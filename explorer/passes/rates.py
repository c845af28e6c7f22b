"""Shared rates: tasks that run at the same time slow each other down if a resource is asked for too much.

A task of unhindered duration T has T seconds of work. While it runs, each resource it uses gives it the
fraction min(1, capacity / demand of all its users); the task advances at the smallest of these. Between
changes rates are constant, so the next event is the earliest end.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

Demands = Sequence[tuple[int, float]]
"""(resource, amount asked for while running unhindered) pairs."""


class Rates:
    """Running tasks, by number, with the heap of their ends.

    Args:
        capacity: amount that each resource gives; it may grow while time runs, if resources are numbered as
            they are met.
    """

    def __init__(self, capacity: Sequence[float]) -> None:
        self.capacity = capacity
        self.load = [0.0] * len(self.capacity)
        self.users: list[set[int]] = [set() for _ in self.capacity]
        self.heap: list[tuple[float, int, int]] = []
        self.stamp: dict[int, int] = {}
        # Only of tasks that share something: their demands, and their progress since the last change.
        self.demands: dict[int, Demands] = {}
        self.left: dict[int, float] = {}
        self.rate: dict[int, float] = {}
        self.since: dict[int, float] = {}

    def begin(self, task: int, duration_s: float, demands: Demands, now: float) -> None:
        """Let a task run from now on."""
        if not demands or duration_s <= 0:
            self.stamp[task] = 0
            heapq.heappush(self.heap, (now + duration_s, task, 0))
            return
        self.demands[task] = demands
        self.stamp[task] = -1  # none of its ends is in the heap yet
        self.left[task], self.rate[task], self.since[task] = duration_s, 1.0, now
        while len(self.users) < len(self.capacity):
            self.load.append(0.0)
            self.users.append(set())
        for resource, amount in demands:
            self.users[resource].add(task)
            self.load[resource] += amount
        self._rescale({task}, demands, now)

    def next_end(self) -> tuple[float, int] | None:
        """Take the earliest end off the heap as (time, task); None if nothing runs."""
        while self.heap:
            now, task, stamp = heapq.heappop(self.heap)
            if self.stamp.get(task) == stamp:
                self._leave(task, now)
                return now, task
        return None

    def next_time(self) -> float:
        """Return the time of the earliest end; infinite if nothing runs."""
        while self.heap and self.stamp.get(self.heap[0][1]) != self.heap[0][2]:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else float("inf")

    def cancel(self, task: int, now: float) -> None:
        """Stop a running task without an end."""
        self._leave(task, now)

    def _leave(self, task: int, now: float) -> None:
        del self.stamp[task]
        demands = self.demands.pop(task, None)
        if demands is None:
            return
        for resource, amount in demands:
            self.users[resource].discard(task)
            self.load[resource] = self.load[resource] - amount if self.users[resource] else 0.0
        self._rescale(set(), demands, now)

    def _rescale(self, changed: set[int], demands: Demands, now: float) -> None:
        """Give every user of some resources its new rate."""
        for resource, _ in demands:
            changed |= self.users[resource]
        for task in changed:
            rate = self._rate_of(task)
            if rate != self.rate[task] or self.stamp[task] < 0:
                self.left[task] -= (now - self.since[task]) * self.rate[task]
                self.since[task], self.rate[task] = now, rate
                self.stamp[task] += 1
                heapq.heappush(self.heap, (now + self.left[task] / rate, task, self.stamp[task]))

    def _rate_of(self, task: int) -> float:
        rate = 1.0
        for resource, _ in self.demands[task]:
            load, capacity = self.load[resource], self.capacity[resource]
            if load > capacity * (1 + 1e-9):
                rate = min(rate, capacity / load)
        return rate
