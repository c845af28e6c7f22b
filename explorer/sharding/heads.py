"""Numbers of attention heads of a model, and whether the devices of mesh axes can share them."""

from __future__ import annotations

from explorer.graph import LayerGraph
from explorer.sharding.states import runs

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


def head_pairs(graph: LayerGraph) -> list[tuple[int, int]]:
    """Return the (query heads, key-value heads) of the layers of a model that have both."""

    def make() -> list[tuple[int, int]]:
        sizes = ({dim.name: int(dim.size) for dim in layer.dims} for layer in graph.layers)
        return sorted({(item["heads"], item["kv_heads"]) for item in sizes if item.keys() >= set(HEADS)})

    return graph.memo("head_pairs", make)


def parts_heads(heads: int, kv_heads: int, n: int, shares: tuple[float, ...] = ()) -> bool:
    """Return whether some of n devices of a mesh axis lacks the key-value head of one of its query heads.

    Groups of query heads that share a key-value head stay together where both numbers divide by n, or n by
    the key-value heads.

    >>> parts_heads(6, 3, 2), parts_heads(6, 2, 2), parts_heads(8, 2, 4)
    (True, False, False)
    """
    if heads % kv_heads:
        return True
    each = heads // kv_heads
    pairs = zip(runs(heads, n, shares), runs(kv_heads, n, shares), strict=True)
    return any(a < b and (a // each < low or (b - 1) // each >= high) for (a, b), (low, high) in pairs)
