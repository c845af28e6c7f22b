"""Sharded layers of a stage: a graph is resolved once per layout, and stages are cut out of it.

A search moves stage boundaries thousands of times under few layouts. What depends only on the layout is
therefore kept (`GraphSharding`), and a stage adds up what its layers and the tensors that cross its border
need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

import numpy as np

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.matrix_products import contractions
from explorer.sharding.assign import Exchange, Held, LayerPlan, TemplateGroup, assign
from explorer.sharding.result import Collective, FloatArray, Override, ShardedLayers
from explorer.sharding.states import Axis
from explorer.sharding.traffic import Sent, Traffic, at_rest, traffic
from explorer.sharding.wiring import wiring

Inside: TypeAlias = range | frozenset[int]
"""Layers of a stage; a range if they are consecutive, which is quicker to query."""


Uneven: TypeAlias = tuple[tuple[str, tuple[float, ...], int], ...]
"""(mesh axis, share of each device along it, the device to look at) per axis with unequal shares."""
_PASSED_ON = ("all_gather", "reduce_scatter", "ring", "ring_gradient")
"""Collectives that pass pieces from device to device; each pass takes as long as the largest piece."""


class Request(NamedTuple):
    """A layout with its mesh axes and exceptions: the key of a `GraphSharding`."""

    layout: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[str, int], ...]
    overrides: tuple[Override, ...]
    uneven: Uneven = ()


class _Message(NamedTuple):
    """A collective before it has names: its layer's position, then the fields that `Collective` needs."""

    layer: int
    collective: Collective


class _Messages(NamedTuple):
    """Messages of one tensor or of a stage."""

    forward: list[_Message]
    backward: list[_Message]
    regather: list[_Message]


def _layer_of(message: _Message) -> int:
    return message.layer


class GraphSharding:
    """A whole graph under one layout; `cut` makes the `ShardedLayers` of some of its layers."""

    def __init__(self, graph: LayerGraph, request: Request) -> None:
        self.graph, self.wires = graph, wiring(graph)
        base, by_override, self.axes = _groups(request)
        self.groups = _group_of_layers(graph, base, request.overrides, by_override)
        self.fewer_replicas = {group: _fewer_replicas(group, self.axes) for group in (base, *by_override)}
        self.plans = assign(graph, self.groups, self.axes)
        shapes = [tensor.shape for tensor in graph.tensors]
        self.rest = at_rest(self.wires, self.plans, shapes, self.axes)
        self.tensor_share = np.array([item.share for item in self.rest])
        self.work = np.array([plan.work for plan in self.plans])
        self.split = _split(graph, self.plans)
        self.elements = [math.prod(shape) for shape in shapes]
        self.savers = _savers(graph)
        self._closed: dict[int, _Messages | None] = {}
        self._patterns: dict[object, tuple[int, Traffic]] = {}

    def cut(self, layers: tuple[str, ...]) -> ShardedLayers:
        """Return the `ShardedLayers` of `layers`.

        Raises:
            InputError: a name that is not a layer of the graph.
        """
        members = _indices(self.graph, layers)
        inside: Inside = frozenset(members)
        if members and members[-1] - members[0] + 1 == len(members):
            inside = range(members[0], members[-1] + 1)
        touched = dict.fromkeys([t for i in members for t in (*self.wires.reads[i], *self.wires.writes[i])])
        forward, backward, regather = self._collectives(members, inside, touched)
        work = np.ones(len(self.graph.layers))
        work[members] = self.work[members]
        fractions, split, sums, carved = self._parameters(members)
        return ShardedLayers(
            layers=layers,
            work=work,
            split=self.split,
            parameter_fraction=fractions,
            parameter_axes=split,
            partial_sums=sums,
            carved=carved,
            tensor_fraction={self.graph.tensors[t].name: self.rest[t].share for t in touched},
            forward=forward,
            backward=backward,
            regather=regather,
            tensor_share=self.tensor_share,
            notes=tuple(dict.fromkeys(note for i in members for note in self.plans[i].notes)),
        )

    def _collectives(
        self, members: Sequence[int], inside: Inside, touched: Iterable[int]
    ) -> tuple[tuple[Collective, ...], ...]:
        if not self.axes:
            return (), (), ()
        ways = _Messages([], [], [])
        for i in members:
            plan = self.plans[i]
            if plan.forward or plan.backward:
                ways.forward.extend([self._inside(i, exchange) for exchange in plan.forward])
                needed = any(self.wires.needs_gradient[t] for t in self.wires.reads[i])
                # a halo of output gradients makes the input gradient: without one nothing is sent
                back = [item for item in plan.backward if needed or item.op != "halo"]
                ways.backward.extend([self._inside(i, exchange) for exchange in back])
        for t in touched:
            found = self._closed_messages(t) if self._is_closed(t, inside) else self._open_messages(t, inside)
            if found:
                for way, messages in zip(ways, found, strict=True):
                    way.extend(messages)
        ways.forward.sort(key=_layer_of)
        ways.backward.sort(key=_layer_of, reverse=True)
        ways.regather.sort(key=_layer_of, reverse=True)
        return tuple(tuple([item.collective for item in way]) for way in ways)

    def _is_closed(self, t: int, inside: Inside) -> bool:
        """Tell whether all layers that touch a tensor are inside."""
        first, last = self.wires.span[t]
        if isinstance(inside, range):
            return first in inside and last in inside
        return first in inside and all(layer in inside for layer, _ in self.wires.readers[t])

    def _closed_messages(self, t: int) -> _Messages | None:
        """Return the messages of a tensor with all its layers inside, computed once for repeated blocks."""
        if t in self._closed:
            return self._closed[t]
        wires, plans, savers = self.wires, self.plans, self.savers.get(t, ())
        first = wires.span[t][0]
        pattern = (
            id(plans[first]),
            wires.writes[first].index(t),
            wires.needs_gradient[t],
            tuple(
                [
                    (layer - first, id(plans[layer]), k, wires.carries[layer], layer in savers)
                    for layer, k in wires.readers[t]
                ]
            ),
        )
        if (known := self._patterns.get(pattern)) is None:
            known = self._patterns[pattern] = (first, self._traffic(t, range(len(plans))))
        self._closed[t] = self._named(t, known[1], first - known[0])
        return self._closed[t]

    def _open_messages(self, t: int, inside: Inside) -> _Messages | None:
        """Return the messages of a tensor that crosses the border of the stage."""
        return self._named(t, self._traffic(t, inside), 0)

    def _traffic(self, t: int, inside: Inside) -> Traffic:
        saved_by = self.savers.get(t, ())
        return traffic(self.wires, self.plans, self.rest, self.axes, t, inside, saved_by)

    def _named(self, t: int, sent: Traffic, shift: int) -> _Messages | None:
        if not (sent.forward or sent.backward):
            return None
        return _Messages(*([self._message(t, item, shift) for item in way] for way in sent))

    def _message(self, t: int, sent: Sent, shift: int) -> _Message:
        axis, tensor = self.axes[sent.step.axis], self.graph.tensors[t]
        layer, elements = self.graph.layers[sent.layer + shift].name, self.elements[t] * sent.step.buffer
        elements *= axis.stretch if sent.step.op in _PASSED_ON else 1.0
        return _Message(
            sent.layer + shift,
            Collective(sent.step.op, axis.name, tensor.name, layer, elements, tensor.dtype, axis.size),
        )

    def _inside(self, i: int, exchange: Exchange) -> _Message:
        layer, axis = self.graph.layers[i], self.axes[exchange.axis]
        first = layer.reads[0].name if layer.reads else ""
        elements = exchange.elements * (axis.stretch if exchange.op in _PASSED_ON else 1.0)
        return _Message(
            i,
            Collective(exchange.op, axis.name, first, layer.name, elements, exchange.dtype, axis.size),
        )

    def _parameters(
        self, members: Sequence[int]
    ) -> tuple[
        dict[str, float], dict[str, tuple[str, ...]], dict[str, tuple[tuple[str, int], ...]], dict[str, float]
    ]:
        held: dict[str, Held] = {}
        carved: dict[str, float] = {}
        for i in members:
            fewer = self.fewer_replicas[self.groups[i]] if self.axes else 1.0
            for use, item in zip(self.graph.layers[i].parameters, self.plans[i].parameters, strict=True):
                held[use.name] = _joined(held[use.name], item) if use.name in held else item
                if fewer != 1.0:
                    carved[use.name] = fewer
        trainable = self.graph.parameter
        return (
            {name: item.fraction for name, item in held.items()},
            {name: item.axes for name, item in held.items()},
            {name: item.sums for name, item in held.items() if item.sums and trainable[name].trainable},
            carved,
        )


def _split(graph: LayerGraph, plans: Sequence[LayerPlan]) -> FloatArray:
    """Return the shares of batch, columns and depth of each layer's products, shape (3, layers)."""
    known: dict[tuple[int, int], tuple[float, float, float]] = {}
    found = []
    for product, plan in zip(contractions(graph), plans, strict=True):
        if product is None or not plan.pieces:
            found.append((1.0, 1.0, 1.0))
            continue
        key = (id(product), id(plan))
        if key not in known:
            known[key] = product.shares(plan.pieces)
        found.append(known[key])
    shares = np.array(found).T.copy()
    shares.flags.writeable = False
    return shares


def _fewer_replicas(group: TemplateGroup, axes: Sequence[Axis]) -> float:
    """Divide the stage's replicas by those of a group on the same devices: axes it has over axes it lacks."""
    taken = math.prod(axes[i].size for i in group.own if axes[i].carved)
    given = math.prod(axis.size for i, axis in enumerate(axes) if not axis.carved and i not in group.own)
    return taken / given


def _joined(one: Held, other: Held) -> Held:
    """Join two layers' holdings of one parameter: split only if both split it, else whole."""
    if one == other:
        return one
    common = tuple(axis for axis in one.axes if axis in other.axes)
    fraction = max(one.fraction, other.fraction) if common else 1.0
    return Held(fraction, common, tuple(dict.fromkeys((*one.sums, *other.sums))))


def _groups(request: Request) -> tuple[TemplateGroup, list[TemplateGroup], tuple[Axis, ...]]:
    """Return the stage's group, one per override, and all mesh axes: the stage's, then those carved out."""
    uneven = {(name, len(shares)): (shares, place) for name, shares, place in request.uneven}

    def axis_of(name: str, size: int) -> Axis:
        shares, place = uneven.get((name, size), ((), 0))
        return Axis(name=name, size=size, shares=shares, place=place)

    axes = [axis_of(name, size) for name, size in request.sizes]
    base = TemplateGroup(request.layout, frozenset(range(len(axes))))
    by_override = []
    for item in request.overrides:
        own = []
        for name, size in request.sizes if item.sizes is None else item.sizes:
            if size > 1:
                axis = axis_of(name, size)
                if axis not in axes:
                    axis = Axis(name=name, size=size, carved=True)
                if axis not in axes:
                    axes.append(axis)
                own.append(axes.index(axis))
        by_override.append(TemplateGroup(item.layout, frozenset(own)))
    return base, by_override, tuple(axes)


def _group_of_layers(
    graph: LayerGraph,
    base: TemplateGroup,
    overrides: Sequence[Override],
    by_override: Sequence[TemplateGroup],
) -> list[TemplateGroup]:
    if not overrides:
        return [base] * len(graph.layers)
    pairs = list(zip(overrides, by_override, strict=True))

    def group_of(name: str) -> TemplateGroup:
        matching = (g for item, g in pairs if any(fnmatchcase(name, pattern) for pattern in item.layers))
        return next(matching, base)

    return [group_of(layer.name) for layer in graph.layers]


def _indices(graph: LayerGraph, layers: Sequence[str]) -> list[int]:
    index = graph.index
    try:
        return sorted([index[name] for name in layers])
    except KeyError as error:
        raise InputError(
            f"unknown layer {error.args[0]!r}",
            key="layers",
            found=error.args[0],
            allowed=f"a layer of {graph.name!r}",
        ) from None


def _savers(graph: LayerGraph) -> dict[int, frozenset[int]]:
    """Map each saved tensor to the layers that save it."""

    def make() -> dict[int, frozenset[int]]:
        position = {tensor.name: i for i, tensor in enumerate(graph.tensors)}
        found: dict[int, set[int]] = {}
        for i, layer in enumerate(graph.layers):
            for name in layer.saves:
                if name in position:
                    found.setdefault(position[name], set()).add(i)
        return {t: frozenset(layers) for t, layers in found.items()}

    return graph.memo("sharding.savers", make)
