"""An evaluation after a change costs what changed and the stages, never the devices."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.cluster import Cluster, NodeGroup
from explorer.simulation.one_job import clear_programs, simulate_job
from explorer.strategies.moves import move_boundary
from explorer.strategy import JobStrategy, Sync
from explorer.tasks.placement import place

REPLICAS = (16, 64, 128)
"""Enough for every replica to reach other nodes, as more of them do."""


def of_size(cluster: Cluster, devices: int) -> Cluster:
    """The cluster with so many devices."""
    group = cluster.nodes[0]
    return replace(cluster, nodes=(NodeGroup(
        count=devices // group.devices_per_node, device_kind=group.device_kind,
        devices_per_node=group.devices_per_node,
    ),))  # fmt: skip


def calls_of(work: Callable[[], Any]) -> int:
    """Python calls that something makes: what it costs, whatever the machine does beside."""
    count = 0

    def profile(_frame: FrameType, event: str, _value: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("choices", [{}, {"zero": 1, "recompute": "full"}, {"zero": 3}], ids=str)
def test_a_known_structure_costs_the_same_on_more_devices(choices: dict[str, Any]) -> None:
    graph = explorer.load_model("gpt2-small")
    calls, items = [], []
    for replicas in REPLICAS:
        cluster = of_size(explorer.load_cluster("dgx-a100-128"), 8 * replicas)
        job = explorer.default_workload(graph).with_job(global_batch=4 * replicas).job
        strategy = explorer.uniform(
            graph, cluster, job, stages=4, tensor=2, replicas=replicas, microbatches=4, **choices
        ).job
        both = [strategy, move_boundary(graph, strategy, 2, 3, 1)]
        for item in (*both, *both):
            report = simulate_job(graph, cluster, job, item)
        calls.append(calls_of(lambda: simulate_job(graph, cluster, job, both[0])))  # noqa: B023 - at once
        items.append(report.timeline.program.size)
    assert len(set(items)) == 1, "replicas are folded: the tasks are the same"
    assert max(calls) <= 1.02 * min(calls)


def test_a_moved_layer_keeps_the_skeleton() -> None:
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    job = explorer.default_workload(graph).with_job(global_batch=16).job
    strategy = explorer.uniform(graph, cluster, job, stages=4, replicas=2).job
    moved = move_boundary(graph, strategy, 1, 2, 1)
    again = explorer.uniform(graph, cluster, job, stages=4, replicas=2).job
    assert again.stages[0] is not strategy.stages[0]
    one, other, third = (place(graph, item).skeleton for item in (strategy, moved, again))
    assert one is other
    assert one is third
    assert place(graph, moved).layers[1] is not place(graph, strategy).layers[1]


CHOICES: dict[str, Callable[[JobStrategy], JobStrategy]] = {
    "plain": lambda job: job,
    "server": lambda job: replace(job, sync=(Sync(parameters=("*embed*",), method="parameter_server"),)),
    "buckets": lambda job: replace(job, sync=(Sync(parameters=("*",), bucket_bytes=2.5e7),)),
    "full": lambda job: replace(job, stages=tuple(replace(s, recompute="full") for s in job.stages)),
    "shards": lambda job: replace(job, stages=tuple(replace(s, zero=1) for s in job.stages)),
    "broadcast": lambda job: replace(job, transfers="broadcast"),
}
"""Choices that change what a stage, its groups or its transfers cost."""


@settings(max_examples=12)
@given(data=st.data())
def test_what_is_kept_never_shows(data: st.DataObject) -> None:
    """After any series of edits a report is that of objects which nothing is kept of."""
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    job = explorer.default_workload(graph).with_job(global_batch=8).job
    strategy = explorer.uniform(graph, cluster, job, stages=4, replicas=2, tensor=1).job
    for _ in range(data.draw(st.integers(2, 5))):
        edge, units = data.draw(st.integers(0, 2)), data.draw(st.sampled_from([-1, 1]))
        with suppress(InputError):
            strategy = move_boundary(graph, strategy, edge, edge + 1, units)
        chosen = CHOICES[data.draw(st.sampled_from(sorted(CHOICES)))](strategy)
        warm = simulate_job(graph, cluster, job, chosen)
        clear_programs()
        cold = simulate_job(
            replace(graph), replace(cluster), replace(job), pickle.loads(pickle.dumps(chosen))
        )
        for name in ("step_time_s", "makespan_s", "memory_parts_bytes", "busy_s", "mfu", "lane_devices"):
            assert getattr(warm, name) == getattr(cold, name), name
        assert (warm.timeline.prices.seconds == cold.timeline.prices.seconds).all()
        assert (warm.timeline.prices.bytes == cold.timeline.prices.bytes).all()
