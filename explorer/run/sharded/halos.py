"""Rows that neighbours send one another for a window: by strides, paddings and the rows that each has.

Torch is not needed here. The cost model counts floor(k / 2) rows to each neighbour and way, as for a stride
of 1 and equal pieces; a stride needs fewer one way, and unequal pieces more or fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Run = tuple[int, int]
"""Rows [low, high), counted over the whole image."""


class Window(NamedTuple):
    """One direction of a window."""

    kernel: int
    """Rows that it covers."""
    stride: int
    """Rows from one place to the next."""
    padding: int
    """Rows of zeros before the first."""

    def needs(self, made: Run) -> Run:
        """Return the input rows, beyond the image too, that output rows are made of."""
        low, high = made
        return low * self.stride - self.padding, (high - 1) * self.stride - self.padding + self.kernel

    def feeds(self, read: Run, most: int) -> Run:
        """Return the output rows, of `most`, that input rows go into."""
        low, high = read
        first, last = -((self.kernel - 1 - low - self.padding) // self.stride), high - 1 + self.padding
        return max(0, first), min(most, last // self.stride + 1)


def window_of(before: int, after: int, kernel: int) -> Window:
    """Return the window that makes so many rows of so many: the largest stride, then the least padding.

    >>> window_of(224, 112, 7), window_of(7, 7, 1)
    (Window(kernel=7, stride=2, padding=3), Window(kernel=1, stride=1, padding=0))
    """
    stride = max(1, round(before / after))
    found = (p for p in range(kernel + 1) if (before + 2 * p - kernel) // stride + 1 == after)
    return Window(kernel, stride, next(found, kernel // 2))


def beside(held: Sequence[Run], wanted: Sequence[Run]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return, per rank, the rows inside the image that it wants of the ranks before and after it."""
    end = held[-1][1]
    before = tuple(max(0, low - max(0, a)) for (a, _), (low, _) in zip(wanted, held, strict=True))
    after = tuple(max(0, min(end, b) - high) for (_, b), (_, high) in zip(wanted, held, strict=True))
    return before, after


def rows_sent(window: Window, read: Sequence[Run], made: Sequence[Run]) -> tuple[int, int]:
    """Return the rows that all ranks send in a forward, of inputs, and in a backward, of gradients.

    Args:
        window: the window.
        read: per rank, the input rows that it has.
        made: per rank, the output rows that it makes.
    """
    forward = beside(read, [window.needs(item) for item in made])
    backward = beside(made, [window.feeds(item, made[-1][1]) for item in read])
    return sum(map(sum, forward)), sum(map(sum, backward))
