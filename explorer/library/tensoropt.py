"""TensorOpt: the frontier of time and memory over shardings of layers, by elimination."""

from __future__ import annotations

import itertools

import numpy as np

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.choice_graph import ChoiceGraph
from explorer.planners.tensoropt import frontier

LAYERS = 7


def _layers() -> ChoiceGraph:
    """Return a chain whose layers hold 8 bytes for 1 s, 4 for 2 or 2 for 4, and 1 s between unlike ones."""
    seconds, held = np.array([1.0, 2.0, 4.0]), np.array([8.0, 4.0, 2.0])
    return ChoiceGraph(
        seconds=(seconds,) * LAYERS,
        held_bytes=(held,) * LAYERS,
        edges={(i, i + 1): 1.0 - np.eye(3) for i in range(LAYERS - 1)},
    )


def _missing() -> float:
    """Return the points of all combinations that elimination misses, or has too many."""
    costs = _layers()
    every = {
        (costs.total_bytes(chosen), costs.total_s(chosen))
        for chosen in itertools.product(range(3), repeat=LAYERS)
    }
    best = {a for a in every if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in every)}
    found = list(frontier(costs, 1000))[-1] or ()
    return len(best ^ {(point.held_bytes, point.seconds) for point in found})


@SYSTEMS.add(
    System(
        name="tensoropt",
        title="All trade-offs of time and memory that shardings offer",
        paper="Cai et al., TensorOpt: Exploring the Tradeoffs in Distributed DNN Training with"
        " Auto-Parallelism, TPDS 2021",
        year=2020,
        uses=Uses(searchers=("tensoropt",), options=("layouts by layer",)),
        claims=(
            Claim(
                text=f"its frontier is that of all 3^{LAYERS} combinations: points that are missing or more",
                published=0,
                unit="points",
                measure=_missing,
            ),
        ),
    )
)
def example() -> Example:
    """BERT large on eight A100, which the paper plans as well."""
    return Example(
        model="bert-large",
        cluster="dgx-a100",
        global_batch=64,
        shape={"tensor": 2, "replicas": 4, "microbatch_size": 16},
    )
