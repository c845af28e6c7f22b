"""PaSE: the shardings of layers of least total cost, by dynamic programming over an order of vertices.

    F(phi) = sum over v of t(v, phi_v)  +  sum over (u, v) of x(u, v, phi_u, phi_v)

Every layer splits its iteration dimensions over the axes of a mesh; x are the seconds to re-shard what lies
between two layers. Vertices are settled by smallest dependent set (`vertex_order`):

    R(v, phi of D(v))  =  min over phi_v of  t(v, phi_v) + x to neighbours in D(v) + R of those settled on v

(Elango, IPDPS 2021). Its complexity is that of the largest table, K^(M + 1) for K choices and M vertices in a
dependent set. The paper has one batch a step and no pipeline; microbatches are taken where one does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from explorer.planners._pieces.choice_graph import ChoiceGraph, FloatArray, IntArray
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


class Shardings(NamedTuple):
    """An option for every vertex, and their total cost."""

    seconds: float
    chosen: tuple[int, ...]


class Factor(NamedTuple):
    """Part of the cost that depends on the choices of a few vertices."""

    of: tuple[int, ...]
    """Vertices, ascending."""
    table: FloatArray
    """An axis for each of them."""


@SEARCHERS.add(
    Searcher(
        name="pase",
        title="Shardings of layers of least total cost, by a program over an order of vertices",
        paper="Elango, PaSE: Parallelization Strategies for Efficient DNN Training, IPDPS 2021",
        options=(AXES,),
        space=Space(words="dimensions x mesh axes, layer by layer"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def pase(problem: Problem, evaluator: Evaluator, *, axes: int) -> Iterator[Candidate | None]:
    """Find the best shardings on each mesh, and have them judged.

    Raises:
        InputError: there is no cluster, or layers depend on each other in too many ways.
    """

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        for shape in shapes(problem, axes):
            mesh = layer_mesh(problem, shape, size)
            yield None
            for found in least_total(mesh.costs):
                if found is None:
                    yield None
                    continue
                label = f"layers on {mesh.label} devices, microbatches of {size}"
                yield strategy_of_options(problem, mesh, found.chosen), label

    yield from by_microbatch(problem, evaluator, plans)


def least_total(costs: ChoiceGraph) -> Iterator[Shardings | None]:
    """Yield None while working, then the options of least total cost.

    Raises:
        InputError: a table would have too many entries.
    """
    sizes = [len(own) for own in costs.seconds]
    factors = [Factor((v,), own) for v, own in enumerate(costs.seconds)]
    factors += [Factor((u, v), x) if u < v else Factor((v, u), x.T) for (u, v), x in costs.edges.items()]
    order = checked(vertex_order(sizes, costs.edges), sizes)
    best: list[IntArray] = []
    for v, dependent in order:
        own = [factor for factor in factors if v in factor.of]
        factors = [factor for factor in factors if v not in factor.of]
        axes = (*dependent, v)
        table = np.zeros([sizes[u] for u in axes])
        for factor in own:
            table += _spread(factor, axes)
        best.append(table.argmin(axis=-1))
        factors.append(Factor(dependent, table.min(axis=-1)))
        yield None
    chosen = [0] * len(sizes)
    for (v, dependent), table_of in zip(reversed(order), reversed(best), strict=True):
        chosen[v] = int(table_of[tuple([chosen[u] for u in dependent])])
    yield Shardings(sum(float(factor.table) for factor in factors), tuple(chosen))


def _spread(factor: Factor, axes: tuple[int, ...]) -> FloatArray:
    """Return a table with an axis for each of some vertices, of length 1 where it does not depend on one."""
    order = sorted(range(len(factor.of)), key=lambda k: axes.index(factor.of[k]))
    table = factor.table.transpose(order)
    return table.reshape(
        [table.shape[order.index(factor.of.index(u))] if u in factor.of else 1 for u in axes]
    )
