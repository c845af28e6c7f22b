"""`validate` on each of the fourteen plans: it can be run, or it is refused before anything is launched."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from explorer.base.errors import ExplorerError, InputError, PlanError
from explorer.plan import load_plan
from explorer.run import make_experiment, validate
from explorer.run.cases import short_cases
from explorer.run.cases.likeness import SMALL
from explorer.run.judging.compare import CONFIRMED, OFF, TOO_NOISY
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.lane import RankLanes
from explorer.run.spec import REAL
from tests.test_plans import PLANS

REFUSED = {
    "13-two-jobs": "2 jobs where one is needed",
    "14-swarm": "has no order: it decides places while time runs",
}
"""What cannot be run for real on any number of ranks, with words of the reason."""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_rank_can_be_set_up_or_the_plan_is_refused(path: Path, ranks: int) -> None:
    """All that a rank does before its first action is done here, for every rank, without starting one."""
    plan = load_plan(path)
    if path.stem in REFUSED:
        with pytest.raises(ExplorerError, match=REFUSED[path.stem]):
            make_experiment(plan, ranks=ranks, size=SMALL)
        return
    spec = make_experiment(plan, ranks=ranks, size=SMALL).spec
    assert spec.ranks <= ranks
    for case in spec.cases:
        assert case.kind == REAL
        lanes = RankLanes(case.lowered())
        plans = [lanes.plan(lane) for lane in range(len(lanes.program.programs))]
        assert sum(len(item.tasks) for item in plans) == sum(map(len, lanes.program.programs))
        for lane in range(len(plans)):
            compute = Compute(case, lanes, lane, torch.device("cpu"))
            assert compute.pieces
            for task in plans[lane].tasks:
                if task.op != "U":
                    assert all(number in compute.reads.version[task.piece] for number in task.numbers)


def test_a_likeness_that_no_schedule_orders_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer ranks may leave fewer stages than a schedule needs: the plan itself is not at fault."""

    def refuse(*_: object, **__: object) -> None:
        raise PlanError(["chimera with 3 stages needs a multiple of 2"])

    monkeypatch.setattr(short_cases, "short_case", refuse)
    with pytest.raises(InputError, match=r"likeness on 2 ranks cannot be run: chimera with 3") as caught:
        make_experiment(load_plan(PLANS[2]), ranks=2, size=SMALL)
    assert caught.value.key == "ranks"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["02-graphpipe", "04-pipedream", "06-cyclic", "07-layer-parallel", "09-mixtral", "11-tied"]
)
def test_a_verdict(name: str) -> None:
    path = next(path for path in PLANS if path.stem == name)
    found = validate(load_plan(path), steps=1, ranks=2, size=SMALL, warmup_rounds=0)
    assert found.numerics_ok
    assert found.verdict in (CONFIRMED, OFF, TOO_NOISY)
