"""The arithmetic of benchmarks/gestures.py; the rest of it needs a browser and is run by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.views import blocks_view
from widgets.opening import first_point

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def gestures() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import gestures as found
    finally:
        sys.path.remove(str(BENCHMARKS))
    return found


@given(st.lists(st.integers(0, 100), min_size=1), st.sampled_from((0.05, 0.5, 0.95, 1.0)))
def test_a_percentile_has_that_share_at_or_below_it(gestures: Any, values: list[int], share: float) -> None:
    found = gestures.percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values)


def test_the_parts_of_a_drop_add_up_to_it(gestures: Any) -> None:
    drop = {
        "origin_s": 1000.0, "at": 500.0, "painted": 540.0,
        "came": [[503.0, 100], [525.0, 4096], [560.0, 9000]],
    }  # fmt: skip
    answers = [
        {"begin_s": 1000.4, "end_s": 1000.41, "cpu_s": 0.01, "seq": 1.0},
        {"begin_s": 1000.502, "end_s": 1000.503, "cpu_s": 0.001, "seq": -1.0},
        {"begin_s": 1000.505, "end_s": 1000.520, "cpu_s": 0.012, "seq": 2.0},
    ]
    parts = gestures.split(drop, answers)
    assert parts["total"] == pytest.approx(40)
    assert parts["out"] + parts["kernel"] + parts["back"] + parts["draw"] == pytest.approx(parts["total"])
    assert parts["kernel"] == pytest.approx(15)
    assert parts["kernel_cpu"] == pytest.approx(12)
    assert parts["kib"] == pytest.approx(4196 / 1024)


def test_nested_work_is_counted_once() -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from gestures_trace import own_ms
    finally:
        sys.path.remove(str(BENCHMARKS))
    task = {"name": "task", "ts": 0, "dur": 20_000, "tdur": 15_000}
    layouts = [{"name": "layout", "ts": at, "dur": 4_000, "tdur": 3_000} for at in (1_000, 9_000)]
    script = {"name": "script", "ts": 9_500, "dur": 1_000, "tdur": 1_000}
    late = {"name": "late", "ts": 40_000, "dur": 1_000, "tdur": 1_000}
    found = own_ms([script, late, *layouts, task], 0, 30_000)
    assert found == {"task": 9, "layout": 5, "script": 1}
    assert sum(found.values()) == 15


def test_the_models_have_the_blocks_they_are_named_for() -> None:
    point = first_point("benchmarks.gestures_models:hundred", "dgx-a100")
    assert len(blocks_view(point.scene)) == 100
