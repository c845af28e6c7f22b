"""Sweeps: one plan re-simulated over several values of one number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.base.errors import ExplorerError, InputError, PlanError
from explorer.plan import Resolved
from explorer.simulation.report import Report
from explorer.sweep.variations import KEYS, Variation, vary

__all__ = ["KEYS", "SweepRow", "Variation", "first_problem", "sweep", "sweeping", "values_of", "vary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One value of a sweep and its prediction."""

    value: float
    """Value of the swept number."""
    report: Report | None
    """Prediction; None if the strategy cannot run with the value."""
    problem: str = ""
    """Reason why it cannot; empty if it can."""


def sweep(
    resolved: Resolved, key: str, values: Sequence[str | float], *, weak: bool = False
) -> list[SweepRow]:
    """Re-simulate a plan for every value.

    Args:
        resolved: the plan.
        key: the number to vary, one of `KEYS`.
        values: its values.
        weak: weak scaling; if `key` changes the number of devices, the global batch grows with them.

    Raises:
        InputError: an unknown key or a value that is not a number above 0.
    """
    return list(sweeping(resolved, key, values_of(key, values), weak=weak))


def sweeping(
    resolved: Resolved, key: str, values: Sequence[float], *, weak: bool = False
) -> Iterator[SweepRow]:
    """Yield the rows of `sweep` one by one, so the caller can stop; the values are already checked."""
    return (_row(resolved, key, value, weak=weak) for value in values)


def values_of(key: str, values: Sequence[str | float]) -> list[float]:
    """Read values as numbers.

    Raises:
        InputError: an unknown key, no value, or one that is not a number above 0.
    """
    if key not in KEYS:
        raise InputError(f"cannot sweep over {key!r}", key="--over", found=key, allowed=", ".join(KEYS))
    if not values:
        raise InputError(f"no value of {key}", key="--over", found="", allowed="one or more, comma-separated")
    return [_number(key, value) for value in values]


def _number(key: str, value: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise InputError(
            f"{value!r} is not a value of {key}", key="--over", found=value, allowed="a number above 0"
        )
    return number


def _row(resolved: Resolved, key: str, value: float, *, weak: bool) -> SweepRow:
    try:
        report = vary(resolved, {key: value}, weak=weak).report()
    except ExplorerError as error:
        return SweepRow(value=value, report=None, problem=first_problem(error))
    return SweepRow(value=value, report=report)


def first_problem(error: ExplorerError) -> str:
    """Return the first of several problems as one line; the others mostly repeat it for other stages."""
    if isinstance(error, PlanError) and len(error.problems) > 1:
        return f"{error.problems[0]} (and {len(error.problems) - 1} more problems)"
    return str(error)
