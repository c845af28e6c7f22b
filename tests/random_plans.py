"""Random small plans for property tests: graphs, clusters and strategies that are legal by construction."""

from __future__ import annotations

import math
from typing import NamedTuple

from hypothesis import strategies as st

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.graph import LayerGraph
from explorer.models.synthetic import branches, chain
from explorer.strategy import REPLICA, JobStrategy, Mesh, Stage, Strategy, Sync, single
from explorer.workload import Job, Workload

DEVICES = 12

seconds = st.sampled_from([0.0, 0.1, 0.25, 0.7, 1.0, 1.3, 3.0])
sizes = st.sampled_from([0.0, 1.0, 7.0, 40.0])


class Case(NamedTuple):
    """All that `simulate` takes."""

    graph: LayerGraph
    cluster: Cluster
    workload: Workload
    strategy: Strategy


def cluster_of(levels: tuple[Level, ...], *, per_node: int = 4, memory_bytes: float = 1e9) -> Cluster:
    kind = DeviceKind(
        name="unit",
        memory_bytes=memory_bytes,
        memory_bandwidth_bytes_per_s=1e9,
        peak_flops_per_s=(("fp32", 1e9),),
    )
    nodes = (NodeGroup(count=DEVICES // per_node, device_kind="unit", devices_per_node=per_node),)
    return Cluster(name="random", device_kinds=(kind,), nodes=nodes, levels=levels)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Nodes of four; the network, and inside of nodes each device, may be shared."""
    total = draw(st.sampled_from([0.0, 60.0]))
    uplink = draw(st.sampled_from([0.0, 25.0, 50.0]))
    latency = draw(st.sampled_from([0.0, 0.01]))
    inner = Level(
        name="inner",
        kind="nvlink",
        scope="node",
        latency_s=latency,
        bandwidth_bytes_per_s=50.0,
        device_bytes_per_s=total,
    )
    outer = Level(
        name="outer",
        kind="ethernet",
        scope="all",
        latency_s=2 * latency,
        bandwidth_bytes_per_s=20.0,
        uplink_bytes_per_s=uplink,
    )
    return cluster_of((inner, outer))


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> LayerGraph:
    if draw(st.booleans()):
        lengths = draw(st.lists(st.integers(1, 2), min_size=2, max_size=2))
        return branches(
            lengths,
            forward_s=draw(seconds),
            backward_s=draw(seconds),
            activation_bytes=draw(sizes),
            parameter_bytes=draw(sizes),
            skip=draw(st.booleans()),
        )
    count = draw(st.integers(2, most))
    each = st.lists(seconds, min_size=count, max_size=count)
    return chain(
        draw(each),
        backward_s=draw(each),
        activation_bytes=draw(st.lists(sizes, min_size=count, max_size=count)),
        parameter_bytes=draw(sizes),
        saved_bytes=1.0,
    )


@st.composite
def cuts(draw: st.DrawFn, layers: int, stages: int) -> list[int]:
    """First layers of all stages, and the end."""
    inner = draw(st.lists(st.integers(1, layers - 1), min_size=stages - 1, max_size=stages - 1, unique=True))
    return [0, *sorted(inner), layers]


@st.composite
def even_cases(draw: st.DrawFn, schedule: str) -> Case:
    """Equal replicas and microbatches on every stage; what every schedule on a line can order."""
    graph = draw(graphs())
    p = draw(st.integers(1, min(4, len(graph.layers))))
    d = draw(st.integers(1, DEVICES // p if p > 1 else 4))
    m = draw(st.integers(p, p + 3))
    size = d * draw(st.integers(1, 2))
    bounds = draw(cuts(len(graph.layers), p))
    names = [layer.name for layer in graph.layers]
    stages = tuple(
        Stage(
            layers=tuple(names[bounds[i] : bounds[i + 1]]),
            meshes=(Mesh(devices=tuple(range(i * d, i * d + d))),),
            microbatch_samples=size,
            zero=draw(st.sampled_from([0, 0, 1, 3])),
            zero_replicas=draw(st.sampled_from([k for k in range(d + 1) if not k or not d % k])),
            recompute=draw(st.sampled_from(["none", "none", "full"])),
        )
        for i in range(p)
    )
    return _case(draw, graph, stages, schedule, m * size)


@st.composite
def uneven_cases(draw: st.DrawFn) -> Case:
    """Stages with replicas, ways of dividing and microbatch sizes of their own, some on shared devices."""
    graph = draw(graphs())
    p = draw(st.integers(1, min(4, len(graph.layers))))
    bounds = draw(cuts(len(graph.layers), p))
    names = [layer.name for layer in graph.layers]
    batch = 12
    stages = []
    first = 0
    for i in range(p):
        replicas = draw(st.integers(1, 3))
        turns = replicas > 1 and draw(st.booleans())
        allowed = [
            size
            for size in (1, 2, 3, 4, 6)
            if (size >= replicas if not turns else (batch // size) % replicas == 0)
        ]
        shares = draw(st.sampled_from([(), tuple(range(1, replicas + 1))]))
        if i and draw(st.booleans()):
            first = max(0, first - replicas)  # a second stage on devices that already hold one
        stages.append(
            Stage(
                layers=tuple(names[bounds[i] : bounds[i + 1]]),
                meshes=(Mesh(devices=tuple(range(first, first + replicas)), axes=((REPLICA, replicas),)),),
                microbatch_samples=draw(st.sampled_from(allowed)),
                replicas="round_robin" if turns else "split",
                shares=() if turns else shares,
            )
        )
        first += replicas
    return _case(draw, graph, tuple(stages), draw(st.sampled_from(["gpipe", "1f1b"])), batch)


def _case(draw: st.DrawFn, graph: LayerGraph, stages: tuple[Stage, ...], schedule: str, batch: int) -> Case:
    job = Job(global_batch=batch, precision="fp32", optimizer=draw(st.sampled_from(["none", "sgd"])))
    return Case(
        graph=graph,
        cluster=draw(clusters()),
        workload=Workload(jobs=(job,)),
        strategy=single(
            stages=stages,
            schedule=schedule,
            sync=(Sync(parameters=("*",), bucket_bytes=draw(st.sampled_from([0.5, 3.0]))),)
            if draw(st.booleans()) and any(item.trainable for item in graph.parameters)
            else (),
        ),
    )


def pipeline(
    forward_s: list[float],
    backward_s: list[float],
    *,
    microbatches: int,
    schedule: str = "1f1b",
    replicas: int = 1,
    parameter_bytes: float = 0.0,
    bandwidth: float = 1e30,
    optimizer: str = "none",
    chunks: int = 1,
    **stage: object,
) -> Case:
    """One layer a stage on a line (or looped) of devices with free wires, one sample a replica."""
    graph = chain(forward_s, backward_s=backward_s, parameter_bytes=parameter_bytes, saved_bytes=1.0)
    level = Level(name="wire", kind="nvlink", scope="all", latency_s=0.0, bandwidth_bytes_per_s=bandwidth)
    devices = len(forward_s) // chunks
    stages = tuple(
        Stage(
            layers=(layer.name,),
            meshes=(Mesh(devices=tuple(range(i % devices * replicas, i % devices * replicas + replicas))),),
            microbatch_samples=replicas,
            **stage,  # type: ignore[arg-type]
        )
        for i, layer in enumerate(graph.layers)
    )
    job = Job(global_batch=microbatches * replicas, precision="fp32", optimizer=optimizer)
    return Case(
        graph=graph,
        cluster=cluster_of((level,)),
        workload=Workload(jobs=(job,)),
        strategy=single(stages=stages, schedule=schedule),
    )


def job_of(case: Case) -> JobStrategy:
    return case.strategy.job


def total_seconds(graph: LayerGraph) -> float:
    return math.fsum(m.forward_s + m.input_grad_s + m.weight_grad_s for i in graph.layers for m in i.measured)
