"""The list of what is wrong with a strategy: every kind of mistake is found, and nothing right is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError, PlanError
from explorer.simulation.check import MOST_ROUNDS, check
from explorer.strategies.degrees import Degrees
from explorer.strategy import Boundary, JobStrategy, Mesh, Sharding, Slice, Stage, Strategy, Sync
from tests.random_plans import Case, even_cases, pipeline, uneven_cases

Change = Callable[[JobStrategy], JobStrategy]


def good() -> Case:
    return pipeline([1.0] * 3, [1.0] * 3, microbatches=4)


def stage_with(number: int = 0, **changes: object) -> Change:
    def change(job: JobStrategy) -> JobStrategy:
        stages = list(job.stages)
        stages[number] = replace(stages[number], **changes)  # type: ignore[arg-type]
        return job.with_stages(stages)

    return change


def job_with(**changes: object) -> Change:
    return lambda job: replace(job, **changes)  # type: ignore[arg-type]


WRONG: list[tuple[Change, str]] = [
    (stage_with(layers=("layers.7",)), "unknown layers layers.7"),
    (stage_with(layers=("layers.7",)), "layers in no stage: layers.0"),
    (stage_with(layers=("layers.0", "layers.1")), "layers in more than one stage: layers.1"),
    (stage_with(meshes=(Mesh(devices=(12,)),)), "devices 12 do not exist; cluster 'random' has 0 to 11"),
    (
        stage_with(meshes=(Mesh(devices=(0,)), Mesh(devices=(5,)))),
        "stage 1: has 1 copies where the strategy has 2",
    ),
    (
        stage_with(microbatch_samples=3),
        "stage 0: microbatches of 3 samples do not divide the global batch of 4; nearest that do: 2 and 4",
    ),
    (stage_with(meshes=(Mesh(devices=(0, 5)),)), "1 samples cannot be split over 2 replicas; use 2 or more"),
    (
        stage_with(meshes=(Mesh(devices=(0, 5, 6)),), replicas="round_robin"),
        "4 microbatches do not go round 3 replicas",
    ),
    (stage_with(layout=(("ffn", "tensor"),)), "layout names mesh axis 'tensor', but the mesh has none"),
    (
        stage_with(shardings=(Sharding(layers=("layers.0",), meshes=(Mesh(devices=(4,)),)),)),
        "sharding of layers.0 uses devices outside its stage",
    ),
    (
        stage_with(shardings=(Sharding(layers=("layers.0",), layout=(("heads", "expert"),)),)),
        "over axis 'expert'",
    ),
    (stage_with(slices=(Slice(layer="layers.0", dim="out", start=0.0, stop=0.5),)), "layers.0"),
    (job_with(schedule="sideways"), "unknown schedule 'sideways'"),
    (job_with(options=(("depth", 3),)), "1f1b has no option 'depth'"),
    (
        job_with(boundaries=(Boundary(source=0, target=9, codec="fp16"),)),
        "boundary 0 -> 9 names a missing stage",
    ),
    (job_with(sync=(Sync(parameters=("*",), method="telepathy"),)), "unknown sync method 'telepathy'"),
    (lambda job: job.with_stages(job.stages[::-1]), "feeds the earlier stage"),
    (lambda job: job.with_stages(job.stages[:2]), "layers in no stage: layers.2"),
]


@pytest.mark.parametrize(("change", "part"), WRONG, ids=[part[:40] for _, part in WRONG])
def test_a_mistake_is_found(change: Change, part: str) -> None:
    case = good()
    found = check(case.graph, case.cluster, case.workload, case.strategy.with_job(change(case.strategy.job)))
    assert any(part in problem for problem in found), found
    assert all("\n" not in problem for problem in found)


def test_mistakes_of_all_stages_are_listed_together() -> None:
    case = good()
    job = case.strategy.job
    for number in range(3):
        job = stage_with(number, microbatch_samples=3)(job)
    job = job_with(schedule="sideways")(job)
    found = check(case.graph, case.cluster, case.workload, case.strategy.with_job(job))
    assert len(found) == 4
    assert [problem[:7] for problem in found[:3]] == ["stage 0", "stage 1", "stage 2"]


@settings(max_examples=60)
@given(case=st.one_of(even_cases("1f1b"), uneven_cases()))
def test_nothing_right_is_refused(case: Case) -> None:
    assert check(case.graph, case.cluster, case.workload, case.strategy) == []


@pytest.mark.parametrize("batch", [10**9, 10**30, 10**9 + 7])
def test_a_batch_that_no_memory_holds_is_refused_at_once(batch: int) -> None:
    case = good()
    workload = case.workload.with_job(global_batch=batch)
    found = check(case.graph, case.cluster, workload, case.strategy)
    assert any("larger microbatches, a smaller global batch" in item for item in found)


def test_a_step_as_long_as_can_be_laid_out_is_not_refused() -> None:
    case = good()
    most = MOST_ROUNDS // len(case.strategy.job.stages) * case.strategy.job.stages[0].microbatch_samples
    assert check(case.graph, case.cluster, case.workload.with_job(global_batch=most), case.strategy) == []


def test_a_slice_needs_a_dimension_and_all_of_the_layer() -> None:
    graph = explorer.load_model("gpt2-small")
    name = next(layer.name for layer in graph.layers if layer.kind == "linear")
    dim = next(dim.name for dim in graph.layer[name].dims if dim.splittable)
    rest = tuple(layer.name for layer in graph.layers if layer.name != name)
    cluster = explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=2)

    def problems(*parts: Slice) -> list[str]:
        stage = Stage(layers=rest, slices=parts, meshes=(Mesh(devices=(0,)),))
        return check(graph, cluster, workload, Strategy(jobs=(JobStrategy(stages=(stage,)),)))

    half = Slice(layer=name, dim=dim, start=0.0, stop=0.5)
    assert any("end at 0.5" in item for item in problems(half))
    assert any("leave or repeat" in item for item in problems(half, replace(half, start=0.4, stop=1.0)))
    assert any("cut along" in item for item in problems(replace(half, dim="nothing", stop=1.0)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stage(layers=(), meshes=(Mesh(devices=(0,)),)),
        lambda: Stage(layers=("a",), meshes=(Mesh(devices=(0,)),), microbatch_samples=0),
        lambda: Stage(layers=("a",), meshes=(Mesh(devices=(0,)),), shares=(1.0, 1.0)),
        lambda: Stage(layers=("a",), meshes=(Mesh(devices=(0,)),), zero=4),
        lambda: Mesh(devices=(0, 0)),
        lambda: Mesh(devices=(0, 1), axes=(("replica", 3),)),
        lambda: Slice(layer="a", dim="d", start=0.5, stop=0.5),
        lambda: JobStrategy(stages=()),
        lambda: Strategy(jobs=()),
    ],
)
def test_impossible_values_refuse_themselves(make: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize(("apart", "zero_replicas"), [(False, 0), (True, 0), (False, 2)])
def test_zero_gives_a_device_one_part(zero: int, apart: bool, zero_replicas: int) -> None:
    """Copies of a stage may share devices unless ZeRO shards over both."""
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph)
    strategy = Degrees(stages=2, replicas=2, schedule="chimera").build(graph, cluster, workload.job)
    stages = [
        replace(
            stage, zero=zero, zero_replicas=zero_replicas * (zero > 0),
            meshes=stage.meshes if apart else stage.meshes[:1] * 2,
        )
        for stage in strategy.job.stages
    ]  # fmt: skip
    changed = strategy.with_job(strategy.job.with_stages(stages))
    if zero and not apart and not zero_replicas:
        with pytest.raises(PlanError, match=r"several copies on devices 0, 1 under ZeRO"):
            explorer.simulate(graph, cluster, workload, changed)
    else:
        assert explorer.simulate(graph, cluster, workload, changed).step_time_s > 0
