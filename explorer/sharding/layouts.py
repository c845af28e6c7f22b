"""Named-dimension layouts of known systems, and a check of any layout against a graph.

A layout is ((dimension, mesh axis), ...): every layer that has the dimension is split along it over that
axis, where that is legal; of several dimensions on one axis the first that a layer can use counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from explorer.graph import LayerGraph
from explorer.sharding.derive import RING
from explorer.strategy import REPLICA

Layout: TypeAlias = tuple[tuple[str, str], ...]

STANDARD_DIMS = frozenset({"seq", "embed", "heads", "kv_heads", "head", "ffn", "vocab", "experts"})
"""Dimension names that a layout may use with any model: published layouts cover dimensions it may lack."""


def megatron_layout(axis: str = "tensor", *, sequence_parallel: bool = False) -> Layout:
    """Return Megatron-LM's tensor-parallel layout; sequence parallelism also splits norms and additions.

    >>> megatron_layout()[:2]
    (('heads', 'tensor'), ('kv_heads', 'tensor'))
    """
    layout = tuple((dim, axis) for dim in ("heads", "kv_heads", "ffn", "vocab"))
    return (*layout, ("seq", axis)) if sequence_parallel else layout


def ulysses_layout(axis: str = "context") -> Layout:
    """Return DeepSpeed-Ulysses's layout: all by sequence, attention by heads, hence all-to-all around it."""
    return (("seq", axis), ("heads", axis), ("kv_heads", axis))


def context_layout(axis: str = "context", *, ring: bool = False) -> Layout:
    """Return a context-parallel layout: attention gathers keys and values, or passes them around a ring.

    >>> context_layout(ring=True)
    (('seq', 'context'), ('ring', 'context'))
    """
    return (("seq", axis), (RING, axis)) if ring else (("seq", axis),)


def expert_layout(axis: str = "expert") -> Layout:
    """Return a layout with experts on an axis, usually one carved out of the replicas by a `Sharding`."""
    return (("experts", axis),)


def table_layout(axis: str = "table", *, by: str = "rows") -> Layout:
    """Return a layout of embedding tables by rows or columns over an axis carved out of the replicas.

    >>> table_layout(by="columns")
    (('embed', 'table'),)
    """
    return ((_TABLES[by], axis),)


_TABLES = {"rows": "vocab", "columns": "embed"}


def layout_problems(
    graph: LayerGraph, layout: Sequence[tuple[str, str]], sizes: Mapping[str, int]
) -> list[str]:
    """List everything wrong with a layout, in words.

    Dimensions of the layouts above are always known, even if this model lacks them: a layout serves many
    models.

    Args:
        graph: the model.
        layout: (dimension, mesh axis) pairs.
        sizes: mesh axes with their sizes.
    """
    known = graph.memo("dimension_names", lambda: {dim.name for item in graph.layers for dim in item.dims})
    known = known | STANDARD_DIMS
    usual = {dim for dim, _ in (*megatron_layout(sequence_parallel=True), *expert_layout())}
    problems = []
    for dim, axis in layout:
        if axis == REPLICA:
            problems.append(f"{dim!r} is laid out over {REPLICA!r}, which splits samples only")
        elif axis not in sizes:
            names = ", ".join(name for name in sizes if name != REPLICA) or "none"
            problems.append(f"layout names mesh axis {axis!r}, but the mesh has {names}")
        if dim == RING and ("seq", axis) not in layout:
            problems.append(f"layout has a ring over {axis!r}, but no 'seq' over it that would go round")
        if dim not in known | usual | {RING}:
            problems.append(f"layout names dimension {dim!r}, which no layer of {graph.name!r} has")
    return problems
