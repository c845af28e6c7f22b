"""Pins and bans: every searcher respects them, cuts follow them, and local search goes on from what holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.search import REFUSED, SEARCHERS, Evaluator, Problem, search
from explorer.search._pins import allowed_cuts, bits_of, fit_cuts, rules_of
from explorer.search.local import SUFFIX, descend, neighbours
from explorer.search.problem import respecting, respects
from explorer.simulation.simulate import simulate
from explorer.strategies.cuts import default_weights, units
from explorer.strategies.uniform import uniform
from explorer.strategy import JobStrategy
from explorer.workload import Job, Workload

NAMES = SEARCHERS.names()
JOB = Job(global_batch=8, precision="fp16", optimizer="adam")
DEVICES = 4


def held(graph: LayerGraph, job: JobStrategy, names: set[str]) -> dict[str, tuple[tuple[str, int], ...]]:
    """Pins and bans that keep layers exactly where a strategy has them."""
    where = {
        name: {device for mesh in stage.meshes for device in mesh.devices}
        for stage in job.stages
        for name in stage.layers
    }
    return {
        "pins": tuple((name, device) for name in graph.index if name in names for device in where[name]),
        "bans": tuple(
            (name, device)
            for name in graph.index if name in names
            for device in range(DEVICES) if device not in where[name]
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def problem(decoder: Callable[..., LayerGraph]) -> Problem:
    graph, cluster = decoder(5, 256, 128), load_cluster("dgx-1-v100")
    start = uniform(graph, cluster, JOB, stages=2, replicas=2, microbatch_size=1)
    return Problem(
        graph=graph, cluster=cluster, workload=Workload(jobs=(JOB,)), max_devices=DEVICES, start=start
    )


def naive(problem: Problem, job: JobStrategy) -> bool:
    """Whether pins and bans hold, pair by pair."""
    places = {
        name: {device for stage in job.stages if name in stage.layers for mesh in stage.meshes
               for device in mesh.devices}
        for name in problem.graph.index
    }  # fmt: skip
    return all(d in places[n] for n, d in problem.pins) and not any(d in places[n] for n, d in problem.bans)


@given(data=st.data())
@settings(max_examples=12)
@pytest.mark.parametrize("name", NAMES)
def test_no_best_of_any_searcher_breaks_a_pin(name: str, problem: Problem, data: st.DataObject) -> None:
    """Pinned layers and a locked lane, from a start that is itself arbitrary."""
    graph = problem.graph
    blocks = units(graph)
    cut = data.draw(st.integers(1, len(blocks) - 1))
    start = uniform(
        graph, problem.cluster, JOB, stages=2, replicas=2, microbatch_size=1, cuts=[blocks[cut][0]]
    )  # type: ignore[arg-type]
    pinned = data.draw(st.sets(st.sampled_from([layer.name for layer in graph.layers]), max_size=3))
    if data.draw(st.booleans()):
        pinned |= set(start.job.stages[0].layers)  # as a locked lane does
    asked = replace(problem, start=start, seed=data.draw(st.integers(0, 3)), **held(graph, start.job, pinned))
    if not SEARCHERS.get(name).starts:
        asked = replace(asked, start=None)
    for item in search(asked, name, max_evaluations=12):
        assert item.best is None or naive(asked, item.best.strategy.job)
        assert item.new is None or naive(asked, item.new.strategy.job)
        if asked.start is not None and item.best is not None:
            first = simulate(graph, asked.cluster, asked.workload, start)  # type: ignore[arg-type]
            assert item.best.value <= first.step_time_s


@given(data=st.data())
@settings(max_examples=60)
def test_rules_say_what_the_pairs_say(problem: Problem, data: st.DataObject) -> None:
    pairs = st.lists(
        st.tuples(st.sampled_from(sorted(problem.graph.index)), st.integers(0, DEVICES - 1)), max_size=4
    )
    asked = replace(problem, pins=tuple(data.draw(pairs)), bans=tuple(data.draw(pairs)))
    cut = data.draw(st.integers(1, len(units(asked.graph)) - 1))
    strategy = uniform(
        asked.graph, asked.cluster, JOB, stages=2, replicas=2, cuts=[units(asked.graph)[cut][0]]
    )  # type: ignore[arg-type]
    assert respects(asked, strategy) == naive(asked, strategy.job)
    other = respecting(asked, strategy)
    assert other is None or naive(asked, other.job)
    if naive(asked, strategy.job):
        assert other is strategy


@given(data=st.data())
@settings(max_examples=40)
def test_cuts_are_the_most_even_that_the_rules_allow(problem: Problem, data: st.DataObject) -> None:
    graph = problem.graph
    spans = units(graph)
    stages = uniform(graph, problem.cluster, JOB, stages=3, replicas=1).job.stages  # type: ignore[arg-type]
    names = [graph.layers[a].name for a, _ in spans]
    some = st.lists(st.tuples(st.sampled_from(names), st.integers(0, 2)), max_size=3)
    rules = rules_of(data.draw(some), data.draw(some))
    each = default_weights(graph)

    def cost(cuts: tuple[int, ...]) -> float:
        ends = [0, *cuts, len(spans)]
        total = 0.0
        for stage, (a, b) in zip(stages, itertools.pairwise(ends), strict=True):
            layers = range(spans[a][0], spans[b - 1][1])
            if not all(rules.allows(graph.layers[k].name, bits_of(stage)) for k in layers):
                return np.inf
            total += (sum(each[k] for k in layers) / sum(each)) ** 8
        return total

    every = {cuts: cost(cuts) for cuts in itertools.combinations(range(1, len(spans)), 2)}
    found = allowed_cuts(graph, rules, stages, spans)
    if found is None:
        assert min(every.values()) == np.inf
    else:
        positions = {a: i for i, (a, _) in enumerate(spans)}
        assert every[tuple(positions[cut] for cut in found)] == pytest.approx(min(every.values()), rel=1e-9)


def test_a_pin_inside_a_block_cuts_the_block(problem: Problem) -> None:
    graph = problem.graph
    a, b = next((a, b) for a, b in units(graph) if b - a > 3)
    first, last = graph.layers[a].name, graph.layers[b - 1].name
    strategy = uniform(graph, problem.cluster, JOB, stages=2, replicas=1)  # type: ignore[arg-type]
    job = fit_cuts(graph, rules_of([(first, 0), (last, 1)], ()), strategy.job)
    assert job is not None
    assert first in job.stages[0].layers
    assert last in job.stages[1].layers
    assert fit_cuts(graph, rules_of([(first, 1), (last, 0)], ()), strategy.job) is None  # against the order


def test_a_searcher_whose_space_respects_no_pin_says_how_many_it_refused(problem: Problem) -> None:
    graph = problem.graph
    first = graph.layers[0].name
    backwards = replace(
        problem, start=None, pins=((first, 3), (graph.layers[-1].name, 0)), bans=((first, 0),)
    )
    last = list(search(backwards, "megatron"))[-1]
    assert last.best is None
    assert last.evaluations == 0
    assert last.details[REFUSED] > 0


def test_a_candidate_that_only_needs_another_cut_gets_it(problem: Problem) -> None:
    late = problem.graph.layers[units(problem.graph)[-3][0]].name
    asked = replace(problem, start=None, pins=((late, 0),), bans=((problem.graph.layers[-1].name, 0),))
    found = list(search(asked, "even", options={"stages": 2, "replicas": 2}))[-1]
    assert found.best is not None
    assert found.best.label == "pp 2 x dp 2, even, cut to respect pins"
    assert late in found.best.strategy.job.stages[0].layers
    assert REFUSED not in found.details


# ---- local search -------------------------------------------------------------------------------


def test_neighbours_are_different_legal_and_respect_pins(problem: Problem) -> None:
    graph = problem.graph
    assert problem.start is not None
    layers = set(problem.start.job.stages[0].layers[:4])
    asked = replace(problem, **held(graph, problem.start.job, layers))
    first = Evaluator(problem=asked).evaluate(problem.start, "start")
    assert first is not None
    jobs = list(neighbours(asked, first))
    kinds = {
        "cut": sum(job.stages[0].layers != first.strategy.job.stages[0].layers for job in jobs),
        "recompute": sum(any(s.recompute != "none" for s in job.stages) for job in jobs),
        "zero": sum(any(s.zero for s in job.stages) for job in jobs),
        "microbatch": sum(job.stages[0].microbatch_samples != 2 for job in jobs),
    }
    assert all(kinds.values()), kinds
    for job in jobs:
        assert job != first.strategy.job
        assert naive(asked, job)
        assert sorted(n for s in job.stages for n in s.layers) == sorted(graph.index)
    free = list(neighbours(problem, first))
    assert len(free) > len(jobs)


def test_it_finds_the_best_cut_from_a_bad_one(problem: Problem) -> None:
    """Two stages without replicas and one microbatch size: the cut is all there is, and it has one valley."""
    graph = problem.graph
    job = replace(JOB, global_batch=5)
    spans = units(graph)

    def at(cut: int) -> object:
        return uniform(graph, problem.cluster, job, stages=2, microbatch_size=1, cuts=[spans[cut][0]])  # type: ignore[arg-type]

    asked = replace(problem, workload=Workload(jobs=(job,)), max_devices=2, start=at(len(spans) - 1))  # type: ignore[arg-type]
    best = list(search(asked, "local"))[-1].best
    values = [
        simulate(graph, asked.cluster, asked.workload, at(cut)).step_time_s  # type: ignore[arg-type]
        for cut in range(1, len(spans))
    ]
    assert best is not None
    assert best.value <= min(values)
    assert best.label == "start" + SUFFIX


def test_a_start_that_does_not_fit_is_brought_to_fit(decoder: Callable[..., LayerGraph]) -> None:
    graph, cluster = decoder(6, 1024, 512), load_cluster("dgx-1-v100")
    work = Workload(jobs=(replace(JOB, global_batch=64),))
    start = uniform(graph, cluster, work.job, stages=2, replicas=2, microbatch_size=16)
    peak = max(simulate(graph, cluster, work, start).peak_memory_bytes)
    asked = Problem(
        graph=graph, cluster=cluster, workload=work, start=start, max_devices=4, memory_limit_bytes=peak / 2
    )
    best = list(search(asked, "local", max_evaluations=60))[-1].best
    assert best is not None
    assert max(best.report.peak_memory_bytes) <= peak / 2


def test_seeds_decide_and_nothing_else(problem: Problem) -> None:
    def path(seed: int) -> list[object]:
        asked = replace(problem, seed=seed)
        evaluator = Evaluator(problem=asked)
        assert asked.start is not None
        first = evaluator.evaluate(asked.start, "start")
        assert first is not None
        return [item and item.strategy for item in descend(asked, evaluator, first, kicks=2)]

    assert path(1) == path(1)
    assert path(1) != path(2)


def test_thousands_of_pins_are_asked_quickly() -> None:
    """1000 layers on 500 devices, all held: the judgement is counted in operations, not in seconds."""
    names = [f"layer{i}" for i in range(1000)]
    rules = rules_of(
        ((name, i % 500) for i, name in enumerate(names)),
        ((name, d) for i, name in enumerate(names[:200]) for d in range(500) if d != i % 500),
    )
    assert rules.allows("layer3", 1 << 3)
    assert not rules.allows("layer3", 1 << 4)
    assert not rules.allows("layer3", (1 << 4) | (1 << 3))
    assert rules.allows("layer700", (1 << 4) | (1 << 200))
    assert len(rules.must) == 1000
    assert len(rules.never) == 200
