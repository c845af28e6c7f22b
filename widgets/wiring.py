"""Connections between the parts of a workbench: what one of them changes, the others follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import traitlets

from explorer.views import chrome_trace

from .base import Widget
from .gestures import Gestures
from .history.saving import Saving
from .session import Point
from .showing import Showing, Shown


class Wired(Shown, Protocol):
    """The workbench as its connections see it: also an object with traits."""

    showing: Showing
    """What stands on the page."""
    gestures: Gestures
    """What answers the page."""
    saving: Saving
    """What keeps the session."""
    observe: Any
    """Of an object with traits: calls a handler when a trait changes."""

    def now(self) -> Point:
        """Return the state shown."""
        ...


def wire(bench: Wired, widgets: Sequence[Widget]) -> None:
    """Connect a workbench with all widgets that send intents, and its views with each other."""
    parts, showing = bench.parts, bench.showing
    for widget in widgets:
        widget.bench = parts.bench
        widget.on_intent(bench.gestures.answer)
    urgent = (parts.board, parts.tiles, parts.controls)
    for part in urgent:
        part.followers = tuple(other for other in urgent if other is not part)
    parts.board.on_consider(bench.gestures.consider)
    parts.graph.edits = True
    for part in (parts.board, parts.graph):
        traitlets.link((bench, "selection"), (part, "selection"))
    bench.observe(lambda _: showing.guard(showing.mark), "selection")
    for marked in (parts.timeline, parts.memory, parts.traffic):
        marked.observe(lambda change: _select_lanes(bench, change["new"]), "selected_lanes")
    parts.timeline.trace_source = lambda: chrome_trace(bench.now().report)
    parts.graph.observe(lambda _: showing.guard(showing.graph), "opened")
    parts.board.observe(lambda change: _tell_theme(bench, change["new"]), "theme")
    bench.observe(lambda _: bench.saving.changed(), ["selection", "searcher", "search_budget_s"])
    parts.board.observe(lambda _: bench.saving.changed(), ["expanded", "collapsed"])


def _select_lanes(bench: Wired, chosen: Sequence[str]) -> None:
    """Select what some lanes hold, after one was chosen by its name in another view."""
    now = bench.history.now
    if now is None or bench.parts.marking:
        return
    lanes = now.scene.lane_of_layer
    held = {layer.name: layer.block or layer.name for layer in now.inputs.graph.layers}
    bench.selection = list(dict.fromkeys(held[name] for name, lane in lanes.items() if lane in chosen))


def _tell_theme(bench: Wired, theme: str) -> None:
    for panel in bench.panels:
        panel.set_theme(theme)
