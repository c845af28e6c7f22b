"""WAP: every number of devices for every node of small lines, idle watts, fewer devices for small batches."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.planners._pieces.fleet import fleet_of
from explorer.planners._pieces.line import line_of
from explorer.planners.wap import Costs, best_counts, charges, costs_of
from explorer.search import Problem, search
from explorer.workload import default_workload


def total(costs: Costs, charge: list[float], chosen: tuple[int, ...]) -> float:
    """What a choice costs, node by node."""
    value = sum(costs.node_s[v][c] * charge[c] for v, c in enumerate(chosen))
    for v in range(1, len(chosen)):
        a, b = chosen[v - 1 : v + 1]
        value += costs.move_s[v][a][b] * max(charge[a], charge[b])
    return value


@pytest.mark.parametrize("seed", range(3))
def test_no_choice_of_devices_is_better(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        n, counts = draw.randint(1, 6), (1, 2, 4)
        move = np.array([[[draw.uniform(0, 1) for _ in counts] for _ in counts] for _ in range(n)])
        move *= 1 - np.eye(3)
        costs = Costs(counts, np.array([[draw.uniform(0, 2) for _ in counts] for _ in range(n)]), move)
        charge = [draw.choice([1.0, draw.uniform(0.5, 3)]) for _ in range(draw.randint(1, 3))]
        every = itertools.product(range(len(charge)), repeat=n)
        least = min(total(costs, charge, chosen) for chosen in every)
        assert total(costs, charge, best_counts(costs, charge)) == pytest.approx(least, rel=1e-12)


def vgg(batch: int, objective: str = "time") -> Problem:
    graph = load_model("vgg16")
    workload = default_workload(graph).with_job(global_batch=batch)
    return Problem(graph=graph, cluster=load_cluster("pipedream-a"), workload=workload, objective=objective)


def chosen_of(problem: Problem) -> list[int]:
    """Devices of every node, by time."""
    fleet = fleet_of(problem)
    devices = tuple(device for group in fleet.order for device in group)
    costs, _ = costs_of(problem, fleet, devices, problem.job.global_batch)
    return [costs.counts[c] for c in best_counts(costs, charges(problem, devices, costs.counts))]


def test_a_small_batch_gets_fewer_devices() -> None:
    """VGG-16 on four servers of four: fewer at a batch of 16 than of 256; never many for dense layers."""
    small, large = chosen_of(vgg(16)), chosen_of(vgg(256))
    assert max(small) < max(large)
    assert sum(small) < sum(large)


def test_idle_devices_are_charged_for() -> None:
    kind = vgg(16).needed_cluster.kind_of(0)
    busy, idle = kind.busy_watts, kind.idle_watts
    assert charges(vgg(16, "energy"), tuple(range(16)), (1, 4)) == (busy + 3 * idle, 4 * busy)
    assert charges(vgg(16), tuple(range(16)), (1, 4)) == (1.0, 1.0)


@pytest.mark.parametrize(("objective", "small", "large"), [("time", 4, 16), ("energy", 1, 2)])
def test_what_is_simulated_best_has_fewer_devices_for_a_small_batch(
    objective: str, small: int, large: int
) -> None:
    for batch, count in ((16, small), (256, large)):
        best = list(search(vgg(batch, objective), "wap"))[-1].best
        assert best is not None
        assert len(best.strategy.job.devices) == count
        assert f"{16 - count} idle" in best.label


def test_layers_that_do_not_pay_lie_on_fewer_devices_and_simulate() -> None:
    found = [item.new for item in search(vgg(64), "wap") if item.new is not None]
    assert any(item.strategy.job.stages[0].shardings for item in found)
    assert len({item.strategy for item in found}) == len(found)


@pytest.mark.parametrize(("cluster", "batch"), [("dgx-1-v100", 24), ("mixed-v100-a100", 20)])
def test_counts_that_do_not_divide_the_batch_or_kinds_that_differ(cluster: str, batch: int) -> None:
    given = replace(vgg(batch), cluster=load_cluster(cluster), max_devices=6)
    best = list(search(given, "wap"))[-1].best
    assert best is not None
    assert set(best.strategy.job.devices) <= set(given.order)
    one = list(search(replace(given, max_devices=1), "wap"))[-1].best
    assert one is not None
    assert best.value < one.value


def test_microbatches_are_made_smaller_until_a_plan_fits() -> None:
    """VGG-16 at 256 samples on one device fits neither whole nor with recomputation."""
    found = list(search(replace(vgg(256), max_devices=1), "wap"))[-1].best
    assert found is not None
    assert found.strategy.job.stages[0].microbatch_samples < 256


def test_samples_move_as_their_shares_do() -> None:
    """From 1 to 4 of 16 bytes: 12 leave the one; from 2 to 4: 4 leave each of the two."""
    problem = vgg(16)
    fleet = fleet_of(problem)
    costs, work = costs_of(problem, fleet, tuple(problem.order), 16)
    path = fleet.cluster.path(0, 1)
    sent, at = line_of(work).sent_bytes, 1
    for a, few in enumerate((1, 2)):
        seconds = 2 * path.latency_s + sent[at] * (1 / few - 1 / 4) / path.bandwidth_bytes_per_s
        assert costs.move_s[at, a, 2] == pytest.approx(seconds, rel=1e-12)
        assert costs.move_s[at, 2, a] == costs.move_s[at, a, 2]
