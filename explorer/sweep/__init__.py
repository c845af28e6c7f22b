"""What if: one plan re-simulated over several values of one number."""

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
    """One value of a sweep."""

    value: float
    """The value."""
    report: Report | None
    """What is predicted; None where the strategy does not go with the value."""
    problem: str = ""
    """Why not."""


def sweep(
    resolved: Resolved, key: str, values: Sequence[str | float], *, weak: bool = False
) -> list[SweepRow]:
    """Re-simulate a plan for every value.

    Args:
        resolved: the plan.
        key: what is varied, one of `KEYS`.
        values: its values.
        weak: weak scaling, where `key` changes the number of devices: the global batch grows with them.

    Raises:
        InputError: an unknown key or a value that is no number above 0.
    """
    return list(sweeping(resolved, key, values_of(key, values), weak=weak))


def sweeping(
    resolved: Resolved, key: str, values: Sequence[float], *, weak: bool = False
) -> Iterator[SweepRow]:
    """The rows of `sweep` one by one, so that the caller can stop; values are checked already."""
    return (_row(resolved, key, value, weak=weak) for value in values)


def values_of(key: str, values: Sequence[str | float]) -> list[float]:
    """Values as numbers.

    Raises:
        InputError: an unknown key, no value, or one that is no number above 0.
    """
    if key not in KEYS:
        raise InputError(f"cannot sweep over {key!r}", key="--over", found=key, allowed=", ".join(KEYS))
    if not values:
        raise InputError(f"no value of {key}", key="--over", found="", allowed="one or more, apart by commas")
    return [_number(key, value) for value in values]


def _number(key: str, value: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise InputError(
            f"{value!r} is no value of {key}", key="--over", found=value, allowed="a number above 0"
        )
    return number


def _row(resolved: Resolved, key: str, value: float, *, weak: bool) -> SweepRow:
    try:
        report = vary(resolved, {key: value}, weak=weak).report()
    except ExplorerError as error:
        return SweepRow(value=value, report=None, problem=first_problem(error))
    return SweepRow(value=value, report=report)


def first_problem(error: ExplorerError) -> str:
    """One line: of several problems the first, as the others are mostly the same of other stages."""
    if isinstance(error, PlanError) and len(error.problems) > 1:
        return f"{error.problems[0]} (and {len(error.problems) - 1} more problems)"
    return str(error)
