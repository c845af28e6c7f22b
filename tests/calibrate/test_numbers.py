"""Numbers of a profile: which there are, what shifting one changes, and where their bands stand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.calibrate.numbers import numbers_of, shifted, with_sources
from explorer.cluster import Tile
from explorer.cluster_profiles import cluster_names
from tests.calibrate.machines import GPU, machine, source


@pytest.mark.parametrize("name", cluster_names())
def test_shifting_a_number_there_and_back_gives_the_profile_again(name: str) -> None:
    cluster = explorer.load_cluster(name)
    numbers = numbers_of(cluster)
    assert len({item.key for item in numbers}) == len(numbers)
    for number in numbers:
        assert number.title
        low = shifted(cluster, {number.key: 0.5})
        assert low != cluster, number.key
        values = {item.key: item.value for item in numbers_of(low)}
        for other in numbers:
            half = 0.5 if other.key == number.key else 1.0
            assert values[other.key] == pytest.approx(other.value * half), (number.key, other.key)
        back = {item.key: item.value for item in numbers_of(shifted(low, {number.key: 2.0}))}
        assert back == pytest.approx({item.key: item.value for item in numbers})


@given(factor=st.floats(0.01, 100.0))
def test_no_fraction_becomes_more_than_one(factor: float) -> None:
    tiles = (Tile(rows=128, columns=128, fraction=0.8),)
    kind = replace(machine().device_kinds[0], tiles=tiles, compute_units=108)
    cluster = replace(machine(), device_kinds=(kind,))
    keys = [item.key for item in numbers_of(cluster) if item.quantity == "fraction"]
    made = shifted(cluster, dict.fromkeys(keys, factor))
    assert made.device_kinds[0].tiles[0].fraction == pytest.approx(min(1.0, 0.8 * factor))
    assert made.levels[0].collective_efficiency == pytest.approx(min(1.0, 0.7 * factor))
    assert all(0 < f <= 1 for _, curve in made.device_kinds[0].efficiency for _, f in curve.points)


def test_the_narrowest_source_speaks_for_a_number() -> None:
    own = (*machine().device_kinds[0].sources, source("efficiency.matmul", 0.02, "fitted"))
    cluster = replace(machine(), device_kinds=(replace(machine().device_kinds[0], sources=own),))
    bands = {item.key: item.band for item in numbers_of(cluster)}
    assert bands[f"{GPU}.matmul"] == 0.02
    assert bands[f"{GPU}.memory"] == 0.3
    assert bands["link.latency_s"] == 0.3, "the source for all"
    assert bands[f"{GPU}.memory_bandwidth_bytes_per_s"] == 0.0, "by definition"


def test_a_new_source_takes_the_place_of_the_old_of_its_key_and_owner_alone() -> None:
    made = with_sources(machine(), [("link", source("latency_s", 0.1)), (GPU, source("efficiency", 0.2))])
    assert [item.key for item in made.levels[0].sources] == ["*", "latency_s"]
    assert {item.key: item.band for item in made.device_kinds[0].sources}["efficiency"] == 0.2
    assert len(made.device_kinds[0].sources) == len(machine().device_kinds[0].sources)
