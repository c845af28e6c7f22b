"""Words on a calibration by steps, for the command line and the page."""

from __future__ import annotations

from explorer.base.units import format_seconds
from explorer.calibrate.next_run import NextRun
from explorer.calibrate.steps import CalibratedSteps, StepChange

MOST_TOLD = 3
"""Numbers that are told; the others changed less."""
_LEAST_TOLD = 0.003  # of a factor, which rounds to nothing


def change_sentences(found: CalibratedSteps) -> list[str]:
    """Say in words what changed most, at most `MOST_TOLD` sentences; one that says so if nothing did."""
    told = [change for change in found.changes if abs(change.factor - 1) >= _LEAST_TOLD and _learned(change)]
    told = told[:MOST_TOLD]
    if not told:
        return ["The profile was right: no number changes."]
    return [_sentence(change) for change in told]


def _learned(change: StepChange) -> bool:
    """Tell whether a run narrowed what is known of a number by more than rounding."""
    return change.band < 0.97 * change.band_before


def _sentence(change: StepChange) -> str:
    by = change.factor - 1
    way = "slower" if by > 0 else "faster"
    share = by if by > 0 else 1 / change.factor - 1
    return (
        f"{change.number.title[0].upper()}{change.number.title[1:]}: {share:.1%} {way}"
        f" (\N{PLUS-MINUS SIGN}{change.band_before:.0%} \N{RIGHTWARDS ARROW}"
        f" \N{PLUS-MINUS SIGN}{change.band:.0%})."
    )


def next_sentence(further: NextRun | None) -> str:
    """Say which run would tell most."""
    if further is None:
        return "No further run is suggested: the plan has no neighbour that fits."
    if not further.worth:
        return (
            f"No further run would tell much: of {further.candidates} neighbours none narrows the"
            f" \N{PLUS-MINUS SIGN}{further.band:.1%} noticeably."
        )
    return (
        f"Next, a run with {further.run.name} would tell most"
        f" ({format_seconds(further.run.step_time_s)} predicted): this plan and its neighbours from"
        f" \N{PLUS-MINUS SIGN}{further.band:.1%} to \N{PLUS-MINUS SIGN}{further.band_after:.1%} on average."
    )
