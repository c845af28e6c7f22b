"""The leaderboard and the frontier, from real searches and from states that are made up."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.search import REFUSED, Candidate, Evaluator, Problem, Progress, search
from explorer.search.objectives import frontier_axes
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import Mesh, Stage, Strategy, Sync, single
from explorer.views.frontier import frontier_points, frontier_strategies, nondominated
from explorer.views.search_table import SearchRow, leaderboard_rows
from explorer.views.strategy_words import strategy_words
from explorer.workload import default_workload
from tests.support import view_shapes as shapes

AXES = frontier_axes("time")
"""Axes of the frontier that a search for a least step time keeps."""


@pytest.fixture(scope="module")
def problem() -> Problem:
    graph = load_model("gpt2-small")
    return Problem(
        graph=graph,
        cluster=load_cluster("dgx-a100"),
        workload=default_workload(graph).with_job(global_batch=32),
    )


@pytest.fixture(scope="module")
def yours(problem: Problem) -> Candidate:
    strategy = uniform(problem.graph, problem.cluster, problem.workload.job, stages=4, replicas=2)  # type: ignore[arg-type]
    found = Evaluator(problem=problem).evaluate(strategy, "by hand")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def runs(problem: Problem) -> dict[str, Progress]:
    return {
        name: list(search(problem, name, max_evaluations=15))[-1] for name in ("even", "megatron", "auto")
    }


def rows_of(runs: dict[str, Progress], yours: Candidate | None, **more: Any) -> list[dict[str, Any]]:
    rows = [
        SearchRow(searcher=name, run=run, value=run.best.value if run.best else None)
        for name, run in runs.items()
    ]
    return leaderboard_rows(rows, yours=yours, **{"bound_s": 0.01, **more})


def test_rows_stand_by_objective_with_yours_among_them(runs: dict[str, Progress], yours: Candidate) -> None:
    rows = rows_of(runs, yours)
    assert {row["id"] for row in rows} == {*runs, "yours"}
    values = [row["value"] for row in rows]
    assert values == sorted(values)
    for row in rows:
        assert row["gap"] == pytest.approx(row["step_s"] / 0.01 - 1)
        if row["id"] != "yours":
            assert row["change"] == pytest.approx(row["step_s"] / yours.report.step_time_s - 1)
    TypeAdapter(list[shapes.LeaderRow]).validate_python([row | {"on_board": False} for row in rows])
    json.dumps(rows, allow_nan=False)


def test_rows_at_work_stand_below_in_the_order_they_were_started(
    runs: dict[str, Progress], yours: Candidate
) -> None:
    rows = [
        SearchRow(searcher="even", run=runs["even"], state="running", value=0.0),
        SearchRow(searcher="megatron", run=runs["megatron"], value=9.0),
        SearchRow(searcher="auto", state="waiting"),
    ]
    found = leaderboard_rows(rows, yours=yours, bound_s=None)
    assert [row["id"] for row in found] == ["yours", "megatron", "even", "auto"]
    assert [row["answer"] for row in found] == ["", "ended", "best so far", "waiting"]
    assert found[2]["level"] == "busy"
    assert found[3]["label"] == ""
    assert all(row["gap"] is None for row in found)


def test_who_proved_his_own_and_was_beaten_says_so(runs: dict[str, Progress]) -> None:
    proved = replace(runs["even"], optimal=True)
    for value, answer in ((1.0, "optimal"), (2.0, "optimal"), (2.1, "best of its space")):
        rows = [
            SearchRow(searcher="exhaustive", run=proved, value=value),
            SearchRow(searcher="auto", run=runs["megatron"], value=2.0),
        ]
        found = {row["id"]: row["answer"] for row in leaderboard_rows(rows, yours=None, bound_s=None)}
        assert found == {"exhaustive": answer, "auto": "ended"}


def test_each_way_of_finding_nothing_is_said(yours: Candidate) -> None:
    none = Progress(searcher="x", objective="time", best=None, evaluations=0, wall_s=0.1)
    refused = replace(none, details={REFUSED: 4})
    cases = [
        (SearchRow(searcher="x", run=none), "", "nothing that fits", "ended"),
        (SearchRow(searcher="x", run=none, state="running"), "", "nothing that fits yet", "searching"),
        (SearchRow(searcher="x", run=refused), "3 pins", "no strategy that respects 3 pins", "ended"),
        (
            SearchRow(searcher="x", run=replace(refused, evaluations=1)),
            "3 pins",
            "nothing that fits",
            "ended",
        ),
        (SearchRow(searcher="x", state="failed", error="too many cuts"), "", "too many cuts", "failed"),
        (SearchRow(searcher="x", state="unable", error="time only"), "", "time only", "cannot"),
        (SearchRow(searcher="x", run=none, state="timed"), "", "nothing that fits", "time is up"),
        (SearchRow(searcher="x", state="stopped"), "", "nothing", "stopped"),
    ]
    for row, held, label, answer in cases:
        found = next(item for item in leaderboard_rows([row], yours=yours, bound_s=1.0, held=held)
                     if item["id"] == "x")  # fmt: skip
        assert (found["label"], found["answer"]) == (label, answer)
        assert not found["loadable"]


def test_what_has_to_be_known_before_loading_is_said(runs: dict[str, Progress], yours: Candidate) -> None:
    run = runs["auto"]
    assert run.best is not None
    start = replace(run, best=replace(run.best, label="start"))
    rows = [
        SearchRow(searcher="a", run=run, state="failed", error="broke", own=False, value=1.0),
        SearchRow(searcher="b", run=start, value=1.0),
        SearchRow(searcher="c", run=run, value=None, releases="2 pins"),
    ]
    notes = {row["id"]: row["note"] for row in leaderboard_rows(rows, yours=yours, bound_s=None)}
    assert notes["a"] == "result of the search before; this one failed: broke"
    assert notes["b"] == "nothing better than the start"
    assert notes["c"] == "does not fit the limits asked for now; loading it releases 2 pins"


def test_what_may_fit_is_said(runs: dict[str, Progress], yours: Candidate) -> None:
    best = runs["auto"].best
    assert best is not None
    likely = replace(best, outcome=replace(best.outcome, may_fit=True))
    run = replace(runs["auto"], best=likely, frontier=(likely,))
    mine = replace(yours, outcome=replace(yours.outcome, may_fit=True))
    rows = leaderboard_rows([SearchRow(searcher="a", run=run, value=1.0)], yours=mine, bound_s=None)
    assert [row["note"] for row in rows] == ["may fit", "may fit"]
    assert [point["may_fit"] for point in frontier_points([run], AXES)] == [True]
    assert not any("may fit" in row["note"] for row in rows_of(runs, yours))


def test_yours_that_does_not_fit_is_marked_in_words(runs: dict[str, Progress], yours: Candidate) -> None:
    rows = rows_of(runs, replace(yours, outcome=replace(yours.outcome, value=math.inf)))
    assert rows[-1]["id"] == "yours"
    assert (rows[-1]["answer"], rows[-1]["level"], rows[-1]["value"]) == ("does not fit", "bad", None)
    assert all(row["change"] is not None for row in rows[:-1])


def test_the_frontier_holds_exactly_what_nothing_dominates(runs: dict[str, Progress]) -> None:
    points = frontier_points(runs.values(), AXES)
    every = [
        (item.report.step_time_s, max(item.report.peak_memory_bytes))
        for run in runs.values()
        for item in run.frontier
    ]
    shown = [(point["step_s"], point["peak_bytes"]) for point in points]
    best = {p for p in every if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in every)}
    assert set(shown) == best
    assert shown == sorted(shown)
    strategies = frontier_strategies(runs.values(), AXES)
    for point in points:
        searcher, strategy, _ = strategies[point["id"]]
        assert searcher in point["searchers"]
        assert point["label"].startswith(strategy_words(strategy.job))
    TypeAdapter(list[shapes.FrontierPoint]).validate_python(points)


@settings(max_examples=300)
@given(st.integers(2, 3).flatmap(lambda n: st.lists(st.tuples(*[st.integers(0, 6)] * n), max_size=40)))
def test_nothing_dominated_stays_and_nothing_else_goes(drawn: list[tuple[int, ...]]) -> None:
    points = [tuple(float(x) for x in point) for point in drawn]
    kept = nondominated(points)
    plain = {
        p
        for p in points
        if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in points)
    }
    assert set(kept) == plain
    assert kept == sorted(plain), "by the first axis, equal ones once"


def test_a_frontier_of_three_axes_is_that_of_its_own_searches(
    problem: Problem, runs: dict[str, Progress]
) -> None:
    asked = replace(problem, objective="frontier:cost,devices,memory")
    own = list(search(asked, "exhaustive", max_evaluations=40))[-1]
    axes = frontier_axes(asked.objective)
    points = frontier_points([*runs.values(), own], axes)
    values = [tuple(point["values"]) for point in points]
    assert len(points) > 1
    assert set(values) == {item.outcome.point for item in own.frontier}
    assert {who for point in points for who in point["searchers"]} == {"exhaustive"}, "others have other axes"
    strategies = frontier_strategies([*runs.values(), own], axes)
    assert list(strategies) != []
    for point in points:
        _, strategy, _ = strategies[point["id"]]
        report = simulate(problem.graph, problem.cluster, problem.workload, strategy)  # type: ignore[arg-type]
        assert point["values"] == [axis.value(problem.needed_cluster, problem.job, report) for axis in axes]
    assert not set(strategies) & set(frontier_strategies(runs.values(), AXES))
    TypeAdapter(list[shapes.FrontierPoint]).validate_python(points)


def stage(first: int, devices: tuple[int, ...], **fields: Any) -> Stage:
    return Stage(layers=(f"l{first}",), meshes=(Mesh(devices=devices),), **fields)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (single(stages=(stage(0, (0,)),)), "1 device, microbatch 1"),
        (single(stages=(stage(0, (0, 1), microbatch_samples=4, zero=3),)), "dp 2, microbatch 2, ZeRO-3"),
        (single(stages=(stage(0, (0, 1)),), sync=(Sync(parameters=("*",), bucket_bytes=2.0**20),)),
         "dp 2, microbatch 1, buckets"),
        (single(stages=(stage(0, (0,)), stage(1, (1, 2, 3)))), "2 stages on 1·3 devices, 1f1b, microbatch 1"),
        (single(stages=(stage(0, (0,)), stage(1, (1,), recompute="full")), schedule="gpipe"),
         "pp 2, gpipe, microbatch 1, recomputation none·full"),
        (single(stages=tuple(stage(i, (i % 2,)) for i in range(4)), schedule="interleaved_1f1b"),
         "pp 2, interleaved_1f1b, 2 chunks, microbatch 1"),
    ],
)  # fmt: skip
def test_a_strategy_in_words(strategy: Strategy, words: str) -> None:
    assert strategy_words(strategy.job) == words
