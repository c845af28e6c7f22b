"""Run on every rank: tiles against the collective and the whole product, and against their adjoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from explorer.run.sharded.collectives import AllGather, AllReduce, ReduceScatter, apply
from explorer.run.sharded.mesh import Line, open_mesh
from explorer.run.sharded.overlapped import Tiling, gathered, scattered
from explorer.run.sharded.sums import WholeSum

Tensor = torch.Tensor
COLUMNS, DEPTH = 5, 4


class _SumOfGradients:
    """The identity of what all ranks have; its gradient is added up."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def forward(self, x: Tensor) -> Tensor:
        return x.clone()

    def adjoint(self, y: Tensor) -> Tensor:
        return AllReduce(self.line).forward(y)


def tiling(line: Line, sizes: tuple[int, ...], *, mixed: bool = False) -> Tiling:
    """Tiles of so many rows; `mixed`: dealt out in turn, so that they are no runs."""
    rows = list(range(sum(sizes)))
    tiles, start = [], 0
    for i, size in enumerate(sizes):
        tiles.append(tuple(rows[i :: len(sizes)] if mixed else rows[start : start + size]))
        start += size
    return Tiling(line=line, axis=0, tiles=tuple(tiles), tag=3, name="x")


def in_tiles(way: Tiling, kind: str, x: Tensor, product: Callable[[Tensor], Tensor]) -> Tensor:
    """A product tile by tile."""
    if kind in ("all_gather", "summed gradient"):
        coming = gathered(way, x, op="all_gather" if kind == "all_gather" else "all_reduce")
        return way.join([product(coming.tile(place)) for place in range(way.line.size)])
    op = "reduce_scatter" if kind == "reduce_scatter" else "all_reduce"
    return scattered(way, lambda place: product(way.cut(x, place)), op=op)


def at_once(way: Tiling, kind: str, x: Tensor, product: Callable[[Tensor], Tensor]) -> Tensor:
    """The collective, and the product whole."""
    line, sizes = way.line, tuple(map(len, way.tiles))
    if kind == "all_gather":
        return product(apply(AllGather(line, 0, sizes), x))
    if kind == "summed gradient":
        return product(apply(_SumOfGradients(line), x))
    if kind == "reduce_scatter":
        return apply(ReduceScatter(line, 0, sizes), product(x))
    return apply(WholeSum(line), product(x))


KINDS = ("all_gather", "reduce_scatter", "all_reduce", "summed gradient")


def drawn(shape: tuple[int, ...], seed: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def check() -> list[dict[str, Any]]:
    """Values, gradients and bytes in tiles beside those at once."""
    n = dist.get_world_size()
    line = open_mesh([("a", n)], range(n)).lines[0]
    found = []
    for sizes in ((3,) * n, tuple(range(1, n + 1))):
        way = tiling(line, sizes)
        for kind in KINDS:
            rows = sizes[line.place] if kind == "all_gather" else sum(sizes)
            seed = 7 if kind == "summed gradient" else line.place
            results = []
            for run in (in_tiles, at_once):
                x = drawn((rows, 2, DEPTH), seed).requires_grad_()
                w = drawn((COLUMNS, DEPTH), 50 + line.place).requires_grad_()
                line.meter.clear()
                y = run(way, kind, x, lambda part, w=w: part @ w.T)  # type: ignore[misc]
                g = drawn(tuple(y.shape), 99 if kind == "all_reduce" else 90 + line.place)
                made = torch.autograd.grad(y, (x, w), g)
                results.append((y.detach(), *made, sum(line.meter.sent.values())))
            (*ours, sent), (*plain, expected) = results
            error = max(float((a - b).abs().max()) for a, b in zip(ours, plain, strict=True))
            found.append({"kind": kind, "sizes": sizes, "error": error, "sent": sent, "expected": expected})
    return found


def adjoints() -> list[dict[str, Any]]:
    """<F x, y> and <x, F' y> of this rank, of gathers and scatters in tiles of runs and of none."""
    n = dist.get_world_size()
    line = open_mesh([("a", n)], range(n)).lines[0]
    found = []
    for mixed in (False, True):
        way = tiling(line, (3,) * n, mixed=mixed)
        for kind in ("all_gather", "reduce_scatter"):
            rows = 3 if kind == "all_gather" else 3 * n
            x = drawn((rows, 2, DEPTH), line.place).requires_grad_()
            made = in_tiles(way, kind, x, lambda part: part)
            y = drawn(tuple(made.shape), 90 + line.place)
            (back,) = torch.autograd.grad(made, x, y)
            there, home = float((made * y).sum().detach()), float((x * back).sum().detach())
            found.append({"kind": kind, "mixed": mixed, "there": there, "back": home})
    return found


def together() -> list[float]:
    """Two tensors that are under way at once, read in another order on every rank."""
    n = dist.get_world_size()
    line = open_mesh([("a", n)], range(n)).lines[0]
    ways = [Tiling(line=line, axis=0, tiles=tuple((i,) for i in range(n)), tag=tag) for tag in (1, 2)]
    given = [torch.full((1, 2), float(10 * k + line.place), requires_grad=True) for k in range(2)]
    coming = [gathered(way, x) for way, x in zip(ways, given, strict=True)]
    for item in coming if line.place % 2 else coming[::-1]:
        item.whole()
    total = sum(((k + 1) * item.whole()).sum() for k, item in enumerate(coming))
    back = torch.autograd.grad(total, given)
    return [*(float(item.whole().sum().detach()) for item in coming), *(float(g.sum()) for g in back)]
