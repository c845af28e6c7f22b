"""What every searcher must do, over the registry: feasible only, no worse than its start, stopped in time."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.schedules import SCHEDULES
from explorer.search import OBJECTIVES, SEARCHERS, Evaluator, Problem, Progress, search
from explorer.search._bounds import bounds_of
from explorer.search.auto import improve
from explorer.search.exhaustive import space
from explorer.search.spaces import uniform_strategies
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.strategies.uniform import uniform
from explorer.strategy import Mesh, Strategy
from explorer.workload import Job, Workload, default_workload

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
    """Every step of a search; what is heard while one takes long depends on the machine."""
    found = search(given, name, **{"max_evaluations": 25, **limits})  # type: ignore[arg-type]
    return [item for item in found if not item.waiting]


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
    assert SEARCHERS.get(name).rigid or item.best is not None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("objective", [*OBJECTIVES, "frontier"])
def test_serves_its_objectives_and_refuses_others_by_name(name: str, objective: str, problem: Make) -> None:
    known = SEARCHERS.get(name).objectives
    job = replace(JOB, samples_per_epoch=1000, epochs=((8, 1.0), (32, 2.0)))
    problem = partial(problem, workload=Workload(jobs=(job,)))
    if known and not {axis.name for axis in problem(objective=objective).axes} <= set(known):
        with pytest.raises(InputError, match=f"{name} cannot search for {objective}") as caught:
            run(name, problem(objective=objective))
        assert (caught.value.key, caught.value.allowed) == ("objective", ", ".join(known))
        return
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


BAD = [
    pytest.param(searcher.name, option.name, value, id=f"{searcher.name}-{option.name}-{value}")
    for searcher in SEARCHERS
    for option in searcher.options
    for value in (
        *(["no such choice"] if option.choices or isinstance(option.default, int) else []),
        *([str(option.minimum - 1)] if option.minimum is not None else []),
    )
]


@pytest.mark.parametrize(("name", "option", "value"), BAD)
def test_bad_values_of_options_are_named(name: str, option: str, value: str, problem: Make) -> None:
    with pytest.raises(InputError) as caught:
        list(search(problem(), name, options={option: value}))
    assert caught.value.key == option


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


def test_auto_finds_stages_with_replicas_of_their_own() -> None:
    """VGG-16 on 16 V100: PipeDream's 12-3-1 takes a third of the best uniform strategy's time."""
    graph, cluster = load_model("vgg16"), load_cluster("pipedream-a")
    workload = default_workload(graph).with_job(global_batch=256)
    given = Problem(graph=graph, cluster=cluster, workload=workload)
    alone = list(search(given, "pipedream", options={"microbatch_size": 32}))[-1].best
    found = list(search(given, "auto", max_evaluations=120))[-1].best
    assert alone is not None
    assert found is not None
    assert found.value <= alone.value
    assert SCHEDULES.get(found.strategy.job.schedule).flush


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


# ---- what searchers claim -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [item.name for item in SEARCHERS if item.optimal])
@pytest.mark.parametrize("cluster", ["dgx-1-v100", "mixed-v100-a100"])
@pytest.mark.parametrize("objective", ["time", "memory", "cost"])
def test_who_claims_the_best_of_a_space_finds_it(
    name: str, cluster: str, objective: str, problem: Make
) -> None:
    """Against all members of the space, listed by nested loops and simulated one by one."""
    members = SEARCHERS.get(name).space.members
    assert members is not None, "a space with a best has a list"
    if SEARCHERS.get(name).objectives and objective not in SEARCHERS.get(name).objectives:
        return
    given = problem(
        blocks=4, cluster=load_cluster(cluster), max_devices=4, objective=objective,
        workload=Workload(jobs=(replace(JOB, global_batch=8),)),
    )  # fmt: skip
    found = run(name, given, max_evaluations=0)[-1]
    assert found.optimal
    assert found.bound
    assert found.best is not None
    assert found.lower_bound == found.best.value
    every = [value for strategy in members(given) if (value := value_of(given, strategy)) < math.inf]
    assert len(every) > 100
    assert found.best.value == pytest.approx(min(every), rel=1e-12)


def value_of(given: Problem, strategy: Strategy) -> float:
    """The objective, in words of its own; infinite where it does not fit."""
    cluster: Cluster = given.cluster  # type: ignore[assignment]
    report = simulate(given.graph, cluster, given.workload, strategy)
    if not report.feasible:
        return math.inf
    if given.objective == "memory":
        return max(report.peak_memory_bytes)
    if given.objective == "cost":
        prices = sum(cluster.kind_of(device).price_per_hour for device in report.devices)
        return report.step_time_s * prices / 3600
    return report.step_time_s


@pytest.mark.parametrize("name", NAMES)
def test_nobody_else_claims_to_be_optimal(name: str, problem: Make) -> None:
    """Under our simulator; what is proven of a published cost model has a test of its own."""
    searcher = SEARCHERS.get(name)
    found = run(name, problem(max_devices=2, blocks=2), max_evaluations=0)
    assert found[-1].optimal is searcher.optimal
    if searcher.foreign:
        assert list(Path(__file__).parents[1].glob(f"*/test_{name}.py"))


SEEDS = range(5)


def values_by_seed(name: str, given: Problem, evaluations: int) -> list[float]:
    """What a searcher ends with, for each seed."""
    best = [run(name, replace(given, seed=seed), max_evaluations=evaluations)[-1].best for seed in SEEDS]
    return [item.value if item else math.inf for item in best]


@pytest.mark.parametrize("name", NAMES)
def test_who_is_not_stochastic_tries_the_same_whatever_the_seed(name: str, problem: Make) -> None:
    tried = [
        [
            item.new.strategy
            for item in run(name, problem(seed=seed, blocks=3), max_evaluations=60)
            if item.new
        ]
        for seed in (1, 2)
    ]
    assert SEARCHERS.get(name).stochastic or tried[0] == tried[1]


@pytest.mark.parametrize("name", [item.name for item in SEARCHERS if item.stochastic])
@pytest.mark.parametrize(("cluster", "blocks"), [("dgx-1-v100", 6), ("mixed-v100-a100", 5)])
def test_who_draws_is_no_worse_than_uniform_random_search(
    name: str, cluster: str, blocks: int, problem: Make
) -> None:
    """In as many evaluations, of its own space or, where that has no list, of the uniform strategies."""
    searcher, evaluations = SEARCHERS.get(name), 25
    given = problem(cluster=load_cluster(cluster), blocks=blocks)
    members = list((searcher.space.members or uniform_strategies)(given))
    drawn = [
        min(value_of(given, random.Random(seed * 1000 + i).choice(members)) for i in range(evaluations))
        for seed in SEEDS
    ]
    own = median(values_by_seed(name, given, evaluations))
    assert own <= median(drawn) or searcher.loses, "say in `loses` why it may be worse"


def test_random_search_can_tell(problem: Make) -> None:
    """A searcher that tries one bad strategy would be found out: luck finds better ones."""
    given = problem()
    members = list(uniform_strategies(given))
    values = sorted(value_of(given, strategy) for strategy in random.Random(0).sample(members, 40))
    assert values[0] < 0.8 * values[len(values) // 2]


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
