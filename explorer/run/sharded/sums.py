"""Sums over ranks inside a layer, and what of them a backward repeats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from explorer.run.sharded.collectives import AllReduce, apply, exchange, split_evenly
from explorer.run.sharded.mesh import Line


@dataclass(frozen=True, slots=True)
class WholeSum:
    """Add up the tensors of all ranks for a result that all of them have.

    The gradient that comes back to each rank is already whole, so its adjoint sends nothing.
    """

    line: Line

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        return AllReduce(self.line).forward(x)

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the gradient as it is."""
        return y


def summed(lines: Iterable[Line], x: torch.Tensor) -> torch.Tensor:
    """Add up over lines what each rank goes on with for its own piece: its gradient is added, too."""
    for line in lines:
        x = apply(AllReduce(line), x)
    return x


def summed_for_all(lines: Iterable[Line], x: torch.Tensor) -> torch.Tensor:
    """Add up over lines a part of a result that all ranks have."""
    for line in lines:
        x = apply(WholeSum(line), x)
    return x


def largest(lines: Iterable[Line], x: torch.Tensor) -> torch.Tensor:
    """Return the maximum over the ranks of some lines, element by element, without a gradient."""
    x = x.detach()
    for line in lines:
        flat, n = x.reshape(-1), line.size
        sizes = split_evenly(flat.numel(), n)
        mine = (sizes[line.place],)
        parts = exchange(line, "all_reduce", torch.split(flat, list(sizes)), [mine] * n)
        part = torch.stack(parts).amax(0)
        x = torch.cat(exchange(line, "all_reduce", [part] * n, [(s,) for s in sizes])).view(x.shape)
    return x


def block_sum(line: Line, x: torch.Tensor, count: int) -> torch.Tensor:
    """Add up over blocks of `count` neighbouring ranks of a line; nothing is sent between blocks."""
    first = line.place - line.place % count
    flat, empty = x.reshape(-1), x.new_empty(0)
    sizes = split_evenly(flat.numel(), count)
    pieces, mine = torch.split(flat, list(sizes)), (sizes[line.place - first],)
    inside = range(first, min(first + count, line.size))
    outgoing = [pieces[i - first] if i in inside else empty for i in range(line.size)]
    shapes = [mine if i in inside else (0,) for i in range(line.size)]
    got = exchange(line, "all_reduce", outgoing, shapes)
    part = torch.stack([got[i] for i in inside]).sum(0)
    outgoing = [part if i in inside else empty for i in range(line.size)]
    shapes = [(sizes[i - first],) if i in inside else (0,) for i in range(line.size)]
    got = exchange(line, "all_reduce", outgoing, shapes)
    return torch.cat([got[i] for i in inside]).view(x.shape)


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, here: bool) -> torch.Tensor:  # noqa: FBT001 - autograd's call
        del ctx
        return x.view_as(x) if here else torch.zeros_like(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        del ctx
        return gradients[0], None


def once(x: torch.Tensor, *, here: bool) -> torch.Tensor:
    """Return what one rank of a sum adds, zeros on the others; all of them see the whole gradient."""
    found: torch.Tensor = _Once.apply(x, here)  # type: ignore[no-untyped-call]
    return found
