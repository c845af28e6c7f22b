"""Configurations with the keys of those in public repositories: imported, and no key dropped in silence."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from explorer.base.plain_data import read_document
from explorer.importing import import_file, recognised, source_text
from explorer.importing._flat import flattened

FOLDER = Path(__file__).parent / "configs"
FILES = sorted(FOLDER.iterdir())
READ: dict[str, dict[str, Any]] = {
    "deepspeed_zero3_many_keys.json": {"zero": 3, "replicas": 8, "batch": 512, "samples": 16},
    "deepspeed_hugging_face_autotp.json": {"zero": 1, "replicas": 4, "tensor": 2, "samples": 4},
    "deepspeed_zenflow.json": {"zero": 2, "replicas": 8, "batch": 64, "samples": 32},
    "deepspeed_fp16_pipeline.json": {"zero": 1, "replicas": 2, "batch": 128, "samples": 8, "stages": 4},
    "accelerate_fsdp1.yaml": {"zero": 2, "replicas": 4, "recompute": "full"},
    "accelerate_context.yaml": {"zero": 3, "replicas": 4, "context": 2},
    "accelerate_tensor_groups.yaml": {"zero": 3, "replicas": 4, "tensor": 2, "groups": 2},
    "accelerate_deepspeed_file.yaml": {"zero": 2, "replicas": 8, "samples": 32},
    "accelerate_fp8.yaml": {"zero": 0, "replicas": 8},
    "accelerate_multi_cpu.yaml": {"zero": 0, "replicas": 8},
    "deepspeed_zero3_nvme.json": {"zero": 3, "replicas": 8, "batch": 64, "samples": 16},
    "deepspeed_watched_zero1.json": {"zero": 1, "replicas": 8, "batch": 128, "samples": 64},
    "torchtitan_8b_degrees_under_training.toml": {"zero": 3, "replicas": 8, "samples": 16},
    "torchtitan_70b_one_data_degree.toml": {"tensor": 4, "replicas": 2, "zero": 3, "recompute": "full"},
    "torchtitan_405b_float8.toml": {"tensor": 4, "replicas": 2, "samples": 4, "recompute": "full"},
    "torchtitan_debug_every_table.toml": {"context": 2, "replicas": 4, "zero": 2, "batch": 64, "samples": 16},
    "torchtitan_interleaved.toml": {"stages": 8, "replicas": 2, "samples": 4, "recompute": "full"},
}
"""What each means, by file."""


def test_every_file_is_judged() -> None:
    assert set(READ) == {path.name for path in FILES}


def keys_of(path: Path) -> set[str]:
    """Every key of a file, dotted."""
    if path.suffix == ".toml":
        return set(flattened(tomllib.loads(path.read_text())))
    return set(flattened(read_document(path)))


def test_there_are_more_than_twenty_with_those_of_megatron() -> None:
    trainers = {path.name.partition("_")[0] for path in FILES}
    assert trainers == {"accelerate", "deepspeed", "torchtitan"}
    assert all(sum(path.name.startswith(name) for path in FILES) >= 5 for name in trainers)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_read_without_dropping_a_key(path: Path) -> None:
    trainer = path.name.partition("_")[0]
    assert recognised(source_text(path, "", None, None)) == [trainer]
    found = import_file(path, "", model="llama3-8b", cluster="dgx-a100")
    job, strategy = found.resolved.plan.workload.job, found.resolved.plan.strategy.job
    stage, expected = strategy.stages[0], READ[path.name]
    mesh = stage.meshes[0]
    read = {
        "zero": stage.zero, "replicas": mesh.replicas, "tensor": mesh.size("tensor"),
        "context": mesh.size("context"), "batch": job.global_batch, "samples": stage.microbatch_samples,
        "stages": len(strategy.stages), "recompute": stage.recompute, "groups": stage.zero_replicas,
    }  # fmt: skip
    assert {key: read[key] for key in expected} == expected
    listed = {item.key for item in found.unknown}
    acted = keys_of(path) - listed
    assert acted <= ACTED, "a key that changes nothing has to be listed"
    lines = path.read_text().splitlines()
    for item in found.unknown:
        if item.line:
            assert item.key.rpartition(".")[2] in lines[item.line - 1]
        assert item.assumed


ACTED = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "bf16.enabled",
    "fp16.enabled", "zero_optimization.stage", "zero_optimization.overlap_comm",
    "zero_optimization.reduce_bucket_size", "zero_optimization.offload_optimizer.device", "optimizer.type",
    "optimizer.params.adam_w_mode", "communication_data_type", "tensor_parallel.autotp_size",
    "pipeline.stages",
    "pipeline.activation_checkpoint_interval", "distributed_type", "mixed_precision",
    "num_processes", "num_machines", "fsdp_config.fsdp_activation_checkpointing",
    "fsdp_config.fsdp_offload_params",
    "fsdp_config.fsdp_sharding_strategy", "fsdp_config.fsdp_reshard_after_forward",
    "fsdp_config.fsdp_version",
    "parallelism_config.parallelism_config_cp_size", "parallelism_config.parallelism_config_tp_size",
    "parallelism_config.parallelism_config_dp_replicate_size",
    "parallelism_config.parallelism_config_dp_shard_size", "deepspeed_config.deepspeed_config_file",
    "model.name", "model.flavor", "optimizer.name", "activation_checkpoint.mode",
    "training.batch_size", "training.local_batch_size", "training.global_batch_size", "training.seq_len",
    "training.tensor_parallel_degree", "training.data_parallel_degree",
    "training.data_parallel_replicate_degree", "training.data_parallel_shard_degree",
    "experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree",
    "parallelism.data_parallel_replicate_degree", "parallelism.data_parallel_shard_degree",
    "parallelism.tensor_parallel_degree", "parallelism.context_parallel_degree",
    "parallelism.fsdp_reshard_after_forward", "parallelism.pipeline_parallel_schedule",
    "parallelism.pipeline_parallel_microbatch_size",
}  # fmt: skip
"""Keys that a plan has a word for."""
