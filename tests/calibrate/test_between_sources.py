"""Bands between sources: coverage by simulation, distances in their order, and the bundled file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.calibrate.between_sources import (
    FILE,
    HARDWARE,
    MEMORY,
    SOFTWARE,
    TIME,
    ErrorBands,
    band,
    between_quantile,
    bundled_errors,
    distant_band,
    hardware_distance,
    load_errors,
    memory_band,
    software_distance,
    time_band,
    without,
)
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.framework import USUAL
from explorer.framework_files import framework_names, load_framework

# ---- the quantile --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 0.1, 1.0])
def test_rows_of_a_new_source_are_inside_as_often_as_asked(shift: float) -> None:
    """Sources are off by factors of their own (`shift` wide), rows around them by 0.05."""
    random = np.random.default_rng(7)
    inside = []
    for _ in range(1500):
        sizes = random.integers(1, 30, 10)
        drawn = [shift * random.normal() + 0.05 * random.normal(size=n) for n in sizes]
        limit = between_quantile([np.abs(found).tolist() for found in drawn[:-1]])
        inside.append(np.mean(np.abs(drawn[-1]) <= limit))
    assert 0.79 < np.mean(inside) < 0.93  # 1 / (K + 1) of the mass is at infinity: at most about 0.9


def test_plain_conformal_covers_less_where_sources_differ() -> None:
    """Rows taken as exchangeable, large sources drown the others: the reason for equal weights."""
    alike, other = [0.01] * 1000, [0.5] * 10
    assert between_quantile([alike, other, other, other]) == 0.5
    assert sorted([*alike, *other * 3])[round(0.8 * 1030)] == 0.01


@given(
    st.lists(st.lists(st.floats(0, 2), min_size=1, max_size=6), min_size=1, max_size=8),
    st.integers(2, 5),
)
def test_a_source_counts_once_however_often_its_rows_are_repeated(
    groups: list[list[float]], times: int
) -> None:
    again = [groups[0] * times, *groups[1:]]
    assert between_quantile(again) == pytest.approx(between_quantile(groups))


@given(st.lists(st.lists(st.floats(0, 2), min_size=1, max_size=6), min_size=1, max_size=8), st.floats(1, 3))
def test_larger_errors_never_narrow_a_band(groups: list[list[float]], by: float) -> None:
    wider = [[by * value for value in groups[0]], *groups[1:]]
    assert between_quantile(wider) >= between_quantile(groups)


def test_four_sources_are_the_fewest_that_tell() -> None:
    assert between_quantile([[0.1], [0.2], [0.3], [0.4]]) == 0.4
    assert between_quantile([[0.1], [0.2], [0.3]]) == 0.3  # the largest of all, which says less than asked
    assert between_quantile([[float(i)] for i in range(1, 10)]) == 8.0


# ---- distances -----------------------------------------------------------------------------------------


def test_bands_widen_with_the_distance() -> None:
    known = bundled_errors()
    for figure in (TIME, MEMORY):
        table = [[distant_band(figure, h, s, known).log_error for s in SOFTWARE] for h in HARDWARE]
        assert np.all(np.diff(table, axis=0) > 0)
        assert np.all(np.diff(table, axis=1) > 0)


def test_hardware_by_kind_generation_and_maker() -> None:
    known = bundled_errors()
    a100 = load_cluster("dgx-a100").device_kinds[0]
    assert hardware_distance(a100, known) == "steps"
    unheard = replace(a100, name="unheard of", sources=())
    assert hardware_distance(replace(unheard, name=known.kernels[0]), without_all(known)) == "kernels"
    assert hardware_distance(unheard, known) == "generation"
    assert hardware_distance(replace(unheard, generation="Next"), known) == "maker"
    assert hardware_distance(replace(unheard, maker="Other"), known) == "other"
    assert hardware_distance(replace(unheard, maker="", generation=""), known) == "other"
    own = load_cluster("cpu-2").device_kinds[0]
    assert hardware_distance(own, known) == "kernels"  # measured on this machine


def without_all(known: ErrorBands) -> ErrorBands:
    return replace(known, sources=())


def test_software_by_name_and_year() -> None:
    known = bundled_errors()
    megatron = load_framework("megatron-2022")
    assert software_distance(megatron, known) == "same"
    assert software_distance(replace(megatron, year=megatron.year + 9), known) == "other_year"
    assert software_distance(replace(megatron, software="Unheard of"), known) == "other"
    assert software_distance(USUAL, known) == "other"


def test_the_device_furthest_from_anything_measured_counts() -> None:
    mixed = load_cluster("mixed-v100-a100")
    kinds = {hardware_distance(kind, bundled_errors()) for kind in mixed.device_kinds}
    assert band(TIME, mixed).hardware == max(kinds, key=HARDWARE.index)


def test_leaving_the_only_source_of_a_kind_out_widens_its_band() -> None:
    known = bundled_errors()
    cluster = load_cluster("b200")
    assert (
        band(TIME, cluster, errors=without(known, "simumax")).log_error
        > band(TIME, cluster, errors=known).log_error
    )


@pytest.mark.parametrize("name", cluster_names())
def test_every_profile_has_a_band(name: str) -> None:
    cluster = load_cluster(name)
    found = time_band(cluster)
    assert 0 < found.relative < 2
    assert 0 < memory_band(cluster) < 3
    assert found.words


@pytest.mark.parametrize("name", framework_names())
def test_every_framework_has_a_band(name: str) -> None:
    assert time_band(load_cluster("dgx-a100"), name).log_error > 0


FALLING = """schema: explorer.errors/1
coverage: 0.8
hardware: {steps: 2, kernels: 1, generation: 1, maker: 1, other: 1}
software: {same: 1, other_year: 1, other: 1}
log_errors: {}
kernels: []
sources: []
"""

# ---- the file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema: explorer.errors/2\n", "schema"),
        ("schema: explorer.errors/1\ncoverage: 0.8\n", "hardware"),
        ("schema: explorer.errors/1\nunheard: 1\n", "unheard"),
        (FALLING, "each at least the one before"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / f"{FILE}.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said) as found:
        load_errors(path)
    assert "\n" not in str(found.value)
