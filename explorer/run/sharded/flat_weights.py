"""Flat weights: the parameters of one holders group on a rank, whole or sharded over replicas (ZeRO, HSDP).

With ZeRO over k replicas (Rajbhandari et al., 2020) a rank keeps the optimizer's states of its k-th of the
flat parameters. Levels 1 and 2 gather the updated parts after an update; level 3 holds no more than its part
between the actions that need the weights: what autograd has saved is the same storage, emptied and filled
again. Gradients are scattered while they are added; with k below all replicas (HSDP, MiCS) the parts are then
added over the groups. The flat tensor is padded to a multiple of k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from explorer.run.sharded.mesh import Meter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardLines:
    """The ranks over which a group's weights are sharded, and those with the same part."""

    inner: Any
    """Process group of the ranks that have a part each; None for one."""
    place: int
    """Place of this rank among them."""
    size: int
    """Number of parts."""
    outer: Any
    """Process group of the ranks with the same part; None for one."""
    copies: int
    """Number of ranks with the same part."""


class Messages(NamedTuple):
    """Messages under way that are waited for together; none if there is nobody to exchange with."""

    works: list[Any]

    def wait(self) -> None:
        """Wait until all have come and gone."""
        for work in self.works:
            work.wait()

    def is_completed(self) -> bool:
        """Tell whether all have come and gone."""
        return all(work.is_completed() for work in self.works)


@dataclass(slots=True, kw_only=True, eq=False)
class FlatWeights:
    """Parameters of one group on one rank."""

    level: int
    """ZeRO level, 1 to 3."""
    lines: ShardLines
    """Where the parts are."""
    meter: Meter
    """Where bytes are counted."""
    gradient_dtype: torch.dtype | None = None
    """Data type in which gradients are added up; None for that of the weights."""
    frees: bool = False
    """Whether memory of a reduction is freed at its end, so that counted bytes are those in use; else it is
    kept for the next one, as accelerators' allocators do.
    """
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    """Leaves by name: views of the flat tensor."""
    gathers: int = 0
    """Gathers so far."""
    reductions: int = 0
    """Reductions so far."""
    _flat: torch.Tensor = field(init=False)
    _part: torch.Tensor = field(init=False)
    _sum: torch.Tensor | None = None
    _users: int = 0
    _spare: list[torch.Tensor] = field(default_factory=list)

    def fill(self, values: Mapping[str, torch.Tensor]) -> None:
        """Take over initial values, by name."""
        whole = torch.cat([x.detach().reshape(-1) for x in values.values()])
        each = -(-whole.numel() // self.lines.size)
        self._flat = whole.new_zeros(each * self.lines.size)
        self._flat[: whole.numel()] = whole
        self._part = self._mine().clone()
        start = 0
        for name, x in values.items():
            self.weights[name] = self._flat[start : start + x.numel()].view(x.shape).detach().requires_grad_()
            start += x.numel()
        if self.level == 3:
            self._empty()

    @property
    def part(self) -> torch.Tensor:
        """This rank's part."""
        return self._part

    @property
    def held_bytes(self) -> int:
        """Bytes of gathered weights that are held now."""
        return self._flat.untyped_storage().size()

    def share(self, name: str, part: torch.Tensor) -> torch.Tensor:
        """Return what of a tensor like this rank's part belongs to a parameter, flat; it may be empty."""
        low, high = self._bounds(name)
        each = self._part.numel()
        start = self.lines.place * each
        return part[max(0, low - start) : max(0, min(high - start, each))]

    def share_of(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """Return what this rank's part has of a whole parameter, flat."""
        low, high = self._bounds(name)
        each = self._part.numel()
        start = self.lines.place * each
        return whole.reshape(-1)[max(0, start - low) : max(0, min(high, start + each) - low)]

    def _bounds(self, name: str) -> tuple[int, int]:
        start = 0
        for own, leaf in self.weights.items():
            if own == name:
                break
            start += leaf.numel()
        return start, start + self.weights[name].numel()

    def _mine(self) -> torch.Tensor:
        each = self._flat.numel() // self.lines.size
        return self._flat[self.lines.place * each : (self.lines.place + 1) * each]

    # -- weights ----------------------------------------------------------------------------------

    def begin_gather(self) -> Messages:
        """Begin to gather all parts."""
        storage = self._flat.untyped_storage()
        if not storage.size():
            storage.resize_(self._flat.numel() * self._flat.element_size())
        self._users += 1
        self.gathers += 1
        if self.lines.size == 1:
            self._flat.data.copy_(self._part)
            return Messages([])
        sent = self._part.numel() * self._part.element_size() * (self.lines.size - 1)
        self.meter.count("all_gather", "replica", sent)
        # `data` has a version of its own: graphs under way see the same values, in place
        parts, me = self._flat.data.view(self.lines.size, -1), self.lines.place
        parts[me].copy_(self._part)
        # a gather of gloo receives all parts in a tensor of its own first
        ranks = dist.get_process_group_ranks(self.lines.inner)
        messages = [
            dist.P2POp(kind, x, ranks[i], group=self.lines.inner)
            for i in range(self.lines.size) if i != me
            for kind, x in ((dist.isend, self._part), (dist.irecv, parts[i]))
        ]  # fmt: skip
        return Messages(dist.batch_isend_irecv(messages))

    def release(self) -> None:
        """Give gathered weights back if no other gather counts on them."""
        self._users -= 1
        if self.level == 3 and not self._users:
            self._empty()

    def _empty(self) -> None:
        self._flat.untyped_storage().resize_(0)

    # -- gradients --------------------------------------------------------------------------------

    def begin_reduce(self, gradients: dict[str, torch.Tensor]) -> tuple[Messages, torch.Tensor, torch.Tensor]:
        """Begin to add up gradients, each rank its part; return (messages, what comes, flat).

        `gradients` are taken out as they are copied, so that each is there once only. Parts are exchanged and
        added up here: a reduce-scatter of gloo copies all of its input, and tells its end only who waits.
        """
        flat = self._buffer()
        start = 0
        for name, leaf in self.weights.items():
            mine = flat[start : start + leaf.numel()]
            start += leaf.numel()
            if name in gradients:
                mine.copy_(gradients.pop(name).reshape(-1))
            else:
                mine.zero_()
        flat[start:].zero_()
        self.reductions += 1
        if self.lines.size == 1:
            return Messages([]), flat, flat
        sent = self._part.numel() * flat.element_size() * (self.lines.size - 1)
        self.meter.count("reduce_scatter", "replica", sent)
        came = self._buffer()
        work = dist.all_to_all_single(came, flat, group=self.lines.inner, async_op=True)
        return Messages([work]), came, flat

    def _buffer(self) -> torch.Tensor:
        """Return memory for all gradients, with whatever is in it."""
        if self._spare:
            return self._spare.pop()
        dtype = self.gradient_dtype or self._part.dtype
        return self._part.new_empty(self._part.numel() * self.lines.size, dtype=dtype)

    def end_reduce(self, came: torch.Tensor, flat: torch.Tensor) -> None:
        """Take back the memory of a reduction whose parts have been added."""
        for item in (came,) if came is flat else (came, flat):
            if self.frees:  # the thread that sent them may hold them a moment longer
                item.untyped_storage().resize_(0)
            else:
                self._spare.append(item)

    def sum_of(self, came: torch.Tensor) -> torch.Tensor:
        """Return the sum of what all ranks sent for this rank's part, added up in their order, in place of
        the first.
        """
        parts = came.view(self.lines.size, -1).unbind()
        for part in parts[1:]:
            parts[0].add_(part)
        return parts[0]

    def add(self, part: torch.Tensor) -> None:
        """Take a part of the sum in; over several groups of replicas it is added up first.

        What it lies in may go then.
        """
        if self.lines.copies > 1:
            sent = 2 * part.numel() * part.element_size() * (self.lines.copies - 1) // self.lines.copies
            self.meter.count("all_reduce", "replica", sent)
            dist.all_reduce(part, group=self.lines.outer)
        self._sum = part.clone() if self._sum is None else self._sum.add_(part)

    def take_sum(self) -> torch.Tensor:
        """Return the sum of gradients since the last update, and begin anew."""
        found, self._sum = self._sum, None
        if found is None:
            return self._part.new_zeros(self._part.shape, dtype=self.gradient_dtype or self._part.dtype)
        return found
