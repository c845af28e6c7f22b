"""Clusters of the registry, less what a test does not ask about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import explorer
from explorer.cluster import Cluster, Software


def device_bound(name: str) -> Cluster:
    """A cluster whose kernels are issued and start in no time: no wait for them hides a collective. Its
    devices are equally fast.
    """
    cluster = alike(explorer.load_cluster(name))
    kinds = tuple(replace(kind, software=Software(), launch_overhead_s=0.0) for kind in cluster.device_kinds)
    return replace(cluster, device_kinds=kinds)


def alike(cluster: Cluster) -> Cluster:
    """The cluster with devices of a kind equally fast: nobody waits for the slowest."""
    kinds = tuple(replace(kind, device_spread=0.0) for kind in cluster.device_kinds)
    return replace(cluster, device_kinds=kinds)


def with_software(cluster: Cluster, **numbers: float) -> Cluster:
    """The cluster with some numbers of the software on all device kinds changed."""
    changed: dict[str, Any] = dict(numbers)
    kinds = (replace(kind, software=replace(kind.software, **changed)) for kind in cluster.device_kinds)
    return replace(cluster, device_kinds=tuple(kinds))
