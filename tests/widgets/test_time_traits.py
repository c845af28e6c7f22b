"""Timeline and heatmap without a page: what the classes do by themselves."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import sample
from pydantic import TypeAdapter

from tests.support import view_shapes as shapes
from widgets import Heatmap, Timeline


def test_a_trace_is_sent_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[Any, Any]] = []
    monkeypatch.setattr(Timeline, "send", lambda _, content, buffers=None: sent.append((content, buffers)))
    widget = Timeline()
    widget.trace_source = lambda: {"traceEvents": [{"name": "0F0", "ph": "X"}]}
    widget.send_intent("trace")
    [(content, buffers)] = sent
    assert content == {"kind": "file", "name": "trace.json", "type": "application/json"}
    assert json.loads(buffers[0]) == {"traceEvents": [{"name": "0F0", "ph": "X"}]}
    assert widget.seq == 1
    assert not widget.notice
    widget.send_intent("something else")
    assert len(sent) == 1


def test_without_a_source_the_page_is_told() -> None:
    widget = Timeline()
    widget.send_intent("trace")
    assert widget.notice["level"] == "error"
    assert "trace_source" in widget.notice["text"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_cannot_be_sent_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"links\.end_s"):
        Timeline().links = {"end_s": value}
    with pytest.raises(ValueError, match=r"view_b\.end_s"):
        Timeline().view_b = {"end_s": value}
    with pytest.raises(ValueError, match=r"view_b\.end_s"):
        Heatmap().view_b = {"end_s": value}


def test_samples_are_of_the_protocols_shape() -> None:
    TypeAdapter(shapes.TimelineView).validate_python(sample.timeline()[1])
    TypeAdapter(shapes.MemoryView).validate_python(sample.memory()[1])
    TypeAdapter(shapes.LinksView).validate_python(sample.links()[1])
    TypeAdapter(shapes.TrafficView).validate_python({**sample.traffic(), "links": sample.links()[1]})


def test_the_sample_path_has_no_holes() -> None:
    rows, end = sample.schedule()
    critical = sample.timeline()[1]["critical"]
    chain = [rows[i] for i in critical["bars"]]
    assert chain[0][0] == pytest.approx(0)
    assert chain[-1][1] == pytest.approx(end)
    assert all(b[0] == pytest.approx(a[1]) for a, b in pairwise(chain))
