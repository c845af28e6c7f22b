"""TensorFlow's greedy placement: a simulated execution that puts each node where it is done first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.library._nodes import graph_of, workers
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.earliest_finish import earliest_finish

BY_HAND = "worked out by hand from the mechanism (section 3.2.1); the paper prints no such case"
FORK = {1: (0,), 2: (0,), 3: (1, 2)}
"""A source, two nodes that read it, a node that reads both."""


def _makespan(seconds: Sequence[float], sent_bytes: float, reads: Mapping[int, Sequence[int]]) -> float:
    found = earliest_finish(graph_of(seconds, sent_bytes, reads), workers(2))
    return found.makespan_s if found is not None else float("inf")


@SYSTEMS.add(
    System(
        name="tensorflow_placement",
        title="Greedy placement of operations by a simulated execution",
        paper="Abadi et al., TensorFlow: Large-Scale Machine Learning on Heterogeneous Systems, 2016",
        year=2016,
        uses=Uses(schedules=("spp",), searchers=("tensorflow_greedy",), options=("stage DAG",)),
        missing="measured costs of kernels, lossy 16-bit transfers",
        claims=(
            Claim(
                text="1 s, two branches of 4 s each, 1 s, tensors of 1 s: the branches go side by side,"
                " 1 + 1 + 4 + 1 s",
                published=7,
                unit="s",
                measure=lambda: _makespan([1.0, 4.0, 4.0, 1.0], 1.0, FORK),
                why=BY_HAND,
            ),
            Claim(
                text="and where a tensor takes 5 s all stay on one device",
                published=10,
                unit="s",
                measure=lambda: _makespan([1.0, 4.0, 4.0, 1.0], 5.0, FORK),
                why=BY_HAND,
            ),
            Claim(
                text="greedy is not best: 1, 1 and 2 s apart from each other take 3 s on two devices, not 2",
                published=3,
                unit="s",
                measure=lambda: _makespan([1.0, 1.0, 2.0], 0.0, {}),
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """Inception-v3 over two V100, in stages that a list schedule orders."""
    return Example(
        model="inception-v3",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 2, "microbatches": 2, "schedule": "spp"},
    )
