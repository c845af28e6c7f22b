"""The Schedules tab: which schedules there are, what they come to here, and two of them beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from explorer.base.errors import ExplorerError, InputError
from explorer.schedules import SCHEDULES, Schedule
from explorer.schedules.groups import GROUPS
from explorer.schedules.placements import ANY
from widgets.ahead import MOST_TASKS
from widgets.base import Intent, Widget
from widgets.compare.schedule_words import schedule_difference
from widgets.jobs import Idle
from widgets.panel import Bench, Panel
from widgets.schedule_choice import Choice, choices, with_schedule
from widgets.session import Point
from widgets.tab_box import TabBox

from .figures import ScheduleFigures, count, known_figures
from .view import Schedules


class SchedulesPanel(Panel):
    """Panel of all schedules, counted one by one while in sight; figures are kept with the state."""

    title = "Schedules"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._idle = Idle(bench.lock, self._failed)
        self.table = Schedules(late=True)
        self.table.on_intent(self._answer)
        self.table.observe(lambda _: bench.guard(self._begin), "visible")
        self.box = TabBox(lambda: (self.table,))

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widget: the table."""
        return (self.table,)

    def settled(self, now: Point) -> None:
        """Show the schedules of another state, and count them if they are in sight."""
        del now
        self._begin()

    def forget(self) -> None:
        """Count no longer for former inputs."""
        self._idle.cancel()

    def close(self) -> None:
        """End counting."""
        self._idle.cancel()

    # -- counting ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._idle.cancel()
        self.draw()
        if self.table.visible and self._bench.history.now is not None:
            self._idle.later(self._work)

    def _work(self) -> Iterator[None]:
        """Count what is not counted yet, one schedule a slice."""
        now = self._bench.history.now
        if now is None or now.report.timeline.program.size > MOST_TASKS:
            return  # each would keep gestures waiting: only those asked for by name are counted
        for choice in choices(now):
            if now is self._bench.history.now and _counts(now, choice):
                self._count(now, choice.name)
                self.draw()
                yield

    def _count(self, now: Point, name: str) -> None:
        try:
            count(now, name)
        except ExplorerError as error:
            known_figures(now)[name] = str(error)

    def _failed(self, error: Exception) -> None:
        self.table.notice = {"level": "error", "text": f"{type(error).__name__}: {error}"}

    # -- what the page asks -----------------------------------------------------------------------

    def _answer(self, intent: Intent) -> None:
        name = str(intent.get("schedule", ""))
        if intent["kind"] == "use":
            self._bench.guard(lambda: self._bench.show(with_schedule(self._bench.now(), name)))
        elif intent["kind"] == "beside":
            self._bench.guard(lambda: self.beside(name))
        elif intent["kind"] == "count":
            self._bench.guard(lambda: self.count(name))

    def beside(self, name: str) -> None:
        """Keep the plan shown, and draw it under a schedule as plan B beside it.

        Raises:
            ExplorerError: the schedule cannot order the plan, or is the one on the board.
        """
        now = self._bench.now()
        if name == now.strategy.job.schedule:
            raise InputError(
                f"{name} is on the board", key="schedule", found=name, allowed="another schedule"
            )
        self._bench.compare_with(replace(with_schedule(now, name), note=name))

    def count(self, name: str) -> None:
        """Count a schedule by name, however long it takes.

        Raises:
            InputError: no such schedule.
        """
        SCHEDULES.get(name)
        self._count(self._bench.now(), name)
        self.draw()

    # -- drawing ----------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw the table again; what is equal is not sent again."""
        now = self._bench.history.now
        view = table_view(now) if now is not None and self.table.visible else {}
        if view != self.table.view:
            self.table.view = view


def table_view(now: Point) -> dict[str, Any]:
    """Return `Schedules.view` of a state."""
    known, found = known_figures(now), choices(now)
    other = now.other.strategy.job.schedule if now.other else None
    return {
        "groups": [{"name": group.name, "title": group.title} for group in GROUPS],
        "rows": [_row(now, choice, known.get(choice.name), other) for choice in found],
        "lanes": [f"stage {i}" for i in range(len(now.groups))],
        "text": _words(found),
        "difference": schedule_difference(now, now.other) if now.other else [],
        "names": [now.strategy.job.schedule, other],
    }


def _row(
    now: Point, choice: Choice, known: ScheduleFigures | str | None, other: str | None
) -> dict[str, Any]:
    schedule = SCHEDULES.get(choice.name)
    problem = choice.problem or (known if isinstance(known, str) else "")
    state = "impossible" if problem else "counted" if known is not None else "waiting"
    if state == "waiting" and not _counts(now, choice):
        state = "asked"
    return {
        "name": choice.name,
        "group": choice.group,
        "title": schedule.title,
        "paper": schedule.paper,
        "needs": schedule.needs.words(),
        "cuts": _cuts(schedule) if choice.anew else None,
        "problem": problem or None,
        "state": state,
        "shown": choice.name == now.strategy.job.schedule,
        "beside": choice.name == other,
        "figures": known.as_dict() if isinstance(known, ScheduleFigures) else None,
    }


def _cuts(schedule: Schedule) -> str:
    """Say how a schedule cuts the model anew."""
    return "evenly" if schedule.placement is ANY else schedule.placement.text


def _counts(now: Point, choice: Choice) -> bool:
    """Tell whether a schedule is counted without being asked for."""
    schedule = SCHEDULES.get(choice.name)
    large = now.report.timeline.program.size > MOST_TASKS
    known = choice.name in known_figures(now)
    return not (choice.problem or known or schedule.costly or schedule.literal or large)


def _words(found: tuple[Choice, ...]) -> str:
    possible = [choice for choice in found if not choice.problem]
    anew = sum(choice.anew for choice in possible)
    text = f"{len(possible) - anew} of {len(found)} can order this plan as it is"
    return text + (f", {anew} cut the model anew" if anew else "") + "; figures are simulated"
