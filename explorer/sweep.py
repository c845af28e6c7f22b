"""What if: one plan re-simulated over several values of one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.cluster import Cluster
from explorer.errors import ExplorerError, InputError
from explorer.plan import Resolved
from explorer.report import Report
from explorer.simulate import simulate
from explorer.strategy import Strategy
from explorer.workload import Workload

KEYS = ("global_batch", "microbatch_samples", "bandwidth")
"""What can be swept; `bandwidth` scales every link by a factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value of a sweep."""

    value: float
    """The value."""
    report: Report | None
    """What is predicted; None where the strategy does not go with the value."""
    problem: str = ""
    """Why not."""


def sweep(resolved: Resolved, key: str, values: Sequence[str | float]) -> list[Row]:
    """Re-simulate a plan for every value.

    Raises:
        InputError: an unknown key or a value that is no number above 0.
    """
    if key not in KEYS:
        raise InputError(f"cannot sweep over {key!r}", key="--over", found=key, allowed=", ".join(KEYS))
    return [_row(resolved, key, _number(key, value)) for value in values]


def _number(key: str, value: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if number <= 0:
        raise InputError(
            f"{value!r} is no value of {key}", key="--over", found=value, allowed="a number above 0"
        )
    return number


def _row(resolved: Resolved, key: str, value: float) -> Row:
    plan = resolved.plan
    cluster, workload, strategy = resolved.cluster, plan.workload, plan.strategy
    try:
        if key == "bandwidth":
            cluster = _faster(cluster, value)
        elif key == "global_batch":
            workload = workload.with_job(global_batch=round(value))
        else:
            strategy = _microbatch(strategy, round(value))
        report = _simulate(resolved, cluster, workload, strategy)
    except ExplorerError as error:
        return Row(value=value, report=None, problem=str(error))
    return Row(value=value, report=report)


def _simulate(resolved: Resolved, cluster: Cluster, workload: Workload, strategy: Strategy) -> Report:
    return simulate(resolved.graph, cluster, workload, strategy)


def _microbatch(strategy: Strategy, samples: int) -> Strategy:
    job = strategy.job
    return strategy.with_job(
        job.with_stages(replace(stage, microbatch_samples=samples) for stage in job.stages)
    )


def _faster(cluster: Cluster, factor: float) -> Cluster:
    """The cluster with the bandwidth of every link times a factor."""
    levels = tuple(
        replace(
            level,
            bandwidth_bytes_per_s=level.bandwidth_bytes_per_s * factor,
            device_bytes_per_s=level.device_bytes_per_s * factor,
            uplink_bytes_per_s=level.uplink_bytes_per_s * factor,
        )
        for level in cluster.levels
    )
    links = tuple(
        replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * factor) for link in cluster.links
    )
    shared = tuple((name, capacity * factor) for name, capacity in cluster.shared)
    return replace(cluster, levels=levels, links=links, shared=shared)
