"""Graphs with fewer blocks and smaller dimensions stay graphs that run."""

from __future__ import annotations

import pytest
import torch

from explorer.base.formats import json_text, parse_json
from explorer.models import load_model
from explorer.run.cases.small_graphs import with_sizes, without_blocks, without_internals
from explorer.run.sharded.layout_model import LayoutModel, layout_data, layout_model
from explorer.run.sharded.layout_units import LayoutUnits, alone

CPU = torch.device("cpu")
MOST = {"embed": 16, "ffn": 32, "seq": 8, "vocab": 16, "heads": 4, "kv_heads": 2, "head": 4, "experts": 4}


@pytest.mark.parametrize("name", ["gpt2-small", "opt-350m", "llama3-8b", "mixtral-8x7b"])
def test_a_small_model_of_one_block_computes_its_loss(name: str) -> None:
    whole = load_model(name)
    gone = {block for block in whole.blocks if block.rpartition(".")[2].isdigit()} - {"layers.0"}
    small = with_sizes(without_blocks(without_internals(whole), gone), MOST)
    assert {block for block in small.blocks if block.rpartition(".")[2].isdigit()} == {"layers.0"}
    assert len(small.layers) == len(whole.layers) - sum(layer.block in gone for layer in whole.layers)
    assert all(dim.size <= MOST.get(dim.name, dim.size) for layer in small.layers for dim in layer.dims)
    model = LayoutModel(graph=small, layout=(("heads", "tensor"),), axes=(("tensor", 2),))
    assert layout_model(parse_json(json_text(layout_data(model)))) == model
    units, every = LayoutUnits(model.whole, alone(CPU)), range(len(small.layers))
    weights = units.weights(every, CPU)
    loss = units.run(every, weights, {}, units.samples(0, 2, CPU))[units.loss]
    found = torch.autograd.grad(loss, list(weights.values()))
    assert all(float(gradient.abs().max()) > 0 for gradient in found)


def test_sizes_that_are_small_enough_stay() -> None:
    graph = without_internals(load_model("gpt2-small"))
    assert with_sizes(graph, {"embed": 10**6}) == graph
