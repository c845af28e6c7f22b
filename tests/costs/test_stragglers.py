"""Stragglers: order statistics in closed form, and how many wait for whom."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from explorer.base.extremes import slowest_of
from explorer.cluster import Cluster, DeviceKind
from explorer.cluster_profiles import load_cluster
from explorer.costs.stragglers import lane_factor, stage_factor
from explorer.models import load_model
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

SPREAD = 0.02


def test_small_numbers_of_draws_in_closed_form() -> None:
    root = math.sqrt(math.pi)
    exact = {1: 0.0, 2: 1 / root, 3: 1.5 / root, 4: 6 / root * math.atan(math.sqrt(2)) / math.pi}
    for number, expected in exact.items():
        assert slowest_of(number) == pytest.approx(expected, abs=1e-5)


def test_many_draws_grow_below_the_bound_of_the_extreme_value_law() -> None:
    found = [slowest_of(2**k) for k in range(1, 15)]
    assert all(a < b for a, b in pairwise(found))
    for k, value in enumerate(found, 1):
        assert value < math.sqrt(2 * math.log(2**k))
    draws = np.random.default_rng(1).standard_normal((20_000, 64)).max(axis=1)
    assert slowest_of(64) == pytest.approx(draws.mean(), abs=4 * draws.std() / math.sqrt(len(draws)))


def _spread(cluster: Cluster, spread: float) -> Cluster:
    kinds = [replace(kind, device_spread=spread, lockstep_wait=0.0) for kind in cluster.device_kinds]
    return replace(cluster, device_kinds=tuple(kinds))


def _kind(spread: float, wait: float) -> DeviceKind:
    kind = load_cluster("dgx-a100").device_kinds[0]
    return replace(kind, device_spread=spread, lockstep_wait=wait)


def test_factors() -> None:
    kinds = (_kind(0.01, 0.0), _kind(0.02, 0.0))
    assert lane_factor(kinds, 1) == stage_factor(kinds, 1) == 1.0
    assert lane_factor(kinds, 8) == stage_factor(kinds, 8) == 1.0 + 0.02 * slowest_of(8)
    assert lane_factor((_kind(0.0, 0.05),), 64) == 1.05  # a profile from before
    assert stage_factor((_kind(0.0, 0.05),), 64) == 1.0


@pytest.mark.parametrize(("zero", "tensor"), [(0, 1), (3, 1), (0, 8)])
def test_more_devices_are_never_faster_at_equal_work_of_each(zero: int, tensor: int) -> None:
    graph = load_model("gpt2-small", sequence_length=256)
    one = load_cluster("dgx-a100")
    before = 0.0
    for nodes in (1, 2, 8):
        cluster = _spread(replace(one, nodes=(replace(one.nodes[0], count=nodes),)), SPREAD)
        replicas = 8 * nodes // tensor
        job = Job(global_batch=2 * replicas, sequence_length=256)
        strategy = Degrees(replicas=replicas, tensor=tensor, zero=zero).build(graph, cluster, job)
        found = simulate(graph, cluster, Workload(jobs=(job,)), strategy).step_time_s
        assert found > before
        before = found


def test_a_spread_slows_a_stage_by_all_devices_that_meet_and_none_without_training() -> None:
    graph = load_model("gpt2-small", sequence_length=256)
    plain, spread = (_spread(load_cluster("dgx-a100"), value) for value in (0.0, SPREAD))
    for mode in ("train", "infer"):
        job = Job(mode=mode, global_batch=8, sequence_length=256)
        strategy = Degrees(replicas=8).build(graph, plain, job)
        times = []
        for cluster in (plain, spread):
            line = simulate(graph, cluster, Workload(jobs=(job,)), strategy).timeline
            pricer = line.prices.pricer
            times.append(pricer.section_time(0, 0, 1).forward_s)
        factor = 1.0 + SPREAD * slowest_of(8) if mode == "train" else 1.0
        assert times[1] == pytest.approx(factor * times[0], rel=1e-12)
