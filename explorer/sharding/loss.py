"""Loss: a cross entropy over split classes needs three small all-reduces, as in Megatron.

Split along the classes, each device has some logits of every token: the maximum, the target's logit and the
sum of exponentials are all-reduced, one number per token each, in fp32. The backward needs nothing. Split by
position, the loss is a partial sum by the einsum rule.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import Layer
from explorer.sharding.derive import RULES, Inner, Signature, einsum
from explorer.sharding.states import BROADCAST, PARTIAL, Axis


@RULES.add("loss", title="by class with all-reduced statistics, or by position")
def loss(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of a loss; it reads predictions first, and their classes are not splittable."""
    signature = einsum(layer, dims, axis, special=True)
    classes = {dim.name for dim in layer.dims if not dim.splittable}
    if signature is None or not classes & set(dims):
        return signature
    if signature.reads[0] == BROADCAST:
        return None
    number = Inner(op="all_reduce", tensor=0, without=signature.reads[0])
    return replace(
        signature,
        writes=tuple(BROADCAST if state == PARTIAL else state for state in signature.writes),
        forward=(number,) * 3,
    )
