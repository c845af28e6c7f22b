"""Uneven stages: the best partition against all partitions, listed and simulated."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models.synthetic import chain
from explorer.search import Evaluator, Problem
from explorer.search._blocks import Block
from explorer.search._open_layouts import OpenLayouts
from explorer.search._partition import best_partition, least_of_partitions
from explorer.search._standing import Standing
from explorer.search._uneven_stages import Line, UnevenStages, is_line
from explorer.simulation.simulate import simulate
from explorer.strategies.cuts import units
from explorer.workload import Job, Workload, default_workload


def partitions(size: int, positions: int) -> Iterator[tuple[int, ...]]:
    """All bounds of so many stages of units."""
    for cuts in combinations(range(1, size), positions - 1):
        yield (0, *cuts, size)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 7),
    positions=st.integers(1, 4),
    count=st.integers(1, 6),
    limited=st.booleans(),
)
def test_the_best_of_all_listed_partitions(
    seed: int, size: int, positions: int, count: int, limited: bool
) -> None:
    luck = np.random.default_rng(seed)
    shape = (size + 1, size + 1)
    once = [luck.uniform(0.1, 5.0, shape) for _ in range(positions)]
    after = [luck.uniform(0.0, 3.0, shape) for _ in range(positions)]
    fits = [luck.uniform(size=shape) < 0.8 for _ in range(positions)] if limited else None
    crossing = [luck.uniform(0.0, 1.0, size + 1) for _ in range(positions - 1)]

    def longest(bounds: tuple[int, ...]) -> float:
        begun, path, alone = 0.0, 0.0, 0.0
        for r, (i, k) in enumerate(pairwise(bounds)):
            if fits is not None and not fits[r][i, k]:
                return np.inf
            path = max(path, begun + count * once[r][i, k])
            alone = max(alone, count * once[r][i, k] + after[r][i, k])
            begun += once[r][i, k] + (crossing[r][k] if r < positions - 1 else 0.0)
        return max(alone, path + after[0][0, bounds[1]])

    wanted = min(map(longest, partitions(size, positions)), default=np.inf)
    found = best_partition(once, crossing, count, after_s=after, fits=fits)
    if found is None:
        assert wanted == np.inf
    else:
        assert found.least_s == pytest.approx(wanted, rel=1e-12)
        assert longest(found.bounds) == pytest.approx(wanted, rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(
    loads=st.lists(st.floats(0.1, 9.0), min_size=2, max_size=8),
    positions=st.integers(1, 4),
    count=st.integers(1, 8),
)
def test_the_closed_form_is_below_every_partition(loads: list[float], positions: int, count: int) -> None:
    positions = min(positions, len(loads))
    done = np.concatenate([[0.0], np.cumsum(loads)])
    once = [done[None, :] - done[:, None]] * positions
    found = best_partition(once, [np.zeros(len(done))] * (positions - 1), count)
    least = least_of_partitions(np.array([done[-1]]), np.array([count]), np.array([positions]))
    assert found is not None
    assert least[0] <= found.least_s * (1 + 1e-12)
    if positions == 1 or count == 1:
        assert least[0] == pytest.approx(max(1, count) * done[-1] if positions == 1 else done[-1])


def drawn(seed: int, decoder: Callable[..., LayerGraph]) -> Problem:
    """A random small problem whose pipelines are lines."""
    luck = random.Random(seed)
    if seed % 2:
        graph = chain(
            [luck.choice((1.0, 2.0, 5.0)) for _ in range(luck.choice((5, 7)))], activation_bytes=1e6
        )
        workload = default_workload(graph).with_job(global_batch=luck.choice((4, 6)))
    else:
        graph = decoder(luck.choice((3, 5)), luck.choice((256, 1024)))
        workload = Workload(jobs=(Job(global_batch=luck.choice((4, 8)), precision="fp16", optimizer="adam"),))
    cluster = luck.choice(("dgx-1-v100", "mixed-v100-a100", "ethernet-10g-4x4"))
    devices = {"dgx-1-v100": (0, 1, 2, 3), "mixed-v100-a100": (0, 8, 1, 9), "ethernet-10g-4x4": (0, 1, 4, 5)}
    return Problem(
        graph=graph, cluster=load_cluster(cluster), workload=workload, devices=devices[cluster], seed=seed,
        schedule=luck.choice(("1f1b", "gpipe", "eager_1f1b")),
        memory_limit_bytes=2.0**30 if seed % 4 == 0 else 0.0,
    )  # fmt: skip


def groups(problem: Problem) -> Iterator[tuple[Block, int]]:
    """All groups of lines of at least two positions."""
    layouts = OpenLayouts(Standing(problem, Evaluator(problem=problem)))
    while (unseen := layouts.closed.unseen) is not None:
        list(layouts.look_at(unseen))
    blocks = []
    while (closed := layouts.weakest()) is not None:
        blocks += [block for block in layouts.make(closed) if block is not None]
    for block in blocks:
        for group in range(len(block.guess)):
            if is_line(block) and block.grids[group, 0] > 1:
                yield block, group


@pytest.mark.parametrize("seed", range(12))
def test_no_simulated_partition_is_below_the_best_one(seed: int, decoder: Callable[..., LayerGraph]) -> None:
    """All partitions of some groups are simulated; that which is offered is about the best of them."""
    problem, luck = drawn(seed, decoder), random.Random(seed)
    uneven = UnevenStages(problem)
    tried = 0
    found = list(groups(problem))
    for block, group in luck.sample(found, min(4, len(found))):
        degrees, line = block.degrees(group), Line(problem, block, group, uneven.bounds)
        zero = luck.choice((0, 1, 3)) if degrees.replicas > 1 else 0
        best = line.partition(zero, 0.0)
        times = {}
        for bounds in partitions(len(units(problem.graph)), degrees.stages):
            cuts = [int(uneven.bounds[unit]) for unit in bounds[1:-1]]
            plan = degrees.changed(zero=zero).build(
                problem.graph, problem.needed_cluster, problem.job, devices=block.order, cuts=cuts
            )
            report = simulate(problem.graph, problem.needed_cluster, problem.workload, plan)
            assert report.step_time_s >= line.least_s * (1 - 1e-9)
            if report.feasible and problem.over_bytes(report) <= 0:
                assert best is not None
                assert report.step_time_s >= best.least_s * (1 - 1e-9), (degrees.label, bounds)
                times[bounds] = report.step_time_s
        offered = best and line.moved(best.bounds, zero, 0.0)
        if offered in times:
            tried += 1
            assert times[offered] <= 1.05 * min(times.values()), degrees.label
    assert tried or problem.memory_limit_bytes
