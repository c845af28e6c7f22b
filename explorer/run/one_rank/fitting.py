"""Fitting a rank of a plan on one device: what of its step runs here, and what is refused at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.actions import Action
from explorer.base.errors import InputError
from explorer.base.units import format_bytes
from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.run.one_rank.faked_peers import SHARED_WEIGHTS
from explorer.run.one_rank.stage_layers import FULL
from explorer.simulation.one_job import simulate_job
from explorer.simulation.report import Report
from explorer.strategies.keeping import exceptions_of, full_blocks, partly_kept
from explorer.strategy import RESHARD_RUN, Stage
from explorer.tasks.program import GATHER, B, F, Program
from explorer.workload import Job

PRECISION = "fp32"
"""Precision in which a slice runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What of a rank runs here."""

    job: Job
    """The job of the plan, with as many microbatches as run."""
    shortened: tuple[tuple[str, str, str], ...]
    """What it has less of: what, in the plan, here."""
    lane: int
    """The rank's lane of the plan."""
    order: tuple[Action, ...]
    """Its forwards, backwards and updates in their order."""
    stages: dict[int, Stage]
    """Its stages, by number."""
    samples: int
    """Samples of a microbatch that are its own."""
    peak_bytes: float
    """Predicted peak bytes of its tensors."""


def fit(resolved: Resolved, *, rank: int | None, microbatches: int | None, device: str) -> Fitted:
    """Return what of a rank runs on a device; the arguments are those of `run_slice`.

    Raises:
        InputError: no such rank, a plan of which no rank can run alone, or more bytes than are free.
    """
    job, shortened = _shortened(resolved, microbatches)
    report = _report(resolved, job)
    lane = max(range(len(report.busy_s)), key=report.busy_s.__getitem__) if rank is None else rank
    if not 0 <= lane < len(report.busy_s):
        raise InputError(
            f"the plan has no rank {rank}", key="rank", found=rank, allowed=f"0 to {len(report.busy_s) - 1}"
        )
    stages = resolved.plan.strategy.job.stages
    order = tuple(a for a in report.timeline.program.order.lanes[lane] if a.op in "FBU")
    mine = {s: stages[s] for s in sorted({action.stage for action in order})}
    first = next(iter(mine.values()))
    expected = report.allocated_memory_bytes[lane]
    _require_room(expected, device)
    return Fitted(
        job=job, shortened=shortened, lane=lane, order=order, stages=mine,
        samples=first.microbatch_samples // first.meshes[0].replicas, peak_bytes=expected,
    )  # fmt: skip


def _shortened(resolved: Resolved, microbatches: int | None) -> tuple[Job, tuple[tuple[str, str, str], ...]]:
    """Return the job that runs, and what it has less of than the plan's.

    Raises:
        InputError: a plan whose ranks need others for their own layers.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    for s, stage in enumerate(strategy.stages):
        if problem := _dependent(resolved.graph, stage):
            raise InputError(
                f"stage {s} cannot run alone: {problem}",
                key="engine", found="slice", allowed="engine likeness",
            )  # fmt: skip
    sizes = {stage.microbatch_samples for stage in strategy.stages}
    parts = {stage.microbatch_samples // stage.meshes[0].replicas for stage in strategy.stages}
    if len(sizes) > 1 or len(parts) > 1 or not job.training:
        raise InputError(
            "a slice runs training with one microbatch size",
            key="engine", found=sorted(sizes | parts), allowed="equal sizes, or engine likeness",
        )  # fmt: skip
    size = sizes.pop()
    before = job.global_batch // size
    after = min(before, microbatches or len(strategy.stages) + 1)
    changes = []
    if (lane := max(len(row) for stage in strategy.stages for mesh in stage.meshes for row in mesh.rows)) > 1:
        changes.append(("other ranks of its lane", str(lane - 1), "imagined, not timed"))
    if after != before:
        changes.append(("microbatches of a step", str(before), str(after)))
    if job.precision != PRECISION:
        changes.append(("precision", job.precision, PRECISION))
    if peers := max(zero_ranks(stage) for stage in strategy.stages) - 1:
        changes.append(("other ranks that share its states", str(peers), "faked"))
    if peers and any(stage.zero >= SHARED_WEIGHTS for stage in strategy.stages):
        changes.append(("gathers of weights", "before each block", "made here, not timed"))
    made = replace(job, global_batch=after * size, precision=PRECISION, gradient_precision="", framework="")
    return made, tuple(changes)


def zero_ranks(stage: Stage) -> int:
    """Return the ranks over which ZeRO divides the states of a stage; 1 without ZeRO."""
    return (stage.zero_replicas or stage.meshes[0].replicas) if stage.zero else 1


def _dependent(graph: LayerGraph, stage: Stage) -> str:
    """Return why a rank of a stage needs other ranks for its own layers; empty if it does not."""
    cut = any(len(row) > 1 for mesh in stage.meshes for row in mesh.rows)
    unequal = bool(stage.shares) or (stage.meshes[0].replicas > 1 and stage.replicas != "split")
    again = stage.recompute != "none" or bool(full_blocks(graph, stage))
    reasons = (
        (unequal, "its replicas work on unequal parts"),
        (bool(stage.zero) and stage.reshard == RESHARD_RUN, "its weights stay gathered over runs of actions"),
        (stage.recompute not in ("none", FULL), f"{stage.recompute} recomputation"),
        (bool(partly_kept(graph, stage)), "layers recomputed otherwise than their block"),
        (any(own.on for own in exceptions_of(stage).values()), "activations of single layers on the host"),
        (bool(stage.offload), f"{' and '.join(stage.offload)} in the host's memory"),
        (stage.density < 1, "gradients and states of pruned weights only"),
        (bool(stage.slices), "layers cut into slices"),
        (cut and stage.zero >= SHARED_WEIGHTS, "its layers are cut, and ZeRO 3 gathers their pieces"),
        (cut and again, "its layers are cut, and computed again"),
        (cut and bool(stage.axis_shares), "its lane's ranks have unequal pieces"),
    )  # fmt: skip
    return next((why for is_so, why in reasons if is_so), "")


def _report(resolved: Resolved, job: Job) -> Report:
    report = simulate_job(resolved.graph, resolved.cluster, job, resolved.plan.strategy.job)
    order = report.timeline.program.order
    if any(action.op not in "FBU" for lane in order.lanes for action in lane):
        raise InputError(
            "a slice runs forwards, whole backwards and updates",
            key="engine", found=resolved.plan.strategy.job.schedule,
            allowed="a schedule without split backwards, or engine likeness",
        )  # fmt: skip
    if _gathers_for_runs(report.timeline.program):
        raise InputError(
            "a slice gathers weights for every action", key="engine",
            found=f"{resolved.plan.strategy.job.schedule}, which keeps them over several of a stage",
            allowed="reshard: action, or engine likeness",
        )  # fmt: skip
    return report


def _gathers_for_runs(program: Program) -> bool:
    """Tell whether weights that are divided stay gathered over several actions."""
    sections = program.skeleton.sections
    actions = sum(
        slot.kind in (F, B)
        and sections[slot.where].zero >= SHARED_WEIGHTS
        and sections[slot.where].shards > 1
        for slot in (program.slots[number] for number in program.slot.tolist())
    )
    gathers = sum(program.slots[number].kind == GATHER for number in program.slot.tolist())
    return bool(gathers < actions)


def _require_room(needed: float, device: str) -> None:
    """Refuse a slice that does not fit, before anything starts."""
    free = free_bytes(device)
    if needed > free:
        raise InputError(
            f"the rank needs {format_bytes(needed)} of tensors, and {format_bytes(free)} are free here",
            key="engine", found="slice", allowed="a smaller microbatch, or engine likeness",
        )  # fmt: skip


def free_bytes(device: str) -> float:
    """Return the memory that is free on a device (cpu or cuda)."""
    if device == "cuda":
        import torch

        return float(torch.cuda.mem_get_info()[0])
    import psutil

    return float(psutil.virtual_memory().available)
