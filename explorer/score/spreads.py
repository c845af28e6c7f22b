"""Spreads between sources: how far apart the numbers that a step can tell lie from one machine to the next.

Every row of a source, predicted without its source, is one equation: the logarithm of measured over predicted
is what its numbers are off by, times their slopes, and a scatter of its own. With S the slopes of a source's
rows and P the variances of its numbers, by group, its rows are normal with covariance S P S' + row^2 1. The
deviations are those under which all sources together are most probable, n rows of a source weighing as the
square root of n, since they have errors in common (type II maximum likelihood; Gelman et al., Bayesian Data
Analysis, 3rd edition, 2013, section 5.4), each normal in logarithms around what was assumed, to a factor
of 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from explorer.calibrate.posterior import Array
from explorer.cluster.calibration import MODEL
from explorer.score.calibrated import RowSlopes

ASSUMED = {"compute": 0.06, "model": 0.05, "host": 0.3, "transfers": 0.15, "row": 0.05}
"""Deviations of logarithms before any row: of a machine's kernels, a model's, the host, each level's
transfers, and of what a single row has besides."""
OTHERS = {"overlap": 0.04, "lockstep": 0.32}
"""Deviations that steps hardly tell: as `explorer.calibrate.step_numbers` has them."""
_KNOWN = 0.7  # deviation of the logarithm of each: a factor of 2
_MOST_ROWS = 60  # of a set, evenly over its file: rows of one source have errors in common
_FURTHEST = 0.3  # of a logarithm: a run that went wrong says no more than one that is 35 % off


def learn_spreads(
    sets: Mapping[str, tuple[str, Sequence[RowSlopes]]], *, without: str = ""
) -> dict[str, float]:
    """Return the deviations, by the names of `ASSUMED`.

    Args:
        sets: by name of a set its source and rows, predicted without the source.
        without: a source that takes no part.
    """
    from scipy.optimize import minimize

    tables: dict[str, list[tuple[list[str], Array, Array]]] = {}
    for source, rows in sets.values():
        if source != without and rows:
            tables.setdefault(source, []).append(_table(rows))
    start = np.log(list(ASSUMED.values()))

    def surprise(logs: Array) -> float:
        sd = dict(zip(ASSUMED, np.exp(logs).tolist(), strict=True))
        total = float((((logs - start) / _KNOWN) ** 2).sum()) / 2
        for own in tables.values():
            rows = sum(len(y) for _, _, y in own)
            total += sum(_surprise(sd, *table) for table in own) / math.sqrt(rows)
        return total

    found = minimize(
        surprise, start, method="Nelder-Mead", options={"maxiter": 600, "xatol": 0.01, "fatol": 0.01}
    )
    return dict(zip(ASSUMED, np.exp(found.x).tolist(), strict=True))


def _table(rows: Sequence[RowSlopes]) -> tuple[list[str], Array, Array]:
    """Return groups of numbers, slopes (rows, numbers) and logarithms of measured over predicted."""
    if len(rows) > _MOST_ROWS:
        rows = [rows[i] for i in np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(int)]
    keys = sorted({key for row in rows for key in row.slopes})
    slopes = np.array([[row.slopes.get(key, 0.0) for key in keys] for row in rows])
    ratios = np.array([row.log_ratio for row in rows])
    groups = ["model" if key.startswith(MODEL) else key.rpartition(".")[2] for key in keys]
    return groups, slopes, np.clip(ratios, -_FURTHEST, _FURTHEST)


def _surprise(sd: Mapping[str, float], groups: Sequence[str], slopes: Array, ratios: Array) -> float:
    """Return the negative logarithm of the density of a set's rows, up to a constant."""
    known = {**OTHERS, **sd}
    variance = np.array([known[group] ** 2 for group in groups])
    spread = (slopes * variance) @ slopes.T + sd["row"] ** 2 * np.eye(len(ratios))
    return 0.5 * float(ratios @ np.linalg.solve(spread, ratios) + np.linalg.slogdet(spread)[1])
