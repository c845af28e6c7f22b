"""TensorOpt: all trade-offs of seconds and bytes that shardings of layers offer, by frontier tracking.

Where PaSE keeps the least seconds of a partial solution, a cell here keeps the frontier of (seconds, bytes):
a vertex is eliminated by the product of the frontiers that depend on it (sums of costs), the union over its
choices, and leaving out what is dominated (Cai et al., TPDS 2021: node and edge elimination, then LDP).

    F(phi of D(v))  =  undominated union over phi_v of  F(v, phi_v) x X(u, v) x ... x F of those settled on v

Parts of the model that are alike are eliminated once. A frontier with more points than `points` is thinned,
its ends included; with none thinned it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from explorer.base.registry import Option
from explorer.planners._pieces.choice_graph import ChoiceGraph, FloatArray, IntArray
from explorer.planners._pieces.fronts import Fronts, product, room_for, thinned, union
from explorer.planners._pieces.layer_meshes import (
    AXES,
    by_microbatch,
    layer_mesh,
    shapes,
    strategy_of_options,
)
from explorer.planners._pieces.vertex_order import checked, vertex_order
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategy import Strategy


class TradeOff(NamedTuple):
    """One point of the frontier."""

    seconds: float
    held_bytes: float
    chosen: tuple[int, ...]
    """Option of each vertex."""


class Join(NamedTuple):
    """A frontier that was added to others, and how to come back from a point of the sums."""

    origin: IntArray
    """Pair of points that each point is."""
    width: int
    """Points of the frontier that was added."""
    left: IntArray | None
    """Numbers of the points of the others that were left where they met; None for all."""
    right: IntArray | None
    """The same of the frontier that was added."""


class Worked(NamedTuple):
    """A vertex eliminated: the frontiers that are left, over its dependent set by position."""

    table: Fronts
    joins: tuple[Join, ...]
    origin: IntArray
    """Choice of the vertex and point there that each point is."""
    points: int
    """Points before the union."""


class Settled(NamedTuple):
    """A vertex with what it was eliminated from."""

    vertex: int
    dependent: tuple[int, ...]
    work: Worked
    parts: tuple[Settled, ...]


@SEARCHERS.add(
    Searcher(
        name="tensoropt",
        title="Frontier of time and memory over shardings of layers, by elimination",
        paper="Cai et al., TensorOpt: Exploring the Tradeoffs in Distributed DNN Training with"
        " Auto-Parallelism, TPDS 2021",
        options=(
            replace(AXES, default=1),
            Option(name="points", default=32, help="points of a frontier that are kept", minimum=2),
        ),
        space=Space(words="dimensions x mesh axes, layer by layer"),
        rigid=True,
        alone=True,
        together=True,
        objectives=("time", "memory"),
    )
)
def tensoropt(
    problem: Problem, evaluator: Evaluator, *, axes: int, points: int
) -> Iterator[Candidate | None]:
    """Find the frontier on each mesh, and have its points judged, the best by the objective first.

    Raises:
        InputError: there is no cluster, or layers depend on each other in too many ways.
    """
    by_bytes = problem.axes[0].name == "memory"

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        for shape in shapes(problem, axes):
            mesh = layer_mesh(problem, shape, size, memory=True)
            yield None
            for found in frontier(mesh.costs, points):
                if found is None:
                    yield None
                    continue
                for point in found if by_bytes else reversed(found):
                    held = point.held_bytes / 2**30
                    label = f"layers on {mesh.label} devices, {held:.3g} GiB, microbatches of {size}"
                    yield strategy_of_options(problem, mesh, point.chosen), label

    only_time = [axis.name for axis in problem.axes] == ["time"]
    yield from by_microbatch(problem, evaluator, plans, until_it_fits=only_time)


def frontier(costs: ChoiceGraph, points: int) -> Iterator[tuple[TradeOff, ...] | None]:
    """Yield None while working, then the undominated (seconds, bytes), by bytes.

    Args:
        costs: the graph.
        points: most points of a frontier; where one has more, evenly spread ones are kept.

    Raises:
        InputError: a table would have too many entries.
    """
    sizes = [len(own) for own in costs.seconds]
    edges, left = dict(costs.edges), list[Settled]()
    known: dict[object, tuple[Worked, object]] = {}
    for v, dependent in checked(vertex_order(sizes, edges), sizes):
        axes = (*dependent, v)
        pairs = {pair: edges.pop(pair) for pair in list(edges) if v in pair}
        parts = [item for item in left if v in item.dependent]
        left = [item for item in left if v not in item.dependent]
        places = [tuple([axes.index(u) for u in pair]) for pair in pairs]
        tables = [tuple([axes.index(u) for u in item.dependent]) for item in parts]
        objects = (costs.seconds[v], costs.held_bytes[v], *pairs.values(), *(item.work for item in parts))
        key = (tuple(map(id, objects)), tuple(places), tuple(tables), len(axes))
        if key not in known:  # the objects are kept with it, and so their identity
            alone = _alone(costs, v, [sizes[u] for u in axes], list(zip(places, pairs.values(), strict=True)))
            given = [item.work.table._replace(of=of) for item, of in zip(parts, tables, strict=True)]
            known[key] = (_worked(alone, given, points), objects)
        left.append(Settled(v, dependent, known[key][0], tuple(parts)))
        yield None
    nothing = Fronts((), np.zeros(1), np.zeros(1))
    whole, joins = _joined(nothing, [item.work.table for item in left], points)
    found = []
    for p in range(whole.points):
        chosen = _chosen(len(sizes), left, joins, p)
        found.append(TradeOff(float(whole.seconds[p]), float(whole.held[p]), chosen))
    yield tuple(found)


def _alone(
    costs: ChoiceGraph, v: int, shape: Sequence[int], pairs: Sequence[tuple[tuple[int, ...], FloatArray]]
) -> Fronts:
    """Return what a vertex and its edges cost: a point for each choice of it and its dependent set."""
    axes = tuple(range(len(shape)))
    seconds = np.zeros((*shape, 1)) + costs.seconds[v][:, None]
    for of, table in pairs:
        seconds += Fronts(of, table[..., None], table[..., None]).spread(axes).seconds
    return Fronts(axes, seconds, np.zeros((*shape, 1)) + costs.held_bytes[v][:, None])


def _worked(alone: Fronts, parts: Sequence[Fronts], points: int) -> Worked:
    table, joins = _joined(alone, parts, points)
    found, origin = union(table, points)
    return Worked(found, joins, origin, table.points)


def _joined(table: Fronts, parts: Sequence[Fronts], points: int) -> tuple[Fronts, tuple[Join, ...]]:
    """Return the product of frontiers."""
    joins = []
    for part in parts:
        most = room_for(table.seconds[..., 0].size, table.points, part.points)
        left = right = None
        if table.points > most:
            table, left = thinned(table, most)
        if part.points > most:
            part, right = thinned(part, most)  # noqa: PLW2901 - the same with fewer points
        step = product(table, part.spread(table.of), points)
        joins.append(Join(step.origin, part.points, left, right))
        table = step.found
    return table, tuple(joins)


def _chosen(count: int, last: Sequence[Settled], joins: Sequence[Join], p: int) -> tuple[int, ...]:
    """Return the options that a point of the whole frontier stands for."""
    chosen = [0] * count
    waiting = _split((), last, joins, p, chosen)
    while waiting:
        item, point = waiting.pop()
        cell = tuple([chosen[u] for u in item.dependent])
        chosen[item.vertex], point = divmod(int(item.work.origin[(*cell, point)]), item.work.points)
        waiting += _split((*cell, chosen[item.vertex]), item.parts, item.work.joins, point, chosen)
    return tuple(chosen)


def _split(
    cell: tuple[int, ...], parts: Sequence[Settled], joins: Sequence[Join], point: int, chosen: Sequence[int]
) -> list[tuple[Settled, int]]:
    """Return the points of the parts that a point of their product in a cell is made of."""
    found = []
    for part, join in zip(reversed(parts), reversed(joins), strict=True):
        point, other = divmod(int(join.origin[(*cell, point)]), join.width)
        if join.left is not None:
            point = int(join.left[(*cell, point)])
        if join.right is not None:
            other = int(join.right[(*(chosen[u] for u in part.dependent), other)])
        found.append((part, other))
    return found
