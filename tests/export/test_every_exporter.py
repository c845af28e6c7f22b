"""Every registered exporter: complete capability tables, refusals by name, files, and the way back."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from explorer.base.errors import InputError, PlanError
from explorer.export import (
    EXPORTERS,
    capability_rows,
    export,
    import_config,
    notes,
    preview,
    readable,
    refusals,
)
from explorer.export.features import FEATURES, uses
from explorer.export.spec import KEEPS, PLAN, STAGES, Exporter
from explorer.plan import Resolved, load_plan
from explorer.simulation.check import check
from tests.export.samples import UNIFORM, changed, context_parallel, folded, resolved, uniform

NAMES = EXPORTERS.names()
READABLE = [entry.name for entry in EXPORTERS if readable(entry.name)]
PLANS = sorted((Path(__file__).parents[1] / "plans").glob("*.yaml"))


def actions_of(found: Resolved) -> list[list[str]]:
    """The order of one step, without updates."""
    from explorer.export._order import order_of

    order, _ = order_of(found)
    lanes = dict.fromkeys(tuple(str(a) for a in lane if a.op != "U") for lane in order.lanes)
    return [list(lane) for lane in lanes]


def test_all_four_are_there() -> None:
    assert {"plan", "schedule_csv", "torchrun", "torchtitan"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_table_says_something_of_every_feature(name: str) -> None:
    table = EXPORTERS.get(name).capabilities
    assert set(table) == {feature.name for feature in FEATURES}
    rows = capability_rows(name)
    assert [row["feature"] for row in rows] == [feature.name for feature in FEATURES]
    assert all(row["how"] for row in rows)
    assert all(row["exact"] for row in rows if not row["supported"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sample", UNIFORM)
def test_exports_and_comes_back(name: str, sample: str, tmp_path: Path) -> None:
    plan, exporter = uniform(sample), EXPORTERS.get(name)
    if problems := refusals(plan, name):
        check_refusal(plan, exporter, problems, tmp_path / "out")
        return
    paths = export(plan, name, tmp_path / "out")
    assert paths
    assert all(path.is_file() and path.parent == tmp_path / "out" for path in paths)
    assert {path.name: path.read_text("utf-8") for path in paths} == preview(plan, name)
    if not readable(name):
        return
    back = import_config(tmp_path / "out", name, model="llama3-8b", cluster="dgx-a100")
    job, strategy = back.plan.workload.job, back.plan.strategy
    assert check(back.graph, back.cluster, back.plan.workload, strategy) == []
    assert job.global_batch == plan.plan.workload.job.global_batch
    assert actions_of(back) == actions_of(plan)
    assert len(strategy.job.stages) == len(plan.plan.strategy.job.stages)
    if exporter.keeps == PLAN:
        assert strategy == plan.plan.strategy
    elif exporter.keeps == STAGES:
        assert strategy.job.stages == plan.plan.strategy.job.stages
        if strategy.job.schedule == plan.plan.strategy.job.schedule != "custom":
            assert strategy == plan.plan.strategy


def check_refusal(plan: Resolved, exporter: Exporter, problems: list[str], folder: Path) -> None:
    """What is refused is what the plan uses and the target has not, by name; and nothing is written."""
    with pytest.raises(PlanError) as caught:
        export(plan, exporter.name, folder)
    assert caught.value.problems == tuple(problems)
    assert not folder.exists()
    lacking = [use for use in uses(plan) if not exporter.capabilities[use.name].covers(use)]
    for use in lacking:
        how = exporter.capabilities[use.name].how
        assert f"{exporter.name} cannot express {use.feature} ({use.where}): {how}" in problems
    others = exporter.problems(plan) if len(plan.plan.strategy.jobs) == 1 else []
    assert len(problems) == len(lacking) + len(others)
    assert all(": " in text for text in problems), "a refusal says the way out"


@pytest.mark.parametrize("name", NAMES)
def test_some_of_the_usual_can_be_expressed(name: str) -> None:
    """A target that refuses everything is none: a sample of several devices is written."""
    assert {sample for sample in UNIFORM if not refusals(uniform(sample), name)} - {"one device"}


def test_what_comes_back_is_one_of_three() -> None:
    assert {exporter.keeps for exporter in EXPORTERS} <= set(KEEPS)
    assert all(exporter.main for exporter in EXPORTERS if readable(exporter.name))


@pytest.mark.parametrize("make", [context_parallel, folded])
def test_odd_ones_come_back_from_torchtitan(make: object, tmp_path: Path) -> None:
    plan = make()  # type: ignore[operator]
    export(plan, "torchtitan", tmp_path)
    back = import_config(tmp_path, "torchtitan", model=None, cluster=None)
    assert back.plan.strategy.job.stages == plan.plan.strategy.job.stages
    assert actions_of(back) == actions_of(plan)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("file", PLANS, ids=lambda path: path.stem)
def test_handwritten_plans_export_or_are_refused_by_name(name: str, file: Path, tmp_path: Path) -> None:
    plan = load_plan(file)
    if problems := refusals(plan, name):
        check_refusal(plan, EXPORTERS.get(name), problems, tmp_path / "out")
    else:
        assert export(plan, name, tmp_path / "out")


@pytest.mark.parametrize("file", PLANS, ids=lambda path: path.stem)
def test_plan_takes_its_files_along(file: Path, tmp_path: Path) -> None:
    """The folder is complete: read from elsewhere it gives the same plan with the same fingerprints."""
    plan = load_plan(file)
    export(plan, "plan", tmp_path)
    back = import_config(tmp_path, "plan", model=None, cluster=None)
    assert back.mismatches == ()
    assert (back.plan.strategy, back.plan.workload) == (plan.plan.strategy, plan.plan.workload)
    assert dict(back.graphs) == dict(plan.graphs)
    assert back.cluster == plan.cluster


def test_a_plan_of_bundled_inputs_comes_back_exactly(tmp_path: Path) -> None:
    plan = uniform("3d")
    export(plan, "plan", tmp_path)
    assert import_config(tmp_path, "plan", model=None, cluster=None).plan == plan.plan


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (resolved(stages=4, microbatches=8, schedule="pipedream"), ["asynchronous", "1f1b"]),
        (changed(resolved(replicas=2, microbatches=8), replicas="round_robin"), ["round robin", "split"]),
        (resolved(replicas=8, microbatches=4, zero=1), ["ZeRO level 1", "level 2 or 3"]),
        (resolved(replicas=2, microbatches=8, optimizer="sgd"), ["optimizer (sgd)", "adamw"]),
        (resolved(replicas=2, microbatches=8, precision="fp16"), ["precision (fp16)", "bf16"]),
        (changed(resolved(replicas=2, microbatches=8), shares=(3.0, 1.0)), ["uneven shares"]),
        (
            changed(resolved(stages=2, microbatches=8), recompute={0: "full"}),
            ["recomputation that differs", "full, none"],
        ),
        (
            changed(resolved(stages=2, microbatches=8), microbatch_samples={0: 32}),
            ["microbatch sizes that differ", "32, 64"],
        ),
        (resolved(model="gpt2-small", microbatches=8), ["the model 'gpt2-small'", "llama3 8B"]),
        (resolved(stages=2, cuts=[5], microbatches=8), ["a block divided", "layers.0"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_torchtitan_names_what_it_has_not(plan: Resolved, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        export(plan, "torchtitan", tmp_path)
    for word in words:
        assert word in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_all_reasons_at_once() -> None:
    plan = changed(resolved(replicas=2, microbatches=8, optimizer="sgd"), replicas="round_robin")
    assert len(refusals(plan, "torchtitan")) == 2


def test_what_is_near_is_said() -> None:
    said = " ".join(notes(uniform("selective recompute"), "torchtitan"))
    assert "SelectiveAC" in said
    assert "fp32" in said
    assert any("tensor parallelism" in text for text in notes(uniform("3d"), "torchrun"))
    assert notes(uniform("3d"), "plan") == []


def test_a_wrong_plan_is_not_exported(tmp_path: Path) -> None:
    wrong = changed(resolved(replicas=2, microbatches=8), microbatch_samples=7)
    with pytest.raises(PlanError, match="microbatches of 7 samples do not divide"):
        export(wrong, "plan", tmp_path)


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="unknown exporter 'no-such-target'") as caught:
        preview(uniform("1f1b"), "no-such-target")
    assert str(caught.value.allowed).split(", ") == NAMES
    with pytest.raises(InputError, match="unknown exporter"):
        import_config(Path("x"), "no-such-target", model=None, cluster=None)


def test_import_errors_are_one_line(tmp_path: Path) -> None:
    for name in READABLE:
        with pytest.raises(InputError, match="cannot read the file") as caught:
            import_config(tmp_path / "missing.py", name, model=None, cluster=None)
        assert "\n" not in str(caught.value)


def test_exporting_needs_no_torch() -> None:
    import subprocess

    code = (
        "import sys; from explorer.export import EXPORTERS; EXPORTERS.names();"
        "assert not {'torch', 'torchtitan', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_transfers_that_block_are_said() -> None:
    plan = resolved(stages=2, microbatches=8, options={"blocking": True})
    assert "blocking" in {use.name for use in uses(plan)}
    for name in ("torchtitan", "torchrun"):
        assert any("hold up both their ends" in text for text in notes(plan, name))
    assert not any("hold up" in text for text in notes(resolved(stages=2, microbatches=8), "torchrun"))


def test_the_page_of_targets_is_current() -> None:
    root = Path(__file__).parents[2]
    made = runpy.run_path(str(root / "scripts" / "exports_page.py"))["page"]()
    assert (root / "docs" / "exports.md").read_text("utf-8") == made, "run python scripts/exports_page.py"
