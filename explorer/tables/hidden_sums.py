"""Hidden sums: seconds of collectives that run behind work, for every run of layers.

A collective is hidden behind layers near the one that waits for it. Where all of them lie in a run it hides
the same seconds in every such run, and prefix sums do; where a cut passes between them it hides less:

    hidden(a, b) = prefix[b] - prefix[a] + left[a] + right[b]

with corrections for the collectives that a cut divides. A run that ends before the last layer of one that its
first cut divides (b <= reach[a]) is added up by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from explorer.pricing.layer_columns import FloatArray
from explorer.pricing.overlap import Beside
from explorer.tables.positions import Positions
from explorer.tasks.skeleton import IntArray


class Hidden(Protocol):
    """Seconds hidden in any run."""

    def of(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the seconds hidden in runs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenAsked:
    """Seconds hidden in runs of a graph with branches, added up one by one."""

    beside: Beside
    kind_s: FloatArray
    """Seconds of every kind of collective."""
    times: FloatArray
    """(3, layers): seconds of work."""
    share: FloatArray
    """Per layer whether it counts, 0 or 1."""
    gain: float
    """Share of the hidden seconds that is won, as work slows down meanwhile."""
    positions: Positions

    def of(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the seconds hidden in runs."""
        found = np.zeros(len(starts))
        for i, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            layers = self.positions.layers(start, stop)
            inside = np.zeros_like(self.share)
            inside[layers] = self.share[layers]
            found[i] = self.beside.hidden(self.kind_s, self.times, inside)
        return self.gain * found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HiddenSums:
    """Seconds hidden in every run; arrays over the positions of cuts, one more than layers."""

    beside: Beside
    kind_s: FloatArray
    """Seconds of every kind of collective."""
    times: FloatArray
    """(3, layers): seconds of work."""
    share: FloatArray
    """Per layer whether it counts, 0 or 1."""
    gain: float
    """Share of the hidden seconds that is won, as work slows down meanwhile."""
    prefix: FloatArray
    left: FloatArray
    right: FloatArray
    reach: IntArray

    def of(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the seconds hidden in runs of layers from `starts` to before `stops`."""
        found: FloatArray = self.prefix[stops] - self.prefix[starts] + self.left[starts] + self.right[stops]
        for i in np.flatnonzero(stops <= self.reach[starts]).tolist():
            inside = np.zeros_like(self.share)
            inside[starts[i] : stops[i]] = self.share[starts[i] : stops[i]]
            found[i] = self.beside.hidden(self.kind_s, self.times, inside)
        return self.gain * found


def hidden_sums(
    beside: Beside | None,
    kind_s: FloatArray,
    times: FloatArray,
    share: FloatArray,
    slowdown: float,
    positions: Positions,
) -> Hidden | None:
    """Prepare the sums of the collectives of one way; None if it has none.

    Args:
        beside: the collectives and the layers behind which they run.
        kind_s: seconds of every kind of collective.
        times: (3, layers) seconds of work.
        share: per layer whether it counts, 0 or 1.
        slowdown: how much longer work takes meanwhile.
        positions: where runs start and stop.
    """
    if beside is None:
        return None
    if not positions.ordered:
        return HiddenAsked(
            beside=beside, kind_s=kind_s, times=times, share=share, gain=1.0 - slowdown, positions=positions
        )
    count, cuts = len(beside.kind), len(share) + 1
    collective, layer = beside.pairs
    work = times[beside.work[collective], layer] * share[layer] * beside.overlap[collective]
    most = kind_s[beside.kind] * beside.hideable * share[beside.payer]
    full = np.minimum(most, np.bincount(collective, weights=work, minlength=count))
    low, high = beside.payer.copy(), beside.payer.copy()
    np.minimum.at(low, collective, layer)
    np.maximum.at(high, collective, layer)
    # each collective is cut at positions (low, payer] on its left and (payer, high] on its right
    left = _divided(low + 1, beside.payer + 1, beside.pairs, work, most, full, cuts, behind=True)
    right = _divided(beside.payer + 1, high + 1, beside.pairs, work, most, full, cuts, behind=False)
    reach = np.zeros(cuts, dtype=np.int64)
    for start, furthest in sorted(set(zip((low + 1).tolist(), high.tolist(), strict=True))):
        np.maximum(reach[start : furthest + 1], furthest, out=reach[start : furthest + 1])
    paid = np.bincount(beside.payer, weights=full, minlength=cuts - 1)
    return HiddenSums(
        beside=beside, kind_s=kind_s, times=times, share=share, gain=1.0 - slowdown,
        prefix=np.concatenate([[0.0], np.cumsum(paid)]), left=left, right=right, reach=reach,
    )  # fmt: skip


def _divided(
    first: IntArray,
    stop: IntArray,
    pairs: tuple[IntArray, IntArray],
    work: FloatArray,
    most: FloatArray,
    full: FloatArray,
    cuts: int,
    *,
    behind: bool,
) -> FloatArray:
    """Sum by cut what the collectives it divides hide less: only layers behind (or before) the cut are left.

    Args:
        first: per collective the first cut that divides it.
        stop: per collective the cut after the last.
        pairs: (collective, layer behind which it runs).
        work: per pair seconds that may hide it.
        most: per collective its seconds that may be hidden.
        full: per collective the seconds hidden where no cut divides it.
        cuts: positions of cuts.
        behind: whether the layers from the cut on are in the run, or those before it.
    """
    number = np.maximum(0, stop - first)
    if not number.any():
        return np.zeros(cuts)
    start = np.concatenate([[0], np.cumsum(number)])
    collective = np.repeat(np.arange(len(number)), number)
    cut = np.arange(start[-1]) - start[collective] + first[collective]
    of_pair, layer = pairs
    times = number[of_pair]
    pair = np.repeat(np.arange(len(of_pair)), times)
    begins = np.concatenate([[0], np.cumsum(times)])[pair]
    row = start[of_pair[pair]] + np.arange(len(pair)) - begins
    inside = layer[pair] >= cut[row] if behind else layer[pair] < cut[row]
    left = np.bincount(row, weights=work[pair] * inside, minlength=len(cut))
    less = np.minimum(most[collective], left) - full[collective]
    return np.bincount(cut, weights=less, minlength=cuts).astype(np.float64)
