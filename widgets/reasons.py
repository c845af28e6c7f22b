"""Reasons next to the tiles, found one after the other in quiet moments.

Those of the former plan stay, marked as such, until each is replaced; so the list neither empties nor jumps
while a plan is edited. What was found for a plan is kept for a while: undo shows it at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from explorer.base.pacing import NotYet, paced
from explorer.explain import Sentence, ordered, reasons
from explorer.views import reasons_view, verdict_view

from .holds import released
from .quiet import small_slices
from .session import Point

MOST_KEPT = 8
"""Plans whose reasons are remembered."""
LONGEST_S = 10.0
"""Seconds of work on the reasons for one plan, without pauses, after which no more are looked for."""
SLICE_S = 0.03
"""Seconds of work between two pauses, however long one change takes to be simulated."""


class Reasons:
    """Reasons given for the plan shown, and the changes that its buttons make."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.rows: list[dict[str, Any]] = []
        """`Tiles.view["reasons"]`."""
        self.under_way = False
        """Whether more are being computed."""
        self.verdict: dict[str, Any] | None = None
        """The sentence with the best proposal; None until all reasons are known."""
        self._best: Sentence | None = None
        self._said: dict[str, Sentence] = {}
        self._kept: list[tuple[Point, tuple[Sentence, ...]]] = []

    def settled(self, now: Point, before: Point | None) -> None:
        """Show the reasons of another state if they are known, else the former ones, marked as old."""
        self.verdict, self._best, self._said = None, None, {}
        known = next((said for point, said in self._kept if _same(point, now)), None)
        if known is not None:
            self._finish(now, known)
        elif before is None or before.inputs.graph.name != now.inputs.graph.name:
            self.rows = []
        else:
            self.rows = [row | {"old": True} for row in self.rows]
        self.under_way = known is None

    def work(self, now: Point) -> Iterator[None]:
        """Find the reasons, with a pause after every change tried, every reason found and every `SLICE_S`."""
        if self.under_way:
            try:
                with small_slices():
                    yield from self._found(now)
            except Exception:
                self.under_way = False  # errors are shown; the list must not wait for ever
                raise

    def _found(self, now: Point) -> Iterator[None]:
        found: list[Sentence] = []
        job, own = now.strategy.job, now.inputs
        begun, spent = self._clock(), 0.0
        steps = reasons(
            own.graph, own.cluster, own.workload, now.strategy, now.report,
            allowed=lambda changed: not released(now.holds, job, changed.job),
        )  # fmt: skip
        with closing(paced(steps, SLICE_S)) as slices:
            for said in slices:
                if said is not None and not isinstance(said, NotYet):
                    found.append(said)
                    self._add(now, said)
                spent += self._clock() - begun
                if spent > LONGEST_S:
                    break  # a plan so large that one change takes seconds: what was found stands
                yield
                begun = self._clock()
        self._finish(now, ordered(tuple(found)))

    def _add(self, now: Point, said: Sentence) -> None:
        """Put a reason in the place of the old one of its topic."""
        self._said[said.topic] = said
        row = reasons_view(now.scene, [said])[0]
        if any(item["key"] == said.topic for item in self.rows):
            self.rows = [row if item["key"] == said.topic else item for item in self.rows]
        else:
            self.rows = [*self.rows, row]

    def _finish(self, now: Point, said: tuple[Sentence, ...]) -> None:
        self.under_way = False
        self._said = {item.topic: item for item in said}
        self.rows = reasons_view(now.scene, said)
        self.verdict, self._best = verdict_view(now.scene, said)
        self._kept = [*(pair for pair in self._kept if not _same(pair[0], now)), (now, said)][-MOST_KEPT:]

    def proposal(self, key: str = "") -> Sentence | None:
        """Return what a button stands for: the reason of that key, or the best one; None if there is none."""
        found = self._said.get(key) if key else self._best
        return found if found is not None and found.strategy is not None else None


def _same(a: Point, b: Point) -> bool:
    """Tell whether two states are one plan with the same pins and locks, whatever they are compared with."""
    return (
        a.outcome is b.outcome and a.holds == b.holds
    )  # not their scenes: a dropped one would be made again
