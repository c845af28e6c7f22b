"""DLPlacer: operators placed on the devices of a worker, and when such workers pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.library._nodes import graph_of, workers
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.hybrid_rule import needed_speedup
from explorer.planners._pieces.placement_program import placed
from explorer.planners.dlplacer import PAPER

BY_HAND = "worked out by hand from the program; the paper's own figures are in docs/search.md beside ours"
BRANCHES: Mapping[int, Sequence[int]] = {1: (0,), 2: (0,), 3: (0,), 4: (1, 2, 3)}
"""A node, three branches, and the node where they meet."""


def _makespan(devices: int, sent_bytes: float) -> float:
    """Return the seconds of branches of 3, 2 and 2 s between two nodes of 1 s."""
    work = graph_of([1.0, 3.0, 2.0, 2.0, 1.0], sent_bytes, BRANCHES)
    found = placed(work, workers(devices), {}, nodes=1000)
    return found.makespan_s if found is not None else 0.0


@SYSTEMS.add(
    System(
        name="dlplacer",
        title="Operators placed by integer program on workers of several devices",
        paper=PAPER,
        year=2019,
        uses=Uses(schedules=("spp",), searchers=("dlplacer",), options=("stage DAG", "epochs by batch")),
        claims=(
            Claim(
                text="branches of 3, 2 and 2 s between two nodes of 1 s, nothing sent, on two devices",
                published=6,
                unit="s",
                measure=lambda: _makespan(2, 0.0),
                why=BY_HAND,
            ),
            Claim(
                text="half a second to send each output: one branch of 3 s here, the others there, where the"
                " last node runs",
                published=6.5,
                unit="s",
                measure=lambda: _makespan(2, 0.5),
                why=BY_HAND,
            ),
            Claim(
                text="four seconds to send each output: all on one device",
                published=9,
                unit="s",
                measure=lambda: _makespan(2, 4.0),
                why=BY_HAND,
            ),
            Claim(
                text="where twice the devices scale as well and need 23 instead of 7 epochs, pairs pay from"
                " this speed-up on",
                published=2 * 7 / 23,
                unit="",
                measure=lambda: needed_speedup(2, 1.0, 7 / 23),
            ),
        ),
    )
)
def example() -> Example:
    """Inception-v3 over pairs of V100, in stages that a list schedule orders."""
    return Example(
        model="inception-v3",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 2, "replicas": 4, "microbatches": 1, "schedule": "spp"},
    )
