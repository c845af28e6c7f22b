"""A plain training script in torch for the plan: no import of ours, of the user only three functions.

Ranks are numbered as the plan's devices are: pipeline outermost, then replicas, tensor innermost. The
microbatches of a pipeline run by torch's schedule of the same order, or by the order itself as CSV.
"""

from __future__ import annotations

from explorer.base.units import MIB
from explorer.export import EXPORTERS, notes
from explorer.export._kept_features import block_choices
from explorer.export._modules import module_names_of
from explorer.export._pipeline_grid import PipelineGrid, grid_of, torch_schedule_name
from explorer.export._script import Start, run_script
from explorer.export._support import Capabilities, Support, nearly, no, yes
from explorer.export._torch_text import OPTIMIZERS, ScriptParts, script_text
from explorer.export._trainers import TRAINER
from explorer.export._weight_cuts import weight_cuts
from explorer.export.schedule_csv import csv_of
from explorer.export.schedule_csv import problems as order_problems
from explorer.export.spec import Exporter, Setting
from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.strategies.degrees import MESH_AXES
from explorer.strategies.model_axes import TENSOR
from explorer.strategy import REPLICA, JobStrategy

FILE, CSV = "train.py", "schedule.csv"

CAPABILITIES: Capabilities = {
    **TRAINER,
    "inference": no("it trains; use the export `plan`"),
    "stage_dag": no("stages are a chain of modules; merge stages until they are one"),
    "uneven_stages": yes("STAGES names the modules of each stage"),
    "virtual_stages": yes("RANK_OF gives a rank several stages"),
    "mesh_shapes": no("one device mesh for all stages; give every stage as many replicas"),
    "copies": no("torch's pipelines hold one copy of a stage; use 1f1b"),
    "uneven_shares": no("all replicas get equal batches; drop the shares"),
    "microbatch_sizes": no("torch's schedules cut the batch evenly; give all stages one size"),
    "split_blocks": no("a block is one module; move the boundary to the end of the block"),
    "tied_over_stages": no("each rank holds its own stages only; use one stage, or an untied head"),
    "layer_layouts": no("modules are cut alike in all blocks; drop the exceptions"),
    "tensor_parallel": nearly("parallelize_module by rows and columns; the loss sees gathered logits"),
    "sequence_parallel": no("norms would need the names of your modules' inputs; turn it off"),
    "context_parallel": no("your attention would have to exchange keys and values; use tensor parallelism"),
    "context_exchange": no("your attention would have to do it; use tensor parallelism"),
    "expert_parallel": no("your router would have to exchange tokens; use ZeRO 3"),
    "other_layout": no("it knows tensor parallelism only"),
    "mixed_layout": no("all stages are cut alike; give them one layout"),
    "zero_1": no("fully_shard shards gradients too: use ZeRO level 2 or 3, or 0"),
    "zero_2": yes("fully_shard with reshard_after_forward = False"),
    "zero_3": yes("fully_shard"),
    "hybrid_zero": no("drop zero_replicas"),
    "reshard": no("fully_shard gathers block by block; leave reshard empty"),
    "offload": no("drop offload"),
    "recompute_selective": nearly("attention's products and softmax are computed again, by operator name"),
    "recompute_full": yes("checkpoint_wrapper around each block"),
    "mixed_recompute": yes("RECOMPUTE has a word for each stage"),
    "recompute_first": yes("RECOMPUTE_BLOCKS has a word for each block that differs"),
    "recompute_blocks": yes("RECOMPUTE_BLOCKS has a word for each block that differs"),
    "recompute_groups": no("its checkpoints are blocks; drop the exceptions"),
    "torch_schedule": yes("get_schedule_class, or the same order from schedule.csv"),
    "other_schedule": yes("schedule.csv"),
    "custom_order": yes("schedule.csv"),
    "blocking": nearly(
        "torch starts transfers and waits for them where they are needed", instead="blocking"
    ),
    "buckets": nearly("DistributedDataParallel's buckets; with a pipeline or a cut layer all at the end"),
    "checkpoints": no("it saves at the end (--save); drop checkpoint_period_s"),
    "optimizer": yes(f"torch.optim; allowed: {', '.join(OPTIMIZERS)}", only=tuple(OPTIMIZERS)),
    "precision": Support(
        supported=True, exact=False, only=("bf16",),
        how="bf16 by autocast over fp32 weights, or by fully_shard's policy; allowed: bf16, fp32",
    ),
    "gradient_precision": nearly("gradients are reduced in fp32", instead="gradient_precision"),
}  # fmt: skip


def problems(resolved: Resolved) -> list[str]:
    """Return the problems that no capability row states: meshes, orders and modules."""
    strategy, graph = resolved.plan.strategy.job, resolved.graph
    grid, mesh = grid_of(strategy), strategy.stages[0].meshes[0]
    axes = [name for name, size in mesh.axes if size > 1]
    found = []
    if axes != [name for name in MESH_AXES if name in axes]:
        found.append(f"a mesh of axes {', '.join(axes)}: order them {', '.join(MESH_AXES)}")
    if len(grid.stages) > 1 and grid.pipeline == 1:
        found.append("several stages on one device group: merge them into one")
    found += [
        f"stage {i}: it has no module of its own; give it a layer with weights"
        for i, stage in enumerate(strategy.stages)
        if not module_names_of(graph, stage)
    ]
    if mesh.size(TENSOR) > 1:
        _, odd = weight_cuts(graph)
        found += [
            f"tensor parallelism of {name}: its parts are one matrix; give each its own" for name in odd[:1]
        ]
    texts = [f"torch cannot express {text}" for text in found]
    if grid.pipeline > 1 and not torch_schedule_name(strategy, grid):
        texts += [text.replace("schedule_csv", "torch", 1) for text in order_problems(resolved)]
    return texts


def start(resolved: Resolved) -> Start:
    """Return how the script is started, with the arguments of `run.sh`."""
    return Start(
        program=f'"$HERE/{FILE}" "$@"',
        devices=grid_of(resolved.plan.strategy.job).devices,
        comments=(
            f"Trains a model like {resolved.graph.name} as {FILE} says:",
            "bash run.sh my_model --steps 3, with the module that train.py describes.",
        ),
    )


def settings(resolved: Resolved) -> dict[str, Setting]:
    """Return the constants of the script that say the plan, by name."""
    parts = _parts(resolved, grid_of(resolved.plan.strategy.job))
    found: dict[str, Setting] = {"GLOBAL_BATCH": parts.global_batch, "MICROBATCH": parts.microbatch}
    found |= {f"MESH.{axis}": size for axis, size in parts.mesh.items()}
    found |= {f"STAGES.{i}": ", ".join(names) for i, names in enumerate(parts.stages)}
    found |= {f"RECOMPUTE.{i}": how for i, how in enumerate(parts.recompute) if how != "none"}
    found |= {f"RECOMPUTE.{block}": how for block, how in parts.blocks.items()}
    if parts.pipeline:
        found["RANK_OF"] = ", ".join(map(str, parts.homes))
        found["SCHEDULE"] = parts.schedule or parts.csv
    if parts.zero:
        found["RESHARD_AFTER_FORWARD"] = parts.zero == 3
    return found | {"optimizer": parts.optimizer, "precision": parts.precision}


@EXPORTERS.add(
    Exporter(
        name="torch",
        title="A plain training script in torch, for a model of your own: train.py, run.sh",
        capabilities=CAPABILITIES,
        problems=problems,
        settings=settings,
        start=start,
        documentation="https://docs.pytorch.org/docs/stable/distributed.html",
        client="torch 2.13",
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `train.py`, `run.sh` and, for an order that has no name in torch, `schedule.csv`."""
    strategy = resolved.plan.strategy.job
    grid = grid_of(strategy)
    named = grid.pipeline == 1 or torch_schedule_name(strategy, grid)
    text = script_text(_parts(resolved, grid))
    return {
        FILE: text,
        "run.sh": run_script(resolved, start(resolved)),
        **({} if named else {CSV: csv_of(resolved)}),
    }


def _parts(resolved: Resolved, grid: PipelineGrid) -> ScriptParts:
    job, strategy, graph = resolved.plan.workload.job, resolved.plan.strategy.job, resolved.graph
    stage = strategy.stages[0]
    mesh = stage.meshes[0]
    sizes = {"pipeline": grid.pipeline, REPLICA: mesh.replicas, TENSOR: mesh.size(TENSOR)}
    words = " x ".join(f"{size} {name}" for name, size in sizes.items())
    name = torch_schedule_name(strategy, grid) if grid.pipeline > 1 else ""
    return ScriptParts(
        title=f"Trains a model like {graph.name} on {words} ranks. Written by strategy-explorer.",
        notes=notes(resolved, "torch"),
        mesh=sizes,
        stages=[module_names_of(graph, item) for item in strategy.stages],
        homes=grid.stages,
        schedule=name,
        csv=CSV if grid.pipeline > 1 and not name else "",
        global_batch=job.global_batch,
        microbatch=stage.microbatch_samples // mesh.replicas,
        recompute=[item.recompute for item in strategy.stages],
        blocks={
            block: how
            for item in strategy.stages
            for block, how in (block_choices(graph, item) or {}).items()
        },
        zero=stage.zero if mesh.replicas > 1 else 0,
        bucket_mb=_bucket_mb(strategy),
        tensor=_cut_ends(graph) if mesh.size(TENSOR) > 1 else {},
        optimizer=job.optimizer,
        precision=job.precision,
    )


def _bucket_mb(strategy: JobStrategy) -> float:
    return max((sync.bucket_bytes for sync in strategy.sync), default=0.0) / MIB


def _cut_ends(graph: LayerGraph) -> dict[str, str]:
    """Return how weights are cut by the end of a module's name: without the name of its block."""
    cuts, _ = weight_cuts(graph)
    return {
        name.rpartition("*.")[2] if "*" in name else name.replace(".", "_"): how for name, how in cuts.items()
    }
