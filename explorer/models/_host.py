"""Accelerators and CPUs around one host memory: the machine of a placement workload."""

from __future__ import annotations

from explorer.cluster import Cluster, DeviceKind, Level, Link, NodeGroup, Source

ACCELERATOR, CPU = "accelerator", "cpu"
UNLIMITED_BYTES = 2.0**60
"""Bytes of memory of a device whose size the workload does not limit."""
_SAME_MEMORY_BYTES_PER_S = 2.0**60
_SOURCES = (
    Source(key="*", how="derived", reference="the workload's own edges: size over cost"),
    Source(key="peak_flops_per_s", how="assumed", reference="not used: every node has measured seconds"),
)


def host_cluster(
    name: str, accelerators: int, cpus: int, *, accelerator_bytes: float, rate: float
) -> Cluster:
    """Make a cluster of accelerators, then CPUs; `rate` is accelerator to host and back, bytes/s each way.

    A copy between two accelerators goes through the host and takes twice as long as one between an
    accelerator and a CPU; between CPUs nothing is copied. `accelerator_bytes` is 0 if unlimited.
    """
    counts = ((ACCELERATOR, accelerators, accelerator_bytes or UNLIMITED_BYTES), (CPU, cpus, UNLIMITED_BYTES))
    present = [(kind, count, memory) for kind, count, memory in counts if count]
    return Cluster(
        name=name,
        title=f"{accelerators} accelerators and {cpus} CPUs around one host memory",
        device_kinds=tuple(_device_kind(kind, memory, rate) for kind, _, memory in present),
        nodes=tuple(NodeGroup(count=1, device_kind=k, devices_per_node=n) for k, n, _ in present),
        levels=(
            Level(
                name="host", kind="pcie", scope="all", latency_s=0.0, bandwidth_bytes_per_s=rate / 2,
                device_bytes_per_s=rate, sources=_SOURCES,
            ),
        ),
        links=_links(accelerators, cpus, rate),
    )  # fmt: skip


def _device_kind(kind: str, memory_bytes: float, rate: float) -> DeviceKind:
    return DeviceKind(
        name=kind,
        memory_bytes=memory_bytes,
        memory_bandwidth_bytes_per_s=_SAME_MEMORY_BYTES_PER_S,
        peak_flops_per_s=(("fp32", 1e12),),
        host_bandwidth_bytes_per_s=rate,
        sources=_SOURCES,
    )


def _links(accelerators: int, cpus: int, rate: float) -> tuple[Link, ...]:
    """Return the links that differ from the host level: those with a CPU at one end or at both."""
    devices = range(accelerators + cpus)
    return tuple(
        Link(
            source=a,
            target=b,
            kind="shared_memory" if min(a, b) >= accelerators else "pcie",
            latency_s=0.0,
            bandwidth_bytes_per_s=_SAME_MEMORY_BYTES_PER_S if min(a, b) >= accelerators else rate,
        )
        for a in devices
        for b in devices
        if a != b and max(a, b) >= accelerators
    )
