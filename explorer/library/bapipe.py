"""BaPipe: balance by cutting a layer in two if no cut between layers is even, and three kinds of 1F1B."""

from __future__ import annotations

import math
from dataclasses import replace

from explorer.cluster import Cluster
from explorer.graph import Defaults, Dim, Layer, LayerGraph, Measured, Parameter, Tensor, Use
from explorer.library._ideal import Ideal, free_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.search import Problem, search
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import Mesh, Slice, Stage, Strategy, single
from explorer.workload import Job, Workload

M = 8
P, X = 4, 0.5
"""Positions and seconds of a transfer of the schedules."""


def _variant(name: str) -> Ideal:
    return Ideal(p=P, m=M, schedule="bapipe", transfer_s=X, options={"variant": name})


def _lengthened_s(name: str) -> float:
    """Return the seconds that transfers add to (m + p - 1)(F + B)."""
    return _variant(name).report().makespan_s - (M + P - 1) * 3


def three_layers() -> LayerGraph:
    """Return three layers of 1 s forward and 2 s back; the middle one can be cut along its outputs."""
    second = Measured(forward_s=1.0, input_grad_s=1.0, weight_grad_s=1.0)
    writes = {"before": Use(name="t0"), "middle": Use(name="t1", dims=("out",)), "after": Use(name="t2")}
    reads = {"before": "x", "middle": "t0", "after": "t1"}
    layers = tuple(
        Layer(
            name=name,
            dims=(Dim(name="out", size=8),) if name == "middle" else (),
            reads=(Use(name=reads[name]),),
            writes=(writes[name],),
            parameters=(Use(name=f"{name}.weight", dims=("out",) if name == "middle" else ()),),
            measured=(second,),
        )
        for name in reads
    )
    tensors = (
        Tensor(name="x", shape=(0.0,), dtype="byte", backward=False),
        Tensor(name="t0", shape=(0.0,), dtype="byte"),
        Tensor(name="t1", shape=(8.0,), dtype="byte"),
        Tensor(name="t2", shape=(0.0,), dtype="byte"),
    )
    parameters = tuple(Parameter(name=f"{name}.weight", shape=(8.0,), dtype="fp32") for name in reads)
    return LayerGraph(
        name="three", layers=layers, tensors=tensors, parameters=parameters,
        defaults=Defaults(precision="fp32", optimizer="none"),
    )  # fmt: skip


def _makespan(*, sliced: bool) -> float:
    """Return the seconds of a step of GPipe over two devices, the middle layer cut in halves or not."""
    graph, cluster = three_layers(), free_cluster(2)
    workload = Workload(jobs=(Job(global_batch=M, precision="fp32", optimizer="none"),))
    if not sliced:
        return simulate(graph, cluster, workload, _whole(graph, cluster, workload.job)).makespan_s
    halves = (
        Slice(layer="middle", dim="out", start=0.0, stop=0.5),
        Slice(layer="middle", dim="out", start=0.5, stop=1.0),
    )
    stages = tuple(
        Stage(layers=(name,), slices=(half,), meshes=(Mesh(devices=(device,)),))
        for device, (name, half) in enumerate(zip(("before", "after"), halves, strict=True))
    )
    return simulate(graph, cluster, workload, single(stages=stages, schedule="gpipe")).makespan_s


def _whole(graph: LayerGraph, cluster: Cluster, job: Job) -> Strategy:
    return uniform(graph, cluster, job, stages=2, microbatch_size=1, schedule="gpipe")


def _planned() -> float:
    """Return the seconds of a step of the best plan for them that is found."""
    workload = Workload(jobs=(Job(global_batch=M, precision="fp32", optimizer="none"),))
    problem = Problem(graph=three_layers(), cluster=free_cluster(2), workload=workload)
    best = list(search(problem, "bapipe"))[-1].best
    return best.value if best is not None else math.inf


@SYSTEMS.add(
    System(
        name="bapipe",
        title="Balanced pipelines with layers cut over two stages",
        paper="Zhao et al., BaPipe: Exploration of Balanced Pipeline Parallelism for DNN Training, 2020",
        year=2020,
        uses=Uses(schedules=("bapipe", "gpipe"), searchers=("bapipe",), options=("slices of layers",)),
        missing="in its planner data parallelism, to which it turns where a pipeline does not pay",
        claims=(
            Claim(
                text=f"three equal layers over two devices, the middle one halved: (m + 1) 4.5 s at m = {M}",
                published=(M + 1) * 4.5,
                unit="s",
                measure=lambda: _makespan(sliced=True),
                why="worked out by hand from the mechanism; the paper prints no such case",
            ),
            Claim(
                text="and cut between layers, two against one: 3 + 6 m s",
                published=3 + 6 * M,
                unit="s",
                measure=lambda: _makespan(sliced=False),
                why="worked out by hand from the mechanism; the paper prints no such case",
            ),
            Claim(
                text=f"its planner finds the halves: (m + 1) 4.5 s at m = {M}",
                published=(M + 1) * 4.5,
                unit="s",
                measure=_planned,
                why="worked out by hand from the mechanism; the paper prints no such case",
            ),
            Claim(
                text=f"1F1B-SO hides transfers of x = {X:g} s behind work: 2 (p - 1) x more than"
                f" (m + p - 1)(F + B), p = {P}, m = {M}",
                published=2 * (P - 1) * X,
                unit="s",
                measure=lambda: _lengthened_s("1F1B-SO"),
            ),
            *(
                Claim(
                    text=f"1F1B-SO keeps 2 (p - s) - 1 microbatches on stage s = {s}",
                    published=2 * (P - s) - 1,
                    unit="microbatches",
                    measure=lambda s=s: _variant("1F1B-SO").activations(s),  # type: ignore[misc]
                )
                for s in range(P)
            ),
            Claim(
                text="1F1B-SNO waits for every transfer: 2 (m + p - 2) x more",
                published=2 * (M + P - 2) * X,
                unit="s",
                measure=lambda: _lengthened_s("1F1B-SNO"),
                why="one x less: an activation and a gradient pass each other between two neighbours (in one"
                " send and receive), and once more than the formula takes off; with p = 2, (m + 1) x",
            ),
            *(
                Claim(
                    text=f"1F1B-SNO keeps p - s microbatches on stage s = {s}",
                    published=P - s,
                    unit="microbatches",
                    measure=lambda s=s: _variant("1F1B-SNO").activations(s),  # type: ignore[misc]
                )
                for s in (0, P - 1)
            ),
            Claim(
                text="FBP-AS, a forward and a backward at once, takes as long: (m + p - 1)(F + B)",
                published=(M + P - 1) * 3,
                unit="s",
                measure=lambda: replace(_variant("FBP-AS"), transfer_s=0.0).report().makespan_s,
            ),
            *(
                Claim(
                    text=f"FBP-AS keeps 2 (p - s) microbatches on stage s = {s}, twice those of 1F1B-AS",
                    published=2 * (P - s),
                    unit="microbatches",
                    measure=lambda s=s: _variant("FBP-AS").activations(s),  # type: ignore[misc]
                )
                for s in range(P)
            ),
            Claim(
                text="FBP-AS waits for no transfer, which passes while the devices compute what it brings",
                published=0,
                unit="s",
                measure=lambda: _lengthened_s("FBP-AS"),
                why="the paper's accelerators stream what they compute; here a pair of actions is sent when"
                " it ends: (m + 2 (p - 2)) x",
            ),
            Claim(
                text="1F1B-AS takes (m + p - 1)(F + B) where transfers are free",
                published=(M + P - 1) * 3,
                unit="s",
                measure=lambda: Ideal(p=P, m=M, schedule="bapipe").report().makespan_s,
            ),
        ),
    )
)
def example() -> Example:
    """ResNet-50 over four V100."""
    return Example(
        model="resnet50",
        cluster="dgx-1-v100",
        global_batch=128,
        shape={"stages": 4, "microbatches": 8, "schedule": "bapipe"},
    )
