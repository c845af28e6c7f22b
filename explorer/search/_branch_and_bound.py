"""Branch and bound over the space of `auto`: blocks, their groups, single strategies; simulated last.

A node is a block (one layout, schedule and order of devices), a group of a block (all but ZeRO and buckets
chosen), or a point. The node with the best guess is opened next; what its bound shows to be no better than
the best strategy so far is dropped, and only points are simulated. Guesses decide what comes first, bounds
what is left out: the result is the best of the space once no node is left, and until then the least bound of
all open nodes bounds it from below.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from explorer.base.errors import ExplorerError
from explorer.search._blocks import (
    Block,
    has_grids,
    least_of_layout,
    make_block,
    schedules_of,
)
from explorer.search._closed_blocks import Closed, ClosedBlocks, Key, can_be_built, closed_blocks
from explorer.search._devices import DeviceOrder
from explorer.search._frames import Frames
from explorer.search._groups import Family, Point, points_of, slowness
from explorer.search._layout_costs import LayoutCosts
from explorer.search._uneven_stages import UnevenStages
from explorer.search.evaluator import EXHAUSTED, FRONTIER_OF, GAP, Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategy import Strategy
from explorer.tables import Estimator, StageTable

FloatArray = npt.NDArray[np.float64]
BOUND = "strategies of even stages"
"""Name of the space that the bound holds for."""
PAUSE, LOOK_AHEAD, FIRST_LOOK = 1, 6, 40
"""Handfuls of groups looked at between two yields, between two simulations, and before the first at most."""
MOST_HOPELESS = 4
"""Points that are simulated, though they cannot fit, to say how close they come."""
AT_ONCE = 24
"""Groups of one block that are looked at together."""
AT_A_TIME, FEW, LAYOUTS_AT_A_TIME = 16, 10, 8
"""Blocks that are made between two simulations at most, those while layouts are left to be looked at, and
these.
"""
NOT_PROVEN = "not proven"
"""What is said of a frontier that may lack strategies of the space."""
GOOD = 1.25
"""Factor by which a strategy may be slower than the best, for uneven stages of its group to be tried."""
QUICK = 0.02
"""Slowness of points that are simulated for the sake of the bound alone."""
NEAR = 1.02
"""Factor by which a point's guess may exceed that of all unopened groups to be simulated at once."""


class Left:
    """What is left of a block.

    Args:
        block: the block, of which nothing was taken apart yet.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.open = np.ones(len(block.guess), dtype=bool)
        """Groups that are not yet taken apart."""
        self.queued = math.nan
        """Guess with which it stands in line."""

    @property
    def guess(self) -> float:
        """Best guess of its groups, which are in the order of theirs."""
        return float(self.block.guess[self.open.argmax()])

    @property
    def bound(self) -> float:
        """Least bound of its groups."""
        return float(self.block.lower[self.open].min())


class BranchAndBound:
    """The open nodes of one search.

    Args:
        problem: the search problem.
        evaluator: judge of the points, which holds the best so far.
    """

    def __init__(self, problem: Problem, evaluator: Evaluator) -> None:
        self.problem, self.evaluator = problem, evaluator
        self._serial = count()
        self._closed = ClosedBlocks(closed_blocks(problem))
        """Blocks not yet made."""
        self._schedules = schedules_of(problem)
        self._costs: dict[Key, LayoutCosts] = {}
        """Costs of layouts looked at, as long as some of their blocks are not made."""
        self._layouts: dict[int, Key] = {}
        """Those layouts by number."""
        self._numbers: dict[Key, int] = {}
        self._estimators: dict[DeviceOrder, Estimator] = {}
        self._frames = Frames(problem)
        self._uneven, self._cut = UnevenStages(problem), set[Family]()
        """Uneven stages, and groups for which they were looked for."""
        self._blocks: list[tuple[float, int]] = []
        """(guess, number) of open blocks; those that are no longer open are dropped when they come up."""
        self._left: dict[int, Left] = {}
        """What is left of every open block, by number."""
        self._points: list[tuple[float, int, Point]] = []
        self._pending: dict[int, Point] = {}
        """Members of the space that are neither simulated nor left out, by number."""
        self._ratios: dict[Family, float] = {}
        """Step time over its guess, of the point simulated last, by block and group."""
        self._closest = 0
        """Points simulated only to say how close they come."""
        self._strategies: dict[int, Strategy | None] = {}
        """Strategies of points that other processes were asked for."""
        self._corrected: set[int] = set()
        """Points whose guess was corrected by that of their group."""
        self._bounds: dict[int, float] = {}
        """Bound of every open layout, block and point, by number."""
        self._least: list[tuple[float, int]] = []
        """(bound, number), the least first; numbers that are no longer open are dropped when they come up."""
        self._floor = problem.lower_bound() or 0.0
        self._told = -1
        """Evaluations after which it was last worked out what the gap is due to."""
        self._lost = math.inf
        """Least bound of what could not be looked at."""

    # ---- bounds -------------------------------------------------------------------------------------

    @property
    def lower_bound(self) -> float:
        """Return what no strategy of the space is better than."""
        best = self.evaluator.best
        found = math.inf if best is None else best.value
        if self._closed.unseen is not None:
            found = min(found, self._floor)
        return max(self._floor, min(found, self._lost, self._weakest()[0]))

    def _weakest(self) -> tuple[float, int]:
        """Return the least bound of all open nodes, and the number of its node; infinite if none is open."""
        while self._least and self._bounds.get(self._least[0][1], math.inf) > self._least[0][0]:
            heapq.heappop(self._least)
        return self._least[0] if self._least else (math.inf, -1)

    def _open(self, number: int, bound: float) -> None:
        self._bounds[number] = bound
        heapq.heappush(self._least, (bound, number))

    def _worth(self, bound: float) -> bool:
        """Tell whether a node with this bound may still improve something."""
        best = self.evaluator.best
        return best is None or (self.problem.keeps_frontier and bound < math.inf) or bound < best.value

    # ---- the search ---------------------------------------------------------------------------------

    def run(self) -> Iterator[Candidate | None]:
        """Open nodes until none is left; yield after every simulation and every few groups."""
        while (usual := self._closed.usual) is not None:
            yield from self._make_block(usual)
        looked, most = 0, FIRST_LOOK
        while not self.done and not self.evaluator.exhausted:
            if self._left and (not self._points or (looked < most and not self._ripe)):
                self._look_closer()
                looked += 1
                if looked % PAUSE == 0:
                    yield None
                continue
            looked, most = 0, LOOK_AHEAD
            yield from self._open_more()
            if self._points and (self._promising or not (self._closed or self._known)):
                steps = self._simulate()
            else:
                steps = self._settle() if not self._closed else iter(())
            for found in steps:
                self.claim()
                yield found
            if self._known and self._left:
                yield from self._raise_bound()
        self.claim()
        yield None

    def _open_more(self) -> Iterator[None]:
        """Look at some more layouts, then make blocks of those whose bound is least."""
        for _ in range(LAYOUTS_AT_A_TIME):
            if (unseen := self._closed.unseen) is not None:
                yield from self._look_at(unseen)
        for _ in range(AT_A_TIME if self._closed.unseen is None else FEW):
            number = min(self._layouts, key=self._bounds.__getitem__, default=None)
            if number is None:
                return
            block = self._closed.first_of(self._layouts[number])
            if block is not None:
                yield from self._make_block(block)

    @property
    def _known(self) -> bool:
        """Tell whether bounds may leave anything out."""
        return self.evaluator.best is not None and not self.problem.keeps_frontier

    @property
    def _promising(self) -> bool:
        """Tell whether the best point may be better than what was found."""
        best = self.evaluator.best
        return bool(self._points) and (best is None or self._points[0][0] < best.value)

    @property
    def _ripe(self) -> bool:
        """Tell whether the best point is about as good as what is left may be."""
        return self._points[0][0] <= NEAR * self._next_guess()

    def _next_guess(self) -> float:
        """Return the best guess of all open blocks."""
        while self._blocks:
            guess, number = self._blocks[0]
            if number in self._left and self._left[number].queued == guess:
                break
            heapq.heappop(self._blocks)
        return self._blocks[0][0] if self._blocks else math.inf

    def claim(self) -> None:
        """Set what is proven so far."""
        self.evaluator.lower_bound, self.evaluator.bound, self.evaluator.optimal = None, "", False
        best, bound = self.evaluator.best, self.lower_bound
        if self.problem.keeps_frontier:
            whole = self.done and math.isinf(self._lost)
            self.evaluator.details[FRONTIER_OF] = BOUND if whole else NOT_PROVEN
        elif math.isfinite(bound):
            self.evaluator.lower_bound, self.evaluator.bound = bound, BOUND
            if best is not None and self._told != self.evaluator.evaluations:
                self._told = self.evaluator.evaluations
                self.evaluator.details[GAP] = self._gap(best.value)
            elif self.done:
                self.evaluator.details[GAP] = {}

    def _gap(self, best: float) -> dict[str, float]:
        """Return by what the best is above its bound: by kind of open node what is due to it."""
        least = {"could not be looked at": self._lost}
        least["layouts not yet looked at"] = self._floor if self._closed.unseen else math.inf
        least["layouts not yet looked at closely"] = min(
            (self._bounds[number] for number in self._layouts), default=math.inf
        )
        least["groups not yet looked at closely"] = min(
            (self._bounds[number] for number in self._left), default=math.inf
        )
        for number, point in self._pending.items():
            fits = "" if point.seems_to_fit else " that may not fit"
            words = f"{point.block.schedule.name}{fits}, not simulated"
            least[words] = min(least.get(words, math.inf), self._bounds[number])
        found: dict[str, float] = {}
        reached = best
        for words, bound in sorted(least.items(), key=itemgetter(1), reverse=True):
            if 0 < max(bound, self._floor) < reached:  # a bound of 0, of work without FLOPs, has no gap
                found[words] = best / max(bound, self._floor) - best / reached
                reached = max(bound, self._floor)
        return found

    @property
    def done(self) -> bool:
        """Whether no node is left."""
        return not (self._closed or self._left or self._points)

    def _make_block(self, closed: Closed) -> Iterator[None]:
        """Make a block, unless its layout is not worth it; yield between its steps."""
        key = closed.key
        if key not in self._costs:
            yield from self._look_at(closed)
        costs, best = self._costs.get(key), self.evaluator.best
        if costs is None:
            return
        number = self._numbers[key]
        if self._known and not self._worth(self._bounds[number]):
            self._leave(key)
            return
        made: Block | None = None
        try:
            for found in make_block(
                self.problem, closed.number, closed.order, costs, closed.schedule, closed.before,
                self._frames.of(closed.schedule, len(closed.order), costs.row),
                best.value if best is not None and self._known else math.inf,
            ):  # fmt: skip
                yield
                made = found
        except ExplorerError:
            self._give_up(self._bounds[number])
        if made is not None:
            self._push(Left(made), next(self._serial))
        if not self._closed.take(closed):
            self._leave(key)
        yield

    def _look_at(self, closed: Closed) -> Iterator[None]:
        """Make the costs of a layout, unless none of its strategies is worth it; yield between the steps."""
        key = closed.key
        bound = math.inf
        if has_grids(closed.order, closed.layout, self._frames):
            try:
                costs = LayoutCosts(self._estimator(closed.order), closed.layout)
                yield
                bound = least_of_layout(self.problem, closed.order, costs, self._frames, self._schedules)
                self._costs[key] = costs
            except ExplorerError:
                if can_be_built(self.problem, closed):
                    self._give_up(self._floor)
        self._closed.see(key)
        if bound < math.inf and (not self._known or self._worth(bound)):
            self._numbers[key] = number = next(self._serial)
            self._layouts[number] = key
            self._open(number, max(bound, self._floor))
        else:
            self._leave(key)
        yield

    def _leave(self, key: Key) -> None:
        """Forget a layout: all its blocks are made, or not worth it."""
        self._closed.drop(key)
        self._costs.pop(key, None)
        number = self._numbers.pop(key, -1)
        self._layouts.pop(number, None)
        self._bounds.pop(number, None)

    def _give_up(self, bound: float) -> None:
        """Leave a node with a bound open for good: what is in it could not be looked at."""
        self._lost = min(self._lost, bound)

    def _estimator(self, order: DeviceOrder) -> Estimator:
        """Return the estimates of plans on the devices of an order."""
        if order not in self._estimators:
            problem = self.problem
            table = StageTable(problem.graph, problem.needed_cluster, problem.job, devices=order)
            found = Estimator(problem.graph, problem.needed_cluster, problem.job, table=table)
            self._estimators[order] = found
        return self._estimators[order]

    def _push(self, left: Left, number: int) -> None:
        """Keep a block open, less what its bounds leave out."""
        best = self.evaluator.best
        if best is not None and self._known:
            left.open &= left.block.lower < best.value
        if not left.open.any():
            self._left.pop(number, None)
            self._bounds.pop(number, None)
            return
        self._left[number] = left
        if left.queued != left.guess:
            left.queued = left.guess
            heapq.heappush(self._blocks, (left.guess, number))
        self._open(number, left.bound)

    def _look_closer(self) -> None:
        """Take the most promising groups of the most promising block apart, a few at once."""
        self._next_guess()
        _, number = heapq.heappop(self._blocks)
        left = self._left[number]
        left.queued, limit = math.nan, self._next_guess()
        groups = np.flatnonzero(left.open)[:AT_ONCE]
        guesses = left.block.guess[groups]
        self._take_apart(left, groups[guesses <= max(limit, float(guesses[0]))].tolist(), number)

    def _settle(self) -> Iterator[Candidate | None]:
        """Simulate the point on which the bound of the whole space rests, if that takes little time;
        else the most promising one. By now none seems to be better than the best.
        """
        _, number = self._weakest()
        point = self._pending.get(number)
        if point is not None and slowness(self.problem, point) < QUICK and self._worth(self._bounds[number]):
            yield from self._judge(number, point)
        elif self._points:
            yield from self._simulate()

    def _raise_bound(self) -> Iterator[None]:
        """Look closer at what the bound of the whole space rests on, if that is a layout or a block."""
        _, number = self._weakest()
        if number in self._layouts:
            block = self._closed.first_of(self._layouts[number])
            if block is not None:
                yield from self._make_block(block)
        elif number in self._left:
            left = self._left[number]
            groups = np.flatnonzero(left.open)
            lower = left.block.lower[groups]
            some = groups[np.argsort(lower, kind="stable")[:AT_ONCE]]
            self._take_apart(left, some.tolist(), number)
        yield None

    def _take_apart(self, left: Left, groups: list[int], number: int) -> None:
        """Replace some groups of a block by their points."""
        block = left.block
        worth = [group for group in groups if self._worth(float(block.lower[group]))]
        try:
            points = points_of(self.problem, block, worth)
        except ExplorerError:
            points = [point for group in worth for point in self._alone(block, group)]
        for point in points:
            if self._worth(point.bound):
                own = next(self._serial)
                key = point.guess * (1.0 + slowness(self.problem, point))
                heapq.heappush(self._points, (key, own, point))
                self._pending[own] = point
                self._open(own, point.bound)
        left.open[groups] = False
        self._push(left, number)

    def _alone(self, block: Block, group: int) -> list[Point]:
        """Return the points of a group; none, for good, where they cannot be estimated."""
        try:
            return points_of(self.problem, block, [group])
        except ExplorerError:
            self._give_up(float(block.lower[group]))
            return []

    def _simulate(self) -> Iterator[Candidate | None]:
        """Simulate the most promising point, unless a bound leaves it out by now; yield nothing then."""
        key, number, point = heapq.heappop(self._points)
        if number not in self._bounds:
            return
        if point.block.hopeless and (self._closest >= MOST_HOPELESS or self.evaluator.best is not None):
            self._drop(number)
            return
        self._closest += point.block.hopeless
        if not self._worth(self._bounds[number]):
            self._drop(number)
            return
        ratio = self._correction(number, point)
        if ratio > 1.0:
            self._corrected.add(number)
            heapq.heappush(self._points, (key * ratio, number, point))
            return
        yield from self._judge(number, point)

    def _drop(self, number: int) -> None:
        """Leave a point out."""
        self._bounds.pop(number)
        self._pending.pop(number, None)

    def _judge(self, number: int, point: Point) -> Iterator[Candidate | None]:
        """Simulate a point."""
        strategy = None
        with suppress(ExplorerError):
            strategy = self._built(number, point)
            self.evaluator.refused += strategy is None
        self._strategies.pop(number, None)
        if strategy is None:
            self._drop(number)
            return
        yield None
        self._ask_ahead()
        found = self.evaluator.evaluate(strategy, point.label)
        bound = self._bounds[number]
        self._drop(number)  # only now: what is said in between still counts it
        if self.evaluator.miss is not None and self.evaluator.miss.reason == EXHAUSTED:
            self._give_up(bound)
        if found is not None:
            self._ratios[point.family] = found.outcome.step_time_s / point.step_s
        yield found
        if found is not None and not point.bounds:
            yield from self._cut_anew(point, found.outcome.step_time_s)

    def _cut_anew(self, point: Point, step_s: float) -> Iterator[None]:
        """Offer the best uneven stages of a point's group, if it was good itself."""
        best, key = self.evaluator.best, point.family
        if best is None or not self._known or key in self._cut or step_s > GOOD * best.outcome.step_time_s:
            return
        self._cut.add(key)
        with suppress(ExplorerError):
            for other in self._uneven.points(point.block, point.group, best.value):
                number = next(self._serial)
                self._bounds[number] = other.bound  # it is no member of the space that is bounded
                heapq.heappush(self._points, (other.guess, number, other))
        yield None

    def _ask_ahead(self) -> None:
        """Have the next points simulated by other processes, if there are any."""
        jobs = self.evaluator.jobs
        if jobs is None:
            return
        soon = heapq.nsmallest(jobs.limit, self._points)
        soon.sort(key=lambda item: item[0] * self._correction(item[1], item[2]))
        self._strategies = {n: self._strategies[n] for _, n, _ in soon if n in self._strategies}
        found = []
        for _, number, point in soon[: jobs.limit // 2]:
            if self._worth(self._bounds.get(number, math.inf)):
                with suppress(ExplorerError):
                    found.append(self._built(number, point))
        self.evaluator.ahead([strategy for strategy in found if strategy is not None], instead=True)

    def _correction(self, number: int, point: Point) -> float:
        """Return what the guess of a point is to be multiplied by, as points of its group took longer."""
        return 1.0 if number in self._corrected else max(1.0, self._ratios.get(point.family, 1.0))

    def _built(self, number: int, point: Point) -> Strategy | None:
        """Return the strategy of a point, built once while it is open."""
        if number not in self._strategies:
            self._strategies[number] = point.strategy(self.problem)
        return self._strategies[number]
