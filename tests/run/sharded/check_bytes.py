"""Run on every rank: the most bytes of tensors of sharded ranks, beside what is predicted of them."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

import torch
import torch.distributed as dist

from explorer.run.cases.build import Prepared
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.judging.cost_check import priced_by
from explorer.run.judging.held_bytes import predicted_bytes
from explorer.run.own.own_source import OwnSource
from explorer.run.ranks.allocated import counted, prepare_counting
from explorer.run.ranks.interpreter import Hooks, Interpreter
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.transport import Transport
from explorer.run.sharded.sharded_compute import open_sharded
from explorer.sharding import megatron_layout
from explorer.strategy import REPLICA, Mesh
from tests.run.own.own_cases import case, cut, full_width, source

CPU = torch.device("cpu")
HOOKS = Hooks(status=lambda *_: None, before=lambda _: None, step=lambda _: None)
SIZES = {"layers": "4", "embed": "128", "heads": "4", "vocab": "64"}
IMAGES = {"image": "96", "width": "32", "classes": "10"}
MODELS: dict[str, tuple[tuple[str, dict[str, str], int | None], int]] = {
    "gpt": (("gpt", SIZES, 16), 4),
    "tied": (("gpt", {**SIZES, "layers": "2", "vocab": "8000"}, 16), 2),
    "resnet50": (("resnet50", IMAGES, None), 8),
}
"""Model, and samples of a microbatch of one replica: most of the bytes are those of gradients while they are
scattered, of a weight that two layers share, or of activations.
"""


@lru_cache
def model(name: str) -> OwnSource:
    """A model in fp32."""
    return source(*MODELS[name][0], "fp32")


def peak_of(made: Prepared, own: OwnSource, *, waits: bool = True) -> dict[str, Any]:
    """Predicted and counted bytes of this rank, in a run that nothing else is asked of."""
    # a checked run keeps what it applied; a counted one waits for reductions, so that no clock decides
    run = replace(made, case=replace(made.case, check=False, count_bytes=waits))
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
    priced = priced_by(run, own.eager, run.strategy, uncalibrated(dist.get_world_size()))
    predicted = predicted_bytes(priced, own.eager)[dist.get_rank() // run.case.lane_ranks]
    return {"counted": peak.peak, "predicted": predicted}


LANES = (
    ("llama", megatron_layout()),
    ("llama", megatron_layout(sequence_parallel=True)),
    ("tied", megatron_layout()),
    ("mixtral", megatron_layout()),
    ("mixtral", (("experts", "tensor"), *megatron_layout())),
)
"""Models at the widths of their own but for the tied one, and how two ranks lay them out."""


def lanes() -> list[dict[str, Any]]:
    """Peaks of ranks of one lane, each with its pieces of all layers."""
    prepare_counting()
    found = []
    for name, layout in LANES:
        axes = (("tensor", 2),)
        own = model(name) if name in MODELS else full_width(name, "fp32")
        own = own._replace(model=replace(own.model, layout=layout, axes=axes))
        mesh = Mesh(devices=(0, 1), axes=((REPLICA, 1), *axes))
        stages = tuple(replace(stage, layout=layout, meshes=(mesh,)) for stage in cut(own, 1, size=2))
        made = case(own, stages, "1f1b", batch=4, optimizer="adam")
        found.append({"model": name, "layout": layout, **peak_of(made, own)})
    return found


def zero() -> list[dict[str, Any]]:
    """Peaks under every level of ZeRO; on four ranks in a pipeline, too."""
    prepare_counting()
    found, ranks = [], dist.get_world_size()
    for name, (_, samples) in MODELS.items():
        own = model(name)
        for stages, level in product((1, 2) if ranks > 2 else (1,), range(4)):
            size = samples * ranks // stages
            plain = cut(own, stages, ranks // stages, size=size)
            made = case(
                own, tuple(replace(stage, zero=level) for stage in plain), "1f1b", batch=4 * size,
                optimizer="adam",
            )  # fmt: skip
            weights = 4 * own.graph.parameter_count
            row = {"model": name, "level": level, "stages": stages, "weights": weights}
            found.append({**row, **peak_of(made, own)})
    return found


CHUNKS = ("interleaved_1f1b", "breadth_first")
"""Schedules of two chunks on a lane: gradients are scattered after each microbatch, or once after several."""


def chunks() -> list[dict[str, Any]]:
    """Peaks of lanes of two chunks whose gradients, or weights as well, are shared by pairs of replicas."""
    prepare_counting()
    found, ranks, own = [], dist.get_world_size(), model("gpt")
    for schedule, level in product(CHUNKS, (2, 3)):
        plain = cut(own, 1, ranks, chunks=2, size=4 * ranks)
        stages = tuple(replace(stage, zero=level, zero_replicas=2) for stage in plain)
        made = case(own, stages, schedule, batch=16 * ranks, optimizer="adam")
        found.append({"schedule": schedule, "level": level, **peak_of(made, own)})
    return found


def turns() -> list[dict[str, Any]]:
    """Peaks where one rank feeds replicas that take turns and share their gradients: with waits for every
    reduction, as where bytes are counted, and without, as where time is measured.
    """
    prepare_counting()
    ranks, own = dist.get_world_size(), model("gpt")
    first, second = cut(own, 2, 1, size=4)
    mesh = Mesh(devices=tuple(range(1, ranks)))
    stages = (first, replace(second, meshes=(mesh,), zero=2, replicas="round_robin"))
    made = case(own, stages, "1f1b", batch=16 * (ranks - 1), optimizer="adam")
    return [{"waits": waits, **peak_of(made, own, waits=waits)} for waits in (True, False)]
