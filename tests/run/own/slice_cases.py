"""Stages with slices of layers that tests share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.strategy import Mesh, Slice, Stage

Cut = tuple[str, str, dict[int, tuple[float, float]]]
"""(layer, dimension, part of each stage that has one)."""


def sliced_stages(
    graph: LayerGraph,
    last: tuple[str, ...],
    *cuts: Cut,
    replicas: int = 1,
    size: int = 1,
    recompute: str = "none",
) -> tuple[Stage, ...]:
    """Whole layers in order, up to and with those of `last` on each stage, and the parts of cut ones."""
    cut = {layer for layer, _, _ in cuts}
    names = [layer.name for layer in graph.layers if layer.name not in cut]
    ends = [0, *(names.index(name) + 1 if name else 0 for name in last), len(names)]
    return tuple(
        Stage(
            layers=tuple(names[low:high]),
            slices=tuple(
                Slice(layer=layer, dim=dim, start=parts[s][0], stop=parts[s][1])
                for layer, dim, parts in cuts
                if s in parts
            ),
            meshes=(Mesh(devices=tuple(range(s * replicas, (s + 1) * replicas))),),
            microbatch_samples=size,
            recompute=recompute,
        )
        for s, (low, high) in enumerate(pairwise(ends))
    )


def parts(*fractions: float, first: int = 0) -> dict[int, tuple[float, float]]:
    """Parts of stages one after the other, from one on."""
    bounds = [0.0, *fractions, 1.0]
    return {first + i: (bounds[i], bounds[i + 1]) for i in range(len(bounds) - 1)}


def with_cut(resolved: Resolved, *cuts: Cut, moved: Mapping[str, int] | None = None) -> Resolved:
    """A plan of which some layers are cut over its stages, and some moved to another stage before its own."""
    job = resolved.plan.strategy.job
    moved = moved or {}
    gone = {layer for layer, _, _ in cuts}.union(moved)
    stages = [
        replace(
            stage,
            layers=(
                *(name for name, to in moved.items() if to == s),
                *(name for name in stage.layers if name not in gone),
            ),
            slices=tuple(
                Slice(layer=layer, dim=dim, start=own[s][0], stop=own[s][1])
                for layer, dim, own in cuts
                if s in own
            ),
        )
        for s, stage in enumerate(job.stages)
    ]
    made = replace(resolved.plan.strategy, jobs=(job.with_stages(stages),))
    return replace(resolved, plan=replace(resolved.plan, strategy=made))
