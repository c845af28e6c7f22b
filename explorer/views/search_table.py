"""What searches have found, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from explorer.report import Report
from explorer.search import Progress


def search_rows(runs: Sequence[Progress], *, yours: Report | None = None) -> list[dict[str, Any]]:
    """One row per searcher, fastest first, and one for the strategy on the board.

    Keys: searcher, label, step_time_s, peak_bytes, change (against yours), gap (to the bound), bound,
    evaluations, wall_s, optimal; None where there is nothing to say.
    """
    rows = [_row(run, yours) for run in runs]
    bounds = [run.lower_bound or 0.0 for run in runs_with_bound(runs)]
    if yours is not None:
        bound = max(bounds, default=None)
        rows.append(
            {
                "searcher": "yours",
                "label": "on the board",
                "step_time_s": yours.step_time_s,
                "peak_bytes": max(yours.peak_memory_bytes),
                "change": 0.0,
                "gap": yours.step_time_s / bound - 1 if bound else None,
                "bound": None,
                "evaluations": None,
                "wall_s": None,
                "optimal": False,
            }
        )
    return sorted(rows, key=lambda row: (row["step_time_s"] is None, row["step_time_s"] or 0.0))


def runs_with_bound(runs: Iterable[Progress]) -> Sequence[Progress]:
    """Those that have a lower bound above 0 on time."""
    return [run for run in runs if run.lower_bound and run.objective in ("time", "frontier")]


def _row(run: Progress, yours: Report | None) -> dict[str, Any]:
    best = run.best
    step = best.report.step_time_s if best else None
    bound = run.lower_bound if run in runs_with_bound([run]) else None
    return {
        "searcher": run.searcher,
        "label": best.label if best else "nothing that fits yet",
        "step_time_s": step,
        "peak_bytes": max(best.report.peak_memory_bytes) if best else None,
        "change": step / yours.step_time_s - 1 if step and yours else None,
        "gap": step / bound - 1 if step and bound else None,
        "bound": run.bound or None,
        "evaluations": run.evaluations,
        "wall_s": run.wall_s,
        "optimal": run.optimal,
    }


def frontier_points(runs: Iterable[Progress]) -> list[dict[str, Any]]:
    """Non-dominated strategies of all searches, by time: what a chart of time against memory draws."""
    return [
        {
            "searcher": run.searcher,
            "label": item.label,
            "step_time_s": item.report.step_time_s,
            "peak_bytes": max(item.report.peak_memory_bytes),
        }
        for run in runs
        for item in run.frontier
    ]
