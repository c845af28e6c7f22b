"""Attention: heads and queries are independent, while keys and values are needed whole.

A split by heads follows the einsum rule (Megatron; `kv_heads` go with the query heads they serve). In a split
by sequence, each device has its own queries and needs all keys and values, in one of two ways:

    gather   keys and values are all-gathered, their gradients reduce-scattered (Llama 3)
    ring     each device passes its block of them on to the next, n - 1 times forward, while it works on
             the block it has; backward the blocks go round once more, and with them their gradients, which
             need an n-th pass to come home (Liu, Zaharia, Abbeel: Ring Attention, 2023)

Over n devices with S bytes of keys and values a device sends (n-1)/n S forward and (2n-1)/n S backward in a
ring, (n-1)/n S forward and 2 (n-1)/n S backward with gathers (once more before the backward). A ring holds
two blocks of S/n at a time where a gather holds all of S. Queries that stand in one tensor with them stay
where they are. The work is assumed equal (zigzag order where the mask is causal).
"""

from __future__ import annotations

import math
from dataclasses import replace

from explorer.graph import COMPUTE, Layer, Use
from explorer.sharding.derive import RING, RULES, Inner, Signature, einsum, sizes_of
from explorer.sharding.states import BROADCAST, PARTIAL, Axis, State

_ALONG = ("kv_seq", "seq")
"""Names of the position axis of keys and values."""
_FUSED = 2 / 3
"""Share of keys and values in one tensor with the queries."""


@RULES.add("attention", title="by heads, or by query position with whole keys and values or a ring of them")
def attention(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of a fused attention that reads (query, key, value), or one tensor of all."""
    if dims not in (("seq",), ("seq", RING)):
        return einsum(layer, dims, axis)
    signature = einsum(layer, ("seq",), axis, special=True)
    if signature is None:
        return None
    queries = 1 if len(layer.reads) > 1 else 0  # a fused tensor holds keys and values, too
    if RING in dims:
        return _ring(layer, signature, queries)
    if not queries and _place(layer.reads[0]) != BROADCAST:
        return _gathered_parts(layer, signature)
    rest = len(layer.reads) - queries
    return replace(
        signature,
        reads=signature.reads[:queries] + (BROADCAST,) * rest,
        read_gradients=signature.read_gradients[:queries] + (PARTIAL,) * rest,
    )


def _ring(layer: Layer, signature: Signature, queries: int) -> Signature | None:
    """Make keys and values stay split by position; blocks of them are passed on inside the layer."""
    passed = layer.reads[queries:]
    places = tuple(_place(use) for use in passed)
    if BROADCAST in places:
        return None
    elements = [_elements(layer, use) for use in passed]
    factor = sum(elements) / elements[0] if queries else _FUSED
    block = Inner(op="ring", tensor=queries, factor=factor, dtype=COMPUTE)
    return replace(
        signature,
        reads=signature.reads[:queries] + places,
        read_gradients=signature.read_gradients[:queries] + places,
        forward=(block,),
        backward=(replace(block, op="ring_gradient"),),
    )


def _gathered_parts(layer: Layer, signature: Signature) -> Signature:
    """Keep a fused tensor split by position, queries and all; of it keys and values are gathered inside."""
    place = (_place(layer.reads[0]),)
    gather = Inner(op="all_gather", tensor=0, factor=_FUSED, dtype=COMPUTE)
    return replace(
        signature,
        reads=place,
        read_gradients=place,
        forward=(gather,),
        backward=(replace(gather, op="reduce_scatter"),),
        again=(gather,),
    )


def _place(use: Use) -> State:
    """Return the axis along which the positions run."""
    return next((use.dims.index(dim) for dim in _ALONG if dim in use.dims), BROADCAST)


def _elements(layer: Layer, use: Use) -> float:
    sizes = sizes_of(layer)
    return math.prod(sizes.get(dim, 1.0) for dim in use.dims)
