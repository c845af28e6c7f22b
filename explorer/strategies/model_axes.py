"""Axes along which a model can be split besides replicas: tensor, context and expert parallelism."""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.sharding.heads import head_counts, head_pairs, held_once, parts_heads
from explorer.sharding.layouts import Layout, context_layout, expert_layout, megatron_layout
from explorer.strategy import REPLICA, Mesh, Sharding

TENSOR, CONTEXT, EXPERT = "tensor", "context", "expert"
"""Mesh axes besides the replicas."""
SPLITS: dict[str, Layout] = {TENSOR: megatron_layout(), CONTEXT: context_layout()}
"""Dimensions that an axis splits, as a layout; experts are found by the kind of their layers."""


def splittable(graph: LayerGraph) -> frozenset[str]:
    """Return the axes beside replicas that a model can be split along: `tensor`, `context`, `expert`."""

    def make() -> frozenset[str]:
        return frozenset(axis for axis in (TENSOR, CONTEXT, EXPERT) if _splits(graph, axis))

    return graph.memo("splittable_axes", make)


def _splits(graph: LayerGraph, axis: str) -> bool:
    if axis == EXPERT:
        return expert_count(graph) > 1
    dims = {dim for dim, _ in SPLITS[axis]}
    return any(dim.name in dims for layer in graph.layers for dim in layer.dims)


def expert_patterns(graph: LayerGraph) -> tuple[str, ...]:
    """Return patterns of the names of all layers of experts, and of no others."""

    def make() -> tuple[str, ...]:
        names = [layer.name for layer in graph.layers if layer.kind == "experts"]
        if not names:
            return ()
        patterns = tuple(dict.fromkeys(f"*.{name.rpartition('.')[2]}" for name in names))
        sharding = Sharding(layers=patterns)
        covered = [layer.name for layer in graph.layers if sharding.covers(layer.name)]
        return patterns if covered == names else tuple(names)

    return graph.memo("expert_patterns", make)


def expert_shardings(
    layers: tuple[str, ...], meshes: Sequence[Mesh], patterns: tuple[str, ...], devices: int
) -> tuple[Sharding, ...]:
    """Put the experts of a stage on a mesh of their own over all its devices (Megatron's folding).

    Args:
        layers: names of the stage's layers.
        meshes: meshes of its copies.
        patterns: patterns of the layers of experts.
        devices: devices that share the experts; 1 leaves them where the stage is.
    """
    if devices == 1:
        return ()
    spread = tuple(
        Mesh(devices=mesh.devices, axes=((REPLICA, len(mesh.devices) // devices), (EXPERT, devices)))
        for mesh in meshes
    )
    own = Sharding(layers=patterns, layout=expert_layout(), meshes=spread)
    return (own,) if any(own.covers(name) for name in layers) else ()


def expert_count(graph: LayerGraph) -> int:
    """Count the experts of the smallest mixture; 0 if there is none."""

    def make() -> int:
        sizes = [
            dim.size
            for layer in graph.layers
            if layer.kind == "experts"
            for dim in layer.dims
            if dim.name == "experts"
        ]
        return math.floor(min(sizes, default=0))

    return graph.memo("expert_count", make)


def check_axes(
    graph: LayerGraph, *, tensor: int, context: int, expert: int, devices: int, exchanged: bool = False
) -> None:
    """Check that a model has what is split, and that experts fit the devices of a stage.

    Args:
        graph: the model.
        tensor: devices that share each layer.
        context: devices that share the sequence of every sample.
        expert: devices that share the experts of every mixture.
        devices: devices of a stage.
        exchanged: whether context parallelism exchanges heads for positions, so that both axes split heads.

    Raises:
        InputError: a dimension or experts that the model lacks, or a degree that does not divide.
    """
    known = graph.memo("dimension_names", lambda: {dim.name for item in graph.layers for dim in item.dims})
    for axis, degree in ((TENSOR, tensor), (CONTEXT, context)):
        dims = [dim for dim, _ in SPLITS[axis]]
        if degree > 1 and not known.intersection(dims):
            raise InputError(
                f"model {graph.name!r} has no dimension that {axis} parallelism splits ({', '.join(dims)})",
                key=axis,
                found=degree,
                allowed="1",
            )
    if exchanged and min(tensor, context) > 1:
        _check_heads(graph, tensor, context)
    _check_together(graph, TENSOR, tensor)
    if exchanged and tensor == 1:
        _check_together(graph, CONTEXT, context)
    if expert > 1:
        _check_experts(graph, expert, devices)


def _check_heads(graph: LayerGraph, tensor: int, context: int) -> None:
    for dim, counts in head_counts(graph).items():
        for count in counts:
            if not held_once(dim, count, tensor * context):
                raise InputError(
                    f"{count} {dim!r} over tensor {tensor} x context {context}: heads that are exchanged for"
                    " positions are not held twice", key=CONTEXT, found=context,
                    allowed=f"tensor x context that divides {count}, or another exchange",
                )  # fmt: skip


def _check_together(graph: LayerGraph, axis: str, degree: int) -> None:
    for heads, kv_heads in head_pairs(graph) if degree > 1 else ():
        if parts_heads(heads, kv_heads, degree):
            raise InputError(
                f"{heads} heads with {kv_heads} key-value heads over {axis} {degree}: query heads would be"
                " parted from their key-value heads", key=axis, found=degree,
                allowed=f"a divisor of {kv_heads}, or a multiple of it that divides {heads}",
            )  # fmt: skip


def _check_experts(graph: LayerGraph, expert: int, devices: int) -> None:
    most = expert_count(graph)
    if not most:
        raise InputError(f"model {graph.name!r} has no experts", key=EXPERT, found=expert, allowed="1")
    if devices % expert or expert > most:
        raise InputError(
            f"{most} experts over {expert} of the {devices} devices of a stage",
            key=EXPERT,
            found=expert,
            allowed=f"a divisor of {devices}, at most {most}",
        )
