"""The critical path: a chain without holes from time 0 to the last end, whatever decided it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import ExplorerError
from explorer.passes import run_events, run_static
from explorer.passes.critical_path import PARTS, REASONS, CriticalPath, critical_path
from explorer.passes.timing import Timing
from explorer.simulation.report import Report
from explorer.tasks.program import JOIN, REDUCE, TRANSFER, Program
from tests.random_plans import Case, even_cases, pipeline, uneven_cases


def path_of(report: Report, timing: Timing | None = None) -> CriticalPath:
    line = report.timeline
    prices = line.prices
    return critical_path(line.program, timing or line.timing, prices.seconds, prices.comm_s)


def check(program: Program, timing: Timing, path: CriticalPath) -> None:
    """Consecutive, without a hole that is not named, as long as the last end."""
    start, end = timing.start_s[path.tasks], timing.end_s[path.tasks]
    length = float(timing.end_s[program.kind != JOIN].max())
    assert path.length_s == length
    assert sum(path.parts_s.values()) == pytest.approx(length, rel=1e-9, abs=1e-12)
    assert set(path.parts_s) == set(PARTS)
    assert min(path.parts_s.values()) >= 0
    before = np.concatenate(([0.0], end[:-1]))
    assert start == pytest.approx(before + path.wait_s, rel=1e-9, abs=1e-9 * max(length, 1.0))
    assert not path.wait_s.any(), "both passes start a task when its last predecessor ends"
    for a, b in pairwise(path.tasks.tolist()):
        assert a in ancestors(program, b), "the one before is what it waited for"
    assert not (program.kind[path.tasks] == JOIN).any()
    assert path.reason[0] == "start"
    assert set(path.reason[1:]) <= set(REASONS[1:])


def ancestors(program: Program, task: int) -> set[int]:
    """Predecessors of a task, those behind joins included."""
    found, ahead = set(), [task]
    while ahead:
        current = ahead.pop()
        for number in (program.first[current], program.second[current]):
            if number and program.kind[number - 1] == JOIN:
                ahead.append(number - 1)
            elif number:
                found.add(number - 1)
    return found


@settings(max_examples=60, deadline=None)
@given(case=st.one_of(even_cases("1f1b"), even_cases("gpipe"), uneven_cases()))
def test_any_plan_in_both_passes(case: Case) -> None:
    try:
        report = explorer.simulate(*case)
    except ExplorerError:
        return
    program, prices = report.timeline.program, report.timeline.prices
    for timing in (
        run_static(program, prices.seconds),
        run_events(program, prices.seconds, prices.shares),
    ):
        check(program, timing, path_of(report, timing))


def test_the_slowest_stage_is_the_path() -> None:
    """F and B of 1 s but 3 s on stage 1: in, all its work, out."""
    report = explorer.simulate(*pipeline([1.0, 3.0, 1.0], [1.0, 3.0, 1.0], microbatches=5))
    program = report.timeline.program
    first = np.flatnonzero(program.step == 0)
    path = critical_path(
        program, report.timeline.timing, report.timeline.prices.seconds, report.timeline.prices.comm_s, first
    )
    lanes = program.lane[path.tasks[program.kind[path.tasks] < TRANSFER]].tolist()
    assert lanes[0] == 0
    assert lanes[-1] == 0
    assert path.length_s == pytest.approx(report.makespan_s)
    busiest = sum(program.kind[t] < TRANSFER and program.lane[t] == 1 for t in path.tasks.tolist())
    assert busiest >= 8, "nearly all of the ten tasks of stage 1"


def test_wires_and_reductions_are_named() -> None:
    case = pipeline(
        [1.0] * 3,
        [1.0] * 3,
        microbatches=3,
        replicas=2,
        parameter_bytes=50.0,
        bandwidth=10.0,
        optimizer="sgd",
    )
    report = explorer.simulate(*case)
    path = path_of(report)
    program = report.timeline.program
    for kind, name in ((TRANSFER, "transfer"), (REDUCE, "reduce")):
        own = path.tasks[program.kind[path.tasks] == kind]
        spent = float((report.timeline.timing.end_s - report.timeline.timing.start_s)[own].sum())
        assert path.parts_s[name] == pytest.approx(spent)
    assert path.parts_s["reduce"] > 0


def test_time_lost_to_shared_links_is_contention() -> None:
    """The same tasks at half speed: what they need unhindered stays theirs, the rest is contention."""
    report = explorer.simulate(*pipeline([1.0, 1.0], [1.0, 1.0], microbatches=2))
    program, prices = report.timeline.program, report.timeline.prices
    timing = run_static(program, prices.seconds)
    slow = Timing(start_s=timing.start_s * 2, end_s=timing.end_s * 2, pass_name="events")
    fast, path = path_of(report, timing), path_of(report, slow)
    assert path.length_s == pytest.approx(2 * fast.length_s)
    assert path.parts_s["contention"] == pytest.approx(fast.length_s)
    assert path.parts_s["F"] == pytest.approx(fast.parts_s["F"])


def test_a_late_start_is_a_wait() -> None:
    """As a dispatch policy may leave it: everything a second later than it could be."""
    report = explorer.simulate(*pipeline([1.0], [1.0], microbatches=1))
    timing = run_static(report.timeline.program, report.timeline.prices.seconds)
    late = Timing(start_s=timing.start_s + 1.0, end_s=timing.end_s + 1.0, pass_name="events")
    path = path_of(report, late)
    assert path.parts_s["wait"] == pytest.approx(1.0)
    assert path.wait_s[0] == pytest.approx(1.0)


def test_nothing_has_an_empty_path() -> None:
    report = explorer.simulate(*pipeline([1.0], [1.0], microbatches=1))
    none = np.zeros(0, dtype=np.int64)
    line = report.timeline
    path = critical_path(line.program, line.timing, line.prices.seconds, line.prices.comm_s, none)
    assert path.length_s == 0
    assert not len(path.tasks)
    assert sum(path.parts_s.values()) == 0
