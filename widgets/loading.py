"""What a cell says while its workbench loads, before there is anything to draw.

The cell is at work then, so no button could be answered: it is ended as any cell is, and what can be seen
after that is the workbench without a plan, with the pickers as asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .history.places import in_kernel
from .phases import followed, progress

SAID_AFTER_S = 0.4
"""Seconds of loading that are not worth a word."""

Show = Callable[[str], Any]
"""Shows a line in the cell, in place of the last one; an empty one goes away."""


def sentence(what: str, name: str) -> str:
    """Return the line of a phase.

    >>> sentence("llama3-8b on dgx-a100", "reading the model")
    'Loading llama3-8b on dgx-a100: reading the model, step 1 of 3. To cancel, interrupt the kernel.'
    """
    now = progress("model", name)
    return f"Loading {what}: {name}, step {now['at']} of {now['of']}. To cancel, interrupt the kernel."


@contextmanager
def said(what: str, *, slow: bool, show: Show | None = None) -> Iterator[None]:
    """Say in the cell what is being loaded, and how far that is, once it takes a moment.

    Args:
        what: the model, and on which cluster.
        slow: whether it is known to take a while, so that it is said from the beginning.
        show: what shows a line; None for the notebook's cell. Outside a notebook nothing is said.
    """
    show = show or (_Line() if in_kernel() else None)
    if show is None:
        yield
        return
    began, shown = time.monotonic(), []

    def told(name: str) -> None:
        if slow or time.monotonic() - began > SAID_AFTER_S:
            shown.append(name)
            show(sentence(what, name))

    try:
        with followed(told):
            yield
    finally:
        if shown:
            show("")


class _Line:
    """One output of the running cell, shown anew in its place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, text: str) -> None:
        from IPython.display import display

        data = {"text/plain": text}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)
