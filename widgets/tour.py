"""A tour in five steps on the plan that is shown: what to look at, what to press, what came of it.

It is offered once, where a session is kept; the session's file remembers that it was taken or declined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from explorer.base.units import format_seconds
from explorer.explain.names import counted
from explorer.export import EXPORTERS

from .parts import Parts
from .session import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to see."""

    part: str
    """Widget at which it stands (`data-widget`)."""
    mark: str
    """Action of a button that is marked there; empty for the whole part."""
    title: str
    """Its name, a few words."""
    words: Callable[[Point, Touring], str]
    """Sentences about the plan shown; `**bold**` allowed."""


class Touring(Protocol):
    """The workbench as its tour sees it."""

    parts: Parts
    """Parts of the page, for what they show."""
    searcher: str
    """Searcher that Search asks."""
    search_budget_s: float
    """Seconds it has."""


def _board(point: Point, bench: Touring) -> str:
    del point
    view = bench.parts.board.view
    lanes = {lane["name"]: lane["forward_s"] + lane["backward_s"] for lane in view["lanes"]}
    slowest = max(lanes, key=lambda name: lanes[name])
    over = lanes[slowest] / view["ideal_s"] - 1 if view["ideal_s"] else 0.0
    return (
        f"Each row is a stage on its devices, as long as it works on one microbatch. **{slowest}** takes"
        f" {format_seconds(lanes[slowest])}, {over:+.0%} against the dashed line of an equal share. Drag the"
        " handle at its end, or a block to another row; by keyboard [ and ] move the boundary after a block."
        " While you drag, the figures above show what it would come to; Escape cancels."
    )


def _figures(point: Point, bench: Touring) -> str:
    reasons = bench.parts.tiles.view.get("reasons") or []
    offered = next((row for row in reasons if row.get("action")), None)
    help_ = "the button beside the sentence makes the change that helps most" if offered else (
        "where one change helps, a button beside the sentence makes it"
    )  # fmt: skip
    return (
        f"A step is predicted to take **{format_seconds(point.report.step_time_s)}**; ± says how sure that"
        " is, and pressed it says why and which run would narrow it. The sentence says whether"
        f" the plan fits and what binds; {help_}, and **Undo** takes everything back."
    )


def _timeline(point: Point, bench: Touring) -> str:
    del bench
    bubble, schedule = point.report.bubble_fraction, point.strategy.job.schedule
    return (
        f"One step under **{schedule}**: forward and backward of every microbatch, hatched where a device"
        f" waits, **{bubble:.1%}** of its time. C outlines the chain that decides the end, Enter on a bar"
        " follows its microbatch, W and S zoom."
    )


def _search(point: Point, bench: Touring) -> str:
    del point
    return (
        f"**Search** asks `{bench.searcher}` for up to {bench.search_budget_s:.0f} s. The board stays yours"
        " meanwhile; *Use best so far* puts what it found there, as an edit like any other. What is pinned"
        " (P) or locked (L) is left as it is."
    ).replace("`", "").replace("*Use best so far*", "Use best so far")  # fmt: skip


def _take_along(point: Point, bench: Touring) -> str:
    del point, bench
    targets = counted(len(EXPORTERS.names()), "target")
    return (
        f"**Export** writes the plan for {targets} and says what each cannot express. **History** has"
        " every state, saves the plan, copies it as one short text and makes a report. Run checks the"
        " prediction on this machine. **?** shows the keys of a part."
    )


STEPS = (
    Step(part="board", mark="", title="The board", words=_board),
    Step(part="tiles", mark="", title="What it comes to", words=_figures),
    Step(part="timeline", mark="", title="When what runs", words=_timeline),
    Step(part="controls", mark="search", title="Let it search", words=_search),
    Step(part="controls", mark="export", title="Take it along", words=_take_along),
)


class Tour:
    """Where somebody is in the tour.

    Args:
        bench: workbench whose plan it speaks of.
        changed: called when the step or what is remembered has changed.
    """

    def __init__(self, bench: Touring, changed: Callable[[], None]) -> None:
        self._bench, self._changed = bench, changed
        self._began: Point | None = None
        self.at = -1
        """Step shown, from 0; -1 for none."""
        self.offered = False
        """Whether it is offered."""
        self.seen = False
        """Whether it was taken, or declined for good: it is not offered again."""

    def offer(self) -> None:
        """Offer it, unless it was taken or declined before."""
        if not self.seen:
            self.offered = True
            self._changed()

    def actions(self) -> dict[str, Callable[[], None]]:
        """Return the actions of its buttons."""
        return {
            "tour_start": lambda: self.go(0),
            "tour_next": lambda: self.go(self.at + 1),
            "tour_back": lambda: self.go(max(0, self.at - 1)),
            "tour_end": self.end,
            "tour_later": self.later,
        }

    def go(self, at: int) -> None:
        """Show a step; behind the last one it has ended."""
        if at >= len(STEPS):
            self.end()
            return
        self.at, self.offered, self._began = at, False, None
        self._changed()

    def end(self) -> None:
        """Show no more of it, now or when the session is opened again."""
        self.at, self.offered, self.seen = -1, False, True
        self._changed()

    def later(self) -> None:
        """Take the offer away; it is made again another time."""
        self.at, self.offered = -1, False
        self._changed()

    def view(self, point: Point | None) -> dict[str, Any] | None:
        """Return what the page shows of it; None for nothing."""
        if point is None or (self.at < 0 and not self.offered):
            return None
        if self.at < 0:
            return {
                "step": 0, "of": len(STEPS), "part": "tiles", "mark": "", "title": "New here?",
                "text": "A tour in five steps, on this very plan.",
                "actions": [
                    _button("tour_start", "Take the tour", suggested=True),
                    _button("tour_later", "Not now"),
                    _button("tour_end", "Never again"),
                ],
            }  # fmt: skip
        step, last = STEPS[self.at], self.at == len(STEPS) - 1
        self._began = self._began or point
        return {
            "step": self.at + 1, "of": len(STEPS), "part": step.part, "mark": step.mark, "title": step.title,
            "text": self._came_of_it(point) + step.words(point, self._bench),
            "actions": [
                _button("tour_next", "Done" if last else "Next", suggested=True),
                *([_button("tour_back", "Back")] if self.at else []),
                *([] if last else [_button("tour_end", "End the tour")]),
            ],
        }  # fmt: skip

    def _came_of_it(self, point: Point) -> str:
        """Say what an edit made within this step has changed."""
        began = self._began
        if began is None or began.outcome is point.outcome:
            return ""
        before, now = (format_seconds(each.figures.step_time_s) for each in (began, point))
        return f"**You did it:** {point.note or 'a change'}; a step now takes {now}, before {before}. "


def _button(action: str, label: str, *, suggested: bool = False) -> dict[str, Any]:
    return {"action": action, "label": label, "suggested": suggested}
