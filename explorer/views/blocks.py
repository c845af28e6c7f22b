"""The model as blocks of layers with additive costs, for chip widths and for previews while dragging.

Costs are of one microbatch on one device under the layout of the strategy's first stage. They add up to a
lane's simulated time and memory except for what no layer has by itself (collectives, tensors shared at a
cut); the lane's factors in the board view make up for that.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.cluster import DeviceKind
from explorer.costs.compute import layer_times
from explorer.costs.keeping import Recompute, recompute_of
from explorer.costs.memory import stage_memory
from explorer.explain.names import block_words, numbered_layer, one_list
from explorer.graph import Layer, LayerGraph
from explorer.passes.timing import FloatArray
from explorer.pricing.section_time import made_again
from explorer.sharding import ShardedLayers, overrides_of, shard
from explorer.strategy import Stage
from explorer.views.scene import Scene
from explorer.workload import Job

_KEPT = 16  # results remembered per graph

STATES = ("weight_bytes", "gradient_bytes", "optimizer_bytes", "saved_bytes")
"""Parts of a layer's memory, by the keys of the view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """Costs of every layer as arrays of shape (layers,)."""

    forward_s: FloatArray
    """Seconds of the forward of one microbatch."""
    backward_s: FloatArray
    """Seconds of input and weight gradient, and of what a backward recomputes."""
    memory: dict[str, FloatArray]
    """Bytes by `STATES`."""
    output_bytes: FloatArray
    """Bytes written for other layers, one microbatch."""
    parameters: FloatArray
    """Number of scalars of parameters; shared ones count at their first layer."""


def block_ranges(graph: LayerGraph) -> list[tuple[str, int, int]]:
    """List blocks as (id, first, end): consecutive layers of one `Layer.block`, or one layer outside any.

    A block name that comes back later gets a number, so ids stay unique.
    """
    return graph.memo("views.block_ranges", lambda: _block_ranges(graph))


def _block_ranges(graph: LayerGraph) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    seen: Counter[str] = Counter()
    names = {layer.name for layer in graph.layers}
    previous = ""
    for i, layer in enumerate(graph.layers):
        if layer.block and layer.block == previous:
            found[-1] = (found[-1][0], found[-1][1], i + 1)
            continue
        previous = layer.block
        key = layer.block or layer.name
        seen[key] += 1
        clash = bool(layer.block) and key in names
        found.append((f"{key}#{seen[key]}" if seen[key] > 1 or clash else key, i, i + 1))
    return found


def layer_costs(scene: Scene) -> LayerFigures:
    """Return costs under the first stage's layout and memory choices, remembered per graph."""
    return scene.memo("blocks.costs", lambda: _known_costs(scene))


def _known_costs(scene: Scene) -> LayerFigures:
    stage = scene.strategy.stages[0]
    kind = scene.cluster.kind_of(stage.meshes[0].devices[0])
    samples = _samples(stage)
    mesh = stage.meshes[0]
    chosen = _recompute(scene)
    key = (
        id(kind),
        scene.job,
        samples,
        stage.layout,
        stage.shardings,
        mesh.axes,
        chosen,
        stage.zero,
    )
    kept: dict[Any, tuple[DeviceKind, LayerFigures]] = scene.graph.memo("views.costs", dict)
    if key not in kept:
        if len(kept) >= _KEPT:
            del kept[next(iter(kept))]
        kept[key] = (kind, _layer_costs(scene.graph, scene.job, stage, kind, samples, chosen))
    return kept[key][1]


def _recompute(scene: Scene) -> Recompute:
    """Return what layers make again: as the first stage says, but for exceptions of layers where they are."""
    graph, stages = scene.graph, scene.strategy.stages
    if not any(stage.keeping for stage in stages):
        return stages[0].recompute
    chosen = [stages[0].recompute] * len(graph.layers)
    for stage in (stage for stage in stages if stage.keeping):
        places = np.sort([graph.index[name] for name in stage.all_layers])
        found = recompute_of(graph, stage, places)
        some = (found,) * len(places) if isinstance(found, str) else found
        for place, word in zip(places.tolist(), some, strict=True):
            chosen[place] = word
    return tuple(chosen)


def _samples(stage: Stage) -> float:
    replicas = 1 if stage.replicas == "round_robin" else stage.meshes[0].replicas
    return stage.microbatch_samples / replicas


def _layer_costs(
    graph: LayerGraph, job: Job, stage: Stage, kind: DeviceKind, samples: float, chosen: Recompute
) -> LayerFigures:
    mesh = stage.meshes[0]
    names = tuple(layer.name for layer in graph.layers)
    sharded = shard(graph, names, layout=stage.layout, sizes=dict(mesh.axes), overrides=overrides_of(stage))
    times = layer_times(
        graph, kind, samples=samples, precision=job.precision, work=sharded.work, split=sharded.split,
        tensor_degree=mesh.size("tensor"),
    )  # fmt: skip
    backward = times[1] + times[2] + times[0] * made_again(graph, np.arange(len(names)), chosen)
    tensor, parameter = graph.tensor, graph.parameter
    fraction = sharded.tensor_fraction
    output = [
        sum(
            tensor[use.name].bytes_per_sample(job.precision) * fraction.get(use.name, 1.0)
            for use in layer.writes
            if use.name in graph.consumers
        )
        for layer in graph.layers
    ]
    counted: set[str] = set()
    scalars = []
    for layer in graph.layers:
        own = [use.name for use in layer.parameters if use.name not in counted]
        counted.update(own)
        scalars.append(sum(parameter[name].elements for name in own))
    return LayerFigures(
        forward_s=times[0],
        backward_s=backward if job.training else np.zeros(len(names)),
        memory=_memory(graph, job, stage, sharded, np.array(scalars), samples, chosen),
        output_bytes=np.array(output) * samples,
        parameters=np.array(scalars),
    )


def _memory(
    graph: LayerGraph,
    job: Job,
    stage: Stage,
    sharded: ShardedLayers,
    scalars: FloatArray,
    samples: float,
    chosen: Recompute,
) -> dict[str, FloatArray]:
    """Spread each block's memory over its layers: states by parameters, saved tensors by their size."""
    found = {key: np.zeros(len(graph.layers)) for key in STATES}
    saved = np.array([_saved_bytes(graph, layer, job.precision) for layer in graph.layers])
    for _, first, end in block_ranges(graph):
        again = chosen if isinstance(chosen, str) else chosen[first:end]
        item = stage_memory(
            graph, tuple(layer.name for layer in graph.layers[first:end]), sharded,
            precision=job.precision, optimizer=job.optimizer, zero=stage.zero if job.training else 0,
            replicas=stage.zero_replicas or stage.meshes[0].replicas, recompute=again,
            training=job.training,
            gradient_precision=job.gradient_precision,
        )  # fmt: skip
        own = slice(first, end)
        by_weight, by_size = _shares(scalars[own]), _shares(saved[own])
        found["weight_bytes"][own] = by_weight * item.weight_bytes
        found["gradient_bytes"][own] = by_weight * item.gradient_bytes
        found["optimizer_bytes"][own] = by_weight * item.optimizer_bytes
        found["saved_bytes"][own] = by_size * item.activation_bytes_per_sample * samples
    return found


def _shares(sizes: FloatArray) -> FloatArray:
    total = sizes.sum()
    return sizes / total if total > 0 else np.full(len(sizes), 1.0 / len(sizes))


def _saved_bytes(graph: LayerGraph, layer: Layer, precision: str) -> float:
    return sum(graph.tensor[name].bytes_per_sample(precision) for name in layer.saves if name in graph.tensor)


def blocks_view(scene: Scene) -> list[dict[str, Any]]:
    """Return `Board.blocks`: one dict per block, in model order. Equal costs give the same list object."""
    costs = layer_costs(scene)
    kept: dict[int, tuple[LayerFigures, list[dict[str, Any]]]] = scene.graph.memo("views.blocks", dict)
    if id(costs) not in kept:
        if len(kept) >= _KEPT:
            del kept[next(iter(kept))]
        kept[id(costs)] = (costs, _blocks_view(scene.graph, costs))
    return kept[id(costs)][1]


def _blocks_view(graph: LayerGraph, costs: LayerFigures) -> list[dict[str, Any]]:
    ranges = block_ranges(graph)
    labels = _labels(graph, ranges)
    table = {
        "forward_s": costs.forward_s.tolist(),
        "backward_s": costs.backward_s.tolist(),
        **{key: costs.memory[key].tolist() for key in STATES},
        "output_bytes": costs.output_bytes.tolist(),
        "parameters": [round(count) for count in costs.parameters.tolist()],
    }
    return [
        {
            "id": key,
            "label": label,
            "name": block_words(graph, key) if graph.layers[first].block else label,
            "kind": "block" if graph.layers[first].block else graph.layers[first].kind,
            "layers": [
                _layer(key, graph.layers[i], {name: column[i] for name, column in table.items()})
                for i in range(first, end)
            ],
        }
        for (key, first, end), label in zip(ranges, labels, strict=True)
    ]


def _labels(graph: LayerGraph, ranges: list[tuple[str, int, int]]) -> list[str]:
    """Return a short label of each block: the last part of its id if that says which, else the whole id.

    Layers that are only numbered are named by their kind, as in the layer graph.
    """
    tails = [key.rpartition(".")[2] for key, _, _ in ranges]
    alone = one_list(graph)
    short = []
    for tail, (key, first, _) in zip(tails, ranges, strict=True):
        layer = graph.layers[first]
        named = None if layer.block else numbered_layer(tail, layer.kind)
        short.append(named or (key if layer.block and tail.isdigit() and not alone else tail))
    count = Counter(short)
    return [label if count[label] == 1 else key for label, (key, _, _) in zip(short, ranges, strict=True)]


def _layer(block: str, layer: Layer, costs: dict[str, Any]) -> dict[str, Any]:
    inner = layer.name.removeprefix(f"{layer.block}.") if layer.block else layer.name
    part, dot, label = inner.rpartition(".")
    return {
        "id": layer.name,
        "label": label or block,
        "kind": layer.kind,
        "part": part if dot and layer.block else None,
        **costs,
    }
