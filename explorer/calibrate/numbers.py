"""Numbers of a cluster profile that may be off by a factor: their bands and sources, and how to shift them.

A number is one cause of error: the efficiency of one class of operation on one device kind (its whole curve,
and for products its tiles), a level's bandwidths together, an overhead. Values that a profile has by
definition (peaks, memory, bandwidth of a memory by its datasheet) are no such cause unless they have a band:
how much of them is reached is an efficiency, and that is corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from explorer.calibrate.table import (
    CURVES,
    SOFTWARE,
    SQUARE,
    kind_value,
    level_value,
    with_kind_value,
    with_level_value,
)
from explorer.cluster import Cluster, Curve, DeviceKind, Level, Source

CLASSES = ("matmul", "attention", "conv", "memory")
"""Classes of operation that have their own efficiency."""
_FLAT = Curve(points=((1.0, 1.0),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number of a profile."""

    owner: str
    """Device kind or level that has it; empty for explicit links."""
    name: str
    """Name: `matmul`, `launch_overhead_s`, `bandwidth_bytes_per_s`, ..."""
    value: float
    """Value in the profile (the last point of a curve)."""
    quantity: str
    """Unit: `fraction`, `seconds`, `bytes_per_s`, `flops_per_s` or `bytes`."""
    source: Source | None
    """Source; None if the profile does not say."""
    fits: bool = True
    """Whether runs may correct it."""

    @property
    def key(self) -> str:
        """Key, unique in a cluster: `a100-sxm-80gb.matmul`."""
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def title(self) -> str:
        """Readable name: `speed of matrix products on a100-sxm-80gb`."""
        words = _WORDS[self.name]
        return f"{words} {'of' if self.name in _LEVEL_FIELDS else 'on'} {self.owner}" if self.owner else words

    @property
    def band(self) -> float:
        """Half-width of its 80 % band; 0 if unknown."""
        return self.source.band if self.source else 0.0

    @property
    def source_key(self) -> str:
        """Key of a source about this number alone."""
        return f"efficiency.{self.name}" if self.name in CLASSES else self.name


def numbers_of(cluster: Cluster) -> tuple[Number, ...]:
    """List every number of a cluster above 0 that may be off: those of device kinds in use, levels, links."""
    used = {group.device_kind for group in cluster.nodes}
    found = [item for kind in cluster.device_kinds if kind.name in used for item in _of_kind(kind)]
    found += [item for level in cluster.levels for item in _of_level(level)]
    if cluster.links:
        fastest = max(link.bandwidth_bytes_per_s for link in cluster.links)
        source = source_of(cluster.sources, "links", "*")
        found.append(
            Number(owner="", name="links", value=fastest, quantity="bytes_per_s", source=source, fits=False)
        )
    return tuple(item for item in found if item.value > 0)


def source_of(sources: tuple[Source, ...], *keys: str) -> Source | None:
    """Return the source of the first key that has one; None if none has."""
    known = {source.key: source for source in sources}
    return next((known[key] for key in keys if key in known), None)


def shifted(cluster: Cluster, factors: Mapping[str, float]) -> Cluster:
    """Multiply some numbers of a cluster, by key, by a factor; no fraction becomes more than 1."""

    def times(owner: str) -> Callable[[str], float]:
        return lambda name: factors.get(f"{owner}.{name}" if owner else name, 1.0)

    links = times("")("links")
    return replace(
        cluster,
        device_kinds=tuple(_kind_shifted(kind, times(kind.name)) for kind in cluster.device_kinds),
        levels=tuple(_level_shifted(level, times(level.name)) for level in cluster.levels),
        links=tuple(
            replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * links) for link in cluster.links
        ),
        shared=tuple((name, size * links) for name, size in cluster.shared),
    )


def with_sources(cluster: Cluster, new: Iterable[tuple[str, Source]]) -> Cluster:
    """Replace the sources of a cluster for the same keys by new ones, by owner."""
    added = list(new)

    def over(owner: str, sources: tuple[Source, ...], *, software: bool | None = None) -> tuple[Source, ...]:
        own = {source.key: source for name, source in added if name == owner}
        here = (item for item in own.values() if software is None or (item.key in SOFTWARE) is software)
        return (*(source for source in sources if source.key not in own), *here)

    def of_kind(kind: DeviceKind) -> DeviceKind:
        costs = replace(kind.software, sources=over(kind.name, kind.software.sources, software=True))
        return replace(kind, sources=over(kind.name, kind.sources, software=False), software=costs)

    return replace(
        cluster,
        device_kinds=tuple(map(of_kind, cluster.device_kinds)),
        levels=tuple(replace(level, sources=over(level.name, level.sources)) for level in cluster.levels),
    )


_KIND_FIELDS = {
    "memory_bandwidth_bytes_per_s": ("bytes_per_s", False),
    "launch_overhead_s": ("seconds", True),
    "host_issue_s": ("seconds", True),
    "action_overhead_s": ("seconds", True),
    "exposed_memory": ("fraction", False),
    "busy_slowdown": ("fraction", True),
    "overlap_slowdown": ("fraction", False),
    "host_bandwidth_bytes_per_s": ("bytes_per_s", False),
    "reserved_bytes": ("bytes", True),
}
"""Numbers of a device kind other than its classes: quantity, and whether runs may correct them."""

_LEVEL_FIELDS = {
    "bandwidth_bytes_per_s": "bytes_per_s",
    "latency_s": "seconds",
    "collective_efficiency": "fraction",
    "collective_overhead_s": "seconds",
}
"""Numbers of a level; the bandwidth also stands for those of a device and of an uplink."""


_WORDS = {
    "matmul": "speed of matrix products", "attention": "speed of attention", "conv": "speed of convolutions",
    "memory": "speed of memory-bound operators", "peak_flops_per_s": "peak",
    "memory_bandwidth_bytes_per_s": "memory bandwidth",
    "launch_overhead_s": "launch of a kernel", "host_issue_s": "issue of a kernel by the host",
    "action_overhead_s": "overhead of an action", "overlap_slowdown": "slowdown while communicating",
    "exposed_memory": "memory beside compute", "busy_slowdown": "slowdown in training",
    "host_bandwidth_bytes_per_s": "bandwidth to the host", "reserved_bytes": "reserved memory",
    "bandwidth_bytes_per_s": "bandwidth", "latency_s": "latency",
    "collective_efficiency": "efficiency of collectives", "collective_overhead_s": "start of a collective",
    "links": "bandwidth of the links", "left_out": "what no number says",
    "device_spread": "waits for the slowest device",
}  # fmt: skip


def _of_kind(kind: DeviceKind) -> list[Number]:
    curves = dict(kind.efficiency)
    found = []
    for name in CLASSES:
        if name not in curves and name in ("attention", "conv"):
            continue  # they follow the products
        keys = (f"efficiency.{name}", *_of_products(kind, name), "efficiency")
        found.append(
            Number(
                owner=kind.name, name=name, value=_reached(kind, name), quantity="fraction",
                source=source_of(kind.sources, *keys, "*"),
            )
        )  # fmt: skip
    peak = kind_value(kind, "peak_flops_per_s")
    source = source_of(kind.sources, "peak_flops_per_s", "*")
    found.append(
        Number(
            owner=kind.name, name="peak_flops_per_s", value=peak, quantity="flops_per_s", source=source,
            fits=False,
        )
    )  # fmt: skip
    for name, (quantity, fits) in _KIND_FIELDS.items():
        source = (source_of(kind.software.sources, name, "*") if name in SOFTWARE else None) or source_of(
            kind.sources, name, "*"
        )
        value = kind_value(kind, name)
        found.append(
            Number(owner=kind.name, name=name, value=value, quantity=quantity, source=source, fits=fits)
        )
    return found


def _reached(kind: DeviceKind, name: str) -> float:
    """Return the fraction that the largest work of a class reaches."""
    if keys := _of_products(kind, name):
        return kind_value(kind, keys[0])
    return dict(kind.efficiency).get(name, _FLAT).points[-1][1]


def _of_products(kind: DeviceKind, name: str) -> tuple[str, ...]:
    """Return the keys of what prices products of known sizes on a kind."""
    if name != "matmul" or not kind.makes_tiles:
        return ()
    if kind.product_kernels:
        return ("product_kernels",)
    small = {min(tile.rows, tile.columns) < SQUARE for tile in kind.tiles}
    return tuple(key for key, is_small in (("tiles", False), ("tiles.small", True)) if is_small in small)


def _of_level(level: Level) -> list[Number]:
    return [
        Number(
            owner=level.name, name=name, value=level_value(level, name), quantity=quantity,
            source=source_of(level.sources, name, "*"),
        )
        for name, quantity in _LEVEL_FIELDS.items()
    ]  # fmt: skip


def _kind_shifted(kind: DeviceKind, times: Callable[[str], float]) -> DeviceKind:
    for name in (*CLASSES, "peak_flops_per_s", *_KIND_FIELDS):
        if (factor := times(name)) == 1.0:
            continue
        if name in ("matmul", "memory") and name not in dict(kind.efficiency):
            kind = replace(kind, efficiency=(*kind.efficiency, (name, _FLAT)))
        for part in _parts(kind, name):
            kind = with_kind_value(kind, part, kind_value(kind, part) * factor)
    return kind


def _parts(kind: DeviceKind, name: str) -> tuple[str, ...]:
    """Return the entries of the table that are one number: for products, their curve and their tiles."""
    if name not in CLASSES:
        return (name,)
    alike = (name, "update") if name == "memory" else (name,)
    curve = tuple(f"{CURVES}{item}" for item in alike if item in dict(kind.efficiency))
    return (*curve, *_of_products(kind, name))


def _level_shifted(level: Level, times: Callable[[str], float]) -> Level:
    for name in _LEVEL_FIELDS:
        if (factor := times(name)) != 1.0:
            level = with_level_value(level, name, level_value(level, name) * factor)
    better = times("collective_efficiency")
    operations = tuple((name, min(1.0, f * better)) for name, f in level.operation_efficiency)
    return replace(level, operation_efficiency=operations)
