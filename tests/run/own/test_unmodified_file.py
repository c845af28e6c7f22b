"""A user's model file, which knows nothing of this package, trains data parallel as it is (MaTEx)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.own.own_cases import case, cut, source
from tests.run.threads import on_threads, worst

ROOT = Path(__file__).parents[3]
FILE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 32)
        self.blocks = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.last = nn.Linear(32, 3)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return self.last(x)


def build():
    return Net(), {"x": torch.zeros(1, 12)}
"""
CELLS = """
import json
import explorer
from explorer.plan import resolve
from explorer.run import validate

model, cluster = explorer.load_model("my_net:build"), explorer.load_cluster("cpu-2")
workload = explorer.default_workload(model).with_job(global_batch=8, optimizer="sgd")
strategy = explorer.uniform(model, cluster, workload.job, replicas=2, microbatches=2)
plan = explorer.make_plan("my_net:build", model, "cpu-2", cluster, workload, strategy)
found = validate(resolve(plan, trust=True), steps=1, engine="layers", warmup_rounds=0)
print(json.dumps([found.engine, found.numerics_ok, found.numerics["gradient"], len(found.memory)]))
"""
"""What docs/workbench.md says to write into a notebook."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_net.py").write_text(FILE)
    return tmp_path


@pytest.mark.usefixtures("one_thread")
def test_replicas_of_it_have_the_gradients_of_one_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    own = source("my_net:build")
    assert worst(on_threads(case(own, cut(own, 1, 2, size=2), "gpipe"))) <= 1e-10
    assert (folder / "my_net.py").read_text() == FILE


@pytest.mark.slow
def test_a_notebook_in_its_folder_runs_it_on_two_ranks(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CELLS], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    engine, equal, error, ranks = json.loads(done.stdout)
    assert (engine, equal, ranks) == ("layers", True, 2)
    assert error <= 1e-5


def test_the_docs_say_so() -> None:
    page = (ROOT / "docs" / "workbench.md").read_text(encoding="utf-8")
    assert all(line in page for line in CELLS.strip().splitlines()[1:-1] if line)
