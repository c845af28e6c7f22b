"""Stanza: its closed form beside simulated steps, every split of small clusters, what workers send, cuts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.library._ideal import free_cluster
from explorer.models import load_model
from explorer.models.synthetic import chain
from explorer.planners._pieces.stage_costs import stage_costs
from explorer.planners.stanza import Part, Split, cuts_of, splits, step_s
from explorer.search import Problem, search
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Mesh, Stage, single
from explorer.workload import Job, Workload, default_workload

CONV, CUT, DENSE = 60.0, 10.0, 900.0
"""Bytes of the convolutions' weights, of a sample's activations between the parts, of the dense weights."""


def small(devices: int, batch: int, bandwidth: float = 1.0, dense_s: float = 1.0) -> Problem:
    """A convolution of 4 s forward and 8 s back, and a dense layer, a sample."""
    graph = chain([4.0, dense_s], activation_bytes=[CUT, 0.0], parameter_bytes=[CONV, DENSE])
    workload = Workload(jobs=(Job(global_batch=batch, precision="fp32", optimizer="none"),))
    return Problem(graph=graph, cluster=free_cluster(devices, bandwidth), workload=workload)


def all_splits(problem: Problem, size: int) -> list[Split]:
    cluster = problem.needed_cluster
    costs = stage_costs(problem, cluster, [cluster.kind_of(0)], size)
    groups = [(device,) for device in problem.order]
    return [item for item in splits(problem, costs, groups, [1], size) if item is not None]


def simulated(problem: Problem, split: Split, size: int) -> Report:
    names = tuple(layer.name for layer in problem.graph.layers)
    parts = [(names[: split.cut], split.first), (names[split.cut :], split.second)]
    stages = tuple(
        Stage(layers=layers, meshes=(Mesh(devices=devices),), microbatch_samples=size)
        for layers, devices in parts
        if layers
    )
    strategy = single(stages=stages, schedule="gpipe")
    return simulate(problem.graph, problem.needed_cluster, problem.workload, strategy)


def test_one_microbatch_passes_there_and_back() -> None:
    """C = 1, C' = 2, D = 3, D' = 5, X = 0.5, X' = 0.25; reductions of 10 and 1."""
    first, second = (Part(*(np.array(item) for item in part)) for part in ((1.0, 2.0, 10.0), (3.0, 5.0, 1.0)))
    there, back = np.array(0.5), np.array(0.25)
    assert step_s(first, second, there, back, 1) == 4.5 + 7.25 + 10.0
    assert step_s(first._replace(reduce_s=np.array(0.0)), second, there, back, 1) == 4.5 + 7.25
    idle = second._replace(reduce_s=np.array(40.0))
    assert step_s(first, idle, there, back, 1) == 4.5 + 5.0 + 40.0
    assert step_s(first, second, there, back, 4) == 4.5 + 3 * 3.0 + 7.25 + 3 * 5.0 + 10.0


@pytest.mark.parametrize(("batch", "size"), [(12, 12), (12, 6), (24, 6), (24, 12)])
def test_the_closed_form_is_the_simulated_step(batch: int, size: int) -> None:
    """On numbers of devices that share microbatches evenly."""
    problem = small(4, batch)
    checked = 0
    for split in all_splits(problem, size):
        if size % len(split.first) == 0 and not (split.second and size % len(split.second)):
            checked += 1
            assert simulated(problem, split, size).makespan_s == pytest.approx(split.seconds, rel=1e-9)
    assert checked == 9 + (size % 4 == 0)  # all layers on 1, 2, 3 or 4 devices, and 6 pairs


@pytest.mark.parametrize(("bandwidth", "dense_s"), [(1.0, 1.0), (10.0, 1.0), (100.0, 1.0), (10.0, 8.0)])
def test_no_split_is_simulated_faster(bandwidth: float, dense_s: float) -> None:
    """Every split of six devices; between numbers that do not divide, X is not exact."""
    problem = small(6, 12, bandwidth, dense_s)
    found = sorted(all_splits(problem, 12))
    assert len(found) == 6 + 15
    seconds = [simulated(problem, split, 12).makespan_s for split in found]
    assert seconds[0] <= min(seconds) * 1.02


def test_workers_send_what_the_paper_says() -> None:
    """2 (N - 1) / N of the convolutions' weights and the activations of its samples; else of all."""
    problem = small(4, 12)
    by_counts = {(len(s.first), len(s.second)): s for s in all_splits(problem, 12)}
    separated = simulated(problem, by_counts[3, 1], 12).traffic_bytes
    sent = [sum(size for (source, _), size in separated.items() if source == by) for by in range(4)]
    assert sent[:3] == pytest.approx([2 * 2 / 3 * CONV + 4 * CUT] * 3)
    assert sent[3] == pytest.approx(12 * CUT)
    together = simulated(problem, by_counts[4, 0], 12).traffic_bytes
    assert sum(together.values()) / 4 == pytest.approx(2 * 3 / 4 * (CONV + DENSE))


def first_behind(graph: LayerGraph, where: str) -> list[str]:
    given = Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=default_workload(graph))
    cluster = given.needed_cluster
    work = stage_costs(given, cluster, [cluster.kind_of(0)], 8).work
    return [graph.layers[min(work.members[v])].name for v in cuts_of(graph, work, where)]


def test_the_cut_is_before_the_first_dense_layer() -> None:
    assert first_behind(load_model("vgg16"), "dense") == ["fc6"]
    assert first_behind(load_model("alexnet"), "dense") == ["fc6"]
    assert len(first_behind(load_model("alexnet"), "any")) > 10
    plain = chain([1.0] * 4)
    assert first_behind(plain, "dense") == first_behind(plain, "any") == [f"layers.{i}" for i in (1, 2, 3)]


def vgg(batch: int, cluster: str) -> Problem:
    graph = load_model("vgg16")
    workload = default_workload(graph).with_job(global_batch=batch)
    return Problem(graph=graph, cluster=load_cluster(cluster), workload=workload)


def test_separation_pays_on_slow_links() -> None:
    """VGG-16 on 16 devices behind 10 Gb/s: faster than all layers on all of them."""
    given = vgg(240, "ethernet-10g-4x4")
    found = [item.new for item in search(given, "stanza") if item.new is not None]
    best = min(found, key=lambda item: item.rank)
    stages = best.strategy.job.stages
    assert len(stages) == 2
    assert stages[1].layers[0] == "fc6"
    assert len(stages[0].meshes[0].devices) > len(stages[1].meshes[0].devices)
    even = list(search(given, "even", options={"stages": "1"}))[-1].best
    assert even is not None
    assert best.value < even.value


def test_one_device_has_all_layers() -> None:
    found = list(search(replace(vgg(8, "dgx-1-v100"), max_devices=1), "stanza"))[-1].best
    assert found is not None
    assert len(found.strategy.job.stages) == 1


def test_any_cut_may_be_better_than_before_the_dense_layers() -> None:
    """A decoder-like chain whose heavy weights end in the middle."""
    graph = chain([1.0, 1.0, 1.0], activation_bytes=[100.0, 1.0, 0.0], parameter_bytes=[900.0, 900.0, 1.0])
    workload = Workload(jobs=(Job(global_batch=4, precision="fp32", optimizer="none"),))
    given = Problem(graph=graph, cluster=free_cluster(3, 1.0), workload=workload)
    best = list(search(given, "stanza", options={"cut": "any"}))[-1].best
    assert best is not None
    assert [stage.layers for stage in best.strategy.job.stages] in (
        [("layers.0", "layers.1"), ("layers.2",)],
        [("layers.0", "layers.1", "layers.2")],
    )
