"""Megatron-Core reads arguments: its own configurations, and how many blocks its ranks build.

Started as a program, since importing it takes seconds: a list of mappings of arguments comes in as JSON on
standard input, a list of what Megatron-Core made of each goes out.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

RENAMED = {
    "num_experts": "num_moe_experts",
    "swiglu": "gated_linear_unit",
    "decoder_first_pipeline_num_layers": "num_layers_in_first_pipeline_stage",
    "decoder_last_pipeline_num_layers": "num_layers_in_last_pipeline_stage",
    "fp8_format": "fp8",
    "ddp_bucket_size": "bucket_size",
    "accumulate_allreduce_grads_in_fp32": "grad_reduce_in_fp32",
}
"""Names of Megatron-LM's arguments that its configurations call otherwise."""


def read(arguments: dict[str, Any]) -> dict[str, Any]:
    """What Megatron-Core makes of the arguments of one job."""
    import torch
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    given = {key.removeprefix("--").replace("-", "_"): value for key, value in arguments.items()}
    given = {RENAMED.get(key, key): value for key, value in given.items()}
    pipeline = given["pipeline_model_parallel_size"]
    chunks = 1
    if per_chunk := given.get("num_layers_per_virtual_pipeline_stage"):
        chunks = given["num_layers"] // pipeline // per_chunk
    if layout := given.get("pipeline_model_parallel_layout"):
        chunks = PipelineParallelLayerLayout.get_num_stages_from_str(layout) // pipeline
    if given.get("no_overlap_p2p_communication") or chunks == 1:
        given["overlap_p2p_comm"] = False
    given["virtual_pipeline_model_parallel_size"] = chunks if chunks > 1 else None
    dtype = torch.bfloat16 if given.get("bf16") else torch.float16 if given.get("fp16") else torch.float32
    given |= {"params_dtype": dtype, "pipeline_dtype": dtype}
    if given.get("swiglu") or given.get("gated_linear_unit"):
        given["activation_func"] = torch.nn.functional.silu
    given["add_bias_linear"] = not given.pop("disable_bias_linear", False)
    given["recompute_modules"] = (
        str(given["recompute_modules"]).split() if "recompute_modules" in given else None
    )
    config = _made(TransformerConfig, given)
    return {
        "stages": _blocks(config, pipeline, chunks),
        "transformer": _plain(config),
        "ddp": _plain(_made(DistributedDataParallelConfig, given)),
        "optimizer": _plain(_made(OptimizerConfig, given)),
    }


def _made(kind: type, given: dict[str, Any]) -> Any:
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{key: value for key, value in given.items() if key in names})


def _plain(config: Any) -> dict[str, Any]:
    found = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {key: value for key, value in found.items() if isinstance(value, int | float | str | bool)}


def _blocks(config: Any, pipeline: int, chunks: int) -> list[int]:
    """Blocks that each stage builds, in model order."""
    from megatron.core.transformer.enums import LayerType
    from megatron.core.transformer.transformer_block import get_num_layers_to_build

    places = [(rank, chunk) for chunk in range(chunks) for rank in range(pipeline)]
    if config.pipeline_model_parallel_layout is not None:
        layout = config.pipeline_model_parallel_layout.layout
        return [layout[rank][chunk].count(LayerType.decoder) for rank, chunk in places]
    return [
        get_num_layers_to_build(config, vp_stage=chunk if chunks > 1 else None, pp_rank=rank)
        for rank, chunk in places
    ]


def main() -> None:
    """Read all that comes in."""
    results: list[Any] = []
    for arguments in json.load(sys.stdin):
        try:
            results.append(read(arguments))
        except (AssertionError, ValueError, TypeError, KeyError) as error:
            results.append({"error": f"{type(error).__name__}: {error}"})
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
