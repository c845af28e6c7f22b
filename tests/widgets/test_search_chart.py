"""The chart of the Search tab: what its traces hold, and what a click on one loads."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from explorer.base.units import GIB, format_seconds
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.search import Candidate, Evaluator, Problem, Progress, search
from explorer.search.objectives import frontier_axes
from explorer.strategies.uniform import uniform
from explorer.views.frontier import runs_along
from explorer.workload import default_workload
from widgets.search.charts import SearchChart
from widgets.search.curves import MOST_LEADERS
from widgets.search.found import Found
from widgets.search.labels import CHARACTER_PX, EDGE_PX, LINE_PX
from widgets.search.points import Frame, bests_of, clear, frontier_of, staircase
from widgets.search.sizes import LEFT_PX, LOWER_PX, RIGHT_PX
from widgets.search.task import Entrant, Spot

PROBLEM = Problem(
    graph=load_model("gpt2-small"),
    cluster=load_cluster("dgx-a100"),
    workload=default_workload(load_model("gpt2-small")).with_job(global_batch=32),
)


@pytest.fixture(scope="module")
def runs() -> dict[str, list[Progress]]:
    return {name: list(search(PROBLEM, name, max_evaluations=12)) for name in ("megatron", "exhaustive")}


@pytest.fixture(scope="module")
def entrants(runs: dict[str, list[Progress]]) -> list[Entrant]:
    found = []
    for name, steps in runs.items():
        entrant = Entrant(name=name)
        for progress in steps:
            entrant.take(progress)
        found.append(entrant)
    return found


@pytest.fixture(scope="module")
def yours() -> Candidate:
    strategy = uniform(PROBLEM.graph, PROBLEM.cluster, PROBLEM.workload.job, stages=4, replicas=2)  # type: ignore[arg-type]
    found = Evaluator(problem=PROBLEM).evaluate(strategy, "by hand")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def spots(yours: Candidate) -> list[Spot]:
    step_s = yours.report.step_time_s
    one = Spot(searcher="megatron", strategy=yours.strategy, label="a", step_s=step_s, peak_bytes=20 * GIB,
               axes=("time", "memory"), point=(step_s, 20 * GIB), fits=True, over_bytes=0.0)  # fmt: skip
    far = {"peak_bytes": 90 * GIB, "point": (step_s, 90 * GIB)}
    return [one, replace(one, label="b", fits=False, over_bytes=10 * GIB, **far)]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def loaded() -> list[Any]:
    return []


@pytest.fixture(scope="module")
def chart(loaded: list[Any], entrants: list[Entrant], spots: list[Spot], yours: Candidate) -> SearchChart:
    made = SearchChart(loaded.append)
    draw(made, entrants, spots, yours)
    return made


def values_along(objective: str) -> Callable[[Candidate], tuple[float, ...]]:
    axes = frontier_axes(objective)
    return lambda item: tuple(axis.value(PROBLEM.needed_cluster, PROBLEM.job, item.report) for axis in axes)


def draw(
    chart: SearchChart, entrants: Any, spots: Any, yours: Candidate, *, objective: str = "time",
    bound: float = 0.01, **more: Any,
) -> None:  # fmt: skip
    axes = frontier_axes(objective)
    found = Found(
        entrants=entrants, runs=runs_along([e.run for e in entrants if e.run], axes), spots=spots,
        yours=yours, axes=axes, values_of=values_along(objective), bound=bound, fits_bytes=76 * GIB,
        capacity_bytes=80 * GIB,
    )  # fmt: skip
    chart.draw(found, objective=objective, **({"theme": "light"} | more))


def click(chart: SearchChart, name: str, number: int) -> None:
    """What the page's message does."""
    chart.traces[name]._dispatch_on_click(
        SimpleNamespace(point_inds=[number], xs=[], ys=[], trace_name="", trace_index=0), None
    )


def test_every_trace_holds_what_it_is_named_after(
    chart: SearchChart, entrants: list[Entrant], yours: Candidate
) -> None:
    peak = max(yours.report.peak_memory_bytes) / GIB
    assert (chart.traces["yours"].x[0], chart.traces["yours"].y[0]) == (peak, yours.report.step_time_s)
    bests = {(max(e.run.best.report.peak_memory_bytes) / GIB, e.run.best.report.step_time_s)
             for e in entrants if e.run and e.run.best}  # fmt: skip
    assert set(zip(chart.traces["bests"].x, chart.traces["bests"].y, strict=True)) == bests
    names = ", ".join(chart.traces["bests"].text)
    assert {"megatron", "exhaustive"} == set(names.split(", "))
    assert list(chart.traces["costed"].x) == [20.0]
    assert list(chart.traces["over"].x) == [90.0]
    assert list(chart.traces["bound"].y) == [0.01, 0.01]
    assert min(chart.traces["no room"].x) == 80.0
    assert (min(chart.traces["perhaps"].x), max(chart.traces["perhaps"].x)) == (76.0, 80.0)
    assert {trace.name for trace in chart.widget.data} >= {"megatron", "exhaustive"}


@pytest.mark.parametrize("width_px", [320, 460, 1600])
def test_the_name_of_an_area_does_not_touch_its_edges(
    chart: SearchChart, entrants: list[Entrant], yours: Candidate, width_px: int
) -> None:
    draw(chart, entrants, [], yours, width_px=width_px)
    low, high = chart.widget.layout.xaxis.range
    px = (width_px - LEFT_PX - RIGHT_PX) / (high - low)
    for area, words in (("perhaps", "may fit"), ("no room", "does not fit")):
        xs, name = chart.traces[area].x, chart.traces[area + " text"]
        assert name.text[0].replace("<br>", " ") == words
        assert name.y[0] > sum(chart.widget.layout.yaxis.range) / 2, "away from the names of the bests"
        if name.textposition == "middle left":
            assert name.x == (min(xs),)
            assert "<br>" not in name.text[0]
            continue
        wide = max(CHARACTER_PX * len(line) for line in name.text[0].split("<br>"))
        assert name.x == ((min(xs) + max(xs)) / 2,)
        assert (max(xs) - min(xs)) * px >= wide + 2 * EDGE_PX


def test_curves_are_drawn_over_seconds_or_evaluations(
    chart: SearchChart, entrants: list[Entrant], spots: list[Spot], yours: Candidate
) -> None:
    curves = {trace.name: trace for trace in chart.widget.data}
    for over, title in (("evaluations", "strategies costed"), ("seconds", "seconds of search")):
        draw(chart, entrants, spots, yours, over=over)
        assert chart.widget.layout.xaxis2.title.text == title
        for entrant in entrants:
            assert entrant.run is not None
            known = entrant.curve
            drawn = list(zip(curves[entrant.name].x, curves[entrant.name].y, strict=True))
            end = entrant.run.wall_s if over == "seconds" else entrant.run.evaluations
            assert drawn[:-1] == [(getattr(mark, over), mark.value) for mark in known]
            assert drawn[-1] == (end, known[-1].value), "it goes on level to where the search is"


def test_it_is_made_of_plain_numbers_and_stays_one_figure(
    chart: SearchChart, entrants: list[Entrant], spots: list[Spot], yours: Candidate
) -> None:
    before = [trace.uid for trace in chart.widget.data]
    for theme in ("dark", "light"):
        draw(chart, entrants, spots, yours, theme=theme, width_px=700)
    assert [trace.uid for trace in chart.widget.data] == before, "updated in place"
    assert chart.widget.layout.width == 700
    json.dumps(chart.widget.to_plotly_json()["layout"], allow_nan=False)
    assert {"sendChartToCloud", "sendDataToCloud"} <= set(chart.widget.layout.modebar.remove)


def test_no_message_sets_a_font_and_a_part_of_it(
    chart: SearchChart, entrants: list[Entrant], spots: list[Spot], yours: Candidate
) -> None:
    """Plotly refuses such a message in the page, as a whole."""
    seen: list[Any] = []
    chart.widget.observe(lambda change: seen.append(change["new"]), "_py2js_update")
    draw(chart, entrants, spots, yours, theme="dark")
    keys = {key for message in seen if message for key in message.get("style_data", {})}
    assert keys
    assert not [(a, b) for a in keys for b in keys if b.startswith(f"{a}.")]


def test_a_click_loads_what_the_point_stands_for(
    chart: SearchChart, loaded: list[Any], entrants: list[Entrant], spots: list[Spot]
) -> None:
    for name, strategies in (
        ("costed", [spots[0].strategy]),
        ("over", [spots[1].strategy]),
        ("bests", [pick.strategy for pick in _best_candidates(entrants)]),
    ):
        loaded.clear()
        click(chart, name, 0)
        assert len(loaded) == 1
        assert loaded[0][1] in strategies
    loaded.clear()
    click(chart, "costed", 99)
    assert loaded == [], "a point that is gone loads nothing"


def _best_candidates(entrants: list[Entrant]) -> list[Candidate]:
    return [e.run.best for e in entrants if e.run and e.run.best]


def test_before_anything_is_found_there_is_still_a_picture(yours: Candidate) -> None:
    chart = SearchChart(lambda _: None)
    draw(chart, [Entrant(name="auto")], [], replace(yours, outcome=replace(yours.outcome, value=math.inf)))
    assert chart.traces["bests"].x is None or not len(chart.traces["bests"].x)
    assert len(chart.traces["yours"].x) == 1
    assert chart.widget.layout.yaxis2.showticklabels is False, "no numbers on an axis of nothing"


def test_the_axis_has_its_numbers_once_something_is_found(entrants: list[Entrant], yours: Candidate) -> None:
    chart = SearchChart(lambda _: None)
    draw(chart, entrants, [], yours)
    assert chart.widget.layout.yaxis2.showticklabels is True


def test_the_frontier_goes_down_in_steps(entrants: list[Entrant]) -> None:
    runs = [entrant.run for entrant in entrants if entrant.run]
    points = sorted((pick.peak_bytes, pick.step_s) for pick in frontier_of(runs))
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
    steps = staircase(points, 100.0)
    assert steps[0] == points[0]
    assert steps[-1] == (100.0, points[-1][1])
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(steps))
    assert staircase([], 100.0) == []


def test_searchers_with_the_same_best_share_a_name(entrants: list[Entrant]) -> None:
    twin = replace_name(entrants[0], "twin")
    groups = bests_of([entrants[0], twin], values_along("time"))
    assert [[pick.searcher for pick in picks] for picks in groups] == [["megatron", "twin"]]


def replace_name(entrant: Entrant, name: str) -> Entrant:
    return Entrant(name=name, run=entrant.run, own=True)


def test_no_spot_hides_a_point_with_a_name() -> None:
    ends, size = Frame(0.0, 100.0, 0.0, 10.0), (400.0, 200.0)
    assert not clear((50.1, 5.01), [(50.0, 5.0)], ends, size)
    assert clear((60.0, 5.0), [(50.0, 5.0)], ends, size)
    assert not clear((60.0, 11.0), [], ends, size)


@pytest.fixture(scope="module")
def three() -> list[Entrant]:
    """A search for a frontier of three, none of which is step time."""
    asked = replace(PROBLEM, objective="frontier:cost,devices,memory")
    entrant = Entrant(name="exhaustive")
    for progress in search(asked, "exhaustive", max_evaluations=60):
        entrant.take(progress)
    return [entrant]


def test_three_axes_are_up_across_and_colour(three: list[Entrant], yours: Candidate) -> None:
    loaded: list[Any] = []
    chart = SearchChart(loaded.append)
    objective = "frontier:cost,devices,memory"
    draw(chart, three, [], yours, objective=objective)
    layout = chart.widget.layout
    assert layout.yaxis.title.text.startswith("cost, $ a million steps")
    assert layout.xaxis.title.text == "devices used"
    assert layout.xaxis.dtick == 1.0, "no half devices"
    assert layout.coloraxis.showscale is True
    assert layout.coloraxis.colorbar.title.text == "worst device memory, GiB"
    run = three[0].run
    assert run is not None
    points = [item.outcome.point for item in run.frontier]
    drawn = chart.traces["frontier points"]
    assert len(points) > 2
    seen = set(zip(drawn.y, drawn.x, drawn.marker.color, strict=True))
    assert seen == {(cost / 1e-6, devices, peak / GIB) for cost, devices, peak in points}
    assert not chart.traces["frontier"].x, "three axes have no staircase"
    assert not chart.traces["no room"].x, "memory is neither up nor across"
    by_place = {(c / 1e-6, d, m / GIB): item for item in run.frontier for c, d, m in [item.outcome.point]}
    first = by_place[drawn.y[0], drawn.x[0], drawn.marker.color[0]]
    cost, devices, peak = first.outcome.point
    words = drawn.customdata[0].split("<br>")[1]
    told = f"${cost / 1e-6:.4g} a million steps, {devices:g} devices, {peak / GIB:.4g} GiB"
    assert words == f"{told}, {format_seconds(first.outcome.step_time_s)} a step", "step time is told too"
    click(chart, "frontier points", 0)
    assert loaded[0].strategy == first.strategy
    draw(chart, three, [], yours)
    assert layout.coloraxis.showscale is False, "two axes again"
    assert isinstance(chart.traces["bests"].marker.color, str)
    assert not chart.traces["frontier points"].x, "that search kept no frontier of step time and memory"
    json.dumps(chart.widget.to_plotly_json()["layout"], allow_nan=False)


def test_memory_up_has_its_limits_across(entrants: list[Entrant], yours: Candidate) -> None:
    chart = SearchChart(lambda _: None)
    asked = replace(PROBLEM, objective="frontier:memory,time")
    entrant = Entrant(name="even")
    for progress in search(asked, "even", max_evaluations=6):
        entrant.take(progress)
    draw(chart, [entrant], [], yours, objective=asked.objective, bound=GIB)
    assert (min(chart.traces["no room"].y), max(chart.traces["no room"].y)) == (
        80.0,
        chart.widget.layout.yaxis.range[1],
    )
    assert (min(chart.traces["perhaps"].y), max(chart.traces["perhaps"].y)) == (76.0, 80.0)
    assert list(chart.traces["bound"].y) == [1.0, 1.0]
    assert chart.traces["bound text"].text == ("lower bound 1 GiB",)
    assert chart.widget.layout.xaxis.title.text == "step time, s"


def test_names_of_leaders_stand_apart_and_the_rest_is_grey(entrants: list[Entrant], yours: Candidate) -> None:
    chart = SearchChart(lambda _: None)
    many = [with_value(entrants[0], f"searcher_{i}", 1.0 + 0.001 * i) for i in range(31)]
    draw(chart, many, [], yours)
    traces = {trace.name: trace for trace in chart.widget.data}
    names, layout = traces["names"], chart.widget.layout
    assert list(names.text) == [f"searcher_{i}" for i in range(MOST_LEADERS)]
    low, high = layout.yaxis2.range
    heights = [(y - low) / (high - low) * LOWER_PX for y in names.y]
    assert all(b - a >= LINE_PX - 1e-6 for a, b in itertools.pairwise(heights))
    assert all(0 <= y <= LOWER_PX for y in heights)
    leading = {traces[name].line.color for name in names.text}
    assert len(leading) == MOST_LEADERS, "each has a colour"
    assert list(names.marker.color) == [traces[name].line.color for name in names.text], "a dot tells which"
    rest = {
        trace.line.color
        for name, trace in traces.items()
        if name.startswith("searcher_") and name not in names.text
    }
    assert len(rest) == 1
    assert not rest & leading
    assert layout.annotations[1].text == "Best so far; grey: 24 more, named on hover"
    assert "searcher_30" in traces["searcher_30"].hovertemplate
    draw(chart, many[:2], [], yours)
    assert layout.annotations[1].text == "Best so far"
    assert not traces["searcher_30"].x, "a curve of another comparison is gone"


def with_value(entrant: Entrant, name: str, value: float) -> Entrant:
    curve = tuple(mark._replace(value=value) for mark in entrant.curve[:1])
    return Entrant(name=name, run=entrant.run, own=True, curve=curve)


def test_curves_of_another_objective_are_not_drawn(three: list[Entrant], yours: Candidate) -> None:
    chart = SearchChart(lambda _: None)
    draw(chart, three, [], yours, objective="cost")
    curve = next(trace for trace in chart.widget.data if trace.name == "exhaustive")
    assert len(curve.x) > 0, "its first axis is the cost"
    draw(chart, three, [], yours, objective="time")
    assert not curve.x
