"""Sleeper: the backend of the dry-time run. Compute sleeps as predicted; messages are real, and small.

Messages carry the time at which they are due: begin (the producer's end, or the end of the wire's previous
transfer) plus the predicted seconds. The receiver takes the real message and then waits until it is due.
All ranks of a dry run share one host, hence one clock. Waits begin at real times, never at predicted ones:
what the launcher, the interpreter, the transport and the machine's scheduler add is part of the result.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from explorer.run.ranks.lane import Gather, LaneTask, Reduction, Transfer, Wire

COARSE_S = 0.0012
"""Seconds left to short sleeps at the end of a wait, because a long sleep overshoots."""


def sleep_until(due_s: float) -> None:
    """Sleep until the clock shows `due_s`, coarsely first, then in short steps; never busy."""
    while (left := due_s - time.perf_counter()) > 0:
        time.sleep(left - COARSE_S if left > 2 * COARSE_S else min(left, 0.0002))


class Sleeper:
    """A backend that computes nothing and sleeps for the predicted time."""

    reduce_op: Any = dist.ReduceOp.MAX

    def __init__(self, seconds: tuple[float, ...], device: torch.device) -> None:
        self.seconds, self.device = seconds, device
        self.wire_free: dict[Wire, float] = {}
        self.group_free: dict[int, float] = {}
        self.gather_due: dict[int, float] = {}
        self.channel_free: dict[int, float] = {}
        self.free_s = 0.0

    def _seconds(self, slot: int) -> float:
        return self.seconds[slot]

    def compute(self, task: LaneTask) -> None:
        """Sleep for the predicted seconds of a task."""
        sleep_until(time.perf_counter() + self._seconds(task.slot))
        self.free_s = time.perf_counter()

    def message(self, item: Transfer) -> torch.Tensor:
        """Return the time at which a transfer is due."""
        begin = max(time.perf_counter(), self.wire_free.get(item.wire, 0.0))
        due = begin + (self._seconds(item.slot) if item.flow >= 0 else 0.0)
        self.wire_free[item.wire] = due
        return torch.tensor([due], dtype=torch.float64, device=self.device)

    def buffer(self, item: Transfer) -> torch.Tensor:
        """Make room for one number."""
        del item
        return torch.zeros(1, dtype=torch.float64, device=self.device)

    def deliver(self, item: Transfer, message: torch.Tensor) -> None:
        """Wait until the message is due; one that blocks began no sooner than this rank had come to it."""
        due = float(message.item())
        if item.blocking:
            due = max(due, self.free_s + self._seconds(item.slot))
        sleep_until(due)

    def contribution(self, item: Reduction) -> torch.Tensor:
        """Return when this rank was ready; the latest of the group begins the collective."""
        del item
        return torch.tensor([time.perf_counter()], dtype=torch.float64, device=self.device)

    def reduced(self, item: Reduction, total: torch.Tensor) -> None:
        """Wait until the collective is due."""
        begin = max(float(total.item()), self.group_free.get(item.group, 0.0))
        self.group_free[item.group] = begin + self._seconds(item.slot)
        sleep_until(self.group_free[item.group])

    def gather(self, item: Gather) -> None:
        """Note when a gather or move is due: gathers and moves each way have a channel of their own."""
        before = [self.channel_free.get(item.channel, 0.0), *(self.gather_due[i] for i in item.after)]
        due = max(time.perf_counter(), *before) + self._seconds(item.slot)
        self.gather_due[item.task] = self.channel_free[item.channel] = due

    def gathered(self, task: int) -> None:
        """Wait until a gather or move is due."""
        sleep_until(self.gather_due[task])
