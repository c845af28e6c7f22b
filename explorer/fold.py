"""Folding equal replicas: data-parallel replicas that see equal devices and links run equal timelines.

Where every stage splits its microbatches evenly over the same number of replicas and replica r talks
only to replica r, replicas whose devices and routes are alike behave alike; one of each class is
lowered and stands for the others. Collectives still span all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.cluster import Cluster
from explorer.strategy import JobStrategy
from explorer.tasks.placement import Skeleton


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """Which replicas are lowered, and whom each stands for."""

    kept: tuple[int, ...] | None
    """Replicas lowered; None for all."""
    classes: dict[int, tuple[int, ...]]
    """Kept replica -> replicas it stands for, itself included; empty without folding."""
    rows: dict[tuple[int, ...], tuple[int, ...]]
    """Devices of a kept row -> devices it stands for."""

    def stands_for(self, lanes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Per lane: all devices it stands for."""
        by_device: dict[int, set[int]] = {}
        for row, devices in self.rows.items():
            for i, device in enumerate(row):
                by_device.setdefault(device, set()).update(devices[i :: len(row)])
        return tuple(
            tuple(sorted({d for device in lane for d in by_device.get(device, {device})})) for lane in lanes
        )


UNFOLDED = Folding(kept=None, classes={}, rows={})


def fold_replicas(cluster: Cluster, skeleton: Skeleton, strategy: JobStrategy) -> Folding:
    """Group the replicas of a strategy into classes of equal ones."""
    sections = skeleton.sections
    replicas = sections[0].replicas
    regular = replicas > 1 and all(
        section.replicas == replicas
        and not section.round_robin
        and len(section.rows) == 1
        and len({b - a for a, b in zip(section.offsets, section.offsets[1:], strict=False)}) == 1
        for section in sections
    )
    if not regular or any(sync.servers for sync in strategy.sync):
        return UNFOLDED
    return cluster.memo(("fold", skeleton.sections, skeleton.flows), lambda: _fold(cluster, skeleton))


def _fold(cluster: Cluster, skeleton: Skeleton) -> Folding:
    sections = skeleton.sections
    classes: dict[tuple[object, ...], list[int]] = {}
    for replica in range(sections[0].replicas):
        classes.setdefault(_signature(cluster, skeleton, replica), []).append(replica)
    kept = tuple(members[0] for members in classes.values())
    if len(kept) == sections[0].replicas:
        return UNFOLDED
    by_replica = {members[0]: tuple(members) for members in classes.values()}
    rows = {
        section.rows[0][replica]: tuple(d for r in members for d in section.rows[0][r])
        for replica, members in by_replica.items()
        for section in sections
    }
    return Folding(kept=kept, classes=by_replica, rows=rows)


def _signature(cluster: Cluster, skeleton: Skeleton, replica: int) -> tuple[object, ...]:
    """Device kinds and route kinds a replica meets, without names of devices."""
    sections = skeleton.sections
    kinds = tuple(cluster.kind_of(device).name for section in sections for device in section.rows[0][replica])
    routes = []
    for flow in skeleton.flows:
        source = sections[flow.source].rows[0][replica]
        for target in flow.targets:
            row = sections[target].rows[0][replica]
            for i in range(max(len(source), len(row))):
                path = cluster.path(source[i % len(source)], row[i % len(row)])
                routes.append((path.kind, path.latency_s, path.bandwidth_bytes_per_s, len(path.resources)))
    return (kinds, tuple(routes))
