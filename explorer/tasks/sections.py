"""Sections: runs of a stage's layers on one set of devices, with the strategy's own names."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.costs.keeping import Recompute, recompute_of
from explorer.graph import LayerGraph
from explorer.strategy import ROUND_ROBIN, Mesh, Slice, Stage
from explorer.tasks.skeleton import FloatArray, IntArray, SectionShape, split_offsets


class LayerRun(NamedTuple):
    """A section before its shape is known."""

    stage: int
    meshes: tuple[Mesh, ...]
    """Mesh of each copy."""
    members: tuple[tuple[int, float], ...]
    """(layer, share of it)."""
    layers: IntArray
    """Indices of the layers."""
    fractions: FloatArray | None
    """Share of each layer; None if all are whole."""
    trains: bool
    """Whether any layer has something to update."""
    recompute: Recompute = "none"
    """What its layers make again for their backward."""
    whole: tuple[int, ...] = ()
    """Parameters of cut layers without the dimension of the cut: each part holds all of them."""


def _make_run(
    graph: LayerGraph, s: int, stage: Stage, meshes: tuple[Mesh, ...], members: list[tuple[int, float]]
) -> LayerRun:
    trains = _trains(graph)
    whole = all(share == 1.0 for _, share in members)
    layers = np.array([layer for layer, _ in members], dtype=np.int64)
    return LayerRun(
        stage=s,
        meshes=meshes,
        members=tuple(members),
        layers=layers,
        fractions=None if whole else np.array([share for _, share in members]),
        trains=any(trains[layer] for layer, _ in members),
        recompute=recompute_of(graph, stage, layers),
        whole=_whole_parameters(graph, stage, frozenset(layer for layer, _ in members)),
    )


def splits(graph: LayerGraph, part: Slice, parameter: str) -> bool:
    """Tell whether a slice of a layer cuts this parameter of it; one of unknown dimensions is taken to be
    cut, a scalar is not.
    """
    if graph.parameter[parameter].elements == 1:
        return False
    uses = graph.layer[part.layer].parameters
    return all(part.dim in use.dims for use in uses if use.name == parameter and use.dims)


def _whole_parameters(graph: LayerGraph, stage: Stage, members: frozenset[int]) -> tuple[int, ...]:
    if not stage.slices:
        return ()
    position = {item.name: i for i, item in enumerate(graph.parameters)}
    return tuple(
        position[use.name]
        for part in stage.slices
        if graph.index[part.layer] in members
        for use in graph.layer[part.layer].parameters
        if not splits(graph, part, use.name)
    )


@remembered(STAGES_KEPT)
def stage_layers(graph: LayerGraph, stage: Stage) -> IntArray:
    """Return the indices of the layers of a stage, whole and cut ones."""
    index = graph.index
    return np.array([index[name] for name in stage.all_layers], dtype=np.int64)


@remembered(STAGES_KEPT)
def stage_runs(graph: LayerGraph, s: int, stage: Stage) -> list[LayerRun]:
    """List the runs of layers of a stage with one set of devices each, in model order."""
    index = graph.index
    whole = graph.memo("whole members", lambda: [(i, 1.0) for i in range(len(graph.layers))])
    members = [whole[index[name]] for name in stage.layers]
    members += [(index[part.layer], part.stop - part.start) for part in stage.slices]
    if stage.slices:
        members.sort()
    if not any(item.meshes for item in stage.shardings):
        return [_make_run(graph, s, stage, stage.meshes, members)]
    runs: list[tuple[tuple[Mesh, ...], list[tuple[int, float]]]] = []
    own = [frozenset(mesh.devices) for mesh in stage.meshes]
    for layer, fraction in members:
        sharding = stage.sharding_of(graph.layers[layer].name)
        meshes = sharding.meshes if sharding and sharding.meshes else stage.meshes
        # another mesh over the same devices is a collective inside the run, not a new one
        if [frozenset(mesh.devices) for mesh in meshes] == own:
            meshes = stage.meshes
        if not runs or runs[-1][0] != meshes:
            runs.append((meshes, []))
        runs[-1][1].append((layer, fraction))
    return [_make_run(graph, s, stage, meshes, found) for meshes, found in runs]


def _trains(graph: LayerGraph) -> tuple[bool, ...]:
    """Return per layer whether it uses a trainable parameter."""
    return graph.memo(
        "trains",
        lambda: tuple(
            any(graph.parameter[use.name].trainable for use in layer.parameters) for layer in graph.layers
        ),
    )


def shape_of(run: LayerRun, stage: Stage, *, training: bool) -> SectionShape:
    """Return what tasks need to know of a run; equal runs give the same object."""
    return _shape(
        run.stage,
        run.meshes,
        stage.microbatch_samples,
        stage.replicas,
        stage.shares,
        stage.zero if training else 0,
        run.recompute,
        stage.zero_replicas if training else 0,
        stage.reshard if training else "",
    )


@lru_cache(maxsize=4096)
def _shape(
    stage_index: int,
    meshes: tuple[Mesh, ...],
    samples: int,
    mode: str,
    shares: tuple[float, ...],
    zero: int,
    recompute: Recompute,
    zero_replicas: int,
    reshard: str,
) -> SectionShape:
    replicas = meshes[0].replicas
    return SectionShape(
        stage=stage_index,
        rows=tuple(mesh.rows for mesh in meshes),  # each hashed once, so that shapes are cheap to look up
        microbatch_samples=samples,
        round_robin=mode == ROUND_ROBIN,
        offsets=split_offsets(samples, replicas, shares if len(shares) == replicas else ()),
        zero=zero,
        full_recompute=recompute == "full",
        recomputes=recompute != "none",
        zero_replicas=_own_replicas(zero_replicas, replicas * len(meshes)),
        reshard=reshard,
    )


def _own_replicas(wanted: int, replicas: int) -> int:
    """Return the replicas that ZeRO shards over in a section: its own mesh may have fewer than the stage's; 0
    is all.
    """
    return 0 if not wanted or wanted >= replicas else math.gcd(wanted, replicas)
