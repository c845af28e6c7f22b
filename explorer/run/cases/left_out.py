"""What a likeness leaves out of its plan, in words: every field that it does not carry is reported
automatically.

A real run computes a small model of its own (`run.cases.likeness`), so much of a plan cannot show in it.
Each `LeftOut` names the fields it concerns; `CARRIED` names those that the likeness takes over, or counts and
compares itself. A test ensures that every field stands in one of the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from explorer.actions import OVERLAP
from explorer.cluster import Cluster
from explorer.framework import OURS
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.strategies.keeping import exceptions_of, partly_kept
from explorer.strategy import REPLICA, JobStrategy, Sync
from explorer.workload import Job

OWN_BLOCKS = "blocks recomputed otherwise than their stage: "
"""Begin of what is said of blocks, which the model's own layers do carry."""
CUT = "layers cut over stages: "
"""Begin of what is said of slices, which they carry as well."""


class PlannedJob(NamedTuple):
    """Inputs from which a likeness is made."""

    graph: LayerGraph
    """The plan's model."""
    cluster: Cluster
    """The plan's devices."""
    job: Job
    """The plan's job."""
    strategy: JobStrategy
    """The plan's strategy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A feature of plans about which a real run shows nothing."""

    fields: tuple[str, ...]
    """Fields it concerns, as `Class.field`."""
    words: Callable[[PlannedJob], Iterator[str]]
    """Function that yields the words on a plan; nothing if the plan does not use the feature."""


def left_out(
    graph: LayerGraph,
    cluster: Cluster,
    job: Job,
    strategy: JobStrategy,
    *,
    carried: Collection[str] = (),
) -> list[str]:
    """Return everything that a likeness of the plan leaves out, each once.

    `carried`: fields that this likeness takes over, or counts, though others leave them out.
    """
    plan = PlannedJob(graph, cluster, job, strategy)
    items = [item for item in LEFT_OUT if not set(carried) & set(item.fields)]
    return list(dict.fromkeys(text for item in items for text in item.words(plan)))


def _axes(plan: PlannedJob) -> Iterator[str]:
    widest: dict[str, int] = defaultdict(int)
    for stage in plan.strategy.stages:
        own = [*stage.meshes, *(mesh for item in stage.shardings for mesh in item.meshes)]
        for name, size in (pair for mesh in own for pair in mesh.axes):
            widest[name] = max(widest[name], size)
    for name, size in widest.items():
        if name != REPLICA and size > 1:
            yield f"{name} parallelism: {size} devices of a lane in the plan, 1 here"


def _uneven(plan: PlannedJob) -> Iterator[str]:
    for axis in dict.fromkeys(axis for stage in plan.strategy.stages for axis, _ in stage.axis_shares):
        yield f"unequal shards along {axis}"


def _shardings(plan: PlannedJob) -> Iterator[str]:
    found = [pattern for stage in plan.strategy.stages for item in stage.shardings for pattern in item.layers]
    if found:
        yield f"layers laid out apart from their stage: {_some(found)}"


def _slices(plan: PlannedJob) -> Iterator[str]:
    found = [part.layer for stage in plan.strategy.stages for part in stage.slices]
    if found:
        yield f"{CUT}{_some(found)}"


def _zero(plan: PlannedJob) -> Iterator[str]:
    for level in sorted({stage.zero for stage in plan.strategy.stages} - {0}):
        parts = sorted({s.zero_replicas for s in plan.strategy.stages if s.zero == level} - {0})
        yield f"ZeRO level {level}" + (
            f" over groups of {', '.join(map(str, parts))} replicas" if parts else ""
        )


def _density(plan: PlannedJob) -> Iterator[str]:
    if any(stage.density < 1 for stage in plan.strategy.stages):
        yield "gradients and states of pruned weights only (density)"


def _offload(plan: PlannedJob) -> Iterator[str]:
    found = dict.fromkeys(what for stage in plan.strategy.stages for what in stage.offload)
    if found:
        yield f"offload to host memory: {', '.join(found)}"


def _overlap(plan: PlannedJob) -> Iterator[str]:
    found = dict.fromkeys(f"{axis} by {how}" for s in plan.strategy.stages for axis, how in s.overlap)
    if found:
        yield f"collectives of a lane beside its work: {', '.join(found)}"


def _pairs(plan: PlannedJob) -> Iterator[str]:
    job = plan.strategy
    schedule = job.schedule if job.schedule in SCHEDULES.names() else ""
    if (schedule and SCHEDULES.get(schedule).hides) or OVERLAP in str(dict(job.options).get("lanes", "")):
        yield (
            "forwards and backwards of two microbatches as one action: ranks run one after the other, and"
            " have no collectives that it could hide"
        )


def _moves(plan: PlannedJob) -> Iterator[str]:
    if dict(plan.strategy.options).get("offload"):
        yield "activations moved to the host for want of memory: a likeness has room for its own"


def _selective(plan: PlannedJob) -> Iterator[str]:
    if any(stage.recompute == "selective" for stage in plan.strategy.stages):
        yield "selective recomputation"


def _blocks(plan: PlannedJob) -> Iterator[str]:
    blocks = {
        plan.graph.layer[name].block: None
        for stage in plan.strategy.stages
        for name, own in exceptions_of(stage).items()
        if own.recompute and name not in set(partly_kept(plan.graph, stage))
    }
    if blocks:
        yield f"{OWN_BLOCKS}{_some(list(blocks))}"


def _kept(plan: PlannedJob) -> Iterator[str]:
    found = [name for stage in plan.strategy.stages for name in partly_kept(plan.graph, stage)]
    if found:
        yield f"layers recomputed otherwise than their block: {_some(found)}"
    moved = [n for stage in plan.strategy.stages for n, own in exceptions_of(stage).items() if own.on]
    if moved:
        yield f"activations of single layers on the host: {_some(moved)}"


def _transfers(plan: PlannedJob) -> Iterator[str]:
    if plan.strategy.transfers not in ("", "direct"):
        yield f"transfers between stages: {plan.strategy.transfers} in the plan, direct here"


def _checkpoints(plan: PlannedJob) -> Iterator[str]:
    if plan.strategy.checkpoint_period_s:
        yield f"checkpoints every {plan.strategy.checkpoint_period_s:g} s"


def _boundaries(plan: PlannedJob) -> Iterator[str]:
    if plan.strategy.boundaries:
        yield "codecs between stages"


def _sync(plan: PlannedJob) -> Iterator[str]:
    plain = (Sync(parameters=item.parameters, bucket_bytes=item.bucket_bytes) for item in plan.strategy.sync)
    if plan.strategy.sync != tuple(plain):
        yield "gradients reduced otherwise than by an all-reduce"
    if any(item.bucket_bytes for item in plan.strategy.sync):
        yield "gradients reduced in buckets beside the last backward"


def _microbatch(plan: PlannedJob) -> Iterator[str]:
    sizes = sorted({stage.microbatch_samples for stage in plan.strategy.stages})
    yield f"samples of a microbatch: {', '.join(map(str, sizes))} in the plan, few here, in the same ratio"


def _tokens(plan: PlannedJob) -> Iterator[str]:
    if plan.job.sequence_length:
        yield f"tokens of a sample: {plan.job.sequence_length} in the plan, few here"


def _precision(plan: PlannedJob) -> Iterator[str]:
    if plan.job.precision != "fp32":
        yield f"precision: {plan.job.precision} in the plan, fp32 here"
    if plan.job.gradient_precision not in ("", "fp32"):
        yield f"precision of gradients: {plan.job.gradient_precision} in the plan, fp32 here"


def _inputs(plan: PlannedJob) -> Iterator[str]:
    if plan.job.input_seconds_per_sample:
        workers = f", {plan.job.input_workers} workers" if plan.job.input_workers != 1 else ""
        yield f"the input pipeline: {plan.job.input_seconds_per_sample:g} s a sample{workers}"


def _framework(plan: PlannedJob) -> Iterator[str]:
    if plan.job.framework not in ("", OURS):
        yield f"framework: {plan.job.framework} in the plan, this package's own runtime here"


def _tied(plan: PlannedJob) -> Iterator[str]:
    users: dict[str, set[int]] = defaultdict(set)
    for s, stage in enumerate(plan.strategy.stages):
        for name in stage.all_layers:
            for use in plan.graph.layer[name].parameters:
                users[use.name].add(s)
    if shared := [name for name, stages in users.items() if len(stages) > 1]:
        yield f"weights that stages share: {_some(shared)}"


def _frozen(plan: PlannedJob) -> Iterator[str]:
    if any(not item.trainable for item in plan.graph.parameters):
        yield "frozen weights: all are trained here"


def _sparse(plan: PlannedJob) -> Iterator[str]:
    if any(item.density < 1 for item in plan.graph.parameters):
        yield "tables of which a step touches few rows"


def _devices(plan: PlannedJob) -> Iterator[str]:
    yield f"devices and links: those of {plan.cluster.name} in the plan, this machine's here"


def _some(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:3]) + (f" and {len(unique) - 3} more" if len(unique) > 3 else "")


LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut(fields=("Mesh.axes", "Stage.layout", "Sharding.meshes"), words=_axes),
    LeftOut(fields=("Stage.axis_shares",), words=_uneven),
    LeftOut(fields=("Stage.shardings", "Sharding.layers", "Sharding.layout"), words=_shardings),
    LeftOut(fields=("Stage.slices", "Slice.layer", "Slice.dim", "Slice.start", "Slice.stop"), words=_slices),
    LeftOut(fields=("Stage.zero", "Stage.zero_replicas", "Stage.reshard"), words=_zero),
    LeftOut(fields=("Stage.density",), words=_density),
    LeftOut(fields=("Stage.offload",), words=_offload),
    LeftOut(fields=("Stage.overlap",), words=_overlap),
    LeftOut(fields=(), words=_pairs),
    LeftOut(fields=(), words=_moves),
    LeftOut(fields=("Stage.recompute",), words=_selective),
    LeftOut(fields=("Keeping.layers",), words=_blocks),
    LeftOut(fields=("Stage.keeping", "Keeping.recompute", "Keeping.on"), words=_kept),
    LeftOut(fields=("JobStrategy.transfers",), words=_transfers),
    LeftOut(fields=("JobStrategy.checkpoint_period_s",), words=_checkpoints),
    LeftOut(
        fields=("JobStrategy.boundaries", "Boundary.source", "Boundary.target", "Boundary.codec"),
        words=_boundaries,
    ),
    LeftOut(fields=("JobStrategy.sync", *(f"Sync.{item.name}" for item in fields(Sync))), words=_sync),
    LeftOut(fields=("Stage.microbatch_samples", "Job.global_batch"), words=_microbatch),
    LeftOut(fields=("Job.sequence_length",), words=_tokens),
    LeftOut(fields=("Job.precision", "Job.gradient_precision"), words=_precision),
    LeftOut(fields=("Job.input_seconds_per_sample", "Job.input_workers"), words=_inputs),
    LeftOut(fields=("Job.framework",), words=_framework),
    LeftOut(fields=("Parameter.name",), words=_tied),
    LeftOut(fields=("Parameter.trainable",), words=_frozen),
    LeftOut(fields=("Parameter.density",), words=_sparse),
    LeftOut(fields=("Cluster.name",), words=_devices),
)
"""Everything that a likeness does not take over."""

CARRIED: Mapping[str, str] = {
    "JobStrategy.stages": "as many as the ranks keep apart, counted",
    "JobStrategy.schedule": "taken over",
    "JobStrategy.options": "taken over",
    "JobStrategy.updates": "the rule of most of the weights, else said",
    "JobStrategy.job": "a name",
    "Stage.layers": "small ones stand for them, in the ratio of the stages' times, counted",
    "Stage.meshes": "ranks in the same arrangement, counted",
    "Stage.name": "for people",
    "Stage.replicas": "taken over",
    "Stage.shares": "taken over where all replicas are there, else said",
    "UpdateChoice.rule": "that of most of the weights, for all of them",
    "UpdateChoice.parameters": "that of most of the weights, for all of them",
    "UpdateChoice.options": "taken over, with a period short enough to run",
    "Mesh.devices": "ranks in the same order, counted",
    "Job.name": "a name",
    "Job.graph": "a name",
    "Job.mode": "taken over",
    "Job.optimizer": "taken over",
    "Job.samples_per_epoch": "says nothing of a step",
    "Job.epochs": "says nothing of a step",
    "Job.epochs_source": "says nothing of a step",
}
"""Fields of the strategy and the job that a likeness takes over or counts, and how."""
