"""Run on every rank: exchanges of flat weights, timed and in memory used again; states of their parts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from explorer.run.ranks.interpreter import Interpreter
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.transport import Transport
from explorer.run.sharded.exchange_timing import flat_weights, open_lines, time_exchanges
from explorer.run.sharded.flat_weights import FlatWeights, ShardLines
from explorer.run.sharded.mesh import Meter
from explorer.run.sharded.sharded_compute import ShardedCompute, open_sharded
from explorer.run.spec import FlatGroup
from tests.run.own.own_cases import LLAMA, case, cut, source
from tests.run.sharded.check_backend import HOOKS

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


def states() -> list[dict[str, Any]]:
    """Sizes of the optimizer's states by name, as made before a run and as they are after it."""
    own, ranks, found = source(*LLAMA), dist.get_world_size(), []
    for level in range(4):
        stages = tuple(replace(stage, zero=level) for stage in cut(own, 1, ranks, size=ranks))
        run = case(own, stages, "1f1b", batch=4 * ranks, optimizer="adam").case
        base = Transport(rank=dist.get_rank(), ranks=ranks, device=torch.device("cpu"), timeout_s=60.0)
        compute, transport, plan = open_sharded(run, RankLanes(run.lowered()), base)
        assert compute is not None
        assert plan is not None
        compute.reset()
        compute.make_states()
        before = _sizes(compute)
        Interpreter(plan, compute, transport, HOOKS).run(time.perf_counter())
        found.append({"level": level, "before": before, "after": _sizes(compute)})
    return found


def _sizes(compute: ShardedCompute) -> dict[str, int]:
    return {name: state.numel() for name, state in compute.optimizer.second.items()}
