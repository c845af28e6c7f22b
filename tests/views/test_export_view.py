"""The export's view: files, notes and refusals of every target, and whether they load back."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import TypeAdapter

import explorer
from explorer.base.errors import InputError
from explorer.export import EXPORTERS, notes, preview, readable, refusals
from explorer.export import roundtrip as back
from explorer.export.roundtrip import load_back
from explorer.plan import Resolved, make_plan, resolve
from explorer.simulation.simulate import simulate
from explorer.views.export_answers import nearest_view, price, price_slices
from explorer.views.export_changes import changed_files, changes_view, merge_patch
from explorer.views.export_preview import capability_table, export_view, file_rows
from tests.export.samples import UNIFORM, resolved, uniform
from tests.support import view_shapes as shapes
from widgets.base import refuse_unsendable

NAMES = EXPORTERS.names()
Value = TypeVar("Value")


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


def whole(slices: Generator[None, None, Value]) -> Value:
    """All slices, one after the other."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def step_s(plan: Resolved) -> float:
    own = plan.plan
    return simulate(plan.graph, plan.cluster, own.workload, own.strategy).step_time_s


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sample", ["3d with zero", "eager order", "interleaved"])
def test_every_use_of_a_feature_has_an_answer_and_every_refusal_a_row(name: str, sample: str) -> None:
    from explorer.export.features import uses

    plan = uniform(sample)
    view = export_view(plan, name, check=False)
    check_shape(view)
    rows = view["answers"]
    for use in uses(plan):
        row = next(row for row in rows if row["feature"] == use.feature)
        assert use.where in row["where"]
    told = [row for row in rows if row["answer"] == "refused"]
    assert bool(told) == (view["state"] == "refused")
    assert all(any(row["feature"] in text for row in told) for text in refusals(plan, name))
    assert all(row["how"] for row in told), "a refusal says the way out"
    order = [("refused", "approximate", "exact").index(row["answer"]) for row in rows]
    assert order == sorted(order), "what needs a decision stands first"
    assert view["documentation"] == EXPORTERS.get(name).documentation
    assert (view["nearest"] is not None) == (view["state"] == "refused")


def test_a_refusal_is_priced_by_the_plan_without_it() -> None:
    plan = resolved(stages=4, microbatches=8, schedule="zb_h1")
    view = export_view(plan, "megatron")
    rows, near = whole(price_slices(plan, "megatron", view["answers"]))
    check_shape(view | {"answers": rows, "nearest": nearest_view(near, "megatron")})
    assert near is not None
    assert refusals(near.resolved, "megatron") == []
    asked = resolved(stages=4, microbatches=8, schedule="1f1b")
    row = next(row for row in rows if row["answer"] == "refused")
    assert row["price"] == price(step_s(asked), step_s(plan))
    assert nearest_view(near, "megatron")["text"].startswith(price(step_s(near.resolved), step_s(plan)))
    assert all(row["price"] is None for row in rows if row["answer"] == "exact")


def test_an_approximation_is_priced_by_what_runs_in_its_place() -> None:
    plan = resolved(replicas=8, microbatches=4)
    rows, near = whole(
        price_slices(plan, "torchtitan", export_view(plan, "torchtitan", check=False)["answers"])
    )
    row = next(row for row in rows if row["answer"] == "approximate")
    workload = plan.plan.workload.with_job(gradient_precision="fp32")
    fp32 = replace(plan, plan=replace(plan.plan, workload=workload))
    assert row["price"] == price(step_s(fp32), step_s(plan))
    assert near is None, "what it runs as it is needs no other plan"


def test_without_a_near_plan_it_says_so() -> None:
    said = nearest_view(None, "megatron")
    assert said["state"] == "none"
    assert "megatron" in said["text"]


def test_a_change_is_said_in_words_and_as_lines_to_copy() -> None:
    before, after = resolved(tensor=8, microbatches=64), resolved(tensor=4, replicas=2, microbatches=64)
    found = changes_view(before, after, "megatron", "run.sh")
    row = next(row for row in found["rows"] if row["key"] == "--tensor-model-parallel-size")
    assert (row["before"], row["after"]) == ("8", "4")
    script = next(item for item in found["files"] if item["name"] == "run.sh")
    assert "--tensor-model-parallel-size 4" in script["text"]
    assert "--num-layers" not in script["text"], "what stays is not copied"
    new = set(preview(after, "megatron")["run.sh"].splitlines())
    old = set(preview(before, "megatron")["run.sh"].splitlines())
    assert set(script["text"].splitlines()) <= new - old
    assert changes_view(after, after, "megatron", "run.sh")["rows"] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_target_says_another_batch(name: str) -> None:
    one, other = (resolved(replicas=4, microbatches=count, zero=3) for count in (4, 8))
    view = export_view(other, name, check=False, before=(one, "where the session began"))
    check_shape(view)
    assert view["changes"]["problem"] is None
    if name != "schedule_csv":  # its order has the microbatches only
        assert view["changes"]["rows"]
    assert sum(item["lines"] for item in view["changes"]["files"]) > 0


def test_of_json_a_patch_is_copied() -> None:
    one, other = (resolved(replicas=4, microbatches=4, zero=level) for level in (2, 3))
    texts = [preview(plan, "deepspeed")["ds_config.json"] for plan in (one, other)]
    found = changes_view(one, other, "deepspeed", "ds_config.json")
    patch = json.loads(next(item["text"] for item in found["files"] if item["name"] == "ds_config.json"))
    assert patch["zero_optimization"]["stage"] == 3
    assert "train_batch_size" not in patch
    assert merge_patch(json.loads(texts[0]), json.loads(texts[1])) == patch


def test_lines_that_only_go_have_nothing_to_copy() -> None:
    (found,) = changed_files({"a.sh": "x\ny\n# old\n"}, {"a.sh": "x\n# new\n"})
    assert (found["text"], found["lines"], found["gone"]) == ("", 0, 1)
    assert changed_files({"a.sh": "x\n# old\n"}, {"a.sh": "x\n# new\n"}) == []


def test_what_the_baseline_cannot_say_is_a_sentence() -> None:
    before = resolved(stages=4, microbatches=8, schedule="gpipe")
    found = changes_view(before, resolved(stages=4, microbatches=8), "megatron", "where the session began")
    assert "gpipe" in found["problem"]
    assert found["rows"] == []
