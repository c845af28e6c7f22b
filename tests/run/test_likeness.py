"""A large plan's likeness: what is kept is kept, and what is not is said."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.run.cases.likeness import Scaled, scale
from explorer.run.judging.calibrate import uncalibrated
from explorer.run.model import forward_flops
from explorer.schedules import SCHEDULES
from explorer.simulation.check import check_job
from explorer.strategies.bare_shape import bare_shape
from explorer.strategies.uniform import uniform
from explorer.strategy import JobStrategy
from explorer.workload import Job
from tests.run.programs import EVERY

CLUSTER = load_cluster("dgx-a100-128")


def likeness(
    ranks: int, *, model: str = "gpt3-175b", cuts: list[int] | None = None, **shape: Any
) -> tuple[JobStrategy, Scaled]:
    graph = load_model(model)
    job = Job(global_batch=64, sequence_length=graph.defaults.sequence_length)
    plan = uniform(graph, CLUSTER, job, cuts=cuts, **shape).job
    return plan, scale(graph, CLUSTER, job, plan, ranks=ranks)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "shape",
    [
        {"stages": 8, "replicas": 2, "tensor": 4, "microbatches": 16},
        {"stages": 4, "chunks": 2, "microbatches": 8},
        {"stages": 1, "replicas": 8, "microbatches": 2},
        {"stages": 1},
    ],
)
def test_a_likeness_is_a_sound_plan(ranks: int, shape: dict[str, int]) -> None:
    plan, made = likeness(ranks, **shape)
    assert made.ranks <= ranks
    assert not check_job(made.graph, uncalibrated(made.ranks), made.job, made.strategy)
    assert made.strategy.schedule == plan.schedule
    assert any(plan.schedule in text for text in made.validated)
    assert any("layers themselves" in text for text in made.not_validated)
    if shape.get("tensor"):
        assert any("tensor parallelism" in text for text in made.not_validated)
    if shape.get("chunks"):
        lanes = [stage.meshes[0].devices for stage in made.strategy.stages]
        assert len(lanes) == 2 * made.ranks, "chunks go round the ranks as before"
        assert lanes[: made.ranks] == lanes[made.ranks :]


def test_the_ratio_of_stage_times_is_kept() -> None:
    graph = load_model("gpt2-xl")
    cut = next(i for i, layer in enumerate(graph.layers) if layer.block == "layers.12")  # a quarter of 48
    _, made = likeness(2, model="gpt2-xl", cuts=[cut], stages=2, microbatches=8)
    by_stage = [0.0, 0.0]
    for unit in made.model.units:
        if unit.name.startswith("stage"):
            by_stage[int(unit.name[5])] += forward_flops(made.model, unit)
    # the head's product with the vocabulary is the last stage's too
    assert 3.0 <= by_stage[1] / by_stage[0] <= 4.0
    assert "ratio of the stages' times" in made.validated


def test_nothing_is_claimed_that_was_changed() -> None:
    _, made = likeness(2, stages=8, replicas=2, tensor=4, microbatches=32)
    numbers = {text.partition(":")[0] for text in made.validated} & {
        text.partition(":")[0] for text in made.not_validated
    }
    assert not numbers
    assert any(text.startswith("microbatches per step: 32 in the plan") for text in made.not_validated)


@pytest.mark.parametrize("name", EVERY)
def test_a_likeness_has_what_its_schedule_needs(name: str) -> None:
    """Four positions on two ranks: the order of stages there and back, or round, is kept."""
    plan, made = likeness(2, stages=4, microbatches=8, schedule=name)
    assert not check_job(made.graph, uncalibrated(made.ranks), made.job, made.strategy)
    schedule = SCHEDULES.get(name)
    shape = bare_shape(made.graph, made.job, made.strategy)
    assert (schedule.unmet(shape), made.strategy.schedule) == ((), plan.schedule)
