"""The plain script: what it holds of a plan, and its losses on ranks against one process."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.export import export, preview, refusals
from explorer.plan import Reference, Resolved, make_plan
from tests.export.samples import UNIFORM, changed, resolved, uniform
from tests.support import own_decoder

OWN = Path(own_decoder.__file__)
SIZES = {
    "layers": own_decoder.BLOCKS, "embed": own_decoder.EMBED, "heads": own_decoder.HEADS,
    "kv_heads": own_decoder.KV_HEADS, "ffn": own_decoder.FFN, "vocab": own_decoder.VOCAB,
}  # fmt: skip
STEPS, BATCH = 3, 8


def small(**options: Any) -> Resolved:
    """A plan of the user's small model, in fp32."""
    graph = explorer.load_model("llama", settings=SIZES, sequence_length=own_decoder.LENGTH)
    cluster = explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=BATCH, precision="fp32")
    strategy = explorer.uniform(graph, cluster, workload.job, **options)
    settings = tuple((key, str(value)) for key, value in SIZES.items())
    reference = Reference(reference="llama", sequence_length=own_decoder.LENGTH, settings=settings)
    plan = make_plan(reference, graph, "dgx-a100", cluster, workload, strategy)
    return Resolved(plan=plan, graphs={"model": graph}, cluster=cluster)


RUN = {
    "ddp": {"replicas": 2, "microbatches": 2, "bucket_bytes": 25 * 2**20},
    "fsdp": {"replicas": 2, "microbatches": 2, "zero": 3},
    "tensor": {"tensor": 2, "microbatches": 2},
    "1f1b": {"stages": 2, "microbatches": 4, "recompute": "full"},
    "interleaved": {"stages": 2, "chunks": 2, "microbatches": 4},
    "pipeline x replicas": {"stages": 2, "replicas": 2, "microbatches": 2, "zero": 2},
}


def losses_of_one_process() -> list[float]:
    import torch

    torch.manual_seed(0)
    model = own_decoder.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _, (inputs, targets) in zip(range(STEPS), own_decoder.batches(BATCH), strict=False):
        loss = own_decoder.loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def losses_on_ranks(plan: Resolved, folder: Path) -> list[float]:
    export(plan, "torch", folder)
    done = subprocess.run(
        ["bash", str(folder / "run.sh"), str(OWN), "--steps", str(STEPS)],
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": "", "GLOO_SOCKET_IFNAME": "lo"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^step (\d+) loss (\S+)$", done.stdout, re.MULTILINE)
    assert [int(step) for step, _ in found] == list(range(1, STEPS + 1))
    return [float(loss) for _, loss in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_losses_equal_one_process(name: str, tmp_path: Path) -> None:
    assert losses_on_ranks(small(**RUN[name]), tmp_path) == pytest.approx(losses_of_one_process(), abs=1e-5)


def script(plan: Resolved) -> str:
    return preview(plan, "torch")["train.py"]


def constants(text: str) -> dict[str, Any]:
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


@pytest.mark.parametrize("sample", UNIFORM)
def test_a_script_is_short_plain_and_not_of_ours(sample: str) -> None:
    text = script(uniform(sample))
    tree = ast.parse(text)
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    roots = {name.partition(".")[0] for name in imported}
    assert roots <= {"argparse", "functools", "importlib", "os", "pathlib", "torch"}
    assert len(text.splitlines()) <= 220
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert defined <= used, "only what the plan needs"
    assert all(name.split(".")[-1] in text.split('"""', 2)[2] for name in imported)


@pytest.mark.parametrize("sample", UNIFORM)
def test_constants_say_the_plan(sample: str) -> None:
    plan = uniform(sample)
    job, strategy = plan.plan.workload.job, plan.plan.strategy.job
    found = constants(script(plan))
    mesh = strategy.stages[0].meshes[0]
    sizes = found["MESH"]
    assert (sizes["replica"], sizes["tensor"]) == (mesh.replicas, mesh.size("tensor"))
    assert sizes["pipeline"] == len({stage.meshes for stage in strategy.stages})
    assert found["GLOBAL_BATCH"] == job.global_batch
    assert found["MICROBATCH"] * mesh.replicas == strategy.stages[0].microbatch_samples
    modules = [name for stage in found["STAGES"] for name in stage]
    assert modules == ["embed", *(f"layers.{i}" for i in range(32)), "norm", "head"]
    for stage, names in zip(strategy.stages, found["STAGES"], strict=True):
        assert {plan.graph.layer[name].block or name for name in stage.layers} - {"loss"} == set(names)


def test_every_stage_has_its_own_recomputation() -> None:
    plan = changed(resolved(stages=2, microbatches=8), recompute={0: "full"})
    assert constants(script(plan))["RECOMPUTE"] == ["full", "none"]


def test_a_named_schedule_is_torchs_own_and_others_are_a_file() -> None:
    assert 'SCHEDULE = "Interleaved1F1B"' in script(uniform("interleaved"))
    assert set(preview(uniform("interleaved"), "torch")) == {"train.py", "run.sh"}
    written = preview(uniform("eager order"), "torch")
    assert set(written) == {"train.py", "run.sh", "schedule.csv"}
    assert written["schedule.csv"] == preview(uniform("eager order"), "schedule_csv")["schedule.csv"]


def test_weights_are_cut_as_their_dimensions_are() -> None:
    assert constants(script(uniform("tensor")))["TENSOR"] == {
        "embed": "vocab", "attention.q": "column", "attention.k": "column", "attention.v": "column",
        "attention.o": "row", "mlp.gate": "column", "mlp.up": "column", "mlp.down": "row", "head": "head",
    }  # fmt: skip


def test_a_fused_projection_is_not_cut() -> None:
    plan = resolved(model="gpt2-small", tensor=2, microbatches=8)
    assert any("attention.qkv: its parts are one matrix" in text for text in refusals(plan, "torch"))


def test_replicas_share_gradients_in_one_of_three_ways() -> None:
    assert "DistributedDataParallel" in script(resolved(replicas=2, microbatches=8, bucket_bytes=2**20))
    assert "dist.all_reduce(gradient" in script(uniform("replicas"))
    assert "RESHARD_AFTER_FORWARD = True" in script(uniform("zero 3"))
    assert "RESHARD_AFTER_FORWARD = False" in script(uniform("zero 2"))
