"""Folding of equal replicas: data-parallel replicas that see equal devices and links run equal timelines.

If every stage splits its microbatches evenly over the same number of replicas and replica r talks
only to replica r, replicas whose devices and routes are alike behave alike; one of each class is
lowered and stands for the others. Collectives still span all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

from explorer.base.caching import Hashed, Same, remembered
from explorer.cluster import Cluster, Path
from explorer.costs.group_tiers import level_groups, span_of
from explorer.pricing.mesh_lines import lines_of
from explorer.strategy import JobStrategy, Mesh, Sharding
from explorer.tasks.skeleton import Flow, SectionShape, Skeleton


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """Which replicas are lowered, and which replicas each stands for."""

    kept: tuple[int, ...] | None
    """Replicas lowered; None for all."""
    classes: dict[int, tuple[int, ...]]
    """Kept replica -> replicas it stands for, itself included; empty without folding."""
    rows: dict[tuple[int, ...], tuple[int, ...]]
    """Devices of a kept row -> devices it stands for."""
    key: tuple[object, ...] = ()
    """What tells foldings of one skeleton apart, hashed once."""

    def stands_for(self, lanes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Return, per lane, all devices it stands for."""
        by_device: dict[int, set[int]] = {}
        for row, devices in self.rows.items():
            for i, device in enumerate(row):
                by_device.setdefault(device, set()).update(devices[i :: len(row)])
        return tuple(
            tuple(sorted({d for device in lane for d in by_device.get(device, {device})})) for lane in lanes
        )


UNFOLDED = Folding(kept=None, classes={}, rows={})


def fold_replicas(cluster: Cluster, skeleton: Skeleton, strategy: JobStrategy) -> Folding:
    """Group the replicas of a strategy into classes of equal ones.

    They are told apart by structure and meshes alone, so a strategy with a layer moved has the same folding.
    """
    if any(sync.servers for sync in strategy.sync):
        return UNFOLDED
    stages = strategy.stages
    meshes, shardings = Same([stage.meshes for stage in stages]), Same([stage.shardings for stage in stages])
    return _fold_same(cluster, skeleton, meshes, shardings)


@remembered(1024)
def _fold_same(
    cluster: Cluster,
    skeleton: Skeleton,
    meshes: Same[tuple[Mesh, ...]],
    shardings: Same[tuple[Sharding, ...]],
) -> Folding:
    others = tuple(tuple(item.meshes for item in found if item.meshes) for found in shardings)
    return _fold(cluster, skeleton, tuple(meshes), others)


@remembered(1024)
def _fold(
    cluster: Cluster,
    skeleton: Skeleton,
    meshes: tuple[tuple[Mesh, ...], ...],
    others: tuple[tuple[tuple[Mesh, ...], ...], ...],
) -> Folding:
    sections = skeleton.sections
    if not _regular(skeleton):
        return UNFOLDED
    inner = tuple(_inner_lines(meshes[section.stage], others[section.stage], section) for section in sections)
    used = _Used(cluster, sections, skeleton.flows, inner)
    classes: dict[tuple[object, ...], list[int]] = {}
    for replica in range(sections[0].replicas):
        classes.setdefault(used.signature(replica), []).append(replica)
    kept = tuple(members[0] for members in classes.values())
    if len(kept) == sections[0].replicas or any(used.crossed(members) for members in classes.values()):
        return UNFOLDED
    by_replica = {members[0]: tuple(members) for members in classes.values()}
    rows = {
        section.rows[0][replica]: tuple(d for r in members for d in section.rows[0][r])
        for replica, members in by_replica.items()
        for section in sections
    }
    return Folding(kept=kept, classes=by_replica, rows=rows, key=Hashed((kept, *by_replica.items())))


def _regular(skeleton: Skeleton) -> bool:
    """Tell whether all stages split evenly over equally many replicas, and no group exchanges in turn."""
    replicas = skeleton.sections[0].replicas
    in_turn = any(group.turn[1] > 1 for group in skeleton.holders)
    return (
        replicas > 1
        and not in_turn
        and all(
            section.replicas == replicas
            and not section.round_robin
            and len(section.rows) == 1
            and len({b - a for a, b in pairwise(section.offsets)}) == 1
            for section in skeleton.sections
        )
    )


InnerLines = tuple[tuple[tuple[int, ...], ...], ...]
"""Per replica of a section: the lines of devices along the axes of its row."""


def _inner_lines(
    meshes: tuple[Mesh, ...], others: tuple[tuple[Mesh, ...], ...], section: SectionShape
) -> InnerLines:
    """Return the inner lines of a section; () if a row is one device, on axes of its own."""
    if len(section.rows[0][0]) == 1 and not others:
        return ()
    along = (meshes[0], *(found[0] for found in others))
    return tuple(
        tuple(line for _, _, lines in lines_of(along, row) for line in lines) for row in section.rows[0]
    )


def _neighbours(
    cluster: Cluster, sections: tuple[SectionShape, ...]
) -> list[dict[int, tuple[tuple[int, int], ...]]]:
    """Count, per level with shared uplinks and for each device, the devices of each section that share its
    uplink.

    Reductions of all these sections meet there.
    """
    found = []
    for depth, level in enumerate(cluster.levels):
        if depth and level.uplink_bytes_per_s:
            unit = level_groups(cluster, depth - 1)
            held: dict[int, Counter[int]] = defaultdict(Counter)
            places = [(i, d) for i, section in enumerate(sections) for row in section.rows[0] for d in row]
            for i, device in places:
                held[int(unit[device])][i] += 1
            alike = {number: tuple(sorted(counts.items())) for number, counts in held.items()}
            found.append({device: alike[int(unit[device])] for _, device in places})
    return found


class _Used:
    """What a replica uses: kinds of devices, routes inside and between rows, and shared resources."""

    def __init__(
        self,
        cluster: Cluster,
        sections: tuple[SectionShape, ...],
        flows: tuple[Flow, ...],
        inner: tuple[InnerLines, ...],
    ) -> None:
        self.cluster, self.sections, self.inner = cluster, sections, inner
        self.pairs = [(flow.source, target) for flow in flows for target in flow.targets]
        self.around = _neighbours(cluster, sections)
        replicas = range(self.sections[0].replicas)
        self.paths = [[self._paths(replica, *pair) for pair in self.pairs] for replica in replicas]
        self.users: dict[str, Counter[int]] = defaultdict(Counter)
        for by_pair in self.paths:
            for number, paths in enumerate(by_pair):
                for name in {name for path in paths for name, _ in path.resources}:
                    self.users[name][number] += 1

    def _paths(self, replica: int, source: int, target: int) -> list[Path]:
        ours, theirs = self.sections[source].rows[0][replica], self.sections[target].rows[0][replica]
        return [
            self.cluster.path(ours[i % len(ours)], theirs[i % len(theirs)])
            for i in range(max(len(ours), len(theirs)))
        ]

    def signature(self, replica: int) -> tuple[object, ...]:
        """Return the kinds and routes a replica uses, and how many replicas share them, without names of
        devices.
        """
        rows = [section.rows[0][replica] for section in self.sections]
        kinds = tuple(self.cluster.kind_of(device).name for row in rows for device in row)
        spans = tuple(
            span_of(self.cluster, line).tiers for lines in self.inner if lines for line in lines[replica]
        )
        around = tuple(counts[device] for counts in self.around for row in rows for device in row)
        routes = tuple(
            (path.kind, path.latency_s, path.bandwidth_bytes_per_s, self._sharing(path))
            for paths in self.paths[replica]
            for path in paths
        )
        return (kinds, routes, spans, around, self._shards(replica))

    def _shards(self, replica: int) -> tuple[object, ...]:
        """Return what lies between the devices with which a replica shares its weights, if there are
        groups.
        """
        found = []
        for section in self.sections:
            if section.zero and section.shards < section.replicas:
                first = section.shard_group(0, replica) * section.shards
                rows = section.rows[0][first : first + section.shards]
                found += [span_of(self.cluster, line).tiers for line in zip(*rows, strict=True)]
        return tuple(found)

    def _sharing(self, path: Path) -> tuple[object, ...]:
        return tuple((room, tuple(sorted(self.users[name].items()))) for name, room in path.resources)

    def crossed(self, members: list[int]) -> bool:
        """Tell whether a class member shares, in some flow of the first, a resource that the first does not
        use in it.
        """
        first, own = self.paths[members[0]], set(members)
        mine = {name for paths in first for path in paths for name, _ in path.resources}
        for number, paths in enumerate(first):
            here = {name for path in paths for name, _ in path.resources}
            others = {
                name
                for replica in own
                for path in self.paths[replica][number]
                for name, _ in path.resources
                if name in mine
            }
            if others - here:
                return True
        return False
