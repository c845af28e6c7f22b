"""DeepSpeed's configuration as a plan; the stages of its pipeline from `pipeline.py` beside it, if any."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import exists, read_text
from explorer.base.formats import parse_json, yaml_key_lines
from explorer.base.units import DTYPE_BYTES
from explorer.cluster_profiles import load_cluster
from explorer.importing import IMPORTERS
from explorer.importing._flat import NO_EFFECT, FlatSettings, flattened
from explorer.importing._source import SourceText
from explorer.importing.baseline import Baseline
from explorer.importing.plans import plan_of
from explorer.importing.spec import Imported, Importer
from explorer.strategies.degrees import ALL_TO_ALL, GATHER
from explorer.strategy import ACTIVATIONS, OPTIMIZER

FILE, PIPELINE = "ds_config.json", "pipeline.py"
_ZERO, _AGAIN, _TYPES = "zero_optimization", "activation_checkpointing", ("fp32", "fp16", "bf16")
_BUCKET = 500_000_000
_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_OWN = ("model", "settings", "sequence_length", "cluster", "devices")

EFFECTS: Mapping[str, str] = {
    f"{_ZERO}.offload_param*": "weights stay on the device: plans keep states and activations in the host",
    f"{_ZERO}.cpu_offload_param*": "weights stay on the device",
    f"{_ZERO}.offload_optimizer.device": "nvme is read as the host's memory",
    f"{_ZERO}.offload_optimizer.*": NO_EFFECT,
    f"{_ZERO}.zero_hpz_partition_size": "no secondary shards: weights are gathered from all replicas",
    f"{_ZERO}.zero_quantized_*": "sent uncompressed",
    f"{_ZERO}.*gather_*16*_weights*": NO_EFFECT,
    f"{_ZERO}.stage3_*": "weights are gathered and released block by block",
    f"{_ZERO}.sub_group_size": "the update is one kernel over all states",
    **{
        f"{_ZERO}.{key}": NO_EFFECT
        for key in (
            "contiguous_gradients", "reduce_scatter", "allgather_*", "round_robin_gradients", "legacy_stage1",
            "ignore_unused_parameters", "load_from_fp32_weights", "elastic_checkpoint", "use_multi_rank_*",
            "memory_efficient_linear", "log_trace_cache_warnings", "override_module_apply",
        )
    },
    f"{_AGAIN}.partition_activations": "kept inputs are whole on every rank",
    f"{_AGAIN}.*": NO_EFFECT,
    "pipeline.partition": "blocks are spread evenly, unless pipeline.py beside it names them",
    "pipeline.*": NO_EFFECT,
    "optimizer.params.*": NO_EFFECT,
    "fp16.*": NO_EFFECT,
    "bf16.*": NO_EFFECT,
    "scheduler*": NO_EFFECT,
    "tensor_parallel.*": "weights are cut as Megatron-LM cuts them",
    "compression_training*": "weights and activations stay whole",
    **dict.fromkeys(
        (
            "steps_per_print", "wall_clock_breakdown", "memory_breakdown", "gradient_clipping", "dump_state",
            "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "prescale_gradients",
            "gradient_predivide_factor", "flops_profiler*", "tensorboard*", "wandb*", "csv_monitor*",
            "comet*", "comms_logger*", "aio*", "checkpoint*", "seed", "dataloader_drop_last",
            "autotuning*", "timers*", "data_types.*", "log_level", "elasticity*",
        ),
        NO_EFFECT,
    ),
}  # fmt: skip
"""What is assumed of keys that no plan has a word for, by shell pattern; the first that fits counts."""


def _sniff(source: SourceText) -> bool:
    return source.text.lstrip().startswith("{") and any(
        f'"{key}"' in source.text
        for key in (
            _ZERO,
            "train_micro_batch_size_per_gpu",
            "train_batch_size",
            "zero_allow_untested_optimizer",
        )
    )


@IMPORTERS.add(
    Importer(
        name="deepspeed",
        title=f"DeepSpeed's configuration ({FILE})",
        paper="ZeRO (Rajbhandari et al., 2020), arXiv:1910.02054",
        sniff=_sniff,
        main=FILE,
        documentation="https://www.deepspeed.ai/docs/config-json/",
    )
)
def read(source: SourceText) -> Imported:
    """Read a DeepSpeed configuration.

    Raises:
        InputError: the text is no JSON object, or model or cluster are unclear.
        PlanError: values that are wrong or contradict each other; lists all of it.
    """
    data = parse_json(source.text)
    if not isinstance(data, dict):
        raise InputError("no DeepSpeed configuration", found=data, allowed="a JSON object")
    return plan_of(baseline(data, yaml_key_lines(source.text.expandtabs()), source), source)


def baseline(data: Mapping[str, Any], lines: Mapping[str, int], source: SourceText) -> Baseline:
    """Return what a configuration says, in the words of plans."""
    own = data.get("explorer")
    rest = {key: value for key, value in data.items() if key != "explorer" or not isinstance(own, dict)}
    settings = FlatSettings(flattened(rest), lines)
    said = {key: str(own[key]) for key in _OWN if key in own} if isinstance(own, dict) else {}
    tensor = settings.count("tensor_parallel.autotp_size", 1, least=0) or 1
    stages = settings.count("pipeline.stages", 1)
    context = settings.count("sequence_parallel_size", 1)
    precision = _precision(settings)
    gradient = _gradient_precision(settings)
    zero = settings.count(f"{_ZERO}.stage", 0, least=0)
    assumed: list[str] = []
    batch, size, passes = _batch(settings, source, tensor * stages * context, assumed)
    if zero > 3:
        settings.problems.append(
            f"{settings.where(f'{_ZERO}.stage')}{_ZERO}.stage is {zero}: allowed are 0 to 3"
        )
    if zero > 1 and stages > 1:
        settings.problems.append(
            f"ZeRO {zero} with {stages} pipeline stages: DeepSpeed takes ZeRO 0 or 1 there"
        )
    return Baseline(
        trainer="deepspeed",
        tensor=tensor,
        pipeline=stages,
        context=context,
        context_exchange=ALL_TO_ALL if context > 1 else GATHER,
        replicas=batch // (size * passes) if all(map(settings.said, _BATCH)) else 0,
        blocks=_blocks(source.folder) if stages > 1 else (),
        schedule="1f1b",
        microbatch_size=size,
        global_batch=batch,
        accumulation=passes,
        recompute=_recompute(settings, assumed),
        zero=min(zero, 3),
        zero_replicas=max(0, settings.count(f"{_ZERO}.mics_shard_size", -1)),
        offload=_offload(settings),
        bucket_bytes=_bucket_bytes(settings, zero, gradient or precision),
        precision=precision,
        gradient_precision=gradient,
        optimizer=_optimizer(settings, assumed),
        references=said,
        unknown=settings.unknown(EFFECTS),
        assumed=tuple(assumed),
        problems=tuple(settings.problems),
    )


def _batch(
    settings: FlatSettings, source: SourceText, inner: int, assumed: list[str]
) -> tuple[int, int, int]:
    """Return global batch (0: not said), microbatch and passes, as DeepSpeed derives one from the others."""
    batch = settings.count("train_batch_size", 0)
    size = settings.count("train_micro_batch_size_per_gpu", 0)
    passes = settings.count("gradient_accumulation_steps", 0)
    given = settings.said("gradient_accumulation_steps")
    if batch and size and given and batch % (size * passes):
        settings.problems.append(
            f"train_batch_size {batch} is no multiple of train_micro_batch_size_per_gpu {size} x"
            f" gradient_accumulation_steps {passes}"
        )
    if size:
        return batch, size, passes or 1
    passes = passes or 1
    ranks = load_cluster(source.cluster).device_count // inner if source.cluster and batch else 0
    if ranks and batch % (ranks * passes) == 0:
        assumed.append(f"microbatches of {batch // (ranks * passes)} samples: the batch over all replicas")
        return batch, batch // (ranks * passes), passes
    assumed.append("microbatches of 1 sample: the file does not say train_micro_batch_size_per_gpu")
    return batch, 1, passes


def _recompute(settings: FlatSettings, assumed: list[str]) -> str:
    """Return full where the file has anything to say of recomputation; that the model does it is assumed."""
    blocks = settings.count(f"{_AGAIN}.number_checkpoints", 0)
    interval = settings.count("pipeline.activation_checkpoint_interval", 0, least=0)
    if blocks or interval:
        return "full"
    hints = [
        key for key in ("partition_activations", "cpu_checkpointing", "contiguous_memory_optimization")
        if settings.values.get(f"{_AGAIN}.{key}") is True
    ]  # fmt: skip
    if hints:
        assumed.append(
            f"full recomputation: {_AGAIN}.{hints[0]} means something only where the model recomputes"
        )
    return "full" if hints else "none"


def _offload(settings: FlatSettings) -> tuple[str, ...]:
    device = settings.word(f"{_ZERO}.offload_optimizer.device", "none", ("none", "cpu", "nvme"))
    old = settings.flag(f"{_ZERO}.cpu_offload")
    found = (OPTIMIZER,) if old or device in ("cpu", "nvme") else ()
    return (*found, ACTIVATIONS) if settings.flag(f"{_AGAIN}.cpu_checkpointing") else found


def _bucket_bytes(settings: FlatSettings, zero: int, precision: str) -> float:
    """Return the size of the buckets that ZeRO reduces beside the backward; 0 where it does not."""
    size = settings.count(f"{_ZERO}.reduce_bucket_size", _BUCKET)
    beside = settings.flag(f"{_ZERO}.overlap_comm", default=zero == 3)
    return float(size * DTYPE_BYTES[precision or "bf16"]) if beside and zero else 0.0


def _precision(settings: FlatSettings) -> str:
    for key, word in (("bf16", "bf16"), ("bfloat16", "bf16"), ("fp16", "fp16")):
        if settings.values.get(f"{key}.enabled") == "auto":
            settings.get(f"{key}.enabled")
            return word
        if settings.flag(f"{key}.enabled"):
            return word
    return "fp32"


def _gradient_precision(settings: FlatSettings) -> str:
    kept = settings.word("data_types.grad_accum_dtype", "", _TYPES)
    return settings.word("communication_data_type", kept, _TYPES)


def _optimizer(settings: FlatSettings, assumed: list[str]) -> str:
    """Return the optimizer; DeepSpeed's `Adam` is AdamW unless `adam_w_mode` is false."""
    kind = settings.word("optimizer.type", "").lower()
    decoupled = settings.flag("optimizer.params.adam_w_mode", default=True)
    momentum = settings.get("optimizer.params.momentum", 0)
    if kind == "sgd":
        return "momentum" if momentum else "sgd"
    if kind in ("adam", "fusedadam"):
        return "adamw" if decoupled else "adam"
    if kind not in ("", "adamw"):
        assumed.append(f"adamw in place of the optimizer {kind}, of which plans know no cost")
    return "adamw" if kind else ""


def _blocks(folder: Path) -> tuple[int, ...]:
    """Return the blocks of each stage by STAGES in a `pipeline.py` beside the file; () if there is none.

    Raises:
        InputError: it cannot be read.
    """
    path = folder / PIPELINE
    if not exists(path):
        return ()
    try:
        tree = ast.parse(read_text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(item) for item in node.targets] == ["STAGES"]:
            return _counts(node.value)
    return ()


def _counts(node: ast.expr) -> tuple[int, ...]:
    try:
        stages = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ()
    if not isinstance(stages, list) or not all(isinstance(stage, list) for stage in stages):
        return ()
    return tuple(sum(str(name).rpartition(".")[2].isdigit() for name in stage) for stage in stages)
