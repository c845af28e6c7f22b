"""The CSV in torch's own schedule runtime, and CSVs from elsewhere as plans."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError, PlanError
from explorer.export import export, import_config, preview
from tests.export.samples import folded, resolved, uniform


def loaded(file: Path, ranks: int, stages: int, microbatches: int) -> Any:
    """torch's runtime with this schedule, as each rank would have it; nothing is run."""
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

    def stage(index: int) -> Any:
        return SimpleNamespace(
            num_stages=stages, group_size=ranks, group_rank=0, stage_index=index, is_last=False
        )

    runtime = schedules._PipelineScheduleRuntime([stage(0)], n_microbatches=microbatches)
    runtime._load_csv(str(file))
    return runtime


@pytest.mark.parametrize(
    ("plan", "ranks", "stages", "microbatches"),
    [
        (uniform("gpipe"), 4, 4, 8),
        (uniform("1f1b"), 4, 4, 16),
        (uniform("interleaved"), 4, 8, 8),
        (uniform("eager order"), 2, 2, 4),
        (uniform("3d"), 2, 2, 16),
        (folded(), 2, 4, 2),
    ],
    ids=["gpipe", "1f1b", "interleaved", "eager", "3d", "folded"],
)
def test_torch_takes_it(plan: Any, ranks: int, stages: int, microbatches: int, tmp_path: Path) -> None:
    (file,) = export(plan, "schedule_csv", tmp_path)
    runtime = loaded(file, ranks, stages, microbatches)
    home = {
        s: device
        for s, stage in enumerate(plan.plan.strategy.job.stages)
        for device in [
            list(dict.fromkeys(x.meshes for x in plan.plan.strategy.job.stages)).index(stage.meshes)
        ]
    }
    assert runtime.stage_index_to_group_rank == home
    rows = [line.split(",") for line in file.read_text().splitlines()]
    assert [[str(cell) for cell in runtime.pipeline_order[rank]] for rank in range(ranks)] == rows
    sends = sum("SEND_F" in str(a) for row in runtime.pipeline_order_with_comms.values() for a in row)
    crossings = sum(home[s] != home[s + 1] for s in range(stages - 1))
    assert sends == crossings * microbatches


def test_torch_refuses_a_wrong_one(tmp_path: Path) -> None:
    """The oracle can say no."""
    file = tmp_path / "schedule.csv"
    file.write_text("0F0,0B0\n1B0,1F0\n")
    with pytest.raises(AssertionError, match="without first running Forward"):
        loaded(file, 2, 2, 1)


def test_closed_form_of_the_rows() -> None:
    rows = preview(uniform("1f1b"), "schedule_csv")["schedule.csv"].splitlines()
    assert rows[3] == ",".join(f"3F{i},3B{i}" for i in range(16))
    assert rows[0].startswith("0F0,0F1,0F2,0F3,0B0,0F4,0B1")
    assert all(len(row.split(",")) == 32 for row in rows)


@settings(max_examples=30)
@given(p=st.integers(1, 8), m=st.integers(1, 24), name=st.sampled_from(["gpipe", "1f1b"]))
def test_every_chain_has_a_row_per_stage(p: int, m: int, name: str) -> None:
    plan = resolved(stages=p, microbatches=2 ** (m % 8), schedule=name)
    text = preview(plan, "schedule_csv")["schedule.csv"]
    assert len(text.splitlines()) == p
    assert {cell[0] for row in text.splitlines() for cell in row.split(",")} == {str(s) for s in range(p)}


def read(tmp_path: Path, text: str, **options: str | None) -> Any:
    (tmp_path / "mine.csv").write_text(text)
    inputs: dict[str, Any] = {"model": "gpt2-small", "cluster": "dgx-a100", **options}
    return import_config(tmp_path / "mine.csv", "schedule_csv", **inputs)


ZB_H1 = "0F0,0F1,0I0,0F2,0I1,0W0,0I2,0W1,0W2\n1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n"


def test_an_order_from_elsewhere_becomes_a_plan_that_simulates(tmp_path: Path) -> None:
    plan = read(tmp_path, ZB_H1)
    strategy = plan.plan.strategy
    assert (strategy.job.schedule, len(strategy.job.stages)) == ("custom", 2)
    assert plan.plan.workload.job.global_batch % 3 == 0
    report = explorer.simulate(plan.graph, plan.cluster, plan.plan.workload, strategy)
    assert report.step_time_s > 0
    assert preview(plan, "schedule_csv")["schedule.csv"] == ZB_H1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no order of a training step"),
        ("0F0,0F1\n1F0,1F1\n", "no order of a training step"),
        ("0F0,0B0\n0F1,0B1\n", "stage 0 is on ranks 0 and 1"),
        ("0F1,0B1\n", "no order of a training step"),
        ("1F0,1B0\n", "no order of a training step"),
        ("0F0,hello\n", "row 0 column 1"),
        ("0F0,0SEND_F0\n", "communication"),
        ("".join(f"{s}F0,{s}B0\n" for s in range(9)), "9 rows for the 8 devices"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text)
    assert "mine.csv" in str(caught.value)


def test_orders_that_do_not_cover_are_refused_by_check(tmp_path: Path) -> None:
    plan = read(tmp_path, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n")
    with pytest.raises(PlanError):
        explorer.simulate(plan.graph, plan.cluster, plan.plan.workload, plan.plan.strategy)


@pytest.mark.parametrize("missing", ["model", "cluster"])
def test_what_the_file_does_not_say_is_asked_for(tmp_path: Path, missing: str) -> None:
    with pytest.raises(InputError, match=f"does not say which {missing}"):
        read(tmp_path, ZB_H1, **{missing: None})


def test_an_order_over_two_steps_is_refused() -> None:
    lanes = "0F0 0F1 0B0 0B1 0F2 0B2 0F3 0B3"
    from dataclasses import replace

    from explorer.strategy import Strategy

    plan = resolved(microbatches=2)
    job = replace(plan.plan.strategy.job, schedule="custom", options=(("lanes", lanes), ("covers", 2)))
    plan = replace(plan, plan=replace(plan.plan, strategy=Strategy(jobs=(job,))))
    with pytest.raises(PlanError, match="over 2 steps"):
        preview(plan, "schedule_csv")
