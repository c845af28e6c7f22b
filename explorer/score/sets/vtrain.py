"""vTrain (Bang et al., MICRO 2024): Megatron-LM training steps of GPT on A100 80 GB, tensor x data x
pipeline.

Its authors publish of the runs: fp16 with Adam, every block recomputed, 1F1B, gradients reduced after the
last backward (no overlap), vocabulary of 50,257 (Megatron pads it to a multiple of 128 x tensor), equal
numbers of blocks per stage. Megatron of that time computes attention unfused, with dropout.
"""

from __future__ import annotations

from pathlib import Path

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.score.machines import machine
from explorer.score.megatron import Gpt, GptRun, gpt_case
from explorer.score.reading import Record, read_rows, read_table
from explorer.score.rows import SETS, ReadRows, ScoredRow
from explorer.strategies.degrees import Degrees

PAPER = "Bang et al., vTrain: A Simulation Framework for Cost-effective LLM Training, MICRO 2024"
FRAMEWORK = "megatron-2022"
VOCABULARY = 50257
TIME = "iteration time (ms)"
COLUMNS = (
    "# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "# layers", "sequence length",
    "tensor parallelism", "data parallelism", "pipeline parallelism", TIME,
)  # fmt: skip


@SETS.add(
    "vtrain_single", title="vTrain, one node of 8 A100", paper=PAPER, path="measured/vtrain/single_node.csv",
    device=("a100-sxm-80gb",), source="vtrain", framework=FRAMEWORK, unit="s",
)  # fmt: skip
def read_single(path: Path) -> ReadRows:
    """Read GPT of 0.15 to 1.3 billion parameters on 2 to 8 GPUs."""
    return _read(path, "dgx-a100")


@SETS.add(
    "vtrain_multi", title="vTrain, 64 to 512 A100", paper=PAPER, path="measured/vtrain/multi_node.csv",
    device=("a100-sxm-80gb",), source="vtrain", framework=FRAMEWORK, unit="s",
)  # fmt: skip
def read_multi(path: Path) -> ReadRows:
    """Read GPT of 3.6 to 175 billion parameters; 800 Gbit/s of InfiniBand per node."""
    return _read(path, "a100-800g-64")


def _read(path: Path, cluster: str) -> ReadRows:
    records, problems = read_table(path, COLUMNS)
    devices = machine(cluster, FRAMEWORK)
    found = read_rows(records, path.name, lambda record: _row(record, devices))
    return ReadRows(found.rows, (*problems, *found.problems))


def _row(record: Record, cluster: Cluster) -> ScoredRow:
    devices, batch, micro, hidden, heads, layers, sequence, tensor, data, pipeline = (
        record.count(column) for column in COLUMNS[:-1]
    )
    if tensor * data * pipeline != devices:
        raise InputError(
            f"{tensor} tensor x {data} data x {pipeline} pipeline parallel on {devices} GPUs",
            key=COLUMNS[0], found=devices, allowed=f"{tensor * data * pipeline}",
        )  # fmt: skip
    # One device that holds the whole vocabulary has times of an unpadded one, 50,257 being no multiple of 8.
    model = Gpt(
        layers=layers,
        embed=hidden,
        heads=heads,
        vocab=VOCABULARY,
        sequence=sequence,
        pad_vocabulary=tensor > 1,
    )
    degrees = Degrees(tensor=tensor, replicas=data, stages=pipeline, microbatch_size=micro, recompute="full")
    return ScoredRow(
        name=f"l{layers} h{hidden} b{batch} t{tensor} d{data} p{pipeline} m{micro}",
        line=record.line,
        group=f"l{layers} h{hidden} a{heads} s{sequence} b{batch} n{devices}",
        case=gpt_case(model, GptRun(degrees=degrees, batch=batch, framework=FRAMEWORK), cluster),
        measured=record.positive(TIME) / 1e3,
    )
