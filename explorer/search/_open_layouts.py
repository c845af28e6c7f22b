"""Open layouts of a branch and bound: those not looked at yet, and those with blocks that are not made."""

from __future__ import annotations

import math
from collections.abc import Iterator

from explorer.base.errors import ExplorerError
from explorer.search._blocks import Block, has_grids, least_of_layout, make_block, schedules_of
from explorer.search._closed_blocks import Closed, ClosedBlocks, Key, can_be_built, closed_blocks
from explorer.search._devices import DeviceOrder
from explorer.search._frames import Frames
from explorer.search._layout_costs import LayoutCosts
from explorer.search._open_bounds import OpenBounds
from explorer.search._quick_bounds import least_of_block
from explorer.search._shares import WHOLE, Share
from explorer.search._standing import Standing
from explorer.tables import Estimator, StageTable


class OpenLayouts:
    """Layouts of one search.

    Args:
        standing: where the search stands.
        share: share of the space that is searched.
    """

    def __init__(self, standing: Standing, share: Share = WHOLE) -> None:
        self.standing, self.problem = standing, standing.problem
        self.closed = ClosedBlocks(closed_blocks(self.problem, share))
        """Blocks not yet made."""
        self.bounds = OpenBounds()
        """Bounds of layouts looked at, as long as some of their blocks are not made."""
        self._schedules = schedules_of(self.problem)
        self._costs: dict[Key, LayoutCosts] = {}
        self._blocks: dict[Key, dict[int, float]] = {}
        """Bounds of blocks, by place of their schedule, of layouts that were looked at closer."""
        self._keys: list[Key] = []
        """Layouts looked at, by number."""
        self._numbers: dict[Key, int] = {}
        self._estimators: dict[DeviceOrder, Estimator] = {}
        self._frames = Frames(self.problem)

    def __len__(self) -> int:
        """Count the layouts of which something is not yet made."""
        return len(self.closed)

    @property
    def least_unseen(self) -> float:
        """Bound of the layouts not yet looked at; infinite if there are none."""
        return self.standing.floor if self.closed.unseen is not None else math.inf

    def look_at(self, closed: Closed) -> Iterator[None]:
        """Make the costs of a layout, unless none of its strategies is worth it; yield between the steps."""
        key, standing = closed.key, self.standing
        bound = math.inf
        if has_grids(closed.order, closed.layout, self._frames):
            try:
                costs = LayoutCosts(self._estimator(closed.order), closed.layout)
                yield
                bound = least_of_layout(self.problem, closed.order, costs, self._frames, self._schedules)
                self._costs[key] = costs
            except ExplorerError:
                if can_be_built(self.problem, closed):
                    standing.give_up(standing.floor)
        self.closed.see(key)
        if bound < math.inf and standing.worth(bound):
            self._numbers[key] = number = len(self._keys)
            self._keys.append(key)
            self.bounds.open(number, max(bound, standing.floor))
        else:
            self._leave(key)
        yield

    def weakest(self) -> Closed | None:
        """Return the next block of the layout looked at whose bound is least; None if there is none."""
        _, number = self.bounds.least
        return self.closed.first_of(self._keys[number]) if number >= 0 else None

    def coarse(self, key: Key) -> bool:
        """Tell whether a layout has one bound for all of its blocks, where others may leave some out."""
        return key not in self._blocks and self.standing.known and key in self._costs

    def look_closer(self, key: Key) -> Iterator[None]:
        """Bound every block of a layout by itself, and leave out those that are not worth it."""
        costs, number = self._costs[key], self._numbers[key]
        found, floor = dict[int, float](), self.bounds[number]
        for block in self.closed.of(key):
            frame = self._frames.of(block.schedule, len(block.order), costs.row)
            try:
                bound = least_of_block(
                    self.problem, block.order, costs, block.schedule, block.before, frame, self.standing.limit
                )  # fmt: skip
            except ExplorerError:
                bound = floor
            found[block.place] = max(bound, floor)
            yield None
        self._blocks[key] = found
        self._keep(key)

    def _keep(self, key: Key) -> None:
        """Keep the blocks of a layout that are worth it, the one with the least bound first."""
        known = self._blocks.get(key)
        if known is None:
            return
        left = [block for block in self.closed.of(key) if self.standing.worth(known[block.place])]
        left.sort(key=lambda block: known[block.place])
        self.closed.keep(key, left)
        if left:
            self.bounds.open(self._numbers[key], known[left[0].place])
        else:
            self._leave(key)

    def make(self, closed: Closed) -> Iterator[Block | None]:
        """Make a block, unless its layout is not worth it; yield None between its steps, then the block."""
        key = closed.key
        if key not in self._costs:
            yield from self.look_at(closed)
        costs = self._costs.get(key)
        if costs is None:
            return
        bound = self.bounds[self._numbers[key]]
        if not self.standing.worth(bound):
            self._leave(key)
            return
        try:
            yield from make_block(
                self.problem, closed.number, closed.order, costs, closed.schedule, closed.before,
                self._frames.of(closed.schedule, len(closed.order), costs.row), self.standing.limit,
            )  # fmt: skip
        except ExplorerError:
            self.standing.give_up(bound)
        if not self.closed.take(closed):
            self._leave(key)
        else:
            self._keep(key)
        yield None

    def _leave(self, key: Key) -> None:
        """Forget a layout: all its blocks are made, or not worth it."""
        self.closed.drop(key)
        self._costs.pop(key, None)
        self._blocks.pop(key, None)
        self.bounds.close(self._numbers.pop(key, -1))

    def _estimator(self, order: DeviceOrder) -> Estimator:
        """Return the estimates of plans on the devices of an order."""
        if order not in self._estimators:
            problem = self.problem
            table = StageTable(problem.graph, problem.needed_cluster, problem.job, devices=order)
            found = Estimator(problem.graph, problem.needed_cluster, problem.job, table=table)
            self._estimators[order] = found
        return self._estimators[order]
