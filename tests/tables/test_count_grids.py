"""Counts of all runs of units at once are the counts of each run."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from explorer.costs.memory_counts import carved_of, counts
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.models.synthetic import branches, chain, tied
from explorer.pricing.layer_columns import sharded_of
from explorer.sharding import ShardedLayers
from explorer.strategies.degrees import Degrees
from explorer.strategies.model_axes import expert_patterns
from explorer.tables.count_grids import count_grids, names_of, numbers_of

SMALL = {"layers": "5", "embed": "64", "heads": "4"}
MODELS = {
    "gpt": {**SMALL, "vocab": "512", "positions": "64", "attention": "unfused"},
    "gpt2-small": {},
    "deepseek": {**SMALL, "vocab": "256", "experts": "8", "active": "2", "dense_layers": "1"},
    "llama": {**SMALL, "kv_heads": "2"},
    "t5-large": {},
    "mixtral-8x7b": {},
    "gnmt-8": {},
    "resnet50": {},
    "vgg16": {},
    "inception-v3": {},
    "unet-3d": {},
    "dlrm": {},
    "biglstm": {},
    "vit-l16": {},
}
SYNTHETIC = {
    "chain": chain([1.0, 2.0, 0.5, 1.0], activation_bytes=3.0, parameter_bytes=5.0, saved_bytes=2.0),
    "tied": tied([1.0] * 5, activation_bytes=3.0, parameter_bytes=5.0, saved_bytes=2.0),
    "branches": branches([2, 3], activation_bytes=3.0, parameter_bytes=5.0, skip=True),
}
DEGREES = (
    Degrees(),
    Degrees(tensor=2, sequence_parallel=True),
    Degrees(tensor=4, context=2),
    Degrees(context=2, context_exchange="ring"),
    Degrees(replicas=4, expert=4, tensor=2),
)
PAIRS = 60
"""Runs of large models that are compared, drawn with a fixed seed."""


@cache
def model(name: str) -> LayerGraph:
    return SYNTHETIC[name] if name in SYNTHETIC else load_model(name, settings=MODELS[name])


def sharded(graph: LayerGraph, degrees: Degrees) -> ShardedLayers:
    names = tuple(layer.name for layer in graph.layers)
    return sharded_of(graph, degrees.stages_of([names], (), expert_patterns(graph))[0]).shards


@pytest.mark.parametrize("degrees", DEGREES, ids=lambda item: item.label)
@pytest.mark.parametrize("name", [*MODELS, *SYNTHETIC])
def test_grids_are_the_counts_of_every_run(name: str, degrees: Degrees) -> None:
    graph = model(name)
    shards = sharded(graph, degrees)
    grids = count_grids(graph, shards)
    assert grids is not None
    carved = tuple(sorted({1.0, *np.unique(carved_of(shards)).tolist()}))
    names, layers = names_of(carved), [layer.name for layer in graph.layers]
    units = len(grids.bounds) - 1
    pairs = [(i, j) for i in range(units) for j in range(i + 1, units + 1)]
    if len(pairs) > PAIRS:
        chosen = np.random.default_rng(len(pairs)).choice(len(pairs), PAIRS, replace=False)
        pairs = [pairs[k] for k in sorted({*chosen.tolist(), 0, units - 1, len(pairs) - 1})]
    runs = grids.place(*np.array(pairs).T)
    whole = grids.values[:, grids.place(np.array(0), np.array(units))]
    for (i, j), run in zip(pairs, runs.tolist(), strict=True):
        if grids.unknown[run]:
            continue
        a, b = grids.bounds[[i, j]].tolist()
        wanted = numbers_of(counts(graph, tuple(layers[a:b]), shards, (), ()), carved)
        reserve = 1e-12 * np.maximum(np.abs(whole), 1.0)
        wrong = np.abs(grids.values[:, run] - wanted) > 1e-9 * np.abs(wanted) + reserve
        assert not wrong.any(), (i, j, [names[k] for k in np.flatnonzero(wrong)])
    assert (~grids.unknown).mean() > 0.4, "most runs need not be asked"
