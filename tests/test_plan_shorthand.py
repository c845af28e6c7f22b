"""Large plans are short, can be read by people, and come back exactly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
from explorer import plan_shorthand
from explorer.base.errors import InputError
from explorer.base.plain_data import write_document
from explorer.plan import SCHEMA, SHORT_SCHEMA, Plan, from_document, to_document
from explorer.plan_shorthand import device_runs, devices_of, written_out
from explorer.strategy import RESHARDS, Keeping, Mesh, Sharding, single
from tests.random_plans import Case, even_cases, uneven_cases
from tests.test_plan_files import written

BYTES = 20_000


@contextmanager
def from_the_first_device() -> Iterator[None]:
    """Small plans are written in short as well."""
    before = plan_shorthand.LONGEST_SPELT_OUT
    plan_shorthand.LONGEST_SPELT_OUT = 0  # type: ignore[misc]
    try:
        yield
    finally:
        plan_shorthand.LONGEST_SPELT_OUT = before  # type: ignore[misc]


progressions = st.lists(
    st.tuples(
        st.integers(0, 60), st.integers(1, 5), st.integers(1, 4), st.integers(1, 20), st.integers(1, 3)
    ),
    max_size=5,
).map(
    lambda parts: [
        first + i + j * step + k * 97 for first, length, times, step, again in parts
        for k in range(again) for j in range(times) for i in range(length)
    ]
)  # fmt: skip


@given(st.lists(st.integers(0, 40), max_size=30) | st.permutations(range(24)) | progressions)
def test_devices_come_back_in_their_order(devices: list[int]) -> None:
    runs = device_runs(devices)
    assert devices_of(runs, "") == devices
    assert len(runs) <= len(devices)


@pytest.mark.parametrize(
    ("devices", "runs"),
    [
        (range(1024), ["0 .. 1023"]),
        ([8 * i + j for i in range(128) for j in range(8)], ["0 .. 1023"]),
        ([128 * i + j for i in range(128) for j in range(8)], ["0 .. 7 x 128 by 128"]),
        (range(3, 4096, 8), ["3 x 512 by 8"]),
        ([256 * k + 32 * i + j for k in range(4) for i in range(4) for j in range(8)],
         ["0 .. 7 x 4 by 32 x 4 by 256"]),
        ([7, 6, 5, 4], ["7 x 4 by -1"]),
        ([0, 1], [0, 1]),
        ([0, 4, 5, 9], [0, 4, 5, 9]),
        ([0, 1, 2, 9, 4], ["0 .. 2", 9, 4]),
    ],
)  # fmt: skip
def test_runs_are_what_a_person_would_write(devices: Any, runs: list[int | str]) -> None:
    assert device_runs(list(devices)) == runs


@pytest.mark.parametrize(
    "text", ["", "a", "3 ..", "5 .. 3", "0 .. 7 x 3", "0..7", "-1", "1 .. 9 by 2", "0 .. 7 x"]
)
def test_what_is_no_run(text: str) -> None:
    with pytest.raises(InputError, match=r"stages\[0\]\[1\]: .* is not a run of devices"):
        devices_of([0, text], "stages[0]")


@pytest.mark.parametrize("text", ["0 .. 99999999", "0 x 999999999 by 1", "0 .. 9 x 9999 by 9 x 9999 by 9"])
def test_a_slip_does_not_cost_the_memory(text: str) -> None:
    with pytest.raises(InputError, match="devices"):
        devices_of([text], "devices")


def test_no_run_is_below_the_first_device() -> None:
    job = {"stages": [{"layers": ["a"], "meshes": [{"devices": ["2 x 4 by -1"]}]}]}
    assert written_out(job, "job")["stages"][0]["meshes"][0]["devices"] == [
        2,
        1,
        0,
        -1,
    ]  # refused with the mesh


def big(**choices: Any) -> tuple[Plan, explorer.LayerGraph]:
    """Llama 405B on 2048 nodes of 8, and its model."""
    model, cluster = "llama3-405b", "hgx-h100-2048"
    graph, devices = explorer.load_model(model), explorer.load_cluster(cluster)
    workload = explorer.default_workload(graph).with_job(global_batch=2048)
    degrees = {"stages": 16, "replicas": 128, "tensor": 8, "microbatch_size": 1}
    strategy = explorer.uniform(graph, devices, workload.job, **degrees, **choices)
    return explorer.make_plan(model, graph, cluster, devices, workload, strategy), graph


@pytest.mark.parametrize("chunks", [1, 7])
@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_plan_for_16384_devices_is_short(ending: str, chunks: int, tmp_path: Path) -> None:
    plan, graph = big(chunks=chunks, zero=1, recompute="full")
    path = tmp_path / f"plan.{ending}"
    explorer.save_plan(plan, {"model": graph}, path)
    assert path.stat().st_size < BYTES * (1 if chunks == 1 or ending == "yaml" else 2)
    text = path.read_text()
    assert "0 .. 1023" in text
    assert text.count("recompute") == text.count("ffn") == 1
    assert explorer.load_plan(path).plan == plan
    assert len(plan.strategy.job.devices) == 16_384


def test_the_order_of_a_trainer_with_data_parallelism_inside_is_short(tmp_path: Path) -> None:
    plan, graph = big()
    job = plan.strategy.job
    stages = [
        replace(stage, meshes=(replace(stage.meshes[0], devices=tuple(
            128 * i + 8 * s + j for i in range(128) for j in range(8)
        )),))
        for s, stage in enumerate(job.stages)
    ]  # fmt: skip
    plan = replace(plan, strategy=plan.strategy.with_job(job.with_stages(stages)))
    explorer.save_plan(plan, {"model": graph}, tmp_path / "plan.yaml")
    assert "8 .. 15 x 128 by 128" in (tmp_path / "plan.yaml").read_text()
    assert (tmp_path / "plan.yaml").stat().st_size < BYTES
    assert explorer.load_plan(tmp_path / "plan.yaml").plan == plan


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.one_of(even_cases("1f1b"), uneven_cases()))
def test_every_plan_comes_back_from_the_short_form(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    plan = written(case, folder)
    with from_the_first_device():
        document = to_document(plan, {"model": case.graph})
    assert document["schema"] == SHORT_SCHEMA
    write_document(document, folder / "plan.yaml")
    assert explorer.load_plan(folder / "plan.yaml").plan == plan


def test_what_a_stage_has_otherwise_comes_back(tmp_path: Path) -> None:
    """Stages that differ from the rest in every field, also in having its default."""
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100-128")
    workload = explorer.default_workload(graph).with_job(global_batch=64)
    job = explorer.uniform(graph, cluster, workload.job, stages=4, replicas=4, tensor=8).job
    rich = {
        "microbatch_samples": 8, "replicas": "round_robin", "shares": (1.0, 1.0, 1.0, 2.0),
        "recompute": "full", "overlap": (("tensor", "tiles"),), "density": 0.5, "offload": ("optimizer",),
        "axis_shares": (("tensor", (3.0, *[1.0] * 7)),),
        "zero": 2, "zero_replicas": 2, "reshard": RESHARDS[0],
        "keeping": (Keeping(layers=("layers.3.*",), recompute="none", on="host"),),
        "layout": (("ffn", "tensor"), ("heads", "tensor")),
        "shardings": (Sharding(layers=("x*",), meshes=(Mesh(devices=tuple(range(64, 96))),)),),
    }  # fmt: skip
    assert set(rich) <= set(plan_shorthand._SHARED)
    plainest = replace(
        job.stages[1], layout=(), name="plain",
        meshes=(Mesh(devices=job.stages[1].meshes[0].devices),), microbatch_samples=1,
    )  # fmt: skip
    stages = [replace(stage, **rich) for stage in job.stages]
    stages[1] = plainest
    strategy = single(stages=tuple(stages), job="job")
    plan = explorer.make_plan("gpt2-small", graph, "dgx-a100-128", cluster, workload, strategy)
    for ending in ("yaml", "json"):
        path = tmp_path / f"plan.{ending}"
        explorer.save_plan(plan, {"model": graph}, path)
        assert explorer.load_plan(path).plan == plan
    text = (tmp_path / "plan.yaml").read_text()
    assert text.startswith(f"schema: {SHORT_SCHEMA}")
    assert "recompute: none" in text
    assert text.count("'on': host") == 1, "what most stages share stands once"
    assert "layout: {}" in text


def test_small_plans_are_files_that_older_versions_read() -> None:
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph)
    strategy = explorer.uniform(graph, cluster, workload.job, stages=4)
    plan = explorer.make_plan("gpt2-small", graph, "dgx-a100", cluster, workload, strategy)
    document = to_document(plan, {"model": graph})
    assert document["schema"] == SCHEMA
    job = document["strategy"]["jobs"][0]
    assert job["stages"][3]["meshes"][0]["devices"] == [3]
    # and a person may write in short what is small
    job["stage_defaults"] = {"zero": 1}
    job["stages"][0]["meshes"][0] = {"devices": ["0"], "axes": {"replica": 1}}
    read = from_document(document).plan.strategy.job.stages
    assert [stage.zero for stage in read] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        (3, "is not a mapping"),
        ({"layers": ["a"]}, "'layers' cannot be shared"),
        ({"zerro": 1}, "'zerro' cannot be shared"),
        ({"zero": "many"}, r"stages\[0\].zero"),
        ({"axes": 3}, "axes"),
    ],
)
def test_wrong_defaults_are_named(defaults: Any, said: str) -> None:
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph)
    strategy = explorer.uniform(graph, cluster, workload.job, stages=2)
    plan = explorer.make_plan("gpt2-small", graph, "dgx-a100", cluster, workload, strategy)
    document = to_document(plan, {"model": graph})
    job = document["strategy"]["jobs"][0]
    for stage in job["stages"]:
        del stage["meshes"][0]["axes"]
    job["stage_defaults"] = defaults
    with pytest.raises(InputError, match=said) as caught:
        from_document(document, file="plan.yaml")
    assert caught.value.file == "plan.yaml"
