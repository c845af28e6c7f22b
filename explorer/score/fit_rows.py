"""Rows that take part in a fit of knobs: some of every set, in groups that share knobs.

A fit predicts each row dozens of times. Rows on more than `MOST_DEVICES` devices therefore take no part, nor
do more than `MOST_ROWS` of a set, evenly over the file; nor do ratios, in which the unknown numbers cancel.
The rows of one source have errors in common, so that n of them count as the square root of n.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from explorer.calibrate.posterior import Array
from explorer.score.knob_fit import SCATTER, Fit, fit
from explorer.score.knobs import Knob, knobs_of
from explorer.score.rows import SETS, ScoredRow, published
from explorer.score.trials import TrialPart, Trials

MOST_DEVICES = 128
"""Most devices of a row that takes part."""
MOST_ROWS = 24
"""Most rows of a set that take part."""

Rows = Mapping[str, Sequence[ScoredRow]]
"""Rows by set."""


class FitRow(NamedTuple):
    """One row of a fit."""

    part: TrialPart
    """The row."""
    source: str
    """Its source."""
    keys: frozenset[str]
    """Knobs that its prediction depends on."""


def rows_of_sets(
    read: Callable[[str], Sequence[ScoredRow]], places: Mapping[str, Path], *, most: int = MOST_ROWS
) -> list[FitRow]:
    """Return the rows of all published sets that may take part in fits.

    Args:
        read: returns the rows of a set by its name.
        places: by name of a set, the file or folder of its rows.
        most: most rows of a set.
    """
    found = []
    for name in published():
        entry = SETS.get(name)
        if entry.unit == "ratio" or name not in places:
            continue
        rows = read(name)
        usable = [i for i, row in enumerate(rows) if _devices(row) <= MOST_DEVICES]
        for i in _spread(usable, most):
            keys = frozenset(knob.key for knob in knobs_of(rows[i].case.cluster))
            found.append(
                FitRow(TrialPart(name, str(places[name]), (i,)), rows[i].source or entry.source, keys)
            )
    return found


def _spread(items: Sequence[int], most: int) -> list[int]:
    """Return at most so many items, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[i] for i in np.linspace(0, len(items) - 1, most).round().astype(int).tolist()]


def _devices(row: ScoredRow) -> int:
    return len({d for stage in row.case.strategy.job.stages for mesh in stage.meshes for d in mesh.devices})


def groups(knobs: Collection[Knob], rows: Iterable[FitRow]) -> list[tuple[list[Knob], list[FitRow]]]:
    """Split knobs into those that no row ties together, each group with the rows that depend on it.

    >>> a, b, c = (Knob(key=key, value=1, prior=1, fitted_on="x") for key in "abc")
    >>> rows = [FitRow(TrialPart("s", "p", (i,)), "x", frozenset(keys)) for i, keys in enumerate(("ab", "c"))]
    >>> [[knob.key for knob in group] for group, _ in groups((a, b, c), rows)]
    [['a', 'b'], ['c']]
    """
    of = {knob.key: {knob.key} for knob in knobs}
    used = [(row, row.keys & of.keys()) for row in rows]
    for _, keys in used:
        joined = set().union(*(of[key] for key in keys))
        of |= dict.fromkeys(joined, joined)
    found: dict[int, tuple[list[Knob], list[FitRow]]] = {}
    for knob in knobs:
        found.setdefault(id(of[knob.key]), ([], []))[0].append(knob)
    for row, keys in used:
        if keys:
            found[id(of[min(keys)])][1].append(row)
    return [found[at] for at in found]


def refit(
    knobs: Sequence[Knob],
    rows: Sequence[FitRow],
    *,
    fixed: Mapping[str, float],
    processes: int,
    rounds: int,
    onwards: bool = False,
) -> Fit | None:
    """Fit knobs to rows from their priors; None if nothing constrains them.

    Args:
        knobs: knobs of one group.
        rows: rows that depend on them.
        fixed: other knobs, at values that stay.
        processes: most processes at a time.
        rounds: most steps.
        onwards: whether to go on from the knobs' values (`explorer.score.knob_fit.fit`).
    """
    free = [knob for knob in knobs if knob.prior > 0]
    own = {knob.key for knob in free}
    rows = [row for row in rows if row.keys & own]
    if not rows:
        return None
    start = {**fixed, **{knob.key: knob.prior for knob in knobs}}
    with Trials(
        [row.part for row in rows], processes=processes, keys={row.part: row.keys for row in rows}
    ) as trials:
        usable = np.isfinite(trials.errors([start])[0])
        if not usable.any():
            return None

        def errors(tried: Sequence[Mapping[str, float]]) -> list[Array]:
            found = trials.errors([{**start, **trial} for trial in tried])
            return [np.where(usable, np.nan_to_num(e, nan=0.0), 0.0) for e in found]

        return fit(free, errors, scatter=scatters(rows, usable.tolist()), rounds=rounds, onwards=onwards)


def scatters(rows: Sequence[FitRow], usable: Sequence[bool]) -> Array:
    """Return the standard deviation of each row: n rows of a source weigh as the square root of n."""
    counts: dict[str, int] = {}
    for row, counted in zip(rows, usable, strict=True):
        counts[row.source] = counts.get(row.source, 0) + int(counted)
    return np.array([SCATTER * max(1, counts[row.source]) ** 0.25 for row in rows])
