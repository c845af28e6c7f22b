"""The Library tab: a published system's example on the board, and its paper's claims next to our figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ipywidgets import HTML, Layout

from explorer.base.errors import InputError
from explorer.library import SYSTEMS, Outcome, System, reproduce
from widgets.base import Widget
from widgets.controls import Controls
from widgets.jobs import Idle, at_once
from widgets.opening import plan_point
from widgets.panel import Bench, Panel
from widgets.tab_box import TabBox

from .words import example_words, system_html

SYSTEM, LOAD = "library_system", "library_load"


class LibraryPanel(Panel):
    """Panel that shows one system at a time. Claims are computed one by one once it is chosen, and kept."""

    title = "Library"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._chosen = ""
        self._outcomes: dict[str, list[Outcome]] = {}
        self._problems: dict[str, str] = {}
        self._idle = Idle(bench.lock, self._failed)
        self.controls = Controls(late=True)
        self.text = HTML(layout=Layout(width="100%"))
        self.box = TabBox(lambda: (self.controls, self.text))
        self.draw()

    @property
    def system(self) -> System | None:
        """The system shown; None before one is chosen."""
        return SYSTEMS.get(self._chosen) if self._chosen else None

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widgets: picker and button."""
        return (self.controls,)

    def actions(self) -> Mapping[str, Callable[[], Any]]:
        """Return the action: load the example."""
        return {LOAD: self.load}

    def set(self, key: str, value: Any) -> bool:
        """Choose a system.

        Raises:
            InputError: there is no such system.
        """
        if key != SYSTEM:
            return False
        self._chosen = SYSTEMS.get(str(value)).name if value else ""
        self.draw()
        if self._chosen and not self._idle.later(self._work):
            at_once(self._work)
        return True

    def load(self) -> None:
        """Put the example of the system on the board, as an edit that Undo takes back.

        Raises:
            ExplorerError: nothing is chosen, or the example cannot be made.
        """
        system = self.system
        if system is None:
            raise InputError("no system is chosen", key=SYSTEM, allowed="choose a system in the Library tab")
        point = plan_point(system.function().resolved(title=f"{system.name}: {example_words(system)}"))
        self._bench.show(replace(point, note=f"example of {system.name}"))

    def _work(self) -> Iterator[None]:
        """Compute the claims that are not computed yet, one a slice."""
        system = self.system
        if system is None:
            return
        found = self._outcomes.setdefault(system.name, [])
        for outcome in reproduce(_without(system, len(found))):
            found.append(outcome)
            self.draw()
            yield

    def _failed(self, error: Exception) -> None:
        self._problems[self._chosen] = str(error)
        self.draw()

    def draw(self) -> None:
        """Draw the picker, and what is known about the system."""
        system = self.system
        rows = [{"value": "", "label": "choose a system…"}]
        rows += [
            {"value": item.name, "label": f"{item.name}, {item.year}: {item.title}"}
            for item in sorted(SYSTEMS, key=lambda item: (item.year, item.name))
        ]
        field = {
            "key": SYSTEM, "label": "Published system", "kind": "select", "value": self._chosen,
            "options": rows, "width_px": 560,
        }  # fmt: skip
        button = {
            "action": LOAD, "label": "Load its example", "enabled": system is not None, "primary": False,
            "title": example_words(system) if system else "Choose a system first",
        }  # fmt: skip
        view = {"name": "Library", "fields": [field], "buttons": [button]}
        if view != self.controls.view:
            self.controls.view = view
        text = ""
        if system is not None:
            known = self._outcomes.get(system.name, ())
            text = system_html(system, known, self._problems.get(system.name, ""))
        if text != self.text.value:
            self.text.value = text

    def close(self) -> None:
        """End the computation."""
        self._idle.cancel()


def _without(system: System, count: int) -> System:
    """Return a system without its first claims."""
    return replace(system, claims=system.claims[count:])
