"""Prediction of the rows of sets on several processes.

A worker reads a set again instead of receiving its rows: functions of a case may be of any kind, and graphs
then stay shared between the rows of a worker. Rows of equal graph and cluster go to one worker, since results
about a graph are kept with it.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

from explorer.base.errors import ExplorerError, InputError
from explorer.score.machines import Values, knobs_at
from explorer.score.reading import reference_folder, reference_if_any, use_reference
from explorer.score.rows import SETS, ReadRows, RowProblem, ScoredRow
from explorer.score.statistics import Statistics, statistics
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate


class PredictedRow(NamedTuple):
    """A row with its prediction."""

    name: str
    line: int
    group: str
    predicted: float
    measured: float
    predicted_memory_bytes: float | None
    measured_memory_bytes: float | None
    note: str
    source: str = ""
    """Owner of the measurement; empty for that of its set."""
    hardware: str = ""
    """Device kinds that it ran on."""
    software: str = ""
    """Framework that ran it; empty if none is stated."""
    year: int = 0
    """Year of the framework; 0 if it is of no particular one."""
    layout: str = ""
    """How its devices work together, in words (`ScoredRow.layout`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A set with its outcome."""

    name: str
    """Name of the set."""
    file: str
    """File or folder that was read."""
    unit: str
    """Unit of the measured quantity."""
    outcomes: tuple[PredictedRow, ...]
    """Rows in the order of the file."""
    problems: tuple[RowProblem, ...]
    """Rows that could not be read or predicted."""
    seconds: float
    """Seconds of work, summed over processes."""
    source: str = ""
    """Owner of the measurements, where a row does not state its own."""
    too_noisy: tuple[PredictedRow, ...] | None = None
    """Runs that do not count because their machine was too busy; None for published sets."""

    @property
    def statistics(self) -> Statistics | None:
        """Statistics of the set; None if it has no valid row."""
        if not self.outcomes:
            return None
        return statistics(
            [(row.predicted, row.measured) for row in self.outcomes],
            [row.group for row in self.outcomes],
            [
                (row.predicted_memory_bytes, row.measured_memory_bytes)
                for row in self.outcomes
                if row.predicted_memory_bytes is not None and row.measured_memory_bytes is not None
            ],
            larger_is_better=self.unit.endswith("per_s") or self.unit == "ratio",
        )


def paths_of(names: Sequence[str], given: Mapping[str, Path]) -> dict[str, Path]:
    """Return the place of each set's rows: as given, else inside the reference folder.

    Raises:
        InputError: a set is unknown or has no published rows, or a reference folder is needed and missing.
    """
    inside = {name: SETS.get(name).path for name in names}
    for name in names:
        if not inside[name] and name not in given:
            raise InputError(
                f"nobody published rows of {name!r}", key="SET", found=name, allowed=f"--rows {name}=PATH"
            )
    return {name: given.get(name) or reference_folder() / inside[name] for name in names}


def score(
    paths: Mapping[str, Path],
    *,
    processes: int | None = None,
    values: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Scored]:
    """Predict every row of the sets. Whatever is wrong with a set or a row is listed in its `problems`.

    Args:
        paths: by name of a set, the file or folder of its rows.
        processes: most processes; 1 works in this process; None for one per core.
        values: by name of a set, values of knobs (`explorer.score.knobs`) that replace those of the profiles.

    Raises:
        InputError: a set is unknown.
    """
    call = next(_CALLS)
    knobs = {name: tuple(sorted((values or {}).get(name, {}).items())) for name in paths}
    reads = {name: _read(call, name, str(path), knobs[name]) for name, path in paths.items()}
    works = [
        (call, name, str(paths[name]), knobs[name], part)
        for name, read in reads.items()
        for part in _parts(read.rows)
    ]
    done = _run(works, processes or os.cpu_count() or 1)
    return [_gathered(name, paths[name], reads[name], works, done) for name in paths]


RowTask = tuple[int, str, str, Values, tuple[int, ...]]
"""(call, set, path, knobs, rows by number)."""
Answer = tuple[list["PredictedRow | RowProblem"], float]


def _run(works: Sequence[RowTask], processes: int) -> list[Answer]:
    if processes == 1 or len(works) <= 1:
        return [_predict(work) for work in works]
    # Largest first, so that no long piece is left to one process at the end.
    order = sorted(range(len(works)), key=lambda i: -len(works[i][-1]))
    with ProcessPoolExecutor(
        min(processes, len(works)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=use_reference,
        initargs=(reference_if_any(),),
    ) as pool:
        answers = pool.map(_predict, [works[i] for i in order])
        found = dict(zip(order, answers, strict=True))
    return [found[i] for i in range(len(works))]


_CALLS = count()
"""Numbers of the calls in this process: what was read holds for one call, since files may change."""


@lru_cache(maxsize=32)
def _read(_call: int, name: str, path: str, values: Values) -> ReadRows:
    """Read the rows of a set; a file that cannot be read at all is one problem."""
    reader = SETS.get(name).read
    try:
        with knobs_at(values):
            return reader(Path(path))
    except ExplorerError as error:
        return ReadRows((), (RowProblem(Path(path).name, 0, str(error)),))


def _parts(rows: Sequence[ScoredRow]) -> list[tuple[int, ...]]:
    """Split rows into pieces of work, those with the same graph and cluster together."""
    found: dict[tuple[int, int], list[int]] = {}
    for i, row in enumerate(rows):
        found.setdefault((id(row.case.graph), id(row.case.cluster)), []).append(i)
    return [tuple(part) for part in found.values()]


def _predict(work: RowTask) -> Answer:
    call, name, path, values, numbers = work
    rows = _read(call, name, path, values).rows
    start = time.perf_counter()
    with knobs_at(values):
        found = [_outcome(rows[i], Path(path)) for i in numbers]
    return found, time.perf_counter() - start


def _outcome(row: ScoredRow, path: Path) -> PredictedRow | RowProblem:
    try:
        return predicted(row)
    except ExplorerError as error:
        return RowProblem(path.name, row.line, f"{row.name}: {error}")


def predicted(row: ScoredRow) -> PredictedRow:
    """Return a row with its prediction.

    Raises:
        ExplorerError: the simulator refuses the case.
    """
    report = None
    if row.predicted is None or row.measured_memory_bytes is not None:
        report = simulate(*row.case)
    seconds = report.step_time_s if report else math.nan
    value = row.predicted() if row.predicted else row.amount / seconds if row.amount else seconds
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"predicted {value}", found=value, allowed="a finite number above 0")
    held = row.measured_memory_bytes
    memory = _memory_bytes(row, report) if report and held is not None else None
    note = row.note() if row.note is not None else ""
    return PredictedRow(
        row.name, row.line, row.group, value, row.measured, memory, held, note, row.source,
        " + ".join(kind.name for kind in row.kinds), row.framework.name, row.framework.year,
        row.layout,
    )  # fmt: skip


def _memory_bytes(row: ScoredRow, report: Report) -> float:
    return max(report.allocated_memory_bytes if row.tensors_only else report.peak_memory_bytes)


def _gathered(
    name: str, path: Path, read: ReadRows, works: Sequence[RowTask], done: Sequence[Answer]
) -> Scored:
    rows: list[tuple[int, PredictedRow]] = []
    problems, seconds = list(read.problems), 0.0
    for (_, other, _, _, numbers), (answers, spent) in zip(works, done, strict=True):
        if other != name:
            continue
        seconds += spent
        for number, answer in zip(numbers, answers, strict=True):
            if isinstance(answer, RowProblem):
                problems.append(answer)
            else:
                rows.append((number, answer))
    return Scored(
        name=name,
        file=str(path),
        unit=SETS.get(name).unit,
        source=SETS.get(name).source,
        outcomes=tuple(outcome for _, outcome in sorted(rows)),
        problems=tuple(sorted(problems)),
        seconds=seconds,
    )
