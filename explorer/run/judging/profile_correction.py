"""Correction: from what a run measured of its own machine to the numbers of a cluster profile, or a refusal.

A run shows only its own machine. So `explorer.calibrate` corrects a profile if its devices are those the
ranks ran on, and every number that stays is named with the reason. Nothing is carried over from a processor
to an accelerator.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.calibrate.devices import same_device, used_kinds
from explorer.calibrate.estimate import EstimatedCluster, estimate
from explorer.calibrate.numbers import Number
from explorer.calibrate.runs import machine_evidence
from explorer.cluster import Cluster
from explorer.run.judging.calibrate import Calibrated, machine_times
from explorer.workload import Job

__all__ = ["Change", "Correction", "correct", "same_device", "used_kinds"]

_NAME = "the timing of a run"
_WORDS = {
    "bandwidth_bytes_per_s": "{owner}", "latency_s": "{owner} latency",
    "collective_efficiency": "{owner} collectives", "collective_overhead_s": "{owner} start of a collective",
    "launch_overhead_s": "launch of a kernel", "host_issue_s": "issue of a kernel",
    "action_overhead_s": "overhead of an action",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One number that is corrected."""

    what: str
    """Link or class of operation, and which of its numbers."""
    before: float
    """Value in the profile."""
    after: float
    """Value as measured."""
    quantity: str
    """`bytes_per_s`, `seconds` or `fraction`."""
    band: float = 0.0
    """Half-width of the 80 % band of the measurement; 0 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Changes that a run would make to a cluster."""

    cluster: Cluster | None
    """The corrected cluster; None if the run shows nothing about it."""
    changes: tuple[Change, ...] = ()
    """Numbers that change."""
    kept: tuple[str, ...] = ()
    """Numbers that stay, and why."""
    refusal: str = ""
    """Reason why the run shows nothing about the cluster, with the way out; empty if it does."""


def correct(cluster: Cluster, job: Job, known: Calibrated, *, device: str) -> Correction:
    """Correct every number of the cluster about which the run shows something.

    Args:
        cluster: the profile of the plan.
        job: the job that was run.
        known: the measurements of the run.
        device: the device the ranks ran on, as they name it (`cpu`, `NVIDIA A100-SXM4-80GB`).
    """
    foreign = [kind.name for kind in used_kinds(cluster) if not same_device(kind.name, device)]
    if foreign:
        what = "processors" if device == "cpu" else device
        return Correction(
            cluster=None,
            refusal=(
                f"The ranks ran on {what} of this machine, not on {', '.join(foreign)}: seconds and"
                f" bandwidths of the one say nothing about the other, so {cluster.name} stays as it is. What"
                " carries over is what is listed as validated. To calibrate, run this workbench on those"
                " devices."
            ),
        )
    compute = job.precision == known.precision
    evidence = machine_evidence(machine_times(known, device), cluster, name=_NAME, compute=compute)
    kept = (
        () if compute else (f"compute: the run computes in {known.precision}, the plan in {job.precision}",)
    )
    if not evidence.observations:
        return Correction(cluster=cluster, kept=(*kept, *evidence.remarks))
    found = estimate(cluster, [evidence])
    return Correction(cluster=found.cluster, changes=_changes(found), kept=(*kept, *found.kept))


def _changes(found: EstimatedCluster) -> tuple[Change, ...]:
    return tuple(
        Change(
            what=_what(item.number), before=item.number.value, after=item.after,
            quantity=item.number.quantity, band=item.band,
        )
        for item in found.changes
    )  # fmt: skip


def _what(number: Number) -> str:
    """Name the link or class of operation, and which of its numbers."""
    return _WORDS.get(number.name, number.name).format(owner=number.owner)
