"""Accelerate's launch configuration and TrainingArguments: written, read back, read by accelerate itself."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import PlanError
from explorer.export import export, preview, refusals
from explorer.export.roundtrip import SAME, load_back
from explorer.importing import import_file
from explorer.plan import Resolved
from explorer.strategies.degrees import Degrees
from tests.export.clients import read_by
from tests.export.samples import changed, resolved, uniform

needs_client = pytest.mark.skipif(
    find_spec("accelerate") is None or find_spec("transformers") is None,
    reason="needs accelerate and transformers; their keys are tested here, their parsers are not",
)


def plan_of(degrees: Degrees, zero_replicas: int = 0, **job: Any) -> Resolved:
    """A plan of Llama 3 8B with these degrees."""
    first = resolved(microbatches=8, **job)
    workload = first.plan.workload.with_job(global_batch=degrees.microbatch_samples * 4)
    strategy = degrees.build(first.graph, first.cluster, workload.job)
    found = replace(first, plan=replace(first.plan, workload=workload, strategy=strategy))
    return changed(found, zero_replicas=zero_replicas) if zero_replicas else found


@st.composite
def plans(draw: st.DrawFn) -> Resolved:
    grids = [(1, 1, 1), (8, 1, 1), (2, 1, 1), (4, 2, 1), (1, 8, 1), (2, 2, 2), (4, 1, 2), (1, 1, 2)]
    replicas, tensor, context = draw(st.sampled_from(grids))
    cut = tensor * context > 1
    zero = draw(st.sampled_from([2, 3] if cut and replicas > 1 else [0, 2, 3] if cut else [0, 1, 2, 3]))
    groups = draw(st.sampled_from([0, 2])) if zero >= 2 and replicas > 2 and not cut else 0
    buckets = draw(st.sampled_from([0.0, 25 * 2.0**20, 2.0**27])) if zero < 2 and replicas > 1 else 0.0
    degrees = Degrees(
        replicas=replicas, tensor=tensor, context=context, zero=zero, bucket_bytes=buckets,
        microbatch_size=draw(st.integers(1, 4)), recompute=draw(st.sampled_from(["none", "full"])),
    )  # fmt: skip
    return plan_of(degrees, groups, precision=draw(st.sampled_from(["bf16", "fp32"])))


@settings(max_examples=25, deadline=None)
@given(plans())
def test_any_degrees_come_back(plan: Resolved) -> None:
    assert refusals(plan, "accelerate") == []
    back = load_back(plan, "accelerate", preview(plan, "accelerate"))
    assert (back.outcome, back.given) == (SAME, False), back.differences


def launch(plan: Resolved) -> Any:
    return yaml.safe_load(preview(plan, "accelerate")["accelerate.yaml"])


def test_each_level_has_its_own_way() -> None:
    assert launch(uniform("replicas"))["distributed_type"] == "MULTI_GPU"
    for name, again in (("zero 2", False), ("zero 3", True)):
        found = launch(uniform(name))
        assert found["distributed_type"] == "FSDP"
        assert found["fsdp_config"]["fsdp_version"] == 2
        assert found["fsdp_config"]["fsdp_reshard_after_forward"] is again
    plan = resolved(replicas=8, microbatches=4, zero=1, optimizer="adamw")
    files = preview(plan, "accelerate")
    assert yaml.safe_load(files["accelerate.yaml"])["deepspeed_config"]["deepspeed_config_file"] in files
    assert json.loads(files["ds_config.json"])["zero_optimization"]["stage"] == 1


def test_groups_of_replicas_are_the_two_data_axes() -> None:
    sizes = launch(plan_of(Degrees(replicas=8, zero=3), 4))["parallelism_config"]
    assert sizes["parallelism_config_dp_replicate_size"] == 2
    assert sizes["parallelism_config_dp_shard_size"] == 4


def test_the_workload_comes_back_too(tmp_path: Path) -> None:
    plan = resolved(replicas=8, microbatches=4, zero=3, precision="bf16")
    export(plan, "accelerate", tmp_path)
    job = import_file(tmp_path, "accelerate").resolved.plan.workload.job
    first = plan.plan.workload.job
    for key in ("global_batch", "sequence_length", "precision", "optimizer"):
        assert getattr(job, key) == getattr(first, key)


def test_the_script_starts_accelerate_on_every_node(tmp_path: Path) -> None:
    plan = resolved(cluster="dgx-a100-4", replicas=32, microbatches=4, zero=3)
    export(plan, "accelerate", tmp_path)
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "$*"\n')
    fake.chmod(0o755)
    given = {"PATH": os.environ["PATH"], "PYTHON": str(fake), "NODE_RANK": "3", "MASTER_ADDR": "first"}
    command = ["bash", str(tmp_path / "run.sh"), "my_train.py", "--more"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert (
        "--num_machines 4 --machine_rank 3 --main_process_port 29500 --main_process_ip first" in done.stdout
    )
    assert done.stdout.rstrip().endswith(f"my_train.py {tmp_path}/training_arguments.json --more")
    del given["MASTER_ADDR"]
    assert subprocess.run(command, env=given, capture_output=True, check=False).returncode != 0


def on_processors(**options: Any) -> Resolved:
    return resolved(model="gpt2-small", cluster="cpu-2", replicas=2, microbatches=8, **options)


def test_on_processors_torchrun_starts_the_ranks(tmp_path: Path) -> None:
    """`accelerate launch` starts one process there: each rank gets one of its own."""
    plan = on_processors()
    found = launch(plan)
    assert (found["distributed_type"], found["use_cpu"], found["num_processes"]) == ("MULTI_CPU", True, 2)
    back = load_back(plan, "accelerate", preview(plan, "accelerate"))
    assert (back.outcome, back.given) == (SAME, False), back.differences
    export(plan, "accelerate", tmp_path)
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "$*"\n')
    fake.chmod(0o755)
    given = {"PATH": os.environ["PATH"], "PYTHON": str(fake), "MASTER_PORT": "29777"}
    command = ["bash", str(tmp_path / "run.sh"), "my_train.py"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    ranks, _, single = done.stdout.partition(" -m accelerate.commands.launch ")
    assert ranks.startswith("-m torch.distributed.run ")
    assert "--nnodes 1 --node-rank 0 --master-addr 127.0.0.1 --master-port 29777 --nproc-per-node 2" in ranks
    assert "--main_process_port 29777 my_train.py" in single
    assert launch(uniform("replicas"))["use_cpu"] is False
    assert "torch.distributed.run" not in preview(uniform("replicas"), "accelerate")["run.sh"]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (uniform("full recompute"), "2 stages"),
        (on_processors(zero=2), "ZeRO, offload or cut layers on processors"),
        (on_processors(zero=1, optimizer="adamw"), "ZeRO, offload or cut layers on processors"),
        (on_processors(precision="fp16"), "fp16 on processors: use bf16"),
        (resolved(replicas=2, tensor=2, microbatches=8), "cut layers without ZeRO 2 or 3"),
        (plan_of(Degrees(replicas=8, zero=1), 4), "ZeRO in groups without FSDP2"),
        (plan_of(Degrees(replicas=12, zero=2), cluster="dgx-a100-4"), "different numbers"),
    ],
)
def test_what_accelerate_does_not_take_is_refused(plan: Resolved, words: str) -> None:
    assert any(words in text for text in refusals(plan, "accelerate")), refusals(plan, "accelerate")


# ----------------------------------------------------------------------------------------- configs of others

USUAL = """\
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_backward_prefetch_policy: BACKWARD_PRE
  fsdp_forward_prefetch: false
  fsdp_offload_params: false
  fsdp_sharding_strategy: 2
  fsdp_state_dict_type: SHARDED_STATE_DICT
machine_rank: 0
mixed_precision: bf16
num_machines: 1
num_processes: 8
rdzv_backend: static
own_key: 1
"""
PLUG_IN = """\
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 4
  offload_optimizer_device: cpu
  offload_param_device: none
  zero3_init_flag: true
  zero_stage: 3
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""


def read(text: str, folder: Path, **arguments: Any) -> Any:
    (folder / "config.yaml").write_text(text)
    if arguments:
        (folder / "training_arguments.json").write_text(json.dumps(arguments))
    return import_file(folder / "config.yaml", "", model="llama3-8b")


def test_an_older_configuration_is_recognised_and_nothing_is_dropped(tmp_path: Path) -> None:
    found = read(
        USUAL, tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=4, warmup_steps=5
    )
    stage, job = found.resolved.plan.strategy.job.stages[0], found.resolved.plan.workload.job
    assert (stage.zero, stage.meshes[0].replicas, stage.microbatch_samples) == (2, 8, 16)
    assert (job.global_batch, job.precision, job.optimizer) == (64, "bf16", "adamw")
    said = {item.key: (item.line, item.assumed) for item in found.unknown}
    assert said["own_key"] == (17, "as if it were not there")
    assert said["fsdp_config.fsdp_backward_prefetch_policy"][0] == 7
    assert said["training_arguments.warmup_steps"] == (0, "no effect on the split")
    read_keys = {"distributed_type", "mixed_precision", "num_machines", "num_processes"}
    read_keys |= {"fsdp_config.fsdp_sharding_strategy", "fsdp_config.fsdp_offload_params"}
    every = {*yaml.safe_load(USUAL), *(f"fsdp_config.{key}" for key in yaml.safe_load(USUAL)["fsdp_config"])}
    assert every - {"fsdp_config"} == read_keys | {key for key in said if "training" not in key}


def test_deepspeeds_short_keys(tmp_path: Path) -> None:
    found = read(PLUG_IN, tmp_path)
    stage = found.resolved.plan.strategy.job.stages[0]
    assert (stage.zero, stage.offload, stage.meshes[0].replicas) == (3, ("optimizer",), 8)
    assert found.resolved.plan.workload.job.global_batch == 32
    assert found.resolved.plan.workload.job.precision == "bf16"
    said = {item.key for item in found.unknown}
    assert said == {"deepspeed_config.offload_param_device", "deepspeed_config.zero3_init_flag"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            USUAL.replace("fsdp_sharding_strategy: 2", "fsdp_sharding_strategy: ROUND"),
            "fsdp_sharding_strategy is",
        ),
        (USUAL.replace("fsdp_offload_params: false", "fsdp_offload_params: true"), "fsdp_offload_params"),
        (USUAL + "parallelism_config:\n  parallelism_config_tp_size: 3\n", "line 15: num_processes 8 is no"),
        (PLUG_IN.replace("zero_stage: 3", "deepspeed_config_file: none.json"), "no such file beside"),
        (USUAL.replace("FSDP", "TPU"), "line 3: distributed_type is 'TPU'"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        read(text, tmp_path)
    assert any(words in problem for problem in caught.value.problems), caught.value.problems


# ------------------------------------------------------------------------------------------ accelerate itself

CLIENT = {
    "replicas": uniform("replicas"),
    "zero 2": uniform("zero 2"),
    "zero 3": resolved(replicas=8, microbatches=4, zero=3, recompute="full"),
    "groups": plan_of(Degrees(replicas=8, zero=3), 4),
    "tensor": resolved(replicas=2, tensor=4, microbatches=4, zero=3),
    "zero 1": resolved(replicas=8, microbatches=4, zero=1, recompute="full", precision="fp16"),
}


@needs_client
@pytest.mark.slow
def test_accelerate_and_transformers_read_what_was_written(tmp_path: Path) -> None:
    for name, plan in CLIENT.items():
        export(plan, "accelerate", tmp_path / name)
    files = [(tmp_path / name / "accelerate.yaml", 1) for name in CLIENT]
    for (name, plan), found in zip(CLIENT.items(), read_by("accelerate", files), strict=True):
        job, stage = plan.plan.workload.job, plan.plan.strategy.job.stages[0]
        mesh, arguments, environment = stage.meshes[0], found["arguments"], found["environment"]
        assert (found["kind"], found["processes"]) == (launch(plan)["distributed_type"], len(mesh.devices))
        assert arguments["per_device_train_batch_size"] == stage.microbatch_samples // mesh.replicas
        assert arguments["gradient_accumulation_steps"] == job.global_batch // stage.microbatch_samples
        assert (arguments["bf16"], arguments["fp16"]) == (job.precision == "bf16", job.precision == "fp16")
        sharded = name not in ("replicas", "zero 1")
        assert environment.get("ACCELERATE_USE_FSDP", "false") == str(sharded).lower()
        if sharded:
            assert environment["FSDP_VERSION"] == "2"
            assert environment["FSDP_RESHARD_AFTER_FORWARD"] == str(stage.zero == 3).lower()
            assert environment["FSDP_ACTIVATION_CHECKPOINTING"] == str(stage.recompute == "full").lower()
        else:
            assert bool(arguments["gradient_checkpointing"]) == (stage.recompute == "full")
        if name in ("groups", "tensor"):
            sizes = [
                environment[f"PARALLELISM_CONFIG_{key}_SIZE"] for key in ("DP_REPLICATE", "DP_SHARD", "TP")
            ]
            assert sizes == (["2", "4", "1"] if name == "groups" else ["1", "2", "4"])
