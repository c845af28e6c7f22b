"""One stage over devices of given compute and links: the cost of its collectives besides work."""

from __future__ import annotations

from typing import Any

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.graph import LayerGraph
from explorer.simulation.simulate import simulate
from explorer.strategy import REPLICA, Mesh, Stage, single
from explorer.tasks.program import F
from explorer.workload import Job, Workload


def devices_of(count: int, flops_per_s: float, bandwidth_bytes_per_s: float) -> Cluster:
    """Return devices whose memory takes no time, on links without latency."""
    kind = DeviceKind(
        name="unit",
        memory_bytes=1e18,
        memory_bandwidth_bytes_per_s=1e30,
        peak_flops_per_s=(("bf16", flops_per_s),),
    )
    wire = Level(
        name="wire", kind="nvlink", scope="all", latency_s=0.0, bandwidth_bytes_per_s=bandwidth_bytes_per_s
    )
    nodes = (NodeGroup(count=1, device_kind="unit", devices_per_node=count),)
    return Cluster(name="box", device_kinds=(kind,), nodes=nodes, levels=(wire,))


def forward_s(graph: LayerGraph, cluster: Cluster, axis: str, **stage: Any) -> tuple[float, float]:
    """Return the seconds of one sample's forward on all devices along an axis, and of its collectives.

    Collectives count only with the seconds that no work hides.
    """
    count = cluster.device_count
    mesh = Mesh(devices=tuple(range(count)), axes=((REPLICA, 1), (axis, count)))
    layers = tuple(layer.name for layer in graph.layers)
    workload = Workload(jobs=(Job(global_batch=1, precision="bf16", optimizer="sgd"),))
    strategy = single(stages=(Stage(layers=layers, meshes=(mesh,), **stage),))
    timeline = simulate(graph, cluster, workload, strategy).timeline
    slot = next(number for number, item in enumerate(timeline.program.slots) if item.kind == F)
    return float(timeline.prices.seconds[slot]), float(timeline.prices.comm_s[slot])
