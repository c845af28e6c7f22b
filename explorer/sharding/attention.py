"""Attention: every head is independent, every query is; keys and values are needed whole.

Split by heads it is the einsum rule (Megatron; `kv_heads` go with the query heads they serve). Split by
sequence, each device has its own queries and needs all keys and values, whose gradients are partial sums:
context parallelism as in Llama 3 (all-gather of keys and values, reduce-scatter of their gradients), with
the volume of ring attention. The work is taken as equal (zigzag order where the mask is causal).
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import Layer
from explorer.sharding.derive import RULES, Signature, einsum
from explorer.sharding.states import BROADCAST, PARTIAL, Axis


@RULES.add("attention", title="by heads, or by query position with whole keys and values")
def attention(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Signature of a fused attention that reads (query, key, value), or all of them in one tensor."""
    if dims != ("seq",):
        return einsum(layer, dims, axis)
    signature = einsum(layer, dims, axis, special=True)
    if signature is None:
        return None
    queries = 1 if len(layer.reads) > 1 else 0  # a fused tensor holds keys and values: needed whole
    rest = len(layer.reads) - queries
    return replace(
        signature,
        reads=signature.reads[:queries] + (BROADCAST,) * rest,
        read_gradients=signature.read_gradients[:queries] + (PARTIAL,) * rest,
    )
