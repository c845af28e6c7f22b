"""`auto` against plain lists of its space, its bounds against the simulator, and what it says of itself."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace

import pytest

from explorer.base.errors import ExplorerError, InputError
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.schedules import SCHEDULES
from explorer.search import SEARCHERS, Evaluator, Problem, objective_value, search
from explorer.search._blocks import Block
from explorer.search._branch_and_bound import BOUND, BranchAndBound
from explorer.search.problem import synchronous
from explorer.search.spaces import even_points
from explorer.simulation.simulate import simulate
from explorer.workload import Job, Workload, default_workload

JOB = Job(global_batch=8, precision="fp16", optimizer="adam")
DEVICES = {"dgx-1-v100": (0, 1, 2), "mixed-v100-a100": (0, 8, 9), "ethernet-10g-4x4": (0, 1, 4)}
SAMPLE = 60


def drawn(seed: int, decoder: Callable[..., LayerGraph]) -> Problem:
    """A random small problem."""
    luck = random.Random(seed)
    name = luck.choice(sorted(DEVICES))
    return Problem(
        graph=decoder(luck.choice((2, 3, 4)), luck.choice((256, 1024))),
        cluster=load_cluster(name),
        workload=Workload(jobs=(replace(JOB, global_batch=luck.choice((4, 6, 8))),)),
        devices=DEVICES[name],
        objective=luck.choice(("time", "memory", "cost")),
        schedule=luck.choice(("", "1f1b", "interleaved_1f1b", "zb_h1")),
        memory_limit_bytes=luck.choice((0.0, 2.0**30)),
        seed=seed,
    )


@pytest.mark.parametrize("seed", range(8))
def test_no_member_of_the_space_is_better_than_what_auto_ends_with(
    seed: int, decoder: Callable[..., LayerGraph]
) -> None:
    """A sample of all members, listed by plain loops; `benchmarks/brute_force.py` takes hundreds whole."""
    problem = drawn(seed, decoder)
    last = list(search(problem, "auto"))[-1]
    points = list(even_points(problem))
    assert len(points) > SAMPLE
    best = last.best.value if last.best is not None else math.inf
    simulated = 0
    for point in random.Random(seed).sample(points, SAMPLE):
        strategy = point.strategy(problem)
        try:
            assert strategy is not None
            report = simulate(problem.graph, problem.needed_cluster, problem.workload, strategy)
        except ExplorerError:
            continue  # a schedule that needs another shape
        simulated += 1
        assert objective_value(problem, report) >= best * (1 - 1e-9), point.degrees.label
    assert simulated > SAMPLE // 4
    if last.best is not None:
        assert last.lower_bound == pytest.approx(best, rel=1e-12)
        assert last.bound == BOUND


@pytest.mark.parametrize("name", sorted(DEVICES))
def test_bounds_never_exceed_what_is_simulated(name: str, decoder: Callable[..., LayerGraph]) -> None:
    problem = Problem(
        graph=decoder(4), cluster=load_cluster(name), workload=Workload(jobs=(JOB,)), devices=DEVICES[name]
    )
    values: list[float] = []
    least: list[float] = []
    searching = BranchAndBound(problem, Evaluator(problem=problem, max_evaluations=60))
    for found in searching.run():
        if found is not None and math.isfinite(found.value):
            values.append(found.value)
        least.append(searching.lower_bound)
    assert values
    assert least == sorted(least)
    points = random.Random(len(name)).sample(list(even_points(problem)), SAMPLE)
    for strategy in (point.strategy(problem) for point in points):
        assert strategy is not None
        with suppress(ExplorerError):  # a schedule that needs another shape
            report = simulate(problem.graph, problem.needed_cluster, problem.workload, strategy)
            values.append(report.step_time_s)
    assert len(values) > SAMPLE // 4
    assert least[-1] <= min(values)
    assert least[-1] > (problem.lower_bound() or math.inf)  # more than work over peak


def test_older_weights_are_used_only_where_they_are_allowed() -> None:
    graph, cluster = load_model("gnmt-16"), load_cluster("pipedream-a")
    workload = default_workload(graph).with_job(global_batch=256)
    for weights in ("synchronous", "any"):
        problem = Problem(graph=graph, cluster=cluster, workload=workload, weights=weights, max_devices=4)
        tried = [item.new for item in search(problem, "auto", max_evaluations=60) if item.new]
        older = [item for item in tried if not synchronous(item.strategy.job)]
        assert bool(older) is (weights == "any")
    with pytest.raises(InputError, match="weights are 'old'"):
        Problem(graph=graph, cluster=cluster, workload=workload, weights="old")


def test_every_schedule_that_trains_the_same_is_in_the_space(decoder: Callable[..., LayerGraph]) -> None:
    problem = Problem(
        graph=decoder(6), cluster=load_cluster("dgx-1-v100"), workload=Workload(jobs=(JOB,)), max_devices=4
    )
    listed = {point.degrees.schedule for point in even_points(problem)}
    wanted = {item.name for item in SCHEDULES if item.flush and item.tried}
    assert listed == wanted - {"layer_parallel"}  # which computes every microbatch several times


def test_it_says_who_found_the_best(decoder: Callable[..., LayerGraph]) -> None:
    problem = Problem(
        graph=decoder(4), cluster=load_cluster("dgx-1-v100"), workload=Workload(jobs=(JOB,)), max_devices=4
    )
    known = {"rule of thumb", "branch and bound", "small changes", *SEARCHERS.names()} - {"auto"}
    tried = [item.new for item in search(problem, "auto", max_evaluations=60) if item.new]
    assert {item.finder for item in tried} <= known
    assert len({item.finder for item in tried}) > 3


def test_nothing_fits_is_said_with_the_closest(decoder: Callable[..., LayerGraph]) -> None:
    problem = Problem(
        graph=decoder(4), cluster=load_cluster("dgx-1-v100"), workload=Workload(jobs=(JOB,)), max_devices=2,
        memory_limit_bytes=2.0**27,
    )  # fmt: skip
    last = list(search(problem, "auto", max_evaluations=40))[-1]
    assert last.best is None
    assert last.closest is not None
    assert last.closest.over_bytes > 0


def test_no_budget_ends_at_once_and_keeps_the_start(decoder: Callable[..., LayerGraph]) -> None:
    problem = Problem(
        graph=decoder(4), cluster=load_cluster("dgx-1-v100"), workload=Workload(jobs=(JOB,)), max_devices=2
    )
    assert list(search(problem, "auto", budget_s=0.0))[-1].evaluations == 0
    start = list(search(problem, "megatron"))[-1].best
    assert start is not None
    kept = list(search(replace(problem, start=start.strategy), "auto", budget_s=0.0))[-1]
    assert kept.best is not None
    assert kept.best.value == start.value


def test_what_was_learnt_of_a_group_is_not_taken_for_another(decoder: Callable[..., LayerGraph]) -> None:
    problem = Problem(
        graph=decoder(4), cluster=load_cluster("dgx-1-v100"), workload=Workload(jobs=(JOB,)), max_devices=4
    )

    def families() -> dict[Hashable, set[Block]]:
        found: dict[Hashable, set[Block]] = {}
        searching = BranchAndBound(problem, Evaluator(problem=problem, max_evaluations=12))
        for _ in searching.run():
            for point, _ in searching.points:
                found.setdefault(point.family, set()).add(point.block)
        return found

    first, again = families(), families()
    assert len(first) > 1
    assert all(len(blocks) == 1 for blocks in first.values())
    assert list(first) == list(again), "nothing depends on where a block lies in memory"
