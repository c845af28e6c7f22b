"""Twins: pricing one section of each kind gives the numbers of pricing every section, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.costs.group_tiers import alike_groups, span_of
from explorer.costs.layer_codes import layer_codes
from explorer.graph import Layer, LayerGraph
from explorer.models import load_model
from explorer.pricing import twins
from explorer.simulation.one_job import clear_programs
from explorer.simulation.report import Report
from explorer.strategies.degrees import Degrees
from explorer.strategy import Strategy
from explorer.workload import Job, Workload

CLUSTER = "dgx-a100-128"


def llama() -> LayerGraph:
    return load_model("llama3-8b", sequence_length=512)


def job(**more: Any) -> Job:
    return Job(global_batch=64, sequence_length=512, **more)


def built(graph: LayerGraph, cluster: Cluster, work: Job, **degrees: Any) -> Strategy:
    return Degrees(schedule="interleaved_1f1b", **degrees).build(graph, cluster, work)


def apart(monkeypatch: pytest.MonkeyPatch, graph: LayerGraph, work: Job, strategy: Strategy) -> Report:
    """Return the report of a strategy whose sections were all priced by themselves."""
    with monkeypatch.context() as patch:
        patch.setattr(twins, "FEWEST", 10**9)
        return report(graph, work, strategy)


def report(graph: LayerGraph, work: Job, strategy: Strategy) -> Report:
    clear_programs()
    return explorer.simulate(graph, load_cluster(CLUSTER), Workload(jobs=(work,)), strategy)


def equal(found: Report, expected: Report) -> None:
    ours, theirs = found.timeline.prices, expected.timeline.prices
    for name in ("seconds", "comm_s", "bytes", "lane_bytes", "memory_bytes", "flops"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert found.step_time_s == expected.step_time_s


@pytest.mark.parametrize(
    "degrees",
    [
        {"stages": 4, "chunks": 4},
        {"stages": 4, "chunks": 4, "replicas": 4, "zero": 1},
        {"stages": 4, "chunks": 8, "replicas": 4, "zero": 3, "recompute": "full"},
        {"stages": 2, "chunks": 8, "replicas": 4, "zero": 2, "bucket_bytes": 25 * 2**20},
        {"stages": 2, "chunks": 16, "tensor": 4, "sequence_parallel": True, "replicas": 2},
        {"stages": 8, "chunks": 2, "tensor": 2, "context": 2, "recompute": "selective"},
    ],
)
def test_prices_are_those_of_every_section_by_itself(
    monkeypatch: pytest.MonkeyPatch, degrees: dict[str, Any]
) -> None:
    graph, work = llama(), job()
    strategy = built(graph, load_cluster(CLUSTER), work, microbatch_size=2, **degrees)
    equal(report(graph, work, strategy), apart(monkeypatch, graph, work, strategy))


def test_few_sections_are_priced_where_blocks_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, work = llama(), job()
    strategy = built(graph, load_cluster(CLUSTER), work, stages=4, chunks=8)
    asked: list[object] = []
    found = twins.twins_of

    def counted(*given: Any) -> Any:
        of = found(*given)
        return lambda section: asked.append(of(section)) or asked[-1]

    monkeypatch.setattr("explorer.pricing.prices.twins_of", counted)
    report(graph, work, strategy)
    # a middle one on each of four positions, the two ends, and their neighbours, by other layers
    assert len(asked) == 32
    assert len(set(asked)) <= 4 + 2 + 2


def test_stages_that_choose_otherwise_are_no_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, work = llama(), job()
    strategy = built(graph, load_cluster(CLUSTER), work, stages=4, chunks=4)
    stages = list(strategy.job.stages)
    stages[5] = replace(stages[5], recompute="full")
    stages[6] = replace(stages[6], offload=("optimizer",))
    changed = strategy.with_job(strategy.job.with_stages(stages))
    equal(report(graph, work, changed), apart(monkeypatch, graph, work, changed))
    plain = report(graph, work, strategy).timeline.prices
    assert not np.array_equal(report(graph, work, changed).timeline.prices.seconds, plain.seconds)


def test_codes_tell_where_blocks_begin() -> None:
    """Two layers of one block and the last and first of two blocks are different runs of one layer's kind."""
    graph = llama()
    same: dict[int, list[Layer]] = {}
    for layer, code in zip(graph.layers, layer_codes(graph), strict=True):
        same.setdefault(code, []).append(layer)
    before = {b.name: a.block for a, b in zip(graph.layers, graph.layers[1:], strict=False)}
    for layers in same.values():
        begins = {layer.block != before.get(layer.name, "") for layer in layers}
        assert len(begins) == 1


@pytest.mark.parametrize("name", ["dgx-a100-128", "ethernet-10g-4x4", "pipedream-a"])
def test_groups_with_one_number_have_equal_tiers(name: str) -> None:
    cluster = load_cluster(name)
    assert not cluster.links  # groups of which are asked for one by one
    random = np.random.default_rng(7)
    for size in (2, 4, 8):
        if size > cluster.device_count:
            continue
        rows = [random.permutation(cluster.device_count)[:size] for _ in range(60)]
        first = random.integers(0, cluster.device_count - size + 1, 60)
        groups = np.array(rows + [np.arange(size) + start for start in first])
        tiers: dict[int, object] = {}
        for number, group in zip(alike_groups(cluster, groups).tolist(), groups.tolist(), strict=True):
            assert tiers.setdefault(number, span_of(cluster, tuple(group)).tiers) == (
                span_of(cluster, tuple(group)).tiers
            )
        assert len(tiers) < len(groups)
