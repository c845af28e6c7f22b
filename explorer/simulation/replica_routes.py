"""What replicas use, device by device: replicas with equal signatures meet equal devices and links."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from explorer.cluster import Cluster, Path
from explorer.costs.group_tiers import level_groups, span_of
from explorer.tasks.skeleton import Flow, SectionShape

InnerLines = tuple[tuple[tuple[int, ...], ...], ...]
"""Per replica of a section: the lines of devices along the axes of its row; () if it has none."""


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


class Used:
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

    def classes(self) -> list[list[int]]:
        """Return the classes of equal replicas, each ascending, by their first."""
        found: dict[tuple[object, ...], list[int]] = {}
        for replica in range(self.sections[0].replicas):
            found.setdefault(self.signature(replica), []).append(replica)
        return list(found.values())

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

    def crossed(self, members: Sequence[int]) -> bool:
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
