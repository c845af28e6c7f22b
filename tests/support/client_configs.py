"""Read configs with the client's own parser, in a process: `client_configs.py deepspeed FILE RANKS ...`.

Prints one JSON line for each file: what the parser made of it, under names of ours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def read_deepspeed(path: str, ranks: int) -> dict[str, Any]:
    """DeepSpeed's `DeepSpeedConfig`, in a world of so many data-parallel ranks."""
    from deepspeed.runtime import config as module

    module.dist.get_rank = lambda *_: 0
    module.dist.get_world_size = lambda *_: ranks
    found = module.DeepSpeedConfig(path)
    zero, again = found.zero_config, found.activation_checkpointing_config
    return {
        "batch": (
            found.train_batch_size, found.train_micro_batch_size_per_gpu, found.gradient_accumulation_steps
        ),
        "zero": int(zero.stage),
        "overlap": bool(zero.overlap_comm),
        "bucket": zero.reduce_bucket_size,
        "states": str(getattr(zero.offload_optimizer, "device", "none")).rpartition(".")[2],
        "tensor": found.tensor_parallel_config.autotp_size,
        "pipeline": found.pipeline["stages"],
        "checkpoints": again.number_checkpoints,
        "host": again.cpu_checkpointing,
        "bf16": found.bfloat16_config.enabled,
        "fp16": found.float16_config.enabled,
        "optimizer": found.optimizer_name,
        "communication": str(found.communication_data_type),
        "gradients": found.grad_accum_dtype,
    }  # fmt: skip


def read_accelerate(path: str, _ranks: int) -> dict[str, Any]:
    """Accelerate's `ClusterConfig`, and the environment that `accelerate launch` gives to ranks."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    config = load_config_from_file(path)
    arguments = launch_command_parser().parse_args(["--config_file", path, "script.py"])
    arguments, _, _ = _validate_launch_command(arguments)
    environment = prepare_multi_gpu_env(arguments)
    names = ("ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_PARALLELISM_CONFIG")
    return {
        "kind": str(config.distributed_type.value),
        "processes": config.num_processes,
        "environment": {
            key: value for key, value in environment.items()
            if key.startswith(("FSDP_", "PARALLELISM_CONFIG_")) or key in names
        },
        "deepspeed": config.deepspeed_config,
        **_arguments(Path(path).with_name("training_arguments.json")),
    }  # fmt: skip


def _arguments(path: Path) -> dict[str, Any]:
    """Hugging Face's `TrainingArguments` as `HfArgumentParser` reads them."""
    from transformers import HfArgumentParser, TrainingArguments

    data = json.loads(path.read_text()) | {"use_cpu": True}
    found = HfArgumentParser(TrainingArguments).parse_dict(data)[0]
    keys = ("per_device_train_batch_size", "gradient_accumulation_steps", "optim", "bf16", "fp16",
            "gradient_checkpointing", "ddp_bucket_cap_mb")  # fmt: skip
    return {"arguments": {key: getattr(found, key) for key in keys}}


if __name__ == "__main__":
    client, *files = sys.argv[1:]
    reader = {"deepspeed": read_deepspeed, "accelerate": read_accelerate}[client]
    for file, count in zip(files[::2], files[1::2], strict=True):
        print("{" + json.dumps(reader(file, int(count)), default=str)[1:])
