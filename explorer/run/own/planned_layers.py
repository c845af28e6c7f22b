"""Planned layers: a module's own layers under the names of dimensions that the plan's graph has for them.

A capture names dimensions by what it sees (`channels`, `channels_2`); the plan's graph may call them
otherwise (`out_channels`, `in_channels`) and know more of a layer (that a mean is a sum, that a loss has
classes). A plan's layout speaks of the plan's names, so layers that it concerns take them over where each
dimension here is one there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from explorer.graph import Dim, Layer, LayerGraph, Use

Planned: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...], tuple[str, ...]]
"""(layer, its kind, (dimension here, dimension of the plan) pairs, dimensions that are not splittable)."""

_SUMS = ("pool", "loss")
"""Kinds that a capture knows as elementwise, since it sees only operators."""


def planned_layers(
    graph: LayerGraph, named: Mapping[str, str], plan: LayerGraph, layout: Collection[str]
) -> tuple[Planned, ...]:
    """Return what layers take over from the plan.

    Args:
        graph: the captured layers.
        named: plan's layer for each of them.
        plan: the plan's graph.
        layout: dimensions that the plan's layout names.
    """
    return tuple(
        found
        for layer in graph.layers
        if {dim.name for dim in plan.layer[named[layer.name]].dims} & set(layout)
        for found in _taken_over(layer, plan.layer[named[layer.name]])
    )


def _taken_over(layer: Layer, planned: Layer) -> Iterator[Planned]:
    fixed = tuple(dim.name for dim in planned.dims if not dim.splittable)
    summed = planned.kind in _SUMS and (planned.kind != "loss" or bool(fixed))
    names = _names(layer, planned) if planned.kind == layer.kind or summed else None
    if names is None:
        return
    made = (layer.name, planned.kind, tuple(names.items()), fixed)
    if _as_planned(layer, *made[1:]) != layer:
        yield made


def _names(layer: Layer, planned: Layer) -> dict[str, str] | None:
    """Map a layer's dimensions to the plan's; None where some have no equal."""
    if len(layer.reads) != len(planned.reads) or len(layer.parameters) != len(planned.parameters):
        return None
    there = {dim.name: dim.size for dim in planned.dims}
    found: dict[str, str] = {}
    pairs = [
        *zip(layer.reads, planned.reads, strict=True),
        *zip(layer.writes, planned.writes, strict=False),
        *zip(layer.parameters, planned.parameters, strict=True),
    ]
    for own, other in pairs:
        dims = _paired(own, other, there)
        if dims is None or any(found.setdefault(a, b) != b for a, b in dims):
            return None
        if len({found[dim] for dim in own.dims}) < len(own.dims):
            return None
    return found if found.keys() == {dim.name for dim in layer.dims} else None


def _paired(own: Use, other: Use, sizes: Mapping[str, float]) -> list[tuple[str, str]] | None:
    """Pair the axes of one tensor: those of one name, then the others in order, axes of size 1 left out."""
    if "" in own.dims or "" in other.dims:
        return None
    left = [dim for dim in own.dims if dim not in other.dims]
    right = [dim for dim in other.dims if dim not in own.dims]
    if len(left) != len(right):
        right = [dim for dim in right if sizes[dim] != 1]
    if len(left) != len(right):
        return None
    return [(dim, dim) for dim in own.dims if dim in other.dims] + list(zip(left, right, strict=True))


def as_planned(graph: LayerGraph, planned: Sequence[Planned]) -> LayerGraph:
    """Return captured layers with what they take over from the plan.

    Args:
        graph: the captured layers.
        planned: what `planned_layers` found.
    """
    known = {item[0]: item for item in planned}
    if not known:
        return graph
    return replace(
        graph,
        layers=tuple(_as_planned(x, *known[x.name][1:]) if x.name in known else x for x in graph.layers),
    )


def _as_planned(layer: Layer, kind: str, names: tuple[tuple[str, str], ...], fixed: tuple[str, ...]) -> Layer:
    there = dict(names)
    # a window has as many places as it writes
    written = {dim for use in layer.writes for dim in use.dims}
    sizes: dict[str, float] = {}
    for dim in sorted(layer.dims, key=lambda dim: dim.name in written):
        sizes[there[dim.name]] = dim.size
    order = dict.fromkeys(there[dim.name] for dim in layer.dims)
    return replace(
        layer, kind=kind, dims=tuple(Dim(name=n, size=sizes[n], splittable=n not in fixed) for n in order),
        reads=_renamed(layer.reads, there), writes=_renamed(layer.writes, there),
        parameters=_renamed(layer.parameters, there),
    )  # fmt: skip


def _renamed(uses: Sequence[Use], there: Mapping[str, str]) -> tuple[Use, ...]:
    return tuple(replace(use, dims=tuple(there[dim] for dim in use.dims)) for use in uses)
