"""The state to which a gesture under way would lead, computed while the hand still moves.

The page reports over which lane something is held, so that Python knows the answer at the drop already, and
tells the page its figures: they take the place of the page's estimate. What was considered is used if the
drop is that gesture, from a state that is still the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.base.errors import ExplorerError

from .device_edit import DEVICE, SHARING, moved_device, shared_otherwise
from .edits import move_layers, shift_boundary
from .session import Point

MOST_TASKS = 150_000
"""Tasks of a step above which a placement of unknown structure is left to the drop: at about a microsecond a
task it takes so long that a drop elsewhere would have to wait for it.
"""
MOVES = ("move", "move_boundary", DEVICE, SHARING)
"""Gestures that can be considered."""


def placed(now: Point, intent: Mapping[str, Any]) -> Point:
    """Return the state after a gesture of `MOVES`.

    Raises:
        ExplorerError: the gesture is impossible.
    """
    if intent["kind"] == DEVICE:
        return moved_device(now, intent)
    if intent["kind"] == SHARING:
        return shared_otherwise(now, int(intent["lane"]), str(intent["how"]))
    if intent["kind"] == "move":
        return move_layers(now, intent["layers"], int(intent["to_lane"]))
    before, after, layers = (int(intent[name]) for name in ("before", "after", "layers"))
    return shift_boundary(now, before, after, layers)


class Ahead:
    """Memory of the last state that was considered."""

    def __init__(self) -> None:
        self._kept: tuple[Point, dict[str, Any], Point] | None = None
        self.refused = ""
        """Why the gesture that was considered last is impossible; empty if it is not."""

    def consider(self, now: Point, intent: Mapping[str, Any]) -> Point | None:
        """Return where a gesture would lead, and keep it for the drop.

        None where that is left to the drop, which also shows the error of one that is impossible.
        """
        if intent.get("kind") not in MOVES:
            return None
        self.refused = ""
        known = self.known(now, intent)
        if known is not None:
            return known
        if intent["kind"] != "move_boundary" and now.report.timeline.program.size > MOST_TASKS:
            return None
        try:
            self._kept = (now, _asked(intent), placed(now, intent))
        except ExplorerError as error:
            self._kept, self.refused = None, str(error)
            return None
        return self._kept[2]

    def known(self, now: Point, intent: Mapping[str, Any]) -> Point | None:
        """Return where a gesture leads if exactly that one was considered; else None."""
        if self._kept is None or self._kept[0] is not now or self._kept[1] != _asked(intent):
            return None
        return self._kept[2]

    def take(self, now: Point, intent: Mapping[str, Any]) -> Point:
        """Return where a gesture leads; keep nothing.

        Raises:
            ExplorerError: the gesture is impossible.
        """
        found, self._kept = self.known(now, intent), None
        return found or placed(now, intent)


def _asked(intent: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the gesture says, without its number."""
    return {key: value for key, value in intent.items() if key != "seq"}
