"""Mesh-TensorFlow: named dimensions of tensors, split over named dimensions of a mesh of processors."""

from __future__ import annotations

import itertools

from explorer.cluster_profiles import load_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.builder import GraphBuilder
from explorer.planners._pieces.layer_meshes import layer_mesh
from explorer.planners.mesh_tensorflow import LayoutRules, best_layout
from explorer.search import Problem
from explorer.sharding import shard
from explorer.sharding.reshard import wire_factor
from explorer.workload import Job, Workload

HIDDEN, FFN, K = 1024, 4096, 4


def _all_reduced(layout: tuple[tuple[str, str], ...]) -> float:
    """Return the elements per sample a device sends for two products forward, by ring all-reduces."""
    b = GraphBuilder("feed-forward")
    x = b.input("x", {"embed": HIDDEN})
    y = b.linear("down", b.linear("up", x, {"ffn": FFN}), {"embed": HIDDEN}, over=("ffn",))
    b.norm("norm", y, bias=False)  # reads all of the result
    found = shard(b.build(), ("up", "down", "norm"), layout=layout, sizes={"model": K})
    return sum(wire_factor(item.op, K) * item.elements_per_sample for item in found.forward)


def _over_the_least() -> float:
    """Return by what share the layout found on a mesh of 2 x 2 takes longer than the best of all maps."""
    b = GraphBuilder("feed-forward")
    x = b.input("x", {"embed": HIDDEN})
    b.linear("down", b.linear("up", x, {"ffn": FFN}), {"embed": HIDDEN}, over=("ffn",))
    workload = Workload(jobs=(Job(global_batch=8, precision="fp32", optimizer="sgd"),))
    problem = Problem(graph=b.build(), cluster=load_cluster("dgx-a100"), workload=workload, max_devices=4)
    costs = LayoutRules(problem, layer_mesh(problem, (("outer", 2), ("inner", 2)), 8)).costs()
    maps = itertools.product((None, 0, 1), repeat=len(costs.names))
    every = [
        costs.total_s(
            tuple((name, axis) for name, axis in zip(costs.names, way, strict=True) if axis is not None)
        )
        for way in maps
    ]
    found = costs.total_s(best_layout(costs)) or 0.0
    return found / min(seconds for seconds in every if seconds is not None) - 1.0


@SYSTEMS.add(
    System(
        name="mesh_tensorflow",
        title="Layouts of named dimensions",
        paper="Shazeer et al., Mesh-TensorFlow: Deep Learning for Supercomputers, NeurIPS 2018",
        year=2018,
        uses=Uses(searchers=("mesh_tensorflow",), options=("named-dimension layouts",)),
        claims=(
            Claim(
                text=f"ffn split over k = {K}: the output is all-reduced, 2 (k - 1)/k of it sent by a device",
                published=2 * (K - 1) / K * HIDDEN,
                unit="elements per sample",
                measure=lambda: _all_reduced((("ffn", "model"),)),
            ),
            Claim(
                text="nothing mapped: nothing is sent",
                published=0,
                unit="elements per sample",
                measure=lambda: _all_reduced(()),
            ),
            Claim(
                text="no legal map of names to a mesh of 2 x 2 takes less than the integer program's",
                published=0,
                unit="",
                measure=lambda: round(_over_the_least(), 9),
                why="the paper's authors choose by hand; their library minimises memory by such a program",
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium, heads and feed-forward split over four A100."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-a100",
        global_batch=32,
        shape={"tensor": 4, "replicas": 2, "microbatch_size": 4},
    )
