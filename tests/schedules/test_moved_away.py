"""OptPipe's moves of activations to the host: beside brute force, in the simulator, in what they hold."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Shape
from explorer.cluster_profiles import load_cluster
from explorer.models.synthetic import chain as layers
from explorer.schedules import make_order
from explorer.schedules._moved_away import with_moves
from explorer.schedules._step_clock import Chain, LaneWork, Work, chain_of, seconds_of
from explorer.schedules.optpipe import _shortest
from explorer.schedules.waits import check_order
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import Job, Workload
from tests.schedules.test_optpipe import lanes_of_stage, uneven

NODES = 50
ACTIVATIONS = MEMORY_PARTS.index("activations")


def every_lane(chain: Chain, stage: int, *, split: bool) -> list[tuple[Work, ...]]:
    """Every order of a stage that fits, whoever leaves, whenever his room is free and he comes back."""
    found = []
    for lane in lanes_of_stage(chain.microbatches, split=split):
        away = range(chain.microbatches) if chain.host_s[stage] < math.inf else ()
        for count in range(len(away) + 1):
            for leaves in itertools.combinations(away, count):
                found += [made for made in _moved(lane, leaves) if fits(chain, stage, made)]
    return found


def _moved(lane: tuple[Work, ...], leaves: tuple[int, ...]) -> Iterator[tuple[Work, ...]]:
    if not leaves:
        yield lane
        return
    first, *rest = leaves
    gone = lane.index(("F", first)) + 1
    needed = next(at for at, (op, n) in enumerate(lane) if op in "BI" and n == first)
    for free in range(gone, needed + 1):
        for back in range(free, needed + 1):
            made = (
                *lane[:gone], ("OFFLOAD", first), *lane[gone:free], ("FREE", first), *lane[free:back],
                ("RELOAD", first), *lane[back:],
            )  # fmt: skip
            yield from _moved(made, tuple(rest))


def fits(chain: Chain, stage: int, lane: tuple[Work, ...]) -> bool:
    return chain.peak(stage, lane) <= chain.room[stage] * (1 + 1e-9)


def shortest(chain: Chain, *, split: bool) -> float:
    of_stage = [every_lane(chain, s, split=split) for s in range(chain.stages)]
    return min(seconds_of(chain, lanes).period_s for lanes in itertools.product(*of_stage))


def capped(seed: int, p: int, m: int, *, hosts: int) -> Shape:
    """A chain of little room, the first stages of which have a host."""
    rng = random.Random(seed)
    shape = uneven(rng, p, m)
    return replace(
        shape,
        host_s=tuple(rng.uniform(0.3, 2.0) if s < hosts else math.inf for s in range(p)),
        memory_cap_bytes=tuple(held * rng.uniform(1.1, 2.0) for held in shape.activation_bytes),
    )


CASES = [(1, 3, 1, False), (1, 2, 1, True), (2, 2, 2, False), (2, 2, 1, True), (2, 3, 1, False)]


@pytest.mark.parametrize(("p", "m", "hosts", "split"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_shortest_of_all_orders_with_moves(
    p: int, m: int, hosts: int, split: bool, seed: int
) -> None:
    shape = capped(seed, p, m, hosts=hosts)
    found = _shortest(shape, 0, split=split, nodes=100_000, choices=20_000, seconds=0.0, offload=True)
    chain = chain_of(shape, 0)
    assert chain.fits(found.lanes)
    assert seconds_of(chain, found.lanes).period_s == pytest.approx(found.period_s, rel=1e-12)
    assert found.period_s == pytest.approx(shortest(chain, split=split), rel=1e-6)
    assert found.bound_s <= found.period_s * (1 + 1e-6)


def test_moves_shorten_what_memory_had_lengthened() -> None:
    shape = capped(0, 2, 3, hosts=2)
    without, moved = (
        _shortest(shape, 0, split=False, nodes=1000, choices=20_000, seconds=0.0, offload=offload).period_s
        for offload in (False, True)
    )
    assert moved < 0.95 * without


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(["gpipe", "1f1b", "zb_h1", "zb_h2"]))
def test_whatever_an_order_holds_is_made_to_fit(seed: int, name: str) -> None:
    """The orders with moves fit, run to their end, and take no less than the order without a cap."""
    rng = random.Random(seed)
    p, m = rng.randint(1, 4), rng.randint(2, 6)
    shape = capped(seed, p, m, hosts=p)
    chain = replace(
        chain_of(shape, 0), room=tuple(rng.uniform(1.05, 2.5) * held for held in shape.activation_bytes)
    )
    chain = replace(chain, room=tuple(map(max, chain.room, chain.held)))
    lanes: LaneWork = tuple(
        tuple((a.op, a.first_microbatch) for a in lane if a.op != "U")
        for lane in make_order(name, shape).lanes
    )
    for made in with_moves(chain, lanes):
        assert chain.fits(made)
        assert math.isfinite(seconds_of(chain, made).period_s)
        assert seconds_of(chain, made).period_s >= seconds_of(chain, lanes).period_s * (1 - 1e-9)
        work = tuple(tuple(item for item in lane if item[0] in "FBIW") for lane in made)
        assert work == lanes


def report_of(offload: bool, *, room: float, move_s: float, p: int = 2, m: int = 4) -> Report:
    """Stages of F = 1 s, I = W = 1 s that keep 2^20 bytes of a microbatch, in room for so many of them."""
    cluster, size = load_cluster("dgx-a100"), 2.0**20
    kinds = tuple(
        replace(kind, host_bandwidth_bytes_per_s=size / move_s, memory_bytes=room * size, reserved_bytes=0.0)
        for kind in cluster.device_kinds
    )
    cluster = replace(cluster, device_kinds=kinds)
    graph = layers([1.0] * p, input_grad_s=1.0, weight_grad_s=1.0, activation_bytes=1e-6, saved_bytes=size)
    job = Job(global_batch=m, precision="fp32", optimizer="none")
    strategy = uniform(
        graph, cluster, job, stages=p, microbatch_size=1, schedule="optpipe",
        options={"offload": offload, "nodes": NODES, "seconds": 0.0},
    )  # fmt: skip
    return simulate(graph, cluster, Workload(jobs=(job,)), strategy)


@pytest.mark.parametrize(("p", "move_s"), [(2, 0.5), (3, 1.5)])
def test_the_simulator_says_the_same(p: int, move_s: float) -> None:
    """Room for one and a half microbatches: it fits, is shorter with moves, as long as the clock says."""
    plain, moved = (report_of(offload, room=1.5, move_s=move_s, p=p) for offload in (False, True))
    size = moved.timeline.prices.memory[0].activation_bytes_per_sample
    assert max(parts[ACTIVATIONS] for parts in moved.memory_parts_bytes) <= 1.5 * size
    assert moved.feasible
    assert moved.step_time_s < 0.9 * plain.step_time_s
    program = moved.timeline.program
    assert {"OFFLOAD", "FREE", "RELOAD"} <= {action.op for lane in program.order.lanes for action in lane}
    assert check_order(program.order, program.shape) == []
    found = _shortest(program.shape, 0, split=True, nodes=NODES, choices=20_000, seconds=0.0, offload=True)
    assert moved.step_time_s == pytest.approx(found.period_s, rel=1e-6)


def test_a_host_that_is_not_known_leaves_everything_on_the_device() -> None:
    shape = replace(capped(3, 2, 3, hosts=2), host_s=())
    plain, moved = (make_order("optpipe", shape, options={"offload": offload}) for offload in (False, True))
    assert plain == moved


def test_longer_steps_follow_from_the_first() -> None:
    shape = capped(0, 2, 3, hosts=2)
    one, three = (make_order("optpipe", shape, steps=steps, options={"offload": True}) for steps in (1, 3))
    assert three.steps == 3
    assert check_order(three, shape) == []
    assert [list(lane)[: len(first)] for lane, first in zip(three.lanes, one.lanes, strict=True)] == [
        list(lane) for lane in one.lanes
    ]
