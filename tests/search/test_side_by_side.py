"""Searchers side by side: who takes part, what is said of whom, and that nobody gains by who came before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.search import SEARCHERS, Evaluator, Problem, Searcher, Space, search
from explorer.search.comparison import (
    ENDED,
    RULE,
    RUNNING,
    STOPPED,
    TIMED,
    UNABLE,
    WAITING,
    YOURS,
    Comparison,
    Contestant,
    Mark,
)
from explorer.search.side_by_side import begun_afresh, side_by_side, turn
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import Job, Workload

JOB = Job(global_batch=16, precision="fp16", optimizer="adam")
Make = Callable[..., Problem]
Add = Callable[..., None]


@pytest.fixture
def problem(decoder: Callable[..., LayerGraph]) -> Make:
    def make(**changes: Any) -> Problem:
        given: dict[str, Any] = {
            "graph": decoder(6), "cluster": load_cluster("dgx-1-v100"), "workload": Workload(jobs=(JOB,)),
            "max_devices": 4, **changes,
        }  # fmt: skip
        return Problem(**given)

    return make


@pytest.fixture
def searcher() -> Iterator[Add]:
    """`searcher(name, function, **facts)` registers one for the test."""
    names = []

    def add(name: str, function: Callable[..., Any], **facts: Any) -> None:
        SEARCHERS.names()
        SEARCHERS.add(Searcher(name=name, title=name, space=Space(words="pipelines"), **facts))(function)
        names.append(name)

    yield add
    for name in names:
        SEARCHERS._entries.pop(name, None)


def pipelines(problem: Problem, evaluator: Evaluator) -> Iterator[Any]:
    """Pipelines of ever fewer stages."""
    for stages in (4, 3, 2, 1):
        found = uniform(problem.graph, problem.needed_cluster, problem.job, stages=stages, microbatches=4)
        yield evaluator.evaluate(found, f"{stages} stages")


def endless(problem: Problem, evaluator: Evaluator) -> Iterator[Any]:
    """Finds one pipeline, then goes on for ever."""
    yield from pipelines(problem, evaluator)
    while True:
        yield None


def refusing(problem: Problem, evaluator: Evaluator) -> Iterator[Any]:
    """Takes no graph at all."""
    yield None
    raise InputError("9 nodes of the model\nhave no series-parallel form", key="model", allowed="others")


def ended(*arguments: Any, **named: Any) -> tuple[Comparison, dict[str, Contestant]]:
    *_, last = side_by_side(*arguments, **named)
    return last, {item.name: item for item in last.contestants}


def test_each_is_asked_with_a_budget_of_its_own(problem: Make, searcher: Add) -> None:
    searcher("pipelines", pipelines)
    searcher("again", pipelines)
    given = problem()
    states = list(side_by_side(given, ["pipelines", "again"], max_evaluations=3))
    assert [item.state for item in states[0].contestants[1:]] == [WAITING, WAITING]
    assert any(s.contestants[1].state == RUNNING and s.contestants[2].state == WAITING for s in states)
    last = states[-1]
    first, second = last.contestants[1:]
    assert first.state == second.state == TIMED, "both had three evaluations, not one and a half"
    assert (first.evaluations, second.evaluations) == (3, 3)
    assert first.value == second.value
    assert [mark[::2] for mark in first.curve] == [mark[::2] for mark in second.curve]


def test_curves_are_the_best_so_far(problem: Make, searcher: Add) -> None:
    searcher("pipelines", pipelines)
    given = problem()
    _, found = ended(given, ["pipelines"])
    values = [
        simulate(given.graph, given.needed_cluster, given.workload,
                 uniform(given.graph, given.needed_cluster, JOB, stages=s, microbatches=4)).step_time_s
        for s in (4, 3, 2, 1)
    ]  # fmt: skip
    best = [
        (count, value)
        for count, value in enumerate(values, 1)
        if value < min(values[: count - 1], default=math.inf)
    ]
    curve = found["pipelines"].curve
    assert [(mark.evaluations, mark.value) for mark in curve] == best
    assert all(a.seconds <= b.seconds for a, b in pairwise(curve))
    assert found["pipelines"].state == ENDED
    assert found["pipelines"].value == min(values)


@pytest.mark.parametrize("name", ["even", "megatron", "local"])
def test_nobody_gains_by_who_came_before(name: str, problem: Make) -> None:
    _, found = ended(problem(), ["exhaustive", name], max_evaluations=6)
    *_, alone = search(problem(), name, max_evaluations=6)
    assert alone.best is not None
    assert found[name].best is not None
    assert found[name].best.strategy == alone.best.strategy
    assert found[name].evaluations == alone.evaluations
    given = problem()
    given.graph.memo("test", lambda: 1)
    assert not begun_afresh(given, name).graph._memo


def test_yours_takes_part_as_it_is(problem: Make, searcher: Add) -> None:
    searcher("pipelines", pipelines)
    searcher("continuing", _continuing, starts=True)
    given = problem()
    own = uniform(given.graph, given.needed_cluster, JOB, stages=2, replicas=2)
    last, found = ended(problem(start=own), ["pipelines", "continuing"])
    report = simulate(given.graph, given.needed_cluster, given.workload, own)
    assert last.contestants[0] is found[YOURS]
    assert found[YOURS].value == report.step_time_s
    assert found[YOURS].curve == (Mark(1, 0.0, report.step_time_s),)
    assert found["pipelines"].curve[0].evaluations == 1
    assert found["pipelines"].best is not None
    assert "stages" in found["pipelines"].best.label, "it was not given your plan"
    assert found["continuing"].best is not None
    assert found["continuing"].best.strategy == own


def _continuing(problem: Problem, evaluator: Evaluator) -> Iterator[Any]:
    """Has nothing of its own."""
    del problem, evaluator
    yield None


def test_without_a_plan_of_yours_the_rule_of_thumb_takes_part(problem: Make) -> None:
    _, found = ended(problem(), ["even"])
    assert list(found) == [RULE, "even"]
    assert found[RULE].best is not None
    pinned = problem(pins=(("embed", 0),))
    _, found = ended(pinned, ["even"])
    assert found[RULE].state == UNABLE
    assert "pins" in found[RULE].reason


def test_your_plan_may_not_fit_or_not_be_of_this_model(problem: Make, decoder: Any) -> None:
    given = problem()
    own = uniform(given.graph, given.needed_cluster, JOB, stages=2)
    _, found = ended(problem(start=own, memory_limit_bytes=1e6), ["even"])
    assert found[YOURS].best is None
    assert found[YOURS].reason.startswith("does not fit: it lacks ")
    _, found = ended(problem(start=own, pins=(("embed", 3),)), ["even"])
    assert found[YOURS].best is not None
    assert found[YOURS].reason == "it breaks pins or bans"
    other = uniform(decoder(2), given.needed_cluster, JOB, stages=2)
    _, found = ended(problem(start=other), ["even"])
    assert found[YOURS].state == UNABLE
    assert found[YOURS].reason
    assert found["even"].best is not None, "the others are asked all the same"


def test_who_cannot_do_it_says_so_in_one_line_and_the_others_go_on(problem: Make, searcher: Add) -> None:
    searcher("refusing", refusing)
    searcher("pipelines", pipelines)
    last, found = ended(problem(objective="cost"), ["tarnawski_linear", "refusing", "pipelines"])
    assert found["tarnawski_linear"].state == found["refusing"].state == UNABLE
    assert found["tarnawski_linear"].reason == (
        "objective: tarnawski_linear cannot search for cost (allowed: time)"
    )
    assert found["refusing"].reason == (
        "model: 9 nodes of the model have no series-parallel form (allowed: others)"
    )
    assert found["pipelines"].best is not None
    assert [item.best is None for item in last.ranked][-2:] == [True, True], "who has no plan comes last"
    assert last.best is not None


def test_nothing_that_fits_names_the_closest(problem: Make, searcher: Add) -> None:
    searcher("pipelines", pipelines)
    last, found = ended(problem(memory_limit_bytes=1e6), ["pipelines"])
    assert found["pipelines"].state == ENDED
    assert found["pipelines"].reason.startswith("nothing that fits in 4 evaluations; closest is ")
    assert "which lacks " in found["pipelines"].reason
    assert last.best is None


def test_whose_time_is_up_before_anything_is_costed_says_so(problem: Make, searcher: Add) -> None:
    def slow(given: Problem, evaluator: Evaluator) -> Iterator[None]:
        del given, evaluator
        while True:
            yield None

    searcher("slow", slow)
    *_, last = side_by_side(problem(), ["slow"], budget_s=1e-6)
    assert last.contestants[1].state == TIMED
    assert last.contestants[1].reason == "its time was up before it costed a plan"


def test_any_one_can_be_stopped(problem: Make, searcher: Add) -> None:
    searcher("endless", endless)
    searcher("pipelines", pipelines)
    stopped: set[str] = set()
    for now in side_by_side(problem(), ["endless", "pipelines"], wanted=lambda name: name not in stopped):
        if now.contestants[1].best is not None:
            stopped.add("endless")
    found = {item.name: item for item in now.contestants}
    assert found["endless"].state == STOPPED
    assert found["endless"].best is not None, "what it found stays"
    assert found["pipelines"].state == ENDED


def test_whoever_stops_asking_keeps_what_there_is(problem: Make, searcher: Add) -> None:
    searcher("endless", endless)
    searcher("pipelines", pipelines)
    steps = side_by_side(problem(), ["pipelines", "endless", "even"])
    for now in steps:
        if now.contestants[2].best is not None:
            break
    steps.close()
    left = {item.name: item for item in now.stopped().contestants}
    assert left["pipelines"].state == ENDED
    assert left["endless"].state == STOPPED
    assert left["endless"].best is not None
    assert left["even"].reason == "not asked: the comparison was stopped before"


def test_bounds_are_stated(problem: Make) -> None:
    last, found = ended(problem(), ["even"])
    assert last.auto_bound is None
    assert last.least is not None
    assert last.least_name == "work over peak"
    assert found["even"].value >= last.least
    last, found = ended(problem(), ["auto"], max_evaluations=8)
    assert last.auto_bound is not None
    bound, words = last.auto_bound
    assert last.least <= bound <= found["auto"].value
    assert words != "work over peak"


def test_a_value_of_another_cost_model_is_not_compared(problem: Make, searcher: Add) -> None:
    def foreign(problem: Problem, evaluator: Evaluator) -> Iterator[Any]:
        evaluator.foreign_value = 0.001
        yield None

    searcher("foreign", foreign)
    last, found = ended(problem(), ["foreign"])
    assert found["foreign"].best is None
    assert "cost model of its own" in found["foreign"].reason
    assert last.best is found[RULE]


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (["nobody"], {}, "nobody"),
        ([], {}, "no searcher is named"),
        (["even"], {"even": {"colour": "red"}}, "colour"),
        (["even"], {"megatron": {}}, "options of 'megatron', which is not asked"),
    ],
)
def test_wrong_questions_are_refused_before_anyone_is_asked(
    names: list[str], options: dict[str, Any], words: str, problem: Make
) -> None:
    with pytest.raises(InputError, match=words):
        next(iter(side_by_side(problem(), names, options=options)))


def test_a_cluster_is_needed(problem: Make) -> None:
    with pytest.raises(InputError, match="needs a cluster"):
        next(iter(side_by_side(problem(cluster=None, max_devices=0), ["even"])))


def test_who_continues_comes_late_and_auto_last() -> None:
    names = sorted(SEARCHERS.names(), key=turn)
    assert names[-1] == "auto"
    starts = [SEARCHERS.get(name).starts for name in names]
    assert starts == sorted(starts)
