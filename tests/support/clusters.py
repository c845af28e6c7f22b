"""Clusters of the registry, less what a test does not ask about."""

from __future__ import annotations

from dataclasses import replace

import explorer
from explorer.cluster import Cluster


def device_bound(name: str) -> Cluster:
    """A cluster whose kernels are issued and start in no time: no wait for them hides a collective."""
    cluster = explorer.load_cluster(name)
    free = {"host_issue_s": 0.0, "action_overhead_s": 0.0, "launch_overhead_s": 0.0}
    kinds = tuple(replace(kind, **free) for kind in cluster.device_kinds)
    return replace(cluster, device_kinds=kinds)
