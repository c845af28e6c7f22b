"""Events pass: tasks run at a rate, and shared resources that are asked too much slow their users down.

A task of unhindered duration T has T seconds of work. While it runs, each resource it uses gives it
the fraction min(1, capacity / demand of all its users); the task advances at the smallest of these.
Between changes rates are constant, so the next event is the earliest end. With no over-full resource
every rate is 1 and the result equals the static pass.
"""

from __future__ import annotations

import heapq

import numpy as np

from explorer.passes.timing import FloatArray, Shares, Tasks, Timing


def run_events(tasks: Tasks, seconds: FloatArray, shares: Shares) -> Timing:
    """Times of all tasks under shared rates."""
    return _Events(tasks, seconds, shares).run()


class _Events:
    def __init__(self, tasks: Tasks, seconds: FloatArray, shares: Shares) -> None:
        self.tasks, self.shares = tasks, shares
        self.duration = seconds[tasks.slot].tolist()
        self.slot = tasks.slot.tolist()
        count = tasks.size
        self.start, self.end = [0.0] * count, [0.0] * count
        self.missing = [(a > 0) + (b > 0) for a, b in zip(tasks.first, tasks.second, strict=True)]
        self.successors: list[list[int]] = [[] for _ in range(count)]
        for task, pair in enumerate(zip(tasks.first, tasks.second, strict=True)):
            for before in pair:
                if before:
                    self.successors[before - 1].append(task)
        self.left: dict[int, float] = {}
        self.rate: dict[int, float] = {}
        self.since: dict[int, float] = {}
        self.users: list[set[int]] = [set() for _ in shares.names]
        self.load = [0.0] * len(shares.names)
        self.heap: list[tuple[float, int, int]] = []
        self.stamp = [0] * count

    def run(self) -> Timing:
        for task, count in enumerate(self.missing):
            if not count:
                self._begin(task, 0.0)
        while self.heap:
            now, task, stamp = heapq.heappop(self.heap)
            if stamp == self.stamp[task]:
                self._finish(task, now)
        return Timing(start_s=np.array(self.start), end_s=np.array(self.end), pass_name="events")

    def _begin(self, task: int, now: float) -> None:
        self.start[task] = now
        demands = self.shares.demands[self.slot[task]]
        self.left[task], self.rate[task], self.since[task] = self.duration[task], 1.0, now
        if demands and self.duration[task] > 0:
            for resource, amount in demands:
                self.users[resource].add(task)
                self.load[resource] += amount
            self._rescale({task}, [resource for resource, _ in demands], now)
        else:
            self._schedule(task, now)

    def _finish(self, task: int, now: float) -> None:
        self.end[task] = now
        demands = self.shares.demands[self.slot[task]]
        if demands and self.duration[task] > 0:
            for resource, amount in demands:
                self.users[resource].discard(task)
                self.load[resource] -= amount
            self._rescale(set(), [resource for resource, _ in demands], now)
        self.stamp[task] += 1
        for after in self.successors[task]:
            self.missing[after] -= 1
            if not self.missing[after]:
                self._begin(after, now)

    def _rescale(self, changed: set[int], resources: list[int], now: float) -> None:
        """Give every user of some resources its new rate."""
        for resource in resources:
            changed |= self.users[resource]
        for task in changed:
            rate = self._rate_of(task)
            if rate != self.rate[task] or not self.stamp[task]:
                self.left[task] -= (now - self.since[task]) * self.rate[task]
                self.since[task], self.rate[task] = now, rate
                self._schedule(task, now)

    def _rate_of(self, task: int) -> float:
        rate = 1.0
        for resource, _ in self.shares.demands[self.slot[task]]:
            load, capacity = self.load[resource], float(self.shares.capacity[resource])
            if load > capacity * (1 + 1e-9):
                rate = min(rate, capacity / load)
        return rate

    def _schedule(self, task: int, now: float) -> None:
        self.stamp[task] += 1
        heapq.heappush(self.heap, (now + self.left[task] / self.rate[task], task, self.stamp[task]))
