"""Flux: tensor-parallel collectives in tiles, fused into the products they feed or come from."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.library._one_stage import devices_of, forward_s
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.builder import GraphBuilder
from explorer.sharding import megatron_layout
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.workload import Job

N, TOKENS, WIDTH = 8, 8, 8
BY_HAND = "worked out by hand from the mechanism: one tile of n has nothing to run beside"


@cache
def _feed_forward() -> LayerGraph:
    """Return a gather and a product, then a product and a reduce-scatter."""
    b = GraphBuilder("feed-forward")
    x = b.input("x", {"seq": TOKENS, "embed": WIDTH})
    wide = b.activation("act", b.linear("up", b.norm("norm", x, bias=False), {"ffn": 4 * WIDTH}))
    b.add("add", x, b.linear("down", wide, {"embed": WIDTH}, over=("ffn",)))
    return b.build()


def _product_s(collective_s: float) -> float:
    """Return the seconds of a product of 1 s with a collective of so many: mean of gather and scatter."""
    flops = 2 * TOKENS * WIDTH * 4 * WIDTH / N
    sent_bytes = (N - 1) / N * TOKENS * WIDTH * 2
    total, _ = forward_s(
        _feed_forward(), devices_of(N, flops, sent_bytes / collective_s), "tensor",
        layout=megatron_layout(sequence_parallel=True), overlap=(("tensor", "tiles"),),
    )  # fmt: skip
    return total / 2


def _tiled(graph: LayerGraph, cluster: Cluster, job: Job) -> Strategy:
    """Return Megatron's tensor and sequence parallelism with tiles."""
    found = uniform(graph, cluster, job, tensor=N, microbatch_size=1, sequence_parallel=True)
    stages = (replace(stage, overlap=(("tensor", "tiles"),)) for stage in found.job.stages)
    return found.with_job(found.job.with_stages(stages))


@SYSTEMS.add(
    System(
        name="flux",
        title="Collectives of tensor parallelism in tiles behind the products",
        paper="Chang et al., FLUX: Fast Software-based Communication Overlap On GPUs Through Kernel"
        " Fusion, 2024",
        year=2024,
        uses=Uses(options=("overlap: tiles", "sequence-parallel layout")),
        missing="the kernels themselves, and a number of tiles other than the devices'",
        claims=tuple(
            Claim(
                text=f"a product of 1 s with a gather or scatter of {collective_s:g} s over {N} devices takes"
                f" max(product, collective + tail)",
                published=max(1.0, collective_s + 1 / N),
                unit="s",
                measure=lambda s=collective_s: _product_s(s),  # type: ignore[misc]
                why=BY_HAND,
            )
            for collective_s in (0.5, 1.0, 2.0)
        ),
    )
)
def example() -> Example:
    """Llama 3 8B, tensor parallel over eight A100."""
    return Example(model="llama3-8b", cluster="dgx-a100", global_batch=8, divide=_tiled)
