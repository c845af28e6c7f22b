"""Holders: the pieces that hold the same shard of a parameter, and therefore reduce its gradient together.

One rule serves data parallelism, copies, tied layers and expert groups; only the method of an exchange and
the update rule, which says what is exchanged and when, are chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from explorer.base.caching import STAGES_KEPT, Hashed, Same, remembered
from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy, Mesh, Sharding, Stage, Sync, UpdateChoice, covering
from explorer.tasks.sections import LayerRun, splits
from explorer.tasks.skeleton import Holders, Piece, SectionShape
from explorer.updates import PLAIN, chosen, rule_of


class PlacedSection(NamedTuple):
    """A section with all that decides which parameters it holds."""

    number: int
    """Position among all sections."""
    stage: Stage
    """Its stage."""
    run: LayerRun
    """Its layers."""
    shape: SectionShape
    """Its pieces."""


class ExchangeChoice(NamedTuple):
    """What a strategy chooses for the exchange of parameters."""

    sync: tuple[Sync, ...]
    """`JobStrategy.sync`."""
    updates: tuple[UpdateChoice, ...]
    """`JobStrategy.updates`."""

    @property
    def tells_apart(self) -> bool:
        """Whether parameters are exchanged in different ways: what covers the first is not for all."""
        first = [found[0].parameters for found in (self.sync, self.updates) if found]
        return any("*" not in parameters for parameters in first)


Grouped = tuple[tuple[Holders, tuple[int, ...]], ...]
"""Groups with the parameters that each exchanges."""


def join_groups(
    own: Iterable[Grouped], shared: Grouped
) -> tuple[tuple[Holders, ...], tuple[tuple[int, ...], ...]]:
    """Return the groups of all sections in order, and for each the parameters it reduces.

    Args:
        own: per section, ascending, the groups of `own_groups`.
        shared: those of `shared_groups`.
    """
    pairs = [pair for found in own for pair in found]
    for group, parameters in shared:
        at = next((k for k, (known, _) in enumerate(pairs) if known == group), len(pairs))
        before = pairs[at][1] if at < len(pairs) else ()
        pairs[at : at + 1] = [(group, (*before, *parameters))]
    if shared:
        pairs.sort(key=lambda pair: pair[0])
    return tuple([group for group, _ in pairs]), tuple([held for _, held in pairs])


def own_groups(
    graph: LayerGraph, choice: ExchangeChoice, section: PlacedSection, cut: tuple[int, ...]
) -> Grouped:
    """Return the groups of parameters that only this section holds, in order.

    Args:
        graph: the model.
        choice: how parameters are exchanged.
        section: the section.
        cut: parameters of layers that are cut into slices, of which other sections hold parts.
    """
    own, members = _own_parameters(graph), section.run.members
    if section.stage.slices:
        own = tuple(tuple(p for p in found if p not in cut) for found in own)
    special = choice.tells_apart
    if len(section.shape.rows) * section.shape.replicas == 1 and not (special or choice.sync):
        return ()
    if not section.stage.shardings and not special:
        first = next((layer for layer, _ in members if own[layer]), None)
        if first is None:
            return ()
        held = tuple(p for layer, _ in members for p in own[layer])
        found = _groups(graph, choice, (section,), first, own[first][0])
        return tuple((group, held) for group in sorted(found))
    grouped: dict[Holders, list[int]] = {}
    known: dict[object, tuple[Holders, ...]] = {}
    for layer, _ in members:
        sharding = section.stage.sharding_of(graph.layers[layer].name) if own[layer] else None
        for p in own[layer]:
            # without a choice for single parameters, those split over the same axes are held alike
            alike = p if special or section.stage.slices else _split_over(graph, sharding, layer, p)
            if alike not in known:
                known[alike] = _groups(graph, choice, (section,), layer, p)
            for group in known[alike]:
                grouped.setdefault(group, []).append(p)
    return tuple((group, tuple(grouped[group])) for group in sorted(grouped))


def shared_groups(graph: LayerGraph, strategy: JobStrategy, sections: Sequence[PlacedSection]) -> Grouped:
    """Return the groups of the parameters that several layers, or slices of one, hold."""
    shared = {**shared_parameters(graph), **cut_parameters(graph, strategy)}
    sections_of: dict[int, list[int]] = {}
    everywhere = frozenset(layer for layers in shared.values() for layer in layers)
    for section in sections if shared else ():
        for layer in everywhere.intersection(section.run.layers.tolist()):
            sections_of.setdefault(layer, []).append(section.number)
    found: dict[Holders, tuple[int, ...]] = {}
    for p, layers in shared.items():
        numbers = sorted({i for layer in layers for i in sections_of.get(layer, ())})
        holding = Same(sections[i] for i in numbers)
        for group in _groups_over(graph, strategy.sync, strategy.updates, holding, layers[0], p):
            found[group] = (*found.get(group, ()), p)
    return tuple(found.items())


@remembered(STAGES_KEPT)
def _groups_over(
    graph: LayerGraph,
    sync: tuple[Sync, ...],
    updates: tuple[UpdateChoice, ...],
    sections: Same[PlacedSection],
    layer: int,
    parameter: int,
) -> tuple[Holders, ...]:
    return _groups(graph, ExchangeChoice(sync, updates), sections, layer, parameter)


def _groups(
    graph: LayerGraph, choice: ExchangeChoice, sections: Sequence[PlacedSection], layer: int, parameter: int
) -> tuple[Holders, ...]:
    """Return the groups of pieces that hold equal shards of a parameter, without groups of one device row."""
    name = graph.parameters[parameter].name
    sync, chose = covering(choice.sync, name), covering(choice.updates, name)
    method, servers = (sync.method, sync.servers) if sync else ("all_reduce", ())
    update = chosen(chose.rule, chose.options) if chose else PLAIN
    buckets = 1 + choice.sync.index(sync) if sync and sync.bucket_bytes else 0
    by_shard: dict[object, list[Piece]] = {}
    for number, stage, _, shape in sections:
        cut = _range(graph, stage, name) if stage.slices else ()
        sharding = stage.sharding_of(graph.layers[layer].name) if stage.shardings else None
        for copy, rows in enumerate(shape.rows):
            if sharding is None or not sharding.meshes:  # every row holds the same shard
                every = map(Piece, repeat(number), repeat(copy), range(len(rows)))
                by_shard.setdefault(((), cut), []).extend(every)
                continue
            for replica in range(len(rows)):
                shard = _shard(graph, sharding, copy, rows[replica], layer, parameter)
                by_shard.setdefault((shard, cut), []).append(Piece(number, copy, replica))
    shapes = {section.number: section.shape for section in sections}
    found = []
    for pieces in by_shard.values():
        held = (shapes[piece.section].rows[piece.copy][piece.replica] for piece in pieces)
        first = next(held)
        if method != "all_reduce" or any(row != first for row in held):
            found += _partners(Holders(Hashed(pieces), method, servers, update, buckets))
    return tuple(map(_interned, found))


@lru_cache(maxsize=8192)
def _interned(group: Holders) -> Holders:
    """Return the same object for equal groups, so that they are told apart by identity."""
    return group


def _partners(group: Holders) -> list[Holders]:
    """Return the group itself, or the subgroups that exchange in turn if its rule says so."""
    partners = rule_of(group.update).partners
    if partners is None:
        return [group]
    rounds = partners(len(group.pieces))
    return [
        group._replace(pieces=Hashed(group.pieces[i] for i in members), turn=(k, len(rounds)))
        for k, groups in enumerate(rounds)
        for members in groups
    ]


def _shard(
    graph: LayerGraph, sharding: Sharding, copy: int, row: tuple[int, ...], layer: int, parameter: int
) -> tuple[int, ...]:
    """Return which shard a device row holds: its coordinates on the axes of another mesh that split it."""
    mesh = sharding.meshes[copy]
    if row[0] not in mesh.devices:
        return ()
    _, axes = _split_over(graph, sharding, layer, parameter)
    coordinates = mesh.coordinates(mesh.devices.index(row[0]))
    return tuple(coordinates.get(axis, 0) for axis in axes)


def _split_over(
    graph: LayerGraph, sharding: Sharding | None, layer: int, parameter: int
) -> tuple[tuple[Mesh, ...], tuple[str, ...]]:
    """Return the meshes of its own that a parameter has, and their axes that split it; () for the stage's."""
    if sharding is None or not sharding.meshes:
        return (), ()
    name = graph.parameters[parameter].name
    dims = {dim for use in graph.layers[layer].parameters if use.name == name for dim in use.dims}
    return sharding.meshes, tuple([axis for dim, axis in sharding.layout if dim in dims])


def _range(graph: LayerGraph, stage: Stage, parameter: str) -> tuple[tuple[float, float], ...]:
    """Return the parts of a parameter that a stage with slices of its layers holds; () for all of it."""
    return tuple(
        (part.start, part.stop)
        for part in stage.slices
        if any(use.name == parameter for use in graph.layer[part.layer].parameters)
        and splits(graph, part, parameter)
    )


def cut_parameters(graph: LayerGraph, strategy: JobStrategy) -> dict[int, tuple[int, ...]]:
    """Return the trainable parameters of layers cut into slices, each held by one layer: parameter ->
    layer.
    """
    cut = {graph.index[part.layer] for stage in strategy.stages for part in stage.slices}
    own = _own_parameters(graph) if cut else ()
    return {p: (layer,) for layer in sorted(cut) for p in own[layer]}


def shared_parameters(graph: LayerGraph) -> dict[int, tuple[int, ...]]:
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
        shared = shared_parameters(graph)
        return tuple(
            tuple(
                p
                for p in dict.fromkeys(position[use.name] for use in layer.parameters)
                if graph.parameters[p].trainable and p not in shared
            )
            for layer in graph.layers
        )

    return graph.memo("own_parameters", make)
