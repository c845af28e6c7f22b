"""Torch's own engines on whatever they can run: gradients of one process, or a refusal that says why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explorer.run.cases.build import Prepared, unsupported_by_torch
from explorer.run.launching.launch import RunResult, run
from explorer.run.model import ModelSpec, transformer
from explorer.run.spec import RunSpec
from explorer.schedules import SCHEDULES
from tests.run.programs import EVERY, MODEL, placed, real

SINGLE = replace(MODEL, dtype="fp32")
TIED = replace(MODEL, units=transformer(6, d_model=8, heads=2, ffn=16, seq=4, tied=True).units)
NAMED = {schedule.name for schedule in SCHEDULES if schedule.torch_name}
LARGEST = {"fp64": 1e-10, "fp32": 1e-5}
"""Allowed differences of gradients from those of one process, by precision, relative to the largest."""


def on_torch(schedule: str, p: int, model: ModelSpec = MODEL, **fields: Any) -> Prepared:
    """A checked pipeline of p ranks."""
    return placed(schedule, p, label=model.dtype, optimizer="momentum", model=model, **fields)


def runs_on_torch(schedule: str, p: int) -> bool:
    return not unsupported_by_torch(on_torch(schedule, p).case)


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def launch(request: pytest.FixtureRequest) -> tuple[list[Prepared], RunResult]:
    """Every schedule that torch can run, in both precisions, in one launch."""
    p = int(request.param)
    cases = [
        on_torch(schedule, p, model)
        for schedule in EVERY
        if runs_on_torch(schedule, p)
        for model in (MODEL, SINGLE)
    ]
    cases.append(real("gpipe", 1, p, microbatches=8 // p, optimizer="adamw", name="replicas-fp64"))
    spec = RunSpec(ranks=p, cases=tuple(replace(item.case, engine="torch") for item in cases))
    return cases, run(spec)


def test_gradients_are_those_of_one_process(launch: tuple[list[Prepared], RunResult]) -> None:
    cases, result = launch
    wrong = {}
    for item in cases:
        bound = LARGEST[item.case.model.dtype] if item.case.model else 0.0
        for rank in result.ranks:
            numerics = rank["cases"][item.case.name][0]["numerics"]
            assert numerics["compared"] > 0
            assert numerics["largest_gradient"] > 1e-3
            if max(numerics["gradient"], numerics["weight"]) > bound:
                wrong[item.case.name] = numerics
    assert not wrong


def test_all_that_torch_names_is_among_them(launch: tuple[list[Prepared], RunResult]) -> None:
    cases, _ = launch
    assert {item.strategy.schedule for item in cases} >= NAMED


@pytest.mark.parametrize("schedule", sorted(set(EVERY) - {"spectrain"}))
def test_what_torch_cannot_run_is_said(schedule: str) -> None:
    """Copies of stages, weights of several versions and sweeps; everything else runs."""
    case = on_torch(schedule, 2).case
    problems = " and ".join(unsupported_by_torch(case))
    assert ("copies of every stage" in problems) == (case.shape.copies > 1)
    assert ("one weight version" in problems) == (not case.order.flush)
    assert ("several sweeps" in problems) == bool(case.order.lag)
    assert bool(problems) == (case.shape.copies > 1 or not case.order.flush or bool(case.order.lag))


def recomputing(schedule: str) -> Prepared:
    stages = placed(schedule, 2).strategy.stages
    return real(schedule, 2, 1, stages=tuple(replace(stage, recompute="full") for stage in stages))


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (lambda: placed("1f1b", 2, model=TIED), "tied weights"),
        (lambda: real("1f1b", 2, 2), "a pipeline with replicas"),
        (lambda: recomputing("1f1b"), "full recomputation"),
        (lambda: real("pipedream", 1, 2), "steps that are not flushed"),
        (lambda: real("gpipe", 1, 2, shares=(3.0, 1.0), microbatches=2), "uneven"),
    ],
)
def test_reasons_apart_from_the_order(item: Any, said: str) -> None:
    assert said in " and ".join(unsupported_by_torch(item().case))
