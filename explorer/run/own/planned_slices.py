"""Planned slices: the parts of layers that a stage of a run holds, from those of the plan's stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy, Slice, Stage

DUST = 1e-9
"""Fractions that differ by less are the same: plans have rounded ones."""


def stage_members(
    graph: LayerGraph, named: Mapping[str, str], stages: Sequence[Stage]
) -> tuple[tuple[str, ...], tuple[Slice, ...]]:
    """Return the whole layers, and the slices of others, of a stage that stands for some stages of a plan.

    Parts of a layer that it holds one after the other are one slice; all of them are the whole layer.

    Args:
        graph: the layers that run.
        named: plan's layer for each of them.
        stages: the plan's stages for which it stands.

    Raises:
        InputError: parts of a layer with others between them.
    """
    whole = {name for stage in stages for name in stage.layers}
    parts: dict[str, list[Slice]] = {}
    for part in (part for stage in stages for part in stage.slices):
        parts.setdefault(part.layer, []).append(part)
    layers: list[str] = []
    slices: list[Slice] = []
    for item in graph.layers:
        name = named[item.name]
        own = [_joined(item.name, parts[name])] if name in parts else []
        if name in whole or any(part.start <= DUST and part.stop >= 1 - DUST for part in own):
            layers.append(item.name)
        else:
            slices += own
    return tuple(layers), tuple(slices)


def _joined(layer: str, parts: Sequence[Slice]) -> Slice:
    """Return parts of a layer as one.

    Raises:
        InputError: parts with others between them.
    """
    ordered = sorted(parts, key=lambda part: part.start)
    for before, after in pairwise(ordered):
        if abs(before.stop - after.start) > DUST:
            raise InputError(
                f"one rank has parts of layer {layer!r} up to {before.stop:g} and from {after.start:g} on",
                key="slices", found=layer, allowed="neighbouring parts, more ranks, or --engine likeness",
            )  # fmt: skip
    return Slice(layer=layer, dim=parts[0].dim, start=ordered[0].start, stop=ordered[-1].stop)


def cut_dims(strategy: JobStrategy) -> set[str]:
    """Return the dimensions along which a strategy cuts layers over stages."""
    return {part.dim for stage in strategy.stages for part in stage.slices}


def require_known(graph: LayerGraph, slices: Sequence[Slice]) -> None:
    """Refuse to cut a module's layer along a dimension that only the plan's graph knows.

    Raises:
        InputError: such a dimension.
    """
    for part in slices:
        own = [dim.name for dim in graph.layer[part.layer].dims if dim.splittable]
        if part.dim not in own:
            raise InputError(
                f"layer {part.layer!r} of the module has no dimension {part.dim!r} to cut", key="slices",
                found=part.dim, allowed=f"{', '.join(own) or 'none'}, or --engine likeness",
            )  # fmt: skip
