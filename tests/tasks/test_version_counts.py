"""Versions of many programs counted at once are those counted action by action."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Action, Actions, ReadRule
from explorer.base.errors import PlanError
from explorer.reads import reading_of
from explorer.tasks.version_counts import count_at_once, count_newest
from explorer.tasks.versions import count_versions

RULES = [
    ReadRule(),
    ReadRule(name="stash"),
    ReadRule(name="vertical"),
    ReadRule(name="buffered", parameter=1),
    ReadRule(name="predicted", parameter=2),
]


def program(seed: int) -> list[Action]:
    """Forwards, whole and split backwards and updates of one stage, in an order that runs."""
    random = Random(seed)
    count = random.randint(1, 6)
    waiting, ready, updated = list(range(count)), list[tuple[str, int]](), 0
    found: list[Action] = []
    while waiting or ready:
        kind = random.choice("FFBBU")
        if kind == "F" and waiting:
            found.append(Action("F", 0, waiting.pop(0)))
            ready.append((random.choice("BI"), found[-1].first_microbatch))
        elif kind == "B" and ready:
            op, number = ready.pop(random.randrange(len(ready)))
            found.append(Action(op, 0, number))
            if op == "I":
                ready.append(("W", number))
        elif kind == "U" and updated < count:
            size = random.randint(1, count - updated)
            found.append(Action("U", 0, updated, size))
            updated += size
    return found


@pytest.mark.parametrize("rule", RULES, ids=str)
@settings(max_examples=40)
@given(
    seeds=st.lists(st.integers(0, 100_000), min_size=1, max_size=3),
    microbatches=st.integers(1, 4),
    first=st.lists(st.integers(-1, 1), max_size=6),
)
def test_the_same_at_once(rule: ReadRule, seeds: list[int], microbatches: int, first: list[int]) -> None:
    several = [program(seed) for seed in seeds]
    rows = Actions.joined(several).columns
    of = np.repeat(np.arange(len(several)), [len(actions) for actions in several])
    sizes = np.full(len(several), microbatches)
    at_once = count_at_once(rows, of, sizes, reading_of(rule), np.array(first, dtype=np.int64))
    known = {n: version for n, version in enumerate(first) if version >= 0}
    try:
        each = [
            count_versions(actions, rule, microbatches=microbatches, first_stage_reads=known)
            for actions in several
        ]
    except PlanError:
        assert at_once is None
        return
    assert at_once is not None
    most, delay, forward = at_once
    assert most.tolist() == [found.most for found in each]
    assert delay.tolist() == [found.delay for found in each]
    for number, version in enumerate(forward.tolist()):
        reads = [found.forward[number] for found in each if number in found.forward]
        assert version in reads if reads else version == -1


def test_a_forward_after_its_backward_is_counted_one_by_one() -> None:
    rows = Actions.of([Action("B", 0, 0), Action("F", 0, 0)]).columns
    one = np.ones(1, dtype=np.int64)
    assert count_at_once(rows, np.zeros(2, dtype=np.int64), one, reading_of(ReadRule()), one[:0]) is None


@settings(max_examples=40)
@given(seeds=st.lists(st.integers(0, 100_000), min_size=1, max_size=3))
def test_where_only_the_newest_is_read(seeds: list[int]) -> None:
    several = [program(seed) for seed in seeds]
    counted = [[action for action in actions if action.op in "FU"] for actions in several]
    of = np.repeat(np.arange(len(several)), [len(actions) for actions in counted])
    delay = count_newest(Actions.joined(counted).columns, of, len(several))
    each = [count_versions(actions, ReadRule(), microbatches=1) for actions in several]
    assert delay.tolist() == [found.delay for found in each]
    assert {found.most for found in each} == {1}
