"""SimuMax (Moore Threads, 2025): Megatron-Core steps of Llama 3 and DeepSeek on 8 B200 and 8 A100-PCIe.

Published facts of the runs: bf16 with fp32 gradients, Adam with its states over the data-parallel ranks
(context-parallel ranks among them: Megatron's distributed optimizer), no recomputation, 1F1B, microbatches of
one sample, sequence parallelism wherever there is tensor parallelism, experts over the data-parallel ranks.
Context parallelism exchanges heads for positions around the attention (all-to-all): the efficiencies of
attention measured for these runs are of whole sequences with a part of the heads. If the model has dense
blocks, a run of few layers has one of them; vocabularies are padded to a multiple of 128 x tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from explorer.base.errors import ExplorerError, InputError
from explorer.base.units import GIB
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.score.machines import machine
from explorer.score.megatron import even_cuts
from explorer.score.reading import count
from explorer.score.rows import SETS, ReadRows, RowProblem, ScoredCase, ScoredRow
from explorer.score.sets._simumax_rows import (
    Setting,
    elements,
    measured,
    model_file,
    model_shapes,
    setting_of,
)
from explorer.strategies.degrees import ALL_TO_ALL, Degrees
from explorer.strategy import Strategy
from explorer.workload import Job, Workload

PAPER = "Moore Threads, SimuMax: simulator of LLM training with Megatron-LM, 2025"
FRAMEWORK = "megatron-core-2025"
_MEMORY = "real_alloc_gib"
_MOST_LAYERS, _MOST_SIZE, _MOST_TOKENS = 512, 1 << 20, 1 << 22


@SETS.add(
    "simumax", title="SimuMax, 8 x B200", paper=PAPER, path="measured/simumax/b200.json",
    device=("b200-sxm-180gb",), source="simumax", framework=FRAMEWORK, unit="s",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read Llama 3 and DeepSeek, 2 to 12 blocks, tensor x context x data x pipeline parallel."""
    return _read(path / "b200.json" if path.is_dir() else path, "b200", optional=False)


@SETS.add(
    "simumax_pcie", title="SimuMax, 8 x A100-PCIe", paper=PAPER, path="measured/simumax/a100_pcie.json",
    device=("a100-pcie-80gb",), source="simumax", framework=FRAMEWORK, unit="s",
)  # fmt: skip
def read_pcie(path: Path) -> ReadRows:
    """Read Llama 3 70B and DeepSeek V2, 4 and 12 blocks, on eight cards without links between them."""
    return _read(path / "a100_pcie.json" if path.is_dir() else path, "a100-pcie", optional=True)


def _read(path: Path, profile: str, *, optional: bool) -> ReadRows:
    """Read the rows of one machine; whether memory may be left out is `optional`."""
    rows, problems, cluster = [], [], machine(profile, FRAMEWORK)
    for element in elements(path):
        try:
            if element.problem:
                raise InputError(element.problem, allowed="an object of one row")
            rows.append(_row(element.value, element.number, path.parent, cluster, optional=optional))
        except ExplorerError as error:
            problems.append(RowProblem(path.name, element.number, str(error)))
    return ReadRows(tuple(rows), tuple(problems))


def _row(row: Mapping[str, Any], number: int, folder: Path, cluster: Cluster, *, optional: bool) -> ScoredRow:
    setting = setting_of(row, cluster.device_count)
    seconds = measured(row, "real_ms") / 1e3
    memory = measured(row, _MEMORY) * GIB if _MEMORY in row or not optional else None
    batch = setting.data * setting.microbatches * setting.microbatch
    return ScoredRow(
        name=setting.case,
        line=number,
        group=f"{setting.model} l{setting.layers} s{setting.sequence} b{batch} n{cluster.device_count}",
        case=_case(setting, folder, cluster),
        measured=seconds,
        measured_memory_bytes=memory,
        tensors_only=True,
    )


def _case(setting: Setting, folder: Path, cluster: Cluster) -> ScoredCase:
    graph = _graph(model_file(setting.model, folder), setting)
    job = Job(
        global_batch=setting.data * setting.microbatches * setting.microbatch,
        sequence_length=setting.sequence,
        precision="bf16",
        gradient_precision="fp32",
        optimizer="adam",
        framework=FRAMEWORK,
    )
    degrees = Degrees(
        tensor=setting.tensor, context=setting.context, replicas=setting.data, stages=setting.pipeline,
        expert=setting.expert, microbatch_size=setting.microbatch, zero=1, sequence_parallel=True,
        context_exchange=ALL_TO_ALL,
    )  # fmt: skip
    made = degrees.build(graph, cluster, job, cuts=even_cuts(graph, setting.pipeline)).job
    beside = (("tensor", "weight_gradient"),) if setting.tensor > 1 else ()
    strategy = Strategy(jobs=(made.with_stages(replace(stage, overlap=beside) for stage in made.stages),))
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), strategy)


def _graph(path: Path, setting: Setting) -> LayerGraph:
    settings = _settings(model_shapes(path), setting)
    return _load("deepseek" if "experts" in settings else "llama", setting.sequence, tuple(settings.items()))


@cache
def _load(family: str, sequence: int, settings: tuple[tuple[str, str], ...]) -> LayerGraph:
    return load_model(family, sequence_length=sequence, settings=dict(settings))


_LLAMA = {
    "embed": "hidden_size", "heads": "head_num", "kv_heads": "kv_head_num", "head": "head_size",
    "ffn": "intermediate_size",
}  # fmt: skip
_DEEPSEEK = {
    "embed": "hidden_size", "heads": "head_num", "ffn": "intermediate_size", "q_lora": "q_lora_rank",
    "kv_lora": "kv_lora_rank", "head": "qk_head_dim", "rope": "qk_pos_emb_head_dim", "v_head": "v_head_dim",
    "experts": "expert_num", "active": "topk", "expert_ffn": "moe_ffn_hidden_size",
    "shared_ffn": "moe_shared_expert_intermediate_size",
}  # fmt: skip
"""Settings of our families by their names in SimuMax's files."""


def _settings(found: Mapping[str, Any], setting: Setting) -> dict[str, str]:
    latent = found.get("attention_type") == "mla"
    if not latent and found.get("model_type", "dense") != "dense":
        raise InputError(
            f"a {found.get('model_type')} model without latent attention", key="model", found=setting.model,
            allowed="dense models, and those with latent attention",
        )  # fmt: skip
    names = _DEEPSEEK if latent else _LLAMA
    sizes = {name: count(found.get(key, ""), key) for name, key in names.items()}
    unit = 128 * setting.tensor
    sizes["vocab"] = -(-count(found.get("vocab_size", ""), "vocab_size") // unit) * unit
    _check_sizes(sizes, setting)
    settings = {name: str(size) for name, size in sizes.items()}
    settings |= {"layers": str(setting.layers), "fused_loss": str(setting.fused_loss).lower()}
    if latent:
        settings |= {"dense_layers": str(min(1, found.get("dense_layers", 0))), "balanced": "false"}
    return settings


def _check_sizes(sizes: Mapping[str, int], setting: Setting) -> None:
    split = setting.tensor * setting.context
    for name in ("heads", "kv_heads"):
        if sizes.get(name, split) % split:
            raise InputError(
                f"{sizes[name]} {name} on {setting.tensor} tensor x {setting.context} context parallel",
                key="case", found=sizes[name], allowed=f"a multiple of {split}",
            )  # fmt: skip
    if sizes.get("experts", setting.expert) % setting.expert:
        raise InputError(
            f"{sizes['experts']} experts on {setting.expert} devices", key="case", found=setting.expert,
            allowed=f"a divisor of {sizes['experts']}",
        )  # fmt: skip
    if (
        setting.layers > _MOST_LAYERS
        or setting.sequence > _MOST_TOKENS
        or setting.microbatches * setting.data > _MOST_TOKENS
        or max(sizes.values()) > _MOST_SIZE
    ):
        raise InputError(
            f"{setting.layers} layers of up to {max(sizes.values())}, {setting.sequence} tokens", key="case",
            found=setting.case, allowed=f"at most {_MOST_LAYERS} layers and {_MOST_TOKENS} tokens or samples",
        )  # fmt: skip
