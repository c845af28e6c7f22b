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
from explorer.search import OBJECTIVES, Evaluator, Problem, search
from explorer.search._bounds import bounds_of
from explorer.search.evaluator import ERROR, EXHAUSTED, REFUSED
from explorer.search.exhaustive import space
from explorer.search.objectives import axes_of, epochs_at
from explorer.strategies.degrees import Degrees
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
