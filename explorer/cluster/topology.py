"""Topology: devices in nodes, numbered, with the path between any two of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np

from explorer.base.caching import Owner
from explorer.base.errors import InputError
from explorer.cluster.calibration import UNCALIBRATED, Calibration
from explorer.cluster.device_kinds import DeviceKind
from explorer.cluster.links import LOCAL, Level, Link, Path
from explorer.cluster.nodes import Event, NodeGroup
from explorer.cluster.sources import Source

_MAX_PATHS = 65536  # pairs remembered per cluster; there are 2.7e8 in the largest


@dataclass(frozen=True, slots=True, kw_only=True, eq=True)
class Cluster(Owner):
    """Devices in nodes with their links. Immutable.

    Raises:
        InputError: an unknown device kind, no level that spans two devices, a link to a missing device.
    """

    name: str
    """Name of the profile."""
    device_kinds: tuple[DeviceKind, ...]
    """Every kind that a node names."""
    nodes: tuple[NodeGroup, ...]
    """In device order."""
    levels: tuple[Level, ...] = ()
    """Innermost first; the last should have scope `all`."""
    links: tuple[Link, ...] = ()
    """Explicit links; they take precedence over levels."""
    shared: tuple[tuple[str, float], ...] = ()
    """Capacity in bytes/s of the shared resources that `links` name."""
    events: tuple[Event, ...] = ()
    """Failures, leaves and joins, by time."""
    title: str = ""
    """One line for people."""
    sources: tuple[Source, ...] = ()
    """Where the numbers of `nodes`, `links`, `shared` and `events` come from."""
    calibration: Calibration = UNCALIBRATED
    """Joint errors of the numbers that measured steps corrected."""
    _memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        names = [kind.name for kind in self.device_kinds]
        for i, group in enumerate(self.nodes):
            if group.device_kind not in names:
                raise InputError(
                    f"unknown device kind {group.device_kind!r}",
                    key=f"nodes[{i}].device_kind",
                    found=group.device_kind,
                    allowed=", ".join(names),
                )
        if not self.nodes:
            raise InputError("a cluster needs a node", key="nodes", found=0, allowed="1 or more")
        for i, link in enumerate(self.links):
            if not (0 <= link.source < self.device_count and 0 <= link.target < self.device_count):
                raise InputError(
                    f"link {link.source} -> {link.target} names a missing device",
                    key=f"links[{i}]",
                    found=(link.source, link.target),
                    allowed=f"0 to {self.device_count - 1}",
                )

    def __hash__(self) -> int:
        return self.memo("hash", lambda: hash((self.name, self.nodes, self.levels)))

    @property
    def steady(self) -> Cluster:
        """The same cluster without its events, for what cannot handle them."""
        return self.memo("steady", lambda: replace(self, events=())) if self.events else self

    @property
    def device_count(self) -> int:
        """Number of devices that may be used, all those of pools among them."""
        ends = self.memo("group_ends", self._find_ends)
        return ends[-1] if ends else 0

    @property
    def pools(self) -> bool:
        """Whether more nodes may be used than are by default."""
        return any(group.most > group.count for group in self.nodes)

    @property
    def present(self) -> tuple[int, ...]:
        """Devices used unless others are chosen: of a pool the first `count` nodes."""
        return self.memo("present", self._find_present)

    def _find_present(self) -> tuple[int, ...]:
        found: list[int] = []
        first = 0
        for group in self.nodes:
            found += range(first, first + group.count * group.devices_per_node)
            first += group.most * group.devices_per_node
        return tuple(found)

    @property
    def order(self) -> tuple[int, ...]:
        """All devices in the default order of ranks: those present, then the rest of pools."""
        return self.memo("order", lambda: tuple(dict.fromkeys((*self.present, *range(self.device_count)))))

    @property
    def node_count(self) -> int:
        """Number of nodes that may be used."""
        return sum(group.most for group in self.nodes)

    def _find_ends(self) -> list[int]:
        """Return per node group the first device behind it."""
        return list(accumulate(group.most * group.devices_per_node for group in self.nodes))

    def _group_of(self, device: int) -> NodeGroup:
        """Return the node group of a device."""
        ends = self.memo("group_ends", self._find_ends)
        self._check_device(device)
        return self.nodes[bisect_right(ends, device)]

    def _check_device(self, device: int) -> None:
        if not 0 <= device < self.device_count:
            raise InputError(
                f"no device {device} in cluster {self.name!r}",
                found=device,
                allowed=f"0 to {self.device_count - 1}",
            )

    def kind_of(self, device: int) -> DeviceKind:
        """Return the kind of a device."""
        kinds = self.memo("kind of", self._find_kinds)
        if not 0 <= device < len(kinds):
            self._check_device(device)
        return kinds[device]

    def _find_kinds(self) -> list[DeviceKind]:
        """Return the kind of every device."""
        named = {kind.name: kind for kind in reversed(self.device_kinds)}
        found: list[DeviceKind] = []
        for group in self.nodes:
            found += [named[group.device_kind]] * (group.most * group.devices_per_node)
        return found

    def kinds_among(self, devices: Sequence[int]) -> tuple[tuple[int, DeviceKind, int], ...]:
        """Return the kinds of some devices: lowest device, kind and number of devices, ascending.

        Devices that do not exist are left out.
        """
        ends = self.memo("group_ends", self._find_ends)
        numbers = np.sort(np.asarray(devices, dtype=np.int64))
        numbers = numbers[(numbers >= 0) & (numbers < ends[-1])]
        groups = np.searchsorted(ends, numbers, side="right")
        _, first, counts = np.unique(groups, return_index=True, return_counts=True)
        found: dict[str, tuple[int, DeviceKind, int]] = {}
        for device, count in zip(numbers[first].tolist(), counts.tolist(), strict=True):
            kind = self.kind_of(device)
            lowest, _, before = found.get(kind.name, (device, kind, 0))
            found[kind.name] = (lowest, kind, before + count)
        return tuple(found.values())

    def node_size(self, device: int) -> int:
        """Return the number of devices in the node of a device."""
        return self._group_of(device).devices_per_node

    def node_of(self, device: int) -> int:
        """Return the node of a device."""
        nodes = self.memo("node of", self._find_nodes)
        if not 0 <= device < len(nodes):
            self._check_device(device)
        return nodes[device]

    def _find_nodes(self) -> list[int]:
        """Return the node of every device."""
        sizes = [group.devices_per_node for group in self.nodes for _ in range(group.most)]
        return [node for node, size in enumerate(sizes) for _ in range(size)]

    def check_devices(self, devices: Sequence[int]) -> None:
        """Check that these are different devices of this self.

        Raises:
            InputError: a device it lacks, or one given twice.
        """
        wrong = [device for device in devices if not 0 <= device < self.device_count]
        if wrong or len(set(devices)) < len(devices):
            said = f"no device {wrong[0]}" if wrong else "a device twice"
            raise InputError(
                f"{said} in the devices of {self.name!r}",
                key="devices",
                found=wrong[0] if wrong else len(devices),
                allowed=f"different devices from 0 to {self.device_count - 1}",
            )

    def _group_at(self, level: Level, device: int) -> int:
        if level.scope == "all":
            return 0
        return self.node_of(device) if level.scope == "node" else device // int(level.scope)

    def path(self, source: int, target: int) -> Path:
        """Return what a transfer from one device to another meets.

        Raises:
            InputError: no link and no level joins the two.
        """
        if source == target:
            return LOCAL
        known: dict[tuple[int, int], Path] = self.memo("paths", dict)
        found = known.get((source, target))
        if found is None:
            if len(known) >= _MAX_PATHS:
                known.clear()
            found = known[source, target] = self._find_path(source, target)
        return found

    def _find_path(self, source: int, target: int) -> Path:
        links = self.memo("links", lambda: {(link.source, link.target): link for link in self.links})
        if link := links.get((source, target)):
            capacity = dict(self.shared)
            resources = ((link.shared, capacity[link.shared]),) if link.shared in capacity else ()
            return Path(
                kind=link.kind,
                latency_s=link.latency_s,
                bandwidth_bytes_per_s=link.bandwidth_bytes_per_s,
                resources=resources,
            )
        for i, level in enumerate(self.levels):
            if self._group_at(level, source) == self._group_at(level, target):
                return Path(
                    kind=level.kind,
                    latency_s=level.latency_s,
                    bandwidth_bytes_per_s=level.bandwidth_bytes_per_s,
                    resources=self._resources(i, source, target),
                )
        raise InputError(
            f"devices {source} and {target} of cluster {self.name!r} are not connected",
            key="levels",
            allowed="a last level with scope: all, or a link",
        )

    def _resources(self, depth: int, source: int, target: int) -> tuple[tuple[str, float], ...]:
        level, found = self.levels[depth], []
        if level.device_bytes_per_s:
            found.append((f"{level.name}:out:{source}", level.device_bytes_per_s))
            found.append((f"{level.name}:in:{target}", level.device_bytes_per_s))
        if level.uplink_bytes_per_s and depth:
            inner = self.levels[depth - 1]
            found.append((f"{level.name}:out:group{self._group_at(inner, source)}", level.uplink_bytes_per_s))
            found.append((f"{level.name}:in:group{self._group_at(inner, target)}", level.uplink_bytes_per_s))
        return tuple(found)
