"""Tavarageri et al.: a graph divided for little traffic under balance, and ready nodes that migrate."""

from __future__ import annotations

import numpy as np

from explorer.library._nodes import graph_of, workers
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners.min_cut import divided, level_of, migrated

BY_HAND = "worked out by hand from the mechanism; the paper prints no such case"
LANES = {v: (v - 2,) for v in range(2, 16)}
"""Two chains of eight nodes, numbered in turn."""


def _traffic() -> float:
    """Return the bytes between two devices of the division of two chains, joined at their end."""
    work = graph_of([1.0] * 17, 5.0, LANES | {16: (14, 15)})
    device = np.array(divided(work, workers(2), 0.3))
    return float(level_of(work).sent_bytes[np.not_equal.outer(device, device)].sum() / 2)


def _migrants() -> int:
    """Return how many of four nodes leave the one device that they were put on."""
    moved = migrated(graph_of([1.0] * 4, 0.0, {}), workers(2), (0, 0, 0, 0))
    return sum(moved) if moved is not None else 0


@SYSTEMS.add(
    System(
        name="tavarageri",
        title="Division of the graph for little traffic and even work, with migration of ready nodes",
        paper="Tavarageri et al., Automatic Model Parallelism for Deep Neural Networks with Compiler and"
        " Hardware Support, 2019",
        year=2019,
        uses=Uses(schedules=("spp",), searchers=("min_cut",), options=("stage DAG",)),
        missing="its hardware for scheduling, whose decisions are made beforehand here",
        claims=(
            Claim(
                text="two chains that meet at their end, their nodes numbered in turn: only one tensor of 5"
                " bytes crosses",
                published=5,
                unit="bytes",
                measure=_traffic,
                why=BY_HAND,
            ),
            Claim(
                text="four nodes of 1 s that were put on one of two devices: two migrate",
                published=2,
                unit="nodes",
                measure=_migrants,
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """Inception-v3 over four V100, in stages that a list schedule orders."""
    return Example(
        model="inception-v3",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 4, "microbatches": 4, "schedule": "spp"},
    )
