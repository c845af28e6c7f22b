"""Engines: the same case on torch's own machinery, to check that gradients are equal and to compare the time.

Plain data parallelism runs on `DistributedDataParallel`; a chain of stages under a flushed schedule on
`torch.distributed.pipelining`, from the very order that was lowered, as compute-only CSV. Both use the
weights, data and optimizer of the interpreter's run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from explorer.base.errors import InputError
from explorer.base.files import write_text
from explorer.run.cases.build import unsupported_by_torch
from explorer.run.launching.status import COMPUTING
from explorer.run.model import ModelSpec
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.modules import run_units, sample_tokens
from explorer.run.ranks.optimizers import Optimizer
from explorer.run.ranks.transport import Transport
from explorer.run.referee.comparison import compare_with_emulation
from explorer.run.spec import RunCase
from explorer.schedules import _torch_notation as torch_notation


class Says(Protocol):
    """Where a rank reports what it does."""

    def status(self, state: int, text: str = "", predicted_s: float = 0.0) -> None:
        """Report what this rank does now."""


class Units(nn.Module):
    """Consecutive units as a module: tokens or activations in, activations or each sample's loss out."""

    def __init__(self, model: ModelSpec, units: Iterable[int], weights: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.model, self.units = model, tuple(units)
        self.names = tuple(weights)
        self.held = nn.ParameterList(nn.Parameter(weights[name].detach().clone()) for name in self.names)

    def forward(self, x: torch.Tensor, tokens: torch.Tensor | None = None) -> torch.Tensor:
        """Run the units. `x`: tokens for the embedding, else the output of the unit before; `tokens` for the
        head.
        """
        weights = dict(zip(self.names, self.held, strict=True))
        if x.dtype == torch.int64:
            return run_units(self.model, self.units, weights, {}, x)[self.units[-1]]
        given = x if tokens is None else tokens
        return run_units(self.model, self.units, weights, {self.units[0] - 1: x}, given)[self.units[-1]]

    def gradients(self) -> dict[str, torch.Tensor]:
        """Return the gradients by parameter name."""
        return {name: p.grad for name, p in zip(self.names, self.held, strict=True) if p.grad is not None}


def torch_player(case: RunCase, desk: Says, transport: Transport) -> Callable[[], dict[str, Any]]:
    """Build a case on torch's machinery; return a function that runs all its steps once."""
    if problems := unsupported_by_torch(case):
        raise InputError(f"torch cannot run {'; '.join(problems)}", key="engine", allowed="likeness")
    lanes = RankLanes(case.lowered())
    local = Compute(case, lanes, transport.rank, transport.device)
    modules = {
        piece.section: Units(_stand_ins(local), case.sections[piece.section], local.versions[piece][0])
        for piece in local.pieces
    }
    step = (
        _data_parallel(local, modules, transport)
        if len(case.skeleton.sections) == 1
        else _pipeline(local, modules)
    )
    checked: list[dict[str, float]] = []

    def play() -> dict[str, Any]:
        local.reset()
        _load(local, modules)
        transport.barrier()
        begin = time.perf_counter()
        optimizer = Optimizer(case.optimizer, case.learning_rate)
        for number in range(case.order.steps):
            desk.status(COMPUTING, f"step {number} on torch's engine", sum(case.seconds) + 4)
            step(number)
            _update(local, modules, optimizer, number)
        seconds = time.perf_counter() - begin
        if case.check and not checked:
            checked.append(compare_with_emulation(local))
        return {"stamps": [], "seconds": seconds, **({"numerics": checked[0]} if checked else {})}

    return play


def _stand_ins(local: Compute) -> ModelSpec:
    """Return the model of a case that `unsupported_by_torch` lets pass."""
    if not isinstance(local.model, ModelSpec):
        raise InputError("torch's engine runs stand-ins only", key="engine", allowed="likeness")
    return local.model


def _load(local: Compute, modules: dict[int, Units]) -> None:
    for module in modules.values():
        for name, parameter in zip(module.names, module.held, strict=True):
            parameter.data.copy_(local.current[name].data)
            parameter.grad = None


def _update(local: Compute, modules: dict[int, Units], optimizer: Optimizer, number: int) -> None:
    """Apply mean gradients, and record them where the comparison looks."""
    batch = local.data["tokens"].shape[0] // local.case.order.steps
    span = (number * batch, (number + 1) * batch)
    for module in modules.values():
        found = module.gradients()
        if local.case.check:
            local.applied.update({(name, span): g.clone() for name, g in found.items()})
        held = {name: p.data for name, p in zip(module.names, module.held, strict=True)}
        optimizer.step(held, found)
        for name, parameter in zip(module.names, module.held, strict=True):
            local.current[name] = parameter.detach()
            parameter.grad = None


def _data_parallel(local: Compute, modules: dict[int, Units], transport: Transport) -> Callable[[int], None]:
    """Return a function for one step of DistributedDataParallel, which averages gradients after the last
    microbatch.
    """
    wrapped: nn.Module = modules[0]
    if transport.ranks > 1:
        wrapped = nn.parallel.DistributedDataParallel(modules[0])
    section = local.skeleton.sections[0]
    count = local.lanes.program.shape.microbatches[0]
    scale = transport.ranks / (count * section.microbatch_samples)

    def step(number: int) -> None:
        for n in range(number * count, (number + 1) * count):
            low, high = section.interval(transport.rank, n)
            if isinstance(wrapped, nn.parallel.DistributedDataParallel):
                wrapped.require_backward_grad_sync = n + 1 == (number + 1) * count
            (wrapped(local.data["tokens"][low:high]) * scale).backward()

    return step


def _pipeline(local: Compute, modules: dict[int, Units]) -> Callable[[int], None]:
    """Return a function for one step of torch's schedule runtime over the case's own order."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    model, case = _stand_ins(local), local.case
    batch = local.data["tokens"].shape[0] // case.order.steps
    last = len(case.sections) - 1
    head = _Head(model, modules, last)
    stages = [
        PipelineStage(head.without(module) if s == last else module, s, last + 1, local.device)
        for s, module in sorted(modules.items())
    ]
    runtime = _PipelineScheduleRuntime(  # type: ignore[no-untyped-call]
        stages, case.shape.microbatches[0], loss_fn=lambda y, tokens: head.loss(y, tokens) / batch,
        scale_grads=False,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "order.csv"
        write_text(path, torch_notation.to_torch_csv(case.order, case.shape))
        runtime._load_csv(str(path), format="compute_only")

    def step(number: int) -> None:
        tokens = sample_tokens(model, number * batch, (number + 1) * batch, local.device)
        given = (tokens,) if 0 in modules else ()
        runtime.step(*given, target=tokens if last in modules else None)

    return step


class _Head:
    """The last stage without its loss, which torch's runtime wants as a separate function."""

    def __init__(self, model: ModelSpec, modules: dict[int, Units], last: int) -> None:
        self.model, self.module = model, modules.get(last)

    def without(self, module: Units) -> nn.Module:
        """Return the stage up to the head."""
        return _Body(module)

    def loss(self, y: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the head's loss, summed over samples."""
        if self.module is None:
            raise InputError("the loss is asked on a rank without the head", key="engine")
        weights = dict(zip(self.module.names, self.module.held, strict=True))
        last = len(self.model.units) - 1
        # the head saves what it reads for its weights, and torch detaches y in place before they are due
        return run_units(self.model, [last], weights, {self.model.units[last].reads[0]: y.clone()}, tokens)[
            last
        ]


class _Body(nn.Module):
    """Units of the last stage except the head; shares its parameters."""

    def __init__(self, module: Units) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the activations up to the head."""
        module = self.module
        weights = dict(zip(module.names, module.held, strict=True))
        body = module.units[:-1]
        if not body:
            return x
        return run_units(module.model, body, weights, {body[0] - 1: x}, x)[body[-1]]


__all__ = ["Units", "torch_player"]
