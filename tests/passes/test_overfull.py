"""Resources that could be asked for too much, by the definition: task by task."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explorer.passes.overfull import TOLERANCE, _suspects
from explorer.passes.timing import Shares

SLOTS, RESOURCES, CHANNELS = 4, 3, 3
DEMANDS = st.lists(
    st.tuples(st.integers(0, RESOURCES - 1), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=3
)


@given(
    demands=st.lists(DEMANDS, min_size=SLOTS, max_size=SLOTS),
    tasks=st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(-1, CHANNELS - 1)), max_size=30),
)
def test_suspects_are_what_channels_together_ask_too_much_of(
    demands: list[list[tuple[int, float]]], tasks: list[tuple[int, int]]
) -> None:
    shares = Shares(
        capacity=np.ones(RESOURCES), names=("a", "b", "c"), demands=tuple(tuple(item) for item in demands)
    )
    slot, channel = np.array(tasks, dtype=np.int64).reshape(-1, 2).T
    program: Any = SimpleNamespace(slot=slot, channel=channel, size=len(tasks))
    users: dict[int, dict[int, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for task, (own, on) in enumerate(tasks):
        asked: dict[int, float] = defaultdict(float)
        for resource, part in demands[own]:
            asked[resource] += part
        for resource, part in asked.items():
            if part > 0:
                users[resource][on].append((task, part))
    expected = {
        resource: [item for on in sorted(by_channel) for item in by_channel[on]]
        for resource, by_channel in sorted(users.items())
        if sum(max(part for _, part in items) for items in by_channel.values()) > 1 + TOLERANCE
    }
    table = _suspects(program, shares)
    found = {
        item.resource: list(zip(item.tasks.tolist(), item.demand.tolist(), strict=True))
        for item in table.users()
    }
    assert found == expected
    parts = [[part.tolist() for part in item.by_channel] for item in table.users()]
    assert parts == [
        [[task for task, _ in users[resource][on]] for on in sorted(users[resource])] for resource in expected
    ]
