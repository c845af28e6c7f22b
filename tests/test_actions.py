"""Actions as columns read like the tuples they stand for."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explorer.actions import ALL_OPS, Action, Actions, Repeated

numbers = st.integers(0, 9)
actions = st.lists(st.builds(Action, st.sampled_from(ALL_OPS), numbers, numbers, numbers, numbers, numbers))


@given(lane=actions, other=actions)
def test_read_like_a_tuple(lane: list[Action], other: list[Action]) -> None:
    made = Actions.of(lane)
    assert made == tuple(lane)
    assert tuple(lane) == made
    assert hash(made) == hash(tuple(lane))
    assert list(made) == lane
    assert [made[i] for i in range(len(made))] == lane
    assert made[1:3] == tuple(lane[1:3])
    assert (made == Actions.of(other)) == (lane == other)
    assert Actions.joined([made, other]) == (*lane, *other)
    assert pickle.loads(pickle.dumps(made)) == made
    assert all(type(item) is int for action in made for item in action[1:])


@given(lane=actions, times=st.integers(1, 3), by=st.integers(0, 5))
def test_repeated_with_microbatches_moved_on(lane: list[Action], times: int, by: int) -> None:
    made = Repeated(Actions.of(lane), times, np.full(len(lane), by))
    expected = tuple(
        action._replace(first_microbatch=action.first_microbatch + time * by)
        for time in range(times)
        for action in lane
    )
    assert len(made) == len(expected)
    assert made == expected
    assert pickle.loads(pickle.dumps(made)) == made
