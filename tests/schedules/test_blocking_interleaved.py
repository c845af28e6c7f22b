"""Interleaved 1F1B whose neighbours exchange once for a forward and a backward, as Megatron-LM's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.models.synthetic import chain
from explorer.schedules import SCHEDULES, make_order
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import Job, Workload
from tests.schedules.shapes import looped

NAME = "interleaved_1f1b"


def step_s(p: int, v: int, m: int, wire_s: float, *, blocking: bool = True) -> float:
    """Return the step of p v stages of 1 s forward and 2 s backward, each position on a node of its own."""
    kind = DeviceKind(
        name="box", memory_bytes=1e12, memory_bandwidth_bytes_per_s=1e12, peak_flops_per_s=(("fp32", 1e12),)
    )
    net = Level(name="net", kind="ethernet", scope="all", latency_s=wire_s, bandwidth_bytes_per_s=1e30)
    cluster = Cluster(
        name="line",
        device_kinds=(kind,),
        nodes=(NodeGroup(count=p, device_kind="box", devices_per_node=1),),
        levels=(net,),
    )
    graph = chain([1.0] * (p * v), backward_s=[2.0] * (p * v))
    job = Job(global_batch=m, precision="fp32", optimizer="none")
    plan = uniform(graph, cluster, job, stages=p, chunks=v, microbatch_size=1, cuts=list(range(1, p * v)))
    part = replace(plan.job, schedule=NAME, options=(("blocking", blocking),))
    return simulate(graph, cluster, Workload(jobs=(job,)), plan.with_job(part)).step_time_s


SIZES = st.tuples(st.integers(2, 6), st.integers(1, 4), st.integers(1, 4))


@settings(max_examples=40)
@given(SIZES, st.sampled_from([0.0, 0.25, 1.0, 3.0]))
def test_no_exchange_waits_in_a_circle(size: tuple[int, int, int], wire_s: float) -> None:
    """It ends for every m that is a multiple of p, waiting never saves time, and is free with the wires."""
    p, v, rounds = size
    found, free = (step_s(p, v, rounds * p, wire_s, blocking=blocking) for blocking in (True, False))
    assert found >= free * (1 - 1e-12)
    if not wire_s:
        assert found == pytest.approx(free)


@pytest.mark.parametrize("p", [3, 4, 5, 6])
@pytest.mark.parametrize("v", [1, 2, 3])
@pytest.mark.parametrize("rounds", [2, 3])
def test_every_pair_costs_one_exchange(p: int, v: int, rounds: int) -> None:
    """(m v + p - 1)(F + B), an exchange after each of m v pairs, and those of warming up and winding down."""
    m, wire_s = rounds * p, 0.25
    exchanges = (m + p) * v + p - 3
    assert step_s(p, v, m, wire_s) == pytest.approx((m * v + p - 1) * 3.0 + exchanges * wire_s)


@pytest.mark.parametrize("p", [2, 3, 4, 5])
@pytest.mark.parametrize("v", [1, 2, 3])
def test_all_forwards_come_first_if_m_is_p(p: int, v: int) -> None:
    order = make_order(NAME, looped(p, p, v), options={"blocking": True})
    for lane in order.lanes:
        ops = "".join(action.op for action in lane).rstrip("U")
        assert ops == "F" * (p * v) + "B" * (p * v)
    expected = (p * v + p - 1) * 3.0 + 2 * (p * v + p - 2) * 0.25
    assert step_s(p, v, p, 0.25) == pytest.approx(expected)


def test_exchanges_are_part_of_the_order() -> None:
    shape = looped(4, 8, 2)
    plain, blocked = make_order(NAME, shape), make_order(NAME, shape, options={"blocking": True})
    assert blocked.lanes == plain.lanes
    assert (plain.blocking, plain.paired, blocked.blocking, blocked.paired) == (False, False, True, True)


def test_microbatches_are_a_multiple_of_the_positions() -> None:
    """Rounds of more than p microbatches, which it takes otherwise, would wait for each other."""
    schedule = SCHEDULES.get(NAME)
    assert schedule.unmet_even(4, 6, 2) == ()
    (found,) = schedule.with_options({"blocking": True}).unmet_even(4, 6, 2)
    assert (found.key, found.found, found.allowed) == ("microbatches", 6, "4 or 8")
