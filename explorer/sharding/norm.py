"""Normalisation and softmax: free along all dimensions but the normalised ones, which need statistics.

Split along a normalised dimension (one that is not splittable) the statistics are all-reduced, in fp32:
mean and square forward, the two sums of its gradient backward (one of each for RMS); of a softmax the
maximum and the sum forward, one sum backward. Split along another (Megatron's sequence parallelism) the
gradients of scale and shift become partial sums, by the einsum rule.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import Layer
from explorer.sharding.derive import RULES, Inner, Signature, einsum
from explorer.sharding.states import BROADCAST, Axis


@RULES.add("norm", title="free along what is not normalised, else with all-reduced statistics")
def norm(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of a layer, RMS or batch normalisation; RMS has no mean, and no shift."""
    fixed = {dim.name for dim in layer.dims if not dim.splittable}
    by_square = len(layer.parameters) == 1 and bool(set(layer.parameters[0].dims) & fixed)
    numbers = (1.0,) if by_square else (2.0,)
    return _with_statistics(layer, dims, axis, forward=numbers, backward=numbers)


@RULES.add("softmax", title="free along other dimensions than its own, else with all-reduced statistics")
def softmax(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of a softmax that is a separate layer."""
    return _with_statistics(layer, dims, axis, forward=(1.0, 1.0), backward=(1.0,))


def _with_statistics(
    layer: Layer,
    dims: tuple[str, ...],
    axis: Axis,
    *,
    forward: tuple[float, ...],
    backward: tuple[float, ...],
) -> Signature | None:
    normalised = [dim.name for dim in layer.dims if not dim.splittable]
    if not set(normalised) & set(dims):
        return einsum(layer, dims, axis)
    signature = einsum(layer, dims, axis, special=True)
    if signature is None or BROADCAST in (*signature.reads, *signature.writes):
        return None
    across = 1.0
    sizes = {dim.name: dim.size for dim in layer.dims}
    for dim in normalised:  # statistics have none of the normalised dimensions
        across *= sizes[dim] if dim not in dims else 1.0

    gone = tuple(i for i, dim in enumerate(layer.reads[0].dims) if dim in normalised)

    def statistics(factor: float) -> Inner:
        return Inner(op="all_reduce", tensor=0, without=signature.reads[0], also=gone, factor=factor / across)

    return replace(
        signature, forward=tuple(map(statistics, forward)), backward=tuple(map(statistics, backward))
    )
