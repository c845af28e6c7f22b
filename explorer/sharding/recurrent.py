"""Recurrent cell: by hidden unit, with a small collective in every step; steps follow one another.

A device that has some units has their gates and memories, but feeds all of the state back. Without a
projection every step all-gathers the units, and its backward reduce-scatters their gradient. With one (Sak et
al. 2014) each device projects its own units, and the step all-reduces the sum, as its backward does the
gradient of what was fed back: column and row parallel as in Megatron, inside the step. So many small
collectives spend most of their time waiting; that is why recurrent models are cut between layers, and
`hidden` is in no layout of a known system.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import COMPUTE, Layer
from explorer.sharding.derive import RULES, Inner, Signature, einsum
from explorer.sharding.states import BROADCAST, PARTIAL, Axis


@RULES.add("recurrent", title="by hidden unit, with a collective in every step")
def recurrent(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of a cell that writes its state first and reads its steps' share of the input."""
    signature = einsum(layer, dims, axis, special=True) if dims == ("hidden",) else None
    if signature is None or BROADCAST in signature.reads:
        return None

    def every_step(op: str) -> tuple[Inner, ...]:
        return (Inner(op=op, tensor=-1, factor=1 / layer.trips, dtype=COMPUTE),) * layer.trips

    if signature.writes[0] != PARTIAL:
        return replace(signature, forward=every_step("all_gather"), backward=every_step("reduce_scatter"))
    return replace(
        signature,
        writes=(BROADCAST, *signature.writes[1:]),
        forward=every_step("all_reduce"),
        backward=every_step("all_reduce"),
    )
