"""Run on every rank: one model under torch's `fully_shard` and under our ZeRO 3, and what each sends."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils._python_dispatch import TorchDispatchMode

from explorer.run.own.own_layers import own_layers
from tests.run.sharded.check_own import Way, model, one

BATCH, MICROBATCHES, STEPS = 8, 4, 2
OPERATIONS = {"_allgather_base_": "all_gather", "_reduce_scatter_base_": "reduce_scatter"}
"""What torch calls its collectives, and what we do."""


class Sent(TorchDispatchMode):
    """Bytes of the collectives that torch issues: of n ranks each sends (n - 1) / n of the whole."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        space, _, name = str(func).partition(".")
        if space == "c10d":
            whole = max((item for item in args[:2] if isinstance(item, torch.Tensor)), key=torch.numel)
            n = dist.get_world_size()
            kind = OPERATIONS.get(name.partition(".")[0], name)
            self.sent[kind] += whole.numel() * whole.element_size() * (n - 1) // n
        return func(*args, **(kwargs or {}))


def beside_torch() -> dict[str, Any]:
    """One step by `fully_shard`, beside one process: loss, gradients and bytes; and bytes of ours."""
    rank, n = dist.get_rank(), dist.get_world_size()
    layers = own_layers(model("gpt", "fp64").model)
    whole = copy.deepcopy(layers.source.module).to(torch.float64)
    with torch.no_grad():
        for name, item in whole.named_parameters():
            item.copy_(layers.initial(name))
    samples = layers.samples(0, BATCH, torch.device("cpu"))
    tokens, targets = samples["tokens"], samples["targets"]
    sharded = copy.deepcopy(whole)
    loss = whole(tokens, targets)
    loss.backward()
    own = [item for name, item in sharded.named_parameters() if not name.startswith("layers.")]
    root = sum(item.numel() * item.element_size() for item in own)
    assert isinstance(sharded.layers, nn.ModuleList)
    for block in sharded.layers:
        fully_shard(block)
    fully_shard(sharded)
    size, total, sent = BATCH // n // MICROBATCHES, 0.0, Sent()
    with sent:
        for number in range(MICROBATCHES):
            low = rank * BATCH // n + number * size
            part = sharded(tokens[low : low + size], targets[low : low + size]) / MICROBATCHES
            part.backward()
            total += float(part.detach())
    mean = torch.tensor(total / n, dtype=torch.float64)
    dist.all_reduce(mean)
    errors = []
    for (name, item), other in zip(sharded.named_parameters(), whole.parameters(), strict=True):
        assert item.grad is not None, name
        found = item.grad.full_tensor()  # type: ignore[attr-defined]
        errors.append(float((found - other.grad).abs().max()))  # type: ignore[operator]
    ours = one(Way("gpt", 1, n, 3))
    mine: Counter[str] = Counter()
    for _, op, _, _, count in ours["rows"]:
        mine[op] += count / STEPS  # type: ignore[assignment]
    return {
        "loss": abs(float(mean) - float(loss.detach())), "gradient": max(errors),
        "torch": dict(sent.sent), "ours": dict(mine), "ours_gradient": ours["numerics"]["gradient"],
        "kept": MICROBATCHES * root * (n - 1) / n,
    }  # fmt: skip
