"""Embedding: an einsum of a one-hot with the table, except that looking up costs by what is written.

Split by rows (`vocab`) each device looks up the tokens it has and writes zeros for the others: a partial
sum, as the einsum rule says, but every device writes all of it, so that none has less to do.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import Layer
from explorer.sharding.derive import RULES, Signature, einsum
from explorer.sharding.states import PARTIAL, Axis


@RULES.add("embedding", title="by rows with a partial output, by columns, or by position")
def embedding(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Signature of a table lookup."""
    signature = einsum(layer, dims, axis)
    if signature is not None and PARTIAL in signature.writes:
        return replace(signature, work=1.0)
    return signature
