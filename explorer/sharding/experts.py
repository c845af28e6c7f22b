"""Experts: each device holds some of them, and tokens travel there and back.

Over an axis that splits `experts`, every device starts with its own tokens (its samples where the axis is
carved out of the replicas, else its part of the sequence), sends each to the devices of its chosen experts
and gets the results back: two all-to-all of (tokens x active experts x width) forward and two backward
(GShard; Megatron Core). Or all tokens are gathered on all devices, and their sums scattered again: an
all-gather and a reduce-scatter each way. How many rows the busiest device has is `explorer.sharding.loads`'.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import COMPUTE, Layer, Use
from explorer.routing import ALL_GATHER
from explorer.sharding.derive import RULES, Inner, Signature, einsum, sizes_of
from explorer.sharding.states import BROADCAST, PARTIAL, SAMPLE, Axis, State


@RULES.add("experts", title="by expert with all-to-all, or inside each expert")
def experts(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of experts that read tokens and scores, and write tokens and what they keep."""
    signature = einsum(layer, dims, axis)
    if set(dims) & _mixed(layer):
        return None  # what goes in and comes out by the same name is mixed on the way
    if signature is None or "experts" not in dims or not layer.reads:
        return signature
    if not axis.carved and "seq" not in layer.reads[token_read(layer)].dims:
        return signature
    reads = tuple(_tokens(use, axis) for use in layer.reads)
    own = tuple("experts" in use.dims for use in layer.writes)
    writes = tuple(
        state if is_own else _tokens(use, axis)
        for use, state, is_own in zip(layer.writes, signature.writes, own, strict=True)
    )
    there, back = _exchanges(layer, axis)
    return replace(
        signature,
        reads=reads,
        writes=writes,
        read_gradients=tuple(PARTIAL if state == BROADCAST else state for state in reads),
        forward=(there, back),
        backward=(there, back),
    )


def _exchanges(layer: Layer, axis: Axis) -> tuple[Inner, Inner]:
    """Return how tokens go to their experts and back; the backward's gradients take the same ways."""
    tokens = token_read(layer)
    if layer.routing is not None and layer.routing.dispatch == ALL_GATHER:
        # The whole buffer: all tokens of all devices.
        gathered = float(axis.size) if axis.carved else 1.0
        there, back = (
            Inner(op=op, tensor=tokens, factor=gathered, dtype=COMPUTE)
            for op in ("all_gather", "reduce_scatter")
        )
        return there, back
    # The buffer of one device: all tokens of its own samples, or its part of the sequence.
    local = active_experts(layer) * (1.0 if axis.carved else 1.0 / axis.size)
    exchange = Inner(op="all_to_all", tensor=tokens, factor=local, dtype=COMPUTE)
    return exchange, exchange


def _mixed(layer: Layer) -> set[str]:
    """Return the dimensions that tokens, what is made of them and the weights have: not `experts`."""
    read = set(layer.reads[token_read(layer)].dims if layer.reads else ())
    written = set(layer.writes[0].dims)
    held = {dim for use in layer.parameters for dim in use.dims}
    return read & written & held


def token_read(layer: Layer) -> int:
    """Return which of its reads are a layer's tokens: those with the dimensions of what it writes, else the
    first. A captured module may read the chosen experts before them.
    """
    return next((k for k, use in enumerate(layer.reads) if use.dims == layer.writes[0].dims), 0)


def active_experts(layer: Layer) -> float:
    """Return experts per token, from the work: FLOPs / (2 x tokens x one expert's weights); 1 if unknown."""
    sizes = sizes_of(layer)
    weights = 0.0
    for use in layer.parameters:
        if "experts" in use.dims:
            elements = 1.0
            for dim in use.dims:
                elements *= sizes.get(dim, 1.0) if dim != "experts" else 1.0
            weights += elements
    products = 2 * sizes.get("seq", 1.0) * weights
    return layer.forward.flops / products if products and layer.forward.flops else 1.0


def _tokens(use: Use, axis: Axis) -> State:
    if axis.carved:
        return SAMPLE
    return use.dims.index("seq") if "seq" in use.dims else BROADCAST
