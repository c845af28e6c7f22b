"""Bands that are learned from runs: split conformal prediction over logarithms of measured over predicted.

Of n exchangeable runs the k-th smallest |log ratio|, k = ceil((n + 1) 0.8), covers the next one with
probability of at least 0.8, whatever the distribution (Vovk, Gammerman, Shafer: Algorithmic Learning in a
Random World, 2005; Lei et al.: Distribution-Free Predictive Inference for Regression, 2018). With fewer than
four runs no such k exists, and no band is given. Groups (a set, a range of compute shares) have bands of
their own if they have enough runs (Mondrian conformal prediction); the others share one.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from explorer.calibrate.posterior import COVERAGE

FEWEST = math.ceil(COVERAGE / (1 - COVERAGE) - 1e-9)
"""Fewest runs from which a band can be learned: 4 for 80 %."""


class Coverage(NamedTuple):
    """The success of a learned band on rows that it was not learned from."""

    band: float
    """Relative half-width, median over the rows."""
    covered: float
    """Fraction of the rows inside their bands."""


def quantile(log_ratios: Sequence[float], *, coverage: float = COVERAGE) -> float | None:
    """Return the |log ratio| that covers the next run with probability `coverage`; None for too few runs.

    >>> quantile([0.1, -0.2, 0.3, -0.4])
    0.4
    >>> quantile([0.1, -0.2, 0.3]) is None
    True
    """
    rank = math.ceil((len(log_ratios) + 1) * coverage - 1e-9)
    return sorted(map(abs, log_ratios))[rank - 1] if 0 < rank <= len(log_ratios) else None


def group_quantiles(
    log_ratios: Sequence[float], groups: Sequence[Hashable]
) -> tuple[Mapping[Hashable, float], float | None]:
    """Return quantiles of the groups with enough runs, and the one of all runs together."""
    members: dict[Hashable, list[float]] = defaultdict(list)
    for ratio, group in zip(log_ratios, groups, strict=True):
        members[group].append(ratio)
    found = {group: quantile(values) for group, values in members.items()}
    return {group: value for group, value in found.items() if value is not None}, quantile(log_ratios)


def split_coverage(
    log_ratios: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    blocks: Sequence[Hashable] | None = None,
) -> Coverage:
    """Learn bands on half of the rows, count how many of the other half they cover, and then swap the halves.

    The halves are dealt out within each group, in the order given, always to the smaller half: every other
    row if no blocks are given. No randomness is involved. Both ways together hold every row out once, which
    halves the noise of the count.

    Args:
        log_ratios: logarithm of measured over predicted, by row.
        groups: for each row, the group that has its own band (a set, a range of compute shares); None for one
            group.
        blocks: for each row, the block that stays together on one side (runs of the same model and batch,
            whose errors are alike, so a band would be judged by what it was learned from); None separates all
            rows.

    Returns:
        The median half-width and the fraction covered; NaN if the halves are too small to learn from.
    """
    keys = list(groups) if groups is not None else [None] * len(log_ratios)
    half = _halves(keys, list(blocks) if blocks is not None else list(range(len(keys))))
    bands: list[float] = []
    inside = 0
    for held in (1, 0):
        learned = [i for i, side in enumerate(half) if side != held]
        own, every = group_quantiles([log_ratios[i] for i in learned], [keys[i] for i in learned])
        for i in (i for i, side in enumerate(half) if side == held):
            limit = own.get(keys[i], every)
            if limit is not None:
                bands.append(math.expm1(limit))
                inside += abs(log_ratios[i]) <= limit
    if not bands:
        return Coverage(math.nan, math.nan)
    return Coverage(sorted(bands)[(len(bands) - 1) // 2], inside / len(bands))


def _halves(groups: Sequence[Hashable], blocks: Sequence[Hashable]) -> list[int]:
    """Return the side of each row: that of its block, which goes to the half with fewer rows of the group."""
    sizes = Counter(blocks)
    rows: dict[Hashable, list[int]] = defaultdict(lambda: [0, 0])
    side: dict[Hashable, int] = {}
    for group, block in zip(groups, blocks, strict=True):
        if block not in side:
            side[block] = int(rows[group][1] < rows[group][0])
            rows[group][side[block]] += sizes[block]
    return [side[block] for block in blocks]
