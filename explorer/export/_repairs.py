"""Repairs: a plan with one feature taken away, as little else changed as possible.

They make the plan that a target runs in place of what it lacks (`Support.instead`). A repair of which a plan
has nothing gives the plan back as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from explorer.importing._titan_models import block_numbers
from explorer.importing.plans import cuts_at
from explorer.plan import Resolved
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.strategies.degrees_reading import nearest_degrees
from explorer.strategies.keeping import changed_keeping
from explorer.strategy import SPLIT, JobStrategy, Mesh, Stage

Repair = Callable[[Resolved], Resolved]


def with_job(resolved: Resolved, job: JobStrategy) -> Resolved:
    """Return a plan with another strategy for its only job."""
    return replace(resolved, plan=replace(resolved.plan, strategy=resolved.plan.strategy.with_job(job)))


def _stages(change: Callable[[Stage], Stage]) -> Repair:
    def repair(resolved: Resolved) -> Resolved:
        job = resolved.plan.strategy.job
        return with_job(resolved, job.with_stages(change(stage) for stage in job.stages))

    return repair


def _stage(**fields: Any) -> Repair:
    return _stages(lambda stage: replace(stage, **fields))


def _job(**fields: Any) -> Repair:
    return lambda resolved: with_job(resolved, replace(resolved.plan.strategy.job, **fields))


def _workload(**fields: Any) -> Repair:
    def repair(resolved: Resolved) -> Resolved:
        plan = resolved.plan
        return replace(resolved, plan=replace(plan, workload=plan.workload.with_job(**fields)))

    return repair


def _levelled(field: str, order: Iterable[Any]) -> Repair:
    """Give all stages the value, of those that they have, which takes the least memory."""
    ranking = list(order)

    def repair(resolved: Resolved) -> Resolved:
        values = [getattr(stage, field) for stage in resolved.plan.strategy.job.stages]
        return _stage(**{field: max(values, key=ranking.index)})(resolved)

    return repair


def _without_exceptions(**plain: str) -> Repair:
    """Drop what exceptions of layers say of one thing, and leave what they say of the other."""

    def change(stage: Stage) -> Stage:
        return changed_keeping(stage, stage.all_layers, lambda own: own._replace(**plain))

    return _stages(change)


def _one_zero(resolved: Resolved) -> Resolved:
    """Give all stages the highest of their ZeRO levels; over all replicas, where their groups differ."""
    groups = {stage.zero_replicas for stage in resolved.plan.strategy.job.stages}
    level = _levelled("zero", range(4))(resolved)
    return _stage(zero_replicas=0)(level) if len(groups) > 1 else level


def even(resolved: Resolved) -> Resolved:
    """Cut the model at blocks, as many for every stage as it comes out (the first ones one more)."""
    graph, job = resolved.graph, resolved.plan.strategy.job
    blocks, stages = len(block_numbers(graph)), len(job.stages)
    if stages < 2 or blocks < stages:
        return resolved
    counts = [blocks // stages + (i < blocks % stages) for i in range(stages)]
    bounds = [0, *cuts_at(graph, counts), len(graph.layers)]
    names = [layer.name for layer in graph.layers]
    made = [
        replace(stage, layers=tuple(names[bounds[i] : bounds[i + 1]]), slices=())
        for i, stage in enumerate(job.stages)
    ]
    return with_job(resolved, job.with_stages(made))


def rebuilt(resolved: Resolved, **changes: Any) -> Resolved:
    """Return the regular plan nearest to one, with some of its degrees changed, cut at blocks."""
    job, workload = resolved.plan.strategy.job, resolved.plan.workload.job
    degrees: Degrees = replace(nearest_degrees(job), **changes)
    devices = sorted({device for stage in job.stages for mesh in stage.meshes for device in mesh.devices})
    devices = devices if len(devices) == degrees.devices else []
    made = degrees.build(resolved.graph, resolved.cluster, workload, devices=devices)
    return even(with_job(resolved, made.job))


def _one_f_one_b(resolved: Resolved) -> Resolved:
    job = resolved.plan.strategy.job
    plain = job.copies == 1 and len({stage.meshes for stage in job.stages}) == len(job.stages)
    if plain:
        return _job(schedule="1f1b", options=(), boundaries=job.boundaries)(resolved)
    return rebuilt(resolved, schedule="1f1b", options=(), chunks=1)


def _ascending(resolved: Resolved) -> Resolved:
    """Renumber devices in the order in which stages use them."""
    job = resolved.plan.strategy.job
    used = list(dict.fromkeys(d for stage in job.stages for mesh in stage.meshes for d in mesh.devices))
    other = dict(zip(used, sorted(used), strict=True))

    def moved(mesh: Mesh) -> Mesh:
        return replace(mesh, devices=tuple(other[device] for device in mesh.devices))

    return with_job(
        resolved,
        job.with_stages(
            replace(
                stage,
                meshes=tuple(map(moved, stage.meshes)),
                shardings=tuple(
                    replace(item, meshes=tuple(map(moved, item.meshes))) for item in stage.shardings
                ),
            )
            for stage in job.stages
        ),
    )


def _without_servers(resolved: Resolved) -> Resolved:
    return _job(sync=())(resolved)


def _without_buckets(resolved: Resolved) -> Resolved:
    sync = resolved.plan.strategy.job.sync
    return _job(sync=tuple(replace(item, bucket_bytes=0.0) for item in sync))(resolved)


def _not_blocking(resolved: Resolved) -> Resolved:
    options = resolved.plan.strategy.job.options
    return _job(options=tuple(item for item in options if item[0] != "blocking"))(resolved)


REPAIRS: dict[str, Repair] = {
    "uneven_stages": even,
    "split_blocks": even,
    "slices": even,
    "even": even,
    "virtual_stages": lambda plan: rebuilt(plan, schedule="1f1b", options=(), chunks=1),
    "overlapping_groups": rebuilt,
    "mesh_shapes": rebuilt,
    "stage_dag": lambda plan: rebuilt(plan, schedule="1f1b", options=(), chunks=1),
    "copies": _one_f_one_b,
    "1f1b": _one_f_one_b,
    "gpipe": _job(schedule="gpipe", options=()),
    "one_stage": lambda plan: rebuilt(
        plan, schedule="1f1b", options=(), chunks=1, stages=1,
        replicas=nearest_degrees(plan.plan.strategy.job).replicas
        * nearest_degrees(plan.plan.strategy.job).stages,
    ),
    "torch_schedule": _one_f_one_b,
    "other_schedule": _one_f_one_b,
    "custom_order": _one_f_one_b,
    "asynchronous": _one_f_one_b,
    "newer_weights": _one_f_one_b,
    "sweeps": _one_f_one_b,
    "dispatch": _one_f_one_b,
    "round_robin": _stage(replicas=SPLIT),
    "uneven_shares": _stage(shares=()),
    "microbatch_sizes": lambda plan: _stage(
        microbatch_samples=min(stage.microbatch_samples for stage in plan.plan.strategy.job.stages)
    )(plan),
    "layer_layouts": _stage(shardings=()),
    "layer_meshes": _stage(shardings=()),
    "expert_parallel": _stage(shardings=()),
    "no_expert": _stage(shardings=()),
    "no_tensor": lambda plan: _to_replicas(plan, "tensor"),
    "no_context": lambda plan: _to_replicas(plan, "context"),
    "tensor_parallel": lambda plan: _to_replicas(plan, "tensor"),
    "context_parallel": lambda plan: _to_replicas(plan, "context"),
    "context_exchange": lambda plan: rebuilt(plan, context_exchange="gather"),
    "sequence_parallel": lambda plan: rebuilt(plan, sequence_parallel=False),
    "no_sequence": lambda plan: rebuilt(plan, sequence_parallel=False),
    "other_layout": rebuilt,
    "mixed_layout": rebuilt,
    **{f"zero_{level}": _stage(zero=level, zero_replicas=0) for level in (0, 1, 2, 3)},
    "mixed_zero": _one_zero,
    "hybrid_zero": _stage(zero_replicas=0),
    "reshard": _stage(reshard=""),
    "beside_work": _stage(overlap=()),
    "sparse_states": _stage(density=1.0),
    "offload": _stage(offload=()),
    "mixed_recompute": _levelled("recompute", RECOMPUTE),
    **{f"recompute_{form}": _without_exceptions(recompute="") for form in ("first", "groups", "blocks")},
    "recompute_layers": _without_exceptions(recompute=""),
    "offload_layers": _without_exceptions(on=""),
    "recompute_none": _stage(recompute="none"),
    "recompute_full": _stage(recompute="full"),
    "recompute_selective": _stage(recompute="full"),
    "blocking": _not_blocking,
    "device_order": _ascending,
    "parameter_server": _without_servers,
    "buckets": _without_buckets,
    "update_rule": _job(updates=()),
    "best_transfers": _job(transfers=""),
    "compression": _job(boundaries=()),
    "checkpoints": _job(checkpoint_period_s=0.0),
    "optimizer": _workload(optimizer="adamw"),
    **{name: _workload(optimizer=name) for name in ("adam", "adamw")},
    "precision": _workload(precision="bf16"),
    **{name: _workload(precision=name) for name in ("bf16", "fp32")},
    "gradient_precision": _workload(gradient_precision="fp32"),
}  # fmt: skip
"""Repairs by the name of the feature that they take away, or of what they put in its place."""


def _to_replicas(resolved: Resolved, axis: str) -> Resolved:
    """Give the devices of an axis to replicas, at the same samples of a microbatch where these divide."""
    degrees = nearest_degrees(resolved.plan.strategy.job)
    count = getattr(degrees, axis)
    return rebuilt(
        resolved, **{axis: 1}, replicas=degrees.replicas * count,
        microbatch_size=max(1, degrees.microbatch_size // count),
    )  # fmt: skip
