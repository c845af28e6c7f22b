"""Samples by speed: dealt out as no other way does better, and faster where devices are mixed."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import ExplorerError, InputError
from explorer.costs.compute import layer_times
from explorer.models.synthetic import chain
from explorer.search import Problem
from explorer.search.exhaustive import space
from explorer.simulation.check import check
from explorer.strategies.degrees import Degrees
from explorer.strategies.shares import (
    SHARINGS,
    least_makespan,
    shared_by_speed,
    sharing_of,
    with_sharing,
)
from explorer.strategy import Strategy
from explorer.workload import default_workload

MIXED = explorer.load_cluster("mixed-v100-a100")
GPT = explorer.load_model("gpt2-small")
WORKLOAD = default_workload(GPT).with_job(global_batch=64)


@settings(max_examples=60)
@given(seconds=st.lists(st.floats(0.1, 9.0), min_size=1, max_size=3), count=st.integers(0, 7))
def test_no_other_way_to_deal_out_is_done_sooner(seconds: list[float], count: int) -> None:
    taken = least_makespan(seconds, count)
    assert sum(taken) == count
    every = (way for way in product(range(count + 1), repeat=len(seconds)) if sum(way) == count)
    best = min(max(n * s for n, s in zip(way, seconds, strict=True)) for way in every)
    assert max(n * s for n, s in zip(taken, seconds, strict=True)) == pytest.approx(best)


def test_shares_follow_the_seconds_of_each_kind() -> None:
    job = Degrees(replicas=4, microbatch_size=8).build(GPT, MIXED, WORKLOAD.job, devices=(0, 1, 8, 9)).job
    shared = shared_by_speed(GPT, MIXED, WORKLOAD.job.precision, job).stages[0].shares
    each = [
        layer_times(GPT, MIXED.kind_of(device), samples=8.0, precision=WORKLOAD.job.precision).sum()
        for device in (0, 1, 8, 9)
    ]
    assert sum(shared) == 32
    assert shared[0] == shared[1] < shared[2] == shared[3]
    for slow, fast in ((0, 2), (1, 3)):  # within one sample of equal times
        assert abs(shared[slow] * each[slow] - shared[fast] * each[fast]) <= max(each)


def test_equal_devices_and_whole_microbatches_keep_theirs() -> None:
    for devices, schedule in (((8, 9, 10, 11), "1f1b"), ((0, 1, 8, 9), "swarm")):
        job = (
            Degrees(replicas=4, microbatch_size=4, schedule=schedule)
            .build(GPT, MIXED, WORKLOAD.job, devices=devices)
            .job
        )
        assert shared_by_speed(GPT, MIXED, "bf16", job) is job


def test_measured_seconds_are_the_same_on_every_kind() -> None:
    graph = chain([0.5, 0.5], backward_s=1.0)
    job = default_workload(graph).job
    strategy = Degrees(replicas=2, microbatch_size=4).build(graph, MIXED, WORKLOAD.job, devices=(0, 8))
    assert shared_by_speed(graph, MIXED, job.precision, strategy.job) == strategy.job


def test_shares_by_speed_are_legal_and_faster_on_a_mixed_cluster() -> None:
    strategy = Degrees(replicas=2, microbatch_size=16).build(GPT, MIXED, WORKLOAD.job, devices=(0, 8))
    shared = strategy.with_job(shared_by_speed(GPT, MIXED, WORKLOAD.job.precision, strategy.job))
    assert check(GPT, MIXED, WORKLOAD, shared) == []
    equal, faster = (explorer.simulate(GPT, MIXED, WORKLOAD, item) for item in (strategy, shared))
    assert faster.step_time_s < 0.8 * equal.step_time_s


def test_the_space_has_both_ways_where_replicas_are_unlike() -> None:
    points = space(Problem(graph=GPT, cluster=MIXED, workload=WORKLOAD))
    both = [point for point in points if point.by_speed]
    assert both
    for point in both[:: len(both) // 20]:
        kinds = {MIXED.kind_of(device).name for device in point.order[: point.degrees.devices]}
        assert len(kinds) == 2
    equal = explorer.load_cluster("dgx-a100-4")
    assert not any(point.by_speed for point in space(Problem(graph=GPT, cluster=equal, workload=WORKLOAD)))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_sharing_is_simulated_or_refused_in_words(data: st.DataObject) -> None:
    """Stages of 2 to 4 replicas on devices of one kind or two, one stage after another."""
    replicas = data.draw(st.integers(2, 4))
    degrees = Degrees(stages=2, replicas=replicas, microbatch_size=data.draw(st.sampled_from((1, 2, 4))))
    order = data.draw(st.permutations(range(16)))
    workload = WORKLOAD.with_job(global_batch=48)
    job = degrees.build(GPT, MIXED, workload.job, devices=tuple(order[: 2 * replicas])).job
    for stage in data.draw(st.lists(st.integers(0, 1), max_size=3)):
        how = data.draw(st.sampled_from(SHARINGS))
        try:
            made = with_sharing(GPT, MIXED, "fp16", job, (stage,), how)
            explorer.simulate(GPT, MIXED, workload, Strategy(jobs=(made,)))
        except ExplorerError as error:
            refused = str(error)
            assert "replicas" in refused
            continue
        assert sharing_of(made.stages[stage]) == how
        assert made.stages[1 - stage] == job.stages[1 - stage]
        job = made


def test_a_word_that_is_none_and_equal_replicas_are_refused() -> None:
    job = Degrees(replicas=2, microbatch_size=2).build(GPT, MIXED, WORKLOAD.job, devices=(0, 1)).job
    with pytest.raises(InputError, match="unknown sharing"):
        with_sharing(GPT, MIXED, "fp16", job, (0,), "fair")
    with pytest.raises(InputError, match="equally fast replicas"):
        with_sharing(GPT, MIXED, "fp16", job, (0,), "speed")
