"""What ranks did when, under what was predicted: the same actions in both plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from explorer.passes.static import run_static
from explorer.run import make_experiment
from explorer.run.launching.launch import RunResult
from explorer.views.run_timeline import run_timeline_view
from tests.support import view_shapes as shapes
from widgets.edits import set_field
from widgets.opening import first_point

SLOWER = (1.3, 1.1, 1.2)
"""Of the seconds that the ranks slept, by round."""


def _result(spec: Any) -> RunResult:
    """A run in which every rank did every task later than asked, by the same factor."""
    case = spec.cases[0]
    program = case.lowered()
    timing = run_static(program, np.array(case.seconds))

    def stamps(tasks: list[int], factor: float) -> list[list[float]]:
        return [
            [task, 0.0, timing.start_s[task] * factor, timing.end_s[task] * factor, 0.0] for task in tasks
        ]

    ranks = tuple(
        {"cases": {case.name: [{"stamps": stamps(lane.tolist(), factor)} for factor in SLOWER]}}
        for lane in program.programs
    )
    return RunResult(ranks=ranks, events=(), wall_s=1.0)


@pytest.mark.parametrize("stages", [2, 4])
def test_both_plans_have_the_same_actions_and_the_median_round_is_shown(stages: int) -> None:
    point = set_field(first_point("gpt2-small", "dgx-a100", {"global_batch": 8}), "stages", stages)
    experiment = make_experiment(point.resolved(), engine="dry", rounds=3)
    assert experiment.timeline is not None
    found = experiment.timeline(_result(experiment.spec))
    assert (found.round, found.rounds) == (2, 3)
    (view, bars), (view_b, bars_b) = run_timeline_view(found)
    for drawn in (view, view_b):
        TypeAdapter(shapes.TimelineView).validate_python(drawn)
        assert len(drawn["lanes"]) == len(found.program.programs)
    rows, rows_b = (np.frombuffer(data, "<f4").reshape(-1, 10) for data in (bars, bars_b))
    compute = rows[rows[:, 3] < 6]
    assert np.array_equal(compute[:, 2:], rows_b[:, 2:]), "same actions in the same order"
    assert rows_b[:, :2] == pytest.approx(1.2 * compute[:, :2], rel=1e-5), "in the plan's own seconds"
    assert view_b["end_s"] == pytest.approx(1.2 * compute[:, 1].max(), rel=1e-5)
    assert (rows[:, 3] >= 6).any() or stages == 1, "messages where they were predicted"
