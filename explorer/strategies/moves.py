"""Edits of a strategy as people and searchers make them: any layer to any device group, always legal.

A *group* is what a board lane shows: the meshes that a stage runs on, with everything else chosen for it.
From layer -> group the stages are derived as the coarsest acyclic pieces: a layer joins the newest piece
of its group unless that would make a circle of pieces, which opens a new one (a broken run).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.strategies.exceptions import carried
from explorer.strategy import JobStrategy, Mesh, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """A device group that layers can be put on."""

    meshes: tuple[Mesh, ...]
    """Its devices, per copy."""
    template: Stage
    """A stage on it: microbatch size, layout, memory choices; its layers do not matter."""


def groups_of(strategy: JobStrategy) -> tuple[DeviceGroup, ...]:
    """Distinct device groups of a strategy, by first stage."""
    found: dict[tuple[Mesh, ...], DeviceGroup] = {}
    for stage in strategy.stages:
        found.setdefault(stage.meshes, DeviceGroup(meshes=stage.meshes, template=stage))
    return tuple(found.values())


def assignment_of(graph: LayerGraph, strategy: JobStrategy, groups: Sequence[DeviceGroup]) -> list[int]:
    """Group of every layer, in model order.

    Raises:
        InputError: the strategy slices layers, or uses a group that is not listed.
    """
    number = {group.meshes: i for i, group in enumerate(groups)}
    found = [-1] * len(graph.layers)
    for stage in strategy.stages:
        if stage.slices:
            raise InputError("a strategy with sliced layers cannot be edited layer by layer", key="slices")
        for name in stage.layers:
            found[graph.index[name]] = number[stage.meshes]
    return found


def stages_of(
    graph: LayerGraph, assignment: Sequence[int], groups: Sequence[DeviceGroup]
) -> tuple[Stage, ...]:
    """Stages for a placement of every layer: the coarsest acyclic pieces, in topological order.

    Raises:
        InputError: not one group per layer.
    """
    if len(assignment) != len(graph.layers) or not all(0 <= g < len(groups) for g in assignment):
        raise InputError(
            f"{len(assignment)} placements for {len(graph.layers)} layers",
            key="assignment",
            found=len(assignment),
            allowed=f"one group from 0 to {len(groups) - 1} per layer",
        )
    piece = _pieces(graph, assignment)
    quotient: nx.DiGraph[tuple[int, int]] = nx.DiGraph()
    members: dict[tuple[int, int], list[int]] = {}
    for layer, key in enumerate(piece):
        members.setdefault(key, []).append(layer)
    quotient.add_nodes_from(members)
    for before, after in _layer_edges(graph):
        if piece[before] != piece[after]:
            quotient.add_edge(piece[before], piece[after])
    order = nx.lexicographical_topological_sort(quotient, key=lambda key: members[key][0])
    return tuple(
        replace(
            groups[group].template,
            name="",
            layers=tuple(graph.layers[i].name for i in members[group, number]),
        )
        for group, number in order
    )


def _layer_edges(graph: LayerGraph) -> list[tuple[int, int]]:
    index = graph.index
    return graph.memo("layer_edges", lambda: [(index[a], index[b]) for a, b in graph.digraph.edges])


def _pieces(graph: LayerGraph, assignment: Sequence[int]) -> list[tuple[int, int]]:
    """(group, number of its piece) of every layer."""
    before: list[list[int]] = [[] for _ in graph.layers]
    for source, target in _layer_edges(graph):
        before[target].append(source)
    pieces: nx.DiGraph[tuple[int, int]] = nx.DiGraph()
    newest: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for layer, group in enumerate(assignment):
        sources = {found[item] for item in before[layer]}
        key = (group, newest.setdefault(group, 0))
        others = sources - {key}
        if key in pieces and any(nx.has_path(pieces, key, other) for other in others):
            newest[group] += 1
            key = (group, newest[group])
        pieces.add_node(key)
        pieces.add_edges_from((other, key) for other in sources - {key})
        found.append(key)
    return found


def place_layers(
    graph: LayerGraph,
    strategy: JobStrategy,
    moves: Mapping[str, int],
    groups: Sequence[DeviceGroup] | None = None,
) -> JobStrategy:
    """Return the strategy with some layers on other groups (`moves`: layer -> group number).

    Raises:
        InputError: an unknown layer or group.
    """
    groups = groups or groups_of(strategy)
    assignment = assignment_of(graph, strategy, groups)
    for name, group in moves.items():
        if name not in graph.index or not 0 <= group < len(groups):
            raise InputError(
                f"cannot put layer {name!r} on group {group}",
                key="moves",
                found=name,
                allowed=f"a layer of {graph.name} and a group from 0 to {len(groups) - 1}",
            )
        assignment[graph.index[name]] = group
    # a stage that stays as it was stays the same object: what is known of it is known by its identity
    known = {(stage.meshes, stage.layers): stage for stage in strategy.stages}
    made = carried(graph, strategy, stages_of(graph, assignment, groups))
    kept = (known.get((stage.meshes, stage.layers), stage) for stage in made)
    return strategy.with_stages(old if old == new else new for old, new in zip(kept, made, strict=True))


def move_boundary(
    graph: LayerGraph, strategy: JobStrategy, before: int, after: int, units: int
) -> JobStrategy:
    """Give the first `units` blocks of stage `after` to stage `before` (negative: the other way).

    Raises:
        InputError: a stage would be left without layers.
    """
    stages = list(strategy.stages)
    giver, taker = (after, before) if units > 0 else (before, after)
    blocks = _blocks_of(graph, stages[giver].layers)
    count = abs(units)
    if count >= len(blocks):
        raise InputError(
            f"stage {giver} has {len(blocks)} blocks; it cannot give {count}",
            key="units",
            found=units,
            allowed=f"up to {len(blocks) - 1}",
        )
    moved = blocks[:count] if units > 0 else blocks[-count:]
    names = [name for block in moved for name in block]
    gone = set(names)
    rest = tuple(name for name in stages[giver].layers if name not in gone)
    taken = (*stages[taker].layers, *names) if units > 0 else (*names, *stages[taker].layers)
    stages[giver] = replace(stages[giver], layers=rest)
    stages[taker] = replace(stages[taker], layers=taken)
    return strategy.with_stages(carried(graph, strategy, stages))


def _blocks_of(graph: LayerGraph, layers: Iterable[str]) -> list[list[str]]:
    found: list[list[str]] = []
    last = None
    for name in layers:
        block = graph.layer[name].block or name
        if block != last:
            found.append([])
        found[-1].append(name)
        last = block
    return found
