"""Plan of one distinct layer: its states and shares over all mesh axes at once.

With several axes a layer has one signature per axis; they do not interfere, because an einsum may be split
along several dimensions at once. A plan is made once for all layouts that say the same of a layer's
dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from explorer.base.caching import remembered
from explorer.base.errors import InputError
from explorer.graph import Layer
from explorer.sharding.derive import (
    RING,
    Inner,
    Signature,
    by_sample,
    choose,
    derive,
    einsum,
    passed_on,
    sizes_of,
)
from explorer.sharding.loads import load_of, row_loads
from explorer.sharding.states import BROADCAST, PARTIAL, Axis, State, TensorPlacement, part, share
from explorer.sharding.wiring import ELEMENTWISE, Shapes, Template

PLANS_KEPT = 8192
"""Plans of distinct layers that are remembered, some 2 KB each."""


_GROWING = ("all_gather", "reduce_scatter")


class TemplateGroup(NamedTuple):
    """Layers with a common layout and mesh."""

    layout: tuple[tuple[str, str], ...]
    own: frozenset[int]
    """Positions of the mesh axes that the group's mesh has."""


class Held(NamedTuple):
    """One device's holding of a parameter: its share, the axes that split it, the sums its gradient needs."""

    fraction: float
    """Share of the parameter that the device holds."""
    axes: tuple[str, ...]
    """Mesh axes that split the parameter."""
    sums: tuple[tuple[str, int], ...]
    """(mesh axis, devices along it) whose gradients have to be added."""


class Exchange(NamedTuple):
    """A collective inside a layer."""

    op: str
    axis: int
    elements: float
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """A layer's states over all mesh axes."""

    reads: tuple[TensorPlacement, ...]
    """Placement needed of every read."""
    writes: tuple[TensorPlacement, ...]
    """Placement of every write."""
    read_gradients: tuple[TensorPlacement, ...]
    """Placement in which the layer leaves the gradient of every read."""
    write_gradients: tuple[TensorPlacement, ...]
    """Placement in which the layer needs the gradient of every write."""
    write_sizes: Shapes
    """Per write, the sizes in which pieces are counted: those of the dimensions its axes are mapped to."""
    write_loads: tuple[float, ...]
    """Per write, how many times an even part the busiest device has (`explorer.sharding.loads`)."""
    parameters: tuple[Held, ...]
    """One device's holding of every parameter."""
    work: float
    """Share of the layer's work per sample of its replica; of experts the busiest device's."""
    pieces: tuple[tuple[str, float], ...]
    """Dimensions that are split, with the share of each that one device has; of keys and values that go
    around a ring (`ring`) the share that it has at a time.
    """
    forward: tuple[Exchange, ...]
    """Collectives inside the forward."""
    backward: tuple[Exchange, ...]
    """Collectives inside the backward."""
    again: tuple[Exchange, ...]
    """Collectives inside the forward that the backward repeats."""
    free: tuple[int, ...]
    """Mesh axes over which an elementwise layer is replicated, so it may follow its inputs."""
    notes: tuple[str, ...]
    """Remarks for users, for example on sizes that do not divide."""


def distinct_plan(
    template: Template,
    group: TemplateGroup,
    axes: tuple[Axis, ...],
    follow: tuple[tuple[int, State], ...] = (),
) -> LayerPlan:
    """Return the plan of a distinct layer, made once for all layouts that say the same of its dimensions.

    Args:
        template: the layer.
        group: its layout and mesh.
        axes: all mesh axes.
        follow: (mesh axis, state) that an elementwise layer adopts from its inputs.
    """
    dims = {dim.name for dim in template.layer.dims} | {RING}
    layout = tuple([item for item in group.layout if item[0] in dims])
    return _known_plan(template, layout, group.own, axes, follow)


@remembered(PLANS_KEPT)
def _known_plan(
    template: Template,
    layout: tuple[tuple[str, str], ...],
    own: frozenset[int],
    axes: tuple[Axis, ...],
    follow: tuple[tuple[int, State], ...],
) -> LayerPlan:
    return make_plan(template, TemplateGroup(layout, own), axes, dict(follow))


def make_plan(
    template: Template, group: TemplateGroup, axes: tuple[Axis, ...], follow: dict[int, State] | None = None
) -> LayerPlan:
    """Plan one distinct layer.

    Args:
        template: the layer.
        group: its layout and mesh.
        axes: all mesh axes.
        follow: states of its inputs that an elementwise layer adopts, by mesh axis.
    """
    layer = template.layer
    _check(template)
    chosen = [signature_over(layer, i, axis, group, (follow or {}).get(i)) for i, axis in enumerate(axes)]
    sizes = sizes_of(layer)
    write_sizes = tuple(
        tuple(sizes.get(dim, size) for dim, size in zip(use.dims or ("",) * len(shape), shape, strict=True))
        for use, shape in zip(layer.writes, template.writes, strict=True)
    )
    read, written = len(layer.reads), len(layer.writes)
    reads, writes = _across(chosen, "reads", read), _across(chosen, "writes", written)
    elementwise = layer.kind in ELEMENTWISE
    pieces = _pieces(sizes, chosen, axes)
    load = load_of(layer, pieces)
    return LayerPlan(
        reads=reads,
        writes=writes,
        read_gradients=_across(chosen, "read_gradients", read),
        write_gradients=_across(chosen, "write_gradients", written),
        write_sizes=write_sizes,
        write_loads=row_loads(layer, load),
        parameters=_held(template, chosen, group, axes),
        work=_work(sizes, chosen, axes) * load,
        pieces=pieces,
        forward=_loaded(
            _exchanges(chosen, "forward", (template.reads, write_sizes), (reads, writes), axes), load
        ),
        backward=_loaded(
            _exchanges(chosen, "backward", (template.reads, write_sizes), (reads, writes), axes), load
        ),
        again=_exchanges(chosen, "again", (template.reads, write_sizes), (reads, writes), axes),
        free=tuple(
            i for i in sorted(group.own) if not follow and elementwise and _is_replicated(chosen[i], axes[i])
        ),
        notes=_notes(sizes, chosen, axes, group),
    )


def _check(template: Template) -> None:
    layer = template.layer
    uses = (*layer.reads, *layer.writes, *layer.parameters)
    for use, shape in zip(uses, (*template.reads, *template.writes, *template.parameters), strict=True):
        if use.dims and len(use.dims) != len(shape):
            raise InputError(
                f"layer {layer.name!r} maps {use.name!r} of shape {shape} to dimensions {use.dims}",
                key=f"layers.{layer.name}",
                found=len(use.dims),
                allowed=f"{len(shape)} dimensions, or none where they are unknown",
            )


def _is_replicated(signature: Signature, axis: Axis) -> bool:
    return not signature.dims and not axis.carved


def signature_over(
    layer: Layer, i: int, axis: Axis, group: TemplateGroup, follow: State | None = None
) -> Signature:
    """Return the signature of a layer over one mesh axis.

    Args:
        layer: the layer.
        i: position of the mesh axis.
        axis: the mesh axis.
        group: the layer's layout and mesh.
        follow: state of its inputs that an elementwise layer adopts.
    """
    if i not in group.own:
        # Another mesh over the same devices: along an axis it lacks, devices differ in samples or tokens.
        tokens = None
        if layer.kind == "experts" and not axis.carved:
            tokens = einsum(layer, ("seq",), axis)
        return tokens or by_sample(layer, axis)
    chosen = choose(layer, axis, group.layout)
    if follow is None:
        return chosen
    if follow == PARTIAL:
        return passed_on(layer) or chosen
    along = {use.dims[follow] for use in layer.reads if follow < len(use.dims)}
    followed = derive(layer, tuple(along), axis) if len(along) == 1 else None
    return followed if followed and set(followed.reads) == {follow} else chosen


def _across(chosen: Sequence[Signature], field: str, count: int) -> tuple[TensorPlacement, ...]:
    """Transpose states: from one tuple of uses per mesh axis to one placement per use."""
    return tuple(zip(*(getattr(item, field) for item in chosen), strict=True)) or ((),) * count


def _work(sizes: dict[str, float], chosen: Sequence[Signature], axes: Sequence[Axis]) -> float:
    parts: dict[str, list[Axis]] = {}
    result = 1.0
    for signature, axis in zip(chosen, axes, strict=True):
        result *= axis.size if axis.carved else 1
        if signature.dims and signature.work == part(sizes[signature.dims[0]], (axis,)):
            parts.setdefault(signature.dims[0], []).append(axis)
        else:
            result *= signature.work
    return result * math.prod(part(sizes[dim], over) for dim, over in parts.items())


def _pieces(
    sizes: dict[str, float], chosen: Sequence[Signature], axes: Sequence[Axis]
) -> tuple[tuple[str, float], ...]:
    parts: dict[str, list[Axis]] = {}
    for signature, axis in zip(chosen, axes, strict=True):
        for dim in signature.dims:
            parts.setdefault(dim, []).append(axis)
    rings = [axis for item, axis in zip(chosen, axes, strict=True) if any(i.op == RING for i in item.forward)]
    around = ((RING, part(sizes["seq"], rings)),) if rings else ()  # keys and values at a time
    return (*((dim, part(sizes[dim], over)) for dim, over in parts.items()), *around)


def _held(
    template: Template, chosen: Sequence[Signature], group: TemplateGroup, axes: Sequence[Axis]
) -> tuple[Held, ...]:
    own = sorted(group.own)
    whole = tuple(replace(axes[i], carved=False) for i in own)
    left = tuple((axes[i].name, axes[i].size) for i in left_out(group, axes))
    result = []
    for k, shape in enumerate(template.parameters):
        placement = tuple(chosen[i].parameters[k] for i in own)
        sums = []
        for i, axis in zip(own, whole, strict=True):
            count = axis.size if chosen[i].parameter_gradients[k] == PARTIAL else 1
            count = chosen[i].summands if chosen[i].parameters[k] >= 0 else count
            sums += [(axis.name, count)] if count > 1 else []
        split = tuple(axis.name for axis, state in zip(whole, placement, strict=True) if state >= 0)
        result.append(Held(share(placement, shape, whole), split, (*sums, *left)))
    return tuple(result)


def left_out(group: TemplateGroup, axes: Sequence[Axis]) -> tuple[int, ...]:
    """Return the mesh axes of a stage over which a group's devices are replicas of each other.

    Their gradients are added inside the stage's replica. A group with an axis carved out of the replicas has
    spread what it holds over such devices, and none are left.
    """
    if any(axes[i].carved for i in group.own):
        return ()
    return tuple(i for i, axis in enumerate(axes) if not axis.carved and i not in group.own)


def _exchanges(
    chosen: Sequence[Signature],
    way: str,
    shapes: tuple[Shapes, Shapes],
    placements: tuple[tuple[TensorPlacement, ...], tuple[TensorPlacement, ...]],
    axes: tuple[Axis, ...],
) -> tuple[Exchange, ...]:
    found = []
    for i, signature in enumerate(chosen):
        inner: Inner
        for inner in getattr(signature, way):
            role, k = (0, inner.tensor) if inner.tensor >= 0 else (1, -1 - inner.tensor)
            sizes, others = shapes[role][k], list(placements[role][k])
            plain = list(axes)
            plain[i], others[i] = replace(axes[i], carved=False), BROADCAST
            # the buffer has nothing of the axis that it lacks, and what is gathered earlier is whole by now
            done = [_has(chosen[j], way, inner) for j in range(i)] if inner.op in _GROWING else []
            for j, state in enumerate(others):
                if state == inner.without or state in inner.also or (j < len(done) and done[j]):
                    others[j] = BROADCAST
            kept = math.prod(size for position, size in enumerate(sizes) if position != inner.without)
            elements = kept * inner.factor * share(tuple(others), sizes, plain)
            found.append(Exchange(inner.op, i, elements, inner.dtype))
    return tuple(found)


def _loaded(exchanges: tuple[Exchange, ...], load: float) -> tuple[Exchange, ...]:
    """Return exchanges of rows as the busiest device has them; what all devices gather, all have."""
    if load == 1.0:
        return exchanges
    return tuple(
        [
            item._replace(elements=item.elements * load) if item.op == "all_to_all" else item
            for item in exchanges
        ]
    )


def _has(signature: Signature, way: str, inner: Inner) -> bool:
    """Tell whether a signature has the same collective inside."""
    return any(item.op == inner.op and item.tensor == inner.tensor for item in getattr(signature, way))


def _notes(
    sizes: dict[str, float], chosen: Sequence[Signature], axes: Sequence[Axis], group: TemplateGroup
) -> tuple[str, ...]:
    found = []
    for signature, axis in zip(chosen, axes, strict=True):
        if signature.dims and sizes[signature.dims[0]] % axis.size:
            size = sizes[signature.dims[0]]
            largest = math.ceil(size / axis.size)
            found.append(
                f"{signature.dims[0]} {size:g} does not divide by {axis.name} {axis.size}: "
                f"the largest piece, {largest:g}, counts"
            )
    found.extend(
        f"{dim} {sizes[dim]:g} is too small for {name} {axes[i].size}: not split"
        for dim, name in group.layout
        for i in sorted(group.own)
        if axes[i].name == name and not chosen[i].dims and sizes.get(dim, axes[i].size) < axes[i].size
    )
    return tuple(found)
