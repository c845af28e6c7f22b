"""Exported configs in torchtitan itself, and torchtitan's own configs as plans."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.export import export, import_config, preview
from explorer.importing._titan_models import FLAVORS, block_numbers, flavor_of, module_names
from explorer.importing._titan_read import KNOWN, read
from explorer.models import load_model
from tests.export.samples import UNIFORM, changed, context_parallel, folded, resolved, uniform

LOADABLE = [name for name in KNOWN if name != "llama3_405b"]
"""torchtitan's own llama3_405b needs torchao for its float8 products."""
SUPPORT = Path(__file__).parents[1] / "support"

EXPECTED: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "3d with zero": (
        {
            "data_parallel_replicate_degree": 1,
            "data_parallel_shard_degree": 2,
            "fsdp_reshard_after_forward": "never",
            "tensor_parallel_degree": 2,
            "enable_sequence_parallel": False,
            "pipeline_parallel_degree": 2,
            "pipeline_parallel_schedule": "1F1B",
            "pipeline_parallel_schedule_csv": "",
            "pipeline_parallel_microbatch_size": 16,
            "context_parallel_degree": 1,
            "expert_parallel_degree": 1,
        },
        {"local_batch_size": 256, "global_batch_size": 512, "seq_len": 8192, "disable_cuda_graphs": True},
        None,
    ),
    "uneven cuts": (
        {
            "pipeline_parallel_degree": 4,
            "data_parallel_replicate_degree": 1,
            "module_fqns_per_model_part": [
                ["tok_embeddings", *(f"layers.{i}" for i in range(4))],
                [f"layers.{i}" for i in range(4, 11)],
                [f"layers.{i}" for i in range(11, 25)],
                [*(f"layers.{i}" for i in range(25, 32)), "norm", "lm_head"],
            ],
        },
        {"local_batch_size": 512, "mixed_precision_param": "bfloat16", "mixed_precision_reduce": "float32"},
        None,
    ),
    "zero 3": (
        {
            "data_parallel_shard_degree": 4,
            "fsdp_reshard_after_forward": "always",
            "pipeline_parallel_degree": 1,
            "module_fqns_per_model_part": None,
        },
        {"local_batch_size": 32, "global_batch_size": 512, "disable_cuda_graphs": False},
        None,
    ),
    "full recompute": ({"pipeline_parallel_microbatch_size": 64}, {"local_batch_size": 512}, "FullAC"),
}


def adam_with_csv() -> Any:
    return resolved(**UNIFORM["eager order"], recompute="selective", optimizer="adam")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Our exports and torchtitan's own configs by name, as torchtitan loads them, all in one process."""
    pytest.importorskip("torchtitan", reason="needs the `titan` extra")
    folder = tmp_path_factory.mktemp("titan")
    plans = {**{name: uniform(name) for name in EXPECTED}, "adam": adam_with_csv()}
    command: list[str] = []
    for i, plan in enumerate(plans.values()):
        export(plan, "torchtitan", folder / f"plan{i}")
        command += ["--module", f"plan{i}.explorer_plan", "--config", "llama3_8b", ","]
    for name in LOADABLE:
        command += ["--module", "llama3", "--config", name, ","]
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "titan_config.py"), *command[:-1]],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return {name: json.loads(line) for name, line in zip([*plans, *LOADABLE], lines, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("sample", EXPECTED)
def test_torchtitan_loads_what_was_written(sample: str, real: dict[str, dict[str, Any]]) -> None:
    config = real[sample]
    parallelism, training, policy = EXPECTED[sample]
    assert {key: config["parallelism"][key] for key in parallelism} == parallelism
    assert {key: config["training"][key] for key in training} == training
    spec = config["model_spec"]
    assert (spec["name"], spec["flavor"], len(spec["model"]["layers"])) == ("llama3", "8B", 32)
    assert (config["activation_checkpoint"] is None) == (policy is None)
    assert config["optimizer"]["param_groups"][0]["optimizer_name"] == "AdamW"


@pytest.mark.slow
def test_torchtitan_finds_the_schedule_and_adam(real: dict[str, dict[str, Any]]) -> None:
    config = real["adam"]
    file = Path(config["parallelism"]["pipeline_parallel_schedule_csv"])
    assert file.read_text() == preview(adam_with_csv(), "torchtitan")["schedule.csv"]
    assert config["parallelism"]["pipeline_parallel_schedule"] == "1F1B"
    assert config["optimizer"]["param_groups"][0]["optimizer_name"] == "Adam"
    assert "force_recompute_mm_shapes_by_fqns" in config["activation_checkpoint"]  # a field of SelectiveAC


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADABLE)
def test_known_bases_are_torchtitans(name: str, real: dict[str, dict[str, Any]]) -> None:
    """What we say that torchtitan's own functions say, against torchtitan."""
    settings = read(f"from x import {name}\ndef mine():\n    return {name}()\n")
    config = real[name]
    for key, value in settings.values.items():
        part, _, field = key.partition(".")
        if part in ("training", "parallelism"):
            assert config[part][field] == value, key
    assert config["model_spec"]["flavor"] == settings.values["model.flavor"]
    selective = "force_recompute_mm_shapes_by_fqns" in config["activation_checkpoint"]
    assert selective == (settings.values["activation_checkpoint.mode"] == "selective")
    for key, default in (("tensor_parallel_degree", 1), ("pipeline_parallel_degree", 1)):
        assert config["parallelism"][key] == settings.get(f"parallelism.{key}", default)


@pytest.mark.parametrize("name", ["llama3-8b", "llama3-70b", "llama3-405b"])
def test_the_zoo_is_known(name: str) -> None:
    graph = load_model(name)
    flavor = flavor_of(graph)
    assert flavor is not None
    assert (flavor.zoo, flavor.parameters) == (name, graph.parameter_count)
    modules = list(dict.fromkeys(module_names(graph).values()))
    assert modules == ["tok_embeddings", *(f"layers.{i}" for i in range(flavor.layers)), "norm", "lm_head"]


def test_other_models_are_not() -> None:
    assert flavor_of(load_model("gpt2-small")) is None
    assert block_numbers(load_model("vgg16")) == {} or flavor_of(load_model("vgg16")) is None
    assert len({(item.parameters, item.layers) for item in FLAVORS}) == len(FLAVORS)


@pytest.mark.parametrize("sample", UNIFORM)
def test_modules_are_python_of_constants(sample: str) -> None:
    text = preview(uniform(sample), "torchtitan")["explorer_plan.py"]
    tree = ast.parse(text)
    assert max(len(line) for line in text.splitlines()) <= 110
    imported = {alias.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for alias in n.names}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert imported <= used
    assert not [n for n in ast.walk(tree) if isinstance(n, (ast.If, ast.For, ast.Lambda))]


@pytest.mark.parametrize("sample", ["1f1b", "3d", "eager order", "interleaved"])
def test_a_pipeline_says_that_this_torch_cannot_run_it(sample: str) -> None:
    text = " ".join(preview(uniform(sample), "torchtitan")["explorer_plan.py"].split())
    assert "torch 2.13 does not take" in text
    alone = preview(uniform("zero 3"), "torchtitan")["explorer_plan.py"]
    assert "torch 2.13" not in alone


def test_csv_only_where_torch_has_no_name_for_the_order() -> None:
    with_csv = {name for name in UNIFORM if "schedule.csv" in preview(uniform(name), "torchtitan")}
    assert with_csv == {"eager order"}
    files = preview(folded(), "torchtitan")
    assert files["schedule.csv"].startswith("0F0,0F1,3F0")
    assert 'pipeline_parallel_schedule="ZBVZeroBubble"' in files["explorer_plan.py"]


def test_context_and_sequence_parallel() -> None:
    text = preview(context_parallel(), "torchtitan")["explorer_plan.py"]
    assert "context_parallel_degree=2" in text
    assert "enable_sequence_parallel=True" in text


def test_gradients_come_back_as_torchtitan_reduces_them(tmp_path: Path) -> None:
    export(uniform("3d"), "torchtitan", tmp_path)
    back = import_config(tmp_path, "torchtitan", model=None, cluster=None)
    job, before = back.plan.workload.job, uniform("3d").plan.workload.job
    assert (job.gradient_precision, before.gradient_precision) == ("fp32", "")
    assert (job.precision, job.optimizer, job.sequence_length) == ("bf16", "adamw", 8192)


@settings(max_examples=25)
@given(
    shape=st.sampled_from([(1, 8, 1), (8, 1, 1), (2, 2, 2), (4, 1, 2), (2, 4, 1), (1, 2, 4), (2, 1, 4)]),
    zero=st.sampled_from([0, 2, 3]),
    hybrid=st.booleans(),
    recompute=st.sampled_from(["none", "selective", "full"]),
    schedule=st.sampled_from(["1f1b", "gpipe", "interleaved_1f1b"]),
    data=st.data(),
)
def test_any_grid_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, int, int],
    zero: int,
    hybrid: bool,
    recompute: str,
    schedule: str,
    data: st.DataObject,
) -> None:
    stages, replicas, tensor = shape
    chunks = 2 if schedule.startswith("interleaved") and stages > 1 else 1
    blocks = st.lists(
        st.integers(1, 31), min_size=stages * chunks - 1, max_size=stages * chunks - 1, unique=True
    )
    cuts = [1 + 14 * block for block in sorted(data.draw(blocks))]  # 14 layers a block, behind the embedding
    plan = resolved(
        stages=stages, replicas=replicas, tensor=tensor, chunks=chunks, cuts=cuts, microbatches=16,
        zero=zero if replicas > 1 else 0, recompute=recompute, schedule=schedule if stages > 1 else "1f1b",
    )  # fmt: skip
    if hybrid and zero and replicas > 2:
        plan = changed(plan, zero_replicas=replicas // 2)
    folder = tmp_path_factory.mktemp("titan")
    export(plan, "torchtitan", folder)
    back = import_config(folder, "torchtitan", model=None, cluster=None).plan
    assert back.strategy == plan.plan.strategy
    assert back.workload.job.global_batch == plan.plan.workload.job.global_batch


def test_devices_that_do_not_begin_at_zero(tmp_path: Path) -> None:
    from explorer.strategy import Mesh

    plan = resolved(cluster="dgx-a100-4", stages=2, microbatches=4)
    meshes = {0: (Mesh(devices=(12,)),), 1: (Mesh(devices=(13,)),)}
    plan = changed(plan, meshes=meshes)
    export(plan, "torchtitan", tmp_path)
    assert "CUDA_VISIBLE_DEVICES:-4,5" in (tmp_path / "run.sh").read_text()
    back = import_config(tmp_path, "torchtitan", model=None, cluster=None)
    assert back.plan.strategy == plan.plan.strategy
