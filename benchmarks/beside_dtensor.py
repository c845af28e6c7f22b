"""Tensor parallelism by torch's DTensor beside ours: gradients, and what each rank sends for a block.

python benchmarks/beside_dtensor.py [--ranks 2]

A Llama of 2 blocks in fp64, one step of 2 samples on ranks of this machine (gloo), three ways: DTensor by a
plan of `ColwiseParallel` and `RowwiseParallel` layers; the same with the output of each norm made a DTensor,
which all its readers share; and the lanes of `explorer validate`. Heads and the width inside of feed-forwards
are split, all else is whole. Bytes are counted where collectives are issued, and printed in S: what a rank
sends for one all-reduce of a block's activations, 2 (n - 1) / n of their bytes. Gradients are compared with
those of the module in one process. Ends with 1 if some gradient differs by more than 1e-10 of its largest
element.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleOutput,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils._python_dispatch import TorchDispatchMode

from explorer.run.own.own_layers import LOSS_KEY, own_layers
from explorer.run.own.own_source import own_source
from explorer.run.sharded.mesh import open_mesh
from explorer.run.sharded.own_units import OwnPieces

SIZES = {"layers": "2", "embed": "64", "heads": "8", "kv_heads": "4", "ffn": "160", "vocab": "100"}
WIDTH, BLOCKS, TOKENS, SAMPLES, ELEMENT_BYTES = 64, 2, 16, 2, 8
LAYOUT = (("heads", "tensor"), ("kv_heads", "tensor"), ("ffn", "tensor"))
TOLERANCE = 1e-10
SILENT = frozenset({"wait_tensor", "_wrap_tensor_autograd"})
"""What torch calls beside its collectives, without sending."""
CPU = torch.device("cpu")
Result = dict[str, tuple[float, float]]
"""By way: largest error of a gradient, and bytes that this rank sent."""


class Sent(TorchDispatchMode):
    """Counts the bytes that a rank sends by torch's functional collectives."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.ranks, self.sent = ranks, Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count a collective; let a DTensor take itself apart first."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        space, _, name = str(func).partition(".")
        kind = name.partition(".")[0]
        if space == "_c10d_functional" and kind not in SILENT:
            times = {
                "all_reduce": 2 / self.ranks,
                "all_gather_into_tensor": 1,
                "reduce_scatter_tensor": 1 / self.ranks,
            }
            given = args[0]
            share = times[kind] * (self.ranks - 1)
            self.sent[kind] += round(given.numel() * given.element_size() * share)
        return func(*args, **(kwargs or {}))


def by_dtensor(
    whole: nn.Module, samples: Mapping[str, torch.Tensor], *, shared: bool
) -> tuple[nn.Module, int]:
    """Take a step of a copy under DTensor; return it with its gradients, and the bytes that this rank sent.

    `shared`: whether readers of a norm share its output as one DTensor.
    """
    model, ranks = copy.deepcopy(whole), dist.get_world_size()
    plan: dict[str, ParallelStyle] = {}
    for half, split, joined in (("attention", "qkv", "o"), ("mlp", ("gate", "up"), "down")):
        plan |= {f"layers.*.{half}.{name}": ColwiseParallel() for name in split}
        plan[f"layers.*.{half}.{joined}"] = RowwiseParallel()
        if shared:
            style = PrepareModuleOutput(
                output_layouts=Replicate(), desired_output_layouts=Replicate(), use_local_output=False
            )
            plan[f"layers.*.{half}.norm"] = style
    parallelize_module(model, init_device_mesh("cpu", (ranks,)), plan)
    with Sent(ranks) as counted:
        model(samples["tokens"], samples["targets"]).backward()
    return model, sum(counted.sent.values())


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the largest difference, over the largest element wanted."""
    return float((found - wanted).abs().max() / wanted.abs().max())


def ways() -> Result:
    """Take the step in all ways on this rank."""
    ranks = dist.get_world_size()
    model = own_source("llama", settings=SIZES, sequence_length=TOKENS, dtype="fp64").model
    layers = own_layers(model)
    whole = copy.deepcopy(layers.source.module).to(torch.float64)
    with torch.no_grad():
        for name, item in whole.named_parameters():
            item.copy_(layers.initial(name))
    samples = layers.samples(0, SAMPLES, CPU)
    whole(samples["tokens"], samples["targets"]).backward()
    wanted = {name: item.grad for name, item in whole.named_parameters() if item.grad is not None}
    found: Result = {}
    for way, shared in (("DTensor, layer by layer", False), ("DTensor, norms' outputs shared", True)):
        made, sent = by_dtensor(whole, samples, shared=shared)
        errors = []
        for name, item in made.named_parameters():
            grad = item.grad
            errors.append(error(grad.full_tensor() if isinstance(grad, DTensor) else grad, wanted[name]))
        found[way] = max(errors), sent
    found["lanes of explorer validate"] = ours(
        replace(model, layout=LAYOUT, axes=(("tensor", ranks),)), wanted
    )
    return found


def ours(model: Any, wanted: Mapping[str, torch.Tensor]) -> tuple[float, float]:
    """Take the step on a lane; return the largest error of a gradient and the bytes that this rank sent."""
    mesh = open_mesh(model.axes, range(dist.get_world_size()))
    units, every = OwnPieces(model, mesh), range(len(model.layers))
    weights = units.weights(every, CPU)
    made = units.run(every, weights, {}, units.samples(0, SAMPLES, CPU))
    grads = torch.autograd.grad(made[LOSS_KEY] / SAMPLES, list(weights.values()))
    summed = units.add_up(every, dict(zip(weights, grads, strict=True)))
    errors = [error(summed[name], units.cut(every, name, wanted[name])) for name in weights]
    return max(errors), sum(mesh.meter.sent.values())


def on_ranks(count: int, function: Callable[[], Result]) -> list[Result]:
    """Run a function on forked ranks; return what each returned."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(count):
            if child := os.fork():
                children.append(child)
                continue
            status = 1
            try:
                torch.set_num_threads(1)
                dist.init_process_group(
                    "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=count
                )
                (Path(folder) / f"{rank}.json").write_text(json.dumps(function()))
                dist.barrier()
                status = 0
            except Exception:  # noqa: BLE001 - told, and the exit status says it
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        for child in children:
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                raise SystemExit("a rank failed")
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(count)]


def main(arguments: list[str]) -> int:
    """Print a table of the ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2, help="2 or 4")
    ranks = parser.parse_args(arguments).ranks
    rows = on_ranks(ranks, ways)
    once = 2 * (ranks - 1) / ranks * SAMPLES * TOKENS * WIDTH * ELEMENT_BYTES
    print("| way | sent per block and rank | largest error of a gradient |\n|---|---|---|")
    worst = 0.0
    for way in rows[0]:
        off = max(row[way][0] for row in rows)
        sent = max(row[way][1] for row in rows) / BLOCKS
        worst = max(worst, off)
        print(f"| {way} | {sent:,.0f} bytes = {sent / once:.4g} S | {off:.1e} |")
    return 1 if worst > TOLERANCE else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
