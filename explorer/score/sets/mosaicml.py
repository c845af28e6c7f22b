"""MosaicML's benchmarks of llm-foundry: tokens per second and GPU of GPTs of 125M to 70B under PyTorch FSDP.

A line is a run: the model by its name, `micro` samples of a microbatch on each of `gpus`, `accum` of them a
step. `sharding` FULL_SHARD is ZeRO 3 and SHARD_GRAD_OP ZeRO 2; `mp_mode` DEFAULT reduces gradients in fp32,
PURE in bf16; `ckpt` recomputes blocks. Models are MPT as the benchmark's script makes it: biases, learned
positions for the sample's tokens, a tied head over 50,368 tokens, no dropout. Machines are those of cloud
providers with as many network adapters as the data sheets' own: 8 x 200 Gbit/s a node of A100 (stated by
the tables), 8 x 400 Gbit/s a node of H100 (not stated).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeVar

from explorer.base.errors import InputError
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.score.machines import nodes_of
from explorer.score.reading import Record, read_rows, read_table
from explorer.score.rows import SETS, ReadRows, ScoredCase, ScoredRow
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

Known = TypeVar("Known")
FRAMEWORK = "torch-fsdp-2023"
VOCABULARY = 50_368


class Shape(NamedTuple):
    """Sizes of a model."""

    layers: int
    embed: int
    heads: int


MODELS = {
    "125m": Shape(12, 768, 12), "350m": Shape(24, 1024, 16), "760m": Shape(24, 1536, 12),
    "1b": Shape(24, 2048, 16), "3b": Shape(32, 2560, 20), "7b": Shape(32, 4096, 32),
    "13b": Shape(40, 5120, 40), "30b": Shape(48, 7168, 56), "70b": Shape(80, 8192, 64),
}  # fmt: skip
"""Models by name, as the source's own files state them."""
MACHINES = {"a100_80gb": "dgx-a100", "h100_80gb": "hgx-h100"}
PRECISIONS = {"amp_bf16": "bf16", "bf16": "bf16", "amp_fp8": "fp8"}
REDUCED = {"DEFAULT": "fp32", "PURE": "bf16"}
"""Precision in which gradients are kept and reduced, by `mp_mode`."""
LEVELS = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}
"""ZeRO level, by `sharding`."""
YES = {"True": True, "False": False}
COLUMNS = (
    "model", "seq", "gpus", "gpu", "micro", "accum", "batch", "tokens_s_gpu", "precision", "mp_mode",
    "sharding", "ckpt",
)  # fmt: skip


@SETS.add(
    "mosaicml", title="MosaicML: MPT under PyTorch FSDP, 8 to 512 A100 and H100",
    paper="MosaicML, llm-foundry, MPT training benchmarks, 2023", path="measured/mosaicml/fsdp.csv",
    device=("a100-sxm-80gb", "h100-sxm-80gb"), source="mosaicml", framework=FRAMEWORK, unit="tokens_per_s",
)  # fmt: skip
def read(path: Path) -> ReadRows:
    """Read tokens per second and GPU."""
    path = path / "fsdp.csv" if path.is_dir() else path
    records, problems = read_table(path, COLUMNS)
    found = read_rows(records, path.name, _row)
    return ReadRows(found.rows, (*problems, *found.problems))


def _row(record: Record) -> ScoredRow:
    devices, batch = record.count("gpus"), record.count("batch")
    sequence, micro, accum = (record.count(name) for name in ("seq", "micro", "accum"))
    if micro * accum * devices != batch:
        raise InputError(
            f"{accum} microbatches of {micro} on {devices} GPUs", key="batch", found=batch,
            allowed=str(micro * accum * devices),
        )  # fmt: skip
    name, again = record.text("model"), _of(record, "ckpt", YES)
    graph = _graph(_of(record, "model", MODELS), sequence)
    cluster = nodes_of(_of(record, "gpu", MACHINES), devices, FRAMEWORK)
    degrees = Degrees(
        replicas=devices, microbatch_size=micro, zero=_of(record, "sharding", LEVELS),
        recompute="full" if again else "none",
    )  # fmt: skip
    job = Job(
        global_batch=batch,
        sequence_length=sequence,
        precision=_of(record, "precision", PRECISIONS),
        gradient_precision=_of(record, "mp_mode", REDUCED),
        optimizer="adam",
        framework=FRAMEWORK,
    )
    case = ScoredCase(graph, cluster, Workload(jobs=(job,)), degrees.build(graph, cluster, job))
    return ScoredRow(
        name=f"{name} s{sequence} {devices} x {record.text('gpu')} {job.precision}",
        line=record.line,
        group=f"{name} s{sequence} b{batch} n{devices} {record.text('gpu')}",
        case=case,
        measured=record.positive("tokens_s_gpu"),
        amount=batch * sequence / devices,
    )


def _graph(shape: Shape, sequence: int) -> LayerGraph:
    sizes = {**shape._asdict(), "vocab": VOCABULARY, "positions": sequence}
    return load_model(
        "gpt", sequence_length=sequence, settings={name: str(size) for name, size in sizes.items()},
        framework=load_framework(FRAMEWORK),
    )  # fmt: skip


def _of(record: Record, column: str, known: dict[str, Known]) -> Known:
    """Return what a word in a column stands for.

    Raises:
        InputError: the word is unknown.
    """
    word = record.text(column)
    if word not in known:
        raise InputError(f"unknown {column} {word!r}", key=column, found=word, allowed=", ".join(known))
    return known[word]
