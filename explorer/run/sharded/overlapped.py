"""Products in chunks beside their collective: a gather that feeds one, a reduction that takes its result.

Flux (Chang et al., arXiv:2406.06858) runs a product tile by tile, and the tiles' collective beside the tiles
after. Here the tiles are the ranks' pieces along one axis, each begins with another piece, and what is on its
way goes on while the next piece is computed: time is max(product, collective) and one piece more. What is
sent is what the collective alone sends.

    gathered_product     y = all_gather(x) w'     one piece of x after the other, passed around
    product_scattered    y = reduce_scatter(x w') one piece of y after the other, each sent home at once
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from explorer.run.sharded.collectives import Sizes
from explorer.run.sharded.mesh import Line


class _Sent(NamedTuple):
    """A message on its way, kept until it has arrived."""

    works: list[Any]
    buffer: torch.Tensor
    kept: torch.Tensor


def _swap(
    line: Line, op: str, target: int, given: torch.Tensor, source: int, shape: tuple[int, ...]
) -> _Sent:
    """Begin to send to one place and to receive from another."""
    given, buffer = given.contiguous(), given.new_empty(shape)
    line.meter.count(op, line.axis, given.numel() * given.element_size())
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, given, line.ranks[target], group=line.group),
            dist.P2POp(dist.irecv, buffer, line.ranks[source], group=line.group),
        ]
    )
    return _Sent(works, buffer, given)


def _arrived(sent: _Sent) -> torch.Tensor:
    for work in sent.works:
        work.wait()
    return sent.buffer


def _gather_product(
    line: Line, x: torch.Tensor, weight: torch.Tensor, sizes: Sizes
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (all pieces of x along axis 0 times weight', the pieces joined)."""
    n, me = line.size, line.place
    found: list[torch.Tensor] = [x] * n
    made: list[torch.Tensor] = [x] * n
    for turn in range(n):
        source = (me - turn) % n
        held = found[source]
        way = None
        if turn + 1 < n:
            shape = (sizes[(source - 1) % n], *x.shape[1:])
            way = _swap(line, "all_gather", (me + 1) % n, held, (me - 1) % n, shape)
        made[source] = held @ weight.T
        if way is not None:
            found[(source - 1) % n] = _arrived(way)
    return torch.cat(made), torch.cat(found)


def _product_scatter(line: Line, x: torch.Tensor, weight: torch.Tensor, sizes: Sizes) -> torch.Tensor:
    """Return the own piece along axis 0 of the sum of x weight' over the ranks, added up in rank order."""
    n, me = line.size, line.place
    pieces = torch.split(x, list(sizes))
    ways: dict[int, _Sent] = {}
    for turn in range(1, n):
        target, source = (me + turn) % n, (me - turn) % n
        tile = pieces[target] @ weight.T
        ways[source] = _swap(line, "reduce_scatter", target, tile, source, (sizes[me], *tile.shape[1:]))
    own = pieces[me] @ weight.T
    parts = [own if i == me else _arrived(ways[i]) for i in range(n)]
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total


class _GatheredProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, line: Line, sizes: Sizes, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y, whole = _gather_product(line, x, weight, sizes)
        ctx.line, ctx.sizes = line, sizes
        ctx.save_for_backward(whole, weight)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        whole, weight = ctx.saved_tensors
        g = gradients[0]
        of_x = _product_scatter(ctx.line, g, weight.T, ctx.sizes) if ctx.needs_input_grad[2] else None
        of_weight = g.flatten(0, -2).T @ whole.flatten(0, -2) if ctx.needs_input_grad[3] else None
        return None, None, of_x, of_weight


class _ProductScattered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, line: Line, sizes: Sizes, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.line, ctx.sizes = line, sizes
        ctx.save_for_backward(x, weight)
        return _product_scatter(line, x, weight, sizes)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        of_x, whole = _gather_product(ctx.line, gradients[0], weight.T, ctx.sizes)
        of_weight = whole.flatten(0, -2).T @ x.flatten(0, -2) if ctx.needs_input_grad[3] else None
        return None, None, of_x if ctx.needs_input_grad[2] else None, of_weight


def gathered_product(line: Line, x: torch.Tensor, weight: torch.Tensor, sizes: Sizes) -> torch.Tensor:
    """Return the product of all ranks' rows with this rank's columns: column parallel, rows gathered.

    Args:
        line: the ranks.
        x: own rows (rows, ..., depth).
        weight: own (columns, depth).
        sizes: rows of every rank.
    """
    y: torch.Tensor = _GatheredProduct.apply(line, sizes, x, weight)  # type: ignore[no-untyped-call]
    return y


def product_scattered(line: Line, x: torch.Tensor, weight: torch.Tensor, sizes: Sizes) -> torch.Tensor:
    """Return own rows of the sum over ranks of products: row parallel, rows scattered.

    Args:
        line: the ranks.
        x: all rows of this rank's depth (rows, ..., depth).
        weight: own (columns, depth).
        sizes: rows that every rank keeps.
    """
    y: torch.Tensor = _ProductScattered.apply(line, sizes, x, weight)  # type: ignore[no-untyped-call]
    return y
