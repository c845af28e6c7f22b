"""Timeline and heatmap without a page: what the classes do by themselves."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import sample
import sample_moment
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


def test_what_is_at_the_cursor_and_in_an_area_is_answered_by_its_sources() -> None:
    widget = Timeline()
    widget.send_intent("moment", time_s=1.5, lane=2, plan=0)
    widget.send_intent("area", from_s=1, to_s=2)
    assert (widget.moment, widget.area, widget.seq) == ({}, {}, 2), "nobody knows"
    widget.moment_source = lambda time_s, lane, plan: {"time_s": time_s, "lane": lane, "of": plan}
    widget.area_source = lambda from_s, to_s: [{"name": "A", "length": to_s - from_s}]
    widget.send_intent("moment", time_s=1.5, lane=2, plan=1)
    widget.send_intent("area", from_s=1, to_s=2)
    assert widget.moment == {"time_s": 1.5, "lane": 2, "plan": 1, "of": 1}
    assert widget.area == {"from_s": 1.0, "to_s": 2.0, "plans": [{"name": "A", "length": 1.0}]}
    assert not widget.notice


def test_samples_of_the_cursor_are_of_the_protocols_shape() -> None:
    moment = sample_moment.moment(1.0, 2)
    TypeAdapter(shapes.MomentView).validate_python(
        {key: value for key, value in moment.items() if key != "plan"}
    )
    TypeAdapter(shapes.AreaPlan).validate_python(sample_moment.area(0.5, 2.0))
