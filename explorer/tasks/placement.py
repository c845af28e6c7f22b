"""A strategy placed on its graph, in indices: the step between names and tasks."""

from __future__ import annotations

from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy
from explorer.tasks.flows import find_flows, layer_edges
from explorer.tasks.holders import find_holders
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
    """Resolve a checked strategy against its graph (see `explorer.simulation.check` for what is checked)."""
    stages = strategy.stages
    runs = [run for s, stage in enumerate(stages) for run in stage_runs(graph, s, stage)]
    shapes = tuple(shape_of(run, stages[run.stage], training=training) for run in runs)
    sliced = any(stage.slices for stage in stages)
    flows, tensors = find_flows(graph, strategy, runs, shapes, sliced=sliced, training=training)
    holders, held = find_holders(graph, strategy, runs, shapes) if training else ((), ())
    updates = tuple(training and run.trains for run in runs)
    skeleton = Skeleton(sections=shapes, flows=flows, holders=holders, updates=updates)
    return PlacedStrategy(
        skeleton=skeleton,
        layers=tuple(run.layers for run in runs),
        fractions=tuple(run.fractions for run in runs),
        flow_tensors=tensors,
        held=held,
        whole=tuple(run.whole for run in runs),
    )
