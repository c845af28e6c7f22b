"""Mixed precision where the device has it: own layers of a plan in bf16 run in bf16, else in fp32, and why.

Weights that are computed with, activations and their messages are in bf16 then, main weights and states of
the optimizer in fp32, gradients in the precision that the job says: what memory of a plan in bf16 counts
(`explorer.costs.memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from explorer.graph import COMPUTE, LayerGraph
from explorer.run.cases.likeness import Scaled
from explorer.run.cases.slices import is_cut
from explorer.run.gpus import count_gpus
from explorer.run.own.other_precision import captured_in
from explorer.run.own.own_model import OwnModel
from explorer.run.own.planned_layers import as_planned
from explorer.strategy import JobStrategy
from explorer.updates import PLAIN
from explorer.workload import Job

BF16, FP32 = "bf16", "fp32"
PLANS = "plan"
"""Asks for the precision of the plan's job, where a run has it; the other choice is fp32."""
PROCESSOR_FLAGS = ("avx512_bf16", "amx_bf16")
"""Instructions for products in bf16, as torch names them; without them it computes in fp32 and casts."""
_BEGINNING = "precision"


def in_plan_precision(scaled: Scaled, job: Job, *, asked: str = PLANS, here: bool = True) -> Scaled:
    """Return a run in the precision of its plan's job, or as it is, in fp32, with the reason in its words.

    Args:
        scaled: the run, in fp32.
        job: the plan's job.
        asked: the precision asked for, `PLANS` or fp32.
        here: whether it runs on this machine, whose devices can be asked.
    """
    if job.precision == FP32:
        return scaled
    reason = _unsuited(scaled, job, asked)
    if not reason:
        reason = device_without(scaled.ranks) if here else "a run elsewhere computes in fp32"
    model = scaled.model
    if not reason and isinstance(model, OwnModel):
        found, reason = captured_in(model, BF16)
        if found is not None:
            return _mixed(scaled, job, *found)
    lost = (f"{x}: {reason}" if x.startswith(f"{_BEGINNING}: ") else x for x in scaled.not_validated)
    return replace(scaled, not_validated=tuple(lost))


def _unsuited(scaled: Scaled, job: Job, asked: str) -> str:
    """Return why a run is in fp32 on any device; empty if it need not be."""
    model = scaled.model
    if asked != PLANS:
        return f"{asked} was asked for"
    if job.precision != BF16:
        return _OTHERS.get(job.precision, "runs compute in bf16 or fp32")
    if job.gradient_precision not in ("", BF16, FP32):
        return f"gradients in {job.gradient_precision} are not added up here"
    if not isinstance(model, OwnModel):
        return "stand-ins compute in fp32"
    if cut := _cut(model, scaled.strategy):
        return f"{cut} compute in fp32"
    rules = {choice.rule for choice in scaled.strategy.updates} - {PLAIN.rule}
    return f"the update rule {', '.join(sorted(rules))} runs in fp32" if rules else ""


def _cut(model: OwnModel, strategy: JobStrategy) -> str:
    """Return which layers are in parts; empty if every layer is whole on its rank."""
    if model.mesh_axes or model.lane_ranks > 1 or model.spread:
        return "layers on lanes of several ranks"
    return "layers cut into slices" if is_cut(strategy) else ""


_OTHERS = {"fp16": "no run scales its loss, as fp16 needs it", "fp8": "no run multiplies in fp8"}


def _mixed(scaled: Scaled, job: Job, model: OwnModel, eager: LayerGraph) -> Scaled:
    """Return a run with its model in bf16 and gradients as the plan's job says.

    `eager`: its layers by operator, captured in bf16: what casts make, as that of a loss, is in fp32.
    """
    gradients = job.gradient_precision or BF16
    wide = {tensor.name for tensor in model.tensors if tensor.dtype == "float32"}
    words = f"precision bf16: main weights and states of the optimizer in fp32, gradients in {gradients}"
    return replace(
        scaled,
        model=replace(model, gradient_dtype=gradients),
        graph=_typed(scaled.graph, wide),
        eager=None if scaled.eager is None else as_planned(eager, model.planned),
        job=replace(scaled.job, precision=BF16, gradient_precision=job.gradient_precision),
        validated=(*scaled.validated, words),
        not_validated=tuple(x for x in scaled.not_validated if not x.startswith(_BEGINNING)),
    )


def _typed(graph: LayerGraph, wide: Collection[str]) -> LayerGraph:
    """Return a graph some of whose tensors are in fp32 whatever the job's precision: a module's own casts."""
    tensors = tuple(
        replace(tensor, dtype=FP32) if tensor.name in wide and tensor.dtype == COMPUTE else tensor
        for tensor in graph.tensors
    )
    return replace(graph, tensors=tensors)


def device_without(ranks: int) -> str:
    """Return why so many ranks here do not compute in bf16 by their own instructions; empty if they do."""
    import torch

    if count_gpus() >= max(1, ranks):  # as ranks choose it (`connect`)
        has = torch.cuda.is_bf16_supported(including_emulation=False)
        return "" if has else f"{torch.cuda.get_device_name()} computes in no bf16 of its own"
    capabilities: Callable[[], dict[str, object]] = getattr(torch.cpu, "get_capabilities", dict)
    found = capabilities()
    return "" if any(map(found.get, PROCESSOR_FLAGS)) else "this processor has no instructions for bf16"
