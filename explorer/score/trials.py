"""Trials: rows of sets predicted with the knobs of profiles at several values, over processes.

A row that is nothing more than its case is simulated on its cluster with the knobs turned; one whose quantity
follows from more (the best of several layouts, an order made from predicted times) is read again.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from explorer.base.errors import ExplorerError
from explorer.calibrate.posterior import Array
from explorer.cluster import Cluster
from explorer.score.knobs import turned
from explorer.score.machines import knobs_at
from explorer.score.rows import SETS, ReadRows, ScoredRow
from explorer.simulation.simulate import simulate


class TrialPart(NamedTuple):
    """Some rows of a set."""

    name: str
    """Name of the set."""
    path: str
    """Path of its rows."""
    rows: tuple[int, ...]
    """Positions of the rows."""


class Trials:
    """Predictions of the same rows at other values of knobs.

    Args:
        parts: the rows.
        processes: most processes; 1 works in this process.
        keys: by part, the knobs that its rows depend on; None if all of them may. A part is predicted once
            for equal values of these.
    """

    def __init__(
        self,
        parts: Sequence[TrialPart],
        *,
        processes: int,
        keys: Mapping[TrialPart, frozenset[str]] | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self._keys = keys
        self._known: dict[TrialTask, Array] = {}
        self._pool = (
            ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))
            if processes > 1
            else None
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def errors(self, trials: Sequence[Mapping[str, float]]) -> list[Array]:
        """Return the logarithms of predicted over measured by trial; NaN if the simulator refuses a row."""
        works = [[self._task(part, trial) for part in self.parts] for trial in trials]
        new = list(dict.fromkeys(work for row in works for work in row if work not in self._known))
        found = self._pool.map(_errors, new) if self._pool else map(_errors, new)
        self._known |= dict(zip(new, found, strict=True))
        return [np.concatenate([self._known[work] for work in row]) for row in works]

    def _task(self, part: TrialPart, trial: Mapping[str, float]) -> TrialTask:
        known = None if self._keys is None else self._keys[part]
        return part, tuple(sorted((k, value) for k, value in trial.items() if known is None or k in known))


TrialTask = tuple[TrialPart, tuple[tuple[str, float], ...]]


def _errors(work: TrialTask) -> npt.NDArray[np.float64]:
    part, values = work
    rows = _read(part.name, part.path, ()).rows
    clusters: dict[int, Cluster] = {}
    with knobs_at(values):
        found = [_predicted(part, rows, i, dict(values), clusters) for i in part.rows]
    measured = [rows[i].measured for i in part.rows]
    with np.errstate(invalid="ignore"):
        result: Array = np.log(np.array(found) / np.array(measured))
    return result


def _predicted(
    part: TrialPart,
    rows: Sequence[ScoredRow],
    number: int,
    values: Mapping[str, float],
    clusters: dict[int, Cluster],
) -> float:
    row = rows[number]
    try:
        if row.predicted is not None:
            again = _read(part.name, part.path, tuple(values.items())).rows[number].predicted
            return again() if again is not None else np.nan
        base = row.case.cluster
        if id(base) not in clusters:
            clusters[id(base)] = turned(base, values)
        seconds = simulate(*row.case._replace(cluster=clusters[id(base)])).step_time_s
        return row.amount / seconds if row.amount else seconds
    except ExplorerError:
        return np.nan  # `Trials.errors` says so, and whoever fits leaves the row out


@lru_cache(maxsize=64)
def _read(name: str, path: str, values: tuple[tuple[str, float], ...]) -> ReadRows:
    with knobs_at(values):
        return SETS.get(name).read(Path(path))
