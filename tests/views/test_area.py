"""Sums over a stretch of the step: the whole gives the report's totals, parts add up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from explorer.base.errors import InputError
from explorer.views.area import BUSY, MOVED, area_sums, area_view
from explorer.views.link_map import shown_steps
from explorer.views.scene import Scene
from tests.support import view_shapes as shapes
from tests.support.scenes import MORE, kept_scene
from widgets.base import refuse_unsendable


@pytest.fixture(scope="module", params=list(MORE))
def scene(request: pytest.FixtureRequest) -> Scene:
    return kept_scene(request.param)


def drawn_end(scene: Scene) -> float:
    line = scene.report.timeline
    shown = (line.program.step < shown_steps(scene.report)) & (line.program.lane >= 0)
    return float(line.timing.end_s[shown].max())


def test_the_whole_step_gives_the_totals_of_the_report(scene: Scene) -> None:
    report, steps = scene.report, shown_steps(scene.report)
    sums = area_sums(report, 0.0, drawn_end(scene))
    assert sums.busy_s.sum(axis=1) / steps == pytest.approx(np.array(report.busy_s), rel=1e-9)
    assert sums.bytes.sum() / steps == pytest.approx(sum(report.traffic_bytes.values()), rel=1e-9)
    weights = sums.devices
    computing = float(weights @ sums.busy_s.sum(axis=1)) / steps
    bubble = 1 - computing / (report.step_time_s * weights.sum())
    assert bubble == pytest.approx(report.bubble_fraction, rel=1e-9)
    if steps == 1 and report.makespan_s == pytest.approx(report.step_time_s, rel=1e-12):
        own = float(weights @ sums.bubble_s) / (sums.length_s * weights.sum())
        assert own == pytest.approx(report.bubble_fraction, rel=1e-9)


def test_bytes_of_a_lane_are_those_that_its_devices_send(scene: Scene) -> None:
    report, steps = scene.report, shown_steps(scene.report)
    sums = area_sums(report, 0.0, drawn_end(scene))
    sent = [
        sum(size for (sender, _), size in report.traffic_bytes.items() if sender in devices)
        for devices in map(set, report.lane_devices)
    ]
    assert sums.bytes.sum(axis=1)[:-1] / steps == pytest.approx(np.array(sent), rel=1e-9)
    assert not sums.bytes[-1].any(), "nobody sends who is in no lane"


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4))
@pytest.mark.parametrize("name", ["tensor", "asynchronous"])
def test_parts_add_up_to_the_whole(name: str, cuts: list[float]) -> None:
    scene = kept_scene(name)
    report, end = scene.report, drawn_end(scene)
    borders = sorted({0.0, end, *(end * cut for cut in cuts)})
    parts = [area_sums(report, a, b) for a, b in pairwise(borders)]
    whole = area_sums(report, 0.0, end)
    for read in ("busy_s", "inside_s", "bubble_s"):
        added = sum(getattr(part, read) for part in parts)
        assert added == pytest.approx(getattr(whole, read), rel=1e-9, abs=1e-9)
    # a transfer that takes no time, on a border, is in both
    assert (sum(part.bytes for part in parts) >= whole.bytes * (1 - 1e-9)).all()
    assert all((part.busy_s >= 0).all() and (part.bubble_s >= -1e-9).all() for part in parts)


def test_a_task_that_a_border_cuts_counts_by_its_share() -> None:
    report = kept_scene("tensor").report
    line = report.timeline
    first = int(line.program.programs[0][0])
    seconds = float(
        line.prices.seconds[line.program.slot[first]] - line.prices.comm_s[line.program.slot[first]]
    )
    half = float(line.timing.end_s[first]) / 2
    sums = area_sums(report, 0.0, half)
    assert sums.busy_s[0, BUSY.index("forward")] == pytest.approx(seconds / 2, rel=1e-9)
    assert sums.busy_s[0].sum() == pytest.approx(seconds / 2, rel=1e-9)
    assert not sums.busy_s[1:].any(), "the other stages wait"
    assert sums.inside_s[0] + sums.busy_s[0].sum() == pytest.approx(half, rel=1e-9)
    assert sums.bytes[0, MOVED.index("inside layers")] > 0


def test_what_is_recomputed_is_told_apart() -> None:
    scene = kept_scene("tensor")
    sums = area_sums(scene.report, 0.0, drawn_end(scene))
    again, forward = (sums.busy_s[:, BUSY.index(name)] for name in ("recompute", "forward"))
    assert (again > 0).all()
    assert again[0] == pytest.approx(forward[0], rel=0.05), "all of the forward is done again"


def test_the_view_has_what_occurs_and_adds_up(scene: Scene) -> None:
    view = area_view(scene, 0.0, drawn_end(scene), name="A")
    TypeAdapter(shapes.AreaPlan).validate_python(view)
    refuse_unsendable(view, "view")
    assert len(view["lanes"]) == len(scene.report.lanes)
    everything = view["all"]
    assert everything["count"] == len(scene.report.devices)
    for key in ("computing_s", "inside_s", "bubble_s"):
        added = sum(row["count"] * row[key] for row in view["lanes"])
        assert everything[key] == pytest.approx(added, rel=1e-9)
    assert sum(everything["bytes"]) == pytest.approx(
        shown_steps(scene.report) * sum(scene.report.traffic_bytes.values()), rel=1e-9
    )
    early = area_view(scene, 0.0, drawn_end(scene) * 1e-6)
    assert early["busy"] == view["busy"], "the same columns wherever the area is"


def test_a_plan_that_has_ended_has_nothing_more() -> None:
    scene = kept_scene("tensor")
    end = drawn_end(scene)
    across = area_view(scene, end / 2, 2 * end)
    assert across["length_s"] == pytest.approx(end / 2, rel=1e-12)
    assert across["all"] == area_view(scene, end / 2, float(np.float32(end)))["all"], (
        "as the page knows its end"
    )
    behind = area_view(scene, 1.5 * end, 2 * end)
    assert behind["length_s"] == 0
    assert behind["all"]["computing_s"] == behind["all"]["bubble_s"] == sum(behind["all"]["bytes"]) == 0


def test_an_area_without_length_is_refused() -> None:
    with pytest.raises(InputError, match="an end behind 2 s"):
        area_sums(kept_scene("tensor").report, 2.0, 2.0)
    with pytest.raises(InputError, match="an end behind 99 s"):
        area_view(kept_scene("tensor"), 99.0, 98.0)
