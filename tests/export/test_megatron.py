"""Megatron-LM: exported arguments come back as the same strategy, and Megatron-Core reads them as meant."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import ExplorerError
from explorer.export import EXPORTERS, import_config, preview, refusals
from explorer.export._megatron_settings import block_counts
from explorer.export._megatron_settings import settings as arguments_of
from explorer.export.roundtrip import load_back
from explorer.importing._megatron_stages import layout_blocks, layout_text
from explorer.importing.plans import cuts_at
from explorer.plan import Resolved
from explorer.strategies.degrees import EXCHANGES, RECOMPUTE, Degrees
from tests.export.samples import UNIFORM, changed, resolved, uniform

CLIENT = Path(__file__).parents[1] / "support" / "megatron_client.py"


@cache
def inputs(model: str) -> tuple[Any, Any, Any]:
    graph = explorer.load_model(model)
    return graph, explorer.load_cluster("dgx-a100-4"), explorer.default_workload(graph)


def back(plan: Resolved) -> Resolved:
    """The plan that its exported script is read as, with nothing named beside it."""
    with TemporaryDirectory() as folder:
        for name, text in preview(plan, "megatron").items():
            Path(folder, name).write_text(text)
        script = import_config(Path(folder, "run.sh"), "megatron", model=None, cluster=None)
        as_yaml = import_config(Path(folder), "megatron", model=None, cluster=None)
        assert as_yaml.plan.strategy == script.plan.strategy
        assert as_yaml.plan.workload == script.plan.workload
        return script


@st.composite
def blocks_of_stages(draw: st.DrawFn, stages: int, blocks: int) -> list[int]:
    """Blocks of every stage, in total as many as the model has."""
    if blocks % stages == 0 and draw(st.booleans()):
        return [blocks // stages] * stages
    marks = draw(st.lists(st.integers(1, blocks - 1), min_size=stages - 1, max_size=stages - 1, unique=True))
    bounds = [0, *sorted(marks), blocks]
    return [b - a for a, b in pairwise(bounds)]


MODELS = ("gpt2-small", "llama3-8b", "mixtral-8x7b")
PRECISIONS = ("bf16", "fp16", "fp32", "fp8")


@st.composite
def plans(
    draw: st.DrawFn, models: tuple[str, ...] = MODELS, precisions: tuple[str, ...] = PRECISIONS
) -> Resolved:
    """Plans of random degrees and cuts that Megatron-LM has."""
    model = draw(st.sampled_from(models))
    graph, cluster, workload = inputs(model)
    powers = st.sampled_from([1, 2, 4])
    tensor, pipeline, context = draw(powers), draw(powers), draw(st.sampled_from([1, 2]))
    replicas = draw(powers)
    chunks = draw(st.sampled_from([1, 2])) if pipeline > 1 else 1
    degrees = Degrees(
        tensor=tensor, stages=pipeline, context=context, replicas=replicas, chunks=chunks,
        expert=draw(st.sampled_from([1, 2, 4])) if model.startswith("mixtral") else 1,
        microbatch_size=draw(st.sampled_from([1, 2])), recompute=draw(st.sampled_from(RECOMPUTE)),
        zero=draw(st.sampled_from([0, 1] if pipeline > 1 else [0, 1, 2, 3])) if replicas > 1 else 0,
        sequence_parallel=draw(st.booleans()), context_exchange=draw(st.sampled_from(sorted(EXCHANGES))),
        bucket_bytes=float(draw(st.sampled_from([0, 4 * 10**6, 10**8]))),
    )  # fmt: skip
    blocks = draw(blocks_of_stages(pipeline * chunks, len({layer.block for layer in graph.layers} - {""})))
    job = {
        "precision": draw(st.sampled_from(precisions)),
        "optimizer": draw(st.sampled_from(["adam", "adamw", "sgd", "momentum"])),
        "gradient_precision": draw(st.sampled_from(["", "fp32"])),
    }
    workload = workload.with_job(**job)
    cuts = cuts_at(graph, blocks) if len(blocks) > 1 else None
    try:
        degrees.check(graph, cluster, workload.job)
        strategy = degrees.build(graph, cluster, workload.job, cuts=cuts)
    except ExplorerError:
        assume(False)
    from explorer.plan import make_plan

    plan = make_plan(model, graph, "dgx-a100-4", cluster, workload, strategy)
    return Resolved(plan=plan, graphs={"model": graph}, cluster=cluster)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(plans())
def test_random_degrees_come_back(plan: Resolved) -> None:
    problems = refusals(plan, "megatron")
    assume(not problems)
    found = back(plan)
    assert found.plan.strategy == plan.plan.strategy
    one, other = plan.plan.workload.job, found.plan.workload.job
    assert (one.precision, one.optimizer, one.global_batch) == (
        other.precision,
        other.optimizer,
        other.global_batch,
    )
    assert arguments_of(found) == arguments_of(plan)


@pytest.mark.parametrize("sample", UNIFORM)
def test_samples_come_back_or_are_refused(sample: str) -> None:
    plan = uniform(sample)
    if problems := refusals(plan, "megatron"):
        assert all(": " in text for text in problems)
    else:
        assert load_back(plan, "megatron", preview(plan, "megatron")).outcome == "same"


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_layouts_come_back(blocks: list[int]) -> None:
    assert layout_blocks(layout_text(blocks)) == tuple(blocks)


def test_layouts_of_others() -> None:
    assert layout_blocks("Ettt|(tt|)*29,L") == (3, *[2] * 29, 0)
    assert layout_blocks("Et*3|(tt|)*2,m|L") == ()  # layers that predict further tokens are no blocks
    assert layout_blocks("E(t*9999)*9999L") == ()


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (resolved(stages=4, microbatches=16, schedule="gpipe"), ["gpipe", "1f1b"]),
        (resolved(stages=2, replicas=2, microbatches=16, zero=3), ["ZeRO level 3 of a pipeline", "level 1"]),
        (resolved(model="resnet50", microbatches=8), ["the model 'resnet50'", "llama"]),
        (resolved(stages=2, cuts=[5], microbatches=8), ["a block divided"]),
        (
            changed(resolved(stages=2, microbatches=8), offload=("activations",)),
            ["activations in host memory"],
        ),
        (changed(resolved(stages=2, microbatches=8), recompute={0: "full"}), ["recomputation that differs"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_it_has_not_is_named(plan: Resolved, words: list[str]) -> None:
    told = "\n".join(refusals(plan, "megatron"))
    for word in words:
        assert word in told


def test_megatron_core_reads_what_is_meant() -> None:
    """Its own configurations accept the arguments, and its ranks build the blocks of our stages."""
    if importlib.util.find_spec("megatron") is None or importlib.util.find_spec("megatron.core") is None:
        pytest.skip("megatron-core is not installed: our own reader stood in, in the tests above")
    made = [uniform(name) for name in UNIFORM if not refusals(uniform(name), "megatron")]
    made += [
        resolved(
            stages=4, chunks=2, microbatches=8, cuts=cuts_at(inputs("llama3-8b")[0], [3, 5, 4, 4, 4, 4, 4, 4])
        ),
        resolved(stages=4, microbatches=8, cuts=cuts_at(inputs("llama3-8b")[0], [7, 9, 9, 7])),
        resolved(tensor=2, context=2, replicas=2, sequence_parallel=True, context_exchange="ring", zero=1),
        resolved(model="mixtral-8x7b", replicas=8, expert=4, zero=1, bucket_bytes=1e8),
        resolved(model="gpt2-small", tensor=4, replicas=2, recompute="selective", precision="fp16"),
    ]
    assert not [refusals(plan, "megatron") for plan in made if refusals(plan, "megatron")]
    sent = [arguments_of(plan) for plan in made]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(CLIENT)], input=json.dumps(sent), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    results = json.loads(done.stdout.splitlines()[-1])
    for plan, arguments, found in zip(made, sent, results, strict=True):
        assert "error" not in found, (found, arguments)
        strategy = plan.plan.strategy.job
        assert found["stages"] == block_counts(plan.graph, strategy)
        told, mesh = found["transformer"], strategy.stages[0].meshes[0]
        assert told["tensor_model_parallel_size"] == mesh.size("tensor")
        assert told["context_parallel_size"] == mesh.size("context")
        assert told["sequence_parallel"] is (("seq", "tensor") in strategy.stages[0].layout)
        assert told.get("recompute_granularity", "none") == strategy.stages[0].recompute
        assert found["ddp"]["use_distributed_optimizer"] is (strategy.stages[0].zero > 0)
        assert found["optimizer"]["optimizer"] == "adam"


def test_it_says_who_reads_it_and_where_it_is_documented() -> None:
    entry = EXPORTERS.get("megatron")
    assert entry.client.startswith("megatron-core")
    assert entry.documentation.startswith("https://")
