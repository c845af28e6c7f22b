"""The base of all widgets: a view, a sequence of intents with their acknowledgement, and a visible notice.

`PROTOCOL.md` describes the messages. Python is the authority: the page sends intents, handlers assign new
views.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from ipywidgets import Layout

from .quiet import quiet

STATIC = Path(__file__).parent / "static"
"""Folder of the built, committed JavaScript and CSS."""

Intent = dict[str, Any]
IntentHandler = Callable[[Intent], None]


def refuse_unsendable(value: object, path: str) -> None:
    """Raise if `value` cannot be sent as JSON, naming where: NaN and foreign scalars never reach a trait.

    >>> refuse_unsendable({"lanes": [{"forward_s": float("nan")}]}, "view")
    Traceback (most recent call last):
    ValueError: view.lanes[0].forward_s is nan: send None
    """
    if not _sendable(value):
        _name_unsendable(value, path)


_PLAIN = frozenset({str, int, bool, type(None)})


def _sendable(value: object) -> bool:
    """Tell whether all of it can be sent. Nearly all values can: places are named only if one cannot."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not (type(item) in _PLAIN or _sendable(item)):
                return False
        return True
    if isinstance(value, list | tuple):
        return all(type(item) in _PLAIN or _sendable(item) for item in value)
    return False


def _name_unsendable(value: object, path: str) -> None:
    kind = type(value)
    if kind in _PLAIN:
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}: send None")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{path} has the key {key!r}: keys are strings")
            _name_unsendable(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            _name_unsendable(item, f"{path}[{position}]")
    else:
        raise ValueError(
            f"{path} is a {kind.__module__}.{kind.__qualname__}: "
            "send a plain str, int, float, bool, list, dict or None"
        )


class Widget(anywidget.AnyWidget):
    """A widget that shows `view` and turns gestures into intents."""

    view = traitlets.Dict(help="What is drawn, see PROTOCOL.md; {} draws the empty state.").tag(sync=True)
    seq = traitlets.Int(0, help="Number of the last intent that was answered.").tag(sync=True)
    bench = traitlets.Unicode(
        help="Workbench this widget belongs to: page events concern only those of the same one."
    ).tag(sync=True)
    notice = traitlets.Dict(
        None, allow_none=True, help="A strip at the top: {'level': 'info' or 'error', 'text': ...}, or None."
    ).tag(sync=True)
    own_id = traitlets.Unicode(help="By which the page finds this widget's model.").tag(sync=True)
    heard = traitlets.Int(0, help="How often the page asked whether it is heard.").tag(sync=True)
    way_back = traitlets.Unicode(
        "Run the cells again.", help="What to do once the kernel is gone, said by the page."
    ).tag(sync=True)

    def __init__(self, *, late: bool = False, **kwargs: Any) -> None:
        """Make the widget; a `late` one opens its way to the page when it first stands in a box there."""
        self._late = late
        self._handlers: list[IntentHandler] = []
        self._considerers: list[IntentHandler] = []
        self.takes: Callable[[Widget, Intent], bool] = lambda _widget, _intent: False
        """Function that is asked before an intent is answered: True if it answers it later."""
        self.cancels: Callable[[], None] = lambda: None
        """Function that ends what is worked out for an intent."""
        self.followers: tuple[Widget, ...] = ()
        """Widgets whose messages go out after this one's answer to an intent."""
        kwargs.setdefault("layout", Layout(width="100%"))
        kwargs["own_id"] = kwargs.setdefault("model_id", uuid4().hex)
        super().__init__(**kwargs)
        self.on_msg(self._receive)

    def open(self) -> None:
        """Open the way to the page, with the state of now, unless it is to be opened late."""
        if not self._late:
            super().open()

    @property
    def model_id(self) -> str:
        """Id of the page's model. A box asks for it when the widget is put there: then a late one opens."""
        if self._late and self.comm is None:
            self._late = False
            self.open()
        return str(super().model_id)

    def begin_again(self) -> None:
        """Leave the page's model for a new one with the same state, where the first one did not start."""
        self.close()
        self.__dict__.pop("_repr_mimebundle_", None)  # which closing hides
        self._model_id = self.own_id = uuid4().hex
        self.open()

    def on_intent(self, handler: IntentHandler) -> None:
        """Call `handler(intent)` for every gesture; what it assigns arrives with the acknowledgement."""
        self._handlers.append(handler)

    def off_intent(self, handler: IntentHandler) -> None:
        """Stop calling `handler`."""
        self._handlers.remove(handler)

    def on_consider(self, handler: IntentHandler) -> None:
        """Call `handler(intent)` with the intent that a gesture under way would end in; answer nothing."""
        self._considerers.append(handler)

    def send_intent(self, kind: str, **fields: Any) -> None:
        """Do the same as a gesture in the page, for scripts and tests, which wait for the answer."""
        self.answer({"seq": self.seq + 1, "kind": kind, **fields})

    def summary(self) -> str:
        """Return one line about what is shown, the text that stands in if no widget can be drawn."""
        return "nothing yet" if not self.view else "ready"

    @traitlets.validate("view", "notice")
    def _refuse_unsendable(self, proposal: dict[str, Any]) -> object:
        refuse_unsendable(proposal["value"], proposal["trait"].name)
        return proposal["value"]

    def _receive(self, _widget: object, content: object, _buffers: object) -> None:
        if not isinstance(content, dict):
            return
        if "hello" in content:
            if content["hello"] == "again":  # what was sent so far was dropped; now the code is there
                self.send_state([key for key in self.keys if key not in ("_esm", "_css")])
            self.heard += 1
            return
        if isinstance(content.get("consider"), dict):
            for handler in tuple(self._considerers):
                handler(content["consider"])
        if content.get("cancel"):
            self.cancels()
        if isinstance(content.get("seq"), int) and not self.takes(self, content):
            self.answer(content)

    def answer(self, intent: Intent) -> None:
        """Call the handlers of an intent; what they assign arrives with the acknowledgement."""
        with quiet(), ExitStack() as held:
            # what is entered last is sent first: the acknowledged view, then what the others show of it. A
            # frame painted between the two would only delay the answer.
            for follower in self.followers:
                held.enter_context(follower.hold_sync())
            held.enter_context(self.hold_sync())
            try:
                for handler in tuple(self._handlers):
                    handler(intent)
            except Exception as error:  # noqa: BLE001 - shown in the page; in a callback it is otherwise lost in a log
                self.notice = {"level": "error", "text": f"{type(error).__name__}: {error}"}
            self.seq = intent["seq"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            data["text/plain"] = repr(self)
        return bundle
