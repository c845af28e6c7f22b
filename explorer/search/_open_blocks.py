"""Open blocks of a branch and bound: groups that are not yet taken apart, by guess and by bound.

The guess of a group is rough: it knows neither exchanges nor ports. What the points of a group turned out to
promise corrects the groups of its block on as many positions, so that what promised too much comes later.
"""

from __future__ import annotations

import heapq
import math

import numpy as np
import numpy.typing as npt

from explorer.search._blocks import Block
from explorer.search._open_bounds import OpenBounds
from explorer.search._standing import Standing

AT_ONCE = 24
"""Groups of one block that are looked at together."""


class Left:
    """What is left of a block.

    Args:
        block: the block, of which nothing was taken apart yet.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.open = np.ones(len(block.guess), dtype=bool)
        """Groups that are not yet taken apart."""
        self.guesses = block.guess.copy()
        """Guesses of its groups, as far as known by now."""
        self.queued = math.nan
        """Guess with which it stands in line."""
        self._ratios: dict[int, float] = {}
        """By positions: guess of the best point of a group over that of the group, the least of all."""

    @property
    def guess(self) -> float:
        """Best guess of its groups."""
        return float(self.guesses[self.open].min())

    def best(self, most: int) -> npt.NDArray[np.int64]:
        """Return its open groups with the best guesses, the best first."""
        groups = np.flatnonzero(self.open)
        return groups[np.argsort(self.guesses[groups], kind="stable")[:most]]

    def learn(self, group: int, guess: float) -> None:
        """Correct the guesses of groups on as many positions, which exchange as much, by that of a point."""
        positions = self.block.grids[:, 0]
        p, rough = int(positions[group]), float(self.block.guess[group])
        ratio = max(1.0, guess / rough) if rough > 0 else 1.0
        if ratio < self._ratios.get(p, math.inf):
            self._ratios[p] = ratio
            alike = positions == p
            self.guesses[alike] = self.block.guess[alike] * ratio

    @property
    def bound(self) -> float:
        """Least bound of its groups."""
        return float(self.block.lower[self.open].min())


class OpenBlocks:
    """Blocks of one search.

    Args:
        standing: where the search stands.
    """

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.bounds = OpenBounds()
        self._left: list[Left] = []
        """What is left of every block, by number."""
        self._numbers: dict[int, int] = {}
        """Numbers of blocks by their identity."""
        self._along: list[tuple[float, int]] = []
        """(guess, number); blocks that are no longer open are dropped when they come up."""

    def __len__(self) -> int:
        return len(self.bounds)

    def add(self, block: Block) -> None:
        """Add a block, less what bounds leave out."""
        self._numbers[id(block)] = len(self._left)  # it stays alive, and so its identity
        self._left.append(Left(block))
        self._keep(len(self._left) - 1)

    def _keep(self, number: int) -> None:
        left = self._left[number]
        left.open &= left.block.lower < self.standing.limit
        if not left.open.any():
            self.bounds.close(number)
            return
        if left.queued != left.guess:
            left.queued = left.guess
            heapq.heappush(self._along, (left.guess, number))
        self.bounds.open(number, left.bound)

    @property
    def next_guess(self) -> float:
        """The best guess of all; infinite if none is open."""
        while self._along:
            guess, number = self._along[0]
            if number in self.bounds and self._left[number].queued == guess:
                return guess
            heapq.heappop(self._along)
        return math.inf

    def most_promising(self) -> tuple[Block, list[int]]:
        """Take out the most promising groups of the most promising block, a few at once."""
        guess = self.next_guess
        _, number = heapq.heappop(self._along)
        left = self._left[number]
        left.queued, limit = math.nan, self.next_guess
        groups = left.best(AT_ONCE)
        return self._take(number, groups[left.guesses[groups] <= max(limit, guess)].tolist())

    def learn(self, block: Block, group: int, guess: float) -> None:
        """Note the best guess of the points of a group that was taken apart."""
        number = self._numbers[id(block)]
        self._left[number].learn(group, guess)
        self._keep(number)

    def weakest(self) -> tuple[Block, list[int]]:
        """Take out the groups whose bounds are least of the block that has the least, a few at once."""
        _, number = self.bounds.least
        left = self._left[number]
        groups = np.flatnonzero(left.open)
        lower = left.block.lower[groups]
        return self._take(number, groups[np.argsort(lower, kind="stable")[:AT_ONCE]].tolist())

    def _take(self, number: int, groups: list[int]) -> tuple[Block, list[int]]:
        left = self._left[number]
        left.open[groups] = False
        self._keep(number)
        block = left.block
        return block, [group for group in groups if self.standing.worth(float(block.lower[group]))]
