"""Experts of a plan over data-parallel replicas, brought to the replicas that run.

A plan carves a mesh axis out of its replicas for its experts (`strategies.model_axes.expert_shardings`). Here
the axis is as long as there are replicas, each of which holds its part of the experts, and none is added up
between replicas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from explorer.graph import LayerGraph
from explorer.run.own.own_model import OwnModel
from explorer.sharding import expert_layout
from explorer.strategy import REPLICA, Mesh, Sharding, Stage

EXPERTS = expert_layout()[0][0]


class Spread(NamedTuple):
    """Experts over the replicas that run."""

    model: OwnModel
    """The model with its experts laid out."""
    stages: tuple[Stage, ...]
    """Its stages."""
    axis: str
    """Mesh axis of the plan's experts."""
    devices: tuple[int, int]
    """Devices that share the experts in the plan, and here."""


def spread_experts(
    model: OwnModel,
    graph: LayerGraph,
    named: Mapping[str, str],
    stages: Sequence[Stage],
    plan: Sequence[Stage],
) -> Spread | None:
    """Lay the experts out over the replicas that run as the plan does; None if it does not, or they cannot.

    Args:
        model: the layers that run.
        graph: their graph.
        named: plan's layer for each of them.
        stages: stages that run.
        plan: stages of the plan.
    """
    items = [item for stage in plan for item in stage.shardings]
    axes = {pair for item in items for mesh in item.meshes for pair in mesh.axes if pair[0] != REPLICA}
    replicas = {len(mesh.devices) for stage in stages for mesh in stage.meshes}
    if len(axes) != 1 or len(replicas) != 1 or not all(item.meshes for item in items):
        return None
    ((axis, devices),), (count,) = axes, replicas
    layers = tuple(name for name, of in named.items() if any(item.covers(of) for item in items))
    parts = [dim.size for name in layers for dim in graph.layer[name].dims if dim.name == EXPERTS]
    even = all(stage.replicas == "split" and not stage.shares for stage in stages)
    of_experts = all(item.layout == expert_layout(axis) for item in items)
    if count < 2 or not parts or any(size % count for size in parts) or not even or not of_experts:
        return None
    layout = expert_layout(axis)
    made = tuple(_over_replicas(stage, layers, (axis, count)) for stage in stages)
    spread = replace(model, spread=((layers, layout),), spread_axis=(axis, count))
    return Spread(spread, made, axis, (devices, count))


def _over_replicas(stage: Stage, layers: Sequence[str], axis: tuple[str, int]) -> Stage:
    """Return a stage whose layers among some are over its replicas."""
    own = tuple(name for name in layers if name in stage.layers)
    if not own:
        return replace(stage, shardings=())
    meshes = tuple(Mesh(devices=mesh.devices, axes=((REPLICA, 1), axis)) for mesh in stage.meshes)
    return replace(
        stage, shardings=(Sharding(layers=own, layout=expert_layout(axis[0]), meshes=meshes),)
    )  # fmt: skip
