"""Compare a sharded execution with the dense one: values, gradients, and what was sent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from explorer.graph import LayerGraph
from explorer.sharding.stage import GraphSharding, Request
from tests.sharding.dense import Execution, Shards

NOTHING = Request((), (), ())


def without_internals(graph: LayerGraph) -> LayerGraph:
    """The graph without tensors that layers write only for their own backward."""
    read = {use.name for layer in graph.layers for use in layer.reads}
    dropped = {
        use.name
        for layer in graph.layers
        for use in layer.writes[1:]
        if use.name not in read and not graph.tensor[use.name].backward
    }
    layers = tuple(
        replace(
            layer,
            writes=tuple(use for use in layer.writes if use.name not in dropped),
            saves=tuple(name for name in layer.saves if name not in dropped),
            last_read_by=(),
        )
        for layer in graph.layers
    )
    tensors = tuple(item for item in graph.tensors if item.name not in dropped)
    return replace(graph, layers=layers, tensors=tensors)


def random_values(
    graph: LayerGraph, samples: int, seed: int, vocab: int = 0
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs and weights, and cotangents of what nobody reads."""
    random = np.random.default_rng(seed)
    values = {p.name: random.normal(size=[int(n) for n in p.shape]) for p in graph.parameters}
    cotangents = {}
    for tensor in graph.tensors:
        shape = [samples, *(int(n) for n in tensor.shape)]
        if tensor.name not in graph.producer:
            integer = tensor.dtype.startswith("int")
            values[tensor.name] = random.integers(vocab, size=shape) if integer else random.normal(size=shape)
        elif tensor.name not in graph.consumers:
            cotangents[tensor.name] = random.normal(size=shape)
    return values, cotangents


def check(
    graph: LayerGraph,
    request: Request,
    *,
    samples: int = 2,
    seed: int = 0,
    vocab: int = 0,
    held_twice: Container[str] = (),
) -> Execution:
    """Values, gradients and collectives of a layout against the dense execution.

    Args:
        graph: its layers' kinds are those of `tests.sharding.layers`.
        request: the layout.
        samples: per device of carved axes.
        seed: of inputs, weights and cotangents.
        vocab: bound of integer inputs.
        held_twice: tensors with fewer pieces than devices, whose gradients stay partial sums on purpose.
    """
    carved = _carved(graph, request)
    values, cotangents = random_values(graph, samples * carved, seed, vocab)
    dense_values, dense_gradients, dense_weights = _dense(graph, samples * carved, seed, vocab)
    run = Execution(graph, request, values)
    run.forward()
    for name, by_placement in run.at.items():
        for placement, shards in by_placement.items():
            run.assert_holds(shards, placement, dense_values[name][()].values)
    gradients, weights = run.backward(cotangents)
    for name, shards in gradients.items():
        if name in held_twice:
            continue
        layer, k = run.whole.wires.writer[run.position[name]]
        goal = run.whole.plans[layer].write_gradients[k]
        run.assert_holds(shards, goal, dense_gradients[name][()].values)
    for name, gradient in weights.items():
        np.testing.assert_allclose(gradient, dense_weights[name], rtol=1e-10, atol=1e-11)
    _compare_sent(run, samples)
    return run


@lru_cache(maxsize=1)
def _dense(
    graph: LayerGraph, samples: int, seed: int, vocab: int
) -> tuple[dict[str, Shards], dict[str, Shards], dict[str, np.ndarray]]:
    values, cotangents = random_values(graph, samples, seed, vocab)
    run = Execution(graph, NOTHING, values)
    return run.forward(), *run.backward(cotangents)


def _carved(graph: LayerGraph, request: Request) -> int:
    return math.prod(axis.size for axis in GraphSharding(graph, request).axes if axis.carved)


def _compare_sent(run: Execution, samples: int) -> None:
    """What was executed is what `ShardedLayers` lists (less what runs inside layers)."""
    graph, whole = run.graph, run.whole
    result = whole.cut(tuple(layer.name for layer in graph.layers))
    expected: Counter[tuple[str, str, str, str, int]] = Counter()
    for way, found in (("forward", result.forward), ("backward", result.backward)):
        for item in found:
            size = round(item.elements_per_sample * samples)
            expected[way, item.op, item.axis, item.tensor, size] += 1
        for layer, plan in zip(graph.layers, whole.plans, strict=True):
            for inner in getattr(plan, way):
                size = round(inner.elements * samples)
                expected[way, inner.op, run.axes[inner.axis].name, layer.reads[0].name, size] -= 1
    assert +expected == run.mesh.sent


def grid_request(
    layout: Mapping[str, str] | tuple[tuple[str, str], ...], sizes: Mapping[str, int]
) -> Request:
    pairs = tuple(layout.items()) if isinstance(layout, Mapping) else layout
    return Request(pairs, tuple(sizes.items()), ())
