"""The Export tab: the files that a trainer would be given. Nothing is written; the page downloads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipywidgets import Layout, VBox

from explorer.views import export_view
from widgets.base import Widget
from widgets.jobs import Idle
from widgets.panel import Bench, Panel
from widgets.session import Point

from .view import ExportView


class ExportPanel(Panel):
    """Panel that shows the export of the present state, once asked; from then on it follows every edit."""

    title = "Export"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asked = False
        self._idle = Idle(bench.lock, self._failed)
        self.page = ExportView()
        self.page.observe(lambda _: bench.guard(self._draw_if_asked), "target")
        self.box = VBox([self.page], layout=Layout(width="100%"))

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widget of the files."""
        return (self.page,)

    def actions(self) -> dict[str, Callable[[], Any]]:
        """Return the actions: show the files, read them back."""
        return {"export": self._export, "check_export": lambda: self.draw(check=True)}

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
        view = export_view(now.resolved(), self.page.target, check=check or loads_quickly(now))
        with self.page.hold_sync():
            self.page.view = view
            names = [item["name"] for item in view["files"]]
            if names and self.page.file not in names:
                self.page.file = names[0]

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


def loads_quickly(now: Point) -> bool:
    """Tell whether the model is a bundled one, which loads in no time."""
    from explorer.models import SOURCES

    return now.inputs.model.reference in SOURCES.names()
