"""Shared rates: closed forms of tasks that slow each other down."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.compiling import forced
from explorer.base.errors import ExplorerError
from explorer.passes import Shares, Timing, is_overfull, overfull_resources, run_events, run_static
from explorer.passes.rates import Rates
from explorer.tasks.program import Program
from tests.random_plans import Case, even_cases, uneven_cases


@dataclass
class Tasks:
    """Tasks of one slot each."""

    first: np.ndarray
    second: np.ndarray
    channel: np.ndarray = field(init=False)
    slot: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.first, self.second = np.array(self.first, dtype=int), np.array(self.second, dtype=int)
        self.slot = np.arange(len(self.first))
        self.channel = np.arange(len(self.first))

    @property
    def size(self) -> int:
        return len(self.first)


def shares(capacity: list[float], *demands: tuple[tuple[int, float], ...]) -> Shares:
    names = tuple(f"r{i}" for i in range(len(capacity)))
    return Shares(capacity=np.array(capacity), names=names, demands=demands)


def ends(first: list[int], second: list[int], seconds: list[float], shared: Shares) -> list[float]:
    found: list[float] = run_events(Tasks(first, second), np.array(seconds), shared).end_s.tolist()
    return found


def test_two_that_ask_for_all_take_twice_as_long() -> None:
    shared = shares([1.0], ((0, 1.0),), ((0, 1.0),))
    assert ends([0, 0], [0, 0], [2.0, 2.0], shared) == pytest.approx([4.0, 4.0])
    # the shorter one ends at 2; then the other has 3 s of work left
    assert ends([0, 0], [0, 0], [1.0, 4.0], shared) == pytest.approx([2.0, 5.0])


def test_a_late_comer_slows_only_what_is_left() -> None:
    """Task 1 runs alone for 1 s, then shares with task 2: 2 s of work left at half speed."""
    shared = shares([1.0], (), ((0, 1.0),), ((0, 1.0),))
    assert ends([0, 0, 1], [0, 0, 0], [1.0, 3.0, 1.0], shared) == pytest.approx([1.0, 4.0, 3.0])


def test_the_fullest_resource_counts() -> None:
    shared = shares([1.0, 10.0], ((0, 1.0), (1, 6.0)), ((1, 6.0),), ((1, 8.0),))
    # resource 1 is asked for 20 of 10: all at half speed while all run
    assert ends([0, 0, 0], [0, 0, 0], [1.0, 1.0, 1.0], shared) == pytest.approx([2.0, 2.0, 2.0])


def test_what_fits_together_is_not_slowed() -> None:
    shared = shares([1.0], ((0, 0.4),), ((0, 0.6),))
    assert ends([0, 0], [0, 0], [3.0, 2.0], shared) == [3.0, 2.0]
    tasks = Tasks([0, 0], [0, 0])
    assert overfull_resources(tasks, run_static(tasks, np.ones(2)), shared) == []


def test_static_names_what_is_over_full() -> None:
    tasks = Tasks([0, 0, 1], [0, 0, 0])
    shared = shares([1.0, 1.0], ((0, 0.7),), ((0, 0.7), (1, 1.0)), ((1, 0.5),))
    timing = run_static(tasks, np.array([1.0, 1.0, 1.0]))
    assert overfull_resources(tasks, timing, shared) == ["r0"]  # r1's users follow each other


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[int], list[int], list[float], Shares]:
    count = draw(st.integers(1, 12))
    first = [draw(st.integers(0, i)) for i in range(count)]
    second = [draw(st.integers(0, i)) for i in range(count)]
    lengths = draw(st.lists(st.sampled_from([0.0, 0.3, 1.0, 2.0]), min_size=count, max_size=count))
    each = st.lists(st.tuples(st.integers(0, 2), st.floats(0.1, 1.0)), max_size=2, unique_by=lambda d: d[0])
    return first, second, lengths, shares([1.0, 1.5, 4.0], *(tuple(draw(each)) for _ in range(count)))


@settings(max_examples=150)
@given(found=networks())
def test_random_networks(found: tuple[list[int], list[int], list[float], Shares]) -> None:
    """Nothing is faster than alone, and no resource gives more than it has."""
    first, second, lengths, shared = found
    tasks, seconds = Tasks(first, second), np.array(lengths)
    static, events = run_static(tasks, seconds), run_events(tasks, seconds, shared)
    assert np.all(events.end_s >= static.end_s - 1e-9)
    if not overfull_resources(tasks, static, shared):
        assert events.end_s == pytest.approx(static.end_s, rel=1e-12, abs=1e-12)
    for resource, capacity in enumerate(shared.capacity):
        given_out = sum(
            amount * seconds[task]
            for task, demands in enumerate(shared.demands)
            for r, amount in demands
            if r == resource
        )
        assert given_out <= capacity * events.end_s.max() * (1 + 1e-9)


def by_rates(tasks: Tasks | Program, seconds: np.ndarray, shared: Shares) -> Timing:
    """The events pass over `Rates`, which numbers nothing before time runs."""
    pairs = [
        [number - 1 for number in pair if number] for pair in zip(tasks.first, tasks.second, strict=True)
    ]
    missing = [len(pair) for pair in pairs]
    start, end = np.zeros(tasks.size), np.zeros(tasks.size)
    rates = Rates(shared.capacity.tolist())

    def begin(task: int, now: float) -> None:
        start[task] = now
        rates.begin(task, float(seconds[tasks.slot[task]]), shared.demands[tasks.slot[task]], now)

    for task in np.flatnonzero(np.array(missing) == 0).tolist():
        begin(task, 0.0)
    while (found := rates.next_end()) is not None:
        now, task = found
        end[task] = now
        for after, pair in enumerate(pairs):
            missing[after] -= pair.count(task)
            if task in pair and not missing[after]:
                begin(after, now)
    return Timing(start_s=start, end_s=end, pass_name="events")


def check_both_ways(tasks: Tasks | Program, seconds: np.ndarray, shared: Shares) -> None:
    """Plain, compiled and `Rates` give the same timings and name the same over-full resources."""
    (static, wanting, events), compiled = both_ways(tasks, seconds, shared)
    assert_equal(static, compiled[0])
    assert wanting == compiled[1]
    assert_equal(events, compiled[2])
    assert_equal(events, by_rates(tasks, seconds, shared))


def both_ways(
    tasks: Tasks | Program, seconds: np.ndarray, shared: Shares
) -> list[tuple[Timing, list[str], Timing]]:
    """Timings of both passes and what is over-full in the static one, plainly and compiled."""
    found = []
    for compiled in (False, True):
        with forced(compiled=compiled):
            static = run_static(tasks, seconds)
            wanting = overfull_resources(tasks, static, shared)
            assert is_overfull(tasks, static, shared) == bool(wanting)
            found.append((static, wanting, run_events(tasks, seconds, shared)))
    return found


def assert_equal(one: Timing, other: Timing) -> None:
    """Equal bit for bit."""
    assert one.start_s.tobytes() == other.start_s.tobytes()
    assert one.end_s.tobytes() == other.end_s.tobytes()


@settings(max_examples=150, deadline=None)
@given(found=networks())
def test_plain_compiled_and_rates_agree(found: tuple[list[int], list[int], list[float], Shares]) -> None:
    first, second, lengths, shared = found
    tasks, seconds = Tasks(first, second), np.array(lengths)
    check_both_ways(tasks, seconds, shared)


@settings(max_examples=40, deadline=None)
@given(case=st.one_of(even_cases("1f1b"), even_cases("gpipe"), uneven_cases()))
def test_plain_and_compiled_agree_on_plans(case: Case) -> None:
    try:
        timeline = explorer.simulate(*case).timeline
    except ExplorerError:
        return
    check_both_ways(timeline.program, timeline.prices.seconds, timeline.prices.shares)


def test_a_resource_asked_for_twice_by_one_task() -> None:
    shared = shares([1.0], ((0, 0.5), (0, 0.7)), ((0, 0.6),))
    tasks = Tasks([0, 0, 1], [0, 0, 2])
    tasks.slot = np.array([0, 1, 0])
    check_both_ways(tasks, np.array([1.0, 0.5]), shared)


@st.composite
def channels(draw: st.DrawFn) -> tuple[Tasks, np.ndarray, Shares]:
    """Many channels that run their tasks one after the other, with ties, and share few resources."""
    count, width = draw(st.integers(1, 60)), draw(st.sampled_from([1, 2, 3, 20]))
    channel = np.array(draw(st.lists(st.integers(0, width - 1), min_size=count, max_size=count)))
    first, last = [], dict.fromkeys(range(width), 0)
    for task, on in enumerate(channel.tolist()):
        first.append(last[on])
        last[on] = task + 1
    second = [draw(st.integers(0, i)) for i in range(count)]
    tasks = Tasks(first, second)
    tasks.channel, tasks.slot = channel, channel % 5
    lengths = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=5, max_size=5))
    amount = st.sampled_from([0.25, 0.5, 1.0])
    each = st.lists(st.tuples(st.integers(0, 2), amount), max_size=2, unique_by=lambda d: d[0])
    return tasks, np.array(lengths), shares([1.0, 1.0, 4.0], *(tuple(draw(each)) for _ in range(5)))


@settings(max_examples=150, deadline=None)
@given(found=channels())
def test_channels_agree_too(found: tuple[Tasks, np.ndarray, Shares]) -> None:
    check_both_ways(*found)


def test_a_cancelled_task_leaves_its_share_to_others() -> None:
    rates = Rates([1.0])
    rates.begin(1, 4.0, ((0, 1.0),), 0.0)
    rates.begin(2, 4.0, ((0, 1.0),), 0.0)
    assert rates.next_time() == 8.0
    rates.cancel(1, 2.0)  # task 2 has 3 s of work left, now at full speed
    assert rates.next_end() == (5.0, 2)
    assert rates.next_end() is None
