"""Small profiles whose every number is known."""

from __future__ import annotations

from typing import Any

from explorer.cluster import Cluster, Curve, DeviceKind, Level, NodeGroup, Source

GPU, CPU = "a100-sxm-80gb", "cpu"


def source(key: str, band: float, how: str = "assumed") -> Source:
    return Source(key=key, how=how, reference="a guess", band=band)


def machine(kind: str = GPU, *, band: float = 0.3, **fields: Any) -> Cluster:
    """One node of four devices with bands on everything that may be off."""
    known: dict[str, Any] = {
        "name": kind, "memory_bytes": 80e9, "memory_bandwidth_bytes_per_s": 2e12,
        "peak_flops_per_s": (("bf16", 300e12), ("fp32", 20e12)),
        "efficiency": (
            ("attention", Curve(points=((1e8, 0.1), (1e11, 0.5)))),
            ("matmul", Curve(points=((1e7, 0.05), (1e11, 0.6)))),
            ("memory", Curve(points=((1e5, 0.2), (1e8, 0.7)))),
        ),
        "launch_overhead_s": 4e-6, "reserved_bytes": 1e9,
        "sources": tuple(source(key, band) for key in ("efficiency", "launch_overhead_s", "reserved_bytes")),
    }  # fmt: skip
    level = Level(
        name="link", kind="nvlink", scope="all", latency_s=3e-6, bandwidth_bytes_per_s=200e9,
        collective_efficiency=0.7, sources=(source("*", band),),
    )  # fmt: skip
    return Cluster(
        name="small",
        device_kinds=(DeviceKind(**known | fields),),
        nodes=(NodeGroup(count=1, device_kind=kind, devices_per_node=4),),
        levels=(level,),
    )
