"""From a gesture in the page to what the workbench does. A wrong one is said where it was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from explorer.errors import InputError
from explorer.explain import Sentence

from .edits import move_layers, set_field, shift_boundary
from .fields import OTHER
from .opening import DEFAULT_CLUSTER, first_point
from .session import Point, make_point

if TYPE_CHECKING:
    from .app import Explorer


class Gestures:
    """Answers the intents of a workbench's widgets."""

    def __init__(self, bench: Explorer) -> None:
        self._bench = bench
        self._actions: dict[str, Callable[[], Any]] = {
            "search": bench.search, "stop": bench.stop, "use_best": bench.use_best, "run": self._run,
            "undo": bench.undo, "redo": bench.redo, "export": self._export, "apply_hint": self._apply_hint,
            "load_result": bench.search_panel.load_chosen,
        }  # fmt: skip

    def answer(self, intent: dict[str, Any]) -> None:
        """Do what a gesture asks; what cannot be is said in the strip, at the field and on the board."""
        bench = self._bench
        key, value = str(intent.get("key", "")), intent.get("value")
        with bench.lock:
            try:
                self._do(intent, key, value)
            except Exception as error:  # noqa: BLE001 - shown in the page
                bench.showing.failed(error, key if intent["kind"] == "set" else "", value)
                if intent["kind"] in ("move", "move_boundary"):
                    bench.parts.board.notice = {"level": "error", "text": bench.error}

    def _do(self, intent: dict[str, Any], key: str, value: Any) -> None:
        bench, kind = self._bench, intent["kind"]
        if kind == "move":
            bench.show(move_layers(bench.now(), intent["layers"], int(intent["to_lane"])))
        elif kind == "move_boundary":
            before, after, layers = (int(intent[name]) for name in ("before", "after", "layers"))
            bench.show(shift_boundary(bench.now(), before, after, layers))
        elif kind == "set":
            self._set(key, value)
        elif kind in ("undo", "redo"):
            self._actions[kind]()
        elif kind == "action":
            self._act(str(intent["action"]))

    def _set(self, key: str, value: Any) -> None:
        bench = self._bench
        if any(panel.set(key, value) for panel in (bench.search_panel, bench.run_panel, bench.export_panel)):
            return
        if key == "searcher":
            bench.searcher = str(value)
        elif key in ("model", "cluster") and value in (OTHER, ""):
            self._ask_for_file(key, typing=value == OTHER)
        elif key == "model" and bench.history.now is None:
            bench.show(first_point(str(value), DEFAULT_CLUSTER))
        else:
            bench.show(set_field(bench.now(), key, value))

    def _ask_for_file(self, key: str, *, typing: bool) -> None:
        """Turn a picker into a text field, or back."""
        showing = self._bench.showing
        showing.typed.pop(key, None)
        showing.errors.pop(key, None)
        if typing:
            showing.typed[key] = OTHER
        showing.redraw()

    def _act(self, action: str) -> None:
        if action not in self._actions:
            allowed = ", ".join(self._actions)
            raise InputError(f"unknown action {action!r}", key="action", found=action, allowed=allowed)
        self._actions[action]()

    def _apply_hint(self) -> None:
        now, hint = self._bench.history.now, self._bench.showing.hint
        if now is None or hint is None or hint[0] is not now or hint[1].strategy is None:
            return
        sentence, strategy = hint[1], hint[1].strategy
        self._bench.show(make_point(now.inputs, strategy, _same_groups(now, sentence), note=sentence.change))

    def _run(self) -> None:
        bench = self._bench
        bench.showing.said = None
        bench.parts.tabs.selected_index = 1
        bench.run_panel.start(bench.resolved())
        bench.showing.run_step()

    def _export(self) -> None:
        self._bench.parts.tabs.selected_index = 2
        self._bench.export_panel.draw()


def _same_groups(now: Point, sentence: Sentence) -> tuple[Any, ...]:
    """The board's lanes, where the change keeps to them; else none, so that lanes are made anew."""
    assert sentence.strategy is not None
    known = {group.meshes for group in now.groups}
    keeps = all(stage.meshes in known for stage in sentence.strategy.job.stages)
    return now.groups if keeps else ()
