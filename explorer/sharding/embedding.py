"""Embedding: an einsum of a one-hot with the table, except that a lookup costs what it writes.

Split by rows (`vocab`) inside a replica each device looks up the tokens it has and writes zeros for the
others: a partial sum, as the einsum rule says, but every device writes all of it, so none has less to do.
Split by rows over an axis carved out of the replicas, every device has samples of its own: it sends their
indices to the devices that hold the rows, which send back rows, or sums of rows if several are added up; in
the backward the gradients go the way of the rows. Split by columns all indices are gathered, and columns go
back by all-to-all (Naumov et al., DLRM, arXiv:1906.00091). With tables over N / M of N devices there are M
groups of them (two-dimensional sparse parallelism).
"""

from __future__ import annotations

import math
from dataclasses import replace

from explorer.graph import COMPUTE, Layer
from explorer.sharding.derive import RULES, Inner, Signature, einsum, sizes_of
from explorer.sharding.states import PARTIAL, SAMPLE, Axis


@RULES.add("embedding", title="by rows with partial outputs or all-to-all, by columns, or by position")
def embedding(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of a table lookup."""
    signature = einsum(layer, dims, axis)
    if signature is None or PARTIAL not in signature.writes:
        return signature
    if not axis.carved:
        return replace(signature, work=1.0)
    indices = Inner(op="all_to_all", tensor=0, dtype="int64")
    rows = Inner(op="all_to_all", tensor=-1, factor=min(added_up(layer), float(axis.size)), dtype=COMPUTE)
    return replace(
        signature,
        reads=(SAMPLE,) * len(layer.reads),
        writes=(SAMPLE,) * len(layer.writes),
        read_gradients=(SAMPLE,) * len(layer.reads),
        forward=(indices, rows),
        backward=(rows,),
    )


def added_up(layer: Layer) -> float:
    """Return how many rows of the table are added up into one row of the output, from the layer's work."""
    sizes = sizes_of(layer)
    written = sum(math.prod(sizes.get(dim, 1.0) for dim in use.dims) for use in layer.writes)
    return max(1.0, layer.forward.moved_elements / written - 1.0)
