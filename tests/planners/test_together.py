"""Planners that `auto` asks in a tenth for all of them: it is never worse than they are."""

from __future__ import annotations

import pytest

import explorer
from explorer.search import SEARCHERS, Candidate, Problem, search

TOGETHER = [item.name for item in SEARCHERS if item.together]


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Convolutions and dense layers on a slow network: the ones share samples, the others their outputs."""
    graph = explorer.load_model("alexnet")
    workload = explorer.default_workload(graph).with_job(global_batch=64)
    cluster = explorer.load_cluster("ethernet-10g-4x4")
    return Problem(graph=graph, cluster=cluster, workload=workload, max_devices=4)


def best(problem: Problem, name: str, evaluations: int) -> Candidate:
    *_, last = search(problem, name, max_evaluations=evaluations)
    assert last.best is not None
    return last.best


def test_some_are_asked_though_they_are_alone() -> None:
    assert TOGETHER
    assert all(SEARCHERS.get(name).alone for name in TOGETHER)


@pytest.mark.parametrize("name", TOGETHER)
def test_auto_is_never_worse_than_a_planner_that_answers_soon(problem: Problem, name: str) -> None:
    planned = best(problem, name, 6)
    assert best(problem, "auto", 60).value <= planned.value * (1 + 1e-12)


def test_what_they_find_carries_their_name(problem: Problem) -> None:
    assert best(problem, "auto", 60).finder in {*TOGETHER, "small changes"}
