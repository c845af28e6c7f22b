"""Leave one source out: the numbers of profiles as they would be without the rows of a source.

A number fitted on a source, alone or among others, returns to the value believed before (`Source.prior`), and
is fitted again to the rows of other sources that depend on it (`explorer.score.fit_rows`), if any do. If
nobody else measured such devices, the value believed before stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from explorer.base.errors import ExplorerError
from explorer.cluster import Cluster
from explorer.score.fit_rows import FitRow, groups, refit, rows_of_sets
from explorer.score.knobs import Knob, knobs_of
from explorer.score.rows import SETS, ScoredRow, published

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
    knobs = {name: _knobs(_rows(name, path)) for name, path in paths.items()}
    rows = _others(reference) if any(knobs.values()) and reference is not None else []
    own: dict[str, dict[str, Knob]] = {}
    for name, known in knobs.items():
        source = SETS.get(name).source
        own.setdefault(source, {}).update({k.key: k for k in known if source in k.fitted_on.split()})
    fitted = {source: _without(source, tuple(k.values()), rows, processes) for source, k in own.items()}
    found = {}
    for name, known in knobs.items():
        without, mine = fitted[SETS.get(name).source], own[SETS.get(name).source]
        kept = {source for k in known if k.key not in mine for source in k.fitted_on.split()}
        used = {source for k in known for source in without.get(k.key, (0.0, ()))[1]}
        values = {k.key: without[k.key][0] for k in known if k.key in without}
        found[name] = HeldOut(values=values, fitted_on=tuple(sorted(kept | used)))
    return found


def _without(
    source: str, knobs: Sequence[Knob], rows: Sequence[FitRow], processes: int
) -> dict[str, tuple[float, tuple[str, ...]]]:
    """Return by knob its value without a source, and the sources of the rows that it was fitted to."""
    found: dict[str, tuple[float, tuple[str, ...]]] = {knob.key: (knob.prior, ()) for knob in knobs}
    for group, others in groups(knobs, [row for row in rows if row.source != source]):
        result = refit(group, others, fixed={}, processes=processes, rounds=ROUNDS)
        if result is not None:
            used = tuple(sorted({row.source for row in others}))
            found |= {key: (value, used) for key, value in result.values.items()}
    return found


def _others(reference: Path) -> list[FitRow]:
    places = {name: reference / SETS.get(name).path for name in published()}
    return rows_of_sets(lambda name: _rows(name, places[name]), places)


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
