"""Gestures: what the workbench does for each one in the page. Errors are shown where they were made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from explorer.base.errors import InputError
from explorer.explain import Sentence
from explorer.views.considered import considered_view

from .ahead import MOVES, Ahead
from .device_edit import DEVICE
from .edits import edits_plan, set_field
from .fields import OTHER
from .history.opened import OPENS, Opened, opened
from .layer_card import CARD_INTENTS
from .opening import first_point
from .order_edit import Bar, with_action_moved
from .session import Point, make_point
from .showing import Showing, Shown
from .tour import Tour
from .working import Make, Working

APPLY_REASON = "apply_reason"
"""Action of a reason's button, before a colon and the reason's key."""


class Edited(Shown, Protocol):
    """The workbench as gestures see it."""

    showing: Showing
    """What stands on the page, and which sentences are shown there."""
    tour: Tour
    """The tour, whose buttons stand on the page."""
    asked_workload: dict[str, Any]
    """Fields of the workload that were asked for, for the first model that can be loaded."""

    def now(self) -> Point:
        """Return the state shown; raise `InputError` while nothing is loaded."""
        ...

    def show(self, point: Point) -> None:
        """Make a state the present one."""
        ...

    def first(self, made: Make | None = None, **wish: str) -> None:
        """Choose a model or a cluster while nothing is loaded; `made` knows what that leads to."""
        ...

    def undo(self) -> bool:
        """Go back to the previous state."""
        ...

    def redo(self) -> bool:
        """Go forward again."""
        ...

    def pin(self, layers: Any, *, on: bool = True) -> None:
        """Pin layers to their devices, or release them."""
        ...

    def lock_lane(self, lane: int, *, on: bool = True) -> None:
        """Lock a lane, or unlock it."""
        ...

    def open_file(self, intent: Mapping[str, Any], made: Callable[[], Opened] | None = None) -> None:
        """Open the file that a gesture asks for; `made` knows what it holds."""
        ...

    def search(self) -> None:
        """Start the chosen searcher."""
        ...

    def use_best(self) -> None:
        """Put the best strategy found on the board."""
        ...

    def stop(self) -> None:
        """Stop a search or run."""
        ...


class Gestures:
    """Answers to the intents of a workbench's widgets."""

    def __init__(self, bench: Edited) -> None:
        self._bench = bench
        self._ahead = Ahead()
        self.working = Working(self._work, self._tell)
        """The field that is worked out, and what waits for it."""
        self._actions: dict[str, Callable[[], Any]] = {
            "search": bench.search, "stop": bench.stop, "use_best": bench.use_best,
            "undo": bench.undo, "redo": bench.redo, "apply_hint": self._apply_reason,
            "show_errors": self._show_errors, "show_board": bench.parts.show_board,
        }  # fmt: skip
        for panel in bench.panels:
            self._actions |= panel.actions()
        self._actions |= bench.tour.actions()

    def answer(self, intent: dict[str, Any]) -> None:
        """Do what a gesture asks; show an error in the strip, at the field and on the board."""
        bench = self._bench
        key, value = str(intent.get("key", "")), intent.get("value")
        with bench.lock:
            try:
                self._do(intent, key, value)
            except Exception as error:  # noqa: BLE001 - shown in the page
                bench.showing.failed(error, _field(error, key) if intent["kind"] == "set" else "", value)
                notice = {"level": "error", "text": bench.error}
                if intent["kind"] in (*MOVES, "pin", "lock"):
                    bench.parts.board.notice = notice
                elif intent["kind"] == "reorder":
                    bench.parts.timeline.notice = notice
                elif intent["kind"] in CARD_INTENTS:
                    bench.parts.graph.notice = notice

    def consider(self, intent: dict[str, Any]) -> None:
        """Keep out of the way of a gesture under way; compute what it would lead to and tell the page."""
        self._bench.showing.hold_off()
        if self.working.under_way:  # the drop waits for it, and begins from another state
            return
        with self._bench.lock:
            now = self._bench.history.now
            found = None if now is None else self._ahead.consider(now, intent)
            if found is not None:
                self._bench.parts.board.tell_considered(intent, considered_view(found.scene))
            elif intent.get("kind") == DEVICE and self._ahead.refused:
                self._bench.parts.board.tell_considered(intent, {"refused": self._ahead.refused})

    def _do(self, intent: dict[str, Any], key: str, value: Any) -> None:
        bench, kind = self._bench, intent["kind"]
        if kind in MOVES:
            bench.show(self._ahead.take(bench.now(), intent))
        elif kind == "pin":
            bench.pin(intent["layers"], on=bool(intent["on"]))
        elif kind == "lock":
            bench.lock_lane(int(intent["lane"]), on=bool(intent["on"]))
        elif kind == "reorder":
            bars = (Bar.of(intent[name]) for name in ("moved", "beside"))
            bench.show(with_action_moved(bench.now(), *bars, before=bool(intent["before"])))
        elif kind in CARD_INTENTS:
            bench.showing.card.answer(intent)
        elif kind == "set":
            self._set(key, value, self.working.known(bench.history.now, intent))
        elif kind == "cancelled":
            self._give_back(key)
        elif kind in ("undo", "redo"):
            self._actions[kind]()
        elif kind == "measured":
            bench.showing.measure(*(str(intent.get(name, "")) for name in ("time", "memory", "log")))
        elif kind in OPENS:
            bench.open_file(intent, self.working.known(bench.history.now, intent))
        elif kind == "action":
            self._act(str(intent["action"]))

    def _set(self, key: str, value: Any, made: Make | None) -> None:
        bench = self._bench
        if any(panel.set(key, value) for panel in bench.panels):
            return
        if key in ("model", "cluster") and value in (OTHER, ""):
            self._ask_for_file(key, typing=value == OTHER)
        elif key in ("model", "cluster") and bench.history.now is None:
            bench.first(made, **{key: str(value)})
        else:
            bench.show(made() if made is not None else set_field(bench.now(), key, value))

    def _work(self, intent: dict[str, Any]) -> tuple[Point | None, Callable[[], Any]] | None:
        """Return what has to be worked out for a gesture, and from which state: a field of the plan, or what
        a file holds.
        """
        now, showing = self._bench.history.now, self._bench.showing
        if intent["kind"] in OPENS:
            return now, partial(opened, intent, now)
        key, value = str(intent.get("key", "")), intent.get("value")
        place = key in ("model", "cluster")
        if intent["kind"] != "set" or not edits_plan(key) or (place and value in (OTHER, "")):
            return None
        if now is not None:
            return now, partial(set_field, now, key, value)
        asked = {**showing.asked, key: str(value)}
        if not place or not asked["model"]:
            return None
        return None, partial(first_point, asked["model"], asked["cluster"], dict(self._bench.asked_workload))

    def _tell(self, doing: dict[str, Any] | None) -> None:
        """Tell the page what is done for a field."""
        self._bench.parts.controls.set_trait("doing", doing)

    def _give_back(self, key: str) -> None:
        """Show the plan's own value at a field again."""
        showing = self._bench.showing
        showing.typed.pop(key, None)
        showing.errors.pop(key, None)
        showing.redraw()

    def _ask_for_file(self, key: str, *, typing: bool) -> None:
        """Turn a picker into a text field, or back."""
        self._give_back(key)
        if typing:
            self._bench.showing.typed[key] = OTHER
            self._bench.showing.redraw()

    def _act(self, action: str) -> None:
        name, _, key = action.partition(":")
        if name == APPLY_REASON and key:
            self._apply_reason(key)
            return
        if action not in self._actions:
            allowed = ", ".join(self._actions)
            raise InputError(f"unknown action {action!r}", key="action", found=action, allowed=allowed)
        self._actions[action]()

    def _show_errors(self) -> None:
        """Colour the layer graph by the errors of the last run."""
        self._bench.parts.graph.colour = "error"

    def _apply_reason(self, key: str = "") -> None:
        """Make the change that a reason proposes, or the best one; do nothing if it belongs to a former
        plan.
        """
        now, sentence = self._bench.history.now, self._bench.showing.reasons.proposal(key)
        if now is None or sentence is None or sentence.strategy is None:
            return
        groups = _same_groups(now, sentence)
        self._bench.show(make_point(now.inputs, sentence.strategy, groups, note=sentence.change))


def _field(error: Exception, key: str) -> str:
    """Return the field at which to show an error: where it was made, unless the other picker is wrong."""
    both = {"model": "cluster", "cluster": "model"}
    return "" if getattr(error, "key", None) == both.get(key, key + ".") else key


def _same_groups(now: Point, sentence: Sentence) -> tuple[Any, ...]:
    """Return the board's lanes if the change keeps to them; else none, so that lanes are made anew."""
    assert sentence.strategy is not None
    known = {group.meshes for group in now.groups}
    keeps = all(stage.meshes in known for stage in sentence.strategy.job.stages)
    return now.groups if keeps else ()
