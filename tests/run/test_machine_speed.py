"""A processor's profile as fast as the machine is now: closed forms, and what holds for any factors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.cluster import Cluster, Curve, DeviceKind, NodeGroup
from explorer.cluster_profiles import load_cluster
from explorer.costs.compute import layer_costs
from explorer.models import load_model
from explorer.run.judging.machine_speed import (
    PRODUCTS,
    UPDATED,
    Slowdowns,
    at_present,
    slowdowns_since,
    speed_survey,
)

PEAK, BANDWIDTH, OPERATOR = 5e10, 1e10, 4e-6
CURVES = tuple((name, Curve(points=((1e3, 0.25), (1e9, 0.5)))) for name in ("matmul", "memory", "update"))
KIND = DeviceKind(
    name="cpu", memory_bytes=8e9, memory_bandwidth_bytes_per_s=BANDWIDTH, launch_overhead_s=OPERATOR,
    peak_flops_per_s=(("fp32", PEAK), ("bf16", PEAK / 2)), efficiency=CURVES,
)  # fmt: skip
PROFILE = Cluster(
    name="here", device_kinds=(KIND,), nodes=(NodeGroup(count=1, device_kind="cpu", devices_per_node=1),)
)
FLAT = replace(PROFILE, device_kinds=(replace(KIND, efficiency=()),))
"""Every size runs at its peak."""
factor = st.floats(0.2, 5.0)


def rows(slower: Slowdowns, precision: str = "fp32") -> list[dict[str, Any]]:
    """Timings on a machine that is so much slower than the flat profile."""
    peak = dict(KIND.peak_flops_per_s)[precision]
    moved = {("memory", 1 << 21): float(1 << 21), ("update", UPDATED): 28.0 * UPDATED}
    found = [
        {"what": "product", "precision": precision, "size": [m, n, k],
         "seconds": slower.products * 2.0 * m * n * k / peak}
        for m, n, k in PRODUCTS
    ]  # fmt: skip
    found += [
        {"what": what, "precision": "", "size": [size], "seconds": slower.memory * count / BANDWIDTH}
        for (what, size), count in moved.items()
    ]
    seconds = slower.operators * OPERATOR
    return [*found, {"what": "operator", "precision": "", "size": [], "seconds": seconds}]


@given(st.builds(Slowdowns, factor, factor, factor), st.sampled_from(["fp32", "bf16"]))
def test_what_takes_longer_is_found_by_what_binds(slower: Slowdowns, precision: str) -> None:
    assert slowdowns_since(FLAT, rows(slower, precision)) == pytest.approx(slower)


@given(st.builds(Slowdowns, factor, factor, factor))
def test_a_profile_of_the_present_is_as_fast_as_its_machine(slower: Slowdowns) -> None:
    timed = rows(slower)
    now = at_present(PROFILE, slowdowns_since(PROFILE, timed))
    assert slowdowns_since(now, timed) == pytest.approx(Slowdowns())


def test_disturbed_timings_are_outvoted() -> None:
    late = [{**row, "seconds": 100 * row["seconds"]} for row in rows(Slowdowns())]
    assert slowdowns_since(FLAT, [*rows(Slowdowns()), *rows(Slowdowns()), *late]) == pytest.approx(
        Slowdowns()
    )


def test_what_nobody_timed_counts_as_it_was() -> None:
    assert slowdowns_since(PROFILE, []) == Slowdowns()
    assert at_present(PROFILE, Slowdowns()) == PROFILE
    other = [{"what": "action", "precision": "", "size": [], "seconds": 1.0}]
    unknown = [row for row in rows(Slowdowns(2.0, 2.0, 2.0)) if row["what"] == "product"]
    unknown = [{**row, "precision": "fp16"} for row in unknown]
    assert slowdowns_since(PROFILE, [*other, *unknown]) == Slowdowns()


def test_a_machine_twice_as_slow_in_all_takes_twice_as_long() -> None:
    graph = load_model("gpt", settings={"layers": "2", "embed": "64", "heads": "4", "vocab": "100"})
    kinds = [
        at_present(PROFILE, slower).device_kinds[0] for slower in (Slowdowns(), Slowdowns(2.0, 2.0, 2.0))
    ]
    before, after = (layer_costs(graph, kind, samples=2, precision="fp32").seconds for kind in kinds)
    assert after == pytest.approx(2 * before)
    assert before.sum() > 0


@pytest.mark.parametrize(("name", "asks"), [("", False), ("dgx-a100", False), ("cpu", True)])
def test_only_processors_are_timed_again(name: str, asks: bool) -> None:
    profile = PROFILE if name == "cpu" else load_cluster(name) if name else None
    found = speed_survey(profile, "bf16")
    assert (found is not None) == asks
    assert found is None or found.precisions == ("bf16",)
