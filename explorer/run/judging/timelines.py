"""What the ranks of a run did when, beside what was predicted: the same tasks, in the same seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.run.cases.build import Prepared
from explorer.tasks.program import Program

Rows = Sequence[Sequence[Mapping[str, Any]]]
"""Per rank and round, its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeline:
    """Predicted and measured times of one round of a run."""

    program: Program
    """Its tasks; a lane of it is a rank."""
    predicted_s: npt.NDArray[np.float64]
    """Start and end of every task, shape (tasks, 2)."""
    measured_s: Mapping[int, tuple[float, float]]
    """Start and end of every compute task, by task."""
    round: int
    """The round: of the measured ones that with the median end."""
    rounds: int
    """How many were measured."""


def run_timeline(prepared: Prepared, rows: Rows, *, scale: float = 1.0) -> RunTimeline:
    """Return the times of the round that ended at the median of all.

    Args:
        prepared: the case that was run, with its prediction.
        rows: per rank and round, its record with stamps.
        scale: seconds to be shown over seconds of the run (dry runs are stretched).
    """
    rounds = min(len(rank) for rank in rows)
    ends = [max(stamp[3] for rank in rows for stamp in rank[number]["stamps"]) for number in range(rounds)]
    chosen = ends.index(median_low(ends))
    stamps = [stamp for rank in rows for stamp in rank[chosen]["stamps"]]
    timing = prepared.timing
    return RunTimeline(
        program=prepared.program,
        predicted_s=np.stack([timing.start_s, timing.end_s - np.array(prepared.after_s or 0.0)], axis=1),
        measured_s={int(stamp[0]): (stamp[2] * scale, stamp[3] * scale) for stamp in stamps},
        round=chosen,
        rounds=rounds,
    )
