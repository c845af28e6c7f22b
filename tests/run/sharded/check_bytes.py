"""Run on every rank: the most bytes of tensors under ZeRO, beside what is predicted of our ranks."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from explorer.run.judging.held_bytes import predicted_bytes
from explorer.run.ranks.allocated import counted, prepare_counting
from explorer.run.ranks.interpreter import Hooks, Interpreter
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.transport import Transport
from explorer.run.sharded.sharded_compute import open_sharded
from tests.run.own.own_cases import case, cut, source

CPU = torch.device("cpu")
HOOKS = Hooks(status=lambda *_: None, before=lambda _: None, step=lambda _: None)
SIZES = {"layers": "4", "embed": "128", "heads": "4", "vocab": "64"}


def peaks() -> list[dict[str, Any]]:
    """Predicted and counted bytes of this rank, and of all weights, at every level."""
    own = source("gpt", SIZES, 16, "fp32")
    prepare_counting()
    found = []
    for level in range(4):
        replicas = dist.get_world_size()
        stages = tuple(replace(stage, zero=level) for stage in cut(own, 1, replicas, size=4))
        made = case(own, stages, "1f1b", batch=16, optimizer="adam")
        # a checked run keeps what it applied; a counted one waits for reductions, so that no clock decides
        run = replace(made, case=replace(made.case, check=False, count_bytes=True))
        lanes = RankLanes(run.case.lowered())
        base = Transport(rank=dist.get_rank(), ranks=dist.get_world_size(), device=CPU, timeout_s=60.0)
        compute, transport, plan = open_sharded(run.case, lanes, base)
        assert compute is not None
        assert plan is not None
        compute.reset()
        Interpreter(plan, compute, transport, HOOKS).run(time.perf_counter())
        compute.reset()
        with counted(CPU, compute.held()) as peak:
            Interpreter(plan, compute, transport, HOOKS).run(time.perf_counter())
        predicted = predicted_bytes(run, own.graph)[dist.get_rank()]
        weights = 4 * own.graph.parameter_count
        found.append({"level": level, "counted": peak.peak, "predicted": predicted, "weights": weights})
    return found
