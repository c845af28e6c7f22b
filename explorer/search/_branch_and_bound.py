"""Branch and bound over the space of `auto`: blocks, their groups, single strategies; simulated last.

A node is a layout (on one order of devices), a block of it (one schedule), a group of a block (all but ZeRO
and buckets chosen), or a point. The node with the best guess is opened next; what its bound shows to be no
better than the best strategy so far is dropped, and only points are simulated. Guesses decide what comes
first, bounds what is left out: the result is the best of the space once no node is left, and until then the
least bound of all open nodes bounds it from below. Once nothing seems better than the best, nodes are opened
for the sake of that bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter

from explorer.base.errors import ExplorerError
from explorer.search._blocks import Block
from explorer.search._closed_blocks import Closed
from explorer.search._groups import Family, Point, points_of
from explorer.search._open_blocks import OpenBlocks
from explorer.search._open_layouts import OpenLayouts
from explorer.search._open_points import QUICK, OpenPoints
from explorer.search._shares import WHOLE, Elsewhere, Nowhere, Share, StillOpen, joined
from explorer.search._standing import Standing
from explorer.search._uneven_stages import UnevenStages
from explorer.search.evaluator import EXHAUSTED, FRONTIER_OF, GAP, Candidate, Evaluator
from explorer.search.problem import Problem

BOUND = "strategies of even stages"
"""Name of the space that the bound holds for."""
LOOK_AHEAD, FIRST_LOOK, LOOKS = 6, 40, 3.0
"""Handfuls of groups looked at between two simulations and before the first; and how many times as long as it
takes layouts, blocks and handfuls are looked at before the next one, if that is more.
"""
MOST_HOPELESS = 4
"""Points that are simulated, though they cannot fit, to say how close they come."""
AT_A_TIME, FEW, LAYOUTS_AT_A_TIME = 16, 2, 48
"""Blocks that are made between two simulations at most, those while layouts are left to be looked at, and
these.
"""
SMALL = 128
"""Layouts of a space up to which all are looked at before a block is made: they bound the space, and each
takes less than that.
"""
NOT_PROVEN = "not proven"
"""What is said of a frontier that may lack strategies of the space."""
GOOD = 1.25
"""Factor by which a strategy may be slower than the best, for uneven stages of its group to be tried."""
RAISES = 8
"""Nodes that are opened for the sake of the bound between two simulations."""
SAVED = 0.015
"""Slowness that each layout, block and handful of groups saves for points that take longer."""
DEARER = 5.0
"""Factor by which a point counts as slower that is simulated for the sake of the bound alone: in the same
seconds many layouts and blocks are opened, among which better ones may be.
"""
NEAR = 1.02
"""Factor by which a point's guess may exceed that of all unopened groups to be simulated at once."""


class BranchAndBound:
    """The open nodes of one search.

    Args:
        problem: the search problem.
        evaluator: judge of the points, which holds the best so far.
        share: share of the space that is searched.
        elsewhere: the other shares, for which its bound holds as well.
    """

    def __init__(
        self, problem: Problem, evaluator: Evaluator, share: Share = WHOLE, elsewhere: Elsewhere | None = None
    ) -> None:
        self.problem, self.evaluator = problem, evaluator
        self.elsewhere: Elsewhere = elsewhere or Nowhere()
        self.standing = Standing(problem, evaluator)
        self.layouts = OpenLayouts(self.standing, share)
        self.blocks = OpenBlocks(self.standing)
        self.points = OpenPoints(self.standing)
        self._uneven, self._cut = UnevenStages(problem), set[Family]()
        """Uneven stages, and groups for which they were looked for."""
        self._proven = 0.0
        self._closest = 0
        """Points simulated only to say how close they come."""
        self._saved = 0.0
        """Slowness that points may have that are simulated for the sake of the bound."""
        self._told = -1
        """Evaluations after which it was last worked out what the gap is due to."""

    # ---- bounds -------------------------------------------------------------------------------------

    @property
    def lower_bound(self) -> float:
        """Return what no strategy of the space is better than, or the best so far if that left the space and
        is better than all in it.
        """
        standing = self.standing
        now = max(standing.floor, min(standing.best, self.open_bound, self.elsewhere.open_bound))
        # what was proven stays: a closer look at a node may round its bound below the one it had
        self._proven = max(self._proven, now)
        return min(self._proven, standing.best)

    @property
    def open_bound(self) -> float:
        """The least bound of what is not yet tried of its share; infinite if nothing is open."""
        nodes = (self.layouts.bounds, self.blocks.bounds, self.points.bounds)
        return min(self.standing.lost, self.layouts.least_unseen, *(bounds.least[0] for bounds in nodes))

    def claim(self) -> None:
        """Set what is proven so far."""
        self.evaluator.lower_bound, self.evaluator.bound, self.evaluator.optimal = None, "", False
        best, bound = self.evaluator.best, self.lower_bound
        if self.problem.keeps_frontier:
            whole = self.done and math.isinf(self.standing.lost) and self.elsewhere.still_open().done
            self.evaluator.details[FRONTIER_OF] = BOUND if whole else NOT_PROVEN
        elif math.isfinite(bound):
            self.evaluator.lower_bound, self.evaluator.bound = bound, BOUND
            if best is not None and self._told != self.evaluator.evaluations:
                self._told = self.evaluator.evaluations
                self.evaluator.details[GAP] = self._gap(best.value)
            elif self.done and math.isinf(self.elsewhere.open_bound):
                self.evaluator.details[GAP] = {}

    def still_open(self) -> StillOpen:
        """Return what is not yet tried of its share."""
        least = {
            "could not be looked at": self.standing.lost,
            "layouts not yet looked at": self.layouts.least_unseen,
            "layouts not yet looked at closely": self.layouts.bounds.least[0],
            "groups not yet looked at closely": self.blocks.bounds.least[0],
        }
        for point, bound in self.points:
            fits = "" if point.seems_to_fit else " that may not fit"
            words = f"{point.block.schedule.name}{fits}, not simulated"
            least[words] = min(least.get(words, math.inf), bound)
        return StillOpen(least=least, done=self.done and math.isinf(self.standing.lost))

    def _gap(self, best: float) -> dict[str, float]:
        """Return by what the best is above its bound: by kind of open node what is due to it."""
        least = joined([self.still_open(), self.elsewhere.still_open()]).least
        found: dict[str, float] = {}
        reached, floor = best, self.standing.floor
        for words, bound in sorted(least.items(), key=itemgetter(1), reverse=True):
            if 0 < max(bound, floor) < reached:  # a bound of 0, of work without FLOPs, has no gap
                found[words] = best / max(bound, floor) - best / reached
                reached = max(bound, floor)
        return found

    @property
    def done(self) -> bool:
        """Whether no node is left."""
        return not (self.layouts or self.blocks or self.points)

    # ---- the search ---------------------------------------------------------------------------------

    def run(self) -> Iterator[Candidate | None]:
        """Open nodes until none is left; yield after every simulation and every few groups."""
        if self.standing.known and len(self.layouts) <= SMALL:
            yield from self._look_at_layouts(SMALL)
        while (usual := self.layouts.closed.usual) is not None:
            yield from self._make_block(usual)
        looked, least = 0, FIRST_LOOK
        while not self.done and not self.evaluator.exhausted:
            if self._looks_closer(looked, least):
                self._take_apart(*self.blocks.most_promising())
                looked += 1
                yield None
                continue
            yield from self._open_more()
            looked += AT_A_TIME
            if self._waits(looked):
                continue
            looked, least = 0, LOOK_AHEAD
            steps = self._next_points()
            for found in steps:
                self.claim()
                yield found
        self.claim()
        yield None

    def _looks_closer(self, looked: int, least: int) -> bool:
        """Tell whether groups are to be looked at next, for there may be better points in them than known.

        Args:
            looked: handfuls looked at since the last simulation.
            least: handfuls after which the next point may be simulated.
        """
        guess, (key, number) = self.blocks.next_guess, self.points.next_good
        if guess >= self.standing.limit or key <= NEAR * guess:
            return False
        return looked < least or (number >= 0 and self._cheap(looked, number))

    def _waits(self, looked: int) -> bool:
        """Tell whether more layouts and blocks are to be opened before the next point is simulated."""
        if self.layouts.closed.unseen is not None:
            return False  # there may be hundreds, and they are looked at many at a time
        key, number = self.points.next_good
        return number >= 0 and self.layouts.bounds.least[0] * NEAR < key and self._cheap(looked, number)

    def _cheap(self, looked: int, number: int) -> bool:
        """Tell whether so many layouts, blocks and handfuls took less than some simulations of a point."""
        return looked * SAVED < LOOKS * self.points.slowness(number)

    def _open_more(self) -> Iterator[None]:
        """Look at some more layouts, then make blocks of those whose bound is least."""
        yield from self._look_at_layouts(LAYOUTS_AT_A_TIME)
        for _ in range(AT_A_TIME if self.layouts.closed.unseen is None else FEW):
            block = self.layouts.weakest()
            if block is None:
                return
            yield from self._open_layout(block)

    def _look_at_layouts(self, most: int) -> Iterator[None]:
        """Look at some more layouts."""
        for _ in range(most):
            if (unseen := self.layouts.closed.unseen) is not None:
                self._saved += SAVED
                yield from self.layouts.look_at(unseen)

    def _open_layout(self, block: Closed) -> Iterator[None]:
        """Look closer at the layout of a block, or make the block once that was done."""
        if self.layouts.coarse(block.key):
            yield from self.layouts.look_closer(block.key)
        else:
            yield from self._make_block(block)

    def _make_block(self, closed: Closed) -> Iterator[None]:
        """Make a block and keep it open; yield between the steps."""
        self._saved += SAVED
        for made in self.layouts.make(closed):
            if made is not None:
                self.blocks.add(made)
            yield None

    def _take_apart(self, block: Block, groups: list[int]) -> None:
        """Replace groups of a block by their points."""
        self._saved += SAVED
        try:
            points = points_of(self.problem, block, groups)
        except ExplorerError:
            points = [point for group in groups for point in self._alone(block, group)]
        best: dict[int, float] = {}
        for point in points:
            self.points.add(point)
            best[point.group] = min(point.promise, best.get(point.group, math.inf))
        for group, guess in best.items():
            self.blocks.learn(block, group, guess)

    def _alone(self, block: Block, group: int) -> list[Point]:
        """Return the points of a group; none, for good, where they cannot be estimated."""
        try:
            return points_of(self.problem, block, [group])
        except ExplorerError:
            self.standing.give_up(float(block.lower[group]))
            return []

    # ---- simulating ---------------------------------------------------------------------------------

    def _next_points(self) -> Iterator[Candidate | None]:
        """Simulate a point that seems better than the best; if there is none, raise the bound.

        A point that takes long waits until as much was spent on layouts and blocks, of which others may come.
        """
        _, number = self.points.next_good
        if number >= 0:
            if self._may_judge(number):
                yield from self._judge(number)
        elif self.standing.known:
            yield from self._raise_bound()

    def _raise_bound(self) -> Iterator[Candidate | None]:
        """Open what the bound rests on: layouts and blocks, and then a point; yield between the steps.

        Points that take long wait until enough others were opened, or nothing else is left.
        """
        for _ in range(RAISES):
            if not (self.layouts or self.blocks):
                break
            yield from self._open_weakest()
        for number in (self.points.bounds.least[1], self.points.next_other[1]):
            if number >= 0 and number in self.points and self._may_judge(number, DEARER):
                yield from self._judge(number)

    def _open_weakest(self) -> Iterator[None]:
        """Open the layout or the block whose bound is least."""
        unseen = self.layouts.closed.unseen
        others = min(self.layouts.bounds.least[0], self.blocks.bounds.least[0])
        if unseen is not None and self.layouts.least_unseen <= others:
            yield from self.layouts.look_at(unseen)
        elif self.layouts.bounds.least[0] < self.blocks.bounds.least[0]:
            block = self.layouts.weakest()
            if block is not None:
                yield from self._open_layout(block)
        else:
            self._take_apart(*self.blocks.weakest())
            yield None

    def _may_judge(self, number: int, dearer: float = 1.0) -> bool:
        """Tell whether a point is quick enough to be simulated by now; note its time.

        Args:
            number: of the point.
            dearer: factor by which it counts as slower.
        """
        slow = self.points.slowness(number)
        if slow < QUICK:
            return True
        slow *= dearer
        if slow > self._saved and (self.layouts or self.blocks) and self.standing.known:
            return False
        self._saved = max(0.0, self._saved - slow)
        return True

    def _judge(self, number: int) -> Iterator[Candidate | None]:
        """Simulate a point, unless a bound leaves it out by now."""
        point, strategy = self.points[number], None
        hopeless = point.block.hopeless
        if not self.standing.worth(point.bound) or (
            hopeless and (self._closest >= MOST_HOPELESS or self.evaluator.best is not None)
        ):
            self.points.drop(number)
            return
        self._closest += hopeless
        with suppress(ExplorerError):
            strategy = self.points.strategy(number)
            self.evaluator.refused += strategy is None
        if strategy is None:
            self.points.drop(number)
            return
        yield None
        self.points.ask_ahead()
        found = self.evaluator.evaluate(strategy, point.label)
        self.points.drop(number)  # only now: what is said in between still counts it
        if self.evaluator.miss is not None and self.evaluator.miss.reason == EXHAUSTED:
            self.standing.give_up(point.bound)
        if found is not None:
            self.points.learn(number, found.outcome.step_time_s)
        yield found
        if found is not None and not point.bounds:
            yield from self._cut_anew(point, found.outcome.step_time_s)

    def _cut_anew(self, point: Point, step_s: float) -> Iterator[None]:
        """Offer the best uneven stages of a point's group, if it was good itself."""
        best, key = self.evaluator.best, point.family
        if best is None or not self.standing.known or key in self._cut:
            return
        if step_s > GOOD * best.outcome.step_time_s:
            return
        self._cut.add(key)
        with suppress(ExplorerError):
            for other in self._uneven.points(point.block, point.group, best.value):
                self.points.add(other)
        yield None
