"""Matrix products of a layer: which of its dimensions are rows, columns, depth and batch.

    C[batch, rows, columns] = sum over depth of A[batch, rows, depth] B[batch, depth, columns]

where A is the first tensor a layer reads and B its first parameter, or the second tensor it reads. A
dimension in A, B and C is batch, one in A and C rows, one in B and C columns, and one that C lacks is depth
(Mesh-TensorFlow, section 3, calls it an einsum). A convolution is a product of its unfolded input.

Sizes are for one sample; samples multiply the rows (also those of experts: tokens are dealt out evenly).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from explorer.graph import Layer, LayerGraph

PRODUCTS = frozenset(
    {
        "linear", "matmul", "einsum", "scores", "context", "router", "experts", "conv", "recurrent",
        "attention",
    }
)  # fmt: skip
"""Kinds of layers whose work consists of matrix products."""

ROLES = ("batch", "rows", "columns", "depth")
_AGREES = 0.02  # of FLOPs: a layer that states others is no single product, and is priced by its FLOPs


class Contraction(NamedTuple):
    """The matrix products of a layer's forward, for one sample."""

    sizes: tuple[float, float, float, float]
    """Sizes of batch, rows, columns and depth."""
    roles: Mapping[str, int]
    """Position in `ROLES` of each dimension."""
    products: int = 1
    """Number of products of this size in the forward."""

    def shares(self, pieces: Iterable[tuple[str, float]]) -> tuple[float, float, float]:
        """Return the shares of batch, columns and depth if a device has these shares of some dimensions."""
        found = [1.0, 1.0, 1.0, 1.0]
        for dim, piece in pieces:
            if dim in self.roles:
                found[self.roles[dim]] *= piece
        return found[0], found[2], found[3]


def contractions(graph: LayerGraph) -> tuple[Contraction | None, ...]:
    """Return the products of each layer; None if it has none or they are unknown."""

    def make() -> tuple[Contraction | None, ...]:
        known: dict[tuple[object, ...], Contraction | None] = {}
        found = []
        for layer in graph.layers:
            key = (layer.kind, layer.dims, _dims(layer), layer.forward.flops, layer.documents)
            if key not in known:
                known[key] = contraction(layer)
            found.append(known[key])
        return tuple(found)

    return graph.memo("contractions", make)


def contraction(layer: Layer) -> Contraction | None:
    """Return the products of one layer.

    Returns:
        The products; None if the layer's kind is not in `PRODUCTS`, the layer does not say where its
        dimensions stand, or it states FLOPs other than those of the products (a source that knows only
        totals).
    """
    if layer.kind not in PRODUCTS:
        return None
    sizes = {dim.name: dim.size for dim in layer.dims}
    found = _KINDS.get(layer.kind, _product)(layer, sizes)
    if found is None:
        return None
    flops = 2 * found.products * math.prod(found.sizes)
    return found if abs(flops - layer.forward.flops) <= _AGREES * flops else None


def _dims(layer: Layer) -> tuple[tuple[str, ...], ...]:
    uses = (*layer.reads[:2], *layer.parameters, *layer.writes[:1])
    return tuple(use.dims for use in uses)


def _product(layer: Layer, sizes: Mapping[str, float]) -> Contraction | None:
    second = layer.parameters or layer.reads[1:]
    if not (layer.reads and second and layer.writes):
        return None
    left, right, out = layer.reads[0].dims, second[0].dims, layer.writes[0].dims
    if "kv_heads" in right and "heads" in left and "kv_heads" not in left:
        # each key and value head is read by the query heads that share it
        right = tuple("heads" if dim == "kv_heads" else dim for dim in right)
    if not (left and right and out):
        return None
    roles = {dim: _role(dim, left, right, out) for dim in (*left, *right, *out) if dim}
    if any(dim not in sizes for dim in roles):
        return None
    return Contraction(_sizes(roles, sizes), roles)


def _role(dim: str, left: Sequence[str], right: Sequence[str], out: Sequence[str]) -> int:
    if dim not in out:
        return 3
    if dim in left and dim in right:
        return 0
    return 2 if dim in right else 1


def _sizes(roles: Mapping[str, int], sizes: Mapping[str, float]) -> tuple[float, float, float, float]:
    found = [1.0, 1.0, 1.0, 1.0]
    for dim, role in roles.items():
        found[role] *= sizes[dim]
    return found[0], found[1], found[2], found[3]


def _experts(layer: Layer, sizes: Mapping[str, float]) -> Contraction | None:
    """Return every expert's gate, up and down: three products of equal work, a batch entry per expert."""
    if not {"experts", "ffn", "embed"} <= sizes.keys():
        return None
    one = 2 * sizes["experts"] * sizes["ffn"] * sizes["embed"]
    matrices = max(1, sum("ffn" in use.dims and "experts" in use.dims for use in layer.parameters))
    rows = layer.forward.flops / (matrices * one) if one else 0.0
    roles = {"experts": 0, "seq": 1, "ffn": 2, "embed": 3}
    return Contraction((sizes["experts"], rows, sizes["ffn"], sizes["embed"]), roles, matrices)


def _recurrent(layer: Layer, sizes: Mapping[str, float]) -> Contraction | None:
    """Return one step: what was fed back, a row for each sample, times the weights of all gates.

    A projection in the step counts as more columns of the same product: its work is as much.
    """
    if not {"gates", "hidden", "state"} <= sizes.keys():
        return None
    columns = layer.forward.flops / (2 * sizes["state"])
    return Contraction((1.0, 1.0, columns, sizes["state"]), {"gates": 2, "hidden": 2, "state": 3})


def _attention(layer: Layer, sizes: Mapping[str, float]) -> Contraction | None:
    """Return the two products of a fused attention as two of one size: queries are rows, keys the depth,
    heads the batch, and the mean size of a head's keys and values the columns. Documents that share a sample
    are as many more entries of the batch. A ring has a share of the keys at a time.
    """
    if not layer.reads or "heads" not in sizes or "seq" not in sizes:
        return None
    heads, queries, keys = sizes["heads"], sizes["seq"], sizes.get("kv_seq", sizes["seq"])
    if layer.documents:
        keys = mean_document(layer.documents)
        heads, queries = heads * queries / keys, keys
    both = layer.forward.flops / (4 * heads * queries * keys)
    return Contraction((heads, queries, both, keys), {"heads": 0, "seq": 1, "ring": 3}, 2)


def mean_document(lengths: Sequence[int]) -> float:
    """Return the length of equal documents that together have as many pairs of tokens, and as many tokens.

    >>> mean_document([1024, 3072])
    2560.0
    """
    return sum(length**2 for length in lengths) / sum(lengths)


_KINDS = {"experts": _experts, "recurrent": _recurrent, "attention": _attention}
