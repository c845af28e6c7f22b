"""Distance of predictions from measurements: pure functions of two lists of numbers.

All take positive numbers; errors are in per cent of the measurement. None if a number is undefined.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from explorer.calibrate.conformal import quantile, split_coverage

TELLS = 0.05
"""Share by which two measured values of a group differ before their order counts."""
Pairs = Sequence[tuple[float, float]]
"""(predicted, measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of one set. Fields are the keys of the JSON."""

    rows: int
    """Number of rows that were predicted."""
    mean_abs_error_pct: float
    """Mean of |predicted / measured - 1|."""
    median_abs_error_pct: float
    """Median of |predicted / measured - 1|."""
    worst_abs_error_pct: float
    """Largest |predicted / measured - 1|."""
    bias_pct: float
    """Mean of predicted / measured - 1: above 0 if predictions are too large."""
    kendall_tau: float | None
    """Kendall's tau-b between predicted and measured over all rows; None below two different ones."""
    tau_within_groups: float | None
    """Mean of tau-b within each group of two rows or more, weighted by its rows; None if there is none."""
    pair_tau: float | None
    """Kendall's tau over the pairs of rows of one group whose measured values differ by more than 5 %; None
    without such pairs."""
    pairs: int
    """Number of these pairs."""
    top1_regret_pct: float | None
    """Mean over groups of two rows or more: measured of the predicted best over the best measured, - 1."""
    memory_mean_abs_error_pct: float | None
    """Mean of |predicted / measured - 1| of memory, over rows that measured it; None if none did."""
    band_80_pct: float | None
    """Half-width that holds the next row in four of five cases, by all rows; None below four rows."""
    coverage_pct: float | None
    """Share of held-out rows inside bands learned from the others, no group on both sides; None if no half
    has four rows."""
    one_row_median_pct: float | None
    """Mean error left when all is scaled by the ratio of one row: median over every choice of it."""
    one_row_worst_pct: float | None
    """As `one_row_median_pct`, for the worst choice; both None below three rows."""


def errors_pct(pairs: Pairs) -> list[float]:
    """Return signed errors in per cent.

    >>> errors_pct([(110, 100), (45, 50)])
    [10.0, -10.0]
    """
    return [round((predicted - measured) / measured * 100, 12) for predicted, measured in pairs]


def statistics(
    pairs: Pairs, groups: Sequence[str], memory: Pairs = (), *, larger_is_better: bool = False
) -> Statistics:
    """Return all statistics of a set.

    Args:
        pairs: (predicted, measured) by row.
        groups: for each row, the group among whose rows a user chooses.
        memory: (predicted, measured) bytes of the rows that measured memory.
        larger_is_better: whether the measured quantity is a speed, not a time.
    """
    errors = errors_pct(pairs)
    sizes = [abs(error) for error in errors]
    held = [abs(error) for error in errors_pct(memory)]
    left = calibrated_on_one_pct(pairs)
    return Statistics(
        rows=len(errors),
        mean_abs_error_pct=fmean(sizes),
        median_abs_error_pct=median(sizes),
        worst_abs_error_pct=max(sizes),
        bias_pct=fmean(errors),
        kendall_tau=tau(pairs),
        tau_within_groups=tau_within(pairs, groups),
        pair_tau=pair_tau(pairs, groups),
        pairs=len(_told_apart(pairs, groups)),
        top1_regret_pct=regret_pct(pairs, groups, larger_is_better=larger_is_better),
        memory_mean_abs_error_pct=fmean(held) if held else None,
        band_80_pct=band_pct(pairs),
        coverage_pct=coverage_pct(pairs, groups),
        one_row_median_pct=median(left) if left else None,
        one_row_worst_pct=max(left, default=None),
    )


def calibrated_on_one_pct(pairs: Pairs) -> list[float]:
    """Return for every row, as the only run there is, the mean error of the others scaled by its ratio.

    The simplest calibration: one speed of the machine. Empty below three rows.

    >>> [round(left, 6) for left in calibrated_on_one_pct([(10, 20), (5, 10), (4, 10)])]
    [10.0, 10.0, 25.0]
    """
    if len(pairs) < 3:
        return []
    ratios = [predicted / measured for predicted, measured in pairs]
    return [
        round(fmean(abs(other / own - 1) * 100 for j, other in enumerate(ratios) if j != i), 12)
        for i, own in enumerate(ratios)
    ]


def tau(pairs: Pairs) -> float | None:
    """Return Kendall's tau-b; None if fewer than two values differ on either side.

    >>> tau([(1, 10), (2, 20), (3, 15)])
    0.333333333333
    """
    from scipy.stats import kendalltau

    if min((len({pair[side] for pair in pairs}) for side in (0, 1)), default=0) < 2:
        return None
    return round(float(kendalltau(*zip(*pairs, strict=True)).statistic), 12)


def tau_within(pairs: Pairs, groups: Sequence[str]) -> float | None:
    """Return the mean tau within groups, each weighted by its rows."""
    found = [(value, len(rows)) for rows in _by_group(pairs, groups) if (value := tau(rows)) is not None]
    return sum(v * n for v, n in found) / sum(n for _, n in found) if found else None


def pair_tau(pairs: Pairs, groups: Sequence[str]) -> float | None:
    """Return Kendall's tau over pairs within groups that measurements tell apart (`TELLS`); None without any.

    >>> pair_tau([(1, 10), (2, 20), (3, 15), (4, 15.1)], ["a", "a", "a", "a"])
    0.2
    """
    signs = _told_apart(pairs, groups)
    return sum(signs) / len(signs) if signs else None


def _told_apart(pairs: Pairs, groups: Sequence[str]) -> list[int]:
    """Return for every pair of rows that differs 1 if it is predicted in its order, -1 if not, 0 if equal."""
    found = []
    for rows in _by_group(pairs, groups):
        for i, (predicted, measured) in enumerate(rows):
            for other_predicted, other_measured in rows[:i]:
                if max(measured, other_measured) > (1 + TELLS) * min(measured, other_measured):
                    product = (predicted - other_predicted) * (measured - other_measured)
                    found.append((product > 0) - (product < 0))
    return found


def regret_pct(pairs: Pairs, groups: Sequence[str], *, larger_is_better: bool = False) -> float | None:
    """Return the cost of taking the predicted best, as a mean over groups; of equal ones the first is taken.

    >>> regret_pct([(1, 12), (2, 10)], ["a", "a"])
    20.0
    """
    best: Callable[..., tuple[float, float]] = max if larger_is_better else min
    lost = []
    for rows in _by_group(pairs, groups):
        chosen = best(rows, key=lambda pair: pair[0])[1]
        top = best(rows, key=lambda pair: pair[1])[1]
        lost.append((top / chosen if larger_is_better else chosen / top) - 1)
    return round(fmean(lost) * 100, 12) if lost else None


def band_pct(pairs: Pairs) -> float | None:
    """Return the half-width of the 80 % band: measured is from predicted / (1 + b) to predicted x (1 + b).

    >>> band_pct([(10, 11), (10, 10), (10, 10), (20, 25)])
    25.0
    """
    limit = quantile(_log_ratios(pairs))
    return None if limit is None else round(math.expm1(limit) * 100, 12)


def coverage_pct(pairs: Pairs, groups: Sequence[str]) -> float | None:
    """Return the share of rows inside 80 % bands that were learned without any row of their group.

    See `explorer.calibrate.conformal.split_coverage`; groups are its blocks.
    """
    covered = split_coverage(_log_ratios(pairs), blocks=groups).covered
    return None if math.isnan(covered) else covered * 100


def _log_ratios(pairs: Pairs) -> list[float]:
    return [math.log(measured) - math.log(predicted) for predicted, measured in pairs]


def _by_group(pairs: Pairs, groups: Sequence[str]) -> list[list[tuple[float, float]]]:
    """Return the groups of two rows or more."""
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for pair, group in zip(pairs, groups, strict=True):
        found[group].append(pair)
    return [rows for rows in found.values() if len(rows) > 1]
