"""What a tab of the workbench is, and what it may ask of the workbench. A tab is one class in one file.

The workbench knows its tabs only by this: it hands each the fields and actions of the page until one takes
them, tells all of every new state, and of the next quiet moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from ipywidgets import Widget as AnyWidget

from .base import Widget
from .session import History, Point


class Bench(Protocol):
    """The workbench as its tabs see it."""

    lock: AbstractContextManager[Any]
    """Held by whatever touches the workbench; gestures may arrive on a thread of their own."""
    history: History
    """States; `history.now` is the one shown, or None."""
    searcher: str
    """Searcher that Search asks."""
    search_budget_s: float
    """Seconds that a search may take."""
    runs: Path | None
    """History of runs that those made here are added to."""

    def now(self) -> Point:
        """The state shown; raises `InputError` while nothing is loaded."""
        ...

    def show(self, point: Point) -> None:
        """Make a state the present one: an edit that Undo takes back."""
        ...

    def guard(self, work: Callable[[], Any]) -> None:
        """Do something under the lock; what it raises is shown in the page."""
        ...

    def say(self, verdict: Mapping[str, Any] | None) -> None:
        """Put a sentence under the tiles until the next edit; None takes it back."""
        ...

    def compare_with(self, point: Point | None, *, shown: Point | None = None) -> None:
        """Compare the state shown, or another that is to be shown, with a plan B; None ends it."""
        ...

    def repaint(self) -> None:
        """Draw the state shown again: what a run measured of it has changed."""
        ...

    def open_tab(self, title: str) -> None:
        """Bring a tab to the front."""
        ...


class Panel:
    """A tab. What is not overridden does nothing."""

    title = ""
    """On the tab."""
    box: AnyWidget
    """What the tab shows."""

    def widgets(self) -> tuple[Widget, ...]:
        """Widgets whose intents the workbench answers."""
        return ()

    def set(self, key: str, value: Any) -> bool:
        """Take a field typed in the page; whether it was one of this tab.

        Raises:
            ExplorerError: a wrong value; it is said in the page, at the field too.
        """
        del key, value
        return False

    def actions(self) -> Mapping[str, Callable[[], Any]]:
        """What its buttons do, by `data-action`."""
        return {}

    def settled(self, now: Point) -> None:
        """A new state is shown; board and tiles are drawn already."""

    def forget(self) -> None:
        """Model, cluster or workload are others now: what was found for the former ones is gone, at once."""

    def idle(self, now: Point) -> None:
        """A quiet moment: for what is too slow to stand between two drags."""

    def set_theme(self, theme: str) -> None:
        """The page is `light` or `dark` now; for what does not follow by itself."""

    def close(self) -> None:
        """End what it started."""
