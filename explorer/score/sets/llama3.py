"""Llama 3 405B pre-training (Llama Team 2024, Table 4): FLOP/s per GPU on H100.

BF16 with fp32 gradients, sharded states, tensor with sequence parallelism, interleaved pipeline, no
recomputation (section 3.3.2). The blocks of a chunk are not published: the best predicted of one, two, four
or all blocks of a device to a chunk counts. FLOPs are those of the model, as `Report.mfu` counts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from explorer.base.errors import InputError
from explorer.score.llama import Llama, LlamaRun, llama_case, with_chunks
from explorer.score.machines import nodes_of
from explorer.score.megatron import best_of
from explorer.score.published import PATH, read_each, section_of
from explorer.score.reading import Record, count
from explorer.score.rows import SETS, ReadRows, ScoredCase, ScoredRow
from explorer.strategies.degrees import Degrees

FRAMEWORK = "llama3-2024"
BLOCKS_A_CHUNK = (1, 2, 4)
_SHAPES = r"(\d+) layers, hidden (\d+), ffn (\d+), heads (\d+), kv heads (\d+), vocabulary (\d+)"


@SETS.add(
    "llama3", title="Llama 3 405B, 8,192 and 16,384 H100",
    paper="Llama Team, The Llama 3 Herd of Models, 2024, table 4",
    path=PATH, device=("h100-sxm-80gb",), source="llama3", framework=FRAMEWORK,
    unit="flops_per_s",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read the FLOP/s per GPU."""
    section = section_of(path, "Llama 3", "Table 4")
    match = re.search(_SHAPES, section.prose)
    if match is None:
        raise InputError(
            "no shapes of the model", file=str(path), key=f"line {section.line}", allowed=_SHAPES
        )
    layers, hidden, ffn, heads, kv_heads, vocab = (count(part, "shapes") for part in match.groups())
    model = Llama(layers=layers, embed=hidden, heads=heads, kv_heads=kv_heads, ffn=ffn, vocab=vocab)
    return read_each(section.table("GPUs", "TFLOP/s"), path.name, lambda record: _rows(record, model))


def _rows(record: Record, model: Llama) -> Iterator[ScoredRow]:
    names = ("GPUs", "TP", "CP", "PP", "DP", "seq", "batch per DP")
    devices, tensor, context, pipeline, data, sequence, batch = map(record.count, names)
    if tensor * context * pipeline * data != devices:
        raise InputError(
            f"{tensor} x {context} x {pipeline} x {data} on {devices} GPUs", key="GPUs", found=devices,
            allowed=str(tensor * context * pipeline * data),
        )  # fmt: skip
    degrees = Degrees(tensor=tensor, context=context, stages=pipeline, replicas=data)
    run = LlamaRun(degrees=degrees, batch=batch * data, sequence=sequence, framework=FRAMEWORK)
    cluster = nodes_of("hgx-h100-2048", devices, FRAMEWORK)
    per_device = (model.layers + 2) // pipeline
    chunks = sorted({1, *(per_device // n for n in BLOCKS_A_CHUNK if per_device % n == 0)} - {0})
    cases = [llama_case(model, with_chunks(run, n), cluster) for n in chunks]
    yield ScoredRow(
        name=f"{devices} GPUs t{tensor} c{context} p{pipeline} d{data} s{sequence}",
        line=record.line,
        group=f"s{sequence} b{batch * data} n{devices}",
        case=cases[0],
        measured=record.positive("TFLOP/s per GPU") * 1e12,
        predicted=partial(_flops_per_s, cases),
    )


def _flops_per_s(cases: list[ScoredCase]) -> float:
    report, cluster = best_of(cases), cases[0].cluster
    if report.mfu is None:
        raise InputError("the model does not state its FLOPs", key="mfu")
    return report.mfu * cluster.kind_of(0).peak("bf16")
