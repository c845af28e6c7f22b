"""Single blocks made again in real runs: the gradients of one process, which blocks, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from torch.utils import checkpoint as torch_checkpoint

import explorer.run.ranks.compute as backend
from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.plan import Reference, Resolved, make_plan, resolve
from explorer.run.own.own_scale import own_scaled
from explorer.run.own.own_source import OwnSource
from explorer.strategies.keeping import full_blocks
from explorer.strategies.memory_choices import with_layer_choice
from explorer.strategies.uniform import uniform
from explorer.strategy import Keeping, Stage, Strategy
from explorer.workload import default_workload
from tests.run.own.own_cases import FACTORIES, case, cut, source
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")
EXACT = 1e-10
GPT = ("gpt", {"layers": "4", "embed": "32", "heads": "4", "vocab": "50"}, 8)
STACK = f"{FACTORIES}:stack"


@pytest.fixture(scope="module")
def gpt() -> OwnSource:
    return source(*GPT)


def again(own: OwnSource, stages: tuple[Stage, ...], *blocks: str, how: str = "full") -> tuple[Stage, ...]:
    """Stages that make some blocks again."""
    wanted = {layer.name for layer in own.graph.layers if layer.block in blocks}
    return tuple(
        replace(stage, keeping=(Keeping(layers=names, recompute=how),)) if names else stage
        for stage in stages
        for names in [tuple(name for name in stage.layers if name in wanted)]
    )


def blocks_of(own: OwnSource) -> list[str]:
    numbered = (layer.block for layer in own.graph.layers if layer.block.rpartition(".")[2].isdigit())
    return list(dict.fromkeys(numbered))


@pytest.mark.parametrize(
    ("pipeline", "replicas", "schedule"), [(1, 1, "1f1b"), (2, 1, "gpipe"), (1, 2, "1f1b")]
)
def test_two_of_four_blocks_have_the_gradients_of_one_process(
    gpt: OwnSource, monkeypatch: pytest.MonkeyPatch, pipeline: int, replicas: int, schedule: str
) -> None:
    calls: list[Any] = []

    def counted(run: Any, **options: Any) -> Any:
        calls.append(run.args[0])
        return torch_checkpoint.checkpoint(run, **options)

    monkeypatch.setattr(backend, "checkpoint", counted)
    names, blocks = [layer.name for layer in gpt.graph.layers], blocks_of(gpt)
    first = next(i for i, layer in enumerate(gpt.graph.layers) if layer.block == blocks[2])
    stages = cut(gpt, 1, replicas, size=2)
    if pipeline == 2:
        one, two = cut(gpt, 2, size=2)
        stages = (replace(one, layers=tuple(names[:first])), replace(two, layers=tuple(names[first:])))
    made = case(gpt, again(gpt, stages, blocks[1], blocks[3]), schedule)
    records = on_threads(made)
    assert worst(records) <= EXACT
    assert sum(record["numerics"]["compared"] for record in records) >= 2 * len(gpt.graph.parameters)
    block_of = [layer.block for layer in gpt.graph.layers]
    units = {
        tuple(i for i, block in enumerate(block_of) if block == wanted) for wanted in (blocks[1], blocks[3])
    }
    assert set(calls) == units, "these blocks and no others"


def test_what_ranks_cannot_make_again_is_one_line(gpt: OwnSource) -> None:
    block = blocks_of(gpt)[1]
    with pytest.raises(InputError, match="cannot be run yet beside split backwards"):
        case(gpt, again(gpt, cut(gpt, 2), block), "zb_h1")
    with pytest.raises(InputError, match=r"weights that ranks divide.*whole stages: recompute full or none"):
        case(gpt, again(gpt, tuple(replace(x, zero=3) for x in cut(gpt, 1, 2, size=2)), block), "1f1b")


def stack(*, recompute: str = "none", **choices: tuple[str, ...]) -> Resolved:
    """The plan of a stack of twelve blocks, some of which have a choice."""
    graph, cluster = load_model(STACK), load_cluster("dgx-a100-4")
    workload = default_workload(graph).with_job(global_batch=16)
    job = uniform(graph, cluster, workload.job, stages=2, microbatches=4, recompute=recompute).job
    for key, blocks in choices.items():
        names = [layer.name for layer in graph.layers if layer.block in blocks]
        job = with_layer_choice(job, names, key)
    strategy = Strategy(jobs=(job,))
    made = make_plan(Reference(reference=STACK), graph, "dgx-a100-4", cluster, workload, strategy)
    return resolve(made, trust=True)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_run_makes_the_blocks_again_that_the_plan_does(recompute: str) -> None:
    some = ("blocks.1", "blocks.2", "blocks.9")
    asked = stack(full=some) if recompute == "none" else stack(recompute="full", keep=some)
    scaled, _ = own_scaled(asked, ranks=2)
    made = {names for stage in scaled.strategy.stages for names in full_blocks(scaled.graph, stage)}
    found = {scaled.graph.layer[names[0]].block for names in made}
    every = {f"blocks.{i}" for i in range(12)}
    assert found & every == (set(some) if recompute == "none" else every - set(some))
    assert {stage.recompute for stage in scaled.strategy.stages} == {"none"}
    assert not any("recomputed otherwise" in text for text in scaled.not_validated)


def test_single_layers_and_the_host_are_left_out_in_words() -> None:
    graph = load_model(STACK)
    asked = stack(full=("blocks.1",), to_host=("blocks.2",))
    one = next(layer.name for layer in graph.layers if layer.block == "blocks.3")
    job = with_layer_choice(asked.plan.strategy.job, (one,), "full")
    asked = replace(asked, plan=replace(asked.plan, strategy=Strategy(jobs=(job,))))
    scaled, _ = own_scaled(asked, ranks=2)
    assert f"layers recomputed otherwise than their block: {one}" in scaled.not_validated
    assert any(text.startswith("activations of single layers on the host: ") for text in scaled.not_validated)
