"""Plan files: there and back exactly, and one clear line for every wrong one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.cluster_profiles import save_cluster
from explorer.models import saved
from explorer.plan import Plan, Provenance, Reference, Resolved, fingerprint, from_document, to_document
from explorer.strategy import Boundary, Sharding, Slice, Sync, UpdateChoice
from tests.random_plans import Case, even_cases, uneven_cases

PLANS = sorted((Path(__file__).parent / "plans").glob("*.yaml"))


def written(case: Case, folder: Path) -> Plan:
    """A plan whose model and cluster lie in a folder."""
    saved.save(case.graph, folder / "model.json")
    save_cluster(case.cluster, folder / "cluster.yaml")
    return explorer.make_plan(
        "model.json", case.graph, "cluster.yaml", case.cluster, case.workload, case.strategy,
        Provenance(searcher="hand", seed=7, note="a: note #1"),
    )  # fmt: skip


@settings(max_examples=40)
@given(case=st.one_of(even_cases("1f1b"), uneven_cases()), suffix=st.sampled_from(["yaml", "json"]))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, case: Case, suffix: str) -> None:
    folder = tmp_path_factory.mktemp("plan")
    plan = written(case, folder)
    path = folder / f"plan.{suffix}"
    explorer.save_plan(plan, {"model": case.graph}, path)
    read = explorer.load_plan(path)
    assert read.plan == plan
    assert (read.graph, read.cluster, read.mismatches) == (case.graph, case.cluster, ())


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_the_fourteen_plans_come_back(path: Path, suffix: str, tmp_path: Path) -> None:
    first = explorer.load_plan(path)
    copy = tmp_path / f"copy.{suffix}"
    explorer.save_plan(absolute(first, path.parent), first.graphs, copy)
    second = explorer.load_plan(copy)
    assert second.plan.strategy == first.plan.strategy
    assert second.plan.workload == first.plan.workload
    assert second.graphs == first.graphs


def absolute(plan: Resolved, folder: Path) -> Plan:
    """The plan with references that hold from any folder."""

    def located(item: Reference) -> Reference:
        path = folder / item.reference
        return replace(item, reference=str(path)) if path.exists() else item

    return replace(
        plan.plan,
        models=tuple((key, located(item)) for key, item in plan.plan.models),
        cluster=located(plan.plan.cluster),
    )


def test_everything_a_strategy_can_say_comes_back(tmp_path: Path) -> None:
    first = explorer.load_plan(PLANS[0])
    job = first.plan.strategy.job
    stage = replace(
        job.stages[0],
        name="first",
        slices=(Slice(layer="layers.1", dim="d", start=0.25, stop=1.0),),
        shares=(2.0,),
        layout=(("seq", "context"), ("ffn", "tensor"), ("seq", "tensor")),  # a dimension over two axes
        shardings=(
            Sharding(layers=("*.experts",), layout=(("experts", "expert"),), meshes=job.stages[0].meshes),
        ),
        recompute="selective",
        zero=2,
        zero_replicas=1,
        overlap=(("tensor", "tiles"),),
        density=0.5,
        offload=("optimizer", "activations"),
        replicas="round_robin",
    )
    job = replace(
        job,
        stages=(stage, *job.stages[1:]),
        options=(("concatenate", True),),
        sync=(
            Sync(parameters=("w*",), method="sharded_table", servers=(1, 2)),
            Sync(parameters=("*",), bucket_bytes=2.5e7),
        ),
        updates=(
            UpdateChoice(rule="stale", parameters=("w*",), options=(("delay", 2), ("compensation", 0.5))),
            UpdateChoice(rule="local_sgd"),
        ),
        transfers="best",
        boundaries=(Boundary(source=0, target=1, codec="fp16"),),
        checkpoint_period_s=30.0,
    )
    plan = replace(absolute(first, PLANS[0].parent), strategy=first.plan.strategy.with_job(job))
    for suffix in ("yaml", "json"):
        path = tmp_path / f"plan.{suffix}"
        explorer.save_plan(plan, first.graphs, path)
        assert explorer.load_plan(path).plan == plan


def test_ranges_are_written_short_and_read_back() -> None:
    graph = explorer.load_model("gpt2-small")
    cluster = explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph)
    strategy = explorer.uniform(graph, cluster, workload.job, stages=4)
    plan = explorer.make_plan("gpt2-small", graph, "dgx-a100", cluster, workload, strategy)
    document = to_document(plan, {"model": graph})
    stages = document["strategy"]["jobs"][0]["stages"]
    assert max(len(stage["layers"]) for stage in stages) <= 2  # runs of three or more are ranges
    assert " .. " in stages[0]["layers"][0]
    assert len(yaml.safe_dump(document)) < 2000
    assert from_document(json.loads(json.dumps(document))).plan == plan


def test_a_changed_input_is_said(tmp_path: Path) -> None:
    first = explorer.load_plan(PLANS[0])
    plan = absolute(first, PLANS[0].parent)
    stale = replace(
        plan,
        models=tuple((key, replace(item, fingerprint="0" * 16)) for key, item in plan.models),
        cluster=replace(plan.cluster, fingerprint="1" * 16),
    )
    explorer.save_plan(stale, first.graphs, tmp_path / "plan.yaml")
    found = explorer.load_plan(tmp_path / "plan.yaml").mismatches
    assert len(found) == 2
    assert all("has changed since the plan was made" in text for text in found)
    assert fingerprint(first.graph) == fingerprint(saved.read(json.loads(saved.to_json(first.graph))))


def document() -> dict[str, object]:
    text = PLANS[0].read_text(encoding="utf-8")
    found: dict[str, object] = yaml.safe_load(text)
    folder = PLANS[0].parent
    found["models"] = {"model": {"reference": str(folder / "models/chain4-equal.json")}}
    found["cluster"] = {"reference": str(folder / "clusters/free.yaml")}
    return found


def put(data: object, path: str, value: object) -> None:
    """Set the value at a dotted path."""
    *way, last = path.split(".")
    for part in way:
        data = data[int(part) if part.isdigit() else part]  # type: ignore[index]
    data[int(last) if last.isdigit() else last] = value  # type: ignore[index]


STAGE = "strategy.jobs.0.stages.0"

BAD: list[tuple[str, object, str]] = [
    ("schema", "explorer.plan/99", "schema"),
    ("models", [], "models"),
    ("models.model.reference", "no-such-model", "no-such-model"),
    ("cluster.reference", "no-such-cluster", "no-such-cluster"),
    ("workload.jobs.0.precision", "fp12", "workload.jobs[0].precision"),
    ("workload.jobs.0.global_batch", 0, "workload.jobs[0].global_batch"),
    ("workload.jobs.0.global_batch", "four", "workload.jobs[0].global_batch"),
    ("workload.jobs.0.global_batches", 4, "did you mean 'global_batch'"),
    ("strategy.jobs", [], "strategy.jobs"),
    ("strategy.jobs.0.stages", [], "strategy.jobs[0].stages"),
    (f"{STAGE}.layers", ["layers.0 .. layers.9"], "layers.9"),
    (f"{STAGE}.zero", 7, "strategy.jobs[0].stages[0].zero"),
    (f"{STAGE}.meshes", [{"devices": [0, 0]}], "strategy.jobs[0].stages[0].meshes[0]"),
    (f"{STAGE}.meshes", 3, "meshes"),
    (f"{STAGE}.microbatch", 1, "microbatch_samples"),
    (f"{STAGE}.shares", [-1.0], "out of range"),
]


@pytest.mark.parametrize(("path", "value", "said"), BAD, ids=[f"{path}={value}" for path, value, _ in BAD])
def test_a_wrong_file_gets_one_line(path: str, value: object, said: str, tmp_path: Path) -> None:
    data = document()
    put(data, path, value)
    for name in ("plan.yaml", "plan.json"):
        file = tmp_path / name
        file.write_text(yaml.safe_dump(data) if name.endswith("yaml") else json.dumps(data), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            explorer.load_plan(file)
        text = str(caught.value)
        assert said in text
        assert "\n" not in text
        assert caught.value.allowed or caught.value.found is not None


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "schema: [", "a: 1\na: 2", "!!python/object/apply:os.system ['true']"]
)
def test_what_is_no_plan_at_all(text: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"plan\.yaml") as caught:
        explorer.load_plan(file)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none"):
        explorer.load_plan(tmp_path / "none.yaml")
