"""Units of the axes of a frontier."""

from __future__ import annotations

import math

import pytest

from explorer.search import OBJECTIVES
from widgets.search.scales import scale_of


@pytest.mark.parametrize(
    ("name", "values", "head", "words"),
    [
        ("time", [7.41, 8.0], "step time, s", "7.41 s"),
        ("memory", [2.0**31, 2.0**33], "worst device memory, GiB", "2 GiB"),
        ("devices", [4.0, 8.0], "devices used", "4 devices"),
        ("cost", [3.2e-5, 0.5], "cost, $ a million steps", "$32 a million steps"),
        ("cost", [0.0345], "cost, $ a thousand steps", "$34.5 a thousand steps"),
        ("cost", [12.0], "cost, $ a step", "$12 a step"),
        ("energy", [812.0], "energy, J a step", "812 J a step"),
        ("energy", [81_200.0, 1e9], "energy, kJ a step", "81.2 kJ a step"),
        ("energy", [2.5e6], "energy, MJ a step", "2.5 MJ a step"),
        ("time_to_accuracy", [7200.0], "time to accuracy, h", "2 h"),
        ("time_to_accuracy", [864_000.0], "time to accuracy, days", "10 days"),
    ],
)
def test_the_least_value_is_one_or_more(name: str, values: list[float], head: str, words: str) -> None:
    scale = scale_of(OBJECTIVES[name], values)
    assert scale.head == head
    assert scale.words(values[0]) == words
    assert scale.of(scale.one) == 1.0
    assert scale.view() == {"name": name, "title": scale.title, "unit": scale.unit, "one": scale.one}


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda item: item.name)
def test_every_objective_has_a_unit_even_where_nothing_is_known(objective: object) -> None:
    for values in ([], [0.0], [math.inf]):
        scale = scale_of(objective, values)  # type: ignore[arg-type]
        assert scale.one > 0
        assert scale.of(0.0) == 0.0
