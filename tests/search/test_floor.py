"""A floor of throughput: no searcher ends with a plan that is slower, or says why it has none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from explorer.base.errors import ExplorerError
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.search import SEARCHERS, Problem, Progress, search
from explorer.search.comparison import STOPPED, UNABLE, why_nothing
from explorer.search.side_by_side import side_by_side
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

BATCH = 16
ENOUGH = 0.8
"""Share of the throughput of four replicas that is asked for: a pipeline of four even stages does less."""


@pytest.fixture
def asked(decoder: Callable[..., LayerGraph]) -> Problem:
    graph = decoder(6)
    cluster = load_cluster("dgx-1-v100")
    workload = Workload(jobs=(Job(global_batch=BATCH, precision="fp16", optimizer="adam"),))
    plan = Degrees(replicas=4, microbatch_size=4).build(graph, cluster, workload.job)
    floor = ENOUGH * BATCH / simulate(graph, cluster, workload, plan).step_time_s
    return Problem(graph=graph, cluster=cluster, workload=workload, max_devices=4, min_samples_per_s=floor)


@pytest.mark.parametrize("name", SEARCHERS.names())
def test_every_result_of_every_searcher_reaches_the_floor(name: str, asked: Problem) -> None:
    last: Progress | None = None
    with suppress(ExplorerError):  # a model that it cannot take, or heterps, which says so
        for last in search(asked, name, max_evaluations=6):
            for found in (*last.frontier, *([last.best] if last.best else [])):
                assert BATCH / found.outcome.step_time_s >= asked.min_samples_per_s * (1 - 1e-9)
                assert found.outcome.short_samples_per_s == 0
    assert last is not None
    if last.best is None and name != "heterps":
        assert "is fast enough" in why_nothing(last)


def test_yours_is_told_to_be_too_slow_beside_the_others(asked: Problem) -> None:
    """A plan on one device among the contestants, and a floor out of reach for everybody."""
    slow = Degrees().build(asked.graph, asked.needed_cluster, asked.job)
    given = Problem(
        graph=asked.graph, cluster=asked.cluster, workload=asked.workload, max_devices=4,
        min_samples_per_s=asked.min_samples_per_s, start=slow,
    )  # fmt: skip
    *_, last = side_by_side(given, ["megatron", "even"], max_evaluations=10)
    yours, megatron, even = last.contestants
    assert yours.best is None
    assert "samples/s too slow" in yours.reason
    assert "fit" not in yours.reason
    assert megatron.best is not None
    assert megatron.best.outcome.short_samples_per_s == 0
    assert even.best is None
    assert even.state not in (UNABLE, STOPPED)
    assert "nothing that is fast enough" in even.reason
    assert last.best is megatron
