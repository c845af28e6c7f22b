"""What brute force over random problems found once, and a few problems of that campaign."""

from __future__ import annotations

import math
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.graph import LayerGraph
from explorer.models.synthetic import chain
from explorer.schedules import SCHEDULES
from explorer.schedules.placements import SNAKE, VEE
from explorer.search import Problem, search
from explorer.workload import Job, Workload

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
GIB = 2.0**30


@pytest.fixture(scope="module")
def campaign() -> Iterator[dict[str, Any]]:
    """The names of `benchmarks/brute_force.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield runpy.run_path(str(BENCHMARKS / "brute_force.py"))


@pytest.mark.parametrize("seed", [6, 12, 14, 34, 39])
def test_problems_of_the_campaign_hold(seed: int, campaign: dict[str, Any]) -> None:
    problem, luck = campaign["drawn"](seed)
    found = campaign["confirm"](problem, 40, luck)
    assert found.members > 10
    assert not found.wrong


def devices(count: int, memory_bytes: float) -> Cluster:
    kind = DeviceKind(
        name="unit", memory_bytes=memory_bytes, memory_bandwidth_bytes_per_s=1e12,
        peak_flops_per_s=(("fp16", 1e12),),
    )  # fmt: skip
    inner = Level(name="inner", kind="nvlink", scope="node", latency_s=0.0, bandwidth_bytes_per_s=1e10)
    nodes = (NodeGroup(count=1, device_kind="unit", devices_per_node=count),)
    return Cluster(name="units", device_kinds=(kind,), nodes=nodes, levels=(inner,))


def test_what_a_position_holds_is_asked_of_the_placement() -> None:
    """Heavy layers 0, 1 and 3 are on different devices only if stages go there and back."""
    graph = chain([1.0] * 6, parameter_bytes=[4e8, 4e8, 4e6, 4e8, 4e6, 4e6])
    job = Job(global_batch=4, precision="fp16", optimizer="adam")
    problem = Problem(graph=graph, cluster=devices(3, 2 * GIB), workload=Workload(jobs=(job,)))
    best = list(search(problem, "auto"))[-1].best
    assert best is not None
    assert SCHEDULES.get(best.strategy.job.schedule).placement in (SNAKE, VEE)


def test_a_bound_counts_what_is_just_being_simulated(decoder: Callable[..., LayerGraph]) -> None:
    job = Job(global_batch=4, precision="fp16", optimizer="adam")
    problem = Problem(
        graph=decoder(2, 256), cluster=devices(1, math.inf), workload=Workload(jobs=(job,)),
        objective="memory", schedule="1f1b",
    )  # fmt: skip
    course = list(search(problem, "auto"))
    best = course[-1].best
    assert best is not None
    assert max(item.lower_bound or 0.0 for item in course) <= best.value


@pytest.mark.parametrize("schedule", ["", "gpipe"])
def test_a_model_that_tensor_parallelism_cannot_split_is_enumerated(schedule: str) -> None:
    job = Job(global_batch=4, precision="fp16", optimizer="adam")
    problem = Problem(
        graph=chain([1.0] * 3, parameter_bytes=4e6), cluster=devices(2, math.inf),
        workload=Workload(jobs=(job,)), schedule=schedule,
    )  # fmt: skip
    last = list(search(problem, "exhaustive"))[-1]
    assert last.best is not None
    assert last.optimal
