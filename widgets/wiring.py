"""Connections between the parts of a workbench: what one of them changes, the others follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import traitlets

from explorer.views import chrome_trace
from explorer.views.area import area_view
from explorer.views.moment import moment_view
from explorer.views.scene import Scene

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
        widget.takes, widget.cancels = bench.gestures.working.takes, bench.gestures.working.cancel
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
    parts.timeline.moment_source = lambda time_s, lane, plan: _moment(bench, time_s, lane, plan)
    parts.timeline.area_source = lambda from_s, to_s: _area(bench, from_s, to_s)
    parts.timeline.asks = True
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


def _drawn(bench: Wired) -> list[Scene]:
    """List the plans on the timeline: the one shown, and B below it."""
    now = bench.history.now
    if now is None:
        return []
    return [now.scene, *([now.other.scene] if now.other is not None else [])]


def _moment(bench: Wired, time_s: float, lane: int, plan: int) -> dict[str, Any]:
    """Say what a lane of a plan holds at a time; nothing if the plan shown has no such lane any more."""
    with bench.lock:
        scenes = _drawn(bench)
        if not 0 <= plan < len(scenes) or not 0 <= lane < len(scenes[plan].report.lanes):
            return {}
        return moment_view(scenes[plan], lane, time_s)


def _area(bench: Wired, from_s: float, to_s: float) -> list[dict[str, Any]]:
    """Add up every plan on the timeline between two times."""
    with bench.lock:
        scenes = _drawn(bench)
        names = ("A", "B") if len(scenes) > 1 else ("",)
        return [area_view(scene, from_s, to_s, name=name) for scene, name in zip(scenes, names, strict=False)]


def _tell_theme(bench: Wired, theme: str) -> None:
    for panel in bench.panels:
        panel.set_theme(theme)
