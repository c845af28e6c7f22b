"""Updates of plotly figures that arrive whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def one_message(figure: Any) -> Iterator[None]:
    """Collect what is set on a figure's traces and layout, and send it as one message.

    Plotly's own `batch_update` sends every property that any trace changed for all traces, undefined for
    those that did not; the page's half reads that as a reset, so that widths, dashes and sides of names of
    other traces were lost. Here these traces send what they have.
    """
    with figure.batch_update():
        yield
        edits = figure._batch_trace_edits
        every = {name for edit in edits.values() for name in edit}
        for number, edit in edits.items():
            trace = figure.data[number]
            edit.update({name: trace[name] for name in every - edit.keys()})
