"""Objectives: values, lower bounds never above them, frontiers of two and three axes, reasons for a miss."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.models.synthetic import chain
from explorer.search import OBJECTIVES, Evaluator, Problem, search
from explorer.search._bounds import bounds_of
from explorer.search.comparison import why_nothing
from explorer.search.evaluator import ERROR, EXHAUSTED, REFUSED, candidate_of
from explorer.search.exhaustive import Point, space
from explorer.search.objectives import axes_of, epochs_at, epochs_words, steps_to_accuracy
from explorer.simulation.report import Report
from explorer.strategies.degrees import Degrees
from explorer.strategy import Strategy
from explorer.workload import default_workload

MIXED = explorer.load_cluster("mixed-v100-a100")
EQUAL = explorer.load_cluster("dgx-a100-4")
GPT = explorer.load_model("gpt2-small")
WORKLOAD = default_workload(GPT).with_job(
    global_batch=32, epochs=((16, 3.0), (64, 4.0)), samples_per_epoch=1000.0
)
PROBLEMS = {
    (name, cluster.name): Problem(graph=GPT, cluster=cluster, workload=WORKLOAD, objective=name)
    for name in OBJECTIVES
    for cluster in (MIXED, EQUAL)
}
POINTS = {cluster.name: space(PROBLEMS["time", cluster.name]) for cluster in (MIXED, EQUAL)}


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("cluster", ["mixed-v100-a100", "dgx-a100-4"])
@settings(max_examples=12)
@given(data=st.data())
def test_no_bound_exceeds_the_value(name: str, cluster: str, data: st.DataObject) -> None:
    problem = PROBLEMS[name, cluster]
    point = data.draw(st.sampled_from(POINTS[cluster]))
    strategy = point.strategy(problem)
    report = explorer.simulate(GPT, problem.needed_cluster, WORKLOAD, strategy)
    value = problem.value(report)
    least = problem.lower_bound()
    assert least is not None
    assert 0 < least <= value
    found = bounds_of(GPT, problem.needed_cluster, problem.job, strategy.job, point.degrees.stages)
    own = OBJECTIVES[name].strategy_bound(
        problem.needed_cluster, problem.job, found.step_time_s, found.peak_memory_bytes, report.devices
    )
    assert own <= value * (1 + 1e-12)


def test_values_in_closed_form() -> None:
    strategy = Degrees(replicas=4).build(GPT, MIXED, WORKLOAD.job, devices=(0, 1, 8, 9))
    report = explorer.simulate(GPT, MIXED, WORKLOAD, strategy)
    price = 2 * MIXED.kind_of(0).price_per_hour + 2 * MIXED.kind_of(8).price_per_hour
    values = {name: OBJECTIVES[name].value(MIXED, WORKLOAD.job, report) for name in OBJECTIVES}
    assert values["time"] == report.step_time_s
    assert values["memory"] == max(report.peak_memory_bytes)
    assert values["cost"] == pytest.approx(report.step_time_s * price / 3600)
    assert values["devices"] == 4
    steps = 1000.0 / 32 * epochs_at(WORKLOAD.job.epochs, 32)
    assert steps == pytest.approx(31.25 * 3.5)
    assert values["time_to_accuracy"] == pytest.approx(report.step_time_s * steps)


def test_time_to_accuracy_needs_epochs() -> None:
    job = replace(WORKLOAD.job, epochs=())
    assert not OBJECTIVES["time_to_accuracy"].needs(job)
    assert OBJECTIVES["time_to_accuracy"].needs(WORKLOAD.job)
    problem = replace(PROBLEMS["time_to_accuracy", "dgx-a100-4"], workload=explorer.Workload(jobs=(job,)))
    with pytest.raises(InputError, match="needs samples per epoch"):
        list(search(problem, "even"))
    job = replace(job, epochs_source="nobody looked")
    with pytest.raises(InputError, match="nobody looked"):
        steps_to_accuracy(job)


def test_epochs_are_said_with_their_batch_and_source() -> None:
    job = replace(WORKLOAD.job, epochs_source="a paper")
    assert epochs_words(job) == "3.5 at a batch of 32; a paper"
    outside = replace(job, global_batch=4096)
    assert epochs_words(outside) == "4 at a batch of 4,096, which is outside of 16 to 64; a paper"


def no_worse(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("axes", ["time,memory", "time,cost", "cost,memory", "time,memory,cost"])
def test_a_frontier_is_all_that_is_not_dominated(axes: str) -> None:
    problem = Problem(
        graph=GPT, cluster=MIXED, workload=WORKLOAD, objective=f"frontier:{axes}", max_devices=4
    )
    names = axes.split(",")
    seen, last = [], None
    for last in search(problem, "exhaustive", max_evaluations=60):
        if last.new is not None and math.isfinite(last.new.value):
            report = last.new.report
            seen.append(tuple(OBJECTIVES[name].value(MIXED, WORKLOAD.job, report) for name in names))
    assert last is not None
    kept = [
        tuple(OBJECTIVES[name].value(MIXED, WORKLOAD.job, item.report) for name in names)
        for item in last.frontier
    ]
    best = {
        a for a in seen if not any(b != a and all(x <= y for x, y in zip(b, a, strict=True)) for b in seen)
    }
    assert set(kept) == best
    assert kept == sorted(kept)
    for a, b in itertools.permutations(kept, 2):
        assert not no_worse(a, b)
    assert last.best is not None
    assert last.best.value == min(a[0] for a in seen)


# ---- a space that can be listed ------------------------------------------------------------------

SMALL = chain([1.0, 2.0], parameter_bytes=2.0**20)
FEW = Problem(
    graph=SMALL, cluster=MIXED, devices=(0, 8),
    workload=default_workload(SMALL).with_job(
        global_batch=4, epochs=((2, 3.0), (8, 4.0)), samples_per_epoch=1000
    ),
)  # fmt: skip
"""Two layers on a V100 and an A100, on one of them or on both."""


@pytest.fixture(scope="module")
def members() -> list[tuple[Point, Strategy, Report]]:
    """Return every member of the space, simulated."""
    given = replace(FEW, objective="cost")  # fewer devices are members too
    made = [(point, point.strategy(given)) for point in space(given)]
    return [(point, made, explorer.simulate(SMALL, MIXED, FEW.workload, made)) for point, made in made]


@pytest.mark.parametrize("axes", [
    axes for size in (2, 3) for axes in itertools.combinations(OBJECTIVES, size)
])  # fmt: skip
def test_any_two_or_three_objectives_have_the_true_frontier(
    axes: tuple[str, ...], members: list[tuple[Point, Strategy, Report]]
) -> None:
    problem = replace(FEW, objective=f"frontier:{','.join(axes)}")
    evaluator = Evaluator(problem=problem)
    seen = set()
    for point, strategy, report in members:
        evaluator.keep(candidate_of(problem, strategy, report, point.label))
        seen.add(tuple(OBJECTIVES[name].value(MIXED, problem.job, report) for name in axes))
    best = {a for a in seen if not any(b != a and no_worse(b, a) for b in seen)}
    assert {item.outcome.point for item in evaluator.frontier} == best
    assert len(evaluator.frontier) == len(best)
    assert evaluator.best is not None
    assert evaluator.best.value == min(a[0] for a in seen)


@pytest.mark.parametrize("searcher", ["exhaustive", "auto"])
@pytest.mark.parametrize("objective", ["devices", "cost", "energy", "memory"])
def test_the_best_of_those_that_reach_a_floor_is_found(
    objective: str, searcher: str, members: list[tuple[Point, Strategy, Report]]
) -> None:
    rates = sorted({4 / report.step_time_s for _, _, report in members})
    for floor in (rates[len(rates) // 2], rates[-1]):
        problem = replace(FEW, objective=objective, min_samples_per_s=floor)
        reached = [problem.value(report) for _, _, report in members if 4 / report.step_time_s >= floor]
        *_, last = search(problem, searcher)
        assert last.best is not None
        assert last.best.value <= min(reached) * (1 + 1e-9)
        assert 4 / last.best.outcome.step_time_s >= floor * (1 - 1e-9)
        assert last.lower_bound is not None
        assert last.lower_bound <= last.best.value * (1 + 1e-9)


def test_of_as_few_devices_the_fastest_is_kept(members: list[tuple[Point, Strategy, Report]]) -> None:
    *_, last = search(replace(FEW, objective="devices"), "exhaustive", options={"max_zero": 0})
    assert last.best is not None
    assert last.best.value == last.lower_bound == 1
    problem = replace(FEW, objective="devices")
    evaluator = Evaluator(problem=problem)
    for point, strategy, report in members:
        evaluator.keep(candidate_of(problem, strategy, report, point.label))
    assert evaluator.best is not None
    alone = [report.step_time_s for _, _, report in members if len(report.devices) == 1]
    assert evaluator.best.outcome.step_time_s == min(alone)


# ---- the floor -----------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [-1.0, math.inf, math.nan])
def test_a_floor_is_a_number(floor: float) -> None:
    with pytest.raises(InputError, match="samples a second") as caught:
        replace(FEW, min_samples_per_s=floor)
    assert caught.value.key == "min_samples_per_s"


@pytest.mark.parametrize("name", ["auto", "even", "heterps"])
def test_a_floor_beyond_the_peak_is_refused_in_one_line(name: str) -> None:
    problem = replace(PROBLEMS["cost", "dgx-a100-4"], min_samples_per_s=1e9)
    with pytest.raises(InputError, match="at their peak") as caught:
        list(search(problem, name))
    assert "\n" not in str(caught.value)


def test_what_is_too_slow_says_by_how_much() -> None:
    slow = replace(FEW, devices=(0,), min_samples_per_s=1e6)
    evaluator = Evaluator(problem=slow)
    found = evaluator.evaluate(Degrees().build(SMALL, MIXED, FEW.job), "alone")
    assert found is not None
    assert math.isinf(found.value)
    assert found.over_bytes == 0
    assert found.outcome.short_samples_per_s == pytest.approx(1e6 - 4 / found.outcome.step_time_s)
    assert evaluator.best is None
    assert evaluator.closest is found
    assert not evaluator.frontier
    *_, last = search(slow, "even")
    assert "is fast enough" in why_nothing(last)
    assert "samples/s too slow" in why_nothing(last)


@pytest.mark.parametrize(
    "text", ["luck", "frontier:time", "frontier:time,time", "frontier:time,luck", "time:cost",
             "frontier:time,memory,cost,energy", "frontier:"]
)  # fmt: skip
def test_wrong_objectives_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        axes_of(text)
    assert caught.value.key == "objective"
    assert caught.value.allowed


def test_a_miss_says_why() -> None:
    problem = replace(PROBLEMS["time", "dgx-a100-4"], pins=((GPT.layers[0].name, 9),))
    evaluator = Evaluator(problem=problem, max_evaluations=2)
    job = WORKLOAD.job
    good = Degrees(replicas=2).build(GPT, EQUAL, job, devices=(9, 0))
    assert evaluator.evaluate(good, "pinned") is not None
    assert evaluator.miss is None
    assert evaluator.evaluate(Degrees(replicas=2).build(GPT, EQUAL, job)) is None
    assert evaluator.miss is not None
    assert evaluator.miss.reason == REFUSED
    bad = good.with_job(replace(good.job, schedule="nothing"))
    assert evaluator.evaluate(bad) is None
    assert evaluator.miss.reason == ERROR
    assert "nothing" in evaluator.miss.text
    assert evaluator.evaluate(good) is None
    assert evaluator.miss.reason == EXHAUSTED
    assert (evaluator.refused, evaluator.failed, evaluator.evaluations) == (1, 1, 2)


def test_what_does_not_fit_says_by_how_much() -> None:
    problem = replace(PROBLEMS["time", "dgx-a100-4"], memory_limit_bytes=2.0**30)
    evaluator = Evaluator(problem=problem)
    large = evaluator.evaluate(Degrees(microbatch_size=8).build(GPT, EQUAL, WORKLOAD.job))
    small = evaluator.evaluate(Degrees(microbatch_size=1, recompute="full").build(GPT, EQUAL, WORKLOAD.job))
    assert large is not None
    assert small is not None
    assert math.isinf(large.value)
    assert large.over_bytes == max(large.report.peak_memory_bytes) - 2.0**30
    assert 0 < small.over_bytes < large.over_bytes
    assert small.rank < large.rank
    assert evaluator.best is None
    assert evaluator.closest is small
