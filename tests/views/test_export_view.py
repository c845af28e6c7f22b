"""The export's view: files, notes and refusals of every target, and whether they load back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import explorer
from explorer.base.errors import InputError
from explorer.export import EXPORTERS, notes, preview, readable, refusals
from explorer.export import roundtrip as back
from explorer.export.roundtrip import load_back
from explorer.plan import Resolved, make_plan, resolve
from explorer.views.export_preview import capability_table, export_view, file_rows
from tests.export.samples import UNIFORM, uniform
from tests.support import view_shapes as shapes
from widgets.base import refuse_unsendable

NAMES = EXPORTERS.names()


def small() -> Resolved:
    """Tied embeddings over four stages, which torchtitan refuses."""
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100-4")
    workload = explorer.default_workload(graph).with_job(global_batch=64)
    strategy = explorer.uniform(graph, cluster, workload.job, stages=4, replicas=8)
    return resolve(make_plan("gpt2-small", graph, "dgx-a100-4", cluster, workload, strategy))


def check_shape(view: dict[str, Any]) -> None:
    TypeAdapter(shapes.ExportViewShape).validate_python(view)
    refuse_unsendable(view, "view")


@pytest.mark.parametrize("sample", UNIFORM)
@pytest.mark.parametrize("name", NAMES)
def test_every_target_shows_what_it_would_write(name: str, sample: str) -> None:
    plan = uniform(sample)
    view = export_view(plan, name)
    check_shape(view)
    assert view["state"] == ("refused" if refusals(plan, name) else "ready")
    if view["state"] == "refused":
        assert view["files"] == []
        return
    assert {item["name"]: item["text"] for item in view["files"]} == preview(plan, name)
    assert view["notes"] == notes(plan, name)
    can = readable(name)
    assert view["can_check"] is can
    assert view["back"]["ok"] is (True if can else None)


@pytest.mark.parametrize("name", NAMES)
def test_table_and_refusals_agree(name: str) -> None:
    plan = small()
    view = export_view(plan, name)
    check_shape(view)
    answers = [row["answers"][name]["answer"] for row in view["capabilities"]]
    assert ("no" in answers) == bool(refusals(plan, name)) == (view["state"] == "refused")
    assert [target["name"] for target in view["targets"] if target["refused"]] == [
        other for other in NAMES if refusals(plan, other)
    ]
    if name == "torchtitan":
        tied, model = view["refusals"]
        assert tied["what"].startswith("parameters tied across stages")
        assert "use one stage" in tied["way_out"]
        assert model["what"] == "the model 'gpt2-small'"
        assert view["capabilities"][-1]["feature"] == "everything else"
        assert view["back"] is None


def test_a_plan_that_is_wrong_is_refused_in_the_words_of_the_check() -> None:
    plan = small()
    job = plan.plan.strategy.job
    from dataclasses import replace

    broken = replace(plan, plan=replace(plan.plan, strategy=plan.plan.strategy.with_job(
        replace(job, stages=job.stages[:-1])
    )))  # fmt: skip
    view = export_view(broken, "plan")
    check_shape(view)
    assert view["state"] == "refused"
    assert view["refusals"][0]["way_out"] is None


def test_nothing_is_read_back_unless_asked() -> None:
    view = export_view(small(), "plan", check=False)
    assert view["back"] is None
    assert view["can_check"]


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(InputError, match="no-such"):
        export_view(small(), "no-such")


def test_what_comes_back_is_computed() -> None:
    plan = small()
    files = preview(plan, "plan")
    assert load_back(plan, "plan", files).outcome == back.SAME
    other = {
        name: text.replace("microbatch_samples: 8", "microbatch_samples: 16") for name, text in files.items()
    }
    assert other != files
    found = load_back(plan, "plan", other)
    assert found.outcome == back.DIFFERENT
    assert any("microbatch_samples 8 -> 16" in text for text in found.differences)
    broken = load_back(plan, "plan", {"plan.yaml": "schema: nothing"})
    assert broken.outcome == back.UNREADABLE
    assert str(Path("/")) + "tmp" not in broken.differences[0]


def test_a_csv_gives_back_its_order_and_no_other() -> None:
    plan = small()
    files = preview(plan, "schedule_csv")
    found = load_back(plan, "schedule_csv", files)
    assert (found.outcome, found.given) == (back.ORDER, True)
    lines = files["schedule.csv"].splitlines()
    swapped = {"schedule.csv": "\n".join([lines[0], *lines[1:][::-1]]) + "\n"}
    assert load_back(plan, "schedule_csv", swapped).outcome in (back.ORDER, back.UNREADABLE)


def test_table_has_a_row_for_each_feature_in_use() -> None:
    from explorer.export.features import uses

    plan = small()
    rows = capability_table(plan)
    features = {use.feature for use in uses(plan)}
    assert features <= {row["feature"] for row in rows}
    assert all(set(row["answers"]) == set(NAMES) for row in rows)


def test_file_rows_say_what_they_leave_out() -> None:
    rows = file_rows({"a": "x" * 30_000, "b": "é"})
    assert [item["shown"] for item in rows] == [20_000, 1]
    assert [item["bytes"] for item in rows] == [30_000, 2]
    assert rows[0]["omitted"] == "10000 more characters: the download has them all"
    assert rows[0]["text"] == "x" * 30_000
