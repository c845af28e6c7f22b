"""Protocols of collectives: closed forms of steps and slices, limits, and curves that never bend upwards."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.calibrate.collective_fit import (
    CollectiveTime,
    collective_errors,
    fit_collectives,
    idle,
    with_documented_protocols,
)
from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup, Protocol
from explorer.cluster_profiles import cluster_names, load_cluster, save_cluster
from explorer.costs.collectives import collective_lines, collective_seconds, lowest_line

BOX = DeviceKind(
    name="box", memory_bytes=1, memory_bandwidth_bytes_per_s=1, peak_flops_per_s=(("fp32", 1.0),)
)
B = 100e9
OPS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
PROFILES = [name for name in cluster_names() if any(level.protocols for level in load_cluster(name).levels)]
ops = st.sampled_from(OPS)
sizes = st.floats(0, 1e11)


def node(*protocols: Protocol, overhead: float = 0.0, nodes: int = 1) -> Cluster:
    """Nodes of eight devices below a switch, with some protocols."""
    inside = Level(
        name="switch", kind="nvswitch", scope="node", latency_s=9.0, bandwidth_bytes_per_s=B,
        device_bytes_per_s=B, collective_overhead_s=overhead, protocols=protocols,
    )  # fmt: skip
    outside = Level(name="net", kind="infiniband", scope="all", latency_s=2e-6, bandwidth_bytes_per_s=B / 4)
    return Cluster(
        name="node", device_kinds=(BOX,), levels=(inside, outside),
        nodes=(NodeGroup(count=nodes, device_kind="box", devices_per_node=8),),
    )  # fmt: skip


def seconds(cluster: Cluster, op: str, n: int, size: float) -> float:
    return collective_seconds(cluster, op, tuple(range(n)), size)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("size", [0.0, 1e3, 1e6, 1e9])
def test_closed_form(op: str, n: int, size: float) -> None:
    one = Protocol(
        name="one", overhead_s=7e-6, step_s=2e-6, slice_s=3e-7, shares=((op, 0.8),), own_copy=((op, 0.4),)
    )
    passes = 2 if op == "all_reduce" else 1
    steps = 1 if op == "all_to_all" else passes * (n - 1)
    # each pass moves its (n-1)/n S and copies the own S/n
    link = size * passes * ((n - 1) + 0.4) / n / (0.8 * B)
    expected = 5e-6 + 7e-6 + steps * 2e-6 + link + 2 * math.sqrt(3e-7 * steps * link)
    assert seconds(node(one, overhead=5e-6), op, n, size) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_switch_that_adds_up(n: int) -> None:
    adding = Protocol(
        name="in_switch", overhead_s=1e-6, step_s=2e-6, slice_s=1e-6, shares=(("all_reduce", 0.5),),
        in_switch=True,
    )  # fmt: skip
    cluster = node(Protocol(name="simple", overhead_s=1e-6), adding)
    link = (1 + 1 / n) * 1e8 / (0.5 * B)
    switch = 1e-6 + 2 * 2e-6 + link + 2 * math.sqrt(2 * 1e-6 * link)
    ring = 1e-6 + 2 * (n - 1) / n * 1e8 / B
    assert seconds(cluster, "all_reduce", n, 1e8) == pytest.approx(min(switch, ring), rel=1e-12)
    assert seconds(cluster, "all_gather", n, 1e8) == pytest.approx(1e-6 + (n - 1) / n * 1e8 / B, rel=1e-12)
    # it ends at the node, and is an algorithm of its own
    two = [node(*found, nodes=2) for found in (cluster.levels[0].protocols, cluster.levels[0].protocols[:1])]
    assert seconds(two[0], "all_reduce", 16, 1e8) == seconds(two[1], "all_reduce", 16, 1e8)
    assert collective_seconds(cluster, "all_reduce", (0, 1), 1e8, algorithm="ring") == pytest.approx(
        1e-6 + 1e8 / B
    )


@given(ops, st.integers(2, 8), sizes)
def test_the_fastest_protocol_counts(op: str, n: int, size: float) -> None:
    early = Protocol(name="early", overhead_s=1e-6, shares=tuple((item, 0.3) for item in OPS))
    late = Protocol(name="late", overhead_s=20e-6, slice_s=1e-6)
    alone = [seconds(node(item), op, n, size) for item in (early, late)]
    assert seconds(node(early, late), op, n, size) == min(alone)


def test_a_protocol_serves_the_operations_it_names_and_levels_share_its_name() -> None:
    some = Protocol(name="some", shares=(("all_gather", 1.0),))
    usual = Protocol(name="usual", overhead_s=1e-3)
    assert seconds(node(usual, some), "all_gather", 4, 0.0) == 0.0
    assert seconds(node(usual, some), "all_reduce", 4, 0.0) == 1e-3
    two = node(usual, some, nodes=2)
    net = replace(two.levels[1], protocols=(Protocol(name="usual", overhead_s=2e-3),))
    two = replace(two, levels=(two.levels[0], net))
    # `some` inside a node meets the first protocol of the network
    assert seconds(two, "all_gather", 16, 0.0) == pytest.approx(2e-3)


@given(ops, st.sampled_from(PROFILES), st.integers(2, 16), sizes, st.floats(0, 1))
def test_seconds_rise_ever_less_steeply(op: str, name: str, n: int, size: float, part: float) -> None:
    cluster = load_cluster(name)
    lines = collective_lines(cluster, op, tuple(range(min(n, cluster.device_count))))
    low, mid, high = (lowest_line(lines, x) for x in (0.0, part * size, size))
    assert low <= mid * (1 + 1e-12)
    assert mid <= high * (1 + 1e-12)
    assert mid * (1 + 1e-9) >= (1 - part) * low + part * high
    # so parts one after another take no less than the whole
    rest = lowest_line(lines, (1 - part) * size)
    assert (mid + rest) * (1 + 1e-9) >= high


@given(ops, st.sampled_from(PROFILES), st.lists(sizes, min_size=1, max_size=4))
def test_arrays_of_sizes_are_the_same(op: str, name: str, many: list[float]) -> None:
    lines = collective_lines(load_cluster(name), op, (0, 1))
    found = lowest_line(lines, np.array(many))  # type: ignore[arg-type]
    assert list(found) == [lowest_line(lines, size) for size in many]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"shares": (("all_reduce", 0.0),)}, "shares"),
        ({"shares": (("all_reduce", 1.5),)}, "shares"),
        ({"own_copy": (("broadcast", 0.5),)}, "own_copy"),
        ({"step_s": -1.0}, "step_s"),
        ({"shares": (("all_reduce", 0.5), ("all_reduce", 0.6))}, "shares"),
        ({"shares": (("all_reduce", 0.5),), "own_copy": (("all_gather", 0.5),)}, "own_copy"),
        ({"in_switch": True}, "shares"),
        ({"in_switch": True, "shares": (("all_reduce", 0.5), ("all_gather", 0.5))}, "shares"),
    ],
)
def test_refused(fields: dict[str, object], key: str) -> None:
    with pytest.raises(InputError) as error:
        Protocol(name="x", **fields)  # type: ignore[arg-type]
    assert error.value.key == key


def test_a_protocol_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="has no name"):
        Protocol(name="")


@pytest.mark.parametrize("left_out", OPS)
def test_an_operation_that_no_protocol_does_is_refused(left_out: str, tmp_path: Path) -> None:
    kept = tuple((op, 0.5) for op in OPS if op != left_out)
    adding = Protocol(name="in_switch", shares=(("all_reduce", 0.5),), in_switch=True)
    path = tmp_path / "mine.yaml"
    save_cluster(node(Protocol(name="simple", shares=kept), adding), path)
    with pytest.raises(InputError, match=left_out) as error:
        load_cluster(path)
    assert error.value.key == "levels[0].protocols"


@given(st.sampled_from(PROFILES), st.data())
def test_every_number_of_a_protocol_acts(name: str, data: st.DataObject) -> None:
    """A slower step, slice or copy, or a smaller share, lengthens a collective of that protocol alone."""
    level = next(level for level in load_cluster(name).levels if level.protocols)
    protocol = data.draw(st.sampled_from(level.protocols))
    field = data.draw(st.sampled_from(["overhead_s", "step_s", "slice_s", "shares", "own_copy"]))
    number = getattr(protocol, field)
    if not number:
        return
    made = (
        tuple((op, x / 2 if field == "shares" else min(1.0, x * 1.5)) for op, x in number)
        if isinstance(number, tuple)
        else 2 * number
    )
    slower = replace(protocol, **{field: made})
    assert any(
        seconds(node(slower), op, 8, 1e7) > seconds(node(protocol), op, 8, 1e7)
        for op in OPS if protocol.does(op)
    )  # fmt: skip


def test_two_protocols_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two protocols of one name"):
        node(Protocol(name="a"), Protocol(name="a"))


def test_a_fit_finds_the_numbers_that_made_its_rows() -> None:
    base = load_cluster("dgx-a100")
    start = with_documented_protocols(base, (0,), in_switch=False)
    level = start.levels[0]
    simple = replace(
        level.protocols[0], overhead_s=21e-6, step_s=0.3e-6, slice_s=0.5e-6, own_copy=(("all_gather", 0.3),)
    )
    true = replace(
        level, protocols=(simple, *level.protocols[1:]), operation_efficiency=(("all_gather", 0.6),)
    )
    made = idle(replace(start, levels=(true, *start.levels[1:])))
    rows = [
        CollectiveTime(op, n, 2.0**k, seconds(made, op, n, 2.0**k))
        for op in OPS for n in (2, 4, 8) for k in range(10, 30, 2)
    ]  # fmt: skip
    fit = fit_collectives(start, rows)
    assert max(map(abs, fit.errors)) < 0.02
    others = [row._replace(bytes_count=3 * row.bytes_count) for row in rows]
    others = [r._replace(seconds=seconds(made, r.op, r.devices, r.bytes_count)) for r in others]
    assert max(map(abs, collective_errors(fit.cluster, others))) < 0.03
