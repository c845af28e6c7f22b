"""Actions of a run by stage: closed forms of a small pipeline, and rows of the Run tab."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "widgets"))
from sample_run import comparison

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.passes.static import run_static
from explorer.plan import make_plan, resolve
from explorer.run import make_experiment
from explorer.run.judging.action_times import TRANSFERS, ActionTime
from explorer.run.judging.compare import StageTime
from explorer.run.judging.cost_check import ActionSeconds, CostCheck
from explorer.run.launching.launch import RunResult
from explorer.strategies.uniform import uniform
from explorer.views.run_actions import action_rows
from explorer.workload import default_workload

LATE_S = 0.25
"""Seconds that the first action of the second rank waits on top, as the run counts."""


def _found(schedule: str, factor: float, late_s: float = 0.0) -> Any:
    """A dry run of two stages whose ranks took `factor` times the predicted seconds for every action, and of
    which the first action of the second rank waited longer for its message.
    """
    graph, cluster = load_model("gpt2-small"), load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=8)
    strategy = uniform(graph, cluster, workload.job, stages=2, microbatches=4, schedule=schedule)
    plan = make_plan("gpt2-small", graph, "dgx-a100", cluster, workload, strategy)
    experiment = make_experiment(resolve(plan), engine="dry", rounds=2)
    case = experiment.spec.cases[0]
    program = case.lowered()
    timing = run_static(program, np.array(case.seconds))

    def stamps(lane: int, tasks: list[int]) -> list[list[float]]:
        rows, free = [], 0.0
        for number, task in enumerate(tasks):
            more = late_s if (lane, number) == (1, 0) else 0.0
            start = max(free, factor * timing.start_s[task] + more)
            end = start + factor * (timing.end_s[task] - timing.start_s[task])
            rows.append([task, free, float(start), float(end), 0.0])
            free = end
        return rows

    ranks = tuple(
        {"cases": {case.name: [{"stamps": stamps(n, lane.tolist())} for _ in range(2)]}}
        for n, lane in enumerate(program.programs)
    )
    return program, experiment.finish(RunResult(ranks=ranks, events=(), wall_s=1.0))


@pytest.mark.parametrize(("schedule", "kinds"), [("1f1b", "FBU"), ("gpipe_2bp", "FIWU")])
def test_every_action_of_every_stage_has_its_seconds(schedule: str, kinds: str) -> None:
    program, found = _found(schedule, 1.25)
    by_key = {(item.stage, item.action): item for item in found.actions}
    assert [key for key in by_key if key[1] != TRANSFERS] == [(s, kind) for s in (0, 1) for kind in kinds]
    steps = program.order.steps
    for (_, action), item in by_key.items():
        if action != TRANSFERS:
            assert item.measured_s == pytest.approx(1.25 * item.predicted_s), "in the plan's own seconds"
            each = 1 if action == "U" else program.shape.microbatches[0]
            assert item.count == each * steps * 2, "of both rounds"


def test_a_late_message_is_a_wait_of_the_stage_that_it_comes_to() -> None:
    """Later messages are there by then, so that at most the waits for them are saved."""
    program, plain = _found("1f1b", 1.0)
    _, late = _found("1f1b", 1.0, LATE_S)
    waits = [
        {item.stage: item for item in found.actions if item.action == TRANSFERS} for found in (plain, late)
    ]
    assert waits[0][1].measured_s == pytest.approx(waits[0][1].predicted_s, rel=1e-6)
    stretch = float(next(text for text in plain.validated if "stretched" in text).split()[-2])
    added = LATE_S / stretch / program.order.steps
    rounding = 0.01 * added  # the stretch is told in three digits
    assert added - rounding < waits[1][1].measured_s < added + waits[0][1].measured_s + rounding
    assert waits[1][0].measured_s <= waits[0][0].measured_s, "no wait of the other stage"


def test_rows_name_the_stages_of_the_plan_and_say_what_the_profile_says() -> None:
    costs = CostCheck(
        profile="mine", clock="processor", predicted={}, measured={}, error_pct=0.0, step_error_pct=0.0,
        verdict="confirmed", layers=[],
        actions=[ActionSeconds(action="F", stage=1, predicted_s=(2.0, 1.0), measured_s=(3.0, 1.0))],
    )  # fmt: skip
    actions = [
        ActionTime(stage=s, action=a, count=2, predicted_s=p, measured_s=2.0)
        for s, a, p in ((0, "W", 1.0), (1, "F", 3.0), (1, TRANSFERS, 0.0))
    ]
    stages = [
        StageTime(stages=(0, 1), predicted_s=1.0, measured_s=1.0),
        StageTime(stages=(2,), predicted_s=1.0, measured_s=1.0),
    ]
    made = comparison(actions=actions, stages=stages)
    first, second, waits = action_rows(made)
    assert [row["stage"] for row in (first, second, waits)] == ["stages 0, 1", "stage 2", "stage 2"]
    assert (first["name"], first["error"], first["profile_s"]) == ("weight gradient", -0.5, None)
    assert second["error"] == 0.5
    assert waits["error"] is None, "nothing predicted: no per cent of it"
    told = action_rows(replace(made, costs=costs))[1]
    assert (told["profile_s"], told["profile_error"]) == (3.0, -0.25), "collectives in the lane included"
    assert told["error"] == 0.5, "the clocks differ, so do the errors"
