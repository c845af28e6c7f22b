"""Correct: from what a run measured of its own machine to the numbers of a cluster profile, or a refusal.

A run on this machine can tell of this machine only. So a profile is corrected where its devices are what
the ranks ran on, by `explorer.calibrate`, and every number that stays is named with the reason. Nothing is
carried over from a processor to an accelerator.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.calibrate.devices import same_device, used_kinds
from explorer.calibrate.estimate import EstimatedCluster, estimate
from explorer.calibrate.numbers import Number
from explorer.calibrate.runs import machine_evidence
from explorer.cluster import Cluster
from explorer.run.calibrate import Calibrated, machine_times
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
    """In the profile."""
    after: float
    """As measured."""
    quantity: str
    """`bytes_per_s`, `seconds` or `fraction`."""
    band: float = 0.0
    """Half-width of the 80 % band of what is measured; 0 where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What a run would change in a cluster."""

    cluster: Cluster | None
    """The corrected cluster; None where nothing can be said of it."""
    changes: tuple[Change, ...] = ()
    """In what."""
    kept: tuple[str, ...] = ()
    """What stays as it is, and why."""
    refusal: str = ""
    """Why nothing can be said, with the way out; empty where something can."""


def correct(cluster: Cluster, job: Job, known: Calibrated, *, device: str) -> Correction:
    """The cluster with every number corrected that the run can speak for.

    Args:
        cluster: the profile of the plan.
        job: its workload.
        known: what the run measured.
        device: what the ranks ran on, as they name it (`cpu`, `NVIDIA A100-SXM4-80GB`).
    """
    foreign = [kind.name for kind in used_kinds(cluster) if not same_device(kind.name, device)]
    if foreign:
        what = "processors" if device == "cpu" else device
        return Correction(
            cluster=None,
            refusal=(
                f"The ranks ran on {what} of this machine, not on {', '.join(foreign)}: seconds and"
                f" bandwidths of the one say nothing of the other, so {cluster.name} stays as it is. What"
                " carries over is what is listed as validated. To calibrate, run this workbench on those"
                " devices."
            ),
        )
    compute = job.precision == "fp32"
    evidence = machine_evidence(machine_times(known, device), cluster, name=_NAME, compute=compute)
    kept = () if compute else (f"compute: the run computes in fp32, the plan in {job.precision}",)
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
    """Link or class of operation, and which of its numbers."""
    return _WORDS.get(number.name, number.name).format(owner=number.owner)
