"""Numbers of attention heads of a model, and whether several mesh axes together can share them."""

from __future__ import annotations

from explorer.graph import LayerGraph

HEADS = ("heads", "kv_heads")
"""Dimensions of query heads and of key-value heads."""


def head_counts(graph: LayerGraph) -> dict[str, list[int]]:
    """Return the numbers of query heads and of key-value heads that layers of a model have."""
    return graph.memo(
        "head_counts",
        lambda: {
            name: sorted({int(d.size) for layer in graph.layers for d in layer.dims if d.name == name})
            for name in HEADS
        },
    )


def held_once(dim: str, count: int, parts: int) -> bool:
    """Return whether heads can be laid over several mesh axes of together so many devices.

    Over one axis a device may hold a key-value head that others hold too; over several none is held twice.

    >>> held_once("kv_heads", 8, 16), held_once("heads", 12, 8)
    (False, True)
    """
    return count >= parts and (dim != "kv_heads" or count % parts == 0)
