"""What replicas use, as numbers: replicas with equal rows of them meet equal devices and links.

The same that `Used` (`explorer.simulation.replica_routes`) says device by device, for clusters that levels
alone describe. What several sections on the same rows use alike, as chunks of one position do, counts once. A
group of devices is known by which of its devices share a unit of each level, and by the
sizes of these units; a route by the level that joins its ends and by who else uses its ports and uplinks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from explorer.cluster import Cluster
from explorer.costs.group_tiers import alike_groups, level_groups, numbered_rows, span_of
from explorer.tasks.skeleton import Flow, IntArray, SectionShape

LineArrays = tuple[IntArray, ...]
"""Lines of devices along the axes of a section's rows: (replicas, lines, devices) of each size."""
_ENDS = 4
"""Resources of a route: the ports of its two ends, then their uplinks."""


class UsedArrays:
    """What each replica uses: kinds of devices, groups and routes.

    Args:
        cluster: devices and links; without links of its own between pairs.
        sections: the sections, each with one row for each replica.
        flows: what goes between them.
        inner: per section the lines of its rows.
    """

    def __init__(
        self,
        cluster: Cluster,
        sections: tuple[SectionShape, ...],
        flows: tuple[Flow, ...],
        inner: tuple[LineArrays, ...],
    ) -> None:
        self.cluster = cluster
        self.groups = [level_groups(cluster, depth) for depth in range(len(cluster.levels))]
        different = {id(section.rows[0]): section.rows[0] for section in sections}
        known = {key: np.array(rows, dtype=np.int64) for key, rows in different.items()}
        self.rows = list(known.values())
        """(replicas, devices) of every section, different ones only."""
        self.sharded = {
            (id(section.rows[0]), section.shards): (section, known[id(section.rows[0])])
            for section in sections
            if section.zero and section.shards < section.replicas
        }
        """Sections whose replicas share weights in groups, with their rows."""
        ends = [(flow.source, target) for flow in flows for target in flow.targets]
        pairs = dict.fromkeys((id(sections[a].rows[0]), id(sections[b].rows[0])) for a, b in ends)
        self.routes = [self._route(known[source], known[target]) for source, target in pairs]
        self.inner = {id(lines): lines for found in inner for lines in found}.values()

    def classes(self) -> list[list[int]]:
        """Return the classes of equal replicas, each ascending, by their first."""
        columns = [self._kinds(), *self._around(), *self._sharing(), *self._inside(), *self._shards()]
        table = np.ascontiguousarray(np.concatenate(columns, axis=1, dtype=np.int64))
        found: dict[bytes, list[int]] = {}
        for replica, row in enumerate(table):
            found.setdefault(row.tobytes(), []).append(replica)
        return list(found.values())

    def crossed(self, members: Sequence[int]) -> bool:
        """Tell whether a class member shares, in some flow of the first, a resource that the first does not
        use in it.
        """
        first = members[0]
        mine = np.zeros(_ENDS * len(self.groups) * self.cluster.device_count + 1, dtype=bool)
        for _, used in self.routes:
            mine[used[first]] = True
        mine[-1] = False  # none
        for _, used in self.routes:
            here = used[first].ravel()
            kept = mine[here]
            mine[here] = False
            if mine[used[members]].any():
                return True
            mine[here] = kept
        return False

    def _kinds(self) -> IntArray:
        names = {kind.name: number for number, kind in enumerate(self.cluster.device_kinds)}
        kinds = np.repeat(
            [names[group.device_kind] for group in self.cluster.nodes],
            [group.most * group.devices_per_node for group in self.cluster.nodes],
        )
        return np.concatenate([kinds[rows] for rows in self.rows], axis=1)

    def _around(self) -> Iterable[IntArray]:
        """Yield for every device, and level with uplinks, which sections share its uplink how often."""
        section = np.repeat(np.arange(len(self.rows)), [rows.size for rows in self.rows])
        devices = np.concatenate([rows.ravel() for rows in self.rows])
        for depth, level in enumerate(self.cluster.levels):
            if not depth or not level.uplink_bytes_per_s:
                continue
            unit = self.groups[depth - 1]
            shape = (int(unit[-1]) + 1, len(self.rows))
            held = np.bincount(unit[devices] * shape[1] + section, minlength=shape[0] * shape[1])
            alike = numbered_rows(held.reshape(shape))
            yield np.concatenate([alike[unit[rows]] for rows in self.rows], axis=1)

    def _route(self, ours: IntArray, theirs: IntArray) -> tuple[IntArray, IntArray]:
        """Return (replicas, routes): the level of each route between two rows, -1 inside a device; and (...,
        `_ENDS`): its resources, -1 for none.
        """
        width = np.arange(max(ours.shape[1], theirs.shape[1]))
        ends = np.stack([ours[:, width % ours.shape[1]], theirs[:, width % theirs.shape[1]]], axis=-1)
        depths = np.full(ends.shape[:2], len(self.groups), dtype=np.int64)
        for depth in reversed(range(len(self.groups))):
            group = self.groups[depth][ends]
            depths[group[..., 0] == group[..., 1]] = depth
        if (depths == len(self.groups)).any():  # raises: there is no path
            lost = ends[depths == len(self.groups)][0].tolist()
            self.cluster.path(*lost)
        depths[ends[..., 0] == ends[..., 1]] = -1
        used = np.full((*depths.shape, _ENDS), -1, dtype=np.int64)
        for depth, level in enumerate(self.cluster.levels):
            here = depths == depth
            names = [ends, self.groups[depth - 1][ends] if depth else ends]
            shared = [level.device_bytes_per_s, level.uplink_bytes_per_s if depth else 0.0]
            for kind, (numbers, room) in enumerate(zip(names, shared, strict=True)):
                for way in range(2) if room else ():
                    base = ((depth * 2 + kind) * 2 + way) * self.cluster.device_count
                    used[here, kind * 2 + way] = base + numbers[here, way]
        return depths, used

    def _sharing(self) -> Iterable[IntArray]:
        """Yield for every route its level, and for each of its resources who uses it in which flow."""
        if not self.routes:
            return
        users = []
        for number, (_, used) in enumerate(self.routes):
            own = np.sort(used.reshape(len(used), -1), axis=1)
            once = np.concatenate([np.ones((len(own), 1), dtype=bool), own[:, 1:] != own[:, :-1]], axis=1)
            names = own[once & (own >= 0)]
            users.append(np.stack([names, np.full(len(names), number)]))
        names, flow = np.concatenate(users, axis=1)
        distinct, at = np.unique(names, return_inverse=True)
        count = np.bincount(at * len(self.routes) + flow, minlength=len(distinct) * len(self.routes))
        alike = np.append(numbered_rows(count.reshape(len(distinct), len(self.routes))), -1)
        for depths, used in self.routes:
            place = np.where(used >= 0, np.searchsorted(distinct, used), len(distinct))
            yield depths
            yield alike[place].reshape(len(used), -1)

    def _inside(self) -> Iterable[IntArray]:
        """Yield for every line inside a row what its devices span."""
        yield from map(self._spans, self.inner)

    def _shards(self) -> Iterable[IntArray]:
        """Yield what lies between devices with which a replica shares its weights, if there are groups."""
        for section, rows in self.sharded.values():
            group = [section.shard_group(0, replica) for replica in range(section.replicas)]
            near = rows.reshape(-1, section.shards, rows.shape[1]).transpose(0, 2, 1)
            yield self._spans(near)[group]

    def _spans(self, lines: IntArray) -> IntArray:
        """Return a number for each line of shape (..., devices), equal for those that span the same tiers."""
        flat = lines.reshape(-1, lines.shape[-1])
        alike = alike_groups(self.cluster, flat)
        _, first = np.unique(alike, return_index=True)
        tiers: dict[object, int] = {}
        spans = [span_of(self.cluster, tuple(flat[i].tolist())) for i in first]
        number = [tiers.setdefault(span.tiers, len(tiers)) for span in spans]
        return np.array(number, dtype=np.int64)[alike].reshape(len(lines), -1)
