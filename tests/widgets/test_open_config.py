"""A trainer's config opened in the workbench: by its path, or dropped as a text; read, never run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import InputError
from explorer.importing import SourceText
from explorer.strategies.degrees_reading import nearest_degrees
from widgets import Explorer
from widgets.export.panel import changed_since
from widgets.history.trainers import open_config
from widgets.opening import first_point

SCRIPT = """#!/bin/bash
touch /tmp/this-was-run
torchrun --nproc_per_node 8 pretrain_gpt.py \\
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 \\
    --max-position-embeddings 1024 --micro-batch-size 2 --global-batch-size 64 \\
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \\
    --no-such-argument 7 --log-interval 10
"""
DEEPSPEED = json.dumps(
    {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}
)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Explorer]:
    monkeypatch.chdir(tmp_path)
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32, session="s.json")
    found.open_tab("History")
    yield found
    found.close()


def view(bench: Explorer) -> dict[str, Any]:
    return dict(bench.history_panel.states.view)


def test_a_script_is_the_job_that_it_says(bench: Explorer, tmp_path: Path) -> None:
    Path("run.sh").write_text(SCRIPT)
    bench.history_panel.states.send_intent("open_path", path="run.sh")
    assert view(bench)["file"] == {"value": "", "error": None}
    now = bench.now()
    degrees = nearest_degrees(now.strategy.job)
    assert now.inputs.model.reference == "gpt2-medium"
    assert now.inputs.cluster.device_count == 8
    assert (degrees.tensor, degrees.stages, degrees.replicas, degrees.microbatch_size) == (2, 2, 2, 2)
    assert now.inputs.job.global_batch == 64
    remarks = view(bench)["remarks"]
    assert any("line 7" in text and "--no-such-argument 7" in text for text in remarks)
    assert any("no effect" in text and "--log-interval" in text for text in remarks)
    before = changed_since(bench.history)
    assert before is not None
    assert before[1].startswith("run.sh"), "the Export tab says changes since this file"
    bench.set(zero=1)
    assert len(bench.history.points) == 3
    assert bench.undo()
    assert bench.undo()
    assert bench.now().inputs.model.reference == "gpt2-small"


def test_what_a_config_does_not_say_is_taken_from_the_board(bench: Explorer) -> None:
    bench.history_panel.states.send_intent("open_text", name="ds.json", text=DEEPSPEED)
    now = bench.now()
    assert view(bench)["file"]["error"] is None
    assert (now.inputs.model.reference, now.inputs.cluster_name) == ("gpt2-small", "dgx-a100")
    assert nearest_degrees(now.strategy.job).zero == 2
    said = next(text for text in view(bench)["remarks"] if "the one shown" in text)
    assert said.startswith("model gpt2-small")


def test_contradictions_leave_the_board_as_it_was(bench: Explorer) -> None:
    now = bench.history.now
    text = SCRIPT.replace("--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 3")
    bench.history_panel.states.send_intent("open_text", name="run.sh", text=text)
    error = view(bench)["file"]["error"]
    assert "run.sh" in error
    assert "does not divide the 8 ranks" in error
    assert bench.history.now is now
    assert view(bench)["remarks"] == []


def test_without_a_state_what_is_missing_is_asked_for() -> None:
    source = SourceText(name="ds.json", text=DEEPSPEED, folder=Path())
    with pytest.raises(InputError, match="which model is meant is unclear"):
        open_config(source, None)
    opened = open_config(source, first_point("gpt2-small", "dgx-a100"))
    assert len(opened.remarks) >= 2
