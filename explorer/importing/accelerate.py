"""Accelerate's launch configuration as a plan, with `training_arguments.json` and DeepSpeed's file beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import exists, read_text
from explorer.base.formats import parse_json, yaml_key_lines
from explorer.base.plain_data import parse_document
from explorer.base.units import MIB
from explorer.importing import IMPORTERS
from explorer.importing._flat import NO_EFFECT, FlatSettings, flattened
from explorer.importing._references import references_in
from explorer.importing._source import SourceText
from explorer.importing.baseline import Baseline
from explorer.importing.deepspeed import baseline as deepspeed_baseline
from explorer.importing.plans import plan_of
from explorer.importing.spec import Imported, Importer, UnknownKey

FILE, ARGUMENTS = "accelerate.yaml", "training_arguments.json"
ONE_BUCKET = 2**20
"""Buckets of so many MiB hold all gradients."""
_DDP_MIB = 25
_FSDP, _PARALLEL, _DEEPSPEED = (
    "fsdp_config.fsdp_",
    "parallelism_config.parallelism_config_",
    "deepspeed_config.",
)
_TYPES = ("NO", "MULTI_GPU", "MULTI_CPU", "FSDP", "DEEPSPEED")
_STRATEGIES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "HYBRID_SHARD_ZERO2": 2}

EFFECTS: Mapping[str, str] = {
    "parallelism_config.parallelism_config_cp_comm_strategy": "keys and values are gathered",
    "parallelism_config.*": NO_EFFECT,
    "fsdp_config.fsdp_*wrap*": "weights are gathered block by block",
    "fsdp_config.fsdp_*prefetch*": "gathers run beside the work before",
    "fsdp_config.fsdp_min_num_params": "weights are gathered block by block",
    "fsdp_config.*": NO_EFFECT,
    "deepspeed_config.offload_param*": "weights stay on the device",
    "deepspeed_config.*": NO_EFFECT,
    "dynamo_config*": "kernels are those of eager PyTorch",
    "fp8_config*": "products are in bf16",
    "training_arguments.*compile*": "kernels are those of eager PyTorch",
    "training_arguments.*": NO_EFFECT,
    **dict.fromkeys(
        (
            "compute_environment", "machine_rank", "main_*", "rdzv_*", "same_network", "tpu_*", "use_cpu",
            "debug", "downcast_bf16", "gpu_ids", "enable_cpu_affinity", "command_file", "commands",
            "mpirun_config*",
        ),
        NO_EFFECT,
    ),
}  # fmt: skip
"""What is assumed of keys that no plan has a word for, by shell pattern; the first that fits counts."""


def _sniff(source: SourceText) -> bool:
    lines = source.text.splitlines()
    return any(line.startswith("distributed_type:") for line in lines) or '"distributed_type"' in source.text


@IMPORTERS.add(
    Importer(
        name="accelerate",
        title=f"Accelerate's launch configuration ({FILE}), with TrainingArguments beside it",
        sniff=_sniff,
        main=FILE,
        documentation="https://huggingface.co/docs/accelerate/usage_guides/fsdp",
    )
)
def read(source: SourceText) -> Imported:
    """Read a launch configuration.

    Raises:
        InputError: the text is no mapping, or model or cluster are unclear.
        PlanError: values that are wrong or contradict each other; lists all of it.
    """
    data = parse_document(source.text, json_text=source.name.endswith(".json"))
    if not isinstance(data, dict):
        raise InputError("no Accelerate configuration", found=data, allowed="a mapping")
    lines = yaml_key_lines(source.text.expandtabs())
    return plan_of(_baseline(data, lines, source), source)


def _baseline(data: Mapping[str, Any], lines: Mapping[str, int], source: SourceText) -> Baseline:
    values = {**flattened(data), **_arguments(source.folder)}
    settings = FlatSettings(values, lines)
    kind = settings.word("distributed_type", "NO", _TYPES)
    world = settings.count("num_processes", 0, least=-1)
    nodes = settings.count("num_machines", 1)
    arguments = "training_arguments."
    if kind == "DEEPSPEED":
        return _of_deepspeed(settings, source, world, nodes)
    tensor, context = settings.count(f"{_PARALLEL}tp_size", 1), settings.count(f"{_PARALLEL}cp_size", 1)
    zero, groups = _sharding(settings, kind, tensor * context)
    inner = tensor * context
    if world > 0 and world % (inner * groups):
        settings.problems.append(
            f"{settings.where('num_processes')}num_processes {world} is no multiple of"
            f" tp_size {tensor} x cp_size {context} x dp_replicate_size {groups}"
        )
    replicas = max(world, 0) // inner
    shards = settings.count(f"{_PARALLEL}dp_shard_size", 1)
    if settings.said(f"{_PARALLEL}dp_shard_size") and world > 0 and shards * groups * inner != world:
        settings.problems.append(
            f"{settings.where('num_processes')}num_processes {world} is not dp_replicate_size {groups} x"
            f" dp_shard_size {shards} x tp_size {tensor} x cp_size {context}"
        )
    if settings.flag(f"{_FSDP}offload_params"):
        settings.problems.append("fsdp_offload_params: plans keep weights on the device; set it to false")
    again = settings.flag(f"{_FSDP}activation_checkpointing")
    again |= settings.flag(f"{arguments}gradient_checkpointing")
    return Baseline(
        trainer="accelerate",
        world_size=max(world, 0),
        devices_per_node=max(world, 0) // nodes,
        tensor=tensor,
        context=context,
        replicas=replicas,
        **_common(settings),
        recompute="full" if again else "none",
        zero=zero,
        zero_replicas=replicas // groups if groups > 1 and zero else 0,
        bucket_bytes=_bucket_bytes(settings, kind),
        precision=_precision(settings),
        gradient_precision="fp32" if kind != "FSDP" else "",
        references=references_in(source.text),
        unknown=settings.unknown(EFFECTS),
        assumed=_assumed(settings),
        problems=tuple(settings.problems),
    )


def _common(settings: FlatSettings) -> dict[str, Any]:
    """Return the size of batches and the optimizer, which only TrainingArguments say."""
    key = "training_arguments."
    optimizer = settings.word(f"{key}optim", "adamw_torch")
    return {
        "schedule": "1f1b",
        "microbatch_size": settings.count(f"{key}per_device_train_batch_size", 1),
        "accumulation": settings.count(
            f"{key}gradient_accumulation_steps", settings.count(f"{_DEEPSPEED}gradient_accumulation_steps", 1)
        ),
        "optimizer": "sgd" if optimizer == "sgd" else "adamw",
    }


def _assumed(settings: FlatSettings) -> tuple[str, ...]:
    key = "training_arguments.per_device_train_batch_size"
    if settings.said(key):
        return ()
    return (f"microbatches of 1 sample: no {ARGUMENTS} beside the file says per_device_train_batch_size",)


def _sharding(settings: FlatSettings, kind: str, cut: int) -> tuple[int, int]:
    """Return the ZeRO level, and how many groups of replicas shard apart from each other."""
    groups = settings.count(f"{_PARALLEL}dp_replicate_size", 1)
    if kind != "FSDP":
        return 0, 1
    again = settings.get(f"{_FSDP}reshard_after_forward", None)
    older = str(settings.get(f"{_FSDP}sharding_strategy", "FULL_SHARD")).upper()
    named = list(_STRATEGIES)
    word = named[int(older) - 1] if older.isdigit() and 1 <= int(older[:2]) <= len(named) else older
    if word not in _STRATEGIES:
        settings.problems.append(f"fsdp_sharding_strategy is {word!r}: allowed are {', '.join(named)}")
        return 3, groups
    if "HYBRID" in word and groups == 1:
        groups = settings.count("num_machines", 1)
    version = settings.count(f"{_FSDP}version", 1)
    if version == 1 and str(again).upper() in _STRATEGIES:
        word = str(again).upper()
    elif again is not None:
        word = (
            "FULL_SHARD" if settings.flag(f"{_FSDP}reshard_after_forward", default=True) else "SHARD_GRAD_OP"
        )
    if cut > 1 and not settings.said(f"{_PARALLEL}dp_shard_size"):
        return 0, groups
    return _STRATEGIES[word], groups


def _bucket_bytes(settings: FlatSettings, kind: str) -> float:
    """Return the buckets of DistributedDataParallel; 0 for others, and where one holds all gradients."""
    size = settings.count("training_arguments.ddp_bucket_cap_mb", _DDP_MIB)
    return size * MIB if kind.startswith("MULTI") and size < ONE_BUCKET else 0.0


def _precision(settings: FlatSettings) -> str:
    word = str(settings.get("mixed_precision", "no")).lower()
    for name in ("bf16", "fp16"):
        if settings.flag(f"training_arguments.{name}") and word == "no":
            word = name
    if word not in ("no", "false", "bf16", "fp16", "fp8"):
        settings.problems.append(f"mixed_precision is {word!r}: allowed are no, bf16, fp16, fp8")
    return {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}.get(word, "fp32")


def _of_deepspeed(settings: FlatSettings, source: SourceText, world: int, nodes: int) -> Baseline:
    """Read DeepSpeed's plug-in: its own file if one beside is named, else its short keys."""
    name = settings.word(f"{_DEEPSPEED}deepspeed_config_file", "")
    path = _located(source.folder, name)
    if path is not None:
        data = parse_json(read_text(path))
        found = data if isinstance(data, dict) else {}
        lines: dict[str, int] = {}
    else:
        if name:
            settings.problems.append(f"deepspeed_config_file {name}: no such file beside the configuration")
        found, lines = _short(settings), {}
    keys = {key for key in settings.values if key.startswith("training_arguments.")}
    made = deepspeed_baseline(found, lines, source)
    common = _common(settings)
    again = settings.flag("training_arguments.gradient_checkpointing")
    return replace(
        made,
        trainer="accelerate",
        world_size=max(world, 0),
        devices_per_node=max(world, 0) // nodes,
        replicas=made.replicas or max(world, 0) // (made.tensor * made.pipeline * made.context),
        microbatch_size=common["microbatch_size"] if keys else made.microbatch_size,
        accumulation=common["accumulation"] if keys else made.accumulation,
        optimizer=common["optimizer"] if keys else made.optimizer,
        recompute="full" if again else made.recompute,
        precision=_precision(settings) if settings.said("mixed_precision") else made.precision,
        references=references_in(source.text),
        unknown=(*settings.unknown(EFFECTS), *_within(made.unknown, name)),
        problems=(*settings.problems, *made.problems),
    )


def _located(folder: Path, name: str) -> Path | None:
    """Return the file that a configuration names, relative to its folder or in it; None if there is none."""
    places = [folder / name, folder / Path(name).name] if name and not Path(name).is_absolute() else []
    places = places or ([folder / Path(name).name] if name else [])
    return next((path for path in places if exists(path)), None)


def _within(unknown: tuple[UnknownKey, ...], name: str) -> tuple[UnknownKey, ...]:
    """Return keys of another file, named after it."""
    return tuple(replace(item, key=f"{name or 'deepspeed_config'}: {item.key}", line=0) for item in unknown)


def _short(settings: FlatSettings) -> dict[str, Any]:
    """Return DeepSpeed's own configuration of the short keys of the plug-in."""
    stage = settings.count(f"{_DEEPSPEED}zero_stage", 2, least=0)
    states = settings.word(f"{_DEEPSPEED}offload_optimizer_device", "none", ("none", "cpu", "nvme"))
    zero: dict[str, Any] = {"stage": stage}
    if states != "none":
        zero["offload_optimizer"] = {"device": states}
    return {
        "zero_optimization": zero,
        "gradient_accumulation_steps": settings.count(f"{_DEEPSPEED}gradient_accumulation_steps", 1),
    }


def _arguments(folder: Path) -> dict[str, Any]:
    """Return the fields of a `training_arguments.json` in a folder, each with its file in front."""
    path = folder / ARGUMENTS
    if not exists(path):
        return {}
    data = parse_json(read_text(path))
    return flattened(data, "training_arguments.") if isinstance(data, dict) else {}
