"""Peak memory of a run: what it says of the memory that a process takes besides its tensors.

Tensors are counted, not measured: nothing in a profile changes them. What a process takes besides is linear
in two numbers, bytes r of its context and buffers (`reserved_bytes`) and the share c of its tensors that
the allocator keeps (`cached_fraction`):

    measured = tensors + c K + r        K: bytes cached more for every unit of c, by a difference

so both follow in closed form from their priors (normal, as far as they are known) and a scatter of the
tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.base.units import GIB
from explorer.calibrate.measured_runs import ALLOCATED, PROCESS, MeasuredRun, predicted_memory
from explorer.calibrate.numbers import source_of, with_sources
from explorer.calibrate.posterior import Z, covariance, solve
from explorer.cluster import Cluster, DeviceKind, Source
from explorer.simulation.report import Report

_TENSORS = 0.02  # scatter of counted tensors: alignment, and what a framework keeps for itself
_LEAST_RESERVED, _CACHED = 0.5 * GIB, 0.1  # deviations of the two before, at least
_STEP = 0.01  # of a share, for differences


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakChange:
    """Memory of one run before and after."""

    run: MeasuredRun
    """The run."""
    before_bytes: float
    """Predicted by the profile as it was."""
    after_bytes: float
    """Predicted by the corrected profile."""


def calibrated_memory(
    cluster: Cluster, runs: Sequence[MeasuredRun], reports: Sequence[Report]
) -> tuple[Cluster, tuple[PeakChange, ...]]:
    """Return the cluster whose processes take what runs measured, and what it changes.

    Args:
        cluster: the cluster.
        runs: the runs; those without memory say nothing.
        reports: what the cluster predicts of each.

    Raises:
        ExplorerError: a run cannot be simulated on the corrected cluster.
    """
    seen = [(run, report) for run, report in zip(runs, reports, strict=True) if run.memory_bytes]
    told = [(run, report) for run, report in seen if run.memory_of != ALLOCATED]
    kinds = {cluster.kind_of(run.strategy.jobs[0].devices[0]).name for run, _ in told}
    made = cluster
    for name in sorted(kinds):
        (kind,) = (item for item in cluster.device_kinds if item.name == name)
        own = [(r, rep) for r, rep in told if cluster.kind_of(r.strategy.jobs[0].devices[0]).name == name]
        made = _with_kind(made, kind, own)
    changes = [
        PeakChange(
            run=run,
            before_bytes=predicted_memory(report, run.memory_of),
            after_bytes=predicted_memory(run.report(made), run.memory_of),
        )
        for run, report in seen
    ]
    return made, tuple(changes)


def _with_kind(cluster: Cluster, kind: DeviceKind, runs: Sequence[tuple[MeasuredRun, Report]]) -> Cluster:
    """Return the cluster with reserved bytes and cached share of one kind at their posterior mean."""
    own = source_of(kind.sources, "reserved_bytes", "*")
    prior = np.array([max(_LEAST_RESERVED, kind.reserved_bytes * (own.band if own else 0.5) / Z), _CACHED])
    rows, left, sd = [], [], []
    more = _with_values(cluster, kind, kind.reserved_bytes, kind.software.cached_fraction + _STEP)
    for run, report in runs:
        here = predicted_memory(report, run.memory_of)
        cached = (predicted_memory(run.report(more), run.memory_of) - here) / _STEP
        rows.append([1.0 if run.memory_of == PROCESS else 0.0, cached])
        left.append(run.memory_bytes - here)
        sd.append(_TENSORS * max(report.allocated_memory_bytes))
    slopes, scatter = np.array(rows) * prior, np.array(sd)
    known = np.ones(2)  # in units of what was known before, since bytes and shares differ by 1e10
    step = prior * solve(slopes, np.array(left), scatter, np.zeros(2), known)
    spread = prior * np.sqrt(np.diag(covariance(slopes, scatter, known)))
    reserved = max(0.0, kind.reserved_bytes + float(step[0]))
    kept = min(1.0, max(0.0, kind.software.cached_fraction + float(step[1])))
    names = ", ".join(run.name for run, _ in runs)
    sources = [
        (kind.name, Source(
            key=key, how="fitted", reference=f"calibrated with the peak of memory of {names}",
            band=Z * float(deviation) / value if value > 0 else 0.0,
        ))
        for key, value, deviation in (
            ("reserved_bytes", reserved, spread[0]), ("cached_fraction", kept, spread[1])
        )
    ]  # fmt: skip
    return with_sources(_with_values(cluster, kind, reserved, kept), sources)


def _with_values(cluster: Cluster, kind: DeviceKind, reserved: float, cached: float) -> Cluster:
    software = replace(kind.software, cached_fraction=cached)
    changed = replace(kind, reserved_bytes=reserved, software=software)
    kinds = tuple(changed if item.name == kind.name else item for item in cluster.device_kinds)
    return replace(cluster, device_kinds=kinds)
