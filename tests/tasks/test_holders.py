"""Parameters that are held alike are grouped at once: the same groups as one parameter at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.models import load_model
from explorer.sharding import expert_layout, megatron_layout
from explorer.strategy import JobStrategy, Mesh, Sharding, Stage, UpdateChoice
from explorer.tasks.placement import place

DEVICES = tuple(range(8))
EXPERTS = Mesh(devices=DEVICES, axes=(("replica", 2), ("expert", 4)))
LANES = Mesh(devices=DEVICES, axes=(("replica", 4), ("tensor", 2)))
WITHOUT_TENSOR = Mesh(devices=DEVICES)
SHARDINGS = {
    "another layout": (Sharding(layers=("layers.1.*",)),),
    "experts": (Sharding(layers=("*.experts*",), layout=expert_layout(), meshes=(EXPERTS,)),),
    "experts and samples": (
        Sharding(layers=("layers.2.*",), layout=(("ffn", "tensor"),)),
        Sharding(layers=("*.experts*", "lm_head"), layout=expert_layout(), meshes=(EXPERTS,)),
        Sharding(layers=("*.0.*", "*norm*"), meshes=(WITHOUT_TENSOR,)),
    ),
}


@pytest.mark.parametrize("name", SHARDINGS)
def test_groups_of_exceptions(name: str) -> None:
    graph = load_model("mixtral-8x7b")
    names = tuple(layer.name for layer in graph.layers)
    stage = Stage(layers=names, meshes=(LANES,), layout=megatron_layout(), shardings=SHARDINGS[name])
    together = JobStrategy(stages=(replace(stage, microbatch_samples=4),))
    # a choice for a parameter that does not exist lets every parameter be looked at by itself
    apart = replace(together, updates=(UpdateChoice(rule="local_sgd", parameters=("no such weight",)),))
    found, expected = (place(graph, strategy, training=True) for strategy in (together, apart))
    assert found.skeleton.holders == expected.skeleton.holders
    assert [list(held) for held in found.held] == [list(held) for held in expected.held]
    assert len(found.held) > (name != "another layout")
