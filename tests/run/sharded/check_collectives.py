"""Run on every rank: each collective and its adjoint, with even and uneven pieces, and what it sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from explorer.run.sharded import collectives as c
from explorer.run.sharded.mesh import Line, open_mesh


class Case(NamedTuple):
    """An operator with the whole tensors of all ranks before it, and what it should make on each."""

    name: str
    operator: Callable[[Line], c.Operator]
    given: list[torch.Tensor]
    """Per rank its input."""
    wanted: list[torch.Tensor]
    """Per rank its output."""
    elements: float
    """Scalars of all that the volume formula calls S."""


def cases(n: int) -> Iterator[Case]:
    torch.manual_seed(7)
    for kind, sizes in (
        ("even", (2,) * n),
        ("uneven", tuple(range(1, n + 1))),
        ("empty", (0, *range(2, n + 1))),
    ):
        total = sum(sizes)
        whole = [torch.randn(3, total, 2, dtype=torch.float64) for _ in range(n)]
        summed = sum(whole[1:], whole[0])
        pieces, parts = list(whole[0].split(sizes, 1)), list(summed.split(sizes, 1))
        size = whole[0].numel()
        zeros = torch.zeros_like(whole[0])
        last = n - 1
        yield Case(
            f"all_gather {kind}", lambda ln, s=sizes: c.AllGather(ln, 1, s), pieces, [whole[0]] * n, size
        )
        yield Case(
            f"reduce_scatter {kind}", lambda ln, s=sizes: c.ReduceScatter(ln, 1, s), whole, parts, size
        )
        yield Case(f"all_reduce {kind}", c.AllReduce, whole, [summed] * n, size)
        yield Case(f"broadcast {kind}", lambda ln, r=last: c.Broadcast(ln, r), whole, [whole[last]] * n, size)
        at_root = [summed if i == last else zeros for i in range(n)]
        yield Case(f"reduce {kind}", lambda ln, r=last: c.SumReduce(ln, r), whole, at_root, size)
        yield Case(
            f"scatter {kind}",
            lambda ln, s=sizes: c.Scatter(ln, 1, s),
            whole,
            pieces,
            size - pieces[0].numel(),
        )
        at_root = [whole[0] if i == 0 else zeros for i in range(n)]
        yield Case(
            f"gather {kind}",
            lambda ln, s=sizes: c.Gather(ln, 1, s),
            pieces,
            at_root,
            size - pieces[0].numel(),
        )
        other = torch.randn(total, total, dtype=torch.float64)
        rows, columns = list(other.split(sizes, 0)), list(other.split(sizes, 1))
        yield Case(
            f"all_to_all {kind}", lambda ln, s=sizes: c.AllToAll(ln, 1, s, 0, s), rows, columns,
            total * total - sum(size * size for size in sizes),
        )  # fmt: skip
        shapes = tuple(tuple(piece.shape) for piece in pieces)
        passed = [pieces[(i - 1) % n] for i in range(n)]
        yield Case(f"shift {kind}", lambda ln, s=shapes: c.Shift(ln, s), pieces, passed, size)
    for before, after in ((1, 1), (2, 0), (0, 3), (2, 1)):
        rows = tuple(3 + i for i in range(n))
        whole = torch.randn(sum(rows), 5, dtype=torch.float64)
        starts = [sum(rows[:i]) for i in range(n)]
        wanted = [
            whole[max(0, starts[i] - before) : min(sum(rows), starts[i] + rows[i] + after)] for i in range(n)
        ]
        yield Case(
            f"halo {before} {after}",
            lambda ln, r=rows, b=before, a=after: c.Halo(ln, 0, r, (b,) * len(r), (a,) * len(r)),
            list(whole.split(rows)), wanted, (n - 1) * (before + after) * 5,
        )  # fmt: skip


def check() -> list[dict[str, Any]]:
    n = dist.get_world_size()
    mesh = open_mesh([("a", n)], range(n))
    return [_one(case, mesh.lines[0]) for case in list(cases(n))]


def _one(case: Case, line: Line) -> dict[str, Any]:
    me, meter = line.place, line.meter
    operator = case.operator(line)
    x = case.given[me].clone().requires_grad_()
    meter.clear()
    made = c.apply(operator, x)
    forward = sum(meter.sent.values())
    torch.manual_seed(11 + me)
    y = torch.randn_like(made)
    meter.clear()
    made.backward(y)
    assert x.grad is not None
    products = torch.stack([(made.detach() * y).sum(), (x.detach() * x.grad).sum()])
    dist.all_reduce(products)
    return {
        "name": case.name,
        "error": float((made.detach() - case.wanted[me]).abs().max()) if made.numel() else 0.0,
        "shape": list(made.shape) == list(case.wanted[me].shape),
        "products": products.tolist(),
        "sent": [forward, sum(meter.sent.values())],
        "elements": case.elements,
    }
