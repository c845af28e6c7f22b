"""Pools: node groups of which more nodes may be taken than are where nobody chooses."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.cluster import Cluster
from explorer.search import Problem, search
from explorer.simulation.check import check
from explorer.strategies.degrees import Degrees
from explorer.sweep.devices import with_devices
from explorer.workload import default_workload

FOUR = explorer.load_cluster("dgx-a100-4")  # 4 nodes of 8
GPT = explorer.load_model("gpt2-small")
WORKLOAD = default_workload(GPT).with_job(global_batch=64)


def pool(count: int, most: int, second: int = 0) -> Cluster:
    """A group of `count` to `most` nodes, and after it `second` more nodes of another."""
    group = replace(FOUR.nodes[0], count=count, max_count=most)
    groups = (group, replace(group, count=second, max_count=0)) if second else (group,)
    return replace(FOUR, nodes=groups)


def test_all_nodes_of_a_pool_are_numbered_and_those_present_come_first() -> None:
    cluster = pool(1, 3, second=1)
    assert cluster.pools
    assert cluster.device_count == 32
    assert cluster.present == (*range(8), *range(24, 32))
    assert cluster.order == (*range(8), *range(24, 32), *range(8, 24))
    assert [cluster.node_of(device) for device in (0, 8, 23, 24)] == [0, 1, 2, 3]
    assert not FOUR.pools
    assert FOUR.order == FOUR.present == tuple(range(32))


def test_a_pool_costs_as_the_cluster_with_all_its_nodes() -> None:
    whole, chosen = pool(3, 0), pool(1, 3)
    for degrees in (Degrees(replicas=16, zero=1), Degrees(stages=3, replicas=8), Degrees(tensor=8, stages=3)):
        workload = WORKLOAD.with_job(global_batch=64 if degrees.replicas != 24 else 24)
        strategy = degrees.build(GPT, whole, workload.job)
        assert degrees.build(GPT, chosen, workload.job) == strategy
        assert check(GPT, chosen, workload, strategy) == []
        one, other = (explorer.simulate(GPT, c, workload, strategy) for c in (whole, chosen))
        assert one.step_time_s == other.step_time_s
        assert one.peak_memory_bytes == other.peak_memory_bytes


def test_where_nobody_chooses_the_nodes_present_are_taken() -> None:
    cluster = pool(1, 3, second=1)
    strategy = Degrees(replicas=16).build(GPT, cluster, WORKLOAD.job)
    assert strategy.job.devices == cluster.present
    larger = Degrees(replicas=32).build(GPT, cluster, WORKLOAD.job)
    assert larger.job.devices == tuple(range(32))


@pytest.mark.parametrize("objective", ["time", "cost"])
def test_searches_take_as_many_nodes_as_pay(objective: str) -> None:
    """Against every number of nodes by itself; the price counts the devices in use only."""
    cluster = pool(1, 4)
    alone = []
    for count in (1, 2, 4):
        problem = Problem(
            graph=GPT, cluster=cluster, workload=WORKLOAD, objective=objective,
            devices=tuple(range(8 * count)),
        )  # fmt: skip
        best = list(search(problem, "exhaustive", options={"max_stages": 4, "max_zero": 1}))[-1].best
        assert best is not None
        alone.append(best.value)
    chosen = Problem(graph=GPT, cluster=cluster, workload=WORKLOAD, objective=objective)
    last = list(search(chosen, "exhaustive", options={"max_stages": 4, "max_zero": 1}))[-1]
    assert last.optimal
    assert last.best is not None
    assert last.best.value == pytest.approx(min(alone), rel=1e-12)
    if objective == "cost":
        price = cluster.kind_of(0).price_per_hour * len(last.best.strategy.job.devices) / 3600
        assert last.best.value == pytest.approx(last.best.report.step_time_s * price)
        assert len(last.best.strategy.job.devices) < 32
    else:
        assert len(last.best.strategy.job.devices) > 8


def test_more_nodes_than_a_pool_has_end_it() -> None:
    grown = with_devices(pool(1, 3), 30)
    assert not grown.pools
    assert grown.device_count == 32
