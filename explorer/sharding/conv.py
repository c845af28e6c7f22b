"""Convolution: channels by the einsum rule; height, width or depth with a halo from each neighbour.

Domain parallelism (Gholami et al., SPAA 2018): a device needs floor(k / 2) rows of its neighbour's input
forward and gives as many rows of gradient backward: X_w X_c floor(k_h / 2) and Y_w Y_c floor(k_h / 2)
elements per sample and side. A 1 x 1 kernel needs none. If a tensor is split along several directions, each
over its own mesh axis, every direction exchanges its own halo of what the others leave; corners are not
counted.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import COMPUTE, Layer
from explorer.sharding.derive import RULES, Inner, Signature, einsum, sizes_of
from explorer.sharding.states import BROADCAST, Axis

WINDOWS = {dim: f"kernel_{dim}" for dim in ("depth", "height", "width")}
"""Dimension of the kernel along each spatial dimension."""


@RULES.add("conv", title="by channels, or by height, width or depth with a halo")
def conv(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of a convolution; `WINDOWS` maps its input's dimensions to its kernel's."""
    if len(dims) != 1 or dims[0] not in WINDOWS:
        return einsum(layer, dims, axis)
    signature = einsum(layer, dims, axis, special=True)
    if signature is None or BROADCAST in (signature.reads[0], signature.writes[0]):
        return None
    rows = sizes_of(layer).get(WINDOWS[dims[0]], 1.0) // 2
    if not rows:
        return signature
    halo = Inner(op="halo", tensor=0, without=signature.reads[0], factor=rows, dtype=COMPUTE)
    back = replace(halo, tensor=-1, without=signature.writes[0])
    return replace(signature, forward=(halo,), backward=(back,))
