"""EdgePipe: inference pipelines over unlike devices, of which some may stay idle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.line import line_of
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.edgepipe import least_bottleneck

BY_HAND = "worked out by hand from the recurrence"


def _bottleneck(seconds: Sequence[Sequence[float]], counts: Sequence[int], sent_bytes: float = 0.0) -> float:
    """Return the bottleneck of a chain in seconds; links carry a byte a second."""
    count, kinds = len(seconds[0]), len(seconds)
    work = WorkGraph(
        members=tuple((v,) for v in range(count)),
        above=tuple((1 << v) - 1 for v in range(count)),
        seconds=np.array(seconds),
        held_bytes=np.zeros(count),
        reduced_bytes=np.zeros(count),
        producer=np.arange(count - 1),
        readers=tuple((v + 1,) for v in range(count - 1)),
        transfer_s=np.full(count - 1, sent_bytes),
    )
    found = least_bottleneck(line_of(work), counts, [np.inf] * kinds, np.ones((kinds, kinds)))
    return found.seconds if found is not None else float("inf")


@SYSTEMS.add(
    System(
        name="edgepipe",
        title="Pipelines over a subset of unlike devices, by dynamic programming",
        paper="Hu et al., Pipeline Parallelism for Inference on Heterogeneous Edge Computing, 2021",
        year=2021,
        uses=Uses(searchers=("edgepipe",), options=("several device kinds",)),
        missing="profiles of its edge devices, and so its published speed-ups",
        claims=(
            Claim(
                text="four layers of 1 s, two devices and one that is four times as slow: left out",
                published=2,
                unit="s",
                measure=lambda: _bottleneck([[1.0] * 4, [4.0] * 4], [2, 1]),
                why=BY_HAND,
            ),
            Claim(
                text="five layers, the third device twice as slow: it has one, and the fast ones two each",
                published=2,
                unit="s",
                measure=lambda: _bottleneck([[1.0] * 5, [2.0] * 5], [2, 1]),
                why=BY_HAND,
            ),
            Claim(
                text="a link that takes 5 s is slower than all four layers on one device",
                published=4,
                unit="s",
                measure=lambda: _bottleneck([[1.0] * 4], [2], sent_bytes=5.0),
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 in a pipeline over the first four devices of a cluster of two kinds."""
    return Example(
        model="gpt2-small",
        cluster="mixed-v100-a100",
        global_batch=16,
        shape={"stages": 4, "microbatches": 8},
    )
