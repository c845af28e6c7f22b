"""Tensors from one mesh to another: volumes of OneFlow's table, and the three ways of AlpaComm."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.costs.collectives import collective_seconds
from explorer.pricing import lane_route
from explorer.pricing.routes import WHOLE, Route
from explorer.pricing.stage_transfers import broadcast_route, crossing_route, gather_route
from explorer.pricing.traffic import device_traffic
from explorer.strategy import Strategy
from explorer.tasks.program import TRANSFER
from explorer.workload import default_workload
from tests.support.clusters import device_bound

ALPHA, FAST, SLOW = 1e-5, 100e9, 10e9
SIZES = st.sampled_from([1, 2, 4, 8])


def two_nodes(devices: int = 8, *, alpha: float = ALPHA) -> Cluster:
    """Two nodes with a network card of 10 GB/s for every device."""
    box = DeviceKind(
        name="box", memory_bytes=1, memory_bandwidth_bytes_per_s=1, peak_flops_per_s=(("fp32", 1.0),)
    )
    inner = Level(
        name="in", kind="nvlink", scope="node", latency_s=alpha, bandwidth_bytes_per_s=FAST,
        device_bytes_per_s=FAST,
    )  # fmt: skip
    outer = Level(
        name="out", kind="infiniband", scope="all", latency_s=alpha, bandwidth_bytes_per_s=SLOW,
        device_bytes_per_s=SLOW,
    )  # fmt: skip
    nodes = (NodeGroup(count=2, device_kind="box", devices_per_node=devices),)
    return Cluster(name="two", device_kinds=(box,), nodes=nodes, levels=(inner, outer))


def rows(first: int, second: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(range(first)), tuple(range(8, 8 + second))


def seconds(route: Route, size: float) -> float:
    return route.latency_s + size * route.seconds_per_byte


@pytest.mark.parametrize(
    ("held_split", "needed_split", "each"),
    [(True, True, False), (True, False, True), (False, True, False), (False, False, True)],
)
@given(first=SIZES, second=SIZES)
def test_boxing_between_different_devices(
    held_split: bool, needed_split: bool, each: bool, first: int, second: int
) -> None:
    """OneFlow (2021), table 2: from split or broadcast, |T| to split, p2 |T| to broadcast."""
    cluster, (source, target) = two_nodes(), rows(first, second)
    pattern = ((1 / first if held_split else 1.0, 1 / second if needed_split else 1.0, 1.0),)
    expected = second if each else 1.0
    ways = (
        lane_route(cluster, source, target, pattern),
        broadcast_route(cluster, source, target, pattern),
        gather_route(cluster, source, target, pattern, 1e6),
    )
    for route in ways:
        assert route.share == pytest.approx(expected)


@given(first=SIZES, second=SIZES, held_split=st.booleans(), needed_split=st.booleans())
def test_every_device_receives_what_it_needs(
    first: int, second: int, held_split: bool, needed_split: bool
) -> None:
    """What comes in less what a chain passes on is never more than what comes in, and that is the need."""
    cluster, (source, target) = two_nodes(), rows(first, second)
    needed = 1 / second if needed_split else 1.0
    pattern = ((1 / first if held_split else 1.0, needed, 1.0),)
    received: dict[int, float] = defaultdict(float)
    for _, receiver, share in broadcast_route(cluster, source, target, pattern).pairs:
        received[receiver] += share
    assert received == pytest.approx(dict.fromkeys(target, needed))


@pytest.mark.parametrize("receivers", [2, 4, 8])
@pytest.mark.parametrize("size", [1e3, 1e9])
def test_a_pipelined_broadcast_crosses_once(receivers: int, size: float) -> None:
    """S / B + hops alpha, where direct sending takes n S / B through one card."""
    cluster, (source, target) = two_nodes(), rows(1, receivers)
    broadcast = broadcast_route(cluster, source, target, WHOLE)
    assert seconds(broadcast, size) == pytest.approx(receivers * ALPHA + size / SLOW)
    direct = lane_route(cluster, source, target)
    assert seconds(direct, size) == pytest.approx(ALPHA + receivers * size / SLOW)
    gather = gather_route(cluster, source, target, WHOLE, size)
    around = collective_seconds(cluster, "all_gather", target, size)
    assert seconds(gather, size) == pytest.approx(ALPHA + size / SLOW + around)
    best = crossing_route(cluster, source, target, WHOLE, size)
    assert seconds(best, size) == min(seconds(way, size) for way in (direct, gather, broadcast))


def test_holders_share_what_all_need() -> None:
    """8 whole to 8 whole: every card carries an eighth, the links inside the rest, at the same time."""
    cluster, (source, target) = two_nodes(), rows(8, 8)
    size = 1e9
    route = broadcast_route(cluster, source, target, WHOLE)
    assert route.seconds_per_byte == pytest.approx(max(1 / 8 / SLOW, 7 / 8 / FAST))
    assert seconds(lane_route(cluster, source, target), size) == pytest.approx(ALPHA + size / SLOW)
    assert seconds(crossing_route(cluster, source, target, WHOLE, size), size) < 0.2 * size / SLOW


def test_small_messages_go_directly() -> None:
    cluster, (source, target) = two_nodes(), rows(8, 8)
    assert crossing_route(cluster, source, target, WHOLE, 1e3) == lane_route(cluster, source, target)


def test_a_device_sends_nothing_to_itself() -> None:
    cluster, row = two_nodes(), (0, 1, 2, 3)
    for route in (lane_route(cluster, row, row), broadcast_route(cluster, row, row, WHOLE)):
        assert all(a != b for a, b, _ in route.pairs)
    assert seconds(crossing_route(cluster, row, row, WHOLE, 1e9), 1e9) == 0.0


def test_best_transfers_of_a_strategy() -> None:
    graph, cluster = explorer.load_model("gpt2-small"), device_bound("ethernet-10g-4x4")
    workload = default_workload(graph).with_job(global_batch=8)
    plain = explorer.uniform(graph, cluster, workload.job, stages=2, tensor=4, microbatch_size=1)
    best = Strategy(jobs=(replace(plain.job, transfers="best"),))
    reports = [explorer.simulate(graph, cluster, workload, item) for item in (plain, best)]
    assert reports[1].step_time_s <= reports[0].step_time_s
    crossing = []
    for report in reports:
        slots, found = report.timeline.program.slots, report.timeline.prices.seconds
        crossing.append(sum(found[i] for i, slot in enumerate(slots) if slot.kind == TRANSFER))
    assert crossing[1] < 0.6 * crossing[0]
    sent = []
    for report in reports:
        found = device_traffic(report.timeline.program, report.timeline.prices)
        sent.append(sum(size for (a, b), size in found.items() if a // 4 != b // 4))
    # 8 microbatches, forward and backward: one copy crosses in parts instead of 4
    assert sent[0] - sent[1] == pytest.approx(8 * 2 * 3 * 1024 * 768 * 2.0)
    with pytest.raises(InputError, match="unknown transfers"):
        replace(plain.job, transfers="fastest")
