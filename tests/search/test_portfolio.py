"""Parts of a search take turns by what they use: seconds where seconds end it, evaluations elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

import explorer
from explorer.graph import LayerGraph
from explorer.search import Evaluator, Problem
from explorer.search._portfolio import Part, take_turns

Build = Callable[..., LayerGraph]


@pytest.fixture
def problem(decoder: Build) -> Problem:
    graph = decoder(2)
    workload = explorer.default_workload(graph)
    return Problem(graph=graph, cluster=explorer.load_cluster("dgx-1-v100"), workload=workload)


class Clock:
    """Seconds that parts spend, step by step, and evaluations that each of their steps makes."""

    def __init__(self, problem: Problem, *, seconds: bool) -> None:
        self.now = 0.0
        self.evaluator = Evaluator(problem=problem, meter=self.time if seconds else None)
        self.spent: dict[str, float] = {}

    def time(self) -> float:
        return self.now

    def part(self, name: str, share: float, step_s: float, evaluations: int = 0) -> Part:
        def steps() -> Iterator[None]:
            while True:
                self.now += step_s
                self.spent[name] = self.spent.get(name, 0.0) + step_s
                self.evaluator.evaluations += evaluations
                yield None

        return Part(name=name, steps=steps(), share=share)

    def run(self, parts: list[Part], seconds: float) -> dict[str, float]:
        """Shares of the seconds, by part."""
        for _ in take_turns(self.evaluator, parts, lambda: None):
            if self.now >= seconds:
                break
        return {name: spent / self.now for name, spent in self.spent.items()}


def test_shares_are_of_seconds_where_these_end_a_search(problem: Problem) -> None:
    """Whatever a step takes, and whether it evaluates anything; the first part has what is left."""
    clock = Clock(problem, seconds=True)
    parts = [clock.part("a", 0.0, 0.011), clock.part("b", 0.1, 0.3, 1), clock.part("c", 0.4, 0.005, 3)]
    shares = clock.run(parts, 100.0)
    assert shares == pytest.approx({"a": 0.5, "b": 0.1, "c": 0.4}, abs=0.01)


def test_long_steps_of_others_leave_the_first_part_its_seconds(problem: Problem) -> None:
    """Six others have a tenth each by right, and take more of a short search, step by step."""
    clock = Clock(problem, seconds=True)
    parts = [clock.part("first", 0.0, 0.01), *(clock.part(f"other {n}", 0.1, 2.0) for n in range(6))]
    shares = clock.run(parts, 15.0)
    assert shares["first"] == pytest.approx(0.4, abs=0.08)  # a step of another may be under way at the end
    assert len(shares) > 3


def test_else_shares_are_of_evaluations(problem: Problem) -> None:
    clock = Clock(problem, seconds=False)
    parts = [clock.part("a", 0.0, 1.0, 1), clock.part("b", 0.25, 1.0, 1)]
    assert clock.run(parts, 400.0) == pytest.approx({"a": 0.75, "b": 0.25}, abs=0.01)


def test_who_waits_takes_no_time_from_the_others(problem: Problem) -> None:
    """It is not even asked, and has its whole share once it has something to do."""
    clock = Clock(problem, seconds=True)
    waits = clock.part("waits", 0.5, 0.02)
    waits.ready = lambda: clock.now >= 10.0
    parts = [clock.part("works", 0.0, 0.02), waits]
    assert "waits" not in clock.run(parts, 10.0)
    assert clock.run(parts, 40.0)["waits"] == pytest.approx(0.5, abs=0.01)


def test_the_first_part_has_all_that_ended_parts_leave(problem: Problem) -> None:
    clock = Clock(problem, seconds=True)
    short = clock.part("short", 0.5, 0.02)
    short.steps = islice(short.steps, 10)
    shares = clock.run([clock.part("first", 0.0, 0.02), short], 100.0)
    assert shares["short"] == pytest.approx(0.002, rel=1e-3)


@pytest.mark.parametrize("seconds", [True, False])
def test_the_first_part_begins(problem: Problem, seconds: bool) -> None:
    clock = Clock(problem, seconds=seconds)
    parts = [clock.part("first", 0.0, 0.001, 1), clock.part("second", 0.9, 0.001, 1)]
    list(islice(take_turns(clock.evaluator, parts, lambda: None), 1))
    assert list(clock.spent) == ["first"]
