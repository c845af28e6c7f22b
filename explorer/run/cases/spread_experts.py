"""Experts of a plan over ranks of several replicas, brought to the ranks that run.

A plan carves a mesh axis out of the devices of a stage for its experts, replicas and whatever else its lanes
are cut by together (`strategies.model_axes.expert_shardings`). Here the axis takes whole lanes: as many of
them as the plan's experts have devices for, and as divide replicas and experts. Replicas beyond hold the same
experts again, and add their gradients up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from explorer.graph import LayerGraph
from explorer.run.lane_layout import LaneLayout
from explorer.sharding import expert_layout
from explorer.strategy import REPLICA, Mesh, Sharding, Stage

EXPERTS = expert_layout()[0][0]
Laid = TypeVar("Laid", bound=LaneLayout)
"""A model that runs: own layers, or layers by their kinds."""


class Spread(NamedTuple, Generic[Laid]):
    """Experts over ranks of the replicas that run."""

    model: Laid
    """The model with its experts laid out."""
    stages: tuple[Stage, ...]
    """Its stages."""
    axis: str
    """Mesh axis of the plan's experts."""
    devices: tuple[int, int]
    """Devices that share the experts in the plan, and ranks here."""

    @property
    def words(self) -> tuple[list[str], list[str]]:
        """What a likeness says of them: what is validated, and what is not."""
        before, here = self.devices
        said = f"{self.axis} parallelism over replicas: {before}"
        return ([said], []) if before == here else ([], [f"{said} devices in the plan, {here} here"])


def spread_experts(
    model: Laid,
    graph: LayerGraph,
    named: Mapping[str, str],
    stages: Sequence[Stage],
    plan: Sequence[Stage],
) -> Spread[Laid] | None:
    """Lay the experts out over ranks of replicas as the plan does; None if it does not, or they cannot be.

    Args:
        model: the layers that run, with the layout of its lanes.
        graph: their graph.
        named: plan's layer for each of them.
        stages: stages that run.
        plan: stages of the plan.
    """
    items = [item for stage in plan for item in stage.shardings if item.meshes or not model.axes]
    axes = {pair for item in items for mesh in item.meshes for pair in mesh.axes if pair[0] != REPLICA}
    replicas = {len(mesh.devices) // model.lane_ranks for stage in stages for mesh in stage.meshes}
    if len(axes) != 1 or len(replicas) != 1 or not all(item.meshes for item in items):
        return None
    ((axis, devices),), (count,) = axes, replicas
    layers = tuple(name for name, of in named.items() if any(item.covers(of) for item in items))
    parts = [int(dim.size) for name in layers for dim in graph.layer[name].dims if dim.name == EXPERTS]
    even = all(stage.replicas == "split" and not stage.shares for stage in stages)
    of_experts = all(item.layout == expert_layout(axis) for item in items)
    size = _ranks(parts, model.lane_ranks, count, devices)
    if size < 2 or not even or not of_experts:
        return None
    made = tuple(_over_ranks(stage, layers, (axis, size)) for stage in stages)
    spread = replace(model, spread=((layers, expert_layout(axis)),), spread_axis=(axis, size))
    return Spread(spread, made, axis, (devices, size))


def _ranks(parts: Sequence[int], each: int, replicas: int, most: int) -> int:
    """Return over how many ranks experts go: whole lanes that divide replicas and experts; 0 if no
    number does.

    Args:
        parts: experts of every mixture.
        each: ranks of a lane.
        replicas: lanes of a stage.
        most: devices that share the experts in the plan; a lane takes part as a whole.

    >>> _ranks([8], 2, 4, 4), _ranks([8], 1, 4, 2), _ranks([3], 1, 2, 2)
    (4, 2, 1)
    """
    fits = [
        each * lanes
        for lanes in range(1, replicas + 1)
        if replicas % lanes == 0
        and each * lanes <= max(most, each)
        and not any(size % (each * lanes) for size in parts)
    ]
    return max(fits, default=0) if parts else 0


def _over_ranks(stage: Stage, layers: Sequence[str], axis: tuple[str, int]) -> Stage:
    """Return a stage whose layers among some are over ranks of its replicas."""
    own = tuple(name for name in layers if name in stage.layers)
    if not own:
        return stage
    meshes = tuple(
        Mesh(devices=mesh.devices, axes=((REPLICA, len(mesh.devices) // axis[1]), axis))
        for mesh in stage.meshes
    )
    apart = Sharding(layers=own, layout=expert_layout(axis[0]), meshes=meshes)
    return replace(stage, shardings=(*stage.shardings, apart))
