"""Interface between a tab and the workbench. A tab is one class in one file.

The workbench knows its tabs only by this: it hands each the fields and actions of the page until one takes
them, and tells all of them about every new state and the next quiet moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from .base import Widget
from .session import History, Point
from .tab_box import TabBox


class Bench(Protocol):
    """The workbench as its tabs see it."""

    lock: AbstractContextManager[Any]
    """Lock held by all code that touches the workbench; gestures may arrive on a thread of their own."""
    history: History
    """States; `history.now` is the one shown, or None."""
    searcher: str
    """Searcher that Search runs."""
    search_budget_s: float
    """Seconds that a search may take."""
    runs: Path | None
    """History of runs to which runs made here are added."""

    def now(self) -> Point:
        """Return the state shown; raise `InputError` while nothing is loaded."""
        ...

    def show(self, point: Point) -> None:
        """Make a state the present one: an edit that Undo takes back."""
        ...

    def guard(self, work: Callable[[], Any]) -> None:
        """Do something under the lock; show in the page what it raises."""
        ...

    def say(self, verdict: Mapping[str, Any] | None) -> None:
        """Put a sentence under the tiles until the next edit; None removes it."""
        ...

    def compare_with(self, point: Point | None, *, shown: Point | None = None) -> None:
        """Compare the state shown, or another that is to be shown, with a plan B; None ends the
        comparison.
        """
        ...

    def repaint(self) -> None:
        """Draw the state shown again, since a run has measured it."""
        ...

    def open_tab(self, title: str) -> None:
        """Bring a tab to the front."""
        ...


class Panel:
    """A tab. Methods that are not overridden do nothing."""

    title = ""
    """Title on the tab."""
    box: TabBox
    """Holds the tab's content, which goes to the page when the tab is opened."""

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widgets whose intents the workbench answers."""
        return ()

    def set(self, key: str, value: Any) -> bool:
        """Take a field typed in the page; return whether it belongs to this tab.

        Raises:
            ExplorerError: a wrong value; it is shown in the page, and at the field.
        """
        del key, value
        return False

    def actions(self) -> Mapping[str, Callable[[], Any]]:
        """Return what its buttons do, by `data-action`."""
        return {}

    def settled(self, now: Point) -> None:
        """React to a new state; board and tiles are drawn already."""

    def forget(self) -> None:
        """Drop at once what was found for the former model, cluster or workload."""

    def idle(self, now: Point) -> None:
        """Use a quiet moment for what is too slow to stand between two drags."""

    def set_theme(self, theme: str) -> None:
        """Follow the page to `light` or `dark`, for what does not follow by itself."""

    def close(self) -> None:
        """End what it started."""
