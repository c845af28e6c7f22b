"""What layers keep one by one: an oracle of plain sets, uniform choices, and closed forms."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.costs.kept_by_layer import moved_size, rules_of, with_choices
from explorer.costs.memory import StageMemory, memory_of, stage_memory
from explorer.costs.memory_arrays import core_layers, graph_arrays
from explorer.costs.memory_by_tensor import saved_by_tensor
from explorer.costs.memory_counts import counts
from explorer.graph import AGAIN, KEEP, LayerGraph
from explorer.models import load_model
from explorer.sharding import megatron_layout, shard

CHOICES = ("none", "selective", "full", "output")
PLAIN: dict[str, Any] = {"precision": "bf16", "optimizer": "adam", "zero": 0, "replicas": 1, "training": True}


@cache
def graph_of(name: str) -> LayerGraph:
    if name == "policy":  # a graph that says itself what selective recomputation keeps
        graph, marks = graph_of("unfused"), (KEEP, AGAIN, AGAIN)
        layers = [replace(item, selective=marks[i % 3]) for i, item in enumerate(graph.layers)]
        return replace(graph, layers=tuple(layers))
    sizes = {"layers": "2", "embed": "64", "heads": "4"}
    if name == "unfused":
        return load_model("gpt", settings={**sizes, "attention": "unfused", "dropout": "true"})
    return load_model("llama", settings={**sizes, "kv_heads": "2"}) if name == "llama" else load_model(name)


GRAPHS = ("unfused", "policy", "llama", "resnet50")


def size(graph: LayerGraph, names: set[str]) -> float:
    width = {"compute": 2.0, "byte": 1.0, "bool": 1.0, "int8": 1.0, "int64": 8.0, "fp32": 4.0}
    return sum(float(np.prod(graph.tensor[n].shape)) * width[graph.tensor[n].dtype] for n in names)


def kept_by_sets(
    graph: LayerGraph, here: list[int], choice: dict[int, str], keepers: list[int] | None = None
) -> set[str]:
    """The rules of the module, tensor by tensor: what some keepers of a stage keep, or all of its layers."""
    layers, core = {i: graph.layers[i] for i in here}, core_layers(graph)
    policy = any(layer.selective for layer in graph.layers)
    home = {use.name: i for i, layer in enumerate(graph.layers) for use in layer.writes}
    blocks = any(layer.block for layer in layers.values())

    def region(i: int) -> object:
        if i not in choice:
            return None
        block = layers[i].block if blocks else "all"
        if choice[i] == "output":
            return block or ("alone", i)
        again = choice[i] == "full" or (choice[i] == "selective" and policy)
        return block if again and block else None

    def inner(name: str) -> bool:
        writer = home.get(name, -1)
        savers = [i for i, layer in enumerate(graph.layers) if name in layer.saves]
        return writer >= 0 and bool(core[writer]) and all(core[i] for i in savers)

    kept: set[str] = set()
    for i in here if keepers is None else keepers:
        layer = layers[i]
        if region(i) is None:
            for name in layer.saves:
                writer = home.get(name, -1)
                remade = writer not in layers or choice[writer] == "selective" or region(writer) is not None
                if not (choice[i] == "selective" and not policy and inner(name) and remade):
                    kept.add(name)
        else:
            names = {use.name for use in layer.reads}
            kept |= {n for n in names if region(home.get(n, -1)) != region(i)}
        if policy and choice[i] == "selective":
            touched = {use.name for use in (*layer.reads, *layer.writes)} | set(layer.saves)
            kept |= {n for n in touched if n in home and graph.layers[home[n]].selective == KEEP}
    outside = {use.name for i, layer in enumerate(graph.layers) if i not in layers for use in layer.reads}
    return kept - {
        use.name
        for i in here
        if choice[i] == "output"
        for use in graph.layers[i].writes
        if use.name not in outside
    }


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(GRAPHS), st.data())
def test_kept_tensors_are_those_of_the_rules(name: str, data: st.DataObject) -> None:
    graph = graph_of(name)
    count = len(graph.layers)
    low = data.draw(st.integers(0, count - 1))
    here = list(range(low, data.draw(st.integers(low + 1, count))))
    chosen = tuple(data.draw(st.lists(st.sampled_from(CHOICES), min_size=len(here), max_size=len(here))))
    inside = np.isin(np.arange(count), here)
    rules = rules_of(graph_arrays(graph), inside, chosen)
    kept = kept_by_sets(graph, here, dict(zip(here, chosen, strict=True)))
    assert {graph.tensors[i].name for i in np.flatnonzero(rules.kept)} == kept
    saved = {n for i in here for n in graph.layers[i].saves}
    assert {graph.tensors[i].name for i in np.flatnonzero(rules.dropped)} == saved - kept
    layers = tuple(graph.layers[i].name for i in here)
    found = stage_memory(graph, layers, shard(graph, layers), **PLAIN, recompute=chosen)
    assert found.activation_bytes_per_sample == pytest.approx(size(graph, kept))
    assert found.recompute_whole_bytes_per_sample == pytest.approx(size(graph, saved - kept))
    # no block is too small: what it saves and nobody keeps is there in its backward
    for block in {graph.layers[i].block for i in here}:
        own = {n for i in here if graph.layers[i].block == block for n in graph.layers[i].saves} - kept
        assert found.recompute_peak_bytes_per_sample >= size(graph, own) - 1e-6 or not block
    assert found.recompute_peak_bytes_per_sample <= size(graph, saved - kept) + 1e-6
    # one by one from the end: what only later blocks keep is free by then
    most = size(graph, kept) + found.recompute_in_turn_bytes_per_sample
    for block in {graph.layers[i].block for i in here}:
        mine = [i for i in here if graph.layers[i].block == block]
        before = [i for i in here if i <= mine[-1]]
        alive = kept_by_sets(graph, here, dict(zip(here, chosen, strict=True)), keepers=before)
        own = {n for i in mine for n in graph.layers[i].saves} - kept
        assert not block or most >= size(graph, alive | own) - 1e-6
    assert found.recompute_in_turn_bytes_per_sample <= found.recompute_peak_bytes_per_sample
    shares = inside.astype(np.float64)
    by_tensor, _ = saved_by_tensor(graph, shard(graph, layers), shares, precision="bf16", recompute=chosen)
    assert by_tensor.sum() == pytest.approx(found.activation_bytes_per_sample)


@pytest.mark.parametrize("choice", ["none", "selective", "full"])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("tensor", [1, 2])
def test_one_choice_for_all_by_the_rules_of_layers(name: str, choice: str, tensor: int) -> None:
    """The same numbers as the stage's own choice, which is counted apart; also of a part without blocks."""
    graph = graph_of(name)
    names = tuple(layer.name for layer in graph.layers)
    for layers in (names, names[: len(names) // 3], names[-3:], names[:2]):
        sharded = shard(graph, layers, layout=megatron_layout(), sizes={"tensor": tensor})
        shares = np.isin(names, layers).astype(np.float64)
        chosen = (choice,) * len(layers)
        found = with_choices(counts(graph, layers, sharded, (), ()), graph, sharded, shares, chosen)
        assert found.saved[chosen] == found.saved[choice]
        assert found.again[chosen] == found.again[choice]
        assert found.again_for_inputs[chosen] == found.again_for_inputs[choice]
        same = found.saved[chosen] == found.saved["none"]  # nothing to make again: gradients as of `none`
        assert found.working[chosen].bytes(2) >= found.working["none" if same else choice].bytes(2)
        by_layer, whole = (memory_of(found, **PLAIN, recompute=item) for item in (chosen, choice))
        more = by_layer.recompute_whole_bytes_per_sample - whole.recompute_whole_bytes_per_sample
        assert more >= 0


def memory(graph: LayerGraph, chosen: dict[str, str], base: str = "none") -> StageMemory:
    names = tuple(layer.name for layer in graph.layers)
    choices = tuple(chosen.get(name, base) for name in names)
    return stage_memory(graph, names, shard(graph, names), **PLAIN, recompute=choices)


def plain(graph: LayerGraph, recompute: str) -> StageMemory:
    names = tuple(layer.name for layer in graph.layers)
    return stage_memory(graph, names, shard(graph, names), **PLAIN, recompute=recompute)


@pytest.mark.parametrize("model", ["gpt2-small", "llama3-8b"])
def test_one_of_equal_blocks_saves_its_part_of_what_all_save(model: str) -> None:
    graph = load_model(model)
    blocks = {layer.block for layer in graph.layers if layer.block}
    none, full = plain(graph, "none"), plain(graph, "full")
    whole = none.activation_bytes_per_sample - full.activation_bytes_per_sample
    for count in (1, len(blocks) - 1):
        some = sorted(blocks)[:count]
        found = memory(graph, {layer.name: "full" for layer in graph.layers if layer.block in some})
        assert none.activation_bytes_per_sample - found.activation_bytes_per_sample == pytest.approx(
            whole * count / len(blocks)
        )
        assert found.recompute_peak_bytes_per_sample == full.recompute_peak_bytes_per_sample
        # what is made again of the first blocks comes when all behind them is free: no more is held at a time
        kept = found.activation_bytes_per_sample + found.recompute_in_turn_bytes_per_sample
        assert kept <= none.activation_bytes_per_sample


@pytest.mark.parametrize("model", ["gpt2-small", "llama3-8b"])
def test_a_block_is_made_again_when_all_behind_it_is_free(model: str) -> None:
    """Of equal blocks alone, the last n made again: one of them beside what the others keep."""
    graph = load_model(model)
    layers = [layer for layer in graph.layers if layer.block]
    names, blocks = tuple(layer.name for layer in layers), list(dict.fromkeys(x.block for x in layers))

    def found(again: list[str]) -> StageMemory:
        choices = tuple("full" if layer.block in again else "none" for layer in layers)
        return stage_memory(graph, names, shard(graph, names), **PLAIN, recompute=choices)

    none, full = found([]).activation_bytes_per_sample, found(blocks).activation_bytes_per_sample
    each = (none - full) / len(blocks)
    for count in (1, 2, len(blocks) - 1):
        assert found(blocks[-count:]).recompute_in_turn_bytes_per_sample == pytest.approx(each)
        # the first come last, when what the others keep is free: no more is there than before
        first = found(blocks[:count])
        assert first.activation_bytes_per_sample + first.recompute_in_turn_bytes_per_sample <= none


@pytest.mark.parametrize(("model", "ending"), [("gpt2-small", "gelu"), ("llama3-8b", "silu_mul")])
def test_an_activation_function_that_drops_its_output(model: str, ending: str) -> None:
    graph = load_model(model)
    name = next(layer.name for layer in graph.layers if layer.block and layer.name.endswith(ending))
    (written,) = graph.layer[name].writes
    none, found = plain(graph, "none"), memory(graph, {name: "output"})
    dropped = size(graph, {written.name})
    assert none.activation_bytes_per_sample - found.activation_bytes_per_sample == dropped
    assert found.recompute_peak_bytes_per_sample == dropped
    assert found.recompute_whole_bytes_per_sample == dropped


def test_all_outputs_dropped_are_made_again_from_the_inputs_of_the_stage() -> None:
    """A chain through all blocks: in the backward of the last block everything is there."""
    graph = graph_of("unfused")
    found = memory(graph, {}, base="output")
    saved = {name for layer in graph.layers for name in layer.saves}
    inputs = {use.name for layer in graph.layers for use in layer.reads} - set(graph.producer)
    assert found.activation_bytes_per_sample == size(graph, inputs)
    assert found.recompute_peak_bytes_per_sample == size(graph, saved - inputs)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(GRAPHS), st.data())
def test_what_moves_is_what_host_layers_keep_and_no_other_needs(name: str, data: st.DataObject) -> None:
    graph = graph_of(name)
    names = tuple(layer.name for layer in graph.layers)
    count = len(names)
    away = tuple(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    found = moved_size(graph, shard(graph, names), np.arange(count), None, "none", away)
    on = [{n for layer, far in zip(graph.layers, away, strict=True) if far is h for n in layer.saves}
          for h in (True, False)]  # fmt: skip
    assert found.all.bytes(2) == pytest.approx(size(graph, on[0] - on[1]))
    assert found.here.bytes(2) <= found.all.bytes(2)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(InputError, match="unknown recompute 'half'"):
        memory(graph_of("unfused"), {}, base="half")
