"""Cluster: device kinds, devices in nodes, and the links between them.

Devices are numbered from 0 through the node groups in order. Links are either *levels* (NVLink inside
a node, InfiniBand between nodes: the innermost level that spans two devices carries their traffic) or
an explicit list of `Link`s. A level names what is shared: the capacity that all traffic entering or
leaving one group (a node's NICs, a PCIe switch) must fit in. Every number has a `Source`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeVar

from explorer.base.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a number came from."""

    key: str
    """The field it is about (`memory_bytes`), or `*` for all that have no source of their own."""
    how: str
    """datasheet, measured, fitted, derived or assumed."""
    reference: str
    """Document, run or formula, with its date."""
    band: float = 0.0
    """Relative half-width of the 80 % error band; 0 where none is known."""
    prior: float | None = None
    """What was believed before any fit, from documents, in the field's unit; of many numbers (tiles, a curve)
    that of the one they are known by (`explorer.score.knobs`). None where nothing was fitted."""
    fitted_on: str = ""
    """Whose measurements it was fitted on: the `source` of a set of `explorer.score`; or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A fraction of peak as a function of size, piecewise linear in log(size), flat outside."""

    points: tuple[tuple[float, float], ...]
    """(size, fraction), sizes ascending; fractions in (0, 1]."""

    def __post_init__(self) -> None:
        sizes = [size for size, _ in self.points]
        if not sizes or sizes != sorted(sizes) or any(not 0 < f <= 1 for _, f in self.points):
            raise InputError(
                "a curve needs ascending sizes and fractions in (0, 1]", key="points", found=self.points
            )

    def at(self, size: float) -> float:
        """Fraction at `size`."""
        sizes = [point for point, _ in self.points]
        i = bisect_right(sizes, size)
        if i in (0, len(sizes)):
            return self.points[0 if i == 0 else -1][1]
        (x0, y0), (x1, y1) = self.points[i - 1], self.points[i]
        return y0 + (y1 - y0) * math.log(size / x0) / math.log(x1 / x0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One way in which a matrix product is cut: each compute unit makes tiles of rows x columns of it."""

    rows: int
    """Rows of the result that a unit makes at once."""
    columns: int
    """Columns of the result that a unit makes at once."""
    fraction: float
    """Share of its peak that a unit reaches on a deep product, 0 < fraction <= 1."""

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1 or not 0 < self.fraction <= 1:
            raise InputError(
                f"a tile of {self.rows} x {self.columns} at {self.fraction} of peak",
                key="tiles",
                found=(self.rows, self.columns, self.fraction),
                allowed="sizes of 1 or more, a fraction in (0, 1]",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What a framework costs on one device kind beside the work of its kernels.

    The numbers come from a `explorer.framework.Framework`, or from this very machine, where it was measured.
    """

    framework: str = ""
    """Name of the framework that states them; empty if unknown."""
    host_issue_s: float = 0.0
    """Seconds the host takes to issue one kernel: a block takes the longer of device and host."""
    action_overhead_s: float = 0.0
    """Seconds of host work and waiting for each forward or backward call of a stage."""
    cached_fraction: float = 0.0
    """What the allocator keeps beyond the tensors at the peak, as a share of activations and buffers: freed
    blocks that nothing fits in. It gives them back before it fails."""
    sources: tuple[Source, ...] = ()
    """Where the numbers came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """One type of accelerator (or a CPU core)."""

    name: str
    """a100-sxm-80gb, v100-sxm2-16gb, cpu, ..."""
    memory_bytes: float
    """Memory of one device."""
    memory_bandwidth_bytes_per_s: float
    """Peak bandwidth of that memory."""
    peak_flops_per_s: tuple[tuple[str, float], ...]
    """Dense peak by precision: (("bf16", 312e12), ("fp32", 19.5e12))."""
    efficiency: tuple[tuple[str, Curve], ...] = ()
    """By operation class (`matmul`, `attention`, `conv`, `memory`): fraction of peak over FLOPs (bytes)."""
    compute_units: int = 0
    """Streaming multiprocessors (cores) among which a matrix product's tiles are dealt; 0 unknown."""
    tiles: tuple[Tile, ...] = ()
    """Tilings that its matrix library chooses from; () prices products by the `matmul` curve alone."""
    tile_depth: float = 0.0
    """What a tile's start and end cost, in steps along the contracted dimension."""
    unaligned_fraction: float = 1.0
    """Share of a product's speed left where a size does not fill 16 bytes (a vocabulary of 50,257)."""
    launch_overhead_s: float = 0.0
    """Seconds every kernel takes on the device beside its work: start and drain."""
    overlap_slowdown: float = 0.0
    """How much longer compute takes while the device communicates: 0.05 is 5 %."""
    lockstep_wait: float = 0.0
    """How much longer than one device the slowest of a lane takes between two collectives: clocks under a
    power limit wander apart, and all wait for the last."""
    reserved_bytes: float = 0.0
    """Memory a process loses before its first tensor (context, communication buffers)."""
    host_bandwidth_bytes_per_s: float = 0.0
    """To and from host memory, each way; 0 unknown."""
    compute_lanes: int = 1
    """Independent streams of compute."""
    price_per_hour: float = 0.0
    """Dollars per device hour; 0 unknown."""
    idle_watts: float = 0.0
    """Power when idle."""
    busy_watts: float = 0.0
    """Power when computing."""
    like: tuple[str, ...] = ()
    """Kinds that it extends, nearest first: where a framework knows nothing of it, it knows those."""
    software: Software = Software()
    """What the framework costs that its users run unless another is chosen (`Job.framework`)."""
    sources: tuple[Source, ...] = ()
    """Where the numbers came from."""

    def __post_init__(self) -> None:
        if self.memory_bytes <= 0 or self.memory_bandwidth_bytes_per_s <= 0:
            raise InputError(
                f"device kind {self.name!r} needs memory and bandwidth above 0", found=self.memory_bytes
            )
        if not self.peak_flops_per_s or any(peak <= 0 for _, peak in self.peak_flops_per_s):
            raise InputError(
                f"device kind {self.name!r} needs a peak above 0 for one precision or more",
                key="peak_flops_per_s",
                found=self.peak_flops_per_s,
            )

    def peak(self, precision: str) -> float:
        """Peak FLOP/s at `precision`; where it is not listed, that of the next wider one listed."""
        peaks = dict(self.peak_flops_per_s)
        for name in (precision, *_WIDER.get(precision, ())):
            if name in peaks:
                return peaks[name]
        raise InputError(
            f"device kind {self.name!r} has no peak for {precision!r}",
            key="peak_flops_per_s",
            found=precision,
            allowed=", ".join(peaks),
        )


_WIDER = {
    "fp8": ("bf16", "fp16", "tf32", "fp32"),
    "int8": ("fp8", "bf16", "fp16", "fp32"),
    "bf16": ("fp16", "tf32", "fp32"),
    "fp16": ("bf16", "tf32", "fp32"),
    "tf32": ("fp32",),
    "fp32": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes, numbered one after the other; with `max_count` a pool to choose from."""

    count: int
    """Nodes that are taken where nobody chooses."""
    device_kind: str
    """Name of the kind of all their devices."""
    devices_per_node: int
    """Devices in each."""
    max_count: int = 0
    """Nodes that may be taken: all of them are numbered, plans may use them and searches choose among them; 0
    means exactly `count`."""

    def __post_init__(self) -> None:
        if self.count < 1 or self.devices_per_node < 1:
            raise InputError(
                "a node group needs at least one node with one device",
                key="nodes",
                found=f"{self.count} x {self.devices_per_node}",
                allowed=">= 1",
            )

    @property
    def most(self) -> int:
        """Nodes that may be taken."""
        return max(self.count, self.max_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of interconnect: full connectivity among the devices of each group."""

    name: str
    """nvlink, pcie, ib, ethernet, ..."""
    kind: str
    """nvlink, nvswitch, pcie, infiniband, ethernet, internet or shared_memory: what colours and words use."""
    scope: str | int
    """`node`: the devices of one node; `all`: every device; a number: blocks of so many devices."""
    latency_s: float
    """One-way start-up time of a message."""
    bandwidth_bytes_per_s: float
    """Between one pair of devices, one direction, unloaded."""
    device_bytes_per_s: float = 0.0
    """What one device can send (and, apart, receive) over this level in total; 0 = no limit of its own."""
    uplink_bytes_per_s: float = 0.0
    """What one group of the next inner level (a node) can send (and receive) in total; 0 = no limit."""
    collective_efficiency: float = 1.0
    """Fraction of the bandwidths above that collectives reach; transfers between a pair reach all of it."""
    operation_efficiency: tuple[tuple[str, float], ...] = ()
    """The same for some operations (`all_gather`, `all_to_all`, ...) where it is known apart."""
    collective_overhead_s: float = 0.0
    """Seconds of every collective beside its messages: launch, and waiting for the last to arrive."""
    sources: tuple[Source, ...] = ()
    """Where the numbers came from."""

    def __post_init__(self) -> None:
        if self.bandwidth_bytes_per_s <= 0 or self.latency_s < 0:
            raise InputError(
                f"level {self.name!r} needs bandwidth above 0 and latency of 0 or more",
                key="bandwidth_bytes_per_s",
                found=self.bandwidth_bytes_per_s,
                allowed="> 0",
            )
        if not (self.scope in ("node", "all") or (isinstance(self.scope, int) and self.scope > 1)):
            raise InputError(
                f"level {self.name!r} has scope {self.scope!r}",
                key="scope",
                found=self.scope,
                allowed="node, all or a number of devices above 1",
            )

    def efficiency_of(self, operation: str) -> float:
        """Fraction of the bandwidth that a collective of this operation reaches."""
        return dict(self.operation_efficiency).get(operation, self.collective_efficiency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One directed link of an explicit topology."""

    source: int
    """Sending device."""
    target: int
    """Receiving device."""
    kind: str
    """As `Level.kind`."""
    latency_s: float
    """Start-up time."""
    bandwidth_bytes_per_s: float
    """Unloaded."""
    shared: str = ""
    """Name of a shared resource it takes part in; empty if its own."""
    collective_efficiency: float = 1.0
    """Fraction of the bandwidth that collectives reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A failure, join or leave during a run."""

    time_s: float
    """When."""
    device: int
    """Who."""
    kind: str
    """fail, leave or join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """What one transfer between two devices meets."""

    kind: str
    """Kind of the link that binds."""
    latency_s: float
    """Sum of start-up times."""
    bandwidth_bytes_per_s: float
    """Unloaded."""
    resources: tuple[tuple[str, float], ...] = ()
    """Shared resources on the way: (name, capacity in bytes/s)."""


_MAX_PATHS = 65536  # pairs remembered per cluster; there are 2.7e8 in the largest

LOCAL = Path(kind="local", latency_s=0.0, bandwidth_bytes_per_s=math.inf)
"""From a device to itself: free."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=True)
class Cluster:
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
    """Explicit links; where a pair has one it goes before the levels."""
    shared: tuple[tuple[str, float], ...] = ()
    """Capacity in bytes/s of the shared resources that `links` name."""
    events: tuple[Event, ...] = ()
    """Failures, leaves and joins, by time."""
    title: str = ""
    """One line for people."""
    sources: tuple[Source, ...] = ()
    """Where the numbers of `nodes`, `links`, `shared` and `events` came from."""
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
        """The same cluster without its events, for what cannot live through them."""
        return self.memo("steady", lambda: replace(self, events=())) if self.events else self

    def memo(self, key: Any, make: Callable[[], T]) -> T:
        """A value derived from this cluster, made once (`key` names it)."""
        if key not in self._memo:
            self._memo[key] = make()
        value: T = self._memo[key]
        return value

    @property
    def device_count(self) -> int:
        """Number of devices that may be used, all those of pools among them."""
        return sum(group.most * group.devices_per_node for group in self.nodes)

    @property
    def pools(self) -> bool:
        """Whether more nodes may be taken than are where nobody chooses."""
        return any(group.most > group.count for group in self.nodes)

    @property
    def present(self) -> tuple[int, ...]:
        """Devices that are taken where nobody chooses: of a pool the first `count` nodes."""
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
        """All devices in the order of ranks where nobody chooses: those present, then the rest of pools."""
        return self.memo("order", lambda: tuple(dict.fromkeys((*self.present, *range(self.device_count)))))

    @property
    def node_count(self) -> int:
        """Number of nodes that may be used."""
        return sum(group.most for group in self.nodes)

    def _group_of(self, device: int) -> tuple[NodeGroup, int, int]:
        """Node group of a device, its first device and its first node."""
        ends = self.memo(
            "group_ends", lambda: list(accumulate(g.most * g.devices_per_node for g in self.nodes))
        )
        i = bisect_right(ends, device)
        if device < 0 or i >= len(ends):
            raise InputError(
                f"no device {device} in cluster {self.name!r}",
                found=device,
                allowed=f"0 to {self.device_count - 1}",
            )
        first_node = sum(group.most for group in self.nodes[:i])
        return self.nodes[i], (ends[i - 1] if i else 0), first_node

    def kind_of(self, device: int) -> DeviceKind:
        """Kind of a device."""
        return self.memo(("kind of", device), lambda: self._find_kind(device))

    def _find_kind(self, device: int) -> DeviceKind:
        name = self._group_of(device)[0].device_kind
        return next(kind for kind in self.device_kinds if kind.name == name)

    def node_size(self, device: int) -> int:
        """Return the number of devices in the node of a device."""
        return self._group_of(device)[0].devices_per_node

    def node_of(self, device: int) -> int:
        """Node of a device."""
        group, first_device, first_node = self._group_of(device)
        return first_node + (device - first_device) // group.devices_per_node

    def _group_at(self, level: Level, device: int) -> int:
        if level.scope == "all":
            return 0
        return self.node_of(device) if level.scope == "node" else device // int(level.scope)

    def path(self, source: int, target: int) -> Path:
        """What a transfer from `source` to `target` meets.

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
