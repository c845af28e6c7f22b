"""Megatron-LM's scripts as baselines: read, never run, and no key dropped in silence.

`trainers/megatron` has lookalikes of public scripts: the same keys in the same styles of shell.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import InputError, PlanError
from explorer.importing import Imported, import_file, source_text
from explorer.importing._shell import read_script
from explorer.importing.megatron import baseline_of
from explorer.strategies.degrees_reading import nearest_degrees

FOLDER = Path(__file__).parent / "trainers" / "megatron"
FILES = sorted(FOLDER.iterdir())

# file: model, ranks (0: unsaid), tensor, pipeline, context, replicas, chunks, zero, recompute
EXPECTED: dict[str, tuple[Any, ...]] = {
    "arguments.txt": ("gpt2-small", 0, 1, 2, 1, 4, 1, 0, "none"),
    "context_a2a.sh": ("llama3-8b", 8, 2, 1, 4, 1, 1, 0, "none"),
    "defaults_llama.sh": ("llama3-8b", 16, 4, 2, 1, 2, 1, 1, "none"),
    "embedding_counts.sh": ("gpt", 8, 1, 8, 1, 1, 1, 0, "none"),
    "first_last_stage.sh": ("gpt", 8, 1, 8, 1, 1, 1, 0, "selective"),
    "fsdp.sh": ("llama3-8b", 8, 1, 1, 1, 8, 1, 3, "selective"),
    "gpt3_1b_perf.sh": ("gpt", 16, 2, 2, 1, 4, 2, 0, "full"),
    "gpt_175b.sh": ("gpt3-175b", 128, 8, 16, 1, 1, 1, 0, "none"),
    "gpt_345m_string.sh": ("gpt2-medium", 8, 2, 2, 1, 2, 1, 0, "none"),
    "gpt_857m.sh": ("gpt", 8, 1, 1, 1, 8, 1, 0, "none"),
    "gpt_block_recompute.sh": ("gpt", 8, 8, 1, 1, 1, 1, 0, "none"),
    "layout.sh": ("gpt", 16, 1, 4, 1, 4, 2, 1, "none"),
    "llama2_70b_gke.sh": ("llama", 64, 8, 8, 1, 1, 1, 1, "none"),
    "llama3_70b.sh": ("llama3-70b", 64, 8, 4, 1, 2, 4, 1, "selective"),
    "llama3_8b_fp8.sh": ("llama3-8b", 8, 1, 1, 2, 4, 1, 1, "none"),
    "mixtral_8x7b.sh": ("mixtral-8x7b", 32, 1, 4, 1, 8, 1, 1, "none"),
    "mixtral_8x7b_vpp.sh": ("mixtral-8x7b", 64, 2, 4, 1, 8, 8, 1, "none"),
    "model_args.yaml": ("gpt", 0, 2, 2, 1, 2, 1, 1, "none"),
    "slurm_gpt_20b.sh": ("gpt", 32, 8, 2, 1, 2, 1, 1, "none"),
    "yaml_cfg.yaml": ("gpt", 0, 2, 2, 1, 2, 1, 1, "none"),
}


@cache
def imported(name: str) -> Imported:
    """One of the files; where it does not say its ranks, on a node of eight."""
    cluster = None if EXPECTED[name][1] else "dgx-a100"
    return import_file(FOLDER / name, "megatron", cluster=cluster)


def test_there_are_twenty() -> None:
    assert {path.name for path in FILES} == set(EXPECTED)
    assert len(FILES) == 20


@pytest.mark.parametrize("name", EXPECTED)
def test_lookalike_is_the_job_that_it_says(name: str) -> None:
    model, ranks, tensor, pipeline, context, replicas, chunks, zero, recompute = EXPECTED[name]
    found = imported(name)
    job = found.resolved.plan.strategy.job
    degrees = nearest_degrees(job)
    assert found.resolved.plan.models[0][1].reference == model
    assert (degrees.tensor, degrees.stages, degrees.context) == (tensor, pipeline, context)
    assert (degrees.replicas, degrees.chunks, degrees.zero) == (replicas, chunks, zero)
    assert degrees.recompute == recompute
    assert len(job.devices) == (ranks or 8)
    assert any("model" in text for text in found.assumed)
    assert bool(ranks) == any("cluster" in text for text in found.assumed)


@pytest.mark.parametrize("name", EXPECTED)
def test_no_key_is_dropped_in_silence(name: str) -> None:
    """Every key of the text has its word in the plan, or its line in the list."""
    text = (FOLDER / name).read_text()
    found = imported(name)
    lines = text.splitlines()
    for item in found.unknown:
        assert item.assumed
        if item.line:
            written = lines[item.line - 1].replace("_", "-")
            assert item.key.lstrip("-") in written, (item.key, item.line)
    if name.endswith(".yaml"):
        return
    body = "\n".join(line.partition(" #")[0] for line in lines if not line.lstrip().startswith("#"))
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", body)) - {"--time"}
    launcher = {"--nproc_per_node", "--nnodes", "--master_addr", "--master_port", "--node_rank",
                "--nproc-per-node", "--container-image", "--container-mounts"}  # fmt: skip
    unknown = {item.key for item in found.unknown}
    consumed = named - launcher - unknown
    again = baseline_of(source_text(FOLDER / name, "", None, None))
    assert {item.key for item in again.unknown} == unknown
    # what is consumed changes the plan when its name is spoilt, or is a default that is spelt out
    assert len(consumed) >= 8 or name == "layout.sh"
    assert "--tensor-model-parallel-size" not in unknown
    for key in consumed:
        assert not key.startswith(("--lr", "--data-path", "--save", "--log", "--eval")), key


def test_unknown_keys_have_their_line_and_what_is_assumed() -> None:
    found = {item.key: item for item in imported("defaults_llama.sh").unknown}
    own = found["--my-own-flag"]
    assert (own.value, own.assumed) == ("7", "as if it were not there")
    assert "--my-own-flag" in (FOLDER / "defaults_llama.sh").read_text().splitlines()[own.line - 1]
    assert found["--mock-data"].assumed == "no effect on the split"


def test_uneven_stages_are_read() -> None:
    def blocks(name: str) -> list[int]:
        job = imported(name).resolved.plan.strategy.job
        graph = imported(name).resolved.graph
        return [len({graph.layer[x].block for x in stage.layers} - {""}) for stage in job.stages]

    assert blocks("layout.sh") == [3, 4, 4, 4, 4, 4, 4, 3]
    assert blocks("first_last_stage.sh") == [5, *[8] * 6, 8]
    assert blocks("embedding_counts.sh") == [3, *[4] * 6, 3]


def test_the_trainer_is_told_by_the_text() -> None:
    assert import_file(FOLDER / "gpt_175b.sh", "").resolved.cluster.device_count >= 128
    with pytest.raises(InputError, match="no trainer"):
        import_file(Path(__file__).parents[2] / "LICENSE", "")


BASE = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12"
    " --seq-length 1024 --micro-batch-size 1 --global-batch-size 8 {}\n"
)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--tensor-model-parallel-size 3", ["tensor 3 x pipeline 1 x context 1 = 3", "8 ranks"]),
        ("--pipeline-model-parallel-size 8", ["12 blocks do not divide evenly over 8 stages"]),
        ("--tensor-model-parallel-size $TP", ["line 1: --tensor-model-parallel-size $TP", "write it there"]),
        ("--global-batch-size 9", ["batch of 9", "8 replicas"]),
        (
            "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*5|t*5L'",
            ["10 blocks", "model of 12"],
        ),
        ("--num-layers-per-virtual-pipeline-stage 1 --num-virtual-stages-per-pipeline-rank 2", ["give one"]),
    ],
)
def test_contradictions_are_one_line(more: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(BASE.format(more))
    with pytest.raises(PlanError) as caught:
        import_file(tmp_path / "job.sh", "megatron")
    assert len(caught.value.problems) == 1
    for word in words:
        assert word in caught.value.problems[0]


def test_what_is_unclear_is_asked_for(tmp_path: Path) -> None:
    text = BASE.format("").replace("--nproc_per_node 8 ", "")
    (tmp_path / "job.sh").write_text(text)
    with pytest.raises(InputError) as caught:
        import_file(tmp_path / "job.sh", "megatron")
    assert caught.value.key == "--cluster"
    (tmp_path / "job.sh").write_text(BASE.format("--num-experts 16"))
    with pytest.raises(InputError) as caught:
        import_file(tmp_path / "job.sh", "megatron")
    assert caught.value.key == "--model"


def test_scripts_are_never_run(tmp_path: Path) -> None:
    spoilt = tmp_path / "ran"
    text = f"touch {spoilt}\nX=$(touch {spoilt})\nY=`touch {spoilt}`\n{BASE.format('--lr $X')}"
    (tmp_path / "job.sh").write_text(text)
    assert import_file(tmp_path / "job.sh", "megatron").resolved.plan
    assert not spoilt.exists()


def test_shell_words() -> None:
    script = read_script(
        "A=2\nB=$((A * 3 + $A))\nC='$A'\nD=${E:-x y}\nF=(1 \"two\" '3')\nF+=(4)\nrun $B $C ${F[@]} $D\n"
    )
    assert script.variables["B"] == "8"
    assert [word.text for word in script.commands[-1]] == ["run", "8", "$A", "1", "two", "3", "4", "x", "y"]
    assert read_script("A=$((1/0))\nB=$((__import__('os')))\n").variables["A"] == "$((1/0))"
    assert read_script("A=$A$A\nA=$A$A\nrun " + "$A" * 100).commands  # grows no further
