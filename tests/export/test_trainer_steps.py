"""Accelerate and DeepSpeed run exported plans: steps of a small model on ranks, equal to one process."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.export import export
from explorer.plan import Reference, Resolved, make_plan
from tests.support import own_decoder

SCRIPT = Path(own_decoder.__file__).with_name("trainer_steps.py")
SIZES = {
    "layers": own_decoder.BLOCKS, "embed": own_decoder.EMBED, "heads": own_decoder.HEADS,
    "kv_heads": own_decoder.KV_HEADS, "ffn": own_decoder.FFN, "vocab": own_decoder.VOCAB,
}  # fmt: skip
STEPS, BATCH = 2, 8


def small(**options: Any) -> Resolved:
    """A plan of the user's small model on two processors, in fp32, with plain SGD."""
    graph = explorer.load_model("llama", settings=SIZES, sequence_length=own_decoder.LENGTH)
    cluster = explorer.load_cluster("cpu-2")
    job = {"global_batch": BATCH, "precision": "fp32", "optimizer": "sgd"}
    workload = explorer.default_workload(graph).with_job(**job)
    strategy = explorer.uniform(graph, cluster, workload.job, **options)
    settings = tuple((key, str(value)) for key, value in SIZES.items())
    reference = Reference(reference="llama", sequence_length=own_decoder.LENGTH, settings=settings)
    plan = make_plan(reference, graph, "cpu-2", cluster, workload, strategy)
    return Resolved(plan=plan, graphs={"model": graph}, cluster=cluster)


def losses_of_one_process(learning_rate: float) -> list[float]:
    import torch

    torch.manual_seed(0)
    model = own_decoder.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    found = []
    for _, (inputs, targets) in zip(range(STEPS), own_decoder.batches(BATCH), strict=False):
        loss = own_decoder.loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def trained(plan: Resolved, target: str, folder: Path) -> tuple[list[float], str]:
    """The losses of a target's own engine, and what it says of itself."""
    export(plan, target, folder)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    given = {"PYTHON": sys.executable, "PYTHONPATH": "", "GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": port,
             "DS_ACCELERATOR": "cpu"}  # fmt: skip
    done = subprocess.run(
        ["bash", str(folder / "run.sh"), str(SCRIPT)],
        env={**os.environ, **given}, cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    steps = re.findall(r"^step (\d+) loss (\S+)$", done.stdout, re.MULTILINE)
    assert [int(step) for step, _ in steps] == list(range(1, STEPS + 1))
    told = re.search(r"^trained by (.+)$", done.stdout, re.MULTILINE)
    assert told
    return [float(loss) for _, loss in steps], told[1]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("accelerate") is None, reason="needs accelerate: its files are not run here")
def test_accelerate_trains_an_exported_plan(tmp_path: Path) -> None:
    losses, told = trained(small(replicas=2, microbatches=2), "accelerate", tmp_path)
    assert told == "MULTI_CPU DistributedDataParallel cpu"
    assert losses == pytest.approx(losses_of_one_process(1e-2), abs=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("deepspeed") is None, reason="needs deepspeed: its files are not run here")
def test_deepspeed_trains_an_exported_plan(tmp_path: Path) -> None:
    losses, told = trained(small(replicas=2, microbatches=2, zero=2), "deepspeed", tmp_path)
    assert told == "DeepSpeedEngine 2 cpu"
    assert losses == pytest.approx(losses_of_one_process(3e-4), abs=1e-5)
