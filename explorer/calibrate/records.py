"""Records: lines of a history from runs and from traces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from explorer.calibrate import history
from explorer.calibrate.estimate import Evidence
from explorer.calibrate.history import TOO_NOISY, Entry
from explorer.cluster import Cluster
from explorer.plan import Resolved, fingerprint

WITHOUT_VERDICT = (TOO_NOISY, "wrong numbers")
"""Verdicts of runs that teach nothing about predictions."""


def run_record(
    data: Mapping[str, Any], resolved: Resolved | None = None, *, date: str = "", noisy: bool = False
) -> Entry | None:
    """Make the line of a run.

    Args:
        data: the output of `explorer validate --json`, or the fields of its comparison.
        resolved: its plan, for the fingerprints.
        date: the date, in the caller's words.
        noisy: whether a run on a machine that was too busy also gets a line, which says so.

    Returns:
        The line; None if the run has no verdict or lacks its figures.
    """
    parts, verdict = data.get("parts"), data.get("verdict")
    useless = verdict in WITHOUT_VERDICT and not (noisy and verdict == TOO_NOISY)
    if useless or not isinstance(parts, Mapping):
        return None
    sides = []
    for side in ("predicted", "measured"):
        totals, pieces = data.get(side), parts.get(side)
        if not isinstance(totals, Mapping) or not isinstance(pieces, Mapping):
            return None
        named = {key: totals.get(key) for key in ("step_time_s", "speedup")}
        named |= {f"{key}_s": value for key, value in pieces.items()}
        sides.append({key: float(value) for key, value in named.items() if _is_number(value)})
    machine = data.get("machine") or {}
    engine = str(data.get("engine", ""))
    entry = Entry(
        # the duration of a dry run says nothing of any machine's compute
        machine="dry run" if engine == "dry" else str(machine.get("device", "unknown")),
        predicted=sides[0],
        measured=sides[1],
        source=f"validate {engine}".strip(),
        predicted_from="calibration" if machine else "profile",
        verdict=verdict if isinstance(verdict, str) else "",
        date=date,
    )
    return entry if resolved is None else with_fingerprints(entry, resolved)


def with_fingerprints(entry: Entry, resolved: Resolved) -> Entry:
    """Add the fingerprints of a plan to an entry."""
    return replace(
        entry,
        model="+".join(fingerprint(graph) for graph in resolved.graphs.values()),
        cluster=fingerprint(resolved.cluster),
        workload=fingerprint(resolved.plan.workload),
        strategy=fingerprint(resolved.plan.strategy),
    )


def evidence_record(evidence: Evidence, cluster: Cluster, *, date: str = "") -> Entry:
    """Make the line of a trace: seconds of what it timed, predicted by the profile and measured."""
    return Entry(
        machine=history.machine_of(cluster),
        predicted={"operators_s": sum(item.predict(cluster) for item in evidence.observations)},
        measured={"operators_s": sum(item.measured_s for item in evidence.observations)},
        cluster=fingerprint(cluster),
        source=f"trace {evidence.name}",
        date=date,
    )


def add(path: Path, entry: Entry) -> bool:
    """Add a run to a history unless it is there with whatever date; tell whether it was added.

    Raises:
        InputError: the file cannot be read or written.
    """
    if path.exists():
        undated = replace(entry, date="")
        if any(replace(item, date="") == undated for item in history.read(path).entries):
            return False
    history.append(path, entry)
    return True


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
