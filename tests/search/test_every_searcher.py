"""What every searcher must do, over the registry: feasible only, no worse than its start, stopped in time."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.search import OBJECTIVES, SEARCHERS, Evaluator, Problem, Progress, search
from explorer.search._bounds import bounds_of
from explorer.search.auto import improve
from explorer.search.exhaustive import space
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.strategies.uniform import uniform
from explorer.strategy import Mesh
from explorer.workload import Job, Workload

NAMES = SEARCHERS.names()
Make = Callable[..., Problem]
JOB = Job(global_batch=16, precision="fp16", optimizer="adam")


@pytest.fixture
def problem(decoder: Callable[..., LayerGraph]) -> Make:
    def make(**changes: object) -> Problem:
        fields: dict[str, object] = {
            "graph": decoder(changes.pop("blocks", 6)),
            "cluster": load_cluster("dgx-1-v100"),
            "workload": Workload(jobs=(JOB,)),
            "max_devices": 4,
            **changes,
        }
        return Problem(**fields)  # type: ignore[arg-type]

    return make


def run(name: str, given: Problem, **limits: object) -> list[Progress]:
    return list(search(given, name, **{"max_evaluations": 25, **limits}))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_finds_something_feasible_that_simulates_to_its_value(name: str, problem: Make) -> None:
    given = problem()
    best = run(name, given)[-1].best
    assert best is not None
    report = simulate(given.graph, given.cluster, given.workload, best.strategy)
    assert report.feasible
    assert report.step_time_s == best.value
    assert max(best.strategy.job.devices) < 4


@pytest.mark.parametrize("name", NAMES)
def test_is_deterministic_and_never_worsens(name: str, problem: Make) -> None:
    first, second = run(name, problem(seed=3)), run(name, problem(seed=3))
    assert [item.best and item.best.strategy for item in first] == [
        item.best and item.best.strategy for item in second
    ]
    values = [item.best.value for item in first if item.best is not None]
    assert values == sorted(values, reverse=True)
    assert first[-1].evaluations <= 25
    assert all(item.best is None or math.isfinite(item.best.value) for item in first)


@pytest.mark.parametrize("name", NAMES)
def test_is_never_worse_than_its_start(name: str, problem: Make) -> None:
    given = problem()
    start = run("exhaustive", given, max_evaluations=200)[-1].best
    assert start is not None
    found = run(name, replace(given, start=start.strategy), max_evaluations=3)
    assert found[0].best is not None
    assert found[0].best.value == start.value
    assert found[-1].best.value <= start.value


@pytest.mark.parametrize("name", NAMES)
def test_stops_when_its_time_is_up(name: str, problem: Make) -> None:
    ticks = itertools.count()
    found = list(search(problem(), name, budget_s=3.0, clock=lambda: float(next(ticks))))
    assert len(found) <= 4  # the clock moves once for every yield


@pytest.mark.parametrize("name", NAMES)
def test_ends_by_itself_and_no_bound_exceeds_the_best(name: str, problem: Make) -> None:
    given = problem(max_devices=2)
    for item in run(name, given, max_evaluations=0):
        if item.best is not None and item.lower_bound is not None:
            assert item.lower_bound <= item.best.value * (1 + 1e-12)
            assert given.lower_bound() <= item.best.value


@pytest.mark.parametrize("name", NAMES)
def test_respects_pins_and_bans(name: str, problem: Make) -> None:
    layers = problem().graph.layers
    first, last = layers[0].name, layers[-1].name
    given = problem(pins=((first, 0),), bans=((last, 0),))
    for item in run(name, given):
        if item.best is not None:
            places = {
                layer: set(mesh.devices)
                for stage in item.best.strategy.job.stages
                for layer in stage.all_layers
                for mesh in stage.meshes
            }
            assert 0 in places[first]
            assert 0 not in places[last]
    assert name in ("even", "megatron") or item.best is not None  # these two may have no such candidate


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("objective", ["memory", "cost", "energy", "frontier"])
def test_serves_every_objective(name: str, objective: str, problem: Make) -> None:
    found = run(name, problem(objective=objective), max_evaluations=8)[-1]
    assert found.best is not None
    assert found.objective in (*OBJECTIVES, "frontier")
    times = [item.report.step_time_s for item in found.frontier]
    peaks = [max(item.report.peak_memory_bytes) for item in found.frontier]
    assert times == sorted(times)
    assert peaks == sorted(peaks, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_memory_limit_holds(name: str, problem: Make) -> None:
    free = run(name, problem())[-1].best
    assert free is not None
    limit = 0.9 * max(free.report.peak_memory_bytes)
    found = run(name, problem(memory_limit_bytes=limit))[-1].best
    assert found is None or max(found.report.peak_memory_bytes) <= limit


@pytest.mark.parametrize("name", NAMES)
def test_refuses_options_it_does_not_have(name: str, problem: Make) -> None:
    with pytest.raises(InputError, match="no option 'colour'"):
        list(search(problem(), name, options={"colour": "red"}))


@pytest.mark.parametrize("name", NAMES)
def test_refuses_to_search_without_a_cluster(name: str, problem: Make) -> None:
    with pytest.raises(InputError, match="cluster"):
        list(search(problem(cluster=None), name))


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("exhaustive", {"max_chunks": "0"}, "max_chunks"),
        ("exhaustive", {"max_stages": "-1"}, "max_stages"),
        ("exhaustive", {"max_zero": "4"}, "max_zero"),
        ("auto", {"patience": "0"}, "patience"),
        ("auto", {"patience": "long"}, "patience"),
        ("even", {"stages": "x"}, "stages"),
        ("megatron", {"recompute": "some"}, "recompute"),
    ],
)
def test_bad_options_are_named(name: str, options: dict[str, str], key: str, problem: Make) -> None:
    with pytest.raises(InputError) as caught:
        list(search(problem(), name, options=options))
    assert caught.value.key == key


def test_an_unknown_searcher_is_answered_with_the_known_ones(problem: Make) -> None:
    with pytest.raises(InputError) as caught:
        list(search(problem(), "oracle"))
    assert set(NAMES) <= set(str(caught.value.allowed).split(", "))


def test_auto_is_never_worse_than_its_parts(problem: Make) -> None:
    parts = [run(name, problem(), max_evaluations=0)[-1].best for name in ("megatron", "exhaustive")]
    whole = run("auto", problem(), max_evaluations=0)[-1]
    assert whole.best is not None
    assert all(part is not None and whole.best.value <= part.value for part in parts)
    assert not whole.optimal  # its best may lie outside of the uniform strategies


def test_auto_moves_boundaries_of_an_uneven_model(problem: Make) -> None:
    # five blocks on three devices that may not be replicated: only the cuts are left to choose
    given = problem(blocks=5, workload=Workload(jobs=(replace(JOB, global_batch=7),)), max_devices=3)
    index = given.graph.index
    cuts = [index["layers.1.attention.norm"], index["layers.2.attention.norm"]]
    start = uniform(given.graph, given.cluster, given.workload.job, stages=3, microbatch_size=1, cuts=cuts)
    evaluator = Evaluator(problem=given)
    before = evaluator.evaluate(start, "start")
    assert [item for item in improve(given, evaluator) if item is not None]
    assert before is not None
    assert evaluator.best is not None
    assert evaluator.best.value < before.value
    assert evaluator.best.label == "start, boundaries moved"


# ---- exhaustive against brute force -------------------------------------------------------------


@pytest.mark.parametrize("cluster", ["dgx-1-v100", "mixed-v100-a100"])
@pytest.mark.parametrize("objective", ["time", "memory", "cost"])
def test_exhaustive_is_the_best_of_its_space(cluster: str, objective: str, problem: Make) -> None:
    given = problem(
        blocks=4, cluster=load_cluster(cluster), max_devices=4, objective=objective,
        workload=Workload(jobs=(replace(JOB, global_batch=8),)),
    )  # fmt: skip
    found = run("exhaustive", given, max_evaluations=0)[-1]
    assert found.optimal
    assert found.bound == "uniform strategies"
    assert found.best is not None
    assert found.lower_bound == found.best.value
    every = [item for point in brute_force(given) for item in [value(given, point)] if item is not None]
    assert len(every) > 100
    assert found.best.value == pytest.approx(min(every), rel=1e-12)


def brute_force(given: Problem) -> Iterator[dict[str, object]]:
    """All uniform strategies on devices of one kind, enumerated without the searcher's own space."""
    batch, limit = given.workload.job.global_batch, given.device_count
    paid = [n for n in range(1, limit + 1) if limit % n == 0] if given.objective == "cost" else [limit]
    cluster: Cluster = given.cluster  # type: ignore[assignment]
    firsts = {cluster.kind_of(d).name: d for d in reversed(range(cluster.device_count))}.values()
    for most, first, t, p, v in itertools.product(paid, firsts, (1, 2, 4), range(1, limit + 1), (1, 2, 4)):
        if t * p > most:
            continue
        d = max(d for d in range(1, most // (t * p) + 1) if batch % d == 0)
        for size in range(1, batch // d + 1):
            count = batch / (d * size)
            if count != int(count) or (v > 1 and (p == 1 or count % p)):
                continue
            for recompute in ("none", "selective", "full"):
                for zero in range(4 if d > 1 else 1):
                    yield {
                        "tensor": t, "stages": p, "replicas": d, "chunks": v, "microbatch_size": size,
                        "recompute": recompute, "zero": zero, "devices": range(first, first + most),
                    }  # fmt: skip


def value(given: Problem, point: dict[str, object]) -> float | None:
    cluster: Cluster = given.cluster  # type: ignore[assignment]
    try:
        strategy = uniform(given.graph, cluster, given.workload.job, **point)  # type: ignore[arg-type]
    except InputError:
        return None  # more stages than blocks
    report = simulate(given.graph, cluster, given.workload, strategy)
    if not report.feasible:
        return None
    if given.objective == "memory":
        return max(report.peak_memory_bytes)
    if given.objective == "cost":
        prices = sum(cluster.kind_of(device).price_per_hour for device in report.devices)
        return report.step_time_s * prices / 3600
    return report.step_time_s


def test_the_space_holds_each_point_once(problem: Make) -> None:
    points = space(problem())
    assert len(points) == len({point.key for point in points}) > 100
    assert all(point.degrees.devices <= 4 for point in points)


# ---- the bounds that exclude --------------------------------------------------------------------


@pytest.mark.parametrize("cluster", ["dgx-1-v100", "mixed-v100-a100", "ethernet-10g-4x4"])
def test_no_bound_exceeds_the_prediction(cluster: str, problem: Make) -> None:
    given = problem(blocks=5, cluster=load_cluster(cluster), max_devices=8)
    points = space(given)
    tight = 0
    for point in random.Random(1).sample(points, 60):
        strategy = point.strategy(given)
        report = simulate(given.graph, given.cluster, given.workload, strategy)
        found = bounds_of(given.graph, given.cluster, JOB, strategy.job, point.degrees.stages)
        least = bounds_of(given.graph, given.cluster, JOB, strategy.job, point.degrees.stages, memory="least")
        assert found.step_time_s <= report.step_time_s, point
        assert found.peak_memory_bytes <= max(report.peak_memory_bytes), point
        assert least.peak_memory_bytes <= found.peak_memory_bytes
        assert found.over_bytes <= max((o.over_bytes for o in report.overflows), default=0.0), point
        tight += found.peak_memory_bytes > 0.9 * max(report.peak_memory_bytes)
    assert tight > 30  # a bound of nothing would pass the rest


def test_no_bound_takes_the_slowest_replica_of_every_stage() -> None:
    """Replica 0 is slow in one stage, replica 1 in the other: no microbatch meets both."""
    graph, cluster = load_model("gpt2-small"), load_cluster("mixed-v100-a100")
    devices = ((0, 8), (9, 1))
    job = Job(global_batch=4, sequence_length=1024)
    base = uniform(graph, cluster, job, stages=2, replicas=2, microbatch_size=1)
    stages = [
        replace(stage, meshes=(Mesh(devices=found),))
        for stage, found in zip(base.job.stages, devices, strict=True)
    ]
    strategy = base.with_job(base.job.with_stages(stages))
    report = simulate(graph, cluster, Workload(jobs=(job,)), strategy)
    found = bounds_of(graph, cluster, job, strategy.job, 2)
    assert 0.7 * report.step_time_s < found.step_time_s <= report.step_time_s


def test_the_least_memory_falls_with_recomputation_and_zero(problem: Make) -> None:
    given = problem(blocks=5)
    base = next(p for p in space(given) if p.degrees == Degrees(stages=2, replicas=2, microbatch_size=4))
    peaks = {}
    for recompute, zero in itertools.product(("none", "selective", "full"), range(4)):
        point = replace(base, degrees=replace(base.degrees, recompute=recompute, zero=zero))
        job = point.strategy(given).job
        found = bounds_of(given.graph, given.cluster, JOB, job, base.degrees.stages, memory="least")
        peaks[recompute, zero] = found.peak_memory_bytes
    for (recompute, zero), peak in peaks.items():
        assert peak >= peaks["full", 3]
        assert peak <= peaks["none", zero]
        assert peak <= peaks[recompute, 0]
