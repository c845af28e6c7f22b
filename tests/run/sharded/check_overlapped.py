"""Run on every rank: products in chunks against the collective and the whole product."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from explorer.run.sharded.collectives import AllGather, ReduceScatter, apply
from explorer.run.sharded.mesh import open_mesh
from explorer.run.sharded.overlapped import gathered_product, product_scattered


def check() -> list[dict[str, Any]]:
    n = dist.get_world_size()
    line = open_mesh([("a", n)], range(n)).lines[0]
    torch.manual_seed(5)
    found = []
    for sizes in ((3,) * n, tuple(range(1, n + 1))):
        rows, columns, depth = sum(sizes), 5, 4
        everyone = [torch.randn(size, 2, depth, dtype=torch.float64) for size in sizes]
        whole = [torch.randn(rows, 2, depth, dtype=torch.float64) for _ in range(n)]
        weights = [torch.randn(columns, depth, dtype=torch.float64) for _ in range(n)]
        for way in ("gathered", "scattered"):
            given = everyone if way == "gathered" else whole
            results = []
            for chunked in (True, False):
                x, w = (
                    given[line.place].clone().requires_grad_(),
                    weights[line.place].clone().requires_grad_(),
                )
                line.meter.clear()
                if way == "gathered":
                    y = (
                        gathered_product(line, x, w, sizes)
                        if chunked
                        else apply(AllGather(line, 0, sizes), x) @ w.T
                    )
                else:
                    y = (
                        product_scattered(line, x, w, sizes)
                        if chunked
                        else apply(ReduceScatter(line, 0, sizes), x @ w.T)
                    )
                generator = torch.Generator().manual_seed(line.place)
                g = torch.randn(y.shape, dtype=y.dtype, generator=generator)
                results.append(
                    (y.detach(), *torch.autograd.grad(y, (x, w), g), sum(line.meter.sent.values()))
                )
            (*ours, sent), (*plain, expected) = results
            error = max(float((a - b).abs().max()) for a, b in zip(ours, plain, strict=True))
            found.append({"way": way, "sizes": sizes, "error": error, "sent": sent, "expected": expected})
    return found
