"""Reducing Activation Recomputation in Large Transformer Models (Korthikanti et al., 2022), Table 5.

Each line gives seconds of a step twice: with full recomputation, and with selective recomputation and
sequence parallelism. A100 80 GB, 8 a node, fp16, unfused attention with dropout, vocabulary 51,200, sequence
2,048, gradients reduced after the last backward.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from explorer.base.errors import InputError
from explorer.score.machines import nodes_of
from explorer.score.megatron import Gpt, GptRun, gpt_case
from explorer.score.published import PATH, read_each, section_of
from explorer.score.reading import Record, count, positive
from explorer.score.rows import SETS, ReadRows, ScoredRow
from explorer.strategies.degrees import Degrees

FRAMEWORK = "megatron-2022"
VOCABULARY, SEQUENCE = 51200, 2048
MODEL, LAID_OUT, BATCH = "model", "GPUs t/p/d, interleave", "batch / micro"
KINDS = (("full", "full", False), ("selective", "selective", True))
"""(column, recomputation, sequence parallelism)."""


@SETS.add(
    "korthikanti", title="Selective recomputation, 8 to 512 A100",
    paper="Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022, table 5",
    path=PATH, device=("a100-sxm-80gb",), source="korthikanti", framework=FRAMEWORK,
    unit="s",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read the seconds of a step of GPT from 22 to 1,000 billion parameters."""
    return read_each(section_of(path, "Korthikanti").table("model", "full", "selective"), path.name, _rows)


def _rows(record: Record) -> Iterator[ScoredRow]:
    name = record.text(MODEL)
    model = _model(name)
    layout = _parts(record.text(LAID_OUT), r"(\d+): *(\d+)/(\d+)/(\d+), *(\d+)", LAID_OUT, "64: 8/8/1, 3")
    devices, tensor, pipeline, data, chunks = layout
    batch, micro = _parts(record.text(BATCH), r"(\d+)/(\d+)", BATCH, "64/1")
    if tensor * pipeline * data != devices:
        raise InputError(
            f"{tensor} x {pipeline} x {data} on {devices} GPUs", key=LAID_OUT, found=devices,
            allowed=str(tensor * pipeline * data),
        )  # fmt: skip
    cluster = nodes_of("dgx-a100-128", devices, FRAMEWORK)
    for column, recompute, sequence_parallel in KINDS:
        degrees = Degrees(
            tensor=tensor, replicas=data, stages=pipeline, microbatch_size=micro, chunks=chunks,
            recompute=recompute, sequence_parallel=sequence_parallel,
        )  # fmt: skip
        yield ScoredRow(
            name=f"{name.split()[0]} {column}",
            line=record.line,
            group=f"{name.split()[0]} b{batch} n{devices}",
            case=gpt_case(model, GptRun(degrees=degrees, batch=batch, framework=FRAMEWORK), cluster),
            measured=positive(record.text(column), column),
        )


def _model(text: str) -> Gpt:
    layers, hidden, heads = _parts(
        text, r".*\((\d+) layers, h (\d+), (\d+) heads\)", MODEL, "22B (48 layers, h 6144, 64 heads)"
    )
    return Gpt(layers=layers, embed=hidden, heads=heads, vocab=VOCABULARY, sequence=SEQUENCE)


def _parts(text: str, form: str, key: str, example: str) -> list[int]:
    match = re.fullmatch(form, text)
    if match is None:
        raise InputError(f"{text!r}", key=key, found=text, allowed=f"as in {example!r}")
    return [count(part, key) for part in match.groups()]
