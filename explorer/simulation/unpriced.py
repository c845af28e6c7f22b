"""Fields of a plan that no prediction takes into account: refused by name, never dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from explorer.cluster import Cluster, DeviceKind
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.strategy import JobStrategy


def unpriced(
    graph: LayerGraph, cluster: Cluster, strategy: JobStrategy, kinds: Iterable[DeviceKind]
) -> Iterator[str]:
    """Yield each input of one job that would change nothing, with the way out; `kinds` are those in use."""
    dispatches = strategy.schedule in SCHEDULES.names() and SCHEDULES.get(strategy.schedule).dispatch
    yield from _layers(graph)
    yield from _devices(kinds, strategy)
    if cluster.events and not dispatches:
        able = ", ".join(item.name for item in SCHEDULES if item.dispatch)
        yield (
            f"cluster {cluster.name!r} has events (the first: device {cluster.events[0].device}"
            f" {cluster.events[0].kind}s), which schedule {strategy.schedule} cannot handle;"
            f" allowed: schedule {able}, or a cluster without events"
        )
    if strategy.checkpoint_period_s < 0:
        yield f"checkpoint_period_s is {strategy.checkpoint_period_s:g}; allowed: 0 for none, or more"
    if strategy.checkpoint_period_s and dispatches:
        yield f"schedule {strategy.schedule} prices no checkpoints; allowed: checkpoint_period_s: 0"
    if dispatches and (zero := max(stage.zero for stage in strategy.stages)):
        yield (
            f"schedule {strategy.schedule} lets replicas leave, so none can keep a part of another's states"
            f" (ZeRO {zero}); allowed: zero: 0"
        )
    for sync in strategy.sync:
        if sync.method == "sharded_table":
            yield (
                f"sync of {', '.join(sync.parameters)} by sharded_table is not priced; use parameter_server"
                " (which sends only the rows that a step touches), or cut the table by a layout of its stage"
            )


def _layers(graph: LayerGraph) -> tuple[str, ...]:
    """Return the fields of layers that no schedule follows."""

    def find() -> tuple[str, ...]:
        late = [layer for layer in graph.layers if layer.release_s]
        return tuple(
            f"layer {layer.name} may start only {layer.release_s:g} s into a step (release_s), which no"
            " schedule waits for; allowed: 0"
            for layer in late[:1]
        )

    return graph.memo("unpriced", find)


def _devices(kinds: Iterable[DeviceKind], strategy: JobStrategy) -> Iterator[str]:
    """Yield the fields of the device kinds in use that change nothing."""
    for kind in {kind.name: kind for kind in kinds}.values():
        if kind.compute_lanes != 1:
            yield (
                f"device kind {kind.name} has {kind.compute_lanes} independent streams of compute"
                " (compute_lanes), of which one is priced; allowed: 1"
            )
        if strategy.checkpoint_period_s > 0 and not kind.host_bandwidth_bytes_per_s:
            yield (
                f"checkpoints (checkpoint_period_s) of {kind.name}, whose bandwidth to its host"
                " (host_bandwidth_bytes_per_s) is not known"
            )
