"""Other processes cost strategies ahead: what is found stays the same, whoever costs and whatever fails."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

import explorer
from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.search import SEARCHERS, Candidate, Evaluator, Problem, search
from explorer.search import _jobs as jobs_module
from explorer.search._jobs import Cancellable, Jobs, jobs_of
from explorer.search._outcomes import outcome_of
from explorer.search.evaluator import FAILURE
from explorer.strategy import Strategy

Build = Callable[..., LayerGraph]


@pytest.fixture
def problem(decoder: Build) -> Problem:
    graph = decoder(6)
    cluster = explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=32)
    return Problem(graph=graph, cluster=cluster, workload=workload)


def strategies(problem: Problem) -> Iterator[tuple[Strategy, str]]:
    """Twenty plans, three of which cannot be simulated."""
    for stages in (1, 2, 3, 6):
        for microbatches in (1, 2, 4, 8, 16):
            strategy = explorer.uniform(
                problem.graph, problem.needed_cluster, problem.job, stages=stages, microbatches=microbatches
            )
            if stages == 3 and microbatches > 2:
                strategy = strategy.with_job(strategy.job.with_stages(strategy.job.stages[:-1]))
            yield strategy, f"{stages} x {microbatches}"


def judged(problem: Problem, jobs: Jobs | None, *, most: int = 0) -> tuple[list[Any], Evaluator]:
    """What `evaluate_all` finds, as values that compare."""
    evaluator = Evaluator(problem=problem, jobs=jobs, max_evaluations=most)
    found = [
        (item.label, item.outcome) if isinstance(item, Candidate) else evaluator.miss
        for item in evaluator.evaluate_all(strategies(problem))
    ]
    return found, evaluator


class Inline(Executor):
    """Runs what it is given at once, in what passes for another process, and keeps a record of it."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        self.sent.append(arguments)
        job: Future[Any] = Future()
        job.set_result(pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps(arguments))))))
        return job


class Failing(Inline):
    """Fails when it is given the `after`th strategy, in one of several ways."""

    def __init__(self, after: int, way: str) -> None:
        super().__init__()
        self.after, self.way = after, way

    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        if len(self.sent) < self.after:
            return super().submit(function, *arguments, **more)
        if self.way == "submit":
            raise BrokenExecutor("a child process terminated abruptly\nand more")
        job: Future[Any] = Future()
        if self.way == "silence":
            return job
        if self.way == "cancel":
            job.cancel()
            job.set_running_or_notify_cancel()
        else:
            job.set_exception(RuntimeError("the connection was lost"))
        return job


@pytest.mark.parametrize("most", [0, 7])
def test_an_executor_changes_nothing(problem: Problem, most: int) -> None:
    alone, here = judged(problem, None, most=most)
    executor = Inline()
    together, there = judged(problem, Jobs(problem, executor), most=most)
    assert together == alone
    assert len(alone) == (most or 20)
    assert (here.evaluations, here.failed) == (there.evaluations, there.failed)
    assert here.best is not None
    assert there.best is not None
    assert there.best.strategy == here.best.strategy
    assert there.best.report.step_time_s == here.best.report.step_time_s
    assert [item.label for item in there.frontier] == [item.label for item in here.frontier]


def test_only_strategies_and_outcomes_travel(problem: Problem) -> None:
    executor = Inline()
    jobs_module._problems.cache_clear()
    judged(problem, Jobs(problem, executor))
    with_problem = [arguments for arguments in executor.sent if arguments[2] is not None]
    assert 1 <= len(with_problem) <= jobs_module.AHEAD * 8, "what came back unknown is sent once more"
    assert len(executor.sent) <= 20 + len(with_problem)
    outcome = outcome_of(problem, explorer.simulate(
        problem.graph, problem.needed_cluster, problem.workload, next(strategies(problem))[0]
    ))  # fmt: skip
    assert len(pickle.dumps(outcome)) < 500
    again = Inline()
    judged(problem, jobs := Jobs(problem, again))
    jobs.close()
    more = len(again.sent)
    jobs_again = Jobs(problem, again)
    jobs_again._key = jobs._key  # a second search of the same problem in the same processes
    judged(problem, jobs_again)
    assert all(arguments[2] is None for arguments in again.sent[more:])


@pytest.mark.parametrize("way", ["submit", "result", "cancel", "silence"])
@pytest.mark.parametrize("after", [0, 5])
def test_an_executor_that_fails_is_said_in_one_line(
    problem: Problem, way: str, after: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "PATIENCE_S", 0.01)
    alone, _ = judged(problem, None)
    jobs_module._problems.cache_clear()
    with caplog.at_level(logging.WARNING):
        found, evaluator = judged(problem, Jobs(problem, Failing(after, way)))
    assert found == alone, "the search goes on in this process"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert lines[0].startswith("the executor failed (")
    assert evaluator.details[FAILURE] in lines[0]


class Waited(Future[Any]):
    """A job that is never done, and keeps a record of how long it was waited for."""

    def __init__(self, waits: list[float | None]) -> None:
        super().__init__()
        self.waits = waits

    def result(self, timeout: float | None = None) -> Any:
        self.waits.append(timeout)
        return super().result(timeout)


def test_who_does_not_answer_holds_a_search_up_for_a_moment_only(
    problem: Problem, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that vanished without a word: its cluster may get another one, and is asked on."""

    class Silent(Inline):
        def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
            if 5 <= len(self.sent) < 12:
                self.sent.append(arguments)
                return Waited(waits)
            return super().submit(function, *arguments, **more)

    waits: list[float | None] = []
    alone, _ = judged(problem, None)
    jobs_module._problems.cache_clear()
    executor = Silent()
    assert judged(problem, jobs := Jobs(problem, executor))[0] == alone
    assert waits
    assert all(wait == jobs_module.WAIT_S for wait in waits)
    assert len(executor.sent) > 12
    assert not jobs.failure
    assert not caplog.records


def test_threads_agree_with_one(problem: Problem) -> None:
    alone, _ = judged(problem, None)
    with ThreadPoolExecutor(3) as pool:
        assert judged(problem, Jobs(problem, pool))[0] == alone


def test_processes_agree_with_one(problem: Problem) -> None:
    alone, _ = judged(problem, None)
    with jobs_of(problem, 2, None) as jobs:
        assert judged(problem, jobs)[0] == alone
        assert jobs is not None
        assert not jobs.failure


def test_a_process_that_dies_is_said(problem: Problem, caplog: pytest.LogCaptureFixture) -> None:
    alone, _ = judged(problem, None)
    with jobs_of(problem, 2, None) as jobs:
        assert jobs is not None
        jobs.ask([next(strategies(problem))[0]])
        for process in jobs._executor._processes.values():  # type: ignore[attr-defined]
            process.kill()
        assert judged(problem, jobs)[0] == alone
    assert len(caplog.records) == 1


@pytest.mark.parametrize("searcher", sorted(item.name for item in SEARCHERS))
def test_every_searcher_finds_the_same_by_any_number_of_processes(problem: Problem, searcher: str) -> None:
    def course(executor: Executor | None) -> list[tuple[Any, ...]]:
        return [
            (item.evaluations, item.best and item.best.label, item.best and item.best.value, item.lower_bound)
            for item in search(problem, searcher, max_evaluations=12, executor=executor)
            if not item.waiting
        ]

    assert course(Inline()) == course(None)


@pytest.mark.parametrize("jobs", [0, -1, 10_000])
def test_a_number_of_processes_that_cannot_be_is_refused(problem: Problem, jobs: int) -> None:
    with pytest.raises(InputError, match="processes"):
        next(search(problem, jobs=jobs))


def test_an_executor_and_processes_are_refused(problem: Problem) -> None:
    with pytest.raises(InputError, match="and an executor"):
        next(search(problem, jobs=2, executor=Inline()))


def test_a_cluster_of_dask(problem: Problem) -> None:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    alone, _ = judged(problem, None)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        jobs = Jobs(problem, client.get_executor())
        assert judged(problem, jobs)[0] == alone
        assert not jobs.failure
        cluster.scale(0)
        assert judged(problem, Jobs(problem, client.get_executor()))[0] == alone


def test_a_process_may_die_after_its_work_was_cancelled() -> None:
    job = Cancellable()
    job.cancel()
    job.set_exception(RuntimeError("the process died"))  # what the pool does to all that wait
    assert job.cancelled()


def test_a_process_of_ones_own_that_does_not_answer_is_not_waited_for(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has begun, so that nobody can take its work away, and is stopped: this process costs the same."""
    monkeypatch.setattr(jobs_module, "OWN_PATIENCE_S", 0.0)
    monkeypatch.setattr(jobs_module, "LOOK_S", 0.001)
    alone, _ = judged(problem, None)
    with jobs_of(problem, 2, None) as jobs:
        assert jobs is not None

        def begun(_strategy: Strategy, _asked: Any) -> Future[Any]:
            job = Cancellable()
            job.set_running_or_notify_cancel()
            return job

        monkeypatch.setattr(jobs, "_submit", begun)
        assert judged(problem, jobs)[0] == alone
        assert not jobs.failure
