"""TAPAS: tensor parallel strategies found once for all blocks that are alike."""

from __future__ import annotations

import math
from functools import cache

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.builder import GraphBuilder, Value
from explorer.models.gpt import feed_forward_half
from explorer.planners._pieces.choice_graph import ChoiceGraph
from explorer.planners._pieces.folding import folded
from explorer.planners._pieces.layer_meshes import LayerMesh, layer_mesh
from explorer.planners._pieces.vertex_order import vertex_order
from explorer.planners.pase import least_total
from explorer.search import Problem
from explorer.workload import Job, Workload

FEW, MANY, DEVICES = 3, 12, 4


def _blocks(count: int) -> LayerGraph:
    """Return feed-forward blocks, each added to what it reads."""
    b = GraphBuilder(f"{count} blocks")
    x: Value = b.input("x", {"seq": 64, "embed": 512})
    for i in range(count):
        with b.block(f"layers.{i}"):
            x = b.add("add", feed_forward_half(b, b.norm("norm", x)), x)
    b.norm("norm", x)
    return b.build()


@cache
def _mesh(count: int) -> LayerMesh:
    """Return the costs of one sample over four devices."""
    job = Job(global_batch=1, precision="fp32", optimizer="sgd")
    problem = Problem(
        graph=_blocks(count), cluster=load_cluster("dgx-a100"), workload=Workload(jobs=(job,)),
        max_devices=DEVICES,
    )  # fmt: skip
    return layer_mesh(problem, (("inner", DEVICES),), 1)


def _least(costs: ChoiceGraph) -> tuple[float, tuple[int, ...]]:
    *_, found = least_total(costs)
    return (found.seconds, found.chosen) if found is not None else (math.inf, ())


def _entries(costs: ChoiceGraph) -> int:
    """Return the entries of all tables of the program over vertices."""
    sizes = [len(own) for own in costs.seconds]
    order = vertex_order(sizes, costs.edges)
    return sum(sizes[v] * math.prod(sizes[u] for u in dependent) for v, dependent in order)


def _growth() -> float:
    """Return how many times as many entries many blocks have as few, folded."""
    return _entries(folded(_mesh(MANY).costs).costs) / _entries(folded(_mesh(FEW).costs).costs)


def _over_unfolded() -> float:
    """Return by what share the folded plan of many blocks takes longer than the best of all plans."""
    costs = _mesh(MANY).costs
    return _least(folded(costs).costs)[0] / _least(costs)[0] - 1.0


def _columns_and_rows() -> int:
    """Return how many matrix products of many blocks are split over the hidden units of their block."""
    mesh = _mesh(MANY)
    whole = folded(mesh.costs)
    chosen = whole.spread(_least(whole.costs)[1])
    layers = mesh.table.layers.lane.graph.layers
    return sum(
        any(dim == "ffn" for dim, _ in mesh.choices[int(mesh.options[i][k])].layout)
        for i, k in enumerate(chosen)
        if layers[i].kind == "matmul"
    )


@SYSTEMS.add(
    System(
        name="tapas",
        title="Tensor parallel strategies of unique blocks, for all that are alike",
        paper="Shi et al., TAPAS: Fast and Automatic Derivation of Tensor Parallel Strategies for Large"
        " Neural Networks, 2023",
        year=2023,
        uses=Uses(searchers=("tapas",), options=("layouts by layer",)),
        claims=(
            Claim(
                text=f"searching {MANY} blocks takes as many entries of tables as {FEW}",
                published=1,
                unit="",
                measure=_growth,
                why="the paper: search time sub-linear in depth; here counted, not timed",
            ),
            Claim(
                text=f"the plan of {MANY} folded blocks takes no longer than the best of all plans",
                published=0,
                unit="",
                measure=lambda: round(_over_unfolded(), 9),
                why="the paper: strategies comparable or better than others'; here against every plan",
            ),
            Claim(
                text=f"one sample on {DEVICES} devices: both products of every block split over its hidden"
                " units, by columns and by rows, as Megatron-LM does by hand",
                published=2 * MANY,
                unit="products",
                measure=_columns_and_rows,
                why="worked out by hand: any other plan gathers weights or repeats work",
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium on four A100 of a node, heads and feed-forward split over all of them."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-a100",
        global_batch=32,
        shape={"tensor": 4, "replicas": 2, "microbatch_size": 4},
    )
