"""Run on every rank: plans of own layers in the interpreter, against one process."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from explorer.run.ranks.interpreter import Hooks, Interpreter
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.transport import Transport
from explorer.run.referee.comparison import compare_with_emulation
from explorer.run.sharded.sharded_compute import open_sharded
from explorer.run.spec import RunCase
from tests.run.sharded.plans import CASES, Case, plan

CPU, STEPS = torch.device("cpu"), 2
HOOKS = Hooks(status=lambda *_: None, before=lambda _: None, step=lambda _: None)


def check() -> list[dict[str, Any]]:
    ranks = dist.get_world_size()
    return [one(case) for case in CASES if case.ranks == ranks]


def one(case: Case) -> dict[str, Any]:
    return {"name": case.name, **played(plan(case, steps=STEPS).case)}


def played(case: RunCase) -> dict[str, Any]:
    """What a rank makes of a case, and how far it is from one process."""
    lanes = RankLanes(case.lowered())
    base = Transport(rank=dist.get_rank(), ranks=dist.get_world_size(), device=CPU, timeout_s=60.0)
    compute, transport, lane_plan = open_sharded(case, lanes, base)
    assert compute is not None
    assert lane_plan is not None
    compute.reset()
    before = {name: compute.present(name).clone() for name in compute.current}
    compute.where.mesh.meter.clear()
    Interpreter(lane_plan, compute, transport, HOOKS).run(time.perf_counter())
    record = compute.record()
    each = {str(g): (flat.gathers, flat.reductions) for g, flat in compute.zero.items()}
    moved = max(float((compute.present(n) - w).abs().max()) for n, w in before.items() if w.numel())
    return {
        "numerics": compare_with_emulation(compute), "moved": moved, "left": record["left"],
        "gathers": {g: counts[0] for g, counts in each.items()},
        "reductions": {g: counts[1] for g, counts in each.items()},
        "kept": record["gathered_bytes"], "rows": record["sent"],
        "sent": sum(row[-1] for row in record["sent"]),
    }  # fmt: skip
