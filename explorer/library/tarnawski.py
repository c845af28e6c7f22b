"""Tarnawski et al.: max-load of splits, contiguous (over all ideals, over one linear order) or not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from explorer.cluster import Cluster
from explorer.graph import Defaults, Layer, LayerGraph, Measured, Tensor, Use
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models._host import ACCELERATOR, CPU, host_cluster
from explorer.planners.tarnawski import PAPER
from explorer.search import Problem, search
from explorer.workload import default_workload

BY_HAND = "worked out by hand from the definition of the load (section 3)"
GIB = 2.0**30


def _graph(
    seconds: Mapping[str, float], reads: Mapping[str, tuple[str, ...]], sent_bytes: float
) -> LayerGraph:
    """Return layers of given seconds; a CPU takes ten times as long."""
    layers = tuple(
        Layer(
            name=name,
            reads=tuple(Use(name=item) for item in reads.get(name, ())),
            writes=(Use(name=name),),
            measured=tuple(
                Measured(forward_s=factor * own, input_grad_s=0.0, weight_grad_s=0.0, device_kind=kind)
                for kind, factor in ((ACCELERATOR, 1.0), (CPU, 10.0))
            ),
        )
        for name, own in seconds.items()
    )
    tensors = tuple(Tensor(name=name, shape=(sent_bytes,), dtype="byte") for name in seconds)
    defaults = Defaults(precision="fp32", optimizer="none")
    return LayerGraph(name="splits", layers=layers, tensors=tensors, defaults=defaults)


def _devices(accelerators: int, cpus: int = 0) -> Cluster:
    return host_cluster("host", accelerators, cpus, accelerator_bytes=0.0, rate=GIB)


CHAIN = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 3.0}
IN_LINE = {"b": ("a",), "c": ("b",), "d": ("c",)}
FORK = {"a": 1.0, "b": 2.0, "c": 1.0, "d": 1.0, "e": 3.0}
BRANCHES = {"b": ("a",), "c": ("b",), "d": ("a",), "e": ("d",)}


ENDS = {"a": 1.0, "b": 2.0, "c": 1.0}


@cache
def _planned(case: str, searcher: str = "tarnawski") -> float:
    """Return the max-load in seconds of a case."""
    graph, cluster = {
        "chain": (_graph(CHAIN, IN_LINE, 0.0), _devices(2)),
        "sent": (_graph(CHAIN, IN_LINE, 0.5 * GIB), _devices(2)),
        "host": (_graph(CHAIN, IN_LINE, 0.5 * GIB), _devices(1, 1)),
        "ends": (_graph(ENDS, {"b": ("a",), "c": ("b",)}, 0.0), _devices(2)),
        "fork": (_graph(FORK, BRANCHES, 0.0), _devices(3)),
    }[case]
    problem = Problem(graph=graph, cluster=cluster, workload=default_workload(graph))
    *_, last = search(problem, searcher, options={"cost_model": "original"})
    return last.foreign_value or 0.0


@SYSTEMS.add(
    System(
        name="tarnawski",
        title="Device placement by max-load: programs over ideals, over one order, and an integer program",
        paper=PAPER,
        year=2020,
        uses=Uses(
            searchers=("tarnawski", "tarnawski_linear", "tarnawski_ip"),
            options=("stage DAG", "several device kinds"),
        ),
        missing="its integer program for the latency of one sample",
        claims=(
            Claim(
                text="a chain of 3, 1, 2 and 3 s on two accelerators, nothing sent: 4 s and 5 s",
                published=5,
                unit="s",
                measure=lambda: _planned("chain"),
                why=BY_HAND,
            ),
            Claim(
                text="half a second to send each output: it counts on both sides",
                published=5.5,
                unit="s",
                measure=lambda: _planned("sent"),
                why=BY_HAND,
            ),
            Claim(
                text="one accelerator, and a CPU ten times as slow: all stays on the accelerator",
                published=9,
                unit="s",
                measure=lambda: _planned("host"),
                why=BY_HAND,
            ),
            Claim(
                text="a before b - c and d - e (1, 2, 1, 1 and 3 s), three accelerators: {a, b}, {c, d}, {e}",
                published=3,
                unit="s",
                measure=lambda: _planned("fork"),
                why=BY_HAND,
            ),
            Claim(
                text="the same over one order: no less",
                published=3,
                unit="s",
                measure=lambda: _planned("fork", "tarnawski_linear"),
                why=BY_HAND,
            ),
            Claim(
                text="a chain of 1, 2 and 1 s on two accelerators, contiguous",
                published=3,
                unit="s",
                measure=lambda: _planned("ends"),
                why=BY_HAND,
            ),
            Claim(
                text="the same by the integer program, whose splits need not be: the ends share a device",
                published=2,
                unit="s",
                measure=lambda: _planned("ends", "tarnawski_ip"),
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """BERT large in four stages of two V100 each, as the program splits it over eight."""
    return Example(
        model="bert-large",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 4, "replicas": 2, "microbatches": 8},
    )
