"""DeepSpeed's configuration: what is written, what comes back, what DeepSpeed's own parser makes of it."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError, PlanError
from explorer.export import export, preview, refusals
from explorer.export.roundtrip import SAME, load_back
from explorer.importing import import_file
from explorer.plan import Resolved
from explorer.strategies.degrees import Degrees
from tests.export.clients import read_by
from tests.export.samples import UNIFORM, changed, resolved, uniform

needs_client = pytest.mark.skipif(
    find_spec("deepspeed") is None,
    reason="needs deepspeed; its keys are tested here, its parser is not",
)


def plan_of(degrees: Degrees, **job: Any) -> Resolved:
    """A plan of Llama 3 8B with these degrees."""
    first = resolved(microbatches=8, **job)
    workload = first.plan.workload.with_job(global_batch=degrees.microbatch_samples * 8)
    strategy = degrees.build(first.graph, first.cluster, workload.job)
    return replace(first, plan=replace(first.plan, workload=workload, strategy=strategy))


@st.composite
def degrees(draw: st.DrawFn) -> Degrees:
    sizes = draw(
        st.sampled_from([(1, 1, 1), (1, 8, 1), (4, 2, 1), (2, 4, 1), (1, 2, 4), (1, 1, 8), (8, 1, 1)])
    )
    stages, replicas, tensor = sizes
    zero = draw(st.integers(0, 1 if stages > 1 else 3))
    buckets = draw(st.sampled_from([0.0, 2.0**20, 25 * 2.0**20, 1e9])) if zero and replicas > 1 else 0.0
    return Degrees(
        stages=stages, replicas=replicas, tensor=tensor, zero=zero, bucket_bytes=buckets,
        microbatch_size=draw(st.integers(1, 4)), recompute=draw(st.sampled_from(["none", "full"])),
    )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    degrees(),
    st.sampled_from(["adam", "adamw", "sgd", "momentum"]),
    st.sampled_from(["bf16", "fp16", "fp32"]),
)
def test_any_degrees_come_back(found: Degrees, optimizer: str, precision: str) -> None:
    plan = plan_of(found, optimizer=optimizer, precision=precision)
    assert refusals(plan, "deepspeed") == []
    back = load_back(plan, "deepspeed", preview(plan, "deepspeed"))
    assert (back.outcome, back.given) == (SAME, False), back.differences


def back_of(plan: Resolved, folder: Path) -> Any:
    export(plan, "deepspeed", folder)
    return import_file(folder, "deepspeed")


def test_the_workload_comes_back_too(tmp_path: Path) -> None:
    plan = resolved(replicas=8, microbatches=4, zero=1, optimizer="adam", precision="fp16")
    found = back_of(plan, tmp_path)
    job, first = found.resolved.plan.workload.job, plan.plan.workload.job
    for key in ("global_batch", "sequence_length", "precision", "optimizer"):
        assert getattr(job, key) == getattr(first, key)
    assert job.gradient_precision == "fp16"


def test_states_and_activations_in_the_host_come_back(tmp_path: Path) -> None:
    plan = changed(
        resolved(replicas=8, microbatches=4, zero=3, recompute="full"), offload=("optimizer", "activations")
    )
    data = json.loads(preview(plan, "deepspeed")["ds_config.json"])
    assert data["zero_optimization"]["offload_optimizer"] == {"device": "cpu"}
    assert data["activation_checkpointing"] == {"number_checkpoints": 32, "cpu_checkpointing": True}
    assert back_of(plan, tmp_path).resolved.plan.strategy == plan.plan.strategy


def test_stages_are_the_plans_own(tmp_path: Path) -> None:
    plan = uniform("uneven cuts")
    text = preview(plan, "deepspeed")["pipeline.py"]
    tree = ast.parse(text)
    stages = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "STAGES"  # type: ignore[attr-defined]
    )
    assert [len(stage) for stage in stages] == [5, 7, 14, 9]
    assert [name for stage in stages for name in stage][:2] == ["embed", "layers.0"]
    assert back_of(plan, tmp_path).resolved.plan.strategy == plan.plan.strategy


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (resolved(stages=2, replicas=2, microbatches=8, zero=2), "ZeRO 2 or 3 with a pipeline: use ZeRO 1"),
        (resolved(stages=2, tensor=2, microbatches=8), "AutoTP with a pipeline"),
        (resolved(replicas=2, microbatches=8, bucket_bytes=2**20), "without ZeRO: use ZeRO 1"),
        (
            changed(resolved(replicas=2, microbatches=8), offload=("optimizer",)),
            "offloaded states without ZeRO",
        ),
        (uniform("interleaved"), "virtual stages"),
        (uniform("gpipe"), "gpipe"),
    ],
)
def test_what_deepspeed_does_not_take_is_refused(plan: Resolved, words: str) -> None:
    assert any(words in text for text in refusals(plan, "deepspeed"))


# ----------------------------------------------------------------------------------------- configs of others

USUAL = """\
{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 8,
  "gradient_clipping": 1.0,
  "zero_optimization": {
    "stage": 3,
    "reduce_bucket_size": 5e8,
    "offload_optimizer": {"device": "nvme", "nvme_path": "/scratch"},
    "offload_param": {"device": "cpu"},
    "stage3_max_live_parameters": 1e9
  },
  "activation_checkpointing": {"partition_activations": true},
  "optimizer": {"type": "Adam", "params": {"lr": "auto", "betas": [0.9, 0.95]}},
  "bf16": {"enabled": true},
  "my_own_key": 3
}
"""


def read(text: str, folder: Path, **given: Any) -> Any:
    path = folder / "ds.json"
    path.write_text(text)
    return import_file(path, "", **{"model": "llama3-8b", "cluster": "dgx-a100", **given})


def test_a_usual_configuration_is_recognised_and_nothing_is_dropped(tmp_path: Path) -> None:
    found = read(USUAL, tmp_path)
    stage, job = found.resolved.plan.strategy.job.stages[0], found.resolved.plan.workload.job
    assert (stage.zero, stage.meshes[0].replicas, stage.microbatch_samples) == (3, 8, 32)
    assert (stage.recompute, stage.offload) == ("full", ("optimizer",))
    assert (job.global_batch, job.precision, job.optimizer) == (256, "bf16", "adamw")
    assert found.resolved.plan.strategy.job.sync[0].bucket_bytes == 1e9
    lines = {item.key: item.line for item in found.unknown}
    assert lines == {
        "gradient_clipping": 4,
        "zero_optimization.offload_optimizer.nvme_path": 8,
        "zero_optimization.offload_param.device": 9,
        "zero_optimization.stage3_max_live_parameters": 10,
        "activation_checkpointing.partition_activations": 12,
        "optimizer.params.lr": 13,
        "optimizer.params.betas": 13,
        "my_own_key": 15,
    }
    said = {item.key: item.assumed for item in found.unknown}
    assert said["my_own_key"] == "as if it were not there"
    assert said["zero_optimization.offload_param.device"].startswith("weights stay on the device")
    assert any("partition_activations" in text for text in found.assumed)


def test_a_batch_alone_is_shared_by_the_cluster(tmp_path: Path) -> None:
    found = read('{"train_batch_size": 64, "fp16": {"enabled": true}}', tmp_path)
    assert found.resolved.plan.strategy.job.stages[0].microbatch_samples == 64
    assert any("microbatches of 8 samples" in text for text in found.assumed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"train_batch_size": 65, "train_micro_batch_size_per_gpu": 4,\n "gradient_accumulation_steps": 2}',
         "train_batch_size 65 is no multiple of"),
        ('{"train_batch_size": 8,\n "zero_optimization": {"stage": 7}}', "line 2: zero_optimization.stage"),
        ('{"train_batch_size": "many"}', "line 1: train_batch_size is 'many': allowed are whole numbers"),
        ('{"train_batch_size": 8, "zero_optimization": {"stage": 2}, "pipeline": {"stages": 2}}',
         "DeepSpeed takes ZeRO 0 or 1 there"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        read(text, tmp_path)
    assert any(words in problem for problem in caught.value.problems), caught.value.problems
    assert all("\n" not in problem for problem in caught.value.problems)


def test_the_model_has_to_be_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(USUAL, tmp_path, model=None)
    assert caught.value.key == "--model"


# ------------------------------------------------------------------------------------------- DeepSpeed itself


@needs_client
@pytest.mark.slow
def test_deepspeed_reads_what_was_written(tmp_path: Path) -> None:
    plans = {name: uniform(name) for name in UNIFORM if not refusals(uniform(name), "deepspeed")}
    plans["host"] = changed(
        resolved(replicas=8, microbatches=4, zero=1, recompute="full", bucket_bytes=2**20, optimizer="adam"),
        offload=("optimizer", "activations"),
    )
    files = []
    for name, plan in plans.items():
        export(plan, "deepspeed", tmp_path / name)
        files.append(
            (tmp_path / name / "ds_config.json", plan.plan.strategy.job.stages[0].meshes[0].replicas)
        )
    for (name, plan), config in zip(plans.items(), read_by("deepspeed", files), strict=True):
        job, stage = plan.plan.workload.job, plan.plan.strategy.job.stages[0]
        replicas, samples = stage.meshes[0].replicas, stage.microbatch_samples
        assert config["batch"] == [job.global_batch, samples // replicas, job.global_batch // samples], name
        assert (config["zero"], config["tensor"] or 1) == (stage.zero, stage.meshes[0].size("tensor"))
        assert config["pipeline"] == (len(plan.plan.strategy.job.stages) if len(
            plan.plan.strategy.job.stages) > 1 else "auto")  # fmt: skip
        assert config["checkpoints"] == (32 if stage.recompute == "full" else None)
        assert (config["bf16"], config["optimizer"]) == (True, job.optimizer)
        assert config["gradients"] == "bf16"
        assert config["overlap"] == (name == "host")
        assert (config["states"], config["host"]) == (("cpu", True) if name == "host" else ("none", False))


def test_a_file_of_ours_says_where_it_comes_from() -> None:
    data = json.loads(preview(uniform("zero 2"), "deepspeed")["ds_config.json"])
    assert data["explorer"] == {"model": "llama3-8b", "cluster": "dgx-a100"}
