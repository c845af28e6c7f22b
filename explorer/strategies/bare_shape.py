"""The shape of a strategy as its schedule sees it, without placing and lowering it."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

import numpy as np

from explorer.actions import Place, Shape
from explorer.base.caching import Same, remembered
from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy, Mesh
from explorer.tasks.placement import layer_edges, stage_layers
from explorer.workload import Job


def bare_shape(graph: LayerGraph, job: Job, strategy: JobStrategy) -> Shape:
    """Return what the needs of a schedule are asked of, with one lane per group of equal devices.

    The replicas of a stage hold the same stages, so one lane stands for all of them.
    """
    stages = strategy.stages
    return Shape(
        stages=len(stages),
        edges=_edges(graph, strategy),
        lanes=_lanes(Same([stage.meshes for stage in stages])),
        microbatches=tuple(job.global_batch // stage.microbatch_samples for stage in stages),
        copies=strategy.copies,
        replicas=tuple(stage.meshes[0].replicas for stage in stages),
        round_robin=tuple(stage.replicas == "round_robin" for stage in stages),
        training=job.training,
    )


def _edges(graph: LayerGraph, strategy: JobStrategy) -> tuple[tuple[int, int], ...]:
    """Return the (from, to) of stages; a layer that is cut counts as one of its last stage."""
    home = np.zeros(len(graph.layers), dtype=np.int64)
    for s, stage in enumerate(strategy.stages):
        home[stage_layers(graph, stage)] = s
    writers, readers, _ = layer_edges(graph)
    count = len(strategy.stages)
    pairs = np.unique(home[writers] * count + home[readers])
    return tuple((a, b) for a, b in (divmod(pair, count) for pair in pairs.tolist()) if a != b)


@remembered(256)
def _lanes(stages: Same[tuple[Mesh, ...]]) -> tuple[tuple[Place, ...], ...]:
    """Return the lanes of stages on these meshes, per copy."""
    held: dict[tuple[int, ...], list[Place]] = defaultdict(list)
    for s, meshes in enumerate(stages):
        for copy, mesh in enumerate(meshes):
            held[mesh.devices].append(Place(s, copy, 0))
    if sum(map(len, held)) == len(set(chain.from_iterable(held))):
        return tuple(tuple(places) for places in held.values())
    by_device: dict[int, list[Place]] = defaultdict(list)
    for devices, places in held.items():
        for device in devices:
            by_device[device] += places
    return tuple(dict.fromkeys(tuple(sorted(places)) for places in by_device.values()))
