"""Run on every rank: exchanges of flat weights, timed as a calibration does, and in memory used again."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from explorer.run.sharded.exchange_timing import flat_weights, open_lines, time_exchanges
from explorer.run.sharded.flat_weights import FlatWeights, ShardLines
from explorer.run.sharded.mesh import Meter
from explorer.run.spec import FlatGroup

SIZES = {"a": 3, "b": 4}
"""Parameters of flat weights: 7 scalars, which no even number of ranks divides."""


def timed() -> list[dict[str, Any]]:
    """Seconds of exchanges by level, and the parts and copies that this rank belongs to."""

    def clocks() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    found, ranks = [], dist.get_world_size()
    for parts, copies in ((2, 1), (2, ranks // 2), (ranks, 1), (ranks + 1, 1)):
        for level in (1, 2, 3):
            group = FlatGroup(elements=100_003, level=level, parts=parts, copies=copies)
            lines = open_lines(group, ranks)
            if lines is None:
                found.append({"parts": 0, "asked": parts})
                continue
            flat = flat_weights(group, lines, like=torch.zeros(1), gradient_dtype=None)
            seconds = time_exchanges(flat, clocks)
            found.append(
                {"parts": lines.size, "copies": lines.copies, "asked": parts, "wanted": copies, **seconds}
            )
            dist.barrier()
    return found


def _reduced(flat: FlatWeights, given: dict[str, torch.Tensor]) -> torch.Tensor:
    work, came, sent = flat.begin_reduce(given)
    if work is not None:
        work.wait()
    flat.add(flat.sum_of(came))
    flat.end_reduce(came, sent)
    return flat.take_sum()


def again() -> list[dict[str, Any]]:
    """Sums of two exchanges, the second without a gradient of `a`, and whether its memory was the first's."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = []
    for frees in (True, False):
        lines = ShardLines(
            inner=dist.new_group(list(range(ranks))), place=rank, size=ranks, outer=None, copies=1
        )
        flat = FlatWeights(level=2, lines=lines, meter=Meter(), frees=frees)
        flat.fill({name: torch.zeros(size) for name, size in SIZES.items()})
        first = _reduced(flat, {name: torch.full((size,), 1.0 + rank) for name, size in SIZES.items()})
        kept = {item.data_ptr() for item in flat._spare}
        second = _reduced(flat, {"b": torch.full((SIZES["b"],), 2.0)})
        same = {item.data_ptr() for item in flat._spare} == kept
        row = {"frees": frees, "kept": len(kept), "same": same}
        found.append({**row, "first": first.tolist(), "second": second.tolist()})
    return found
