"""torchtitan configs by hand as baselines: read, never run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError, PlanError
from explorer.export import import_config
from explorer.importing._titan_read import read
from explorer.plan import Resolved
from explorer.sharding.layouts import megatron_layout

BY_HAND = '''
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

RANKS = 8
TENSOR = RANKS // 2

raise SystemExit("was run")


def mine() -> Trainer.Config:
    """By hand."""
    config = base()
    config.parallelism.tensor_parallel_degree = TENSOR
    config.activation_checkpoint = FullAC.Config()
    config.training.steps = 10
    return config


def base() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(local_batch_size=4, seq_len=4096, steps=1000),
        parallelism=ParallelismConfig(data_parallel_shard_degree=-1),
    )
'''

TOML = """
[model]
name = "llama3"
flavor = "70B"
[optimizer]
name = "AdamW"
lr = 1.5e-4
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "full"
[float8]
enable_fsdp_float8_all_gather = true
"""


def imported(tmp_path: Path, text: str, file: str = "config.py", **inputs: Any) -> Resolved:
    name, _, _ = file.partition(":")
    (tmp_path / name).write_text(text)
    given = {"model": None, "cluster": "dgx-a100", **inputs}
    return import_config(tmp_path / file, "torchtitan", **given)


def test_a_module_by_hand(tmp_path: Path) -> None:
    plan = imported(tmp_path, BY_HAND)
    job, strategy = plan.plan.workload.job, plan.plan.strategy.job
    (stage,) = strategy.stages
    assert (job.global_batch, job.sequence_length) == (8, 4096)
    assert stage.meshes[0].axes == (("replica", 2), ("tensor", 4))
    assert stage.layout == megatron_layout(sequence_parallel=True)
    assert (stage.microbatch_samples, stage.zero, stage.recompute) == (8, 3, "full")
    assert plan.plan.models[0][1].sequence_length == 4096
    assert plan.plan.provenance.searcher == "import"
    report = explorer.simulate(plan.graph, plan.cluster, plan.plan.workload, plan.plan.strategy)
    assert report.step_time_s > 0


def test_one_of_torchtitans_own_functions(tmp_path: Path) -> None:
    text = """
from torchtitan.models.llama3.config_registry import llama3_8b
def mine():
    config = llama3_8b()
    config.parallelism.pipeline_parallel_degree = 4
    config.training.local_batch_size = 16
    config.parallelism.pipeline_parallel_microbatch_size = 2
    return config
"""
    plan = imported(tmp_path, text)
    stages = plan.plan.strategy.job.stages
    # (32 blocks + 1 + 1) / 4: 9, 9, 8, 8, of which the first and the last give one to their ends
    assert [len({plan.graph.layer[x].block for x in s.layers} - {""}) for s in stages] == [8, 9, 8, 7]
    assert [s.microbatch_samples for s in stages] == [4] * 4
    assert (stages[0].zero, stages[0].recompute) == (2, "selective")
    assert plan.plan.workload.job.global_batch == 32


def test_a_function_is_chosen_by_name(tmp_path: Path) -> None:
    both = "from torchtitan.models.llama3.config_registry import llama3_8b, llama3_70b\n"
    both += "def a():\n    return llama3_8b()\ndef b():\n    return llama3_70b()\n"
    with pytest.raises(InputError, match="2 config functions"):
        imported(tmp_path, both)
    assert imported(tmp_path, both, "config.py:a").graph.name == "llama3-8b"
    assert imported(tmp_path, both, "config.py:b").graph.name == "llama3-70b"
    with pytest.raises(InputError, match="no function 'c'"):
        imported(tmp_path, both, "config.py:c")


def test_older_toml(tmp_path: Path) -> None:
    plan = imported(tmp_path, TOML, "llama3_70b.toml", cluster="dgx-a100-4")
    job, strategy = plan.plan.workload.job, plan.plan.strategy.job
    assert (plan.graph.name, job.global_batch) == ("llama3-70b", 8)
    assert (strategy.schedule, len(strategy.stages)) == ("interleaved_1f1b", 8)
    assert strategy.stages[0].meshes[0].devices == tuple(range(8))
    assert strategy.stages[5].meshes[0].devices == tuple(range(8, 16))
    assert strategy.stages[0].recompute == "full"
    assert "float8" in plan.plan.provenance.note


def test_the_oldest_toml(tmp_path: Path) -> None:
    text = """
[model]
name = "llama3"
flavor = "8B"
[training]
batch_size = 4
seq_len = 8192
data_parallel_degree = 1
tensor_parallel_degree = 2
[experimental]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "gpipe"
pipeline_parallel_microbatches = 4
pipeline_parallel_split_points = ["layers.20"]
[activation_checkpoint]
mode = "none"
"""
    plan = imported(tmp_path, text, "old.toml")
    first, second = plan.plan.strategy.job.stages
    assert plan.plan.strategy.job.schedule == "gpipe"
    assert first.layers[-1].startswith("layers.19.")
    assert second.layers[0].startswith("layers.20.")
    assert (first.microbatch_samples, first.zero, first.recompute) == (1, 0, "none")
    assert first.meshes[0].size("tensor") == 2


def test_modules_by_name_and_gradient_accumulation(tmp_path: Path) -> None:
    parts = [["tok_embeddings", *(f"layers.{i}" for i in range(20))]]
    parts += [[*(f"layers.{i}" for i in range(20, 32)), "norm", "output"]]
    text = (
        TOML.replace('"70B"', '"8B"').replace("= 8\npipe", "= 1\npipe").replace("_degree = 4", "_degree = 2")
    )
    text = text.replace('"Interleaved1F1B"', f'"1F1B"\nmodule_fqns_per_model_part = {parts!r}')
    text = text.replace("local_batch_size", "global_batch_size = 64\nlocal_batch_size")
    plan = imported(tmp_path, text, "uneven.toml")
    counts = [
        len({plan.graph.layer[x].block for x in s.layers} - {""}) for s in plan.plan.strategy.job.stages
    ]
    assert counts == [20, 12]
    assert plan.plan.workload.job.global_batch == 64
    assert "2 passes through the pipeline" in plan.plan.provenance.note


def body(lines: str) -> str:
    head = "from torchtitan.models.llama3.config_registry import llama3_8b\n"
    head += "def mine():\n    config = llama3_8b()\n"
    return head + "".join(f"    {line}\n" for line in lines.split("\n")) + "    return config\n"


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (body("config.parallelism.expert_parallel_degree = 2"), ["expert_parallel_degree above 1"]),
        (body("config.activation_checkpoint = MemoryBudgetAC.Config()"), ["'memory-budget'"]),
        (body("config.training.enable_cpu_offload = True"), ["enable_cpu_offload"]),
        (body("config.parallelism.tensor_parallel_degree = 0"), ["tensor_parallel_degree is 0"]),
        (body("config.parallelism.tensor_parallel_degree = 'two'"), ["tensor_parallel_degree is 'two'"]),
        (body("config.training.seq_len = int(os.environ['SEQ'])"), ["training.seq_len"]),
        (body("config.training.seq_len = LENGTH"), ["training.seq_len is computed (LENGTH)"]),
        (
            body("config.parallelism.pipeline_parallel_schedule = 'TriplePipe'\nconfig.training.seq_len = X"),
            ["'TriplePipe'", "1F1B", "seq_len is computed (X)"],
        ),
    ],
)
def test_what_a_plan_cannot_say_is_listed(text: str, problems: list[str], tmp_path: Path) -> None:
    with pytest.raises(PlanError) as caught:
        imported(tmp_path, text)
    said = "\n".join(caught.value.problems)
    assert all(problem in said for problem in problems)
    assert caught.value.file == str(tmp_path / "config.py")


@pytest.mark.parametrize(
    ("text", "file", "message"),
    [
        ("def mine(:", "config.py", "not Python"),
        ("", "config.py", "0 config functions"),
        ("def mine():\n    return 3\n", "config.py", "no config"),
        ("def mine():\n    x = 1\n", "config.py", "returns nothing"),
        ("def mine():\n    return mine()\n", "config.py:mine", "calls itself"),
        (body("if True:\n    config = None"), "config.py", "line 4: if has to be run"),
        ("(" * 5000 + ")" * 5000, "config.py", "not Python"),
        ("[training", "config.toml", "not TOML"),
        ("[other]\na = 1\n", "config.toml", "no torchtitan config"),
        (body("config.parallelism.tensor_parallel_degree = 3"), "config.py", "do not divide the 8 devices"),
        (body("config.parallelism.data_parallel_shard_degree = 9"), "config.py", "9 ranks for the 8 devices"),
        (body("config.training.global_batch_size = 9"), "config.py", "a batch of 9 is not made of"),
        (
            body(
                "config.parallelism.pipeline_parallel_degree = 2\n"
                "config.parallelism.pipeline_parallel_schedule_csv = 'gone.csv'"
            ),
            "config.py",
            "cannot read the schedule",
        ),
        (
            body(
                "config.parallelism.pipeline_parallel_degree = 2\n"
                "config.parallelism.module_fqns_per_model_part = [['tok_embeddings'], ['layers.99']]"
            ),
            "config.py",
            "unknown module 'layers.99'",
        ),
    ],
)
def test_wrong_configs(text: str, file: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        imported(tmp_path, text, file)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_model_and_cluster_are_asked_for(tmp_path: Path) -> None:
    text = body("config.training.steps = 1")
    with pytest.raises(InputError, match="does not say which cluster"):
        imported(tmp_path, text, cluster=None)
    other = text.replace("llama3_8b()", "llama3_debugmodel()").replace(
        "import llama3_8b", "import llama3_debugmodel"
    )
    with pytest.raises(InputError, match="does not say which model"):
        imported(tmp_path, other)
    assert imported(tmp_path, other, model="gpt3-175b").graph.name == "gpt3-175b"


def test_other_calls_are_noted_not_run(tmp_path: Path) -> None:
    plan = imported(
        tmp_path, body("open('trace', 'w').write('x')\nconfig.parallelism.context_parallel_degree = 2")
    )
    assert "not run" in plan.plan.provenance.note
    assert not (tmp_path / "trace").exists()
    assert plan.plan.strategy.job.stages[0].meshes[0].size("context") == 2


@settings(max_examples=30)
@given(
    pipeline=st.sampled_from([1, 2, 4]),
    tensor=st.sampled_from([1, 2]),
    shard=st.sampled_from([1, 2]),
    replicate=st.sampled_from([1, 2]),
    microbatch=st.sampled_from([1, 2]),
    number=st.integers(1, 4),
)
def test_degrees_are_read_as_torchtitan_places_them(
    tmp_path_factory: pytest.TempPathFactory,
    pipeline: int,
    tensor: int,
    shard: int,
    replicate: int,
    microbatch: int,
    number: int,
) -> None:
    replicas = replicate * shard
    if pipeline * tensor * replicas > 8:
        return
    text = body(
        f"config.parallelism.pipeline_parallel_degree = {pipeline}\n"
        f"config.parallelism.tensor_parallel_degree = {tensor}\n"
        f"config.parallelism.data_parallel_shard_degree = {shard}\n"
        f"config.parallelism.data_parallel_replicate_degree = {replicate}\n"
        f"config.parallelism.pipeline_parallel_microbatch_size = {microbatch}\n"
        f"config.training.local_batch_size = {microbatch * number}"
    )
    plan = imported(tmp_path_factory.mktemp("titan"), text)
    stages = plan.plan.strategy.job.stages
    devices = [device for stage in stages for device in stage.meshes[0].devices]
    assert devices == list(range(pipeline * tensor * replicas))
    assert plan.plan.workload.job.global_batch == microbatch * number * replicas
    size = microbatch if pipeline > 1 else microbatch * number
    assert {stage.microbatch_samples for stage in stages} == {size * replicas}
    groups = shard if replicate > 1 and shard > 1 else 0
    assert {stage.zero_replicas for stage in stages} == {groups}, "hybrid sharding shards over neighbours"


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(InputError):
        read(text)
