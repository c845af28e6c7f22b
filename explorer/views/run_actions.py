"""Actions of a run by stage: predicted and measured seconds of each, and what the machine's profile says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explorer.actions import RECOMPUTE

if TYPE_CHECKING:
    from explorer.run import Comparison

WORDS = {
    "F": "forward",
    RECOMPUTE: "forward again",
    "B": "backward",
    "I": "input gradient",
    "W": "weight gradient",
    "U": "update",
    "transfers": "waits for transfers, a step",
}
"""Names of actions in a table."""


def action_rows(found: Comparison) -> list[dict[str, Any]]:
    """Return the actions of a run in the order of its stages; none where none was timed.

    Each has its `stage` (those of the plan that it stands for), its `name`, how often it was timed, predicted
    and measured seconds with the `error` of the prediction, the seconds that the machine's profile says of
    it, and their error by the clock that profiles are judged by.
    """
    told = _by_profile(found)
    rows = []
    for item in found.actions:
        profile_s, profile_error = told.get((item.stage, item.action), (None, None))
        rows.append(
            {
                "stage": _stage_name(found, item.stage),
                "name": WORDS.get(item.action, item.action),
                "action": item.action,
                "count": item.count,
                "predicted_s": item.predicted_s,
                "measured_s": item.measured_s,
                "error": _error(item.predicted_s, item.measured_s),
                "profile_s": profile_s,
                "profile_error": profile_error,
            }
        )
    return rows


def _stage_name(found: Comparison, stage: int) -> str:
    """Name the stages of the plan for which a stage of the run stands."""
    stands_for = found.stages[stage].stages if stage < len(found.stages) else (stage,)
    if len(stands_for) == 1:
        return f"stage {stands_for[0]}"
    return f"stages {', '.join(map(str, stands_for))}"


def _by_profile(found: Comparison) -> dict[tuple[int, str], tuple[float, float | None]]:
    """Return by stage and action the seconds that a profile says, collectives in a lane included, and their
    error.
    """
    if found.costs is None:
        return {}
    return {
        (item.stage, item.action): (
            sum(item.predicted_s), _error(sum(item.predicted_s), sum(item.measured_s)),
        )
        for item in found.costs.actions
    }  # fmt: skip


def _error(predicted: float, measured: float) -> float | None:
    return predicted / measured - 1 if predicted and measured else None
