"""Schedules with split backwards on real ranks: gradients in both precisions, steps of the simulated time."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from explorer.run.cases.build import Prepared
from explorer.run.judging.compare import DRY_TOLERANCE_PCT, measure
from explorer.run.launching.launch import RunResult, run
from explorer.run.spec import RunSpec
from explorer.schedules import SCHEDULES
from explorer.schedules.groups import group_of
from tests.run.programs import EVERY, MODEL, dry_placed, placed

SPLIT = [name for name in EVERY if group_of(SCHEDULES.get(name)).name == "zero bubble"]
SINGLE = replace(MODEL, dtype="fp32")
MODIFIED: tuple[tuple[tuple[str, Any], ...], ...] = (
    (("of", "1f1b"), ("fill", True)),
    (("of", "gpipe"), ("concatenated", True)),
    (("of", "hanayo"), ("fill", True), ("concatenated", True)),
    (("of", "interleaved_1f1b"),),
    (("of", "chimera"), ("fill", True)),
)
"""Options of `split_backward`."""
AUTOMATIC: tuple[tuple[tuple[str, Any], ...], ...] = (
    (("limit", 2),),
    (("limit", 0),),
    (("post_validation", False),),
)
"""Options of `zb_auto`."""


def label(options: tuple[tuple[str, Any], ...]) -> str:
    return "-".join(f"{key}_{value}" for key, value in options)


def varied(p: int) -> list[Prepared]:
    cases = [placed("split_backward", p, options=options, label=label(options)) for options in MODIFIED]
    return cases + [placed("zb_auto", p, options=options, label=label(options)) for options in AUTOMATIC]


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def launch(request: pytest.FixtureRequest) -> tuple[list[Prepared], RunResult]:
    p = int(request.param)
    cases = [placed(name, p, label="fp32", model=SINGLE) for name in SPLIT]
    cases += [placed(name, p, label="fp64") for name in SPLIT] + varied(p)
    return cases, run(RunSpec(ranks=p, cases=tuple(item.case for item in cases)))


def test_gradients_are_those_of_one_process(launch: tuple[list[Prepared], RunResult]) -> None:
    cases, result = launch
    wrong = {}
    for item in cases:
        name = item.case.name
        within = 1e-5 if name.endswith("fp32") else 1e-10
        for rank in result.ranks:
            numerics = rank["cases"][name][0]["numerics"]
            assert numerics["compared"] > 0
            assert numerics["largest_gradient"] > 1e-3
            if max(numerics["gradient"], numerics["weight"]) > within:
                wrong[name] = numerics
    assert not wrong


def test_weight_gradients_run_apart(launch: tuple[list[Prepared], RunResult]) -> None:
    for item in launch[0]:
        assert {"I", "W"} <= {action.op for lane in item.program.order.lanes for action in lane}, (
            item.case.name
        )


@pytest.mark.slow
def test_torchs_own_engine_makes_the_same_gradients() -> None:
    names = [name for name in SPLIT if name != "split_backward"]
    cases = [placed(name, 2, label="torch", optimizer="adamw") for name in names]
    cases += [
        placed("split_backward", 2, label=label(options), options=options)
        for options in MODIFIED
        if dict(options)["of"] != "chimera"  # two copies, which torch cannot run
    ]
    result = run(RunSpec(ranks=2, cases=tuple(replace(item.case, engine="torch") for item in cases)))
    for item in cases:
        for rank in result.ranks:
            numerics = rank["cases"][item.case.name][0]["numerics"]
            assert numerics["compared"] > 0
            assert max(numerics["gradient"], numerics["weight"]) < 1e-10, item.case.name


@pytest.mark.slow
@pytest.mark.parametrize("microbatches", [8, 16])
def test_steps_take_as_long_as_simulated(microbatches: int) -> None:
    """Four ranks that sleep; whether sleepers are woken in time is the machine's doing."""
    cases = [dry_placed(name, 4, microbatches=microbatches) for name in SPLIT]
    cases += [
        dry_placed("split_backward", 4, microbatches=microbatches, options=options) for options in MODIFIED
    ]
    errors: dict[str, float] = {}
    for _ in range(3):
        result = run(RunSpec(ranks=4, cases=tuple(item.case for item in cases), rounds=2))
        for item in cases:
            rows = [rank["cases"][item.case.name] for rank in result.ranks]
            predicted = float(item.timing.end_s.max())
            error = 100 * (measure(item, rows).makespan_s / predicted - 1)
            assert error > 0
            errors[item.case.name] = min(error, errors.get(item.case.name, error))
        if max(errors.values()) < DRY_TOLERANCE_PCT:
            return
    if os.getloadavg()[0] > 2 * (os.cpu_count() or 1) or not all(rank["urgent"] for rank in result.ranks):
        pytest.skip(f"too noisy: {errors}")
    pytest.fail(f"the clock and the simulator differ by {errors} %")
