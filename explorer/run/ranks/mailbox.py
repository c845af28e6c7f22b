"""Mailbox: tensors by key and samples. Pieces of different sizes are cut and joined, overlapping ones summed.

One rule serves equal and unequal microbatches, split and round-robin replicas (disjoint parts join) and
the gradients of several readers of one tensor (overlapping parts add).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

import torch

from explorer.base.errors import RunError
from explorer.run.ranks.sweeps import Interval


class Mailbox:
    """Rows of tensors, waiting to be taken."""

    def __init__(self) -> None:
        self._held: dict[Hashable, list[tuple[int, int, torch.Tensor]]] = defaultdict(list)

    def put(self, key: Hashable, interval: Interval, rows: torch.Tensor) -> None:
        """Leave the rows of some samples."""
        self._held[key].append((*interval, rows))

    def take(self, key: Hashable, interval: Interval) -> torch.Tensor:
        """Remove and return the rows of some samples; parts of other samples stay.

        Raises:
            RunError: rows are missing, which a lowered program does not allow.
        """
        low, high = interval
        items = self._held[key]
        found = [item for item in items if item[0] < high and item[1] > low]
        kept = [item for item in items if item[0] >= high or item[1] <= low]
        if sum(min(high, b) - max(low, a) for a, b, _ in found) < high - low:
            raise RunError(f"samples {low} to {high - 1} of {key} are not there")
        for a, b, rows in found:
            if a < low:
                kept.append((a, low, rows[: low - a]))
            if b > high:
                kept.append((high, b, rows[high - a :]))
        self._held[key] = kept
        if len(found) == 1:
            a, b, rows = found[0]
            return rows if (a, b) == (low, high) else rows[low - a : high - a]
        total = torch.zeros(
            (high - low, *found[0][2].shape[1:]), dtype=found[0][2].dtype, device=found[0][2].device
        )
        for a, b, rows in found:
            start, stop = max(a, low), min(b, high)
            total[start - low : stop - low] += rows[start - a : stop - a]
        return total

    @property
    def size(self) -> int:
        """Number of pieces that wait."""
        return sum(map(len, self._held.values()))
