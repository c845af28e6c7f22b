"""PipeDream-2BW's planner: its formulas by hand, and the best of all its combinations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models.synthetic import chain
from explorer.planners.pipedream_2bw import combinations, microbatch_s
from explorer.search import Problem, search
from explorer.search._bounds import stage_table
from explorer.strategies.degrees import Degrees
from explorer.workload import default_workload


@pytest.fixture
def problem() -> Problem:
    graph = chain([1.0, 1.0, 1.0, 3.0], saved_bytes=2.0**30, parameter_bytes=4.0)
    workload = default_workload(graph).with_job(global_batch=8)
    return Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=workload, max_devices=4)


def seconds(problem: Problem, **degrees: object) -> float:
    table = stage_table(problem.graph, problem.needed_cluster, problem.job, problem.order)
    return microbatch_s(problem, table, Degrees(**degrees))  # type: ignore[arg-type]


def test_a_microbatch_takes_as_long_as_its_slowest_stage(problem: Problem) -> None:
    """Three layers of 3 s, one of 9 s (forward and backward): 9 and 9 in two stages."""
    assert seconds(problem, stages=2) == pytest.approx(9.0, rel=1e-4)
    assert seconds(problem, stages=1) == pytest.approx(18.0, rel=1e-4)
    assert seconds(problem, stages=2, microbatch_size=2) == pytest.approx(18.0, rel=1e-4)
    assert seconds(problem, stages=2, recompute="full") == pytest.approx(12.0, rel=1e-4)


def test_what_does_not_fit_is_left_out(problem: Problem) -> None:
    """A GiB a layer and sample: eight samples of four layers do not fit, fewer do."""
    tight = replace(problem, memory_limit_bytes=20 * 2.0**30)
    assert seconds(tight, stages=1, microbatch_size=8) == float("inf")
    assert seconds(tight, stages=1, microbatch_size=1) < float("inf")
    assert seconds(tight, stages=2, microbatch_size=4, recompute="full") < float("inf")


def test_the_best_combination_is_judged_first(problem: Problem) -> None:
    keys = ("stages", "replicas", "microbatch_size", "recompute")
    ranked = []
    for number, item in enumerate(combinations(problem)):
        once = seconds(problem, **{key: getattr(item, key) for key in keys})
        ranked.append((once / item.microbatch_samples, number))
    ranked.sort()
    best = combinations(problem)[ranked[0][1]]
    found = [item.new for item in search(problem, "pipedream_2bw") if item.new is not None]
    assert found[0].label == best.changed(schedule="pipedream_2bw").label
    assert {item.strategy.job.schedule for item in found} == {"pipedream_2bw", "1f1b"}
    only = search(problem, "pipedream_2bw", options={"asynchronous": "false"})
    assert {item.new.strategy.job.schedule for item in only if item.new} == {"1f1b"}
