"""Runs of Llama 3 with sharded states (FSDP), tensor, context and pipeline parallelism, as problems.

Blocks are dealt out with embedding and head in the place of a block each (Llama 3, section 3.3.2;
torchtitan). Under a pipeline, states are sharded but weights stay whole through the step and gradients are
reduced once, in fp32 (both do so): ZeRO 1. Without one, weights are gathered and gradients reduced block by
block, beside compute: ZeRO 3.
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
from explorer.sharding.layouts import megatron_layout
from explorer.strategy import REPLICA, TILES, Mesh, Stage, Strategy, single
from explorer.workload import Job, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model of the Llama family by its shapes."""

    layers: int
    """Blocks."""
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
class Run:
    """How a run was laid out."""

    data: int
    """Replicas over which states are sharded."""
    tensor: int = 1
    """Tensor-parallel size, with sequence parallelism."""
    context: int = 1
    """Context-parallel size: keys and values are gathered."""
    pipeline: int = 1
    """Pipeline-parallel size."""
    chunks: int = 1
    """Stages per device."""
    micro: int = 1
    """Samples of a microbatch on one replica."""
    batch: int
    """Samples of a step."""
    sequence: int
    """Tokens of a sample."""
    recompute: str = "none"
    """none, selective or full."""
    tiles: bool = False
    """Whether tensor-parallel collectives run in tiles beside products (asynchronous tensor parallelism)."""
    kernels: str = "fused"
    """fused, or eager: those of PyTorch without a compiler."""
    fp8: bool = False
    """Whether the factors of products are cast to fp8."""
    policy: str = "attention"
    """What selective recomputation makes again: a policy of the model family."""
    framework: str = ""
    """What ran it; it says how gradients are reduced."""


def llama_case(shape: Shape, run: Run, cluster: Cluster) -> ScoredCase:
    """The problem of one run.

    Raises:
        InputError: sizes that do not divide each other.
    """
    _check(shape, run)
    graph = llama_graph(shape, run)
    job = Job(
        global_batch=run.batch, sequence_length=run.sequence, precision="bf16", gradient_precision="fp32",
        optimizer="adamw", framework=run.framework,
    )  # fmt: skip
    return ScoredCase(graph, cluster, Workload(jobs=(job,)), _strategy(graph, run))


def llama_graph(shape: Shape, run: Run) -> LayerGraph:
    """The model for samples of some tokens, of the run's kernels."""
    names = ("layers", "embed", "heads", "kv_heads", "ffn", "vocab")
    settings = {name: str(getattr(shape, name)) for name in names}
    settings |= {"kernels": run.kernels, "fp8": str(run.fp8).lower(), "selective": run.policy}
    return _graph(run.sequence, tuple(settings.items()))


@cache
def _graph(sequence: int, settings: tuple[tuple[str, str], ...]) -> LayerGraph:
    return load_model("llama", sequence_length=sequence, settings=dict(settings))


def _strategy(graph: LayerGraph, run: Run) -> Strategy:
    count = run.pipeline * run.chunks
    cuts = even_cuts(graph, count, ends_as_blocks=count > 1)
    bounds = [0, *cuts, len(graph.layers)]
    names = [layer.name for layer in graph.layers]
    sharded = run.data > 1
    stages = tuple(
        Stage(
            layers=tuple(names[bounds[i] : bounds[i + 1]]),
            meshes=(_mesh(i % run.pipeline, run),),
            microbatch_samples=run.micro * run.data,
            layout=_layout(run),
            overlap=(("tensor", TILES),) if run.tiles and run.tensor > 1 else (),
            recompute=run.recompute,
            zero=(1 if count > 1 else 3) if sharded else 0,
        )
        for i in range(count)
    )
    name = "interleaved_1f1b" if run.chunks > 1 else "1f1b"
    return single(stages=stages, schedule=name)


def _mesh(position: int, run: Run) -> Mesh:
    """Tensor innermost, then context, replicas and stages (Llama 3, section 3.3.2)."""
    size = run.data * run.context * run.tensor
    axes = [(REPLICA, run.data)]
    axes += [(name, count) for name, count in (("context", run.context), ("tensor", run.tensor)) if count > 1]
    return Mesh(devices=tuple(range(position * size, (position + 1) * size)), axes=tuple(axes))


def _layout(run: Run) -> tuple[tuple[str, str], ...]:
    layout: tuple[tuple[str, str], ...] = (("seq", "context"),) if run.context > 1 else ()
    return (*layout, *megatron_layout(sequence_parallel=True)) if run.tensor > 1 else layout


def _check(shape: Shape, run: Run) -> None:
    stages = run.pipeline * run.chunks
    blocks = shape.layers + (2 if stages > 1 else 0)
    for what, whole, part in (
        ("blocks and ends on stages", blocks, stages),
        ("heads on tensor-parallel devices", shape.heads, run.tensor),
        ("samples of a step in microbatches of all replicas", run.batch, run.micro * run.data),
    ):
        if whole % part:
            raise InputError(
                f"{whole} {what}: {part}", key=what, found=whole, allowed=f"a multiple of {part}"
            )


def with_chunks(run: Run, chunks: int) -> Run:
    """The same run with another number of stages per device."""
    return replace(run, chunks=chunks)
