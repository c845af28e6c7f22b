"""Rank speeds: cores of one machine differ while others use it, and each rank runs at its own speed.

Layers are timed on all ranks at once, and averaged: more measurements of the same thing. What a core did
faster or slower than that average stays, as one factor for each rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from explorer.passes.timing import FloatArray
from explorer.run.cases.build import Prepared


def rank_speeds(rows: Iterable[Iterable[Mapping[str, Any]]]) -> tuple[float, ...]:
    """Return the seconds of each rank over the mean of all, from what ranks and rounds timed.

    >>> rank_speeds([[{"units": {"1": [[1.0, 2.0]]}}], [{"units": {"1": [[2.0, 3.0]]}}]])
    (0.75, 1.25)
    """
    taken = [fmean(_unit_seconds(row) for row in rank) for rank in rows]
    mean = fmean(taken)
    return tuple(seconds / mean if mean else 1.0 for seconds in taken)


def _unit_seconds(row: Mapping[str, Any]) -> float:
    return sum(sum(map(sum, pairs)) for pairs in (*row["units"].values(), *row.get("cuts", ())))


def lane_speeds(prepared: Prepared, speeds: Sequence[float]) -> FloatArray:
    """Return by task the factor of its rank; 1 for transfers and exchanges.

    Args:
        prepared: the case, with a rank for each lane.
        speeds: by rank, its seconds over the mean; a case that every rank runs for itself ends with the
            slowest.
    """
    program = prepared.program
    found = np.ones(program.size)
    if len(speeds) >= len(program.programs):
        for lane, tasks in enumerate(program.programs):
            found[tasks] = max(speeds) if prepared.case.everywhere else speeds[lane]
    return found


__all__ = ["lane_speeds", "rank_speeds"]
