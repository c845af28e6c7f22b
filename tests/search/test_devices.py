"""Which devices searches use: proposals, their order, and pools to choose from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.search import Problem, search
from explorer.search._devices import PROPOSERS, USUAL, Pool, orders_of
from explorer.workload import default_workload
from tests.support.clusters import alike

MIXED = alike(explorer.load_cluster("mixed-v100-a100"))  # 2 nodes of 4 V100, one of 8 A100
EQUAL = explorer.load_cluster("dgx-a100-4")
GPT = explorer.load_model("gpt2-small")
WORKLOAD = default_workload(GPT).with_job(global_batch=64)


def pool(cluster: explorer.Cluster = MIXED, devices: tuple[int, ...] = (), count: int = 0) -> Pool:
    chosen = devices or tuple(range(cluster.device_count))
    return Pool(cluster=cluster, devices=chosen, count=count or len(chosen), precision="bf16")


@pytest.mark.parametrize("name", PROPOSERS)
@given(devices=st.lists(st.integers(0, 15), min_size=1, unique=True), data=st.data())
def test_proposals_are_different_devices_of_those_allowed(
    name: str, devices: list[int], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(devices)))
    for order in orders_of(pool(devices=tuple(devices), count=count), (name,)):
        assert len(set(order)) == len(order) <= count
        assert set(order) <= set(devices)
        assert order


def test_each_proposer_on_a_mixed_cluster() -> None:
    v100, a100 = tuple(range(8)), tuple(range(8, 16))
    assert orders_of(pool(), ("in_order",)) == (v100 + a100,)
    assert orders_of(pool(), ("fastest_first",)) == (a100 + v100,)
    assert orders_of(pool(), ("by_kind",)) == (a100, v100)
    assert orders_of(pool(), ("drop_slowest",)) == (a100,)
    assert orders_of(pool(count=8), ("whole_nodes",)) == (a100,)
    assert orders_of(pool(), ("scatter",))[0][:6] == (0, 4, 8, 1, 5, 9)
    assert orders_of(pool(), ("fewer",)) == (a100, a100[:4], a100[:2], a100[:1])


def test_the_order_that_was_given_is_kept_inside_a_kind() -> None:
    given_order = (15, 3, 9, 0)
    assert orders_of(pool(devices=given_order), ("in_order",)) == (given_order,)
    assert orders_of(pool(devices=given_order), ("fastest_first",)) == ((15, 9, 3, 0),)


def test_equal_devices_have_one_order() -> None:
    assert orders_of(pool(EQUAL, count=16), USUAL) == (tuple(range(16)),)


def test_unknown_proposers_and_devices_are_refused() -> None:
    with pytest.raises(InputError, match="no proposer"):
        orders_of(pool(), ("by_luck",))
    for wrong in ({"devices": (0, 99)}, {"devices": (1, 1)}, {"max_devices": -1}):
        with pytest.raises(InputError):
            Problem(graph=GPT, cluster=MIXED, workload=WORKLOAD, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("searcher", "most"), [("auto", 8), ("auto", 0), ("exhaustive", 0)])
def test_the_fast_half_of_a_mixed_cluster_is_found(searcher: str, most: int) -> None:
    problem = Problem(graph=GPT, cluster=MIXED, workload=WORKLOAD, max_devices=most)
    best = list(search(problem, searcher, max_evaluations=60))[-1].best
    assert best is not None
    of_half = replace(problem, devices=tuple(range(8, 16)))
    least = list(search(of_half, searcher, max_evaluations=60))[-1].best
    assert least is not None
    assert best.value <= least.value
    half = best.strategy.job.devices == tuple(range(8, 16))
    assert half == ("on 8-15" in best.label)
    if not half:  # more devices are taken only for something better than what the half can do
        assert best.value < least.value


@pytest.mark.parametrize("searcher", ["even", "megatron", "local", "exhaustive", "auto", "pipedream"])
def test_only_the_named_devices_are_used_in_the_order_of_ranks(searcher: str) -> None:
    allowed = (7, 5, 6, 4)
    problem = Problem(graph=GPT, cluster=EQUAL, workload=WORKLOAD, devices=allowed)
    for progress in search(problem, searcher, max_evaluations=12):
        if progress.new is not None:
            assert set(progress.new.strategy.job.devices) <= set(allowed)
    best = progress.best
    assert best is not None
    ranks = [d for stage in best.strategy.job.stages for d in stage.meshes[0].devices]
    first = list(dict.fromkeys(ranks))
    assert first == [device for device in allowed if device in first]
