"""Megatron-LM's weak scaling (Narayanan et al., SC 2021, Table 1): FLOP/s per GPU on Selene.

Its FLOPs of a step are 96 B s l h^2 (1 + s / 6h + V / 16lh), recomputation included. Microbatches and chunks
are those of the script that the authors published for the table (Megatron-LM, examples/sc21/run_table_1.sh);
for a model that is not in it the best predicted layout that fits counts, of microbatches of 1, 2, 4 and 8
samples and of one or two blocks per chunk: authors tune before they publish. fp16, unfused attention with
dropout, gradients reduced after the last backward and, if there are several microbatches, summed by separate
kernels: Megatron-LM fused that sum into the products in 2022.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from explorer.base.errors import InputError
from explorer.score.machines import nodes_of
from explorer.score.megatron import Gpt, GptRun, best_of, gpt_case
from explorer.score.published import PATH, read_each, section_of
from explorer.score.reading import Record
from explorer.score.rows import SETS, ReadRows, ScoredCase, ScoredRow
from explorer.strategies.degrees import Degrees

FRAMEWORK = "megatron-2021"
VOCABULARY, SEQUENCE = 51200, 2048
MICROBATCHES = (1, 2, 4, 8)
SCRIPT = {
    (24, 2304): (16, 0), (30, 3072): (16, 0), (36, 4096): (16, 0), (40, 6144): (8, 0), (48, 8192): (4, 0),
    (60, 10240): (2, 5), (80, 12288): (2, 5), (96, 16384): (1, 3), (105, 20480): (1, 1), (128, 25600): (1, 0),
}  # fmt: skip
"""By layers and width: samples of a microbatch, and blocks of a chunk (0: no interleaving)."""


@SETS.add(
    "megatron_table1", title="Megatron-LM weak scaling, 32 to 3072 A100",
    paper="Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, SC 2021, table 1",
    path=PATH, device=("a100-sxm-80gb",), source="megatron", framework=FRAMEWORK, unit="flops_per_s",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read the FLOP/s per GPU of GPT from 1.7 to 1,008 billion parameters."""
    table = section_of(path, "Megatron", "Table 1").table("heads", "hidden", "layers", "TFLOP/s")
    return read_each(table, path.name, _rows)


def step_flops(model: Gpt, batch: int) -> float:
    """Return the FLOPs of a step with recomputation (equation 3 of the paper)."""
    layers, width = model.layers, model.embed
    extra = 1 + model.sequence / (6 * width) + model.vocab / (16 * layers * width)
    return 96.0 * batch * model.sequence * layers * width**2 * extra


def _rows(record: Record) -> Iterator[ScoredRow]:
    heads, hidden, layers, tensor, pipeline, devices, batch = (
        record.count(name) for name in ("heads", "hidden", "layers", "TP", "PP", "GPUs", "batch")
    )
    if devices % (tensor * pipeline):
        raise InputError(
            f"{tensor} tensor x {pipeline} pipeline parallel on {devices} GPUs", key="GPUs", found=devices,
            allowed=f"a multiple of {tensor * pipeline}",
        )  # fmt: skip
    model = Gpt(layers=layers, embed=hidden, heads=heads, vocab=VOCABULARY, sequence=SEQUENCE)
    cases = _cases(model, devices=devices, tensor=tensor, pipeline=pipeline, batch=batch)
    flops = step_flops(model, batch)
    yield ScoredRow(
        name=f"{record.text('params B')}B t{tensor} p{pipeline} n{devices} b{batch}",
        line=record.line,
        group=f"{record.text('params B')}B b{batch} n{devices}",
        case=cases[0],
        measured=record.positive("TFLOP/s per GPU") * 1e12,
        predicted=partial(_flops_per_s, cases, flops / devices),
    )


def _flops_per_s(cases: list[ScoredCase], flops: float) -> float:
    return flops / best_of(cases).step_time_s


def _cases(model: Gpt, *, devices: int, tensor: int, pipeline: int, batch: int) -> list[ScoredCase]:
    """Return the cases that the authors ran, or may have run; at least one."""
    cluster = nodes_of("dgx-a100-128", devices, FRAMEWORK)
    data = devices // (tensor * pipeline)
    found, refused = [], None
    chosen, microbatches = _choices(model, pipeline)
    for chunks in chosen:
        for micro in microbatches:
            apart = batch > data * micro
            degrees = Degrees(
                tensor=tensor, replicas=data, stages=pipeline, microbatch_size=micro, chunks=chunks,
                recompute="full",
            )  # fmt: skip
            if chunks > 1 and (batch // (data * micro)) % pipeline:
                continue  # Megatron interleaves whole rounds of microbatches
            try:
                shape = replace(model, accumulation="separate" if apart else "fused")
                found.append(
                    gpt_case(shape, GptRun(degrees=degrees, batch=batch, framework=FRAMEWORK), cluster)
                )
            except InputError as error:
                refused = error
    if not found and refused is not None:
        raise refused
    return found


def _choices(model: Gpt, pipeline: int) -> tuple[list[int], tuple[int, ...]]:
    """Return the chunks per device, and the samples of a microbatch."""
    if (model.layers, model.embed) not in SCRIPT:
        return _chunks(model.layers, pipeline), MICROBATCHES
    micro, blocks = SCRIPT[model.layers, model.embed]
    per_device = model.layers // pipeline
    interleaved = pipeline > 1 and blocks and per_device % blocks == 0
    return [per_device // blocks if interleaved else 1], (micro,)


def _chunks(layers: int, pipeline: int) -> list[int]:
    """Return the numbers of chunks that leave one or two blocks to each; 1 without a pipeline."""
    per_device = layers // pipeline
    chunks = {per_device // blocks for blocks in (1, 2) if pipeline > 1 and per_device % blocks == 0}
    return sorted(chunks - {0}) or [1]
