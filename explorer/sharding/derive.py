"""Derivation of a layer's legal signatures over one mesh axis from its dimensions.

A layer that is an einsum (a sum of products over its iteration dimensions) may be split along any of them:
what has the dimension is split, what lacks it is needed whole, and an output that lacks it (the dimension
is contracted) comes out as a partial sum. The backward is the dual: the gradient of what was needed whole
is a partial sum, the gradient of a partial sum is needed whole.

What the dimensions cannot tell (softmax, statistics, tables, halos, routing) is in a file of its own per kind
of layer in this folder, registered in `RULES`; a rule mostly calls `einsum` and corrects its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from explorer.base.registry import Registry, Spec
from explorer.graph import Layer, Use, Work
from explorer.sharding.states import BROADCAST, PARTIAL, SAMPLE, Axis, State, dual, part

ALIGNED = frozenset({"heads", "kv_heads"})
"""Dimensions that split as one: query heads and the key-value heads they share go together."""

RING = "ring"
"""Marker on the same axis of a layout as ``seq``: attention passes keys and values around a ring instead of
gathering them."""

SUMS = frozenset({"linear", "matmul", "einsum", "scores", "context", "conv", "embedding", "experts", "pool"})
"""Kinds of layer that sum over a dimension their output lacks, so a part of it gives a partial sum."""

_REPEATED = -9
"""Marker that is no state: the dimension stands at two axes of one tensor (a diagonal), which no split
keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A collective inside a layer, over its signature's mesh axis; its buffer is shaped after a tensor."""

    op: str
    """all_reduce, all_to_all, halo (to each neighbour along the axis), ring or ring_gradient (blocks passed
    on from device to device while the layer works)."""
    tensor: int
    """Tensor that gives the buffer its shape: read 0, 1, ..., or write -1, -2, ...."""
    without: State = BROADCAST
    """Axis of that tensor that the buffer lacks; BROADCAST if none."""
    also: tuple[int, ...] = ()
    """Further axes of that tensor of which the buffer has no part (`factor` counts them): other mesh axes may
    split them."""
    factor: float = 1.0
    """Elements per remaining element, including the split over its own mesh axis."""
    dtype: str = "fp32"
    """Data type of the buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One way to run a layer over one mesh axis: a state for every tensor and parameter it touches."""

    dims: tuple[str, ...]
    """Dimensions that are split, the main one first; () if none."""
    reads: tuple[State, ...]
    """State needed of every read."""
    writes: tuple[State, ...]
    """State of every write; its gradient is needed in the `dual`."""
    parameters: tuple[State, ...]
    """State of every parameter."""
    read_gradients: tuple[State, ...]
    """State in which the layer leaves the gradient of every read."""
    parameter_gradients: tuple[State, ...]
    """State in which the layer leaves the gradient of every parameter."""
    work: float = 1.0
    """Share of the layer's work that one device does (of all samples of a carved axis)."""
    summands: int = 1
    """Number of devices whose gradients of a *split* parameter have to be added: above 1 if pieces are held
    twice."""
    forward: tuple[Inner, ...] = ()
    """Collectives inside the forward."""
    backward: tuple[Inner, ...] = ()
    """Collectives inside the backward."""
    again: tuple[Inner, ...] = ()
    """Collectives of the forward that the backward repeats, unless it makes the whole layer again."""

    @property
    def write_gradients(self) -> tuple[State, ...]:
        """State in which the gradient of every write is needed."""
        return tuple(map(dual, self.writes))


Rule: TypeAlias = Callable[[Layer, tuple[str, ...], Axis], Signature | None]
"""Function from (layer, dimensions to split together, mesh axis) to a signature, or None if the split is
illegal."""

RULES: Registry[Spec] = Registry("sharding rule", "explorer.sharding", Spec)
"""Rules by kind of layer."""


@cache
def _rules() -> dict[str, Rule]:
    return {entry.name: entry.function for entry in RULES}


def derive(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """Return the signature of `layer` split along `dims` over `axis`, or None if that is illegal."""
    return _rules().get(layer.kind, einsum)(layer, dims, axis)


def sizes_of(layer: Layer) -> dict[str, float]:
    """Return the sizes of a layer's dimensions by name."""
    return {dim.name: dim.size for dim in layer.dims}


def einsum(layer: Layer, dims: tuple[str, ...], axis: Axis, *, special: bool = False) -> Signature | None:
    """Apply the einsum rule (Mesh-TensorFlow, section 3).

    Args:
        layer: the layer; its `Use.dims` say where each dimension stands.
        dims: dimensions that are split together.
        axis: the mesh axis.
        special: whether dimensions that are not splittable and kinds that are no sums are accepted.
    """
    sizes = sizes_of(layer)
    fixed = () if special else {dim.name for dim in layer.dims if not dim.splittable}
    if any(dim not in sizes or dim in fixed for dim in dims) or not _known(layer):
        return None
    main = max(dims, key=lambda dim: sizes[dim])
    reads, writes, held = (_positions(uses, dims) for uses in (layer.reads, layer.writes, layer.parameters))
    contracted = BROADCAST in writes
    if _REPEATED in (*reads, *writes, *held) or (contracted and not special and layer.kind not in SUMS):
        return None
    too_few = sizes[main] < axis.size
    if too_few and (contracted or main != "kv_heads"):  # key-value heads may be held twice, others not
        return None
    return Signature(
        dims=(main, *(dim for dim in dims if dim != main)),
        reads=reads,
        writes=tuple(PARTIAL if state == BROADCAST else state for state in writes),
        parameters=held,
        read_gradients=tuple(PARTIAL if state == BROADCAST else state for state in reads),
        parameter_gradients=_parameter_gradients(layer, held, contracted=contracted),
        work=part(sizes[main], (axis,)),
        summands=max(1, axis.size // int(sizes[main])) if too_few else 1,
    )


def _known(layer: Layer) -> bool:
    """Tell whether the layer says where its dimensions stand."""
    read = all(use.dims for use in layer.reads) and bool(layer.reads or layer.parameters)
    return read and all(use.dims for use in layer.parameters) and bool(layer.writes)


def _positions(uses: Sequence[Use], dims: tuple[str, ...]) -> tuple[State, ...]:
    return tuple(_position(use, dims) for use in uses)


def _position(use: Use, dims: tuple[str, ...]) -> State:
    found = [i for i, dim in enumerate(use.dims) if dim in dims]
    if len(found) > 1:
        return _REPEATED
    return found[0] if found else BROADCAST


def _parameter_gradients(layer: Layer, held: tuple[State, ...], *, contracted: bool) -> tuple[State, ...]:
    """Return the gradient state of every held parameter: split as it is, or partial if devices saw parts."""
    weight_is_split = any(state >= 0 for state in held)
    return tuple(
        BROADCAST
        if state == BROADCAST and contracted and weight_is_split and _is_added(use, layer)
        else (PARTIAL if state == BROADCAST else state)
        for use, state in zip(layer.parameters, held, strict=True)
    )


def _is_added(bias: Use, layer: Layer) -> bool:
    """Tell whether a bias is added once, after the sum over devices, so all see its whole gradient."""
    return set(bias.dims) <= set(layer.writes[0].dims)


def replicate(layer: Layer) -> Signature:
    """Return the signature in which every device does the same work, legal for any layer."""
    return _uniform(layer, BROADCAST, BROADCAST, work=1.0)


def by_sample(layer: Layer, axis: Axis) -> Signature:
    """Return the signature of data parallelism, each device with its own samples; legal for any layer."""
    return _uniform(layer, SAMPLE, PARTIAL, work=1 / axis.size)


def passed_on(layer: Layer) -> Signature | None:
    """Return the signature that passes partial sums on (no device does less); None if not linear."""
    return _uniform(layer, PARTIAL, BROADCAST, work=1.0) if is_linear(layer) else None


def is_linear(layer: Layer) -> bool:
    """Tell whether f(a + b) = f(a) + f(b): the layer is elementwise and its gradient needs no value.

    A layer without a gradient saves nothing whatever it computes, so it is not known to be linear.
    """
    gradient_needs_nothing = layer.input_grad != Work() and not layer.saves
    return layer.kind == "add" or (
        layer.kind == "elementwise" and gradient_needs_nothing and not layer.parameters
    )


def _uniform(layer: Layer, state: State, gradient: State, *, work: float) -> Signature:
    return Signature(
        dims=(),
        reads=(state,) * len(layer.reads),
        writes=(state,) * len(layer.writes),
        parameters=(BROADCAST,) * len(layer.parameters),
        read_gradients=(dual(state),) * len(layer.reads),
        parameter_gradients=(gradient,) * len(layer.parameters),
        work=work,
    )


def signatures(layer: Layer, axis: Axis) -> tuple[Signature, ...]:
    """List all legal signatures over one mesh axis: replicated, by each dimension, partial sums passed on."""
    names = [dim.name for dim in layer.dims]
    choices: list[tuple[str, ...]] = [(name,) for name in names if name not in ALIGNED]
    if together := tuple(name for name in names if name in ALIGNED):
        choices.append(together)
    found = [replicate(layer), *(derive(layer, dims, axis) for dims in choices), passed_on(layer)]
    return tuple(item for item in found if item is not None)


def choose(layer: Layer, axis: Axis, layout: Sequence[tuple[str, str]]) -> Signature:
    """Choose the signature that a layout asks for: its first pair on this axis that is legal for the layer.

    Args:
        layer: the layer.
        axis: the mesh axis.
        layout: (dimension, mesh axis) pairs; the first that applies counts, so `seq` after `heads` splits the
            sequence only if there are no heads. An attention takes heads before all else, because
            by sequence it needs whole keys and values (DeepSpeed-Ulysses).
    """
    wanted = [dim for dim, name in layout if name == axis.name]
    present = {dim.name for dim in layer.dims}
    if layer.kind == "attention" or "kv_seq" in present:  # `kv_seq` marks a part of an attention
        wanted.sort(key=lambda dim: dim not in ALIGNED)
    for dim in wanted:
        if dim in present:
            together = (dim, *(other for other in wanted if dim in ALIGNED and other in ALIGNED - {dim}))
            dims = tuple(other for other in together if other in present)
            if layer.kind == "attention" and dim == "seq" and RING in wanted:
                dims = ("seq", RING)
            if signature := derive(layer, dims, axis):
                return signature
    return by_sample(layer, axis) if axis.carved else replicate(layer)
