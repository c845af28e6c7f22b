"""Runs of Llama 3 with sharded states (FSDP), tensor, context and pipeline parallelism, as problems.

Blocks are dealt out as if embedding and head were a block each (Llama 3, section 3.3.2; torchtitan). Under a
pipeline, states are sharded but weights stay whole through the step and gradients are reduced once, in fp32
(both do so): ZeRO 1. Without one, weights are gathered and gradients reduced block by block, behind compute:
ZeRO 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.score.megatron import even_cuts
from explorer.score.rows import ScoredCase
from explorer.strategies.degrees import Degrees
from explorer.strategy import TILES, Strategy
from explorer.workload import Job, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama:
    """A model of the Llama family by its shapes."""

    layers: int
    """Number of blocks."""
    embed: int
    """Width."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    ffn: int
    """Feed-forward width."""
    vocab: int = 128256
    """Rows of the embedding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaRun:
    """Layout of a run."""

    degrees: Degrees
    """Degrees of its devices; norms are always split by sequence, and states over the replicas."""
    batch: int
    """Samples of a step."""
    sequence: int
    """Tokens of a sample."""
    tiles: bool = False
    """Whether tensor-parallel collectives run in tiles behind products (asynchronous tensor parallelism)."""
    kernels: str = "fused"
    """Kernels: fused, or eager for those of PyTorch without a compiler."""
    fp8: bool = False
    """Whether its precision is fp8."""
    policy: str = "attention"
    """Choice of the tensors that selective recomputation recomputes: a policy of the model family."""
    framework: str = ""
    """Software that ran it; it decides how gradients are reduced."""


def llama_case(model: Llama, run: LlamaRun, cluster: Cluster) -> ScoredCase:
    """Return the problem of one run.

    Raises:
        InputError: sizes do not divide each other.
    """
    _check(model, run)
    graph = llama_graph(model, run)
    job = Job(
        global_batch=run.batch, sequence_length=run.sequence, precision="fp8" if run.fp8 else "bf16",
        gradient_precision="fp32", optimizer="adamw", framework=run.framework,
    )  # fmt: skip
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), _strategy(graph, cluster, job, run))


def llama_graph(model: Llama, run: LlamaRun) -> LayerGraph:
    """Return the model for samples of some tokens, with the run's kernels."""
    names = ("layers", "embed", "heads", "kv_heads", "ffn", "vocab")
    settings = {name: str(getattr(model, name)) for name in names}
    settings |= {"kernels": run.kernels, "selective": run.policy}
    return _graph(run.sequence, tuple(settings.items()))


@cache
def _graph(sequence: int, settings: tuple[tuple[str, str], ...]) -> LayerGraph:
    return load_model("llama", sequence_length=sequence, settings=dict(settings))


def _strategy(graph: LayerGraph, cluster: Cluster, job: Job, run: LlamaRun) -> Strategy:
    sharded, count = run.degrees.replicas > 1, run.degrees.stage_count
    degrees = run.degrees.changed(sequence_parallel=True, zero=(1 if count > 1 else 3) if sharded else 0)
    cuts = even_cuts(graph, count, ends_as_blocks=count > 1)
    made = degrees.build(graph, cluster, job, cuts=cuts).job
    overlap = (("tensor", TILES),) if run.tiles and degrees.tensor > 1 else ()
    return Strategy(jobs=(made.with_stages(replace(stage, overlap=overlap) for stage in made.stages),))


def _check(model: Llama, run: LlamaRun) -> None:
    degrees, stages = run.degrees, run.degrees.stage_count
    blocks = model.layers + (2 if stages > 1 else 0)
    for what, whole, part in (
        ("blocks and ends on stages", blocks, stages),
        ("heads on tensor-parallel devices", model.heads, degrees.tensor),
        (
            "samples of a step in microbatches of all replicas",
            run.batch,
            degrees.microbatch_size * degrees.replicas,
        ),
    ):
        if whole % part:
            raise InputError(
                f"{whole} {what}: {part}", key=what, found=whole, allowed=f"a multiple of {part}"
            )


def with_chunks(run: LlamaRun, chunks: int) -> LlamaRun:
    """Return the same run with another number of stages per device."""
    return replace(run, degrees=run.degrees.changed(chunks=chunks))
