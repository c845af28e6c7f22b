"""Open points of a branch and bound: those that seem better than the best come first, the quick ones of them.

A guess is corrected by what points of the same group were simulated to take. Points that seem no better than
the best wait apart: simulating one of these raises little hope, but perhaps the bound.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from contextlib import suppress

from explorer.base.errors import ExplorerError
from explorer.search._groups import Family, Point, slowness
from explorer.search._open_bounds import OpenBounds
from explorer.search._standing import Standing
from explorer.strategy import Strategy

QUICK = 0.02
"""Slowness of points that are simulated without waiting."""
ERRS = 1.03
"""Factor by which guesses of quick points may be too large: they still seem good."""

_Line = list[tuple[float, int, float]]
"""(guess and slowness, number, guess) of points in a line, the smallest first."""
_Kin = tuple[tuple[object, ...], int]
"""Order of devices, layout and schedule of a group, and a ZeRO level."""


class OpenPoints:
    """Points of one search that are neither simulated nor left out.

    Args:
        standing: where the search stands.
    """

    def __init__(self, standing: Standing) -> None:
        self.standing, self.problem = standing, standing.problem
        self.bounds = OpenBounds()
        """Bounds of members of the space."""
        self._points: list[Point] = []
        self._open: set[int] = set()
        self._good: _Line = []
        """Points that seem better than the best."""
        self._others: _Line = []
        """Points that do not; once the best was found again, also some of the good ones do not."""
        self._ratios: dict[tuple[Family, int], float] = {}
        """Step time over its guess, of the point simulated last, by group and ZeRO level."""
        self._least_ratios: dict[_Kin, float] = {}
        """The least of these ratios by order of devices, layout, schedule and ZeRO level."""
        self._applied: dict[int, float] = {}
        """What the guesses of points in line were multiplied by."""
        self._strategies: dict[int, Strategy | None] = {}
        """Strategies of points that other processes were asked for."""

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, number: object) -> bool:
        return number in self._open

    def __getitem__(self, number: int) -> Point:
        return self._points[number]

    def __iter__(self) -> Iterator[tuple[Point, float]]:
        """Yield the open members of the space with their bounds."""
        return ((self._points[number], self.bounds[number]) for number in self._open if number in self.bounds)

    def add(self, point: Point) -> None:
        """Add a point, unless its bound leaves it out; one of uneven stages is no member of the space."""
        if not self.standing.worth(point.bound):
            return
        number = len(self._points)
        self._points.append(point)
        self._open.add(number)
        if not point.bounds:
            self.bounds.open(number, point.bound)
        self._line_up(number, point.guess)

    def _line_up(self, number: int, guess: float) -> None:
        line = self._good if self._seems_good(number, guess) else self._others
        heapq.heappush(line, (guess * (1.0 + self.slowness(number)), number, guess))

    def _seems_good(self, number: int, guess: float) -> bool:
        """Tell whether a guess is of a point that may well be better than the best."""
        limit = self.standing.limit
        return guess < limit or (guess < ERRS * limit and self.slowness(number) < QUICK)

    def slowness(self, number: int) -> float:
        """Return about how many seconds it takes to simulate a point."""
        return slowness(self.problem, self._points[number])

    @property
    def next_good(self) -> tuple[float, int]:
        """The point to be simulated next of those that seem better than the best: its guess, with how slow it
        is, and its number; infinite and -1 if there is none.
        """
        return self._next(self._good)

    @property
    def next_other(self) -> tuple[float, int]:
        """The same of the others."""
        return self._next(self._others)

    def _next(self, line: _Line) -> tuple[float, int]:
        while line:
            key, number, guess = line[0]
            ratio = self._correction(number)
            if number not in self._open:
                heapq.heappop(line)
            elif not self.standing.worth(self._points[number].bound):
                self.drop(number)
            elif ratio > 1.0:
                self._applied[number] = ratio * self._applied.get(number, 1.0)
                heapq.heappop(line)
                self._line_up(number, guess * ratio)
            elif line is self._good and not self._seems_good(number, guess):
                heapq.heappop(line)
                self._line_up(number, guess)
            else:
                return key, number
        return math.inf, -1

    def drop(self, number: int) -> None:
        """Leave a point out."""
        self._open.discard(number)
        self.bounds.close(number)
        self._strategies.pop(number, None)

    def learn(self, number: int, step_s: float) -> None:
        """Note what a point was simulated to take."""
        point = self._points[number]
        ratio = step_s / point.step_s
        self._ratios[point.family, point.zero] = ratio
        kin = point.family[:-1], point.zero
        self._least_ratios[kin] = min(ratio, self._least_ratios.get(kin, ratio))

    def _correction(self, number: int) -> float:
        """Return what the guess of a point in line is to be multiplied by: points of its group took longer.

        Of a group of which none was simulated, those of its layout, schedule and ZeRO level count.
        """
        point = self._points[number]
        ratio = self._ratios.get((point.family, point.zero))
        if ratio is None:
            ratio = self._least_ratios.get((point.family[:-1], point.zero), 1.0)
        return max(1.0, ratio / self._applied.get(number, 1.0))

    def strategy(self, number: int) -> Strategy | None:
        """Return the strategy of a point, built once while it is open."""
        if number not in self._strategies:
            self._strategies[number] = self._points[number].strategy(self.problem)
        return self._strategies[number]

    def ask_ahead(self) -> None:
        """Have the next points simulated by other processes, if there are any."""
        jobs = self.standing.evaluator.jobs
        if jobs is None:
            return
        line = self._good or self._others
        soon = [item for item in heapq.nsmallest(jobs.limit, line) if item[1] in self._open]
        soon.sort(key=lambda item: item[0] * self._correction(item[1]))
        self._strategies = {n: self._strategies[n] for _, n, _ in soon if n in self._strategies}
        found = []
        for _, number, _ in soon[: jobs.limit // 2]:
            if self.standing.worth(self._points[number].bound):
                with suppress(ExplorerError):
                    found.append(self.strategy(number))
        self.standing.evaluator.ahead([strategy for strategy in found if strategy is not None], instead=True)
