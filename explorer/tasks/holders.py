"""Holders: the pieces that hold the same shard of a parameter, and therefore reduce its gradient together.

One rule serves data parallelism, copies, tied layers and expert groups; only the method of an exchange and
the update rule, which says what is exchanged and when, are chosen.
"""

from __future__ import annotations

from collections.abc import Iterable

from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy, Sharding, Stage
from explorer.tasks.sections import LayerRun, splits
from explorer.tasks.skeleton import Holders, Piece, SectionShape
from explorer.updates import PLAIN, chosen, rule_of


def find_holders(
    graph: LayerGraph, strategy: JobStrategy, runs: list[LayerRun], shapes: tuple[SectionShape, ...]
) -> tuple[tuple[Holders, ...], tuple[tuple[int, ...], ...]]:
    """Return the groups in order, and for each the parameters it reduces."""
    shared = {**_shared_parameters(graph), **_cut_parameters(graph, strategy)}
    shared_layers = frozenset(layer for layers in shared.values() for layer in layers)
    grouped: dict[Holders, list[int]] = {}
    sections_of: dict[int, list[int]] = {}
    for i, run in enumerate(runs):
        stage = strategy.stages[run.stage]
        for layer in shared_layers.intersection(run.layers.tolist()) if shared_layers else ():
            sections_of.setdefault(layer, []).append(i)
        for group, parameters in _section_groups(graph, strategy, runs, shapes, i, stage, shared):
            grouped.setdefault(group, []).extend(parameters)
    for p, layers in shared.items():
        sections = tuple(sorted({i for layer in layers for i in sections_of.get(layer, ())}))
        for group in _groups(graph, strategy, runs, shapes, sections, layers[0], p):
            grouped.setdefault(group, []).append(p)
    ordered = sorted(grouped)
    return tuple(ordered), tuple(tuple(grouped[group]) for group in ordered)


def _section_groups(
    graph: LayerGraph,
    strategy: JobStrategy,
    runs: list[LayerRun],
    shapes: tuple[SectionShape, ...],
    section: int,
    stage: Stage,
    elsewhere: dict[int, tuple[int, ...]],
) -> Iterable[tuple[Holders, list[int]]]:
    """Yield the groups of parameters that only this section holds; those `elsewhere` are grouped over
    sections.
    """
    own, members = _own_parameters(graph), runs[section].members
    if stage.slices:
        own = tuple(tuple(p for p in found if p not in elsewhere) for found in own)
    special = strategy.sync or (strategy.updates and "*" not in strategy.updates[0].parameters)
    if len(shapes[section].rows) * shapes[section].replicas == 1 and not special:
        return
    if not stage.shardings and not special:
        first = next((layer for layer, _ in members if own[layer]), None)
        if first is None:
            return
        for group in _groups(graph, strategy, runs, shapes, (section,), first, own[first][0]):
            yield group, [p for layer, _ in members for p in own[layer]]
        return
    for layer, _ in members:
        for p in own[layer]:
            for group in _groups(graph, strategy, runs, shapes, (section,), layer, p):
                yield group, [p]


def _groups(
    graph: LayerGraph,
    strategy: JobStrategy,
    runs: list[LayerRun],
    shapes: tuple[SectionShape, ...],
    sections: tuple[int, ...],
    layer: int,
    parameter: int,
) -> tuple[Holders, ...]:
    """Return the groups of pieces that hold equal shards of a parameter, without groups of one device row."""
    sync = strategy.sync_of(graph.parameters[parameter].name)
    method, servers = (sync.method, sync.servers) if sync else ("all_reduce", ())
    choice = strategy.update_of(graph.parameters[parameter].name) if strategy.updates else None
    update = chosen(choice.rule, choice.options) if choice else PLAIN
    buckets = 1 + strategy.sync.index(sync) if sync and sync.bucket_bytes else 0
    by_shard: dict[object, list[Piece]] = {}
    name = graph.parameters[parameter].name
    for i in sections:
        stage = strategy.stages[runs[i].stage]
        cut = _range(graph, stage, name) if stage.slices else ()
        sharding = stage.sharding_of(graph.layers[layer].name) if stage.shardings else None
        for copy, rows in enumerate(shapes[i].rows):
            for replica in range(len(rows)):
                shard = _shard(graph, sharding, copy, rows[replica], layer, parameter)
                by_shard.setdefault((shard, cut), []).append(Piece(i, copy, replica))
    found = []
    for pieces in by_shard.values():
        rows_held = {shapes[piece.section].rows[piece.copy][piece.replica] for piece in pieces}
        if len(rows_held) > 1 or method != "all_reduce":
            found += _partners(Holders(tuple(pieces), method, servers, update, buckets))
    return tuple(found)


def _partners(group: Holders) -> list[Holders]:
    """Return the group itself, or the subgroups that exchange in turn if its rule says so."""
    partners = rule_of(group.update).partners
    if partners is None:
        return [group]
    rounds = partners(len(group.pieces))
    return [
        group._replace(pieces=tuple(group.pieces[i] for i in members), turn=(k, len(rounds)))
        for k, groups in enumerate(rounds)
        for members in groups
    ]


def _shard(
    graph: LayerGraph, sharding: Sharding | None, copy: int, row: tuple[int, ...], layer: int, parameter: int
) -> tuple[int, ...]:
    """Return which shard a device row holds: its coordinates on the axes of another mesh that split it."""
    if sharding is None or not sharding.meshes:
        return ()
    mesh = sharding.meshes[copy]
    if row[0] not in mesh.devices:
        return ()
    name = graph.parameters[parameter].name
    dims = {dim for use in graph.layers[layer].parameters if use.name == name for dim in use.dims}
    axes = [axis for dim, axis in sharding.layout if dim in dims]
    coordinates = mesh.coordinates(mesh.devices.index(row[0]))
    return tuple(coordinates.get(axis, 0) for axis in axes)


def _range(graph: LayerGraph, stage: Stage, parameter: str) -> tuple[tuple[float, float], ...]:
    """Return the parts of a parameter that a stage with slices of its layers holds; () for all of it."""
    return tuple(
        (part.start, part.stop)
        for part in stage.slices
        if any(use.name == parameter for use in graph.layer[part.layer].parameters)
        and splits(graph, part, parameter)
    )


def _cut_parameters(graph: LayerGraph, strategy: JobStrategy) -> dict[int, tuple[int, ...]]:
    """Return the trainable parameters of layers cut into slices, each held by one layer: parameter ->
    layer.
    """
    cut = {graph.index[part.layer] for stage in strategy.stages for part in stage.slices}
    own = _own_parameters(graph) if cut else ()
    return {p: (layer,) for layer in sorted(cut) for p in own[layer]}


def _shared_parameters(graph: LayerGraph) -> dict[int, tuple[int, ...]]:
    """Return the trainable parameters that more than one layer uses: parameter -> layers."""

    def make() -> dict[int, tuple[int, ...]]:
        users: dict[int, list[int]] = {}
        position = {item.name: i for i, item in enumerate(graph.parameters)}
        for i, layer in enumerate(graph.layers):
            for use in layer.parameters:
                users.setdefault(position[use.name], []).append(i)
        return {
            p: tuple(dict.fromkeys(found))
            for p, found in users.items()
            if len(set(found)) > 1 and graph.parameters[p].trainable
        }

    return graph.memo("shared_parameters", make)


def _own_parameters(graph: LayerGraph) -> tuple[tuple[int, ...], ...]:
    """Return, per layer, its trainable parameters that no other layer uses."""

    def make() -> tuple[tuple[int, ...], ...]:
        position = {item.name: i for i, item in enumerate(graph.parameters)}
        shared = _shared_parameters(graph)
        return tuple(
            tuple(
                p
                for p in dict.fromkeys(position[use.name] for use in layer.parameters)
                if graph.parameters[p].trainable and p not in shared
            )
            for layer in graph.layers
        )

    return graph.memo("own_parameters", make)
