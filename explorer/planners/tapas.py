"""TAPAS: shardings of layers found once for all blocks that are alike.

The graph is folded (`folding`): blocks that repeat along the model become one, whose patterns of split and
replicated weights are searched once and serve all of them (Shi et al., 2023). Costs of a pattern are those of
its layers and of the re-sharding between them, inside of a block, from one block to the next, and to what is
outside. The paper enumerates patterns and drops those that do not fit together; here a program over the
vertices of the folded graph finds the best of them all (`pase`), which takes as long for two blocks as for a
hundred.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.planners._pieces.folding import folded
from explorer.planners._pieces.layer_meshes import (
    AXES,
    by_microbatch,
    layer_mesh,
    shapes,
    strategy_of_options,
)
from explorer.planners.pase import least_total
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategy import Strategy


@SEARCHERS.add(
    Searcher(
        name="tapas",
        title="Shardings of layers, the same for all blocks that are alike",
        paper="Shi et al., TAPAS: Fast and Automatic Derivation of Tensor Parallel Strategies for Large"
        " Neural Networks, 2023",
        options=(AXES,),
        space=Space(words="dimensions x mesh axes, unique layer by unique layer"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def tapas(problem: Problem, evaluator: Evaluator, *, axes: int) -> Iterator[Candidate | None]:
    """Find the best patterns of the unique blocks on each mesh, and have them judged.

    Raises:
        InputError: there is no cluster, or unique layers depend on each other in too many ways.
    """

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        for shape in shapes(problem, axes):
            mesh = layer_mesh(problem, shape, size)
            whole = folded(mesh.costs)
            yield None
            for found in least_total(whole.costs):
                if found is None:
                    yield None
                    continue
                words = f"{whole.costs.count} of {len(whole.of)} layers on {mesh.label} devices"
                chosen = whole.spread(found.chosen)
                yield strategy_of_options(problem, mesh, chosen), f"{words}, microbatches of {size}"

    yield from by_microbatch(problem, evaluator, plans)
