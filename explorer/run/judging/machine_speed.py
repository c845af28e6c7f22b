"""Machine speed: a processor's profile as fast as the machine is now.

Cores that others share, or whose clock depends on heat, change their speed from minute to minute: on one
virtual machine the same layers took 30 % more an hour later. A profile that is made once and kept cannot know
that, and it says nothing of the cost model. So a run times, beside what it validates, a few of the kernels
that the profile was made from, and prices by a profile whose peaks, bandwidth and overhead of an operator are
as much lower or higher as these kernels take now than they did. Nothing of the model is timed for it. On
accelerators nothing is: they compute for nobody else.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from explorer.cluster import Cluster, DeviceKind
from explorer.costs.efficiency import curve_of, effective_size
from explorer.run.spec import Survey
from explorer.workload import OPTIMIZERS

PRODUCTS = ((512, 512, 512), (512, 1024, 256), (256, 256, 1024))
MOVED_BYTES, UPDATED = 1 << 21, 1 << 18
"""Sizes at which profiles of processors are measured, where an operator's own overhead counts little."""


class Slowdowns(NamedTuple):
    """Seconds now over those when a profile was made, by what binds."""

    products: float = 1.0
    """Matrix products."""
    memory: float = 1.0
    """What only moves memory, and updates."""
    operators: float = 1.0
    """Operators of a block on a few elements."""


def speed_survey(profile: Cluster | None, precision: str) -> Survey | None:
    """Return what a run times to tell how fast its machine is now; None where no profile asks for it.

    Args:
        profile: the profile of the machine.
        precision: data type of compute.
    """
    if profile is None or any(kind.name != "cpu" for kind in profile.device_kinds):
        return None
    return Survey(precisions=(precision,), products=PRODUCTS, moved_bytes=(MOVED_BYTES,), updated=(UPDATED,))


def slowdowns_since(profile: Cluster, rows: Iterable[Mapping[str, Any]]) -> Slowdowns:
    """Return how much longer kernels of a profile take now than when it was made.

    Args:
        profile: the profile of the machine.
        rows: timings of all ranks and rounds (`Surveyor.measure`); what none timed counts as it was.
    """
    times: dict[tuple[str, str, tuple[int, ...]], list[float]] = defaultdict(list)
    for row in rows:
        times[row["what"], row["precision"], tuple(row["size"])].append(row["seconds"])
    logs: dict[str, list[float]] = defaultdict(list)
    for (what, precision, size), seconds in times.items():
        field, known = _profiled(profile.device_kinds[0], what, precision, size)
        if known:
            logs[field].append(math.log(median(seconds) / known))
    return Slowdowns(**{field: math.exp(fmean(found)) for field, found in logs.items()})


def _profiled(kind: DeviceKind, what: str, precision: str, size: tuple[int, ...]) -> tuple[str, float]:
    """Return which of `Slowdowns` a kernel tells, and the seconds it took for a profile; 0 for others."""
    if what == "operator":
        return "operators", kind.launch_overhead_s
    if what == "product" and precision in dict(kind.peak_flops_per_s):
        return "products", _by_curve(kind, "matmul", 2.0 * math.prod(size), kind.peak(precision))
    if what in ("memory", "update"):
        moved = size[0] * (OPTIMIZERS["adam"].moved_bytes if what == "update" else 1.0)
        return "memory", _by_curve(kind, what, moved, kind.memory_bandwidth_bytes_per_s)
    return "", 0.0


def _by_curve(kind: DeviceKind, name: str, size: float, peak: float) -> float:
    return float(effective_size(curve_of(kind, name), np.array([size]))[0]) / peak


def at_present(profile: Cluster, slowdowns: Slowdowns) -> Cluster:
    """Return a profile as fast as its machine is now."""
    kinds = tuple(
        replace(
            kind,
            peak_flops_per_s=tuple((name, peak / slowdowns.products) for name, peak in kind.peak_flops_per_s),
            memory_bandwidth_bytes_per_s=kind.memory_bandwidth_bytes_per_s / slowdowns.memory,
            launch_overhead_s=kind.launch_overhead_s * slowdowns.operators,
        )
        for kind in profile.device_kinds
    )
    return replace(profile, device_kinds=kinds)


__all__ = ["Slowdowns", "at_present", "slowdowns_since", "speed_survey"]
