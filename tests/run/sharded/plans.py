"""Plans of a small decoder whose own layers run on lanes of several ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.run.cases.build import Prepared, prepare
from explorer.run.sharded.layout_model import LayoutModel
from explorer.schedules import SCHEDULES
from explorer.sharding import expert_layout, megatron_layout
from explorer.strategies.model_axes import expert_shardings
from explorer.strategy import REPLICA, JobStrategy, Mesh, Stage
from explorer.workload import Job
from tests.sharding.checking import without_internals

SEQ, EMBED, HEADS, VOCAB, BATCH = 8, 8, 4, 16, 8


class Case(NamedTuple):
    """A plan to run."""

    name: str
    schedule: str
    p: int
    """Lanes in a row."""
    d: int = 1
    """Replicas."""
    axes: tuple[tuple[str, int], ...] = ()
    layout: tuple[tuple[str, str], ...] = ()
    fields: Mapping[str, Any] = MappingProxyType({})
    """Further fields of every stage."""
    microbatches: int = 4
    optimizer: str = "sgd"
    dtype: str = "fp64"
    experts: int = 1
    """Ranks of several lanes that share the experts."""

    @property
    def ranks(self) -> int:
        found = self.p * self.d
        for _, size in self.axes:
            found *= size
        return found


def decoder(blocks: int = 4, *, tied: bool = False) -> LayerGraph:
    b = GraphBuilder("decoder")
    x = b.embedding(
        "embed", b.input("tokens", {"seq": SEQ}, dtype="int64"), {"vocab": VOCAB}, {"embed": EMBED}
    )
    x = b.add_table("positions", x, SEQ)
    for i in range(blocks):
        with b.block(f"layers.{i}"):
            h = b.norm("norm1", x)
            qkv = b.linear("qkv", h, {"qkv": 3, "heads": HEADS, "head": 2}, bias=True)
            h = b.attention("core", qkv, heads=HEADS, head=2, causal=True)
            x = b.add("add1", x, b.linear("o", h, {"embed": EMBED}, over=("heads", "head"), bias=True))
            h = b.activation("gelu", b.linear("up", b.norm("norm2", x), {"ffn": 16}, bias=True))
            x = b.add("add2", x, b.linear("down", h, {"embed": EMBED}, over=("ffn",), bias=True))
    weight = "embed.weight" if tied else ""
    logits = b.linear("logits", b.norm("norm", x), {"vocab": VOCAB}, weight=weight)
    b.loss("loss", logits, b.input("targets", {"seq": SEQ}, dtype="int64"))
    return without_internals(b.build())


def mixture(blocks: int = 2) -> LayerGraph:
    """A decoder whose feed-forward halves are four experts, two for each token."""
    b = GraphBuilder("mixture")
    x = b.embedding(
        "embed", b.input("tokens", {"seq": SEQ}, dtype="int64"), {"vocab": VOCAB}, {"embed": EMBED}
    )
    for i in range(blocks):
        with b.block(f"layers.{i}"):
            qkv = b.linear("qkv", b.norm("norm1", x), {"qkv": 3, "heads": HEADS, "head": 2}, bias=True)
            h = b.attention("core", qkv, heads=HEADS, head=2, causal=True)
            x = b.add("add1", x, b.linear("o", h, {"embed": EMBED}, over=("heads", "head"), bias=True))
            h = b.norm("norm2", x)
            x = b.add("add2", x, b.experts("experts", h, b.router("router", h, 4), ffn=8, active=2))
    logits = b.linear("logits", b.norm("norm", x), {"vocab": VOCAB})
    b.loss("loss", logits, b.input("targets", {"seq": SEQ}, dtype="int64"))
    return without_internals(b.build())


GRAPH, TIED, MIXTURE = decoder(), decoder(tied=True), mixture()


def plan(case: Case, *, steps: int = 2) -> Prepared:
    """The case, lowered, to be run and checked."""
    graph = MIXTURE if case.experts > 1 else TIED if "tied" in case.name else GRAPH
    names = [layer.name for layer in graph.layers]
    placement = SCHEDULES.get(case.schedule).placement
    grid = placement.grid(case.p)
    chunks = 2 if case.schedule in ("interleaved_1f1b", "breadth_first") else 1
    count = case.p * chunks if chunks > 1 else placement.stages(grid)
    cuts = [round(i * len(names) / count) for i in range(count + 1)]
    each = case.ranks // case.p
    axes = ((REPLICA, case.d), *case.axes)
    stages = tuple(
        Stage(
            layers=tuple(names[cuts[i] : cuts[i + 1]]),
            meshes=tuple(
                Mesh(devices=tuple(at * each + r for r in range(each)), axes=axes)
                for at in (
                    [i % case.p]
                    if chunks > 1
                    else [placement.position(i, c, grid) for c in range(grid.copies)]
                )
            ),
            microbatch_samples=BATCH // case.microbatches,
            layout=case.layout,
            **case.fields,
        )
        for i in range(count)
    )
    tiles = tuple(axis for axis, _ in case.fields.get("overlap", ()))
    model = LayoutModel(graph=graph, layout=case.layout, axes=case.axes, dtype=case.dtype, tiles=tiles)
    if case.experts > 1:
        mixtures = tuple(layer.name for layer in graph.layers if layer.kind == "experts")
        model = replace(model, spread=((mixtures, expert_layout()),), spread_axis=("expert", case.experts))
        stages = tuple(
            replace(stage, shardings=expert_shardings(stage.layers, stage.meshes, mixtures, case.experts))
            for stage in stages
        )
    strategy = JobStrategy(stages=stages, schedule=case.schedule)
    return prepare(
        case.name, graph, load_cluster("dgx-a100"),
        Job(global_batch=BATCH, precision=case.dtype, optimizer=case.optimizer), strategy,
        steps=steps, model=model, check=True,
    )  # fmt: skip


TENSOR, TWO = (("tensor", 2),), megatron_layout()
WITH_SEQUENCE = megatron_layout(sequence_parallel=True)
BESIDE = {"overlap": (("tensor", "tiles"),)}
CASES = (
    Case("pipeline", "1f1b", 2),
    Case("tensor", "1f1b", 1, axes=TENSOR, layout=TWO),
    Case("sequence", "gpipe", 1, axes=TENSOR, layout=WITH_SEQUENCE, optimizer="adam"),
    Case("data", "1f1b", 1, 2),
    Case("uneven", "gpipe", 1, 2, fields={"shares": (3.0, 1.0)}, microbatches=2),
    Case("zero 1", "1f1b", 1, 2, fields={"zero": 1}, optimizer="adam"),
    Case("zero 2", "1f1b", 1, 2, fields={"zero": 2}, optimizer="momentum"),
    Case("zero 3", "1f1b", 1, 2, fields={"zero": 3}, optimizer="adam"),
    Case("recomputed", "1f1b", 1, axes=TENSOR, layout=WITH_SEQUENCE, fields={"recompute": "full"}),
    Case("offloaded", "1f1b", 2, fields={"offload": ("activations",)}),
    Case("tied tensor", "1f1b", 1, axes=TENSOR, layout=TWO),
    Case("tied pipeline", "1f1b", 2),
    Case("pipeline x tensor", "1f1b", 2, axes=TENSOR, layout=TWO),
    Case("pipeline x sequence", "interleaved_1f1b", 2, axes=TENSOR, layout=WITH_SEQUENCE),
    Case(
        "pipeline x context",
        "gpipe",
        2,
        axes=(("context", 2),),
        layout=(("seq", "context"), ("ring", "context")),
    ),
    Case("pipeline x data", "1f1b", 2, 2),
    Case("tied pipeline x tensor", "1f1b", 2, axes=TENSOR, layout=TWO),
    Case("two copies x tensor", "chimera", 2, axes=TENSOR, layout=TWO),
    Case("data x tensor zero 3", "1f1b", 1, 2, axes=TENSOR, layout=TWO, fields={"zero": 3}),
    Case("pipeline x zero 2", "1f1b", 2, 2, fields={"zero": 2}),
    Case(
        "hybrid zero 3",
        "1f1b",
        1,
        4,
        fields={"zero": 3, "zero_replicas": 2},
        microbatches=2,
        optimizer="adam",
    ),
    Case("breadth first zero 3", "breadth_first", 2, 2, fields={"zero": 3}),
    Case("split x sequence", "zb_h1", 2, axes=TENSOR, layout=WITH_SEQUENCE),
    Case("split there and back x tensor", "zb_v", 2, axes=TENSOR, layout=TWO),
    Case("split x data", "zb_h1", 2, 2),
    Case("four stages", "gpipe", 4),
    Case("tensor 4", "1f1b", 1, axes=(("tensor", 4),), layout=WITH_SEQUENCE),
    Case("pipedream x tensor", "pipedream", 2, axes=TENSOR, layout=TWO),
    Case("two versions x sequence", "pipedream_2bw", 2, axes=TENSOR, layout=WITH_SEQUENCE),
    Case("experts over replicas", "1f1b", 1, 2, experts=2),
    Case("experts over replicas fp32", "gpipe", 1, 2, experts=2, dtype="fp32"),
    Case("experts in a pipeline", "1f1b", 2, 2, experts=2),
    Case("experts of several samples", "1f1b", 2, 2, experts=2, microbatches=2),
    Case("experts over half of the replicas", "gpipe", 1, 4, experts=2, microbatches=2),
    Case("experts over all replicas", "gpipe", 1, 4, experts=4, microbatches=2),
    Case("experts over lanes of two", "1f1b", 1, 2, axes=TENSOR, layout=TWO, experts=4),
    Case("experts over lanes fp32", "1f1b", 1, 2, axes=TENSOR, layout=TWO, experts=4, dtype="fp32"),
    Case(
        "experts and sequence fp32", "1f1b", 1, 2, axes=TENSOR, layout=WITH_SEQUENCE, experts=4, dtype="fp32"
    ),
    Case("experts and sequence", "1f1b", 1, 2, axes=TENSOR, layout=WITH_SEQUENCE, experts=4),
    Case("experts recomputed", "1f1b", 1, 2, experts=2, fields={"recompute": "full"}),
    Case("experts zero 1", "1f1b", 1, 2, experts=2, fields={"zero": 1}),
    Case("tensor in tiles", "1f1b", 1, axes=TENSOR, layout=TWO, fields=BESIDE),
    Case("sequence in tiles", "gpipe", 1, axes=TENSOR, layout=WITH_SEQUENCE, fields=BESIDE),
    Case(
        "sequence in tiles fp32", "gpipe", 1, axes=TENSOR, layout=WITH_SEQUENCE, fields=BESIDE, dtype="fp32"
    ),
    Case(
        "recomputed in tiles",
        "1f1b",
        1,
        axes=TENSOR,
        layout=WITH_SEQUENCE,
        fields={**BESIDE, "recompute": "full"},
    ),
    Case("tensor fp32", "1f1b", 1, axes=TENSOR, layout=TWO, dtype="fp32"),
    Case("sequence fp32", "1f1b", 1, axes=TENSOR, layout=WITH_SEQUENCE, dtype="fp32"),
    Case("zero 1 fp32", "1f1b", 1, 2, fields={"zero": 1}, dtype="fp32"),
    Case("zero 2 fp32", "1f1b", 1, 2, fields={"zero": 2}, dtype="fp32"),
    Case("zero 3 fp32", "1f1b", 1, 2, fields={"zero": 3}, dtype="fp32"),
    Case("pipeline x tensor fp32", "1f1b", 2, axes=TENSOR, layout=TWO, dtype="fp32"),
    Case("hybrid fp32", "1f1b", 1, 4, fields={"zero": 3, "zero_replicas": 2}, microbatches=2, dtype="fp32"),
)
