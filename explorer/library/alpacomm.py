"""AlpaComm: tensors from one mesh to another by pipelined broadcasts."""

from __future__ import annotations

from dataclasses import replace

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.graph import LayerGraph
from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.pricing.routes import WHOLE, Route, lane_route
from explorer.pricing.stage_transfers import broadcast_route
from explorer.pricing.unit_transfers import balanced, in_turn
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.workload import Job

RECEIVERS, SIZE = 4, 1e9
P, M, F, B = 4, 16, 1.0, 2.0
FAST, SLOW = 100e9, 10e9
TWICE_HELD = tuple(tuple({owner: 1.0, receiver: 1.0} for owner in "ab") for receiver in "xy")
"""Unit transfers of a second: per slice and host that has it, the ports that it occupies."""
CROSSED = (({"b": 1.0, "x": 1.0},), ({"a": 1.0, "x": 1.0},), ({"a": 1.0, "y": 1.0},))
"""The same of slices that one host has each."""


def _nodes() -> Cluster:
    """Return two nodes of eight devices, a network card for each."""
    kind = DeviceKind(
        name="box",
        memory_bytes=1,
        memory_bandwidth_bytes_per_s=1,
        peak_flops_per_s=(("fp32", 1.0),),
    )
    levels = tuple(
        Level(
            name=name, kind=link, scope=scope, latency_s=0.0, bandwidth_bytes_per_s=speed,
            device_bytes_per_s=speed,
        )
        for name, link, scope, speed in (("in", "nvlink", "node", FAST), ("out", "infiniband", "all", SLOW))
    )  # fmt: skip
    nodes = (NodeGroup(count=2, device_kind="box", devices_per_node=8),)
    return Cluster(name="two nodes", device_kinds=(kind,), nodes=nodes, levels=levels)


def _over_one_copy(*, broadcast: bool) -> float:
    """Return how many times one copy takes to bring a tensor from a device to several of another node."""
    cluster, source, target = _nodes(), (0,), tuple(range(8, 8 + RECEIVERS))
    route: Route = (
        broadcast_route(cluster, source, target, WHOLE) if broadcast else lane_route(cluster, source, target)
    )
    return route.seconds_per_byte * SLOW


def _eager(transfer_s: float) -> Ideal:
    return Ideal(p=P, m=M, schedule="eager_1f1b", forward_s=F, backward_s=B, transfer_s=transfer_s)


def _stages(graph: LayerGraph, cluster: Cluster, job: Job) -> Strategy:
    """Return two stages whose tensors cross in the fastest way."""
    found = uniform(graph, cluster, job, stages=2, tensor=4, microbatches=8, schedule="eager_1f1b")
    return found.with_job(replace(found.job, transfers="best"))


@SYSTEMS.add(
    System(
        name="alpacomm",
        title="Cross-mesh resharding by pipelined broadcast, hidden by eager 1F1B",
        paper="Zhuang et al., On Optimizing the Communication of Model Parallelism, MLSys 2023",
        year=2022,
        uses=Uses(schedules=("eager_1f1b",), options=("transfers: broadcast, gather, ordered, best",)),
        claims=(
            Claim(
                text=f"to {RECEIVERS} devices of another node by send and receive: as many copies cross",
                published=RECEIVERS,
                unit="copies",
                measure=lambda: _over_one_copy(broadcast=False),
            ),
            Claim(
                text="by pipelined broadcast in many chunks: one copy crosses",
                published=1,
                unit="copies",
                measure=lambda: _over_one_copy(broadcast=True),
            ),
            *(
                Claim(
                    text=f"{words}: {what}",
                    published=published,
                    unit="slices",
                    measure=lambda ordered=ordered, units=units: ordered(units).makespan_s,  # type: ignore[misc]
                    why="worked out from the mechanism; the paper measures it on its own meshes",
                )
                for words, units, first, least in (
                    ("two slices, each on two hosts and for one of two others", TWICE_HELD, 2, 1),
                    ("a slice of b for x, one of a for x, one of a for y", CROSSED, 3, 2),
                )
                for what, ordered, published in (
                    ("as they come, by the first that has each", in_turn, first),
                    ("in a balanced order", balanced, least),
                )
            ),
            Claim(
                text=f"eager 1F1B idles (p - 1)(F + B) where transfers are free, as 1F1B, at p = {P}",
                published=(P - 1) * (F + B),
                unit="s",
                measure=lambda: _eager(0.0).idle_s(),
            ),
            *(
                Claim(
                    text=f"stage {s} of {P} keeps 2 (p - s) - 1 microbatches at most",
                    published=2 * (P - s) - 1,
                    unit="microbatches",
                    measure=lambda s=s: _eager(0.0).activations(s),  # type: ignore[misc]
                )
                for s in (0, P - 1)
            ),
            Claim(
                text="transfers of up to (F + B)/2 cost the way there and back once, 2 (p - 1) x, whatever m",
                published=2 * (P - 1) * F,
                unit="s",
                measure=lambda: _eager(F).report().makespan_s - _eager(0.0).report().makespan_s,
                why="worked out from the mechanism; the paper measures it on its own models",
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium in two stages of four A100 each."""
    return Example(model="gpt2-medium", cluster="dgx-a100", global_batch=32, divide=_stages)
