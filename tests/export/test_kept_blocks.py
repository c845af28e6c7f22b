"""Recomputation and host memory that blocks or layers choose: written where a target has it, else refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import PlanError
from explorer.export import EXPORTERS, export, import_config, preview, refusals
from explorer.export._repairs import REPAIRS
from explorer.export.features import uses
from explorer.importing import import_file
from explorer.importing._megatron_recompute import Recomputation, recomputation_of, with_recomputation
from explorer.plan import Resolved
from explorer.strategies.keeping import kept_of
from explorer.strategies.memory_choices import with_layer_choice
from explorer.strategy import Keeping, Strategy
from tests.export.samples import changed, resolved

PLAIN = resolved(stages=2, microbatches=8)
UNEVEN = resolved(stages=4, microbatches=8, cuts=[1 + 14 * 4, 1 + 14 * 11, 1 + 14 * 25])
CHUNKS = resolved(stages=4, chunks=2, microbatches=8)
ALWAYS = ("plan", "schedule_csv", "torchrun")


def chosen(found: Resolved, key: str, *blocks: str, end: str = "") -> Resolved:
    """The plan with a choice of some blocks, or of the layers of them with an end of their names."""
    job, graph = found.plan.strategy.job, found.graph
    layers = [layer.name for layer in graph.layers if layer.block in blocks and layer.name.endswith(end)]
    strategy = Strategy(jobs=(with_layer_choice(job, layers, key),))
    return replace(found, plan=replace(found.plan, strategy=strategy))


def asked_for(found: Resolved, method: str, count: int) -> Resolved:
    """The plan that Megatron-LM's arguments mean."""
    full = changed(found, recompute="full")
    job = with_recomputation(full.graph, full.plan.strategy.job, Recomputation(method, count))
    return replace(full, plan=replace(full.plan, strategy=Strategy(jobs=(job,))))


FIRST = asked_for(PLAIN, "block", 3)
GROUPS = asked_for(PLAIN, "uniform", 4)
SOME = chosen(PLAIN, "full", "layers.3", "layers.20")
SELECTIVE = chosen(SOME, "selective", "layers.7")
NORMS = chosen(PLAIN, "output", "layers.3", end="norm")
HOST = chosen(PLAIN, "to_host", "layers.3")
FEATURE = {
    "recompute_first": FIRST, "recompute_groups": GROUPS, "recompute_blocks": SOME,
    "recompute_layers": NORMS, "offload_layers": HOST,
}  # fmt: skip


HAS = {
    "megatron": {"recompute_first", "recompute_groups"},
    "megatron_bridge": {"recompute_first", "recompute_groups"},
    "torch": {"recompute_first", "recompute_blocks"},
}


def kept(found: Resolved) -> dict[str, str]:
    """What is made again of each layer."""
    stages = found.plan.strategy.job.stages
    return {name: kept_of(stage, name).recompute for stage in stages for name in stage.all_layers}


@pytest.mark.parametrize("feature", FEATURE)
def test_each_form_is_one_feature(feature: str) -> None:
    own = [use for use in uses(FEATURE[feature]) if use.name in FEATURE]
    assert [use.name for use in own] == [feature]
    assert "layers of " in own[0].where
    plain = REPAIRS[feature](FEATURE[feature])
    assert all(stage.keeping == () for stage in plain.plan.strategy.job.stages)


@pytest.mark.parametrize("name", EXPORTERS.names())
@pytest.mark.parametrize("feature", FEATURE)
def test_it_is_written_or_refused_in_one_line_with_the_way_out(
    name: str, feature: str, tmp_path: Path
) -> None:
    plan = FEATURE[feature]
    others = set(refusals(changed(plan, keeping=()), name))
    told = [line for line in refusals(plan, name) if line not in others]
    has = {
        "megatron": {"recompute_first", "recompute_groups"},
        "torch": {"recompute_first", "recompute_blocks"},
    }
    has["megatron_bridge"] = has["megatron"]
    if name in ALWAYS or feature in has.get(name, set()):
        assert told == []
        return
    assert len(told) == 1
    assert told[0].endswith("drop the exceptions")
    with pytest.raises(PlanError):
        export(plan, name, tmp_path / "out")


@pytest.mark.parametrize(
    ("plan", "method", "count"),
    [
        (FIRST, "block", 3),
        (asked_for(UNEVEN, "block", 5), "block", 5),  # a stage of 4 blocks makes all of them again
        (asked_for(CHUNKS, "block", 1), "block", 1),
        (GROUPS, "uniform", 4),
        (asked_for(UNEVEN, "uniform", 3), "uniform", 3),
        (asked_for(PLAIN, "uniform", 1), "uniform", 1),
    ],
)
def test_megatron_writes_its_arguments_and_reads_them_back(
    plan: Resolved, method: str, count: int, tmp_path: Path
) -> None:
    for name, key in (("megatron", "--recompute-{}"), ("megatron_bridge", "model.recompute_{}")):
        told = EXPORTERS.get(name).settings(plan)
        sep = "-" if name == "megatron" else "_"
        assert told[key.format("granularity")] == "full"
        assert told[key.format("method")] == method
        assert told[key.format(f"num{sep}layers")] == count
        export(plan, name, tmp_path / name)
        back = import_config(tmp_path / name, name, model=None, cluster=None)
        assert back.plan.strategy.job.stages == plan.plan.strategy.job.stages


def test_the_first_blocks_of_every_stage_are_the_first_of_every_chunk() -> None:
    made = asked_for(CHUNKS, "block", 1)
    block_of = {layer.name: layer.block for layer in made.graph.layers}
    stages = made.plan.strategy.job.stages
    again = [{block_of[name] for item in stage.keeping for name in item.layers} for stage in stages]
    assert again == [{next(filter(None, map(block_of.get, stage.layers)))} for stage in stages]


def test_a_group_keeps_its_input_only() -> None:
    again, block_of = kept(GROUPS), {layer.name: layer.block for layer in GROUPS.graph.layers}
    dropped = {name for name, how in again.items() if how == "output"}
    inside: set[str] = set()
    for stage in GROUPS.plan.strategy.job.stages:
        blocks = list(dict.fromkeys(filter(None, map(block_of.get, stage.layers))))
        inside |= {block for i, block in enumerate(blocks[:-1]) if i % 4 != 3}
    assert {block_of[name] for name in dropped} == inside
    assert all(name.endswith("mlp.add") for name in dropped)


@settings(max_examples=30)
@given(
    method=st.sampled_from(["block", "uniform"]),
    count=st.integers(1, 20),
    plan=st.sampled_from([PLAIN, UNEVEN, CHUNKS]),
)
def test_arguments_are_found_again(method: str, count: int, plan: Resolved) -> None:
    made = asked_for(plan, method, count)
    found = recomputation_of(made.graph, made.plan.strategy.job)
    assert found is not None
    assert kept(asked_for(plan, *found)) == kept(made)


@pytest.mark.parametrize("plan", [PLAIN, SOME, SELECTIVE, NORMS, chosen(FIRST, "keep", "layers.2")])
def test_other_forms_have_no_arguments(plan: Resolved) -> None:
    assert recomputation_of(plan.graph, plan.plan.strategy.job) is None


def test_the_same_blocks_are_recognised_however_they_are_said() -> None:
    """By pattern, and as exceptions from full recomputation."""
    job = PLAIN.plan.strategy.job
    first, second = job.stages
    by_pattern = replace(first, keeping=(Keeping(layers=("layers.0.*", "layers.1.*"), recompute="full"),))
    block_of = {layer.name: layer.block for layer in PLAIN.graph.layers}
    again = list(dict.fromkeys(filter(None, map(block_of.get, second.layers))))[:2]
    but = tuple(name for name in second.layers if block_of[name] and block_of[name] not in again)
    inverted = replace(second, recompute="full", keeping=(Keeping(layers=but, recompute="none"),))
    made = job.with_stages((by_pattern, inverted))
    assert recomputation_of(PLAIN.graph, made) == Recomputation("block", 2)


def test_the_script_of_torch_has_a_word_for_each_block_that_differs() -> None:
    text = preview(SELECTIVE, "torch")["train.py"]
    assert 'RECOMPUTE = ["none", "none"]' in text
    assert '"layers.3": "full",\n    "layers.7": "selective",\n    "layers.20": "full",\n}' in text
    assert "how = RECOMPUTE_BLOCKS.get(name, usual)" in text
    compile(text, "train.py", "exec")
    assert "RECOMPUTE_BLOCKS" not in preview(changed(PLAIN, recompute="full"), "torch")["train.py"]


def test_a_method_that_there_is_not_is_one_line(tmp_path: Path) -> None:
    export(FIRST, "megatron", tmp_path)
    script = (tmp_path / "megatron.yaml").read_text()
    (tmp_path / "megatron.yaml").write_text(script.replace('"block"', '"blocks"'))
    with pytest.raises(PlanError, match="--recompute-method blocks: it is block or uniform") as caught:
        import_file(tmp_path / "megatron.yaml", "megatron")
    assert len(caught.value.problems) == 1
