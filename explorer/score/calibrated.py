"""Calibrated on one row or three: how well one's own run makes the other rows of a set predicted.

For every model on one kind of hardware each row in turn (or some draws of three) is what its owner measured
before anything else; it calibrates as `explorer.calibrate.steps` does, and the other rows judge. Rows of
other models of the source judge too: for them a calibration should not do harm. Each row's slopes are taken
once, at the profile as it is, so that a choice costs a little algebra; `explorer calibrate` takes them
again where the step has moved.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

import numpy as np

from explorer.base.errors import ExplorerError
from explorer.calibrate.between_sources import TIME, band, bundled_errors, without
from explorer.calibrate.measured_runs import MeasuredRun
from explorer.calibrate.posterior import Array, Z
from explorer.calibrate.step_numbers import step_numbers
from explorer.calibrate.step_posterior import ROW_SD, scaled_priors, step_posterior
from explorer.calibrate.steps import machine_sd, slopes_of
from explorer.costs.model_key import model_key
from explorer.score.machines import Values, knobs_at
from explorer.score.reading import reference_if_any, use_reference
from explorer.score.rows import SETS, ScoredRow

COUNTS = (1, 3)
"""Numbers of rows that a calibration may take."""
MOST_CHOICES = 60
"""Most choices of three rows of one family; of more these many are drawn."""
_SPARE = 2  # rows that must be left to judge


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSlopes:
    """One row as an observation of the numbers that steps can tell."""

    family: tuple[str, str, str]
    """Model, device kind and framework."""
    log_ratio: float
    """Logarithm of measured over predicted seconds."""
    slopes: Mapping[str, float]
    """Slopes of its step time by key of a number."""
    sd: Mapping[str, float]
    """Standard deviation of each number before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What calibrations on so many rows leave: medians over their choice, errors in per cent."""

    choices: int
    """Number of choices."""
    before_pct: float
    """Mean error of the family's other rows as the profile is."""
    after_pct: float
    """The same after the calibration."""
    ratio_pct: float
    """The same if all are scaled by the mean ratio of the chosen rows."""
    median_pct: float
    """The same if all are scaled by the median ratio of all rows of the family: what no calibration knows."""
    coverage_pct: float
    """Mean share of these rows inside their 80 % bands."""
    whole_before_pct: float
    """Mean error of all other rows of the set as the profile is."""
    whole_after_pct: float
    """The same after the calibration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedScore:
    """One set under calibrations on its own rows."""

    name: str
    """Name of the set."""
    rows: int
    """Number of rows that take part."""
    families: int
    """Number of models on one kind of hardware with rows to spare."""
    by_count: tuple[tuple[int, Judged], ...]
    """(rows of a calibration, what it leaves); without those that no family has rows for."""


def calibrated_scores(
    paths: Mapping[str, Path],
    *,
    processes: int | None = None,
    values: Mapping[str, Mapping[str, float]] | None = None,
) -> list[CalibratedScore]:
    """Score sets under calibrations on their own rows, but those of ratios, in which machines cancel.

    Args:
        paths: by name of a set, the place of its rows.
        processes: most processes; None for one per core.
        values: by name of a set, values of knobs that replace those of the profiles, as without its source.
    """
    found = slopes_of_sets(paths, processes=processes, values=values)
    return [_judged_set(name, rows) for name, rows in found.items() if rows]


def slopes_of_sets(
    paths: Mapping[str, Path],
    *,
    processes: int | None = None,
    values: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, list[RowSlopes]]:
    """Return the rows of each set as observations; arguments are those of `calibrated_scores`."""
    works = [
        (name, str(path), tuple(sorted((values or {}).get(name, {}).items())), values is not None, part)
        for name, path in paths.items()
        if SETS.get(name).unit != "ratio"
        for part in range(_PARTS)
    ]
    found: defaultdict[str, list[RowSlopes]] = defaultdict(list)
    for (name, *_), rows in zip(works, _mapped(works, processes or os.cpu_count() or 1), strict=True):
        found[name] += rows
    return dict(found)


Work = tuple[str, str, Values, bool, int]
"""(set, path, knobs, whether its source is left out, part)."""
_PARTS = 8  # of a set, so that processes share it


def _mapped(works: Sequence[Work], processes: int) -> list[list[RowSlopes]]:
    if processes == 1:
        return [_slopes(work) for work in works]
    with ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=use_reference,
        initargs=(reference_if_any(),),
    ) as pool:  # fmt: skip
        return list(pool.map(_slopes, works))


def _slopes(work: Work) -> list[RowSlopes]:
    name, path, values, left_out, part = work
    found = []
    with knobs_at(values):
        try:
            rows = SETS.get(name).read(Path(path)).rows
        except ExplorerError:
            return []  # scoring itself says what is wrong with the file
        for i, row in enumerate(rows):
            if i % _PARTS == part and (told := _row(name, row, left_out=left_out)) is not None:
                found.append(told)
    return found


def _row(name: str, row: ScoredRow, *, left_out: bool) -> RowSlopes | None:
    """Return a row as an observation; None if it cannot be predicted."""
    case, one = row.case, SETS.get(name)
    if len(case.workload.jobs) > 1:
        return None
    try:
        run = MeasuredRun(
            name=row.name, graph=case.graph, workload=case.workload, strategy=case.strategy, step_time_s=1.0
        )
        seconds = run.report(case.cluster).step_time_s
        guess = row.predicted() if row.predicted else row.amount / seconds if row.amount else seconds
        numbers = step_numbers(case.cluster, (model_key(case.graph),))
        slopes = slopes_of(run, case.cluster, numbers, seconds).tolist()
    except ExplorerError:
        return None  # `score` lists it among its problems
    errors = bundled_errors()
    errors = without(errors, one.source) if left_out else errors
    framework = case.workload.jobs[0].framework
    machine = machine_sd(band(TIME, case.cluster, framework, errors).log_error)
    sd = {item.key: max(item.sd, machine if item.key.endswith(".compute") else 0.0) for item in numbers}
    sign = -1 if one.unit.endswith("per_s") else 1
    return RowSlopes(
        family=(model_key(case.graph), case.cluster.nodes[0].device_kind, framework),
        log_ratio=sign * math.log(row.measured / guess),
        slopes=dict(zip(sd, slopes, strict=True)),
        sd=sd,
    )


def _judged_set(name: str, rows: Sequence[RowSlopes]) -> CalibratedScore:
    keys = sorted({key for row in rows for key in row.slopes})
    table = np.array([[row.slopes.get(key, 0.0) for key in keys] for row in rows])
    y = np.array([row.log_ratio for row in rows])
    families: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        families[row.family].append(i)
    judged = []
    for count in COUNTS:
        outcomes = [
            _outcome(rows, table, y, chosen, own, keys)
            for own in families.values()
            if len(own) >= count + _SPARE
            for chosen in _choices(own, count)
        ]
        if outcomes:
            middle = [median(column) for column in zip(*outcomes, strict=True)]
            judged.append((count, _as_judged(len(outcomes), middle, outcomes)))
    return CalibratedScore(
        name=name, rows=len(rows), by_count=tuple(judged),
        families=sum(len(own) > _SPARE for own in families.values()),
    )  # fmt: skip


def _as_judged(choices: int, middle: Sequence[float], outcomes: Sequence[Sequence[float]]) -> Judged:
    before, after, ratio, by_median, _, whole_before, whole_after = middle
    return Judged(
        choices=choices, before_pct=before, after_pct=after, ratio_pct=ratio, median_pct=by_median,
        coverage_pct=fmean(item[4] for item in outcomes), whole_before_pct=whole_before,
        whole_after_pct=whole_after,
    )  # fmt: skip


def _choices(own: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Return choices of some of a family's rows: all of them, or as many drawn."""
    if math.comb(len(own), count) <= MOST_CHOICES or count == 1:
        return list(combinations(own, count))
    draw = random.Random(len(own))
    return [tuple(sorted(draw.sample(list(own), count))) for _ in range(MOST_CHOICES)]


def _outcome(
    rows: Sequence[RowSlopes], table: Array, y: Array, chosen: tuple[int, ...], own: Sequence[int],
    keys: Sequence[str],
) -> tuple[float, ...]:  # fmt: skip
    """Return errors of the rest of the family before, after, by ratio and by median, its coverage, and the
    set's.
    """
    some, first = list(chosen), rows[chosen[0]]
    sd = np.array([first.sd.get(key, 0.0) for key in keys])
    compute = [i for i, key in enumerate(keys) if key.endswith(".compute")]
    found = step_posterior(scaled_priors(sd, compute), table[some], y[some], np.full(len(some), ROW_SD))
    left = y - table @ found.mean
    spread = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", table, found.covariance, table), 0) + ROW_SD**2)
    rest = [i for i in own if i not in chosen]
    every = [i for i in range(len(rows)) if i not in chosen]
    inside = float(np.mean(np.abs(left[rest]) <= Z * spread[rest]))
    scaled = y[rest] - float(np.mean(y[some]))
    at_best = y[rest] - float(np.median(y[list(own)]))
    errors = [_mean_pct(item) for item in (y[rest], left[rest], scaled, at_best)]
    return (*errors, 100 * inside, _mean_pct(y[every]), _mean_pct(left[every]))


def _mean_pct(log_ratios: Array) -> float:
    """Return the mean of |predicted / measured - 1| in per cent."""
    return 100 * float(np.mean(np.abs(np.expm1(-log_ratios))))
