"""The allocator played over predicted steps: nothing called a fit would run out of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.cluster import Cluster, Software
from explorer.cluster.memory_room import DOES_NOT_FIT, FITS
from explorer.cluster_profiles import load_cluster
from explorer.framework import CACHING, EXPANDABLE
from explorer.models import load_model
from explorer.simulation.allocator_replay import replay
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

GRAPH = load_model("gpt2-medium")
LAYOUTS = (
    Degrees(replicas=8, microbatch_size=4),
    Degrees(stages=4, replicas=2, microbatch_size=4),
    Degrees(stages=4, replicas=2, microbatch_size=2, recompute="full"),
    Degrees(stages=2, tensor=4, microbatch_size=8, schedule="gpipe"),
)


def simulated(cluster: Cluster, degrees: Degrees) -> explorer.Report:
    job = Job(global_batch=64, sequence_length=1024, precision="bf16", optimizer="adamw")
    return explorer.simulate(GRAPH, cluster, Workload(jobs=(job,)), degrees.build(GRAPH, cluster, job))


def of_size(memory_bytes: float) -> Cluster:
    cluster = load_cluster("hgx-h100")
    kinds = tuple(replace(kind, memory_bytes=memory_bytes) for kind in cluster.device_kinds)
    return replace(cluster, device_kinds=kinds)


@pytest.mark.parametrize("degrees", LAYOUTS, ids=lambda degrees: degrees.label)
def test_tensors_replayed_are_those_predicted(degrees: Degrees) -> None:
    report = simulated(load_cluster("hgx-h100"), degrees)
    for lane, tensors in enumerate(report.allocated_memory_bytes):
        found = replay(report, lane)
        assert found.fits
        assert found.allocated_bytes == pytest.approx(tensors, rel=0.1)
        assert found.allocated_bytes <= found.reserved_bytes <= 1.6 * tensors


def test_segments_that_grow_reserve_less() -> None:
    """Software that has them keeps nothing cached; its numbers on this very machine stand."""
    job = Job(global_batch=64, sequence_length=1024, precision="bf16", framework="torchtitan-2024")
    degrees, cluster = LAYOUTS[3], load_cluster("hgx-h100")
    made = degrees.build(GRAPH, cluster, job)
    report = explorer.simulate(GRAPH, cluster, Workload(jobs=(job,)), made)
    framework = report.timeline.prices.pricer.framework
    assert framework.allocator == EXPANDABLE
    grown = replay(report, 0)
    report.timeline.prices.pricer.framework = replace(framework, allocator=CACHING)
    try:
        kept = replay(report, 0)
    finally:
        report.timeline.prices.pricer.framework = framework
    assert grown.allocated_bytes == pytest.approx(kept.allocated_bytes, rel=0.01)
    assert grown.reserved_bytes <= kept.reserved_bytes
    costs = Software(cached_fraction=0.2)
    assert replace(framework, costs=costs, by_kind=()).software_on("any").cached_fraction == 0.0
    caching = replace(framework, costs=costs, by_kind=(), allocator=CACHING)
    assert caching.software_on("any").cached_fraction == 0.2


@pytest.mark.parametrize("degrees", LAYOUTS, ids=lambda degrees: degrees.label)
def test_a_plan_replayed_above_its_memory_is_not_called_a_fit(degrees: Degrees) -> None:
    roomy = simulated(load_cluster("hgx-h100"), degrees)
    peaks = [replay(roomy, lane).reserved_bytes for lane in range(len(roomy.lanes))]
    reserved = load_cluster("hgx-h100").device_kinds[0].reserved_bytes
    tight = simulated(of_size((max(peaks) + reserved) / 1.1), degrees)
    assert tight.memory_verdict != FITS
    assert simulated(of_size(0.7 * max(roomy.peak_memory_bytes)), degrees).memory_verdict == DOES_NOT_FIT
