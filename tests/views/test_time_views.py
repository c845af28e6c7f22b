"""Views over time: bars with recompute and critical path, memory by part, links, the trace."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import TypeAdapter

from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.views.link_map import links_view, report_links
from explorer.views.memory_map import memory_view
from explorer.views.scene import Scene
from explorer.views.timeline import report_critical_path, timeline_rows, timeline_view
from explorer.views.trace import chrome_trace
from explorer.views.traffic import communication_view, traffic_view
from tests.support import view_shapes as shapes
from tests.support.scenes import SHAPES, scene_of
from widgets.base import refuse_unsendable


@pytest.fixture(scope="module", params=list(SHAPES))
def scene(request: pytest.FixtureRequest) -> Scene:
    return scene_of(**SHAPES[request.param])


@pytest.fixture(scope="module")
def folded() -> Scene:
    return scene_of("gpt3-175b", "dgx-a100-128", 1536, stages=8, tensor=8, replicas=16)


def test_recompute_is_a_bar_before_its_backward(scene: Scene) -> None:
    rows = timeline_rows(scene)
    again = np.flatnonzero(rows[:, 3] == 5)
    recomputes = scene.strategy.stages[0].recompute != "none"
    assert bool(len(again)) == recomputes
    assert (np.diff(rows[:, 2]) >= 0).all(), "sorted by lane"
    if not recomputes:
        return
    backward = rows[again + 1]
    assert set(backward[:, 3]) <= {1.0, 2.0}
    assert (backward[:, 0] == rows[again, 1]).all(), "the backward goes on where it ends"
    assert (backward[:, 6] == rows[again, 6]).all()
    assert (rows[again, 1] > rows[again, 0]).all()


def test_bars_of_the_critical_path_follow_each_other(scene: Scene) -> None:
    view, _ = timeline_view(scene)
    TypeAdapter(shapes.TimelineView).validate_python(view)
    refuse_unsendable(view, "view")
    critical, rows = view["critical"], timeline_rows(scene).astype(np.float64)
    chain = rows[critical["bars"]]
    assert len(critical["reasons"]) == len(chain)
    assert chain[0, 0] == 0
    assert chain[-1, 1] == pytest.approx(critical["length_s"], rel=1e-6)
    if scene.report.timeline.program.order.flush:
        assert critical["length_s"] == pytest.approx(scene.report.makespan_s)
        assert chain[1:, 0] == pytest.approx(chain[:-1, 1], rel=1e-5)
    assert sum(part["seconds"] for part in critical["parts"]) == pytest.approx(critical["length_s"])
    seconds = [part["seconds"] for part in critical["parts"]]
    assert seconds == sorted(seconds, reverse=True)
    assert critical["parts"][0]["name"] == "compute"


def test_the_path_is_the_programs(scene: Scene) -> None:
    path = report_critical_path(scene.report)
    timing = scene.report.timeline.timing
    assert path.length_s == float(timing.end_s[path.tasks[-1]])


def test_memory_parts_are_the_reports(scene: Scene) -> None:
    view, _ = memory_view(scene, name="A")
    TypeAdapter(shapes.MemoryView).validate_python(view)
    parts = view["parts"]
    assert [sum(row) for row in parts["bytes"]] == pytest.approx(
        scene.report.per_device(scene.report.peak_memory_bytes)
    )
    names = [name for name in MEMORY_PARTS if name != "versions"]
    assert [name for name in parts["names"] if name != "weight versions"] == names
    asynchronous = not scene.report.timeline.program.order.flush
    assert ("weight versions" in parts["names"]) == asynchronous
    assert view["folded"] is None
    assert view["name"] == "A"


def test_links_add_up_to_what_they_carry(scene: Scene) -> None:
    view, cells = links_view(scene)
    TypeAdapter(shapes.LinksView).validate_python(view)
    refuse_unsendable(view, "view")
    table = np.frombuffer(cells, "<f4").reshape(len(view["rows"]), view["columns"]).astype(np.float64)
    assert table.min() >= 0
    assert table.max() <= 1 + 1e-5
    width = (view["end_s"] - view["start_s"]) / view["columns"]
    for row, shares in zip(view["rows"], table, strict=True):
        assert shares.mean() == pytest.approx(row["share"], rel=1e-4)
        carried = float(shares.sum()) * width * row["bytes_per_s"]
        assert carried == pytest.approx(row["step_bytes"], rel=1e-4)
    assert links_view(scene)[1] is cells, "made once"


def test_the_second_picture_of_traffic_is_the_links(scene: Scene) -> None:
    view, cells = communication_view(scene, name="B")
    TypeAdapter(shapes.TrafficView).validate_python(view)
    assert {key: value for key, value in view.items() if key != "links"} == traffic_view(scene, name="B")
    assert (view["links"], cells) == links_view(scene)


def test_links_say_where_they_are() -> None:
    inside = {row["name"] for row in links_view(scene_of(stages=4))[0]["rows"]}
    assert {"gpu 0 → NVSwitch", "NVSwitch → gpu 1"} <= inside
    across, _ = links_view(scene_of("gpt2-small", "ethernet-10g-4x4", 32, stages=8, replicas=1))
    names = [row["name"] for row in across["rows"]]
    assert "node 0 → Ethernet" in names
    assert {row["kind"] for row in across["rows"]} == {"pcie", "ethernet"}
    lanes = {row["name"]: row["lane"] for row in across["rows"]}
    assert lanes["gpu 0 → PCIe"] == "0"
    assert lanes["node 0 → Ethernet"] is None


def test_thousands_of_devices_are_told_by_node(folded: Scene) -> None:
    memory, _ = memory_view(folded)
    assert memory["folded"] == "the fullest device of each"
    assert len(memory["parts"]["bytes"]) == len(memory["rows"]) == 64
    assert sum(row["count"] for row in memory["rows"]) == 1024
    most = max(sum(row) for row in memory["parts"]["bytes"])
    assert most == pytest.approx(max(folded.report.peak_memory_bytes))
    traffic = traffic_view(folded)
    assert traffic["folded"].startswith("bytes added up")
    shown = sum(size for *_, size in traffic["pairs"]) + traffic["inside_bytes"]
    assert shown == pytest.approx(sum(folded.report.traffic_bytes.values()))
    links, _ = links_view(folded)
    assert 0 < len(links["rows"]) <= 64
    assert links["folded"] == "the busiest link of each"
    assert sum(row["count"] for row in links["rows"]) == int(
        np.count_nonzero(report_links(folded.report).carried_bytes())
    )
    assert "equal replicas" in links["text"]


def test_the_trace_opens_in_perfetto(scene: Scene) -> None:
    """What its JSON reader needs: named processes and threads (M), complete events (X) in microseconds."""
    trace = json.loads(json.dumps(chrome_trace(scene.report), allow_nan=False))
    assert trace["displayTimeUnit"] == "ms"
    events = trace["traceEvents"]
    threads = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    bars = [e for e in events if e["ph"] == "X"]
    assert {e["ph"] for e in events} == {"M", "X"}
    for e in bars:
        assert (e["pid"], e["tid"]) in threads
        assert e["pid"] in processes
        assert e["dur"] >= 0
        assert isinstance(e["name"], str)
    longest = max(e["ts"] + e["dur"] for e in bars)
    assert longest == pytest.approx(1e6 * float(scene.report.timeline.timing.end_s.max()))
    by_thread: dict[tuple[int, int], float] = {}
    for e in sorted(bars, key=lambda e: e["ts"]):
        thread = (e["pid"], e["tid"])
        # Perfetto drops events that overlap on a thread without being nested
        assert e["ts"] >= by_thread.get(thread, 0.0) * (1 - 1e-9)
        by_thread[thread] = e["ts"] + e["dur"]
