"""Conversions that bring every tensor and gradient into the state that its layer needs.

A tensor is converted once per needed state, however many layers need it. The gradients that its readers leave
are added before they are converted, so three readers of a broadcast cost one all-reduce. At *rest* (saved, or
sent to another stage) a tensor is in the state its writer left it in, and a partial sum in the state its
first reader needs; its gradient crosses stages in the same state.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from explorer.sharding.layer_plan import LayerPlan
from explorer.sharding.reshard import Step, moved, reshard
from explorer.sharding.states import BROADCAST, PARTIAL, SAMPLE, Axis, TensorPlacement, share

Reads = tuple[tuple[int, int], ...]
"""(layer, position among its reads) of readers."""


class Wires(Protocol):
    """The part of `Wiring` that conversions read."""

    @property
    def writer(self) -> tuple[tuple[int, int] | None, ...]:
        """Return (layer, position among its writes) of each tensor's writer."""

    @property
    def readers(self) -> tuple[Reads, ...]:
        """Return the readers of each tensor."""

    @property
    def needs_gradient(self) -> tuple[bool, ...]:
        """Tell whether each tensor's gradient is computed."""

    @property
    def carries(self) -> tuple[bool, ...]:
        """Tell whether each layer sends a gradient to what it reads."""


class Sent(NamedTuple):
    """A conversion of a tensor or its gradient, with the layer that waits for it."""

    layer: int
    step: Step


class Traffic(NamedTuple):
    """Conversions of one tensor."""

    forward: tuple[Sent, ...] = ()
    backward: tuple[Sent, ...] = ()
    regather: tuple[Sent, ...] = ()
    """Gathers of the forward that the backward repeats because the tensor is saved at rest."""


_NOTHING = Traffic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A tensor between its writer and its readers."""

    placement: TensorPlacement
    """State per mesh axis in which it is saved or sent."""
    sizes: tuple[float, ...]
    """Sizes in which pieces are counted."""
    share: float
    """Share of one sample that a device holds."""


def rest_of(
    wires: Wires,
    plans: Sequence[LayerPlan],
    tensor: int,
    shape: tuple[float, ...],
    axes: tuple[Axis, ...],
) -> Rest:
    """Return a tensor as it is between its writer and its readers."""
    source, readers = wires.writer[tensor], wires.readers[tensor]
    load = plans[source[0]].write_loads[source[1]] if source else 1.0
    if not axes:  # nothing is split: plans of unsplit layers list no reads
        return Rest(placement=(), sizes=shape, share=load)
    first = plans[readers[0][0]].reads[readers[0][1]] if readers else None
    if source is None:
        sizes, written = shape, None
    else:
        plan = plans[source[0]]
        sizes, written = plan.write_sizes[source[1]], plan.writes[source[1]]
    placement = _rest_placement(written, first, axes)
    return Rest(placement=placement, sizes=sizes, share=share(placement, sizes, axes) * load)


def _rest_placement(
    written: TensorPlacement | None, first: TensorPlacement | None, axes: Sequence[Axis]
) -> TensorPlacement:
    whole = tuple(SAMPLE if axis.carved else BROADCAST for axis in axes)
    first = first or whole
    if written is None:  # the input pipeline loads what the first reader needs, of the device's samples
        written = tuple(SAMPLE if axis.carved else state for axis, state in zip(axes, first, strict=True))
    needed = (b if a == PARTIAL else a for a, b in zip(written, first, strict=True))
    return tuple(BROADCAST if state == PARTIAL else state for state in needed)


@lru_cache(maxsize=16384)
def forward_steps(
    source: TensorPlacement,
    wanted: tuple[TensorPlacement, ...],
    sizes: tuple[float, ...],
    axes: tuple[Axis, ...],
) -> tuple[tuple[int, tuple[Step, ...]], ...]:
    """Convert one tensor to all wanted placements, each from the nearest placement available by then.

    Returns:
        (position in `wanted`, steps) for each that needs any; whole tensors first, since slicing them is
        free.
    """
    there, found = [source], []
    for k in sorted(range(len(wanted)), key=lambda k: -wanted[k].count(BROADCAST)):
        ways = [reshard(state, wanted[k], sizes, axes) for state in there]
        steps = min(ways, key=lambda steps: moved(steps, axes))
        there.append(wanted[k])
        if steps:
            found.append((k, steps))
    return tuple(found)


@lru_cache(maxsize=16384)
def backward_steps(
    left: tuple[TensorPlacement, ...], goal: TensorPlacement, sizes: tuple[float, ...], axes: tuple[Axis, ...]
) -> tuple[Step, ...]:
    """List the conversions of the readers' gradients to their sum in the placement `goal`.

    If one of them is a partial sum over an axis, the others join it before it is reduced, which is free.
    """
    partial = [any(item[a] == PARTIAL for item in left) for a in range(len(axes))]
    joined = {tuple(PARTIAL if partial[a] else state for a, state in enumerate(item)): None for item in left}
    return tuple(step for item in joined for step in reshard(item, goal, sizes, axes))


def traffic(
    wires: Wires,
    plans: Sequence[LayerPlan],
    rest: Mapping[int, Rest],
    axes: tuple[Axis, ...],
    tensor: int,
    inside: Container[int],
    savers: Container[int] = (),
) -> Traffic:
    """Return the conversions of one tensor that the layers `inside` have to pay for.

    Args:
        wires: the graph in indices.
        plans: plan of every layer.
        rest: tensors at rest; this one at least.
        axes: the mesh axes.
        tensor: index of the tensor.
        inside: layers of the stage.
        savers: layers that save this tensor for their backward.
    """
    source = wires.writer[tensor]
    here = source is not None and source[0] in inside
    readers = [item for item in wires.readers[tensor] if item[0] in inside]
    outside = len(readers) < len(wires.readers[tensor])
    writer = source if here else None
    forward, regather = _forward(plans, rest[tensor], axes, writer, readers, outside=outside, savers=savers)
    backward: tuple[Sent, ...] = ()
    if wires.needs_gradient[tensor]:
        carrying = [item for item in readers if wires.carries[item[0]]]
        backward = _backward(plans, rest[tensor], axes, writer, carrying, outside=outside)
    if not (forward or backward):
        return _NOTHING
    return Traffic(forward, backward, regather)


def _forward(
    plans: Sequence[LayerPlan],
    rest: Rest,
    axes: tuple[Axis, ...],
    writer: tuple[int, int] | None,
    readers: Sequence[tuple[int, int]],
    *,
    outside: bool,
    savers: Container[int],
) -> tuple[tuple[Sent, ...], tuple[Sent, ...]]:
    origin = plans[writer[0]].writes[writer[1]] if writer else rest.placement
    wanted: dict[TensorPlacement, list[int]] = {}
    for layer, k in readers:
        wanted.setdefault(plans[layer].reads[k], []).append(layer)
    if writer and outside:
        wanted.setdefault(rest.placement, []).append(writer[0])
    if all(placement == origin for placement in wanted):
        return (), ()
    users = list(wanted.values())
    found = forward_steps(origin, tuple(wanted), rest.sizes, axes)
    sent = tuple(Sent(users[k][0], step) for k, steps in found for step in steps if step.moves)
    again = tuple(
        Sent(layer, step)
        for k, steps in found
        for layer in [item for item in users[k] if item in savers][:1]
        for step in steps
        if step.op == "all_gather"
    )
    return sent, again


def _backward(
    plans: Sequence[LayerPlan],
    rest: Rest,
    axes: tuple[Axis, ...],
    writer: tuple[int, int] | None,
    readers: Sequence[tuple[int, int]],
    *,
    outside: bool,
) -> tuple[Sent, ...]:
    goal = plans[writer[0]].write_gradients[writer[1]] if writer else rest.placement
    left = dict.fromkeys(plans[layer].read_gradients[k] for layer, k in readers)
    if writer and outside:
        left[rest.placement] = None
    if not left or all(placement == goal for placement in left):
        return ()
    at = writer[0] if writer else readers[0][0]
    steps = backward_steps(tuple(left), goal, rest.sizes, axes)
    return tuple(Sent(at, step) for step in steps if step.moves)
