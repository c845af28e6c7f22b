"""Searches are heard of while a step takes long, can be given up in it, and leave nothing half done."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.base import pacing
from explorer.base.checkpoints import Stopped, checkpoint, watched
from explorer.base.collector import uncollected
from explorer.base.pacing import NOT_YET, paced
from explorer.graph import LayerGraph
from explorer.search import SEARCHERS, Evaluator, Problem, search

NAMES = SEARCHERS.names()
Build = Callable[..., LayerGraph]


def until(true: Callable[[], bool]) -> None:
    """Wait for another thread, for as long as that takes."""
    while not true():
        time.sleep(0.001)


class Slow:
    """Steps of which one takes until it is let go, passing checkpoints meanwhile."""

    def __init__(self) -> None:
        self.let_go, self.passed, self.closed = False, 0, False

    def steps(self) -> Iterator[str]:
        try:
            yield "first"
            while not self.let_go:
                self.passed += 1
                checkpoint()
                time.sleep(0.0005)
            yield "second"
        finally:
            self.closed = True


def test_a_long_step_is_heard_of_until_it_is_done() -> None:
    slow = Slow()
    found: list[Any] = []
    for item in paced(slow.steps(), 0.002):
        found.append(item)
        slow.let_go = found.count(NOT_YET) >= 3
    assert [item for item in found if item is not NOT_YET] == ["first", "second"]
    assert found.count(NOT_YET) >= 3
    assert slow.closed


def test_nothing_is_computed_while_nobody_asks() -> None:
    slow = Slow()
    steps = paced(slow.steps(), 0.01)
    assert next(item for item in steps if item is not NOT_YET) == "first"
    assert next(steps) is NOT_YET
    before = slow.passed
    time.sleep(0.02)
    assert slow.passed <= before + 1, "it is held at its next checkpoint"
    slow.let_go = True
    assert [item for item in steps if item is not NOT_YET] == ["second"]


def test_who_is_held_hands_the_cycle_collector_back() -> None:
    slow = Slow()
    inside: list[bool] = []

    def steps() -> Iterator[str]:
        with uncollected():
            yield from slow.steps()
            inside.append(gc.isenabled())

    paced_steps = paced(steps(), 0.01)
    assert next(item for item in paced_steps if item is not NOT_YET) == "first"
    assert next(paced_steps) is NOT_YET
    until(gc.isenabled)
    slow.let_go = True
    assert [item for item in paced_steps if item is not NOT_YET] == ["second"]
    assert inside == [False], "while it works the collector is off"
    assert gc.isenabled()


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_who_gives_up_ends_the_thread(asked: int) -> None:
    """Before the first step, after it, and in the middle of the second."""
    slow, before = Slow(), threading.active_count()
    steps = paced(slow.steps(), 0.002)
    if asked:
        assert next(item for item in steps if item is not NOT_YET) == "first"
    if asked > 1:
        assert next(steps) is NOT_YET
    steps.close()  # type: ignore[attr-defined]
    until(lambda: threading.active_count() == before)
    assert slow.closed == (asked > 0)


def test_who_gives_up_just_as_a_step_is_done_ends_the_thread() -> None:
    """The thread has looked whether it was stopped, was not, and hands the step over to nobody."""
    closed, handing_over = threading.Event(), threading.Event()

    def steps() -> Iterator[str]:
        try:
            yield "first"
            yield "second"
        finally:
            closed.set()

    class Late:
        """A lock that is released once the worker was stopped."""

        def __init__(self, lock: threading.Lock) -> None:
            self.acquire, self.lock = lock.acquire, lock

        def release(self) -> None:
            handing_over.set()
            until(lambda: worker._stopped)
            self.lock.release()

    before = threading.active_count()
    worker: pacing._Worker[str] = pacing._Worker(steps())  # type: ignore[arg-type]
    worker._done = Late(worker._done)  # type: ignore[assignment]
    assert worker.start()
    assert worker.ask(1e-3) is NOT_YET
    assert handing_over.wait(10.0)
    worker.stop()
    until(lambda: threading.active_count() == before)
    assert closed.is_set()


def test_errors_come_where_the_step_was_asked_for() -> None:
    def steps() -> Iterator[int]:
        yield 1
        raise ValueError("two is none")

    found = paced(steps())
    assert next(found) == 1
    with pytest.raises(ValueError, match="two is none"):
        next(found)


def test_without_threads_steps_take_as_long_as_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert list(paced(iter(range(3)), 0.0)) == [0, 1, 2]


@pytest.fixture
def problem(decoder: Build) -> Problem:
    graph = decoder(6)
    workload = explorer.default_workload(graph).with_job(global_batch=32)
    cluster = explorer.load_cluster("dgx-1-v100")
    return Problem(graph=graph, cluster=cluster, workload=workload, max_devices=4)


def course(found: Iterator[Any]) -> list[tuple[Any, ...]]:
    return [
        (item.evaluations, item.best and item.best.label, item.best and item.best.value, item.lower_bound)
        for item in found
        if not item.waiting
    ]


@pytest.mark.parametrize("name", NAMES)
def test_pauses_change_nothing(name: str, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of no time at all: every step is waited for, unless who waits is held up for longer itself.

    So that this is rare, whatever the machine's scheduler does, the first checkpoints take some milliseconds.
    """
    check, naps = pacing._Worker._check, iter([2e-3] * 5)

    def slow(worker: pacing._Worker[Any]) -> None:
        time.sleep(next(naps, 0.0))
        check(worker)

    monkeypatch.setattr(pacing._Worker, "_check", slow)
    monkeypatch.setattr(pacing, "PAUSE_S", 1e-5)
    for _ in range(20):
        heard = list(search(problem, name, max_evaluations=10))
        if any(item.waiting for item in heard):
            break
    else:
        pytest.fail("no step of twenty searches was waited for")
    assert all(item.new is None for item in heard if item.waiting)
    walls = [item.wall_s for item in heard]
    assert walls == sorted(walls)
    monkeypatch.setattr(pacing, "PAUSE_S", 1e3)
    assert course(iter(heard)) == course(search(problem, name, max_evaluations=10))


@pytest.mark.parametrize("name", NAMES)
def test_a_stopped_search_leaves_whole_caches(name: str, decoder: Build) -> None:
    """Stopped at a checkpoint in the middle, again and again; then it finds what it finds undisturbed."""

    def problem() -> Problem:
        graph = decoder(5)  # with caches of its own
        workload = explorer.default_workload(graph).with_job(global_batch=16)
        cluster = explorer.load_cluster("dgx-1-v100")
        return Problem(graph=graph, cluster=cluster, workload=workload, max_devices=4)

    def tried(given: Problem) -> list[tuple[str, float]]:
        searcher, evaluator = SEARCHERS.get(name), Evaluator(problem=given, max_evaluations=8)
        steps = searcher.function(given, evaluator, **searcher.read_options({}))
        return [(item.label, item.value) for item in steps if item is not None]

    passed = count()
    with watched(lambda: next(passed) and None):
        expected = tried(problem())
    most = next(passed)
    assert most > 20
    disturbed = problem()
    for at in range(0, most, max(1, most // 12)):
        numbers = count()

        def asked(numbers: Iterator[int] = numbers, at: int = at) -> None:
            if next(numbers) >= at:
                raise Stopped

        with suppress(Stopped), watched(asked):  # in the end caches may know too much to come so far
            tried(disturbed)
    assert tried(disturbed) == expected


ENDS_LATE = """
import sys, time
from pathlib import Path
from explorer.base.pacing import paced

begun = False

def steps():
    global begun
    begun = True
    time.sleep(1.0)  # no checkpoint: as long as a call into a library takes
    Path(sys.argv[1]).write_text("done", encoding="utf-8")
    yield

asked = paced(steps(), 0.001)
while not begun:
    next(asked)
asked.close()
"""
"""A program that gives a step up and ends while the step's thread is still at work."""


def test_a_program_ends_after_the_threads_of_steps_given_up(tmp_path: Path) -> None:
    # Torch aborts a process whose interpreter ends while one of its threads computes.
    done = tmp_path / "done"
    subprocess.run([sys.executable, "-c", ENDS_LATE, str(done)], check=True)
    assert done.exists()
