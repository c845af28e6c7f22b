"""Strategies of placements that need not be contiguous: every node on a device, stages as coarse as possible.

A device then has as many stages as its nodes make without a circle of stages, which a list schedule orders.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.planners._pieces.fleet import Fleet
from explorer.planners._pieces.plans import strategy_of
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.search.problem import Problem
from explorer.strategies.moves import DeviceGroup, stages_of
from explorer.strategy import Mesh, Stage, Strategy

SCHEDULE = "spp"
"""A list schedule, whatever stages branch, join and share devices."""


def strategy_of_placement(
    problem: Problem, work: WorkGraph, fleet: Fleet, device: Sequence[int], microbatch: int
) -> Strategy:
    """Return the strategy in which every node runs on its group of devices.

    Args:
        problem: the search problem.
        work: its nodes.
        fleet: the groups.
        device: per node, the number of its group.
        microbatch: samples of a microbatch.
    """
    number = {layer: device[v] for v, members in enumerate(work.members) for layer in members}
    template = Stage(layers=(problem.graph.layers[0].name,), meshes=(Mesh(devices=(0,)),))
    groups = [DeviceGroup(meshes=(Mesh(devices=own),), template=template) for own in fleet.order]
    stages = stages_of(problem.graph, [number[layer] for layer in range(len(problem.graph.layers))], groups)
    index = problem.graph.index
    placed = [
        (tuple(index[name] for name in stage.layers), fleet.order[number[index[stage.layers[0]]]])
        for stage in stages
    ]
    return strategy_of(problem, placed, microbatch, schedule=SCHEDULE)
