"""DeepSpeed: `ds_config.json`, and with a pipeline the `PipelineModule` of the plan's stages.

Ranks are numbered as DeepSpeed's topologies do it: pipeline outermost, then data, tensor innermost. A plan's
stages become one `LayerSpec` each, so that `partition_method="uniform"` cuts exactly where the plan does.
"""

from __future__ import annotations

from collections.abc import Mapping

from explorer.base.formats import json_text
from explorer.base.units import DTYPE_BYTES
from explorer.export import EXPORTERS, notes
from explorer.export._deepspeed_stages import PIPELINE, stages_text
from explorer.export._modules import module_names_of
from explorer.export._nesting import nested
from explorer.export._pipeline_grid import grid_of
from explorer.export._references import references
from explorer.export._script import Start, run_script
from explorer.export._support import Capabilities, no, yes
from explorer.export._trainers import TRAINER
from explorer.export.spec import STAGES, Exporter, Setting
from explorer.plan import Resolved
from explorer.strategies.model_axes import TENSOR
from explorer.strategy import ACTIVATIONS, OPTIMIZER, JobStrategy
from explorer.workload import Job

FILE = "ds_config.json"
DOCUMENTATION = "https://www.deepspeed.ai/docs/config-json/"
_ZERO = "zero_optimization"
_OPTIMIZERS: dict[str, dict[str, Setting]] = {
    "adam": {"type": "Adam", "params.adam_w_mode": False},
    "adamw": {"type": "AdamW"},
    "sgd": {"type": "SGD"},
    "momentum": {"type": "SGD", "params.momentum": 0.9},
}

CAPABILITIES: Capabilities = {
    **TRAINER,
    "inference": no("it trains here; use the export `plan`"),
    "stage_dag": no("its pipeline is a chain; merge stages until they are one"),
    "uneven_stages": yes(f"STAGES in {PIPELINE}, one LayerSpec for each"),
    "virtual_stages": no("a rank of its pipeline has one stage; use 1f1b with one chunk"),
    "copies": no("one copy of a stage; use 1f1b in place of a bidirectional schedule"),
    "uneven_shares": no("all ranks get equal batches; drop the shares"),
    "microbatch_sizes": no("one train_micro_batch_size_per_gpu; give all stages one size"),
    "split_blocks": no("a block is one module; move the boundary to the end of the block"),
    "tied_over_stages": no("one LayerSpec a stage cannot tie; use one stage, or an untied head"),
    "layer_layouts": no("AutoTP cuts all blocks alike; drop the exceptions"),
    "tensor_parallel": yes("tensor_parallel.autotp_size"),
    "sequence_parallel": no("AutoTP does not split norms along the sequence; turn it off"),
    "context_parallel": no(
        "it exchanges heads (Ulysses), and that in the model's code; use tensor parallelism"
    ),
    "context_exchange": no("it has no context parallelism here; use tensor parallelism"),
    "expert_parallel": no("its experts are modules of its own; use ZeRO 3"),
    "other_layout": no("it knows tensor parallelism only"),
    "zero_1": yes(f"{_ZERO}.stage"),
    "zero_2": yes(f"{_ZERO}.stage"),
    "zero_3": yes(f"{_ZERO}.stage"),
    "hybrid_zero": no("the secondary shards of zero_hpz_partition_size are copies; drop zero_replicas"),
    "reshard": no("it gathers and releases module by module; leave reshard empty"),
    "offload": yes(f"{_ZERO}.offload_optimizer; activation_checkpointing.cpu_checkpointing"),
    "recompute_selective": no("it has no policy by operator: use full or none"),
    "recompute_full": yes("activation_checkpointing.number_checkpoints, one for each block"),
    "mixed_recompute": no("one policy for all stages"),
    "torch_schedule": yes("its pipeline runs 1F1B; allowed: 1f1b", only=("1f1b",)),
    "other_schedule": no("its pipeline runs 1F1B; use 1f1b"),
    "custom_order": no("its pipeline runs 1F1B; use 1f1b"),
    "dispatch": no("its pipeline runs 1F1B; use 1f1b"),
    "blocking": yes("its pipeline sends and receives between two pieces of work"),
    "buckets": yes(f"{_ZERO}.overlap_comm and reduce_bucket_size"),
    "checkpoints": no("your script saves; drop checkpoint_period_s"),
    "optimizer": yes(f"optimizer.type; allowed: {', '.join(_OPTIMIZERS)}", only=tuple(_OPTIMIZERS)),
    "precision": yes("bf16 or fp16; allowed: bf16, fp16, fp32", only=("bf16", "fp16")),
    "gradient_precision": yes("communication_data_type and data_types.grad_accum_dtype"),
}


def problems(resolved: Resolved) -> list[str]:
    """Return the problems that no capability row states: combinations that DeepSpeed refuses."""
    strategy = resolved.plan.strategy.job
    stage, grid = strategy.stages[0], grid_of(strategy)
    tensor, zero = stage.meshes[0].size(TENSOR), stage.zero
    ahead = bool(strategy.options) and strategy.schedule == "1f1b"
    checks = (
        (grid.pipeline == 1 and len(strategy.stages) > 1, "several stages on one device group: merge them"),
        (grid.pipeline > 1 and zero > 1, "ZeRO 2 or 3 with a pipeline: use ZeRO 1, or one stage"),
        (grid.pipeline > 1 and tensor > 1, "AutoTP with a pipeline: use one of them, or export to megatron"),
        (ahead, "options of the schedule: its 1F1B has none; drop them"),
        (_buckets(strategy) > 0 and not zero, "buckets beside the backward without ZeRO: use ZeRO 1"),
        (OPTIMIZER in stage.offload and not zero, "offloaded states without ZeRO: use ZeRO 1"),
        (
            ACTIVATIONS in stage.offload and stage.recompute != "full",
            "offloaded activations that are not recomputed: use full recomputation",
        ),
        (
            len({item.offload for item in strategy.stages}) > 1,
            "offload that differs between stages: give all stages one",
        ),
        (len(strategy.sync) > 1, "buckets that differ between parameters: give all one"),
    )
    return [f"deepspeed cannot express {text}" for wrong, text in checks if wrong]


def settings(resolved: Resolved) -> Mapping[str, Setting]:
    """Return what `ds_config.json` says of a plan, by dotted key."""
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    stage, pipeline = strategy.stages[0], grid_of(strategy).pipeline
    mesh = stage.meshes[0]
    size = stage.microbatch_samples // mesh.replicas
    found: dict[str, Setting] = {
        "train_batch_size": job.global_batch,
        "train_micro_batch_size_per_gpu": size,
        "gradient_accumulation_steps": job.global_batch // stage.microbatch_samples,
        f"{_ZERO}.stage": stage.zero,
        **_of_zero(job, strategy),
    }
    if mesh.size(TENSOR) > 1:
        found["tensor_parallel.autotp_size"] = mesh.size(TENSOR)
    if pipeline > 1:
        found |= {"pipeline.stages": pipeline, "pipeline.partition": "uniform"}
    if stage.recompute == "full":
        blocks = {layer.block for layer in resolved.graph.layers if layer.block}
        found["activation_checkpointing.number_checkpoints"] = max(1, len(blocks))
        found["activation_checkpointing.cpu_checkpointing"] = ACTIVATIONS in stage.offload
    found |= {f"optimizer.{key}": value for key, value in _OPTIMIZERS[job.optimizer].items()}
    found["optimizer.params.lr"] = 3e-4  # yours to set: a plan has none
    if job.precision != "fp32":
        found[f"{job.precision}.enabled"] = True
    precision = job.gradient_precision or job.precision
    return found | {"communication_data_type": precision, "data_types.grad_accum_dtype": precision}


def _of_zero(job: Job, strategy: JobStrategy) -> dict[str, Setting]:
    buckets = _buckets(strategy)
    if not strategy.stages[0].zero:
        return {}
    found: dict[str, Setting] = {f"{_ZERO}.overlap_comm": buckets > 0}
    if buckets:
        size = DTYPE_BYTES[job.gradient_precision or job.precision]
        found[f"{_ZERO}.reduce_bucket_size"] = max(1, round(buckets / size))  # in scalars
    if OPTIMIZER in strategy.stages[0].offload:
        found[f"{_ZERO}.offload_optimizer.device"] = "cpu"
    if job.optimizer in ("sgd", "momentum"):
        found["zero_allow_untested_optimizer"] = True
    return found


def _buckets(strategy: JobStrategy) -> float:
    return max((sync.bucket_bytes for sync in strategy.sync), default=0.0)


def start(resolved: Resolved) -> Start:
    """Return how the user's own script is started with the configuration."""
    said = [f"not the same as in the plan: {text}" for text in notes(resolved, "deepspeed")]
    return Start(
        program=f'"$@" --deepspeed --deepspeed_config "$HERE/{FILE}"',
        devices=grid_of(resolved.plan.strategy.job).devices,
        comments=(
            f"Starts your script with {FILE}: bash run.sh my_train.py ARGUMENTS",
            "It calls deepspeed.initialize with the arguments of deepspeed.add_config_arguments.",
            *said,
        ),
    )


@EXPORTERS.add(
    Exporter(
        name="deepspeed",
        title=f"DeepSpeed: {FILE}, a start script and, for a pipeline, its PipelineModule",
        paper="ZeRO (Rajbhandari et al., 2020), arXiv:1910.02054",
        capabilities=CAPABILITIES,
        problems=problems,
        main=FILE,
        keeps=STAGES,
        settings=settings,
        start=start,
        documentation=DOCUMENTATION,
        client="deepspeed 0.19",
    )
)
def write(resolved: Resolved) -> dict[str, str]:
    """Write `ds_config.json`, `run.sh` and, for a pipeline, `pipeline.py`."""
    strategy = resolved.plan.strategy.job
    said, files = references(resolved)
    # DeepSpeed reads the keys that it knows from the top of the file; this one is ours
    data = {**nested(settings(resolved)), "explorer": said}
    written = {FILE: json_text(data) + "\n", "run.sh": run_script(resolved, start(resolved)), **files}
    if grid_of(strategy).pipeline > 1:
        stages = [module_names_of(resolved.graph, stage) for stage in strategy.stages]
        written[PIPELINE] = stages_text(stages, recompute=strategy.stages[0].recompute == "full")
    return written
