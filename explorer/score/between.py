"""What left-out sources teach of errors: the bundled numbers of `explorer.calibrate.between_sources`.

Every set is scored as if its source had published nothing (`explorer.score.heldout`). A row's |log error| is
divided by the factor of the distance of its hardware and software from what the other sources measured, so
that a source far from the others is not taken for a large scatter of near ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from explorer.calibrate.between_sources import (
    HARDWARE,
    MEMORY,
    SOFTWARE,
    TIME,
    ErrorBands,
    SourceFacts,
    between_quantile,
    factor,
    hardware_distance,
    software_distance,
    without,
)
from explorer.calibrate.posterior import COVERAGE
from explorer.cluster import DeviceKind
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.framework import Framework
from explorer.score.rows import ScoredRow
from explorer.score.running import PredictedRow

HARDWARE_FACTORS = dict(zip(HARDWARE, (1.0, 1.1, 1.25, 1.6, 2.5), strict=True))
SOFTWARE_FACTORS = dict(zip(SOFTWARE, (1.0, 1.15, 1.3), strict=True))
"""How much wider a band is, in logarithms, by distance: assumed. Kernels of a measured kind are predicted
within 5 % (median), those of a measured generation by a data sheet within 15 %, of another generation within
30 %; steps add errors that are alike for all. Products of another maker reach other shares of their peaks
(MI300X 47 % where H100 reaches 73: SemiAnalysis, December 2024)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutRow:
    """A row predicted without its source."""

    source: str
    """Owner of the measurement."""
    kinds: tuple[DeviceKind, ...]
    """What it ran on."""
    framework: Framework
    """Software that ran it."""
    log_errors: tuple[tuple[str, float], ...]
    """log(measured / predicted) by figure: seconds of a step, and the peak of memory if it was measured."""


def left_out_rows(
    rows: Iterable[ScoredRow], outcomes: Iterable[PredictedRow], source: str, *, speed: bool
) -> list[LeftOutRow]:
    """Return the rows of a set that were predicted.

    Args:
        rows: the set's rows.
        outcomes: their predictions without the source.
        source: owner of the set, for rows that name none.
        speed: whether the measured quantity is a speed, not a time.
    """
    known = {(row.name, row.line): row for row in rows}
    found = []
    for outcome in outcomes:
        row = known[outcome.name, outcome.line]
        sign = -1.0 if speed else 1.0
        errors = {TIME: sign * math.log(outcome.measured / outcome.predicted)}
        if outcome.measured_memory_bytes and outcome.predicted_memory_bytes:
            errors[MEMORY] = math.log(outcome.measured_memory_bytes / outcome.predicted_memory_bytes)
        found.append(
            LeftOutRow(
                source=row.source or source, kinds=row.kinds, framework=row.framework,
                log_errors=tuple(errors.items()),
            )
        )  # fmt: skip
    return found


def learn(rows: Sequence[LeftOutRow], kernels: Iterable[str] = ()) -> ErrorBands:
    """Return what left-out rows teach.

    Args:
        rows: rows of several sources, each predicted without its own.
        kernels: device kinds of which single operators were measured.
    """
    by_source = _by_source(rows)
    known = ErrorBands(
        coverage=COVERAGE, hardware=tuple(HARDWARE_FACTORS.items()), software=tuple(SOFTWARE_FACTORS.items()),
        log_errors=(), kernels=tuple(sorted(kernels)),
        sources=tuple(facts_of(source, found) for source, found in by_source.items()),
    )  # fmt: skip
    limits = []
    for figure in (TIME, MEMORY):
        scores = [s for found in by_source.values() if (s := near_errors(found, figure, known))]
        if scores:
            limits.append((figure, round(between_quantile(scores), 4)))
    return replace(known, log_errors=tuple(limits))


def near_errors(rows: Sequence[LeftOutRow], figure: str, known: ErrorBands) -> list[float]:
    """Return a source's |log errors| over the factors of their distances from the other sources."""
    return [
        abs(error) / _factor(row, without(known, row.source))
        for row in rows
        if (error := dict(row.log_errors).get(figure)) is not None
    ]


def coverage_by_source(rows: Sequence[LeftOutRow], known: ErrorBands, figure: str = TIME) -> dict[str, float]:
    """Return for every source the share of its rows inside a band that the other sources taught."""
    by_source = _by_source(rows)
    scores = {source: near_errors(found, figure, known) for source, found in by_source.items()}
    found = {}
    for source, own in scores.items():
        others = [values for name, values in scores.items() if name != source and values]
        if own and others:
            limit = between_quantile(others)
            found[source] = sum(value <= limit for value in own) / len(own)
    return found


def facts_of(source: str, rows: Sequence[LeftOutRow]) -> SourceFacts:
    """Return what a source measured."""
    kinds = {kind.name: kind for row in rows for kind in row.kinds}
    software = {f"{row.framework.software} {row.framework.year}" for row in rows if row.framework.software}
    return SourceFacts(
        source=source, rows=len(rows),
        kinds=tuple(sorted({name for kind in kinds.values() for name in same_hardware(kind)})),
        makers=tuple(sorted({kind.maker for kind in kinds.values()} - {""})),
        generations=tuple(sorted({kind.generation for kind in kinds.values()} - {""})),
        software=tuple(sorted(software)),
    )  # fmt: skip


@cache
def same_hardware(kind: DeviceKind) -> set[str]:
    """Return the names under which bundled profiles have the hardware of a device kind."""
    return {other.name for other in _bundled_kinds() if _facts(other) == _facts(kind)} | {kind.name}


def _facts(kind: DeviceKind) -> tuple[object, ...]:
    return (
        kind.maker, kind.generation, kind.compute_units, kind.memory_bytes, kind.peak_flops_per_s,
        kind.memory_bandwidth_bytes_per_s,
    )  # fmt: skip


@cache
def _bundled_kinds() -> list[DeviceKind]:
    kinds: Mapping[str, DeviceKind] = {
        kind.name: kind for name in cluster_names() for kind in load_cluster(name).device_kinds
    }
    return list(kinds.values())


def _factor(row: LeftOutRow, known: ErrorBands) -> float:
    hardware = max((hardware_distance(kind, known) for kind in row.kinds), key=HARDWARE.index)
    return factor(known, hardware, software_distance(row.framework, known))


def _by_source(rows: Iterable[LeftOutRow]) -> dict[str, list[LeftOutRow]]:
    found: dict[str, list[LeftOutRow]] = {}
    for row in rows:
        found.setdefault(row.source, []).append(row)
    return found
