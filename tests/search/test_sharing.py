"""A search that processes share: together they search the whole space, whoever fails."""

from __future__ import annotations

import logging
import math
import pickle
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import replace
from typing import Any

import pytest

import explorer
from explorer.graph import LayerGraph
from explorer.search import FRONTIER_OF, SEARCHERS, Evaluator, Problem, Progress, _sharing, search
from explorer.search._branch_and_bound import BOUND, BranchAndBound
from explorer.search._closed_blocks import closed_blocks
from explorer.search._other_searchers import PLANNERS, other_parts
from explorer.search._partner import Partner, take_turn
from explorer.search._shares import WHOLE, Share, StillOpen, joined

Build = Callable[..., LayerGraph]


@pytest.fixture
def problem(decoder: Build) -> Problem:
    graph = decoder(4)
    cluster = explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=8)
    return Problem(graph=graph, cluster=cluster, workload=workload, max_devices=4)


class Beside(Executor):
    """A partner that has its turns in this process, at once; what goes to it and comes back is pickled."""

    def __init__(self, problem: Problem, share: Share, *, turns: float = math.inf) -> None:
        self.partner, self.turns, self.sent = Partner(problem, share), turns, list[bytes]()

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        assert function is take_turn
        if self.turns == 0:
            raise BrokenExecutor("a child process terminated abruptly\nand more")
        self.turns -= 1
        _, best, seconds = pickle.loads(pickle.dumps(arguments))
        self.sent.append(pickle.dumps(self.partner.take_turn(best, seconds)))
        job: Future[Any] = Future()
        job.set_result(pickle.loads(self.sent[-1]))
        return job


class Silent(Executor):
    """Never answers."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        return Future()


def found_with(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, make: Callable[[str, Problem, Share], Executor]
) -> Progress:
    """Where a search ends whose partners are these."""
    monkeypatch.setattr(_sharing, "_process", make)
    *_, last = search(problem, jobs=3)
    return last


@pytest.mark.parametrize("total", [2, 3, 5])
def test_shares_have_nothing_in_common_and_are_the_whole(problem: Problem, total: int) -> None:
    whole = closed_blocks(problem)
    shares = [closed_blocks(problem, Share(number, total)) for number in range(total)]
    assert sorted(item[:4] for item in whole) == sorted(item[:4] for share in shares for item in share)
    assert max(map(len, shares)) < len(whole)
    evaluator = Evaluator(problem=problem)
    names = [part.name for n in range(total) for part in other_parts(problem, evaluator, Share(n, total))]
    assert sorted(names) == sorted(part.name for part in other_parts(problem, evaluator, WHOLE))
    others = [item.name for item in SEARCHERS if not item.alone and item.name != "auto"]
    assert sorted(names) == sorted([*others, PLANNERS]), "each once, and one for all that are asked together"


def test_branch_and_bound_of_all_shares_is_that_of_the_whole(problem: Problem) -> None:
    def proven(share: Share) -> tuple[float, float]:
        evaluator = Evaluator(problem=problem)
        searching = BranchAndBound(problem, evaluator, share)
        for _ in searching.run():
            pass
        assert searching.done
        assert searching.still_open().done
        assert evaluator.best is not None
        return evaluator.best.value, searching.lower_bound

    shares = [proven(Share(number, 3)) for number in range(3)]
    assert proven(WHOLE) == (min(best for best, _ in shares), min(bound for _, bound in shares))


@pytest.mark.parametrize("turns", [math.inf, 0, 1])
def test_a_search_that_is_shared_ends_as_one_that_is_not(
    problem: Problem, turns: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    *_, alone = search(problem)
    last = found_with(monkeypatch, problem, lambda _, problem, share: Beside(problem, share, turns=turns))
    assert last.best is not None
    assert alone.best is not None
    assert last.best.value == alone.best.value
    assert last.lower_bound == alone.lower_bound
    assert last.gap == alone.gap == 0
    assert last.best.report.step_time_s == last.best.outcome.step_time_s
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == (0 if math.isinf(turns) else 2)
    assert all("\n" not in line for line in lines)


def test_who_never_answers_is_not_waited_for(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    last = found_with(monkeypatch, problem, lambda *_: Silent())
    assert last.gap == 0
    assert not caplog.records


def test_only_strategies_outcomes_and_bounds_travel(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Beside] = []

    def make(_key: str, problem: Problem, share: Share) -> Executor:
        made.append(Beside(problem, share))
        return made[-1]

    last = found_with(monkeypatch, problem, make)
    sent = [pickle.loads(item) for partner in made for item in partner.sent]
    assert last.evaluations > sum(partner.partner._evaluator.evaluations for partner in made) > 0
    assert sum(len(told.found) for told in sent) > 0
    assert all(b"Report" not in item for partner in made for item in partner.sent)
    assert max(len(item) for partner in made for item in partner.sent) < 20_000
    for partner in made:
        told = [found.strategy for item in partner.sent for found in pickle.loads(item).found]
        assert len(told) == len(set(told)), "what a partner told it does not tell again"


def test_a_process_shares_a_search(problem: Problem) -> None:
    # of 8 samples stages cut unevenly are best, and which of these small changes reach is a matter of timing
    problem = replace(problem, workload=problem.workload.with_job(global_batch=32))
    *_, alone = search(problem)
    *_, last = search(problem, budget_s=60.0, jobs=2)
    assert last.best is not None
    assert alone.best is not None
    assert last.best.value == alone.best.value
    assert last.gap == 0


def test_the_true_frontier_is_found_by_shares_too(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Problem(
        graph=problem.graph, cluster=problem.cluster, workload=problem.workload, max_devices=2,
        objective="frontier", schedule="1f1b",
    )  # fmt: skip
    *_, alone = search(asked)
    last = found_with(monkeypatch, asked, lambda _, problem, share: Beside(problem, share))
    assert [item.outcome.point for item in last.frontier] == [item.outcome.point for item in alone.frontier]
    assert last.details[FRONTIER_OF] == alone.details[FRONTIER_OF] == BOUND


def test_what_is_still_open_is_the_least_of_all() -> None:
    parts = [
        StillOpen(least={"a": 2.0, "b": 1.0}, done=False), StillOpen(least={"a": 1.5}, done=True),
    ]  # fmt: skip
    assert joined(parts) == StillOpen(least={"a": 1.5, "b": 1.0}, done=False)
    assert joined([StillOpen(done=True)]) == StillOpen(done=True)
