"""Megatron-LM runs of GPT as problems for the simulator: the runs of many published tables.

Megatron numbers devices tensor innermost, cuts blocks evenly over pipeline stages (embedding on the first,
head and loss on the last) and pads the vocabulary to a multiple of 128 x tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from explorer.base.errors import ExplorerError, InputError
from explorer.cluster import Cluster
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.score.rows import ScoredCase
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

_SOFTMAX_BLOCK = 4
_MOST_BLOCKS, _MOST_WIDTH = 1024, 1 << 20
"""Larger than any model built; a number beyond it is mistyped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpt:
    """A GPT by its shapes."""

    layers: int
    """Number of blocks."""
    embed: int
    """Width."""
    heads: int
    """Attention heads."""
    vocab: int
    """Rows of the embedding before padding."""
    sequence: int
    """Tokens of a sample, and learned positions."""
    attention: str = "unfused"
    """Kernel of attention: fused or unfused."""
    dropout: bool = True
    """Whether there is dropout: Megatron's default of 0.1."""
    pad_vocabulary: bool = True
    """Whether the vocabulary is padded to a multiple of 128 x tensor."""
    accumulation: str = "fused"
    """How gradients are summed over microbatches: fused or separate."""
    tied: bool = True
    """Whether the head is the embedding, so that the first and the last stage add up its gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GptRun:
    """Layout of a run."""

    degrees: Degrees
    """Degrees by which its devices work together."""
    batch: int
    """Samples of a step."""
    precision: str = "fp16"
    """Compute precision."""
    gradient_precision: str = ""
    """Precision in which gradients are kept and reduced; empty for `precision`."""
    framework: str = "megatron-2022"
    """Software that ran it."""
    ends_as_blocks: bool = False
    """Whether embedding and head count as a block each when blocks are dealt out evenly."""


def gpt_case(model: Gpt, run: GptRun, cluster: Cluster) -> ScoredCase:
    """Return the problem of one run.

    Raises:
        InputError: sizes do not divide each other as Megatron needs it.
    """
    _check(model, run)
    degrees = run.degrees
    loss = load_framework(run.framework).loss or "kernel"
    graph = gpt_graph(model, degrees.tensor, degrees.microbatch_size, loss=loss)
    job = Job(
        global_batch=run.batch,
        sequence_length=model.sequence,
        precision=run.precision,
        gradient_precision=run.gradient_precision,
        optimizer="adam",
        framework=run.framework,
    )
    cuts = even_cuts(graph, degrees.stage_count, ends_as_blocks=run.ends_as_blocks)
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), degrees.build(graph, cluster, job, cuts=cuts))


def gpt_graph(model: Gpt, tensor: int, micro: int, *, loss: str = "kernel") -> LayerGraph:
    """Return the model with its vocabulary padded for `tensor` devices, and a cross entropy (`LOSS`).

    Megatron's fused softmax runs if a device's heads x samples are a multiple of 4 (of its kernel's blocks);
    otherwise every step is a kernel (Megatron-LM, fused_softmax.py, `is_kernel_available`).
    """
    plain = model.attention == "unfused" and model.heads * micro // tensor % _SOFTMAX_BLOCK != 0
    settings = {
        "layers": str(model.layers), "embed": str(model.embed), "heads": str(model.heads),
        "vocab": str(model.vocab), "pad_vocab_to": str(128 * tensor if model.pad_vocabulary else 0),
        "positions": str(model.sequence),
        "attention": model.attention, "softmax": "plain" if plain else "fused",
        "dropout": str(model.dropout).lower(), "accumulation": model.accumulation,
        "tied": str(model.tied).lower(), "loss": loss,
    }  # fmt: skip
    return _graph(model.sequence, tuple(settings.items()))


@cache
def _graph(sequence: int, settings: tuple[tuple[str, str], ...]) -> LayerGraph:
    return load_model("gpt", sequence_length=sequence, settings=dict(settings))


def even_cuts(graph: LayerGraph, stages: int, *, ends_as_blocks: bool = False) -> list[int]:
    """Return the first layer of every stage but the first, with equally many blocks on each stage.

    Layers before the first block go with it, layers after the last with that; or each of both groups counts
    as a block of its own (`ends_as_blocks`).
    """
    first: dict[str, int] = {}
    for i, layer in enumerate(graph.layers):
        if layer.block:
            first.setdefault(layer.block, i)
    starts = sorted(first.values())
    if ends_as_blocks:
        last = max(i for i, layer in enumerate(graph.layers) if layer.block)
        starts = [0, *starts, last + 1]
    return [starts[i * len(starts) // stages] for i in range(1, stages)]


def _check(model: Gpt, run: GptRun) -> None:
    degrees = run.degrees
    for what, whole, by, part in (
        ("layers", model.layers + 2 * run.ends_as_blocks, "pipeline stages", degrees.stage_count),
        ("attention heads", model.heads, "tensor-parallel devices", degrees.tensor),
        ("hidden size", model.embed, "attention heads", model.heads),
        (
            "samples of a step",
            run.batch,
            "samples of a microbatch over all replicas",
            degrees.microbatch_size * degrees.replicas,
        ),
    ):
        if whole % part:
            raise InputError(
                f"{whole} {what} on {part} {by}", key=what, found=whole, allowed=f"a multiple of {part}"
            )
    if model.layers > _MOST_BLOCKS or max(model.embed, model.vocab, model.sequence) > _MOST_WIDTH:
        raise InputError(
            f"{model.layers} blocks of width {model.embed}",
            key="layers",
            found=model.layers,
            allowed=f"at most {_MOST_BLOCKS} blocks, width, vocabulary and sequence at most {_MOST_WIDTH}",
        )


def best_of(cases: Sequence[ScoredCase]) -> Report:
    """Return the fastest prediction that fits in memory, or of all if none fits: authors tune first.

    Raises:
        ExplorerError: the simulator refuses every case (the first reason).
    """
    reports, refused = [], []
    for case in cases:
        try:
            reports.append(simulate(*case))
        except ExplorerError as error:
            refused.append(error)
    if not reports:
        raise refused[0]
    return min(reports, key=lambda report: (not report.feasible, report.step_time_s))
