"""Layer choices: the shardings that one layer may have on a stage's devices, and a stage that has chosen."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.sharding.derive import ALIGNED
from explorer.sharding.layouts import Layout
from explorer.strategies.exceptions import mesh_over
from explorer.strategy import REPLICA, Sharding, Stage


class LayerChoice(NamedTuple):
    """How one layer is laid out on the devices of a replica."""

    layout: Layout = ()
    """(dimension, mesh axis) pairs; () is every device doing the same, or its own samples where `axes` says
    so."""
    axes: tuple[str, ...] | None = None
    """Mesh axes that the layer uses; along the others devices work on different samples (data parallelism of
    this layer). None is all of them."""


def layer_choices(graph: LayerGraph, stage: Stage, *, samples: bool = True) -> tuple[LayerChoice, ...]:
    """Return every way to split a layer along one dimension per mesh axis: SOAP of FlexFlow, per layer.

    Args:
        graph: the model; its dimensions are those that some layer may be split along.
        stage: the stage; its mesh has the axes.
        samples: whether an axis may be left to data parallelism.
    """
    names = dict.fromkeys(d.name for layer in graph.layers for d in layer.dims if d.splittable)
    together = tuple(name for name in names if name in ALIGNED)
    dims = [(), *((name,) for name in names if name not in ALIGNED), *([together] if together else [])]
    axes = tuple(name for name, size in stage.meshes[0].axes if name != REPLICA and size > 1)
    ways: list[tuple[str, ...] | None] = [*dims, *([None] if samples else [])]
    found = []
    for chosen in itertools.product(ways, repeat=len(axes)):
        split = [(axis, dims) for axis, dims in zip(axes, chosen, strict=True) if dims is not None]
        layout = tuple((dim, axis) for axis, dims in split for dim in dims)
        own = tuple(axis for axis, _ in split)
        found.append(LayerChoice(layout, None if own == axes else own))
    return tuple(found)


def with_choices(
    graph: LayerGraph, stage: Stage, choices: Sequence[LayerChoice], chosen: Sequence[int]
) -> Stage:
    """Return a stage whose layers have chosen: what `simulate` takes.

    Args:
        graph: the model.
        stage: a stage without exceptions.
        choices: the different choices.
        chosen: per layer of the graph the one that it has.

    Raises:
        InputError: the stage has exceptions already, or an axis is not one of its mesh.
    """
    if stage.shardings:
        raise InputError(
            "a stage with exceptions cannot take choices for its layers", key="shardings",
            found=len(stage.shardings), allowed="()",
        )  # fmt: skip
    own = frozenset(stage.all_layers)
    named: dict[int, list[str]] = {}
    for layer, number in zip(graph.layers, chosen, strict=True):
        if layer.name in own:
            named.setdefault(number, []).append(layer.name)
    shardings = tuple(
        Sharding(
            layers=tuple(names),
            layout=choices[number].layout,
            meshes=tuple(mesh_over(mesh, choices[number].axes or ()) for mesh in stage.meshes)
            if choices[number].axes is not None
            else (),
        )
        for number, names in named.items()
    )
    return replace(stage, shardings=shardings)
