"""Calibrating: what a run would change in the cluster, in advance; then the corrected cluster as an edit.

A plan names its cluster by reference. So a corrected cluster becomes a profile file next to the notebook, and
plans, exports and sessions that name it can load it again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.views.run_view import calibration_view
from widgets.session import Point, make_point

from .ended import Done

if TYPE_CHECKING:
    from explorer.cluster import Cluster
    from explorer.run.judging.profile_correction import Correction


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Changes that a run would make to the cluster of a state."""

    correction: Correction
    """Its words and numbers, or the reason why there are none."""
    cluster: Cluster
    """The cluster it corrects."""
    point: Point | None
    """The state on the corrected cluster, named after a file that is not yet written; None if refused."""

    def view(self, now: Point) -> dict[str, Any]:
        """Return the part `calibration` of `RunView.view`."""
        return calibration_view(
            self.correction,
            step_s=self.point.report.step_time_s if self.point else None,
            now_s=now.report.step_time_s,
            name=self.point.inputs.cluster_name if self.point else "",
        )


def calibration_of(now: Point, done: Done, folder: Path) -> Calibration | None:
    """Return what the run would change for a state; None if it measured nothing (compute was slept).

    Raises:
        ExplorerError: the plan cannot be simulated on the corrected cluster.
    """
    from explorer.run.judging.compare import TOO_NOISY, WRONG
    from explorer.run.judging.profile_correction import Correction, correct

    if done.known is None:
        return None
    cluster = now.inputs.cluster
    if done.comparison.verdict in (TOO_NOISY, WRONG):
        why = (
            "the machine was too busy"
            if done.comparison.verdict == TOO_NOISY
            else "it computed wrong numbers"
        )
        refused = Correction(
            cluster=None,
            refusal=f"This run cannot calibrate anything: {why}. Run again when the machine is less busy.",
        )
        return Calibration(correction=refused, cluster=cluster, point=None)
    found = correct(cluster, now.inputs.job, done.known, device=done.device)
    if found.cluster is None:
        return Calibration(correction=found, cluster=cluster, point=None)
    name = free_name(found.cluster, folder)
    inputs = replace(now.inputs, cluster=found.cluster, cluster_name=name)
    note = f"calibrated by the run of {done.at}"
    point = make_point(inputs, now.strategy, now.groups, note=note, maker="calibration")
    return Calibration(correction=found, cluster=cluster, point=point)


def apply(found: Calibration, folder: Path) -> Point:
    """Write the corrected profile and return the state that uses it.

    Raises:
        InputError: there is nothing to apply, or the folder cannot be written.
    """
    if found.point is None or found.correction.cluster is None:
        raise InputError(found.correction.refusal or "there is nothing to calibrate", key="calibrate")
    path = folder / found.point.inputs.cluster_name
    if not path.exists():
        save_cluster(found.correction.cluster, path)
    return found.point


def free_name(cluster: Cluster, folder: Path) -> str:
    """Return a file name for a cluster: of the file that holds it already, else a free one; never overwrite
    one.
    """
    stem = re.sub(r"[^\w.-]+", "-", cluster.name).strip("-.") or "cluster"
    for number in range(1, 1000):
        name = f"{stem}.yaml" if number == 1 else f"{stem}-{number}.yaml"
        path = folder / name
        if not path.exists() or _holds(path, cluster):
            return name
    raise InputError(f"{folder} holds 999 calibrations of {cluster.name}", key="calibrate", allowed="fewer")


def _holds(path: Path, cluster: Cluster) -> bool:
    try:
        return load_cluster(path) == cluster
    except InputError:
        return False  # a file of another kind: it is left alone
