"""Counts of what a layer keeps for the backward, and how much it computes and moves.

The rules are those of `explorer.models.builder`: moved elements are the activations a layer reads and writes,
with everything pointwise inside one layer taken as one kernel. A layer keeps what autograd keeps of its
inputs and outputs. Of its inside it keeps only what a fused kernel keeps too (dropout masks, row statistics
of fused attention), or everything if the inside is large (scores of an unfused attention, experts).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.graph import COMPUTE, Work
from explorer.models._axes import Axis
from explorer.models._grouping import OperationGroup
from explorer.models._program import Operation, TracedProgram

_OPEN = frozenset({"attention", "experts", "router", "linear", "other"})
"""Kinds of layer whose kept intermediates exist as tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInside:
    """A tensor that exists only to be kept for its layer's backward."""

    part: str
    """Its role: statistics, mask, or the operator that made it."""
    axes: tuple[Axis, ...]
    """Its axes."""
    elements: int
    """Number of scalars."""
    dtype: str
    """Data type, as `Tensor.dtype`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BorderTraffic:
    """The values that cross the border of a layer."""

    reads: tuple[str, ...]
    """Values the layer reads."""
    writes: tuple[str, ...]
    """Values the layer writes that others read."""


def kept_inside(program: TracedProgram, item: OperationGroup, traffic: BorderTraffic) -> Iterator[KeptInside]:
    """Yield the tensors inside a layer that are kept."""
    known = {*traffic.reads, *traffic.writes}
    for op in item.operations:
        if op.category == "attention" and op.keeps:
            rows = op.refs[0]
            yield KeptInside(
                part="statistics", axes=rows.axes[:-1], elements=math.prod(rows.sizes[:-1]), dtype="fp32"
            )
        if op.mask:
            value = program.values[op.writes[0]]
            yield KeptInside(part="mask", axes=value.axes, elements=value.elements, dtype="bool")
        if item.kind in _OPEN:
            yield from _intermediates(program, item, op, known)


def _intermediates(
    program: TracedProgram, item: OperationGroup, op: Operation, known: set[str]
) -> Iterator[KeptInside]:
    for name in op.keeps:
        if name in known:
            continue
        known.add(name)
        value = program.values[name]
        maker = next((other.op.strip("_") for other in item.operations if name in other.writes), "kept")
        yield KeptInside(part=maker, axes=value.axes, elements=value.elements, dtype=value.dtype)


def kept_outside(program: TracedProgram, item: OperationGroup, traffic: BorderTraffic) -> tuple[str, ...]:
    """Return the values crossing the border of a layer that its backward needs."""
    kept = dict.fromkeys(name for op in item.operations for name in op.keeps)
    touched = {*traffic.reads, *traffic.writes}
    names = tuple(name for name in kept if name in touched)
    moving = tuple(name for name in traffic.reads if program.values[name].gradient)
    if item.kind == "norm" and kept:
        return moving or names
    if kept and not names and item.kind not in _OPEN:
        # Only intermediates of a fused kernel are kept: its backward starts again from what it read.
        return moving
    return names


def work(
    program: TracedProgram,
    item: OperationGroup,
    traffic: BorderTraffic,
    inside: Sequence[KeptInside],
    *,
    learning: bool,
) -> tuple[Work, Work, Work]:
    """Count the work of forward, input and weight gradient; `learning`: a parameter gets a gradient."""
    elements = {name: program.values[name].elements for name in (*traffic.reads, *traffic.writes)}
    write = sum(elements[name] for name in traffic.writes)
    border = sum(elements[name] for name in traffic.reads) + write
    forward = backward = learned = border + 2 * sum(x.elements for x in inside if x.dtype == COMPUTE)
    if item.kind == "embedding":
        forward, backward, learned = 2 * write, 0, 2 * write
    elif item.kind == "attention":
        backward = 2 * forward
    elif item.kind in ("elementwise", "norm"):
        kept = {name for op in item.operations for name in op.keeps}
        backward, learned = forward + sum(n for name, n in elements.items() if name in kept), border
    moving = any(program.values[name].gradient for name in traffic.reads)
    operations = item.operations
    return (
        _work(sum(op.forward_flops for op in operations), forward),
        _work(sum(op.input_grad_flops for op in operations), backward) if moving else Work(),
        _work(sum(op.weight_grad_flops for op in operations), learned) if learning else Work(),
    )


def _work(flops: float, moved: float) -> Work:
    return Work(flops=float(flops), moved_elements=float(moved))
