"""Transport: wires and groups over `torch.distributed`, gloo on CPU or NCCL on GPUs.

Every wire (ordered pair of ranks) and every set of reducing ranks has a communicator of its own, made and
warmed up by all ranks in one order before anything is timed. On a wire messages are sent and received
strictly in the program's sequence and without tags, as NCCL needs it; gloo runs in the same way.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from explorer.base.errors import RunError
from explorer.run.gpus import count_gpus, on_gpus
from explorer.run.ranks.lane import Wire
from explorer.run.ranks.outbox import Outbox

START_TIMEOUT_S = 180.0
"""Longest wait in seconds for the last rank to start. The launcher finds a rank that hangs later."""

Handle = Any
"""Handle that an asynchronous call of torch.distributed returns."""


@dataclass(kw_only=True)
class Transport:
    """The process group of a launch and the communicators made from it so far."""

    rank: int
    """This rank."""
    ranks: int
    """All ranks."""
    device: torch.device
    """Device on which messages live."""
    timeout_s: float
    """Seconds after which waiting fails."""
    _wires: dict[Wire, Any] = field(default_factory=dict)
    _groups: dict[tuple[int, ...], Any] = field(default_factory=dict)
    _outboxes: dict[Wire, Outbox] = field(default_factory=dict)

    def open(self, wires: Iterable[Wire], groups: Iterable[tuple[int, ...]]) -> None:
        """Make the communicators that do not exist yet; all ranks call it with the same arguments."""
        for wire in wires:
            if wire not in self._wires:
                self._wires[wire] = self._new_group(sorted(wire[1:]))
                self._warm_wire(wire)
        for members in groups:
            if members not in self._groups:
                self._groups[members] = self._new_group(list(members))
                if self.rank in members and len(members) > 1:
                    dist.all_reduce(torch.zeros(1, device=self.device), group=self._groups[members])

    def _new_group(self, members: list[int]) -> Any:
        return dist.new_group(members, timeout=dt.timedelta(seconds=self.timeout_s))

    def _warm_wire(self, wire: Wire) -> None:
        _, source, target = wire
        message = torch.zeros(1, device=self.device)
        if self.rank == source:
            dist.send(message, target, group=self._wires[wire])
        elif self.rank == target:
            dist.recv(message, source, group=self._wires[wire])

    def send(self, wire: Wire, message: torch.Tensor) -> None:
        """Begin to send; keep the message alive until it has gone."""
        for outbox in self._outboxes.values():
            outbox.forget_gone()
        if wire not in self._outboxes:
            self._outboxes[wire] = Outbox(asks=self.device.type == "cuda")
        self._outboxes[wire].add(dist.isend(message, wire[2], group=self._wires[wire]), message)

    def receive(self, wire: Wire, buffer: torch.Tensor) -> Handle:
        """Begin to receive."""
        return dist.irecv(buffer, wire[1], group=self._wires[wire])

    def reduce(
        self, members: tuple[int, ...], buffer: torch.Tensor, *, op: Any = dist.ReduceOp.SUM
    ) -> Handle:
        """Begin to all-reduce in place; do nothing for a group of one."""
        if len(members) == 1:
            return None
        return dist.all_reduce(buffer, op=op, group=self._groups[members], async_op=True)

    def finish_sends(self) -> None:
        """Wait until every message has gone."""
        for outbox in self._outboxes.values():
            outbox.finish()

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.ranks > 1:
            dist.barrier(device_ids=[self.device.index] if self.device.type == "cuda" else None)

    def largest(self, value: float) -> float:
        """Return the largest of a number over all ranks."""
        if self.ranks == 1:
            return value
        held = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(held, op=dist.ReduceOp.MAX)
        return float(held.item())


def connect(timeout_s: float, device: str) -> Transport:
    """Join the process group of this launch: NCCL if every rank has a GPU of its own, else gloo.

    Raises:
        RunError: GPUs are asked for, and this rank has none.
    """
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local = int(os.environ.get("LOCAL_RANK", rank))
    on_gpu = on_gpus(device)
    if on_gpu and local >= (here := count_gpus()):
        raise RunError(
            f"rank {local} has no GPU of its own: {here} here; ask for fewer ranks, or for the CPU"
        )
    where = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(where)
    # ranks of a busy machine start far apart, and meet at barriers after work of unequal length
    wait = dt.timedelta(seconds=max(START_TIMEOUT_S, timeout_s))
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=wait)
    return Transport(rank=rank, ranks=ranks, device=where, timeout_s=timeout_s)
