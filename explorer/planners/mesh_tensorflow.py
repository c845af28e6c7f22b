"""Mesh-TensorFlow's layouts: every named dimension of the model on at most one mesh axis, by integer program.

A layout is one map for the whole model, from names of dimensions (the batch is one) to axes of the mesh, with
no two dimensions of a layer on the same axis (Shazeer et al., NeurIPS 2018). With binaries g(d, m) that
dimension d is on axis m, and for every set S of names that meet in a layer or between two of them the share
l(S, a) of each legal map a of these names:

    minimise   sum over S, a of  cost(S, a) l(S, a)
    sum over m of g(d, m) <= 1                      a dimension is on one axis, or on none
    sum over a of l(S, a) = 1
    sum over a with a(d) = m of l(S, a) = g(d, m)    every part takes the one layout

Costs are seconds of a step: of layers that have the names S and the collectives in them, and of tensors
between layers that have them together. As every l follows from g, only g are integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.planners._pieces.integer_program import least
from explorer.planners._pieces.layer_meshes import (
    AXES,
    LayerMesh,
    by_microbatch,
    layer_mesh,
    shapes,
    strategy_of_choices,
)
from explorer.schedules._milp_program import Program
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.sharding.derive import ALIGNED
from explorer.strategy import Strategy

BATCH, HEADS = "batch", "heads"
"""Names of the samples, and of all kinds of attention heads, which are split together."""
Layout = tuple[tuple[str, int], ...]
"""(name, axis) of the names that are on an axis, by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayoutCosts:
    """What every legal map of every set of names costs."""

    axes: int
    """Number of mesh axes."""
    costs: Mapping[frozenset[str], Mapping[Layout, float]]
    """By set of names: seconds of a step of each legal map."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(set().union(*self.costs)))

    def total_s(self, layout: Layout) -> float | None:
        """Return the seconds of a layout of all names; None if it is not legal."""
        seconds = 0.0
        for names, costs in self.costs.items():
            own = restricted(layout, names)
            if own not in costs:
                return None
            seconds += costs[own]
        return seconds


@SEARCHERS.add(
    Searcher(
        name="mesh_tensorflow",
        title="One layout of named dimensions for the whole model, by integer program",
        paper="Shazeer et al., Mesh-TensorFlow: Deep Learning for Supercomputers, NeurIPS 2018",
        options=(AXES,),
        space=Space(words="named dimensions x mesh axes"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def mesh_tensorflow(problem: Problem, evaluator: Evaluator, *, axes: int) -> Iterator[Candidate | None]:
    """Find the best layout on each mesh, and have it judged.

    Raises:
        InputError: there is no cluster.
    """

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        for shape in shapes(problem, axes):
            mesh = layer_mesh(problem, shape, size)
            yield None
            rules = LayoutRules(problem, mesh)
            layout = best_layout(rules.costs())
            words = ", ".join(f"{name} over {shape[axis][0]}" for name, axis in layout) or "nothing split"
            label = f"{words} of {mesh.label} devices, microbatches of {size}"
            yield strategy_of_choices(problem, mesh, rules.chosen(layout)), label

    yield from by_microbatch(problem, evaluator, plans)


def best_layout(given: LayoutCosts) -> Layout:
    """Return the layout of least cost.

    Raises:
        InputError: no layout is legal.
    """
    program, places = _program(given)
    values = least(program)
    return tuple(item for item, column in places.items() if round(values[column]))


def _program(given: LayoutCosts) -> tuple[Program, dict[tuple[str, int], int]]:
    """Return the integer program and the columns of (name, axis)."""
    program = Program()
    # in units of the dearest part: the solver's tolerances are absolute
    unit = max((abs(cost) for costs in given.costs.values() for cost in costs.values()), default=0.0) or 1.0
    total = program.column(0.0, 1e9)
    places = {
        (name, axis): program.column(0.0, 1.0, binary=True)
        for name in given.names
        for axis in range(given.axes)
    }
    for name in given.names:
        program.at_least(-1.0, *((places[name, axis], -1.0) for axis in range(given.axes)))
    paid: list[tuple[int, float]] = []
    for names, costs in given.costs.items():
        shares = {layout: program.column(0.0, 1.0) for layout in costs}
        paid += [(column, -costs[layout] / unit) for layout, column in shares.items()]
        program.exactly(1.0, *((column, 1.0) for column in shares.values()))
        for name, axis in itertools.product(sorted(names), range(given.axes)):
            own = [(column, 1.0) for layout, column in shares.items() if (name, axis) in layout]
            program.exactly(0.0, *own, (places[name, axis], -1.0))
    program.at_least(0.0, (total, 1.0), *paid)
    return program, places


def restricted(layout: Layout, names: frozenset[str]) -> Layout:
    """Return the part of a layout that is about some names."""
    return tuple(item for item in layout if item[0] in names)


def legal_layouts(names: Sequence[str], axes: int) -> Iterator[Layout]:
    """Yield every map of names to axes with at most one name on an axis and one axis for a name."""
    for chosen in itertools.product((None, *names), repeat=axes):
        placed = [(name, axis) for axis, name in enumerate(chosen) if name is not None]
        if len({name for name, _ in placed}) == len(placed):
            yield tuple(sorted(placed))


class LayoutRules:
    """Layouts of a model on a mesh: which are legal for a layer, what they cost, what layers choose by them.

    Args:
        problem: the search problem.
        mesh: the mesh, with what its layers may choose.
    """

    def __init__(self, problem: Problem, mesh: LayerMesh) -> None:
        self.mesh, self.axes = mesh, mesh.stage.meshes[0].axes
        dims = [[dim.name for dim in layer.dims if dim.splittable] for layer in problem.graph.layers]
        self.together = tuple(name for name in dict.fromkeys(itertools.chain(*dims)) if name in ALIGNED)
        self.own = [frozenset({BATCH, *(HEADS if name in ALIGNED else name for name in x)}) for x in dims]
        self.number = {(frozenset(c.layout), c.axes): k for k, c in enumerate(mesh.choices)}

    def costs(self) -> LayoutCosts:
        """Return what every legal map of every set of names costs."""
        first, options = self.mesh.table.layers.first_plan, []
        legal = {names: self._legal(names) for names in set(self.own)}
        costs = {names: dict.fromkeys(maps, 0.0) for names, maps in legal.items()}
        for layer, names in enumerate(self.own):
            place = {first(layer, int(k)): option for option, k in enumerate(self.mesh.options[layer])}
            options.append({layout: place[first(layer, k)] for layout, k in legal[names].items()})
            for layout, option in options[layer].items():
                costs[names][layout] += float(self.mesh.costs.seconds[layer][option])
        for (u, v), table in self.mesh.costs.edges.items():
            meet, shared = self.own[u] | self.own[v], self.own[u] & self.own[v]
            into = costs.setdefault(meet, {})
            for (a, i), (b, j) in itertools.product(options[u].items(), options[v].items()):
                layout = tuple(sorted({*a, *b}))
                agree = restricted(a, shared) == restricted(b, shared)
                if agree and (meet not in legal or layout in legal[meet]):
                    into[layout] = into.get(layout, 0.0) + float(table[i, j])
        return LayoutCosts(axes=len(self.axes), costs=costs)

    def chosen(self, layout: Layout) -> list[int]:
        """Return every layer's choice under a layout of all names."""
        return [self.number[self._choice(restricted(layout, names))] for names in self.own]

    def _legal(self, names: frozenset[str]) -> dict[Layout, int]:
        """Return the choice of a layer under every map of its names that it allows."""
        maps = {layout: self._choice(layout) for layout in legal_layouts(sorted(names), len(self.axes))}
        return {layout: self.number[key] for layout, key in maps.items() if key in self.number}

    def _choice(self, layout: Layout) -> tuple[frozenset[tuple[str, str]], tuple[str, ...] | None]:
        """Return a layer's layout and mesh axes under a map of its names."""
        on = {axis: name for name, axis in layout}
        placed = {
            (dim, self.axes[axis][0])
            for axis, name in on.items()
            if name != BATCH
            for dim in (self.together if name == HEADS else (name,))
        }
        kept = tuple(axis for k, (axis, _) in enumerate(self.axes) if on.get(k) != BATCH)
        return frozenset(placed), None if len(kept) == len(self.axes) else kept
