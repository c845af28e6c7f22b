"""The Export tab: what a trainer would be given, file by file. Nothing is written; the page downloads."""

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
    """Shows the export of the present state, once asked; from then on it follows every edit."""

    title = "Export"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asked = False
        self._idle = Idle(bench.lock, self._failed)
        self.page = ExportView()
        self.page.observe(lambda _: bench.guard(self._draw_if_asked), "target")
        self.box = VBox([self.page], layout=Layout(width="100%"))

    def widgets(self) -> tuple[Widget, ...]:
        """The files."""
        return (self.page,)

    def actions(self) -> dict[str, Callable[[], Any]]:
        """Show the files; read them back."""
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
        """Forget what waits."""
        self._idle.cancel()

    def draw(self, *, check: bool = False) -> None:
        """Everything of this tab anew.

        Args:
            check: read the files back in any case. Else that is left to a button where it would load a
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
    """Whether the model is a bundled one, which is made in no time."""
    from explorer.models import SOURCES

    return now.inputs.model.reference in SOURCES.names()
