"""Checkpoints: the time that writing them adds to every step."""

from __future__ import annotations

from explorer.cluster import Cluster
from explorer.pricing import Prices
from explorer.simulation.lane_memory import MEMORY_PARTS, memory_by_lane
from explorer.strategy import JobStrategy
from explorer.tasks.program import Program

_KEPT = [MEMORY_PARTS.index(part) for part in ("weights", "optimizer")]


def checkpoint_share(cluster: Cluster, strategy: JobStrategy, program: Program, prices: Prices) -> float:
    """Return the seconds of checkpoints per second of training; 0 without any.

    Every device copies its weights and optimizer states to its host, all at once, while nothing is computed;
    the host writes them away during the next steps. So a checkpoint takes as long as the fullest device's
    copy (CheckFreq, FAST'21, calls it the snapshot). Replicas without ZeRO hold the same and wait for the one
    that copies.
    """
    if not strategy.checkpoint_period_s:
        return 0.0
    parts, _ = memory_by_lane(program, prices)
    held_bytes = parts[:, _KEPT].sum(axis=1)
    slowest_s = max(
        size / min(cluster.kind_of(device).host_bandwidth_bytes_per_s for device in devices)
        for size, devices in zip(held_bytes.tolist(), program.lane_devices, strict=True)
    )
    return float(slowest_s) / strategy.checkpoint_period_s
