"""Plans and sessions in the words of former versions still open and mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.base.errors import InputError
from explorer.base.former_files import todays_job
from explorer.base.plain_data import read_document
from explorer.plan import from_document
from explorer.strategy import Sync, UpdateChoice

FOLDER = Path(__file__).parent / "plans"


def parallax(*sync: dict[str, Any]) -> Any:
    data = read_document(FOLDER / "12-parallax.yaml")
    data["strategy"]["jobs"][0]["sync"] = list(sync)
    return from_document(data, folder=FOLDER)


def test_a_sync_every_so_many_updates_is_a_rule() -> None:
    plan = parallax(
        {"parameters": ["table"], "method": "parameter_server"}, {"parameters": ["*"], "every": 25}
    )
    job = plan.plan.strategy.job
    assert job.sync == (Sync(parameters=("table",), method="parameter_server"), Sync(parameters=("*",)))
    assert job.updates == (
        UpdateChoice(rule="plain", parameters=("table",)),
        UpdateChoice(rule="periodic", parameters=("*",), options=(("period", 25),)),
    )
    report = explorer.simulate(plan.graph, plan.cluster, plan.plan.workload, plan.plan.strategy)
    often = parallax({"parameters": ["table"], "method": "parameter_server"})
    other = explorer.simulate(often.graph, often.cluster, often.plan.workload, often.plan.strategy)
    # 12-parallax.yaml: the dense 100 bytes take 1.5 s, now once in 25 steps
    assert other.step_time_s - report.step_time_s == pytest.approx(1.5 * 24 / 25)


def test_one_of_every_update_needs_no_rule() -> None:
    job = parallax({"parameters": ["*"], "every": 1, "compressor": ""}).plan.strategy.job
    assert (job.sync, job.updates) == ((Sync(parameters=("*",)),), ())


def test_a_compressor_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="no compressor 'top_k'"):
        parallax({"parameters": ["*"], "compressor": "top_k"})


@pytest.mark.parametrize("raw", [None, [], {}, {"sync": 3}, {"sync": ["all"]}, {"sync": [{"every": "x"}]}])
def test_what_is_no_strategy_is_left_to_the_reader(raw: Any) -> None:
    if raw == {"sync": [{"every": "x"}]}:
        assert todays_job(raw)["updates"] == [
            {"rule": "periodic", "parameters": [], "options": {"period": "x"}}
        ]
    else:
        assert todays_job(raw) == raw
