"""Sharded layers of a stage: a graph is resolved once per layout, and stages are cut out of it.

A search moves stage boundaries thousands of times under few layouts. What depends only on the layout is
therefore kept (`GraphSharding`), and a stage adds up what its layers and the tensors that cross its border
need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

import numpy as np

from explorer.base.caching import remembered
from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.matrix_products import Contraction, contractions
from explorer.sharding.assign import Assignment, assign
from explorer.sharding.holdings import holdings
from explorer.sharding.layer_plan import Exchange, TemplateGroup, left_out
from explorer.sharding.result import BoolArray, FloatArray, IntArray, Kind, Override, Sends, ShardedLayers
from explorer.sharding.sends import Rows
from explorer.sharding.states import Axis
from explorer.sharding.tensor_classes import tensor_classes
from explorer.sharding.tensor_plans import PASSED_ON, TensorPlans, kind_of_step, plan_tensors
from explorer.sharding.traffic import Rest, rest_of, traffic
from explorer.sharding.wiring import Wiring, wiring

Uneven: TypeAlias = tuple[tuple[str, tuple[float, ...], int], ...]
"""(mesh axis, share of each device along it, the device to look at) per axis with unequal shares."""

PATTERNS_KEPT = 4096
"""Layer names and patterns of exceptions whose layers are remembered."""


class Request(NamedTuple):
    """A layout with its mesh axes and exceptions: the key of a `GraphSharding`."""

    layout: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[str, int], ...]
    overrides: tuple[Override, ...]
    uneven: Uneven = ()


class Arrangement(NamedTuple):
    """Which layout each layer of a graph has."""

    groups: tuple[TemplateGroup, ...]
    """Different layouts and meshes."""
    group_of: IntArray
    """Which of them each layer has."""
    axes: tuple[Axis, ...]
    """All mesh axes."""


def arrange(graph: LayerGraph, request: Request) -> Arrangement:
    """Return which layout each layer has under a request."""
    groups, axes = groups_of(request)
    return Arrangement(groups, _group_of_layers(graph, request.overrides), axes)


class GraphSharding:
    """A whole graph under one layout; `cut` makes the `ShardedLayers` of some of its layers.

    Everything is worked out for distinct layers and tensors and handed to the others by arrays, so that a
    layout costs what its distinct layers cost, and what an earlier one had in common is not made again.
    """

    def __init__(self, graph: LayerGraph, wanted: Request | Arrangement) -> None:
        found = wanted if isinstance(wanted, Arrangement) else arrange(graph, wanted)
        self.graph, self.wires = graph, wiring(graph)
        self._groups, self._group_of, self.axes = found
        self.assigned = assign(graph, self._groups, self._group_of, self.axes)
        self.plans = [self.assigned.plans[n] for n in self.assigned.of.tolist()]
        self.split, self._alike = _split(graph, self.assigned)
        self.work = np.array([plan.work for plan in self.assigned.plans])[self.assigned.of]
        self.tensors: TensorPlans | None = None
        self.tensor_share = np.ones(len(graph.tensors))
        if self.axes:
            self.tensors = plan_tensors(graph, self.assigned, self.plans, self.axes)
            self.tensor_share = np.array([plan.rest.share for plan in self.tensors.plans])[self.tensors.of]
        elif self.work.max(initial=1.0) > 1.0:  # experts that are padded compute more rows than there are
            self.tensor_share = np.array([self.rest(t).share for t in range(len(graph.tensors))])

    def group(self, layer: int) -> TemplateGroup:
        """Return the layout and mesh of a layer."""
        return self._groups[int(self._group_of[layer])]

    def rest(self, tensor: int) -> Rest:
        """Return a tensor as it is between its writer and its readers."""
        if self.tensors is None:
            return rest_of(self.wires, self.plans, tensor, self.graph.tensors[tensor].shape, ())
        return self.tensors.plans[int(self.tensors.of[tensor])].rest

    def cut(self, layers: tuple[str, ...]) -> ShardedLayers:
        """Return the `ShardedLayers` of `layers`.

        Raises:
            InputError: a name that is not a layer of the graph.
        """
        members = _indices(self.graph, layers)
        whole = len(members) == len(self.graph.layers)
        touched = self._touched() if whole else self._touched_by(members)
        kinds, sends = self._collectives(members, touched, whole=whole)
        work = self.work
        if not whole:
            work = np.ones(len(self.graph.layers))
            work[members] = self.work[members]
        fewer = [_fewer_replicas(group, self.axes) if self.axes else 1.0 for group in self._groups]
        return ShardedLayers(
            graph=self.graph,
            layers=layers,
            work=work,
            split=self.split,
            tensor_share=self.tensor_share,
            alike=self._alike if whole else None,
            touched=touched,
            kinds=kinds,
            sends=sends,
            holdings=holdings(
                self.graph, self.assigned, np.array(fewer)[self._group_of], None if whole else members
            ),
            notes=self._notes(members),
        )

    def _notes(self, members: IntArray) -> tuple[str, ...]:
        numbers, first = np.unique(self.assigned.of[members], return_index=True)
        plans = [self.assigned.plans[n] for n in numbers[np.argsort(first)].tolist()]
        return tuple(dict.fromkeys([note for plan in plans for note in plan.notes]))

    def _touched(self) -> IntArray:
        """Return the tensors that layers touch, in their order."""
        place = tensor_classes(self.graph).place
        return np.argsort(place, kind="stable")[: np.count_nonzero(place < place.max(initial=0) + 1)]

    def _touched_by(self, members: IntArray) -> IntArray:
        reads, writes = self.wires.reads, self.wires.writes
        return np.array(
            list(dict.fromkeys([t for i in members.tolist() for t in (*reads[i], *writes[i])])),
            dtype=np.int64,
        )

    # ---- collectives ------------------------------------------------------------------------------

    def _collectives(
        self, members: IntArray, touched: IntArray, *, whole: bool
    ) -> tuple[tuple[Kind, ...], tuple[Sends, Sends, Sends]]:
        rows = Rows(len(self.graph.tensors))
        if self.tensors is not None:
            self._add_inside(rows, members)
            place = np.zeros(len(self.graph.tensors), dtype=np.int64)
            place[touched] = np.arange(len(touched))
            if whole:
                self._add_closed(rows, self.tensors, touched, place)
            else:
                self._add_cut(rows, self.tensors, frozenset(members.tolist()), touched, place)
        return rows.sorted()

    def _add_inside(self, rows: Rows, members: IntArray) -> None:
        """Add the collectives inside layers."""
        needed, first = reads_of(self.graph)
        own = self.assigned.of[members]
        for number, plan in enumerate(self.assigned.plans):
            if not (plan.forward or plan.backward):
                continue
            layers = members[own == number]
            for turn, item in enumerate(plan.forward):
                rows.add(0, kind_of_exchange(item, self.axes), turn, layers, first[layers])
            for turn, item in enumerate(plan.backward):
                # a halo of output gradients makes the input gradient: without one nothing is sent
                back = layers if item.op != "halo" else layers[needed[layers]]
                rows.add(1, kind_of_exchange(item, self.axes), turn, back, first[back])
            for turn, item in enumerate(plan.again):
                rows.add(2, kind_of_exchange(item, self.axes), turn, layers, first[layers])

    def _add_closed(self, rows: Rows, found: TensorPlans, tensors: IntArray, place: IntArray) -> None:
        """Add the collectives of tensors whose layers are all inside."""
        classes, own = tensor_classes(self.graph), found.of[tensors]
        for number, plan in enumerate(found.plans):
            if not any(plan.ways):
                continue
            mine = tensors[own == number]
            for way, messages in enumerate(plan.ways):
                for turn, (ordinal, kind) in enumerate(messages):
                    rows.add(way, kind, turn, classes.layers_of(mine, ordinal), mine, place[mine])

    def _add_cut(
        self, rows: Rows, found: TensorPlans, inside: frozenset[int], touched: IntArray, place: IntArray
    ) -> None:
        """Add the collectives of tensors of which some cross the border of the stage."""
        closed = np.array([self._is_closed(t, inside) for t in touched.tolist()], dtype=bool)
        self._add_closed(rows, found, touched[closed], place)
        classes = tensor_classes(self.graph)
        for t in touched[~closed].tolist():
            sent = traffic(self.wires, self.plans, {t: self.rest(t)}, self.axes, t, inside, classes.savers[t])
            tensor, kind = np.array([t]), classes.classes[classes.of[t]]
            for way, items in enumerate(sent):
                for turn, item in enumerate(items):
                    made = kind_of_step(item, kind, self.axes)
                    rows.add(way, made, turn, np.array([item.layer]), tensor, place[tensor])

    def _is_closed(self, t: int, inside: frozenset[int]) -> bool:
        """Tell whether all layers that touch a tensor are inside."""
        source = self.wires.writer[t]
        return (
            source is not None and source[0] in inside and all(i in inside for i, _ in self.wires.readers[t])
        )


def kind_of_exchange(item: Exchange, axes: Sequence[Axis]) -> Kind:
    """Return the collective that a layer's exchange is."""
    axis = axes[item.axis]
    elements = item.elements * (axis.stretch if item.op in PASSED_ON else 1.0)
    return item.op, axis.name, axis.size, elements, item.dtype


def reads_of(graph: LayerGraph) -> tuple[BoolArray, IntArray]:
    """Return per layer whether anything it reads has a gradient, and the first tensor it reads (-1: none)."""
    return graph.memo("sharding.reads", lambda: _reads(wiring(graph)))


def _reads(wires: Wiring) -> tuple[BoolArray, IntArray]:
    return (
        np.array([any(wires.needs_gradient[t] for t in read) for read in wires.reads], dtype=bool),
        np.array([read[0] if read else -1 for read in wires.reads], dtype=np.int64),
    )


def _split(graph: LayerGraph, assigned: Assignment) -> tuple[FloatArray, IntArray]:
    """Return the shares of batch, columns and depth of each layer's products, shape (3, layers), and a number
    per layer that tells its products and plan.
    """
    products, product_of = graph.memo("sharding.products", lambda: _products(graph))
    pairs = product_of * len(assigned.plans) + assigned.of
    distinct, pair_of = np.unique(pairs, return_inverse=True)
    found = []
    for pair in distinct.tolist():
        number, plan = divmod(pair, len(assigned.plans))
        product, pieces = products[number], assigned.plans[plan].pieces
        found.append(product.shares(pieces) if product is not None and pieces else (1.0, 1.0, 1.0))
    shares = np.array(found)[pair_of].T.copy()
    shares.flags.writeable = False
    return shares, pair_of


def _products(graph: LayerGraph) -> tuple[tuple[Contraction | None, ...], IntArray]:
    """Return the different matrix products of a graph, and which each layer has."""
    every = contractions(graph)
    numbers: dict[int, int] = {}
    product_of = [numbers.setdefault(id(product), len(numbers)) for product in every]
    found = dict(zip(product_of, every, strict=True))
    return tuple([found[n] for n in range(len(numbers))]), np.array(product_of, dtype=np.int64)


def _fewer_replicas(group: TemplateGroup, axes: Sequence[Axis]) -> float:
    """Divide the stage's replicas by those of a group on the same devices: axes it has over axes it lacks.

    Replicas inside the stage's own (`left_out`) are not counted: they are sums over an axis, like those of
    context parallelism.
    """
    if left_out(group, axes):
        return 1.0
    taken = math.prod(axes[i].size for i in group.own if axes[i].carved)
    given = math.prod(axis.size for i, axis in enumerate(axes) if not axis.carved and i not in group.own)
    return taken / given


def groups_of(request: Request) -> tuple[tuple[TemplateGroup, ...], tuple[Axis, ...]]:
    """Return the stage's group and one per override; all mesh axes: the stage's, then those carved out."""
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
    return (base, *by_override), tuple(axes)


def _group_of_layers(graph: LayerGraph, overrides: Sequence[Override]) -> IntArray:
    """Return the group of each layer: 0 for the stage's own, else the first override that covers it."""
    found = np.zeros(len(graph.layers), dtype=np.int64)
    for number, item in reversed(list(enumerate(overrides, start=1))):
        for pattern in item.layers:
            found[list(_matching(graph, pattern))] = number
    return found


@remembered(PATTERNS_KEPT)
def _matching(graph: LayerGraph, pattern: str) -> tuple[int, ...]:
    """Return the positions of the layers that a name or shell pattern covers."""
    if not set(pattern) & set("*?["):
        return (graph.index[pattern],) if pattern in graph.index else ()
    return tuple([i for i, layer in enumerate(graph.layers) if fnmatchcase(layer.name, pattern)])


def _indices(graph: LayerGraph, layers: Sequence[str]) -> IntArray:
    index = graph.index
    try:
        return np.array(sorted([index[name] for name in layers]), dtype=np.int64)
    except KeyError as error:
        raise InputError(
            f"unknown layer {error.args[0]!r}",
            key="layers",
            found=error.args[0],
            allowed=f"a layer of {graph.name!r}",
        ) from None
