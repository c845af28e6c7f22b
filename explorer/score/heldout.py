"""Leave one source out: the numbers of profiles as they would be without the rows of a source.

A number fitted on a source returns to the value believed before (`Source.prior`), and is fitted again to the
rows that other sources measured on the same device kinds (`explorer.score.knob_fit`), if they constrain it at
all. Rows on more than `MOST_DEVICES` devices take no part, since a fit predicts each dozens of times; nor do
ratios, in which the unknown numbers cancel. If nobody else measured such devices, the value believed before
stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from explorer.base.errors import ExplorerError
from explorer.calibrate.posterior import Array
from explorer.cluster import Cluster
from explorer.score.knob_fit import fit
from explorer.score.knobs import Knob, knobs_of
from explorer.score.rows import SETS, ScoredRow, published
from explorer.score.trials import TrialPart, Trials

MOST_DEVICES = 128
"""Most devices of a row that takes part in a fit."""
ROUNDS = 3
"""Most steps of a fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Numbers fitted without a source."""

    values: Mapping[str, float]
    """Values of the knobs that were fitted on the source."""
    fitted_on: tuple[str, ...]
    """Sources that the numbers behind its rows still follow; () if all of them come from documents."""


def held_out(paths: Mapping[str, Path], reference: Path | None, *, processes: int = 1) -> dict[str, HeldOut]:
    """Return for every set the knobs of its clusters without its own source.

    Args:
        paths: by name of a set, the place of its rows.
        reference: folder of the rows of other sources; None to keep the values believed before.
        processes: most processes at a time.

    Raises:
        InputError: a set is unknown, or a profile has a fitted number that cannot be turned.
    """
    found: dict[str, HeldOut] = {}
    by_source: dict[tuple[str, tuple[Knob, ...]], HeldOut] = {}
    for name, path in paths.items():
        source = SETS.get(name).source
        knobs = _knobs(_rows(name, path))
        own = tuple(knob for knob in knobs if source in knob.fitted_on.split())
        kept = {name for knob in knobs if knob not in own for name in knob.fitted_on.split()}
        if (source, own) not in by_source:
            parts = _others(name, own, reference) if own and reference is not None else ()
            by_source[source, own] = _fitted(own, parts, processes)
        without = by_source[source, own]
        found[name] = HeldOut(values=without.values, fitted_on=tuple(sorted({*without.fitted_on, *kept})))
    return found


def _fitted(own: Sequence[Knob], parts: Sequence[TrialPart], processes: int) -> HeldOut:
    """Return priors, and the fitted values of the knobs that rows of `parts` constrain."""
    values = {knob.key: knob.prior for knob in own}
    held = {knob.key for part in parts for knob in _knobs(_rows(part.name, Path(part.path)))}
    knobs = [knob for knob in own if knob.key in held and knob.prior > 0]
    if not knobs:
        return HeldOut(values=values, fitted_on=())
    with Trials(parts, processes=processes) as trials:
        (start,) = trials.errors([values])
        usable = np.isfinite(start)
        if not usable.any():
            return HeldOut(values=values, fitted_on=())

        def errors(tried: Sequence[Mapping[str, float]]) -> list[Array]:
            return [
                np.where(usable, np.nan_to_num(e, nan=0.0), 0.0)
                for e in trials.errors([{**values, **trial} for trial in tried])
            ]

        result = fit(knobs, errors, rounds=ROUNDS)
    sources = {SETS.get(part.name).source for part in parts}
    return HeldOut(values={**values, **result.values}, fitted_on=tuple(sorted(sources)))


def _others(name: str, own: Sequence[Knob], reference: Path) -> tuple[TrialPart, ...]:
    """Return rows that other sources measured on the device kinds of a set, in pieces of work."""
    ours = SETS.get(name)
    keys = {knob.key for knob in own}
    found = []
    for other in published():
        theirs = SETS.get(other)
        same_device = set(theirs.device) & set(ours.device)
        if theirs.source == ours.source or not same_device or theirs.unit == "ratio":
            continue
        path = reference / theirs.path
        rows = _rows(other, path)
        chosen = [
            i
            for i, row in enumerate(rows)
            if _devices(row) <= MOST_DEVICES and any(k.key in keys for k in knobs_of(row.case.cluster))
        ]
        found += [TrialPart(other, str(path), (i,)) for i in chosen]
    return tuple(found)


def _devices(row: ScoredRow) -> int:
    return len({d for stage in row.case.strategy.job.stages for mesh in stage.meshes for d in mesh.devices})


def _rows(name: str, path: Path) -> tuple[ScoredRow, ...]:
    """Return the rows of a set; () if it cannot be read, which scoring reports."""
    try:
        return SETS.get(name).read(path).rows
    except ExplorerError:
        return ()


def _knobs(rows: Sequence[ScoredRow]) -> tuple[Knob, ...]:
    clusters: dict[int, Cluster] = {id(row.case.cluster): row.case.cluster for row in rows}
    found = {knob.key: knob for cluster in clusters.values() for knob in knobs_of(cluster)}
    return tuple(found[key] for key in sorted(found))
