"""Results of searches as rows: the leaderboard with the user's strategy among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.cluster.memory_room import MAY_FIT
from explorer.search import REFUSED, Candidate, Progress
from explorer.search.problem import synchronous

from .strategy_words import strategy_words

YOURS = "yours"
"""Id of the row of the strategy on the board."""
OPTIMAL, SAME = "optimal", 1e-9
"""Answer of a searcher that has proved its own; relative difference up to which two values are one."""
WAITING, RUNNING = "waiting", "running"
BROKEN = {"failed": "failed", "unable": "cannot be done"}
"""States of searches that ended with an error, in words."""
_ANSWERS = {"running": "best so far", "timed": "best so far", "ended": "ended", "stopped": "stopped",
            "failed": "failed", "unable": "cannot", "waiting": "waiting"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRow:
    """A searcher, or the strategy on the board, in the leaderboard."""

    searcher: str
    """Name of the searcher; `yours` for the board."""
    space: str = ""
    """Space it chooses from, in a few words."""
    state: str = "ended"
    """State: waiting, running, ended, timed (by its budget), stopped, failed, or unable to do it."""
    run: Progress | None = None
    """Its last progress; None if there is none yet."""
    own: bool = True
    """Whether that progress is of the search asked for last."""
    error: str = ""
    """Reason why it failed, or what it cannot do."""
    value: float | None = None
    """Objective value of its best, as judged now; None if that does not fit the limits asked for now."""
    releases: str = ""
    """Pins and locks that loading its best would release, in words."""


def leaderboard_rows(
    rows: Sequence[SearchRow],
    *,
    yours: Candidate | None,
    bound_s: float | None,
    held: str = "",
) -> list[dict[str, Any]]:
    """Return one row per searcher and one for the strategy on the board, as `shapes.LeaderRow`.

    The best come first; searchers still at work or waiting stand below, so no row moves while it is being
    read.

    Args:
        rows: searchers, in the order they were started.
        yours: the strategy on the board; its `value` is infinite if it does not fit.
        bound_s: lower bound of every step time, the same for all; None if the objective is not time.
        held: pins and locks, in words ("3 pins"), for a searcher that found nothing that respects them.
    """
    done = [_row(row, yours, bound_s, held) for row in rows if row.state not in (WAITING, RUNNING)]
    open_rows = [_row(row, yours, bound_s, held) for row in rows if row.state in (WAITING, RUNNING)]
    if yours is not None:
        done.append(_your_row(yours, bound_s))
    least = min((row["value"] for row in done if row["value"] is not None), default=0.0)
    for row in done:
        if row["answer"] == OPTIMAL and row["value"] is not None and row["value"] > least * (1 + SAME):
            row["answer"] = "best of its space"  # another searcher looked farther
    done.sort(key=lambda row: (row["step_s"] is None, row["value"] is None, row["value"] or 0.0))
    return done + open_rows


def _your_row(yours: Candidate, bound_s: float | None) -> dict[str, Any]:
    fits = yours.value < float("inf")
    step = yours.outcome.step_time_s
    return _plain(
        id=YOURS, searcher=YOURS, space=yours.label, label=strategy_words(yours.strategy.job),
        value=yours.value if fits else None, step_s=step, peak_bytes=yours.outcome.peak_memory_bytes,
        gap=step / bound_s - 1 if bound_s else None,
        answer="" if fits else "too slow" if too_slow(yours) else "does not fit",
        level=None if fits else "bad", note=MAY_FIT if fits and yours.outcome.may_fit else "",
    )  # fmt: skip


def too_slow(found: Candidate) -> bool:
    """Tell whether a candidate fits and is short of the throughput asked for."""
    return bool(found.outcome.short_samples_per_s) and not found.over_bytes


def _row(row: SearchRow, yours: Candidate | None, bound_s: float | None, held: str) -> dict[str, Any]:
    run, best = row.run, row.run.best if row.run else None
    step = best.outcome.step_time_s if best else None
    return _plain(
        id=row.searcher, searcher=row.searcher, space=row.space, label=_label(row, held),
        detail=_detail(run), value=row.value, step_s=step,
        peak_bytes=best.outcome.peak_memory_bytes if best else None,
        change=_change(row, step, yours, timely=bound_s is not None),
        gap=step / bound_s - 1 if step and bound_s else None,
        answer=_answer(row), wall_s=run.wall_s if run and row.state != WAITING and row.own else None,
        evaluations=run.evaluations if run else 0,
        level="bad" if row.state == "failed" else "busy" if row.state == RUNNING else None,
        loadable=best is not None, note=_note(row),
    )  # fmt: skip


def _change(row: SearchRow, step_s: float | None, yours: Candidate | None, *, timely: bool) -> float | None:
    """Compare the objective with that of yours; if one of them does not fit, compare step times."""
    if yours is None or step_s is None:
        return None
    if row.value is not None and 0 < yours.value < float("inf"):
        return row.value / yours.value - 1
    return step_s / yours.outcome.step_time_s - 1 if timely else None


def _detail(run: Progress | None) -> str:
    """Return the label of the best, the part of the search that found it, and its gap to the bound."""
    if run is None or run.best is None:
        return ""
    text = run.best.label + (f"; found by {run.best.finder}" if run.best.finder else "")
    if run.gap and run.bound != run.least_name:
        text += f"; {run.gap:.0%} above the bound of {run.bound}"
    return text


def _plain(**fields: Any) -> dict[str, Any]:
    known = {"detail": "", "change": None, "wall_s": None, "evaluations": 0, "loadable": False, "note": ""}
    return known | fields


def _label(row: SearchRow, held: str) -> str:
    """Describe the best strategy in words, or say why there is none."""
    run = row.run
    if run is not None and run.best is not None:
        return strategy_words(run.best.strategy.job)
    if row.state in BROKEN:
        return row.error
    if row.state == WAITING or run is None:
        return "" if row.state == WAITING else "nothing yet" if row.state == RUNNING else "nothing"
    if held and not run.evaluations and run.details.get(REFUSED):
        return f"no strategy that respects {held}"
    return "nothing that fits" + (" yet" if row.state == RUNNING else "")


def _answer(row: SearchRow) -> str:
    run = row.run
    if row.state in ("ended", "timed") and run is not None:
        if run.optimal:
            return OPTIMAL
        if run.best is None:
            return "ended" if row.state == "ended" else "time is up"
    if row.state == RUNNING and (run is None or run.best is None or not row.own):
        return "searching"
    return _ANSWERS[row.state]


def _note(row: SearchRow) -> str:
    """Say what else users must know before they load it."""
    run, parts = row.run, []
    if run is not None and run.best is not None:
        if row.state in BROKEN:
            parts.append(f"result of the search before; this one {BROKEN[row.state]}: {row.error}")
        elif not row.own:
            parts.append("result of the search before")
        if run.best.label == "start":
            parts.append("nothing better than the start")
        if not synchronous(run.best.strategy.job):
            parts.append("trains on older weights")
        if row.value is not None and run.best.outcome.may_fit:
            parts.append(MAY_FIT)
        if row.value is None:
            parts.append("does not fit the limits asked for now")
        if row.releases:
            parts.append(f"loading it releases {row.releases}")
    return "; ".join(parts)
