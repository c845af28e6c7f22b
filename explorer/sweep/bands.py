"""How far a prediction may be off: devices as good, and as bad, as the error bands of their profile allow.

Every number of a profile has a source, many with the half-width of their 80 % error band. Here all are
shifted the same way at once, so that the two reports enclose what independent errors would give.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.cluster import Cluster, Curve, DeviceKind, Level, Source


def best_and_worst(cluster: Cluster) -> tuple[Cluster, Cluster] | None:
    """The cluster with all error bands used up for the better and for the worse; None where none is known."""
    return cluster.memo("best_and_worst", lambda: _both(cluster))


def _both(cluster: Cluster) -> tuple[Cluster, Cluster] | None:
    sources = [*cluster.sources]
    for kind in cluster.device_kinds:
        sources += kind.sources
    for level in cluster.levels:
        sources += level.sources
    if not any(source.band for source in sources):
        return None
    return _shifted(cluster, 1), _shifted(cluster, -1)


def _band(sources: tuple[Source, ...], key: str) -> float:
    """Band of a field: of its own source, else of the one for all fields."""
    found = {source.key: source.band for source in sources}
    return found.get(key, found.get("*", 0.0))


def _shifted(cluster: Cluster, way: int) -> Cluster:
    wide = _band(cluster.sources, "links")
    return replace(
        cluster,
        device_kinds=tuple(_kind(kind, way) for kind in cluster.device_kinds),
        levels=tuple(_level(level, way) for level in cluster.levels),
        links=tuple(
            replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * (1 + way * wide))
            for link in cluster.links
        ),
        shared=tuple((name, size * (1 + way * wide)) for name, size in cluster.shared),
    )


def _kind(kind: DeviceKind, way: int) -> DeviceKind:
    """Efficiency and memory bandwidth up, overheads down, or the other way round."""
    up = {key: 1 + way * _band(kind.sources, key) for key in ("efficiency", "memory_bandwidth_bytes_per_s")}
    down = {key: 1 - way * _band(kind.sources, key) for key in ("launch_overhead_s", "reserved_bytes")}
    return replace(
        kind,
        efficiency=tuple((name, _scaled(curve, up["efficiency"])) for name, curve in kind.efficiency),
        memory_bandwidth_bytes_per_s=kind.memory_bandwidth_bytes_per_s * up["memory_bandwidth_bytes_per_s"],
        launch_overhead_s=kind.launch_overhead_s * down["launch_overhead_s"],
        reserved_bytes=kind.reserved_bytes * down["reserved_bytes"],
    )


def _scaled(curve: Curve, factor: float) -> Curve:
    return Curve(points=tuple((size, min(1.0, share * factor)) for size, share in curve.points))


def _level(level: Level, way: int) -> Level:
    """Bandwidths up and latency down, or the other way round."""
    keys = ("bandwidth_bytes_per_s", "device_bytes_per_s", "uplink_bytes_per_s")
    wider = {key: getattr(level, key) * (1 + way * _band(level.sources, key)) for key in keys}
    share = level.collective_efficiency * (1 + way * _band(level.sources, "collective_efficiency"))
    return replace(
        level,
        latency_s=level.latency_s * (1 - way * _band(level.sources, "latency_s")),
        collective_efficiency=min(1.0, share),
        **wider,
    )
