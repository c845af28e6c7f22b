"""Plans from the settings of a torchtitan config, placed as torchtitan itself would place them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from explorer.base.errors import InputError, PlanError, cut
from explorer.base.files import exists, read_text
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.importing._source import SourceText
from explorer.importing._titan_models import flavor_named
from explorer.importing._titan_settings import TitanSettings, Unread
from explorer.importing._titan_stages import stage_layers
from explorer.models import load_model
from explorer.plan import Provenance, Reference, Resolved, make_plan
from explorer.schedules import SCHEDULES
from explorer.schedules._torch_notation import from_torch_csv
from explorer.schedules.custom import lanes_text
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.strategy import Stage, Strategy, single
from explorer.workload import Workload, default_workload

_P, _T = "parallelism.", "training."
_NUMBERS = (
    f"{_P}data_parallel_replicate_degree", f"{_P}data_parallel_shard_degree", f"{_P}tensor_parallel_degree",
    f"{_P}context_parallel_degree", f"{_P}pipeline_parallel_degree", f"{_P}expert_parallel_degree",
    f"{_P}pipeline_parallel_microbatch_size", f"{_T}local_batch_size", f"{_T}global_batch_size",
    f"{_T}seq_len",
)  # fmt: skip
_COUNTS = tuple(
    f"{_P}pipeline_parallel_{name}"
    for name in ("first_stage_less_layers", "last_stage_less_layers", "layers_per_stage", "microbatches")
)
_MOST = 10**9
_PRECISIONS = {"bfloat16": "bf16", "float32": "fp32"}
_OPTIMIZERS = {"AdamW": "adamw", "Adam": "adam"}


def settings_problems(settings: TitanSettings) -> list[str]:
    """Return everything in a config that a plan cannot express, or that only running it would tell."""
    found = [
        f"{key} is computed ({value.text}): write the constant"
        for key, value in settings.values.items()
        if isinstance(value, Unread) and key.startswith((_P, _T, "activation", "optimizer"))
    ]
    for key in _NUMBERS:
        value = settings.get(key, 1)
        least = -1 if key.endswith(("shard_degree", "global_batch_size")) else 1
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST or value == 0:
            found.append(f"{key} is {cut(repr(value))}: allowed are whole numbers from 1 to {_MOST:,}")
    for key in _COUNTS:
        value = settings.get(key, 0)
        if value is not None and (type(value) is not int or not 0 <= value <= _MOST):
            found.append(f"{key} is {cut(repr(value))}: allowed are whole numbers from 0 to {_MOST:,}")
    points = settings.get(f"{_P}pipeline_parallel_split_points", [])
    if not isinstance(points, list):
        found.append(
            f"{_P}pipeline_parallel_split_points is {cut(repr(points))}: allowed is a list of modules"
        )
    return [*found, *_without_word(settings)]


def _without_word(settings: TitanSettings) -> list[str]:
    """Return the choices for which a plan has no word, each with a way out."""
    mode = settings.get("activation_checkpoint.mode", "selective")
    optimizer = settings.get("optimizer.name", "AdamW")
    schedule = str(settings.get(f"{_P}pipeline_parallel_schedule", "1F1B"))
    csv = settings.get(f"{_P}pipeline_parallel_schedule_csv", "")
    known = ", ".join(item.torch_name for item in SCHEDULES if item.torch_name)
    checks: tuple[tuple[bool, str], ...] = (
        (settings.get(f"{_P}expert_parallel_degree", 1) != 1, "expert_parallel_degree above 1: set it to 1"),
        (mode not in RECOMPUTE, f"activation checkpointing {mode!r}: use {', '.join(RECOMPUTE)}"),
        (optimizer not in _OPTIMIZERS, f"optimizer {optimizer!r}: use Adam or AdamW"),
        (
            bool(settings.get(f"{_T}enable_cpu_offload", False)),
            "enable_cpu_offload: plans keep states on the device; set it to False",
        ),
        (not csv and _schedule(schedule) is None, f"schedule {schedule!r}: use {known}, or a schedule CSV"),
    )
    return [f"cannot be read as a plan: {text}" for wrong, text in checks if wrong]


def plan_of(settings: TitanSettings, source: SourceText) -> Resolved:
    """Return the plan that a config without problems means on a cluster.

    Raises:
        InputError: the model or cluster is missing, or sizes do not fit the cluster or each other.
        PlanError: a schedule file does not fit the stages.
    """
    said = settings.values.get("explorer", {})
    flavor = flavor_named(settings.get("model.name", ""), settings.get("model.flavor", ""))
    named = said.get("model") or (flavor.zoo if flavor else None)
    reference = source.needed("model", named)
    cluster_reference = source.needed("cluster", said.get("cluster"))
    graph = load_model(located(reference, source.folder), trust=source.trust)
    length = settings.get(f"{_T}seq_len", 2048)
    longer = 0 if length == graph.defaults.sequence_length else length
    if longer:
        graph = load_model(located(reference, source.folder), sequence_length=length, trust=source.trust)
    cluster = load_cluster(located(cluster_reference, source.folder))
    degrees = _degrees(settings, cluster)
    workload = _workload(settings, graph, degrees.replicas, length)
    strategy, notes = _strategy(settings, source, graph, workload, degrees)
    model = Reference(reference=reference, sequence_length=longer)
    note = "; ".join([f"{source.title}, a torchtitan config", *settings.notes, *notes])
    plan = make_plan(
        model, graph, cluster_reference, cluster, workload, strategy,
        Provenance(searcher="import", note=note),
    )  # fmt: skip
    return Resolved(plan=plan, graphs={"model": graph}, cluster=cluster, folder=source.folder)


def located(reference: str, folder: Path) -> str:
    """Return the path of a reference to a file next to the config, or the reference itself."""
    prefix = "hf:" if reference.startswith("hf:") else ""
    path = folder / reference.removeprefix(prefix)
    return f"{prefix}{path}" if exists(path) else reference


def _degrees(settings: TitanSettings, cluster: Cluster) -> Degrees:
    """Return the sizes of the grid; `data_parallel_shard_degree = -1` takes the devices that are left."""
    tensor, context, pipeline, replicate = (
        int(settings.get(f"{_P}{key}", 1))
        for key in (
            "tensor_parallel_degree",
            "context_parallel_degree",
            "pipeline_parallel_degree",
            "data_parallel_replicate_degree",
        )
    )
    shard = int(settings.get(f"{_P}data_parallel_shard_degree", -1))
    inner = tensor * context * pipeline * replicate
    if shard < 0:
        shard = cluster.device_count // inner
        if not shard or cluster.device_count % inner:
            raise InputError(
                f"degrees of {inner} do not divide the {cluster.device_count} devices of {cluster.name!r}",
                key="parallelism",
                found=inner,
                allowed=f"a divisor of {cluster.device_count}",
            )
    if inner * shard > cluster.device_count:
        raise InputError(
            f"{inner * shard} ranks for the {cluster.device_count} devices of {cluster.name!r}",
            key="parallelism",
            found=inner * shard,
            allowed=f"<= {cluster.device_count}; name another --cluster",
        )
    return Degrees(
        tensor=tensor,
        context=context,
        stages=pipeline,
        replicas=replicate * shard,
        sequence_parallel=bool(settings.get(f"{_P}enable_sequence_parallel", True)),
        recompute=str(settings.get("activation_checkpoint.mode", "selective")),
        zero=_zero(settings, shard, pipeline),
    )


def _workload(settings: TitanSettings, graph: LayerGraph, replicas: int, length: int) -> Workload:
    batch = int(settings.get(f"{_T}global_batch_size", -1))
    if batch < 0:
        batch = int(settings.get(f"{_T}local_batch_size", 8)) * replicas
    precision = settings.get(f"{_T}mixed_precision_param", "bfloat16")
    return default_workload(graph).with_job(
        global_batch=batch,
        sequence_length=length,
        precision=_PRECISIONS.get(str(precision), "bf16"),
        gradient_precision="fp32",
        optimizer=_OPTIMIZERS[str(settings.get("optimizer.name", "AdamW"))],
    )


def _strategy(
    settings: TitanSettings, source: SourceText, graph: LayerGraph, workload: Workload, degrees: Degrees
) -> tuple[Strategy, list[str]]:
    """Return the strategy, and everything that was read differently from what the config says."""
    pipeline, replicas, notes = degrees.stages, degrees.replicas, []
    local = int(settings.get(f"{_T}local_batch_size", 8))
    size = _microbatch(settings, local) if pipeline > 1 else local
    batch = workload.job.global_batch
    passes, rest = divmod(batch, local * replicas)
    if rest or local % size:
        raise InputError(
            f"a batch of {batch} is not made of {replicas} x {local} samples in microbatches of {size}",
            key="training.global_batch_size",
            found=batch,
            allowed=f"a multiple of {local * replicas}; local_batch_size a multiple of the microbatch size",
        )
    if pipeline > 1 and passes > 1:
        notes.append(f"{passes} passes through the pipeline per step, read as one of so many times the batch")
    home, options, schedule = _placement(settings, source, pipeline)
    stages = stage_layers(settings, graph, pipeline, len(home))
    home = home or [s % pipeline for s in range(len(stages))]
    if len(stages) != len(home):
        raise PlanError([f"the schedule has {len(home)} stages, module_fqns_per_model_part {len(stages)}"])
    devices = _devices(settings, degrees.devices)
    made = tuple(
        Stage(
            layers=layers,
            meshes=(degrees.mesh(home[s], devices),),
            microbatch_samples=size * replicas,
            layout=degrees.layout,
            recompute=degrees.recompute,
            zero=degrees.zero,
            zero_replicas=_groups(settings, replicas) if degrees.zero else 0,
        )
        for s, layers in enumerate(stages)
    )
    return single(stages=made, schedule=schedule, options=options, job=workload.job.name), notes


def _microbatch(settings: TitanSettings, local: int) -> int:
    """Return the samples of a pipeline microbatch; releases before 0.2 gave their number instead."""
    count = settings.get(f"{_P}pipeline_parallel_microbatches", 0)
    if isinstance(count, int) and count > 0:
        return max(1, local // count)
    return int(settings.get(f"{_P}pipeline_parallel_microbatch_size", 1))


def _schedule(name: str) -> str | None:
    """Return our name of torch's schedule; None if we lack it."""
    return next(
        (item.name for item in SCHEDULES if item.torch_name.lower() == name.lower()),
        None,
    )


def _placement(
    settings: TitanSettings, source: SourceText, pipeline: int
) -> tuple[list[int], dict[str, Any], str]:
    """Return the pipeline rank of each stage ([] if they are dealt out in turn), options and schedule."""
    csv = str(settings.get(f"{_P}pipeline_parallel_schedule_csv", "") or "")
    if not csv or pipeline == 1:
        name = _schedule(str(settings.get(f"{_P}pipeline_parallel_schedule", "1F1B")))
        return [], {}, name or "1f1b" if pipeline > 1 else "1f1b"
    path = source.folder / csv
    key = f"{_P}pipeline_parallel_schedule_csv"
    try:
        lanes = from_torch_csv(read_text(path, what="schedule"), file=str(path))
    except InputError as error:
        raise error.within(key=key) from None
    home = {action.stage: rank for rank, lane in enumerate(lanes) for action in lane}
    if sorted(home) != list(range(len(home))) or len(lanes) != pipeline:
        raise PlanError([f"{path.name} has {len(lanes)} rows and stages {sorted(home)} for {pipeline} ranks"])
    return [home[s] for s in range(len(home))], {"lanes": lanes_text(lanes)}, "custom"


def _devices(settings: TitanSettings, ranks: int) -> list[int]:
    """Return the device of every rank: as stated in a config that we wrote, else rank by rank."""
    said = str(settings.values.get("explorer", {}).get("devices", ""))
    found = [int(text) for text in said.split(",") if text.strip().isdigit()]
    return found if len(set(found)) == ranks else list(range(ranks))


def _groups(settings: TitanSettings, replicas: int) -> int:
    """Return the neighbouring replicas that FSDP shards over; 0 for all of them."""
    replicate = int(settings.get(f"{_P}data_parallel_replicate_degree", 1))
    return replicas // replicate if replicate > 1 else 0


def _zero(settings: TitanSettings, shard: int, pipeline: int) -> int:
    """Return the ZeRO level: 3 for FSDP that gathers weights again for the backward, else 2."""
    if shard == 1:
        return 0
    policy = settings.get(f"{_P}fsdp_reshard_after_forward", "default")
    again = pipeline == 1 if policy == "default" else policy == "always"
    return 3 if again else 2
