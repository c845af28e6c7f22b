"""SWARM: peers that come and go take whatever microbatch is ready."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from explorer.cluster import Cluster, Event
from explorer.graph import LayerGraph
from explorer.library._ideal import free_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.synthetic import chain
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.cuts import balanced_cuts
from explorer.strategy import ROUND_ROBIN, Mesh, Stage, Strategy, single
from explorer.workload import Job, Workload

PEERS = (3, 4)
"""Peers of the first and of the second stage, each of one sample a second."""


@cache
def _swarm(*, leaves: bool) -> Report:
    graph = chain([0.25, 0.25], backward_s=0.75)
    first, second = PEERS
    events = (Event(time_s=1000.0, device=first - 1, kind="leave"),) if leaves else ()
    stages = tuple(
        Stage(layers=(f"layers.{i}",), meshes=(Mesh(devices=devices),), replicas=ROUND_ROBIN)
        for i, devices in enumerate((tuple(range(first)), tuple(range(first, first + second))))
    )
    workload = Workload(jobs=(Job(global_batch=100, precision="fp32", optimizer="none"),))
    cluster = replace(free_cluster(first + second), events=events)
    return simulate(graph, cluster, workload, single(stages=stages, schedule="swarm"))


def _peers(graph: LayerGraph, cluster: Cluster, job: Job) -> Strategy:
    """Return the model in two halves, each on half of the devices as peers."""
    (cut,) = balanced_cuts(graph, 2)
    names = [layer.name for layer in graph.layers]
    half = cluster.device_count // 2
    stages = tuple(
        Stage(
            layers=tuple(part),
            meshes=(Mesh(devices=tuple(range(first, first + half))),),
            replicas=ROUND_ROBIN,
        )
        for part, first in ((names[:cut], 0), (names[cut:], half))
    )
    return single(stages=stages, schedule="swarm", job=job.name)


@SYSTEMS.add(
    System(
        name="swarm",
        title="Stochastic wiring of unreliable peers",
        paper="Ryabinin et al., SWARM Parallelism: Training Large Models Can Be Surprisingly"
        " Communication-Efficient, ICML 2023",
        year=2023,
        uses=Uses(schedules=("swarm",), options=("events of a cluster",)),
        missing="rebalancing of peers, 8-bit activations",
        claims=(
            Claim(
                text=f"throughput is that of the slowest stage: {PEERS[0]} peers of 1 sample/s beside"
                f" {PEERS[1]}",
                published=PEERS[0],
                unit="samples/s",
                measure=lambda: _swarm(leaves=False).throughput_samples_per_s,
                within=0.01,
                why="worked out by hand; filling and draining count",
            ),
            Claim(
                text="after a peer of that stage has left, of the peers that stay",
                published=PEERS[0] - 1,
                unit="samples/s",
                measure=lambda: _swarm(leaves=True).throughput_samples_per_s,
                within=0.01,
                why="worked out by hand; filling and draining count",
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 small over eight V100 as peers of two stages."""
    return Example(model="gpt2-small", cluster="dgx-1-v100", global_batch=64, divide=_peers)
