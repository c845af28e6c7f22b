"""Runs on the machine at hand as a set: the steps measured in a history of runs, with their predictions.

A line of the history keeps the prediction that the simulator made before the run (`explorer validate
--history`), so nothing is predicted anew and no later change of the project makes it look better.
"""

from __future__ import annotations

from pathlib import Path

from explorer.base.errors import ExplorerError, InputError
from explorer.calibrate.history import TOO_NOISY, Entry, numbered
from explorer.score.reading import positive
from explorer.score.rows import RowProblem
from explorer.score.running import PredictedRow, Scored

NAME = "runs"
"""Name of the set."""
_STEP = "step_time_s"


def score_runs(path: Path) -> Scored:
    """Return the runs of a history file as a set, in seconds of a step.

    Runs that are equal in model, workload and machine make a group. Runs on a machine that was too busy for a
    verdict are counted separately. Lines that are not runs, and runs without a step (traces), are problems.
    """
    try:
        entries, broken = numbered(path)
    except ExplorerError as error:
        return _scored(path, [], [], [RowProblem(path.name, 0, str(error))])
    problems = [RowProblem(path.name, line, why) for line, why in broken]
    counted: list[PredictedRow] = []
    aside: list[PredictedRow] = []
    for line, entry in entries:
        try:
            (aside if entry.verdict == TOO_NOISY else counted).append(_outcome(entry, line))
        except InputError as error:
            problems.append(RowProblem(path.name, line, str(error)))
    return _scored(path, counted, aside, problems)


def _scored(
    path: Path, counted: list[PredictedRow], aside: list[PredictedRow], problems: list[RowProblem]
) -> Scored:
    return Scored(
        name=NAME, file=str(path), unit="s", outcomes=tuple(counted), problems=tuple(sorted(problems)),
        seconds=0.0, too_noisy=tuple(aside),
    )  # fmt: skip


def _outcome(entry: Entry, line: int) -> PredictedRow:
    sides = (entry.predicted, entry.measured)
    if any(_STEP not in side for side in sides):
        raise InputError(
            f"{entry.source or 'a run'} has no step", key=_STEP, allowed="its seconds, predicted and measured"
        )
    predicted, measured = (positive(side[_STEP], _STEP) for side in sides)
    # whether runs without fingerprints were of the same model is unknown
    of = f"{entry.model} {entry.workload}" if entry.model and entry.workload else f"line {line}"
    words = [entry.source, entry.strategy, entry.date]
    return PredictedRow(
        name=" ".join(word for word in words if word) or f"line {line}",
        line=line,
        group=f"{of} on {entry.machine} {entry.cluster}".strip(),
        predicted=predicted,
        measured=measured,
        predicted_memory_bytes=None,
        measured_memory_bytes=None,
        note=f"predicted from the {entry.predicted_from}{_VERDICT.get(entry.verdict, '')}",
    )


_VERDICT = {TOO_NOISY: f"; {TOO_NOISY}, not counted"}
