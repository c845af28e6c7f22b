"""Scores for people: a Markdown table of sets, and a CSV of rows."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.base.formats import csv_text
from explorer.score.running import Scored

HEADS = (
    "set", "rows", "skipped", "mean error", "median", "worst", "bias", "tau", "tau in groups", "tau of pairs",
    "top-1 regret", "memory error", "80 % band", "coverage",
)  # fmt: skip
EACH = (
    "set", "file", "line", "name", "group", "unit", "predicted", "measured", "error_pct",
    "predicted_memory_bytes", "measured_memory_bytes", "memory_error_pct", "note",
    "source", "hardware", "software", "year", "layout",
)  # fmt: skip


def cells(scored: Scored) -> tuple[str, ...]:
    """Return one set as cells below `HEADS`."""
    found = scored.statistics
    if found is None:
        return (scored.name, "0", _skipped(scored), *[""] * (len(HEADS) - 3))
    return (
        scored.name,
        str(found.rows),
        _skipped(scored),
        _percent(found.mean_abs_error_pct),
        _percent(found.median_abs_error_pct),
        _percent(found.worst_abs_error_pct),
        _percent(found.bias_pct, signed=True),
        _plain(found.kendall_tau),
        _plain(found.tau_within_groups),
        "" if found.pair_tau is None else f"{found.pair_tau:.3f} of {found.pairs}",
        _percent(found.top1_regret_pct),
        _percent(found.memory_mean_abs_error_pct),
        _percent(found.band_80_pct),
        _percent(found.coverage_pct),
    )


def _skipped(scored: Scored) -> str:
    noisy = len(scored.too_noisy or ())
    return f"{len(scored.problems)}, {noisy} too noisy" if noisy else str(len(scored.problems))


def markdown(scores: Sequence[Scored]) -> str:
    """Return a Markdown table, one line per set."""
    lines = [HEADS, ("---", *["---:"] * (len(HEADS) - 1)), *map(cells, scores)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def each_csv(scores: Sequence[Scored], more: Sequence[Sequence[object]] = ()) -> str:
    """Return a CSV table, one line per row of any set; lines of `more` stand below."""
    rows: list[Sequence[object]] = [EACH]
    for scored in scores:
        for row in (*scored.outcomes, *(scored.too_noisy or ())):
            held, guess = row.measured_memory_bytes, row.predicted_memory_bytes
            memory = _error(guess, held) if held is not None and guess is not None else ""
            rows.append([
                scored.name, scored.file, row.line, row.name, row.group, scored.unit,
                f"{row.predicted:.9g}", f"{row.measured:.9g}", _error(row.predicted, row.measured),
                "" if guess is None else f"{guess:.0f}", "" if held is None else f"{held:.0f}", memory,
                row.note, row.source or scored.source, row.hardware, row.software, row.year or "",
                row.layout,
            ])  # fmt: skip
    return csv_text([*rows, *more])


def _error(predicted: float, measured: float) -> str:
    return f"{(predicted / measured - 1) * 100:.3f}"


def _percent(value: float | None, *, signed: bool = False) -> str:
    return "" if value is None else f"{value:+.2f} %" if signed else f"{value:.2f} %"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
