"""The Export tab: the files that a trainer would be given. Nothing is written; the page downloads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.base.errors import InputError
from explorer.plan import Resolved
from explorer.views import export_view
from explorer.views.export_answers import nearest_view, price_slices
from widgets.base import Widget
from widgets.jobs import Idle, at_once
from widgets.opening import plan_point
from widgets.panel import Bench, Panel
from widgets.session import History, Point
from widgets.tab_box import TabBox

from .view import ExportView

if TYPE_CHECKING:  # the registry of exporters is loaded when the tab is first opened
    from explorer.export.nearest import Nearest

IMPORTED = "import"
"""Maker of states that are another trainer's config."""


class ExportPanel(Panel):
    """Panel that shows the export of the present state, once asked; from then on it follows every edit."""

    title = "Export"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asked = False
        self._nearest: tuple[Point, str, Nearest | None] | None = None
        self._idle = Idle(bench.lock, self._failed)
        self.page = ExportView(late=True)
        self.page.observe(lambda _: bench.guard(self._draw_if_asked), "target")
        self.box = TabBox(lambda: (self.page,))

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widget of the files."""
        return (self.page,)

    def actions(self) -> dict[str, Callable[[], Any]]:
        """Return the actions: show the files, read them back, take the nearest plan that can be run."""
        return {
            "export": self._export,
            "check_export": lambda: self.draw(check=True),
            "use_nearest": self.use_nearest,
        }

    def settled(self, now: Point) -> None:
        """Grey what is shown and make it anew in the next quiet moment."""
        del now
        if not self._asked:
            return
        if self.page.view:
            self.page.view = {**self.page.view, "pending": True}
        if not self._idle.later(self.draw):
            self.draw()

    def close(self) -> None:
        """Drop pending work."""
        self._idle.cancel()

    def draw(self, *, check: bool = False) -> None:
        """Draw everything in this tab again.

        Args:
            check: read the files back in any case. Otherwise that is left to a button if it would load a
                model from a file again, which may take long or run its code.
        """
        now = self._bench.history.now
        if now is None:
            self.page.view = {}
            return
        self._asked = True
        self._idle.cancel()
        view = export_view(
            now.resolved(), self.page.target,
            check=check or loads_quickly(now), before=changed_since(self._bench.history),
        )  # fmt: skip
        with self.page.hold_sync():
            self.page.view = view
            names = [item["name"] for item in view["files"]]
            if names and self.page.file not in names:
                self.page.file = names[0]
        if any(row["answer"] != "exact" for row in view["answers"]) and not self._idle.later(self._count):
            at_once(self._count)

    def use_nearest(self) -> None:
        """Put the nearest plan that the target can run on the board, as an edit that Undo takes back.

        Raises:
            InputError: no plan near this one was found that it can run, or it runs this one.
        """
        from explorer.export.nearest import nearest

        now, target = self._bench.now(), self.page.target
        kept = self._nearest
        known = kept is not None and kept[0] is now and kept[1] == target
        found = kept[2] if kept is not None and known else nearest(now.resolved(), target)
        if found is None or not found.changes:
            raise InputError(
                f"{target} runs the plan as it is"
                if found
                else f"no plan near this one is known that {target} can run",
                key="target", found=target, allowed="change the plan, or choose another target",
            )  # fmt: skip
        point = plan_point(found.resolved)
        self._bench.show(replace(point, note=f"nearest plan that {target} can run", maker="board"))

    def _count(self) -> Iterator[None]:
        """Add what has to be simulated to what is shown: prices, and the nearest plan."""
        now, view = self._bench.history.now, self.page.view
        if now is None or not view:
            return
        target = view["target"]
        rows, found = yield from price_slices(now.resolved(), target, view["answers"])
        near = nearest_view(found, target) if view["nearest"] else None
        self._nearest = (now, target, found)
        self.page.view = {**view, "answers": rows, "nearest": near}

    def _export(self) -> None:
        self._bench.open_tab(self.title)
        self.draw()

    def _draw_if_asked(self) -> None:
        if self._asked:
            self.draw()

    def _failed(self, error: Exception) -> None:
        def again() -> None:
            raise error

        self._bench.guard(again)


def changed_since(history: History) -> tuple[Resolved, str] | None:
    """Return the plan from which the change is said, and what it is: the last import, else the first state.

    Only states up to the one shown count.
    """
    points = history.points[: history.at + 1]
    for point in reversed(points):
        if point.maker == IMPORTED:
            return point.resolved(), point.note.partition(";")[0]
    return (points[0].resolved(), "where the session began") if points else None


def loads_quickly(now: Point) -> bool:
    """Tell whether the model is a bundled one, which loads in no time."""
    from explorer.models import SOURCES

    return now.inputs.model.reference in SOURCES.names()
