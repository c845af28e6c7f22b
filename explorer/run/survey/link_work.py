"""Work of links: messages between neighbours, all-reduces of all ranks, and what they cost computing."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from statistics import median

import torch

from explorer.run.ranks.lane import Wire
from explorer.run.ranks.transport import Transport
from explorer.run.spec import Survey
from explorer.run.survey.device_work import DeviceWork
from explorer.run.survey.steady import SAMPLES, Item, Measured, Timed

LINK_SAMPLES = 15
"""Timings of messages and collectives in one round. The fastest counts: one that waits for a rank whose core
the system gave to others measures those others, not the link.
"""


class LinkWork:
    """Times what goes between ranks; `work` is that of this rank's own device."""

    def __init__(self, asked: Survey, transport: Transport, work: DeviceWork) -> None:
        self.asked, self.transport, self.work = asked, transport, work
        n = transport.ranks
        self.everyone = tuple(range(n))
        self.pairs = [(rank, rank + 1) for rank in range(n - 1)]
        wires: list[Wire] = [("wire", *ends) for a, b in self.pairs for ends in ((a, b), (b, a))]
        transport.open(wires, [self.everyone])

    def items(self) -> Iterator[tuple[Item, Measured]]:
        """Yield everything to measure of the links, each with what measures it; nothing with one rank."""
        if self.transport.ranks == 1:
            return
        for size in self.asked.message_bytes:
            yield Item("message", "", (size,)), lambda size=size: self._message(size)  # type: ignore[misc]
        for size in self.asked.reduce_bytes:
            yield Item("reduce", "", (size,)), lambda size=size: self._reduce(size)  # type: ignore[misc]
        if self.asked.reduce_bytes and self.asked.products:
            largest = max(self.asked.reduce_bytes)
            yield Item("overlap", "", (largest,)), lambda: self._overlap(largest)

    def _message(self, size: int) -> float | None:
        """Return one-way seconds, from round trips between neighbours, one pair after the other; None on
        ranks that answer.
        """
        buffer = torch.zeros(max(1, size // 4), device=self.work.device)
        fastest = []
        for first, second in self.pairs:
            times = []
            there: Wire = ("wire", first, second)
            back: Wire = ("wire", second, first)
            self.transport.barrier()
            for repeat in range(LINK_SAMPLES + 1):
                self.work.sync()
                begin = time.perf_counter()
                if self.transport.rank == first:
                    self.transport.send(there, buffer)
                    self.transport.receive(back, buffer).wait()
                elif self.transport.rank == second:
                    self.transport.receive(there, buffer).wait()
                    self.transport.send(back, buffer)
                self.work.sync()
                if self.transport.rank == first and repeat:
                    times.append((time.perf_counter() - begin) / 2)
            self.transport.finish_sends()
            fastest += [min(times)] if times else []
        return median(fastest) if fastest else None

    def _reduce(self, size: int) -> float:
        rows = torch.zeros(max(1, size // 4), device=self.work.device)
        times = []
        for _ in range(LINK_SAMPLES + 1):
            self.transport.barrier()
            self.work.sync()
            begin = time.perf_counter()
            self.transport.reduce(self.everyone, rows).wait()
            self.work.sync()
            times.append(time.perf_counter() - begin)
        return min(times[1:])

    def _overlap(self, size: int) -> float | None:
        """Return how many times as long a product takes during an all-reduce; None if that was over too
        soon.
        """
        precision = self.asked.precisions[0]
        sizes = sorted(self.asked.products, key=math.prod)
        work = self.work.product(Item("product", precision, sizes[len(sizes) // 2]))
        rows = torch.zeros(max(1, size // 4), device=self.work.device)
        count = max(1, min(self.work.repeats.get(Item("product", precision, sizes[len(sizes) // 2]), 1), 20))
        alone, beside = [], []
        for _ in range(SAMPLES):
            self.transport.barrier()
            alone.append(self._several(work, count))
            self.transport.barrier()
            going = self.transport.reduce(self.everyone, rows)
            seconds = self._several(work, count)
            if not going.is_completed():
                beside.append(seconds)
            going.wait()
            self.work.sync()
        return min(beside) / min(alone) if beside else None

    def _several(self, work: Timed, count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            work()
        if self.work.device.type == "cuda":
            torch.cuda.current_stream(self.work.device).synchronize()
        return time.perf_counter() - begin
