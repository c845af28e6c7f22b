"""A strategy placed on its graph, in indices: the step between names and tasks."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from explorer.base.caching import STAGES_KEPT, Same, remembered, remembered_each
from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy, Stage, Sync, UpdateChoice
from explorer.tasks.flows import find_flows, layer_edges
from explorer.tasks.holders import (
    ExchangeChoice,
    Grouped,
    PlacedSection,
    cut_parameters,
    join_groups,
    own_groups,
    shared_groups,
)
from explorer.tasks.sections import shape_of, stage_layers, stage_runs
from explorer.tasks.skeleton import (
    Flow,
    Holders,
    IntArray,
    Piece,
    PlacedStrategy,
    SectionShape,
    Skeleton,
    split_offsets,
)

__all__ = [
    "Flow",
    "Holders",
    "IntArray",
    "Piece",
    "PlacedStrategy",
    "SectionShape",
    "Skeleton",
    "layer_edges",
    "place",
    "split_offsets",
    "stage_layers",
]


def place(graph: LayerGraph, strategy: JobStrategy, *, training: bool = True) -> PlacedStrategy:
    """Resolve a checked strategy against its graph (see `explorer.simulation.check` for what is checked).

    What a stage says alone is kept by the stage, and equal structures give the same skeleton: after a change
    only the stages that changed are placed again.
    """
    stages = strategy.stages
    cut = cut_parameters(graph, strategy)
    placed = _place_stage(
        stages, _places(graph, stages), graph, strategy.sync, strategy.updates, tuple(cut), training=training
    )
    sections = [section for part in placed for section in part.sections]
    runs, shapes = [section.run for section in sections], Same([section.shape for section in sections])
    sliced = any(stage.slices for stage in stages)
    crossing = find_flows(graph, strategy, runs, shapes, sliced=sliced, training=training)
    shared = shared_groups(graph, strategy, sections) if training else ()
    holders, held = join_groups([part.groups for part in placed], shared)
    updates = tuple([training and run.trains for run in runs])
    return PlacedStrategy(
        skeleton=_skeleton(shapes, Same((crossing.flows,)), Same(holders), updates),
        layers=tuple([run.layers for run in runs]),
        fractions=tuple([run.fractions for run in runs]),
        flow_tensors=crossing.tensors,
        flow_ranges=crossing.ranges,
        held=held,
        whole=tuple([run.whole for run in runs]),
    )


class _PlacedStage(NamedTuple):
    """What a stage says alone."""

    sections: tuple[PlacedSection, ...]
    groups: Grouped
    """Groups of parameters that only one of its sections holds."""


def _places(graph: LayerGraph, stages: tuple[Stage, ...]) -> list[tuple[int, int]]:
    """Return per stage its number, and that of its first section."""
    if not any(stage.shardings for stage in stages):
        return [(s, s) for s in range(len(stages))]
    counts = [len(stage_runs(graph, s, stage)) for s, stage in enumerate(stages)]
    return [(s, first) for s, first in enumerate(accumulate(counts[:-1], initial=0))]


@remembered_each(STAGES_KEPT)
def _place_stage(
    stage: Stage,
    place: tuple[int, int],
    graph: LayerGraph,
    sync: tuple[Sync, ...],
    updates: tuple[UpdateChoice, ...],
    cut: tuple[int, ...],
    *,
    training: bool,
) -> _PlacedStage:
    s, first = place
    runs = stage_runs(graph, s, stage)
    sections = tuple(
        PlacedSection(number, stage, run, shape_of(run, stage, training=training))
        for number, run in enumerate(runs, first)
    )
    choice = ExchangeChoice(sync, updates)
    found = [own_groups(graph, choice, section, cut) for section in sections] if training else []
    return _PlacedStage(sections, tuple(pair for groups in found for pair in groups))


@remembered(1024)
def _skeleton(
    sections: Same[SectionShape],
    flows: Same[tuple[Flow, ...]],
    holders: Same[Holders],
    updates: tuple[bool, ...],
) -> Skeleton:
    return Skeleton(sections=tuple(sections), flows=flows[0], holders=tuple(holders), updates=updates)
