"""What exchanges of flat weights add to a step: closed forms, and what holds for any seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.run.cases.build import Prepared
from explorer.run.cases.flat_groups import flat_groups
from explorer.run.judging.compare import predicted_parts, predicted_step
from explorer.run.judging.exchange_times import ExchangeSeconds, exchange_seconds, with_exchanges
from explorer.run.own.own_source import OwnSource
from explorer.run.ranks.lane import RankLanes
from explorer.run.spec import FlatGroup
from explorer.tasks.program import B, F, U
from tests.run.own.own_cases import case, cut, source

FORWARD, BACKWARD, UPDATE, MICROBATCHES = 0.5, 1.0, 0.25, 4
SOME = ExchangeSeconds(
    fill_s=0.04, scatter_s=0.4, scatter_core_s=0.1, take_s=0.03, open_s=0.02, gather_s=0.2, gather_core_s=0.05
)
NONE = ExchangeSeconds(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def prepared(zero: int, **fields: Any) -> tuple[Prepared, OwnSource]:
    """Two replicas of a small GPT whose tasks take known seconds."""
    own = source("gpt", {"layers": "2", "embed": "16", "heads": "2", "vocab": "20"}, 8)
    stages = tuple(replace(stage, zero=zero, **fields) for stage in cut(own, 1, 2, size=2))
    made = case(own, stages, "1f1b", batch=4 * MICROBATCHES)
    known = {F: FORWARD, B: BACKWARD, U: UPDATE}
    seconds = np.array([known.get(slot.kind, 0.0) for slot in made.program.slots])
    return replace(made, prices=replace(made.prices, seconds=seconds)), own


def timed(zero: int, seconds: ExchangeSeconds, **fields: Any) -> Prepared:
    made, own = prepared(zero, **fields)
    groups = flat_groups(made, own.graph)
    assert groups
    tasks = made.prices.seconds[made.program.slot]
    return with_exchanges(made, tasks, groups, dict.fromkeys(groups.values(), seconds))


def microbatches(made: Prepared) -> int:
    """Microbatches of a step on one lane."""
    lane = made.program.programs[0].tolist()
    return sum(made.program.kind[task] == B for task in lane) // made.program.order.steps


def beside(core_s: float, alone_s: float, work_s: float) -> float:
    """What threads take of the core from some work beside it: half of it at most."""
    share = core_s / alone_s
    return min(core_s, work_s * min(1.0, share / (1 - share)))


@pytest.mark.parametrize("core_s", [0.0, 0.1, 0.2, 0.3])
def test_a_step_of_level_2_is_a_closed_form(core_s: float) -> None:
    x = SOME._replace(scatter_core_s=core_s)
    made = timed(2, x)
    m, work = microbatches(made), FORWARD + BACKWARD
    taken = beside(core_s, x.scatter_s, work)
    step = (
        x.open_s + x.gather_s + m * (work + x.fill_s) + (m - 1) * (x.take_s + taken)
        + x.scatter_s + x.take_s + UPDATE
    )  # fmt: skip
    assert predicted_step(made) == pytest.approx(step, rel=1e-12)


def test_a_step_of_level_1_exchanges_once() -> None:
    made = timed(1, SOME)
    x, m = SOME, microbatches(made)
    step = x.open_s + x.gather_s + m * (FORWARD + BACKWARD) + x.fill_s + x.scatter_s + x.take_s + UPDATE
    assert predicted_step(made) == pytest.approx(step, rel=1e-12)


def test_level_3_waits_for_a_whole_gather_where_a_program_waits_for_its_first_block() -> None:
    x = NONE._replace(gather_s=0.2)
    made = timed(3, x)
    m = microbatches(made)
    # all but the first gather of a step run beside the action before
    assert predicted_step(made) == pytest.approx(m * (FORWARD + BACKWARD) + UPDATE + x.gather_s, rel=1e-12)


def test_a_gather_that_needs_most_of_a_core_lasts_longer_beside_work() -> None:
    # of 1 s alone the core works .75. Beside .5 s of work it gets .5 in 1 s, and the rest in .25 / .75 s;
    # beside 1 s of work it gets all, and the work lasts 1.75 s
    made = timed(3, NONE._replace(gather_s=1.0, gather_core_s=0.75))
    m = microbatches(made)
    step = 1.0 + m * (1.0 + 1 / 3) + (m - 1) * 1.75 + BACKWARD + UPDATE
    assert predicted_step(made) == pytest.approx(step, rel=1e-12)


def test_what_is_too_long_to_hide_is_waited_for_before_the_next_exchange_begins() -> None:
    # of 4 s alone the core works 2: beside 1.5 s of work it gets 1.5 more, and has .5 to go, that is 1 s
    x = NONE._replace(scatter_s=4.0, scatter_core_s=2.0)
    made = timed(2, x)
    m = microbatches(made)
    work = FORWARD + BACKWARD
    assert predicted_step(made) == pytest.approx(m * work + (m - 1) * (1.5 + 1.0) + 4.0 + UPDATE, rel=1e-12)


def test_seconds_between_tasks_are_overhead() -> None:
    made = timed(2, NONE._replace(fill_s=0.04, open_s=0.02))
    parts = predicted_parts(made)
    steps = made.program.order.steps
    # what begins after the last task of all lies beyond the makespan
    between = (microbatches(made) * 0.04 * steps + 0.02 * (steps - 1)) / steps
    assert parts["overhead"] == pytest.approx(between)


def test_replicas_that_take_turns_do_not_wait_for_each_other() -> None:
    x = NONE._replace(scatter_s=50.0, scatter_core_s=1.0)
    turns, split = timed(2, x, replicas="round_robin"), timed(2, x)
    assert max(turns.after_s) == 0.0 < max(split.after_s)


def test_without_flat_weights_a_case_stays_as_it_is() -> None:
    made, own = prepared(0)
    assert flat_groups(made, own.graph) == {}
    assert with_exchanges(made, made.prices.seconds, {}, {}) is made


def test_sizes_that_were_not_timed_leave_a_case_as_it_is() -> None:
    made, own = prepared(2)
    assert with_exchanges(made, made.prices.seconds, flat_groups(made, own.graph), {}) is made


def test_a_group_has_all_weights_of_the_model() -> None:
    made, own = prepared(3)
    every = sum(item.elements for item in own.graph.parameters)
    assert list(flat_groups(made, own.graph).values()) == [FlatGroup(int(every), 3, 2, 1)]


_SECONDS = st.floats(0.0, 3.0)


@settings(max_examples=25, deadline=None)
@given(
    zero=st.sampled_from([1, 2, 3]),
    seconds=st.builds(ExchangeSeconds, _SECONDS, _SECONDS, _SECONDS, _SECONDS, _SECONDS, _SECONDS, _SECONDS),
    which=st.sampled_from(["fill_s", "take_s", "open_s", "scatter_s", "gather_s"]),
    more=st.floats(0.01, 2.0),
)
def test_no_exchange_is_shorter_for_taking_longer(
    zero: int, seconds: ExchangeSeconds, which: str, more: float
) -> None:
    low = seconds._replace(scatter_core_s=0.0, gather_core_s=0.0)
    free, slow = timed(zero, low), timed(zero, low._replace(**{which: getattr(low, which) + more}))
    shared = timed(zero, seconds)
    tasks = np.concatenate(free.program.programs)
    for later in (slow, shared):
        assert (later.timing.end_s[tasks] >= free.timing.end_s[tasks] - 1e-9).all()
    work = RankLanes(free.program)
    for task in tasks.tolist():
        # an exchange takes no more than it needs of a core, and a task is no shorter than its own work
        own = free.prices.seconds[work.program.slot[task]]
        assert shared.timing.end_s[task] - shared.timing.start_s[task] >= own - 1e-12


def test_ranks_without_a_part_count_for_nothing() -> None:
    row = {f"{name}_s": 1.0 for name in ("fill", "scatter", "take", "open", "gather")}
    row |= {f"{name}_core_s": 0.5 for name in ("scatter", "gather")}
    assert exchange_seconds([row, {}]) == ExchangeSeconds(1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 0.5)
    assert exchange_seconds([{}]) == NONE
