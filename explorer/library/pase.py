"""PaSE: shardings of layers by dynamic programming over an order of vertices with small dependent sets."""

from __future__ import annotations

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.vertex_order import vertex_order

LAYERS, BRANCHES, DEEP = 24, 4, 3


def _largest(count: int, edges: list[tuple[int, int]]) -> float:
    """Return the size of the largest dependent set."""
    return max(len(turn.dependent) for turn in vertex_order([8] * count, edges))


def _path() -> float:
    return _largest(LAYERS, [(i, i + 1) for i in range(LAYERS - 1)])


def _residual() -> float:
    """Return that of blocks of two layers, each with a connection past them."""
    near = [(i, i + 1) for i in range(LAYERS - 1)]
    return _largest(LAYERS, near + [(i, i + 3) for i in range(0, LAYERS - 3, 3)])


def _inception() -> float:
    """Return that of three modules, one after the other: four branches of three layers between two."""
    edges, last = list[tuple[int, int]](), 0
    for _ in range(3):
        join = last + BRANCHES * DEEP + 1
        for branch in range(BRANCHES):
            first = last + 1 + branch * DEEP
            edges += [(last, first), *((first + k, first + k + 1) for k in range(DEEP - 1))]
            edges.append((first + DEEP - 1, join))
        last = join
    return _largest(last + 1, edges)


@SYSTEMS.add(
    System(
        name="pase",
        title="Shardings of layers by a program over an order of vertices",
        paper="Elango, PaSE: Parallelization Strategies for Efficient DNN Training, IPDPS 2021",
        year=2021,
        uses=Uses(searchers=("pase",), options=("layouts by layer",)),
        claims=(
            Claim(
                text=f"the largest dependent set of a path has one vertex: {LAYERS} layers",
                published=1,
                unit="vertices",
                measure=_path,
            ),
            Claim(
                text="of residual blocks of three layers, two",
                published=2,
                unit="vertices",
                measure=_residual,
                why="worked out by hand: a layer inside depends on its neighbour and on the end of its block",
            ),
            Claim(
                text=f"of Inception's modules, small as well: {BRANCHES} branches of {DEEP} layers",
                published=2,
                unit="vertices",
                measure=_inception,
                why="worked out by hand: a branch is settled between the two layers that it joins",
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium on four A100: heads and feed-forward split over pairs."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-a100",
        global_batch=32,
        shape={"tensor": 2, "replicas": 4, "microbatch_size": 4},
    )
