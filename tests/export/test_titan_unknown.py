"""Keys of torchtitan configs without a word in a plan: all of them, with their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.export import export
from explorer.importing import import_file
from explorer.importing._titan_unknown import EFFECTS, READ, unknown_keys
from tests.export.samples import uniform

TOML = """\
[job]
dump_folder = "./out"  # where logs go

[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 2
seq_len = 8192
compile = true
own_key = 3

[parallelism]
data_parallel_shard_degree = 4
enable_async_tensor_parallel = true

[experimental]
context_parallel_degree = 2

[float8]
enable_float8_linear = true
"""
MODULE = """\
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer


def mine() -> Trainer.Config:
    config = Trainer.Config(
        model_spec=model_registry("8B"),
        training=TrainingConfig(local_batch_size=1, steps=10),
        parallelism=ParallelismConfig(
            tensor_parallel_degree=8,
            own_degree=2,
        ),
        metrics=MetricsProcessor.Config(log_freq=5),
    )
    config.training.seq_len = 8192
    config.compile.enable = True
    return config
"""


def read(text: str, name: str, folder: Path) -> Any:
    (folder / name).write_text(text)
    return import_file(folder / name, "", cluster="dgx-a100")


def test_tables(tmp_path: Path) -> None:
    found = read(TOML, "job.toml", tmp_path)
    assert [(item.key, item.line, item.value) for item in found.unknown] == [
        ("job.dump_folder", 2, '"./out"'),
        ("training.compile", 11, "true"),
        ("training.own_key", 12, "3"),
        ("parallelism.enable_async_tensor_parallel", 16, "true"),
        ("float8.enable_float8_linear", 22, "true"),
    ]
    assumed = {item.key: item.assumed for item in found.unknown}
    assert assumed["training.own_key"] == "as if it were not there"
    assert assumed["float8.enable_float8_linear"] == "products are in bf16"


def test_a_module(tmp_path: Path) -> None:
    found = read(MODULE, "mine.py", tmp_path)
    assert [(item.key, item.line) for item in found.unknown] == [
        ("training.steps", 8),
        ("parallelism.own_degree", 11),
        ("metrics.log_freq", 13),
        ("compile.enable", 16),
    ]
    assert found.resolved.plan.strategy.job.stages[0].meshes[0].size("tensor") == 8


def test_of_our_own_module_only_what_is_the_users_is_left(tmp_path: Path) -> None:
    export(uniform("3d with zero"), "torchtitan", tmp_path)
    found = import_file(tmp_path, "torchtitan")
    left = {item.key: item.assumed for item in found.unknown}
    assert set(left) == {
        "loss", "dataloader", "hf_assets_path", "training.mixed_precision_reduce",
        "training.disable_cuda_graphs",
    }  # fmt: skip


@pytest.mark.parametrize("key", sorted(READ))
def test_what_is_read_is_not_listed(key: str) -> None:
    table, _, name = key.rpartition(".")
    if table:
        assert unknown_keys(f"[{table}]\n{name} = 1\n", toml=True) == ()


@given(st.text(max_size=80), st.booleans())
def test_any_text_is_taken(text: str, toml: bool) -> None:
    assert all(item.line for item in unknown_keys(text, toml=toml))


def test_every_assumption_is_said() -> None:
    assert all(EFFECTS.values())
