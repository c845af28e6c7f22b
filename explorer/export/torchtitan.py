"""A config module for torchtitan 0.3.0 (`--module explorer_plan --config NAME`).

Written for the released version 0.3.0; other versions name batch sizes and backends differently. Ranks are
numbered as torchtitan does it: pipeline outermost, then replicas, then context, tensor innermost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.base.errors import PlanError
from explorer.export import EXPORTERS, notes
from explorer.export._carried import carried
from explorer.export._script import Start, run_script
from explorer.export._stage_features import kinds_of_layout
from explorer.export._support import Capabilities, nearly, no, yes
from explorer.export._titan_text import MODULE, Fields, module_text
from explorer.export._trainers import TRAINER
from explorer.export.schedule_csv import csv_of, rows_of
from explorer.export.schedule_csv import problems as order_problems
from explorer.export.spec import STAGES, Exporter
from explorer.importing._titan_models import FLAVORS, VERSION, flavor_of, module_names
from explorer.plan import Resolved
from explorer.schedules import SCHEDULES
from explorer.strategies.degrees import MESH_AXES
from explorer.strategies.model_axes import CONTEXT, TENSOR
from explorer.strategy import JobStrategy

FILE = f"{MODULE}.py"
CSV = "schedule.csv"
NO_PIPELINE_RUN = (
    "torchtitan 0.3.0 calls torch's pipeline schedules with an argument that torch 2.13 does not take:"
    " pipelines need the torch that this release was built against"
)

CAPABILITIES: Capabilities = {
    **TRAINER,
    "inference": no("torchtitan trains; use the export `plan`"),
    "stage_dag": no("its stages are a chain; merge stages until they are one"),
    "uneven_stages": yes("parallelism.module_fqns_per_model_part"),
    "virtual_stages": yes("several lists per rank in parallelism.module_fqns_per_model_part"),
    "copies": no("one copy of a stage; use 1f1b in place of a bidirectional schedule"),
    "uneven_shares": no("all ranks get equal batches; drop the shares and let microbatches divide evenly"),
    "microbatch_sizes": no("one pipeline_parallel_microbatch_size; give all stages one size"),
    "split_blocks": no("a transformer block is one module; move the boundary to the end of the block"),
    "tied_over_stages": no("torchtitan refuses tied embeddings with a pipeline; use one stage"),
    "layer_layouts": no("its sharding plan is the model's own; drop the exceptions"),
    "tensor_parallel": yes("parallelism.tensor_parallel_degree"),
    "sequence_parallel": yes("parallelism.enable_sequence_parallel"),
    "context_parallel": yes("parallelism.context_parallel_degree"),
    "context_exchange": no("its attention gathers keys and values; use context_exchange gather"),
    "expert_parallel": no("its mixture models are others; use tensor parallelism and ZeRO 3"),
    "other_layout": no("it knows tensor, sequence and context parallelism only"),
    "zero_1": no("FSDP shards gradients too: use ZeRO level 2 or 3, or 0 for plain replicas"),
    "zero_2": yes("data_parallel_shard_degree with fsdp_reshard_after_forward = never"),
    "zero_3": yes("data_parallel_shard_degree with fsdp_reshard_after_forward = always"),
    "hybrid_zero": yes("data_parallel_replicate_degree times data_parallel_shard_degree"),
    "reshard": no("ZeRO 3 gathers per action there, ZeRO 2 never reshards; leave reshard empty"),
    "beside_work": no("drop overlap, and set enable_async_tensor_parallel in the file for tiles"),
    "offload": no("drop offload"),
    "recompute_selective": nearly(
        "SelectiveAC keeps attention and every second matrix product and computes the rest again, where the"
        " plan recomputes the inner part of attention"
    ),
    "recompute_full": yes("activation_checkpoint = FullAC"),
    "mixed_recompute": no("one policy for all stages"),
    "torch_schedule": yes("pipeline_parallel_schedule, or the same order as pipeline_parallel_schedule_csv"),
    "other_schedule": yes("pipeline_parallel_schedule_csv"),
    "custom_order": yes("pipeline_parallel_schedule_csv"),
    "blocking": nearly("torch starts transfers and waits for them where they are needed", instead="blocking"),
    "buckets": nearly("FSDP reduces block by block, plain replicas in buckets of 25 MiB"),
    "checkpoints": no("it counts in steps: drop checkpoint_period_s and set checkpoint.interval in the file"),
    "optimizer": yes("optimizer; allowed: adam, adamw", only=("adam", "adamw")),
    "precision": yes("training.mixed_precision_param; allowed: bf16, fp32", only=("bf16", "fp32")),
    "gradient_precision": nearly("torchtitan reduces gradients in fp32", instead="gradient_precision"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Arrangement of the stages of a plan among torchtitan's ranks."""

    stages: tuple[int, ...]
    """Pipeline rank of each stage."""
    pipeline: int
    """Number of pipeline ranks."""
    devices: tuple[int, ...]
    """Device of every rank."""


def problems(resolved: Resolved) -> list[str]:
    """Return the problems that no capability row states: models, placements and sizes."""
    job, strategy, graph = resolved.plan.workload.job, resolved.plan.strategy.job, resolved.graph
    grid, flavor = _grid(strategy), flavor_of(graph)
    mesh = strategy.stages[0].meshes[0]
    axes = [name for name, size in mesh.axes if size > 1]
    known = ", ".join(f"{item.module} {item.name}" for item in FLAVORS)
    checks = (
        (flavor is None, f"the model {graph.name!r}: it has {known}"),
        (
            axes != [name for name in MESH_AXES if name in axes],
            f"a mesh of axes {', '.join(axes)}: order them {', '.join(MESH_AXES)}",
        ),
        (
            len(grid.stages) > 1 and grid.pipeline == 1,
            "several stages on one device group: merge them into one",
        ),
        (
            not _schedule_name(strategy, grid),
            "which rank has which stages: deal them out in turn (stage s on group s mod p)",
        ),
        (not job.sequence_length, "samples that are no sequences: set sequence_length"),
    )
    found = [f"torchtitan cannot express {text}" for wrong, text in checks if wrong]
    if not _named(strategy, grid):
        found += [text.replace("schedule_csv", "torchtitan") for text in order_problems(resolved)]
    if flavor is not None:
        modules = module_names(graph)
        empty = [i for i, s in enumerate(strategy.stages) if not _modules(resolved, modules, s.layers)]
        found += [f"torchtitan cannot express stage {i}: it has no module of its own" for i in empty]
        found += _split_modules(strategy, modules)
    return found


def start(resolved: Resolved) -> Start:
    """Return how torchtitan's ranks are started: its trainer with the module beside the script."""
    flavor = flavor_of(resolved.graph)
    return Start(
        program=f'-m torchtitan.train --module {MODULE} --config {flavor.function if flavor else ""} "$@"',
        devices=_grid(resolved.plan.strategy.job).devices,
        prepare='export PYTHONPATH="$HERE${PYTHONPATH:+:$PYTHONPATH}"',
        comments=(f"Trains {resolved.graph.name} with torchtitan {VERSION} as {FILE} says.",),
    )


@EXPORTERS.add(
    Exporter(
        name="torchtitan",
        title=f"torchtitan {VERSION}: a config module, a start script and, where needed, a schedule CSV",
        paper="torchtitan (Liang et al., 2024), arXiv:2410.06511",
        capabilities=CAPABILITIES,
        problems=problems,
        documentation="https://github.com/pytorch/torchtitan/tree/main/docs",
        client=f"torchtitan {VERSION}",
        start=start,
        main=FILE,
        keeps=STAGES,
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `explorer_plan.py`, `run.sh` and, for an order that has no name there, `schedule.csv`.

    Raises:
        PlanError: torchtitan lacks the model or the arrangement of stages.
    """
    strategy = resolved.plan.strategy.job
    grid = _grid(strategy)
    flavor = flavor_of(resolved.graph)
    name = _schedule_name(strategy, grid)
    csv = "" if grid.pipeline == 1 or _named(strategy, grid) else csv_of(resolved)
    if flavor is None or (csv and _rows(grid) != rows_of(csv)):
        raise PlanError(["torchtitan cannot express this order: its rows are not in the order of the ranks"])
    plan, files = carried(resolved)
    said = notes(resolved, "torchtitan") + ([NO_PIPELINE_RUN] if grid.pipeline > 1 else [])
    fields = _fields(resolved, grid, name, CSV if csv else "")
    references = {"model": plan.models[0][1].reference, "cluster": plan.cluster.reference}
    if grid.devices != tuple(range(len(grid.devices))):
        references["devices"] = ",".join(map(str, grid.devices))
    text = module_text(flavor, fields, references, len(grid.devices), said)
    script = run_script(resolved, start(resolved))
    return {FILE: text, "run.sh": script, **({CSV: csv} if csv else {}), **files}


def _grid(strategy: JobStrategy) -> _Grid:
    """Arrange device groups as pipeline ranks, in the order in which stages first use them."""
    groups = list(dict.fromkeys(stage.meshes[0] for stage in strategy.stages))
    return _Grid(
        stages=tuple(groups.index(stage.meshes[0]) for stage in strategy.stages),
        pipeline=len(groups),
        devices=tuple(device for mesh in groups for device in mesh.devices),
    )


def _rows(grid: _Grid) -> dict[int, tuple[int, ...]]:
    return {
        rank: tuple(s for s, home in enumerate(grid.stages) if home == rank) for rank in range(grid.pipeline)
    }


def _looped(grid: _Grid) -> bool:
    return len(grid.stages) % grid.pipeline == 0 and all(
        home == s % grid.pipeline for s, home in enumerate(grid.stages)
    )


def _folded(grid: _Grid) -> bool:
    """Tell whether rank r holds the stages r and 2p - 1 - r."""
    p = grid.pipeline
    return grid.stages == (*range(p), *reversed(range(p)))


def _schedule_name(strategy: JobStrategy, grid: _Grid) -> str:
    """Return the class of schedule, which with a CSV still places the stages; empty if there is none."""
    if _named(strategy, grid):
        return SCHEDULES.get(strategy.schedule).torch_name
    if _looped(grid):
        return "1F1B" if len(grid.stages) == grid.pipeline else "Interleaved1F1B"
    return "ZBVZeroBubble" if _folded(grid) else ""


def _named(strategy: JobStrategy, grid: _Grid) -> bool:
    """Tell whether torch's own schedule of that name makes the same order."""
    schedule = SCHEDULES.get(strategy.schedule)
    defaults = schedule.read_options({})
    if not schedule.torch_name or schedule.read_options(dict(strategy.options)) != defaults:
        return False
    placement = schedule.placement
    chunks, rest = divmod(len(grid.stages), grid.pipeline)
    if rest or (chunks > 1) != placement.several:
        return False
    laid = placement.grid(grid.pipeline, chunks)
    return grid.stages == tuple(placement.position(s, 0, laid) for s in range(len(grid.stages)))


def _split_modules(strategy: JobStrategy, modules: dict[str, str]) -> list[str]:
    home: dict[str, int] = {}
    return [
        f"torchtitan cannot express {module} on stages {home[module]} and {i}: it is one module"
        for i, stage in enumerate(strategy.stages)
        for module in dict.fromkeys(modules[name] for name in stage.layers)
        if home.setdefault(module, i) != i
    ]


def _modules(resolved: Resolved, modules: dict[str, str], layers: tuple[str, ...]) -> list[str]:
    """Return the modules of some layers, each once; a lone layer without parameters (a loss) has none."""
    with_weights = {modules[layer.name] for layer in resolved.graph.layers if layer.parameters}
    return [module for module in dict.fromkeys(modules[name] for name in layers) if module in with_weights]


def _fields(resolved: Resolved, grid: _Grid, schedule: str, csv: str) -> Fields:
    """Return the keyword arguments of the parts of `Trainer.Config`."""
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    stage = strategy.stages[0]
    mesh, kinds = stage.meshes[0], kinds_of_layout(stage.layout, stage.meshes[0])
    replicas, pipeline = mesh.replicas, grid.pipeline > 1
    per_replica = stage.microbatch_samples // replicas
    sharded = (stage.zero_replicas or replicas) if stage.zero >= 2 else 1
    parallelism: dict[str, Any] = {
        "data_parallel_replicate_degree": replicas // sharded,
        "data_parallel_shard_degree": sharded,
        "tensor_parallel_degree": mesh.size(TENSOR),
        "context_parallel_degree": mesh.size(CONTEXT),
        "pipeline_parallel_degree": grid.pipeline,
    }
    if sharded > 1:
        parallelism["fsdp_reshard_after_forward"] = "always" if stage.zero == 3 else "never"
    if mesh.size(TENSOR) > 1:
        parallelism["enable_sequence_parallel"] = "sequence" in kinds
    if pipeline:
        modules = module_names(resolved.graph)
        parallelism |= {
            "pipeline_parallel_schedule": schedule,
            "pipeline_parallel_microbatch_size": per_replica,
            "module_fqns_per_model_part": [_modules(resolved, modules, s.layers) for s in strategy.stages],
        }
    training = {
        "local_batch_size": job.global_batch // replicas if pipeline else per_replica,
        "global_batch_size": job.global_batch,
        "seq_len": job.sequence_length,
        "mixed_precision_param": "bfloat16" if job.precision == "bf16" else "float32",
        "mixed_precision_reduce": "float32",
    }
    if pipeline:
        training["disable_cuda_graphs"] = True  # torchtitan refuses a pipeline otherwise
    return Fields(
        training=training,
        parallelism=parallelism,
        recompute=stage.recompute,
        optimizer=job.optimizer,
        csv=csv,
    )
