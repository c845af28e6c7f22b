"""Searches under a schedule that the problem asks for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.search import Evaluator, Problem, search
from explorer.search.spaces import uniform_strategies
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

JOB = Job(global_batch=8, precision="fp16", optimizer="adam")


@pytest.fixture
def problem(decoder: Callable[..., LayerGraph]) -> Callable[..., Problem]:
    def make(**changes: object) -> Problem:
        cluster, work = load_cluster("dgx-1-v100"), Workload(jobs=(JOB,))
        return Problem(graph=decoder(8), cluster=cluster, workload=work, max_devices=4, **changes)  # type: ignore[arg-type]

    return make


PAIRS = [
    (searcher, name)
    for searcher in ("auto", "even", "exhaustive", "local", "megatron")
    for name in ("gpipe", "zb_h1", "hanayo", "chimera")
    if (searcher, name) != ("megatron", "chimera")  # tensor parallelism alone fits, which has one stage
]


@pytest.mark.parametrize(("searcher", "name"), PAIRS)
def test_every_candidate_has_the_schedule(problem: Callable[..., Problem], searcher: str, name: str) -> None:
    given = problem(schedule=name)
    found = list(search(given, searcher, max_evaluations=20))
    best = found[-1].best
    assert best is not None
    assert all(item.new.strategy.job.schedule == name for item in found if item.new)
    assert (
        simulate(given.graph, given.needed_cluster, given.workload, best.strategy).step_time_s == best.value
    )


def test_options_of_the_schedule_arrive(problem: Callable[..., Problem]) -> None:
    given = problem(schedule="layer_parallel", schedule_options=(("sweeps", "1"),))
    best = list(search(given, "even"))[-1].best
    assert best is not None
    assert SCHEDULES.get("layer_parallel").read_options(dict(best.strategy.job.options)) == {"sweeps": 1}


def test_the_best_under_a_schedule_is_the_best_of_all_members(problem: Callable[..., Problem]) -> None:
    given = problem(schedule="gpipe")
    last = list(search(given, "exhaustive"))[-1]
    assert last.best is not None
    assert last.optimal
    evaluator = Evaluator(problem=given)
    for strategy in uniform_strategies(given):
        evaluator.evaluate(strategy)
    assert evaluator.best is not None
    assert last.best.value == evaluator.best.value


def test_stages_are_placed_as_the_schedule_wants(problem: Callable[..., Problem]) -> None:
    given = problem(schedule="chimera")
    plain = Degrees(stages=4).build(given.graph, given.needed_cluster, given.job, devices=(3, 2, 1, 0))
    found = Evaluator(problem=given).evaluate(plain, "pp 4")
    assert found is not None
    assert found.label == "pp 4, chimera"
    assert [[mesh.devices for mesh in stage.meshes] for stage in found.strategy.job.stages] == [
        [(3,), (0,)], [(2,), (1,)], [(1,), (2,)], [(0,), (3,)],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": "nosuch"},
        {"schedule": "gpipe", "schedule_options": (("depth", 2),)},
        {"schedule_options": (("sweeps", 2),)},
    ],
)
def test_wrong_schedules_are_refused(problem: Callable[..., Problem], wrong: dict[str, object]) -> None:
    with pytest.raises(InputError) as caught:
        problem(**wrong)
    assert caught.value.allowed
