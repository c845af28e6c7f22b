"""Bounds of open nodes by number, the least of which is asked for again and again."""

from __future__ import annotations

import heapq
import math


class OpenBounds:
    """Bounds of the open nodes of one kind."""

    def __init__(self) -> None:
        self._of: dict[int, float] = {}
        self._along: list[tuple[float, int]] = []
        """(bound, number), the least first; numbers that are no longer open are dropped when they come up."""

    def __contains__(self, number: int) -> bool:
        return number in self._of

    def __len__(self) -> int:
        return len(self._of)

    def __getitem__(self, number: int) -> float:
        return self._of[number]

    def open(self, number: int, bound: float) -> None:
        """Note the bound of a node; it may rise."""
        if self._of.get(number) != bound:
            self._of[number] = bound
            heapq.heappush(self._along, (bound, number))

    def close(self, number: int) -> None:
        """Forget a node, if it is open."""
        self._of.pop(number, None)

    @property
    def least(self) -> tuple[float, int]:
        """The least bound, and the number of its node; infinite and -1 if none is open."""
        while self._along and self._of.get(self._along[0][1]) != self._along[0][0]:
            heapq.heappop(self._along)
        return self._along[0] if self._along else (math.inf, -1)
