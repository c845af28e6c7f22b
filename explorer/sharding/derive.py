"""From a layer's dimensions to its legal signatures over one mesh axis.

A layer that is an einsum (a sum of products over its iteration dimensions) may be split along any of them:
what has the dimension is split, what lacks it is needed whole, and an output that lacks it (the dimension
is contracted) comes out as a partial sum. The backward is the dual: the gradient of what was needed whole
is a partial sum, the gradient of a partial sum is needed whole.

What the dimensions cannot tell (softmax, statistics, tables, halos, routing) is one file per kind of layer
beside this one, registered in `RULES`; a rule mostly calls `einsum` and corrects it.
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
"""Dimensions that are one for splitting: query heads and the key-value heads they share go together."""

RING = "ring"
"""Beside ``seq`` on the same axis of a layout: attention passes keys and values around it, no gathers."""

SUMS = frozenset({"linear", "matmul", "einsum", "scores", "context", "conv", "embedding", "experts", "pool"})
"""Kinds that are sums over a dimension their output lacks, so that a part of it gives a partial sum."""

_REPEATED = -9
"""Not a state: the dimension stands at two axes of one tensor (a diagonal), which no split keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A collective inside a layer, over the mesh axis of its signature, on a buffer shaped after a tensor."""

    op: str
    """all_reduce, all_to_all, halo (to each neighbour along the axis), ring or ring_gradient (blocks passed
    on from device to device while the layer works)."""
    tensor: int
    """The tensor the buffer is shaped after: read 0, 1, ..., or write -1, -2, ...."""
    without: State = BROADCAST
    """Axis of that tensor that the buffer lacks; BROADCAST for none."""
    factor: float = 1.0
    """Elements per remaining element, the split over its own mesh axis included."""
    dtype: str = "fp32"
    """Data type of the buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """How one layer runs over one mesh axis: a state for everything it touches."""

    dims: tuple[str, ...]
    """Dimensions that are split, the main one first; () if none is."""
    reads: tuple[State, ...]
    """Needed state of every read."""
    writes: tuple[State, ...]
    """State of every write; its gradient is needed in the `dual`."""
    parameters: tuple[State, ...]
    """State of every parameter."""
    read_gradients: tuple[State, ...]
    """State in which it leaves the gradient of every read."""
    parameter_gradients: tuple[State, ...]
    """State in which it leaves the gradient of every parameter."""
    work: float = 1.0
    """Share of the layer's work that one device does (of all samples of a carved axis)."""
    summands: int = 1
    """Devices whose gradients of a *split* parameter have to be added: above 1 if pieces are held twice."""
    forward: tuple[Inner, ...] = ()
    """Collectives inside the forward."""
    backward: tuple[Inner, ...] = ()
    """Collectives inside the backward."""

    @property
    def write_gradients(self) -> tuple[State, ...]:
        """State in which the gradient of every write is needed."""
        return tuple(map(dual, self.writes))


Rule: TypeAlias = Callable[[Layer, tuple[str, ...], Axis], Signature | None]
"""(layer, dimensions to split together, mesh axis) -> signature, or None where that is not legal."""

RULES: Registry[Spec] = Registry("sharding rule", "explorer.sharding", Spec)
"""Rules by kind of layer."""


@cache
def _rules() -> dict[str, Rule]:
    return {entry.name: entry.function for entry in RULES}


def derive(layer: Layer, dims: tuple[str, ...], axis: Axis) -> Signature | None:
    """The signature of `layer` split along `dims` over `axis`, or None where that is not legal."""
    return _rules().get(layer.kind, einsum)(layer, dims, axis)


def sizes_of(layer: Layer) -> dict[str, float]:
    """Sizes of a layer's dimensions by name."""
    return {dim.name: dim.size for dim in layer.dims}


def einsum(layer: Layer, dims: tuple[str, ...], axis: Axis, *, special: bool = False) -> Signature | None:
    """The einsum rule (Mesh-TensorFlow, section 3).

    Args:
        layer: the layer; its `Use.dims` say where each dimension stands.
        dims: dimensions that are split together.
        axis: the mesh axis.
        special: the caller knows more: dimensions that are not splittable and kinds that are no sums will do.
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
    """Whether the layer says where its dimensions stand."""
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
    """Split as the parameter; partial where every device saw a part of what it acts on."""
    weight_is_split = any(state >= 0 for state in held)
    return tuple(
        BROADCAST
        if state == BROADCAST and contracted and weight_is_split and _is_added(use, layer)
        else (PARTIAL if state == BROADCAST else state)
        for use, state in zip(layer.parameters, held, strict=True)
    )


def _is_added(bias: Use, layer: Layer) -> bool:
    """A bias is added once, after the sum over devices, so all see its whole gradient."""
    return set(bias.dims) <= set(layer.writes[0].dims)


def replicate(layer: Layer) -> Signature:
    """Every device does the same: legal for any layer."""
    return _uniform(layer, BROADCAST, BROADCAST, work=1.0)


def by_sample(layer: Layer, axis: Axis) -> Signature:
    """Every device does its own samples: data parallelism, legal for any layer."""
    return _uniform(layer, SAMPLE, PARTIAL, work=1 / axis.size)


def passed_on(layer: Layer) -> Signature | None:
    """Partial sums in, partial sums out: legal where the layer is linear, and no device does less."""
    return _uniform(layer, PARTIAL, BROADCAST, work=1.0) if is_linear(layer) else None


def is_linear(layer: Layer) -> bool:
    """Whether f(a + b) = f(a) + f(b) over all reads: elementwise, and its gradient needs no value.

    A layer without gradient saves nothing whatever it does, so that it is not known to be linear.
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
    """Every legal signature over one mesh axis: replicated, by each dimension, and partial sums passed on."""
    names = [dim.name for dim in layer.dims]
    choices: list[tuple[str, ...]] = [(name,) for name in names if name not in ALIGNED]
    if together := tuple(name for name in names if name in ALIGNED):
        choices.append(together)
    found = [replicate(layer), *(derive(layer, dims, axis) for dims in choices), passed_on(layer)]
    return tuple(item for item in found if item is not None)


def choose(layer: Layer, axis: Axis, layout: Sequence[tuple[str, str]]) -> Signature:
    """The signature that a layout asks for: its first pair on this axis that is legal for the layer.

    Args:
        layer: the layer.
        axis: the mesh axis.
        layout: (dimension, mesh axis) pairs; the first that applies counts, so `seq` after `heads` splits
            the sequence only where there are no heads. An attention takes heads before all else, because
            by sequence it needs whole keys and values (DeepSpeed-Ulysses).
    """
    wanted = [dim for dim, name in layout if name == axis.name]
    present = {dim.name for dim in layer.dims}
    if layer.kind == "attention" or "kv_seq" in present:  # the latter is a part of one
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
