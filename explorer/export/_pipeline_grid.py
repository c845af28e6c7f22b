"""PipelineGrid: how the stages of a plan lie on the ranks of a trainer with one mesh for all stages."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.schedules import SCHEDULES
from explorer.strategy import JobStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGrid:
    """Arrangement of the stages of a plan among pipeline ranks."""

    stages: tuple[int, ...]
    """Pipeline rank of each stage."""
    pipeline: int
    """Number of pipeline ranks."""
    devices: tuple[int, ...]
    """Device of every rank, pipeline rank by pipeline rank."""


def grid_of(strategy: JobStrategy) -> PipelineGrid:
    """Arrange device groups as pipeline ranks, in the order in which stages first use them."""
    groups = list(dict.fromkeys(stage.meshes[0] for stage in strategy.stages))
    return PipelineGrid(
        stages=tuple(groups.index(stage.meshes[0]) for stage in strategy.stages),
        pipeline=len(groups),
        devices=tuple(device for mesh in groups for device in mesh.devices),
    )


def torch_schedule_name(strategy: JobStrategy, grid: PipelineGrid) -> str:
    """Return torch's name of the schedule if its class makes the same order, else an empty text."""
    schedule = SCHEDULES.get(strategy.schedule)
    if not schedule.torch_name or schedule.dispatch:
        return ""
    if schedule.read_options(dict(strategy.options)) != schedule.read_options({}):
        return ""
    placement = schedule.placement
    chunks, rest = divmod(len(grid.stages), grid.pipeline)
    if rest or (chunks > 1) != placement.several:
        return ""
    laid = placement.grid(grid.pipeline, chunks)
    same = grid.stages == tuple(placement.position(s, 0, laid) for s in range(len(grid.stages)))
    return schedule.torch_name if same else ""
