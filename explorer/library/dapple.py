"""DAPPLE and PipeDream-Flush: one forward, one backward in turn, with a flush at the end of the step."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P, M = 4, 12


def _pipeline(m: int = M) -> Ideal:
    return Ideal(p=P, m=m, schedule="1f1b")


@SYSTEMS.add(
    System(
        name="dapple",
        title="Early backward: 1F1B with a flush",
        paper="Fan et al., DAPPLE: A Pipelined Data Parallel Approach for Training Large Models, PPoPP 2021",
        year=2020,
        uses=Uses(schedules=("1f1b",), options=("uneven replicas",)),
        missing="its planner (latency at the pivot stage, three placement policies)",
        claims=(
            Claim(
                text=f"idle (p - 1)(F + B), as GPipe: at p = {P}, F = 1, B = 2",
                published=(P - 1) * 3,
                unit="s",
                measure=lambda: _pipeline().idle_s(),
            ),
            *(
                Claim(
                    text=f"stage {s} of {P} keeps min(p - s, m) microbatches, whatever m is (m = {M})",
                    published=min(P - s, M),
                    unit="microbatches",
                    measure=lambda s=s: _pipeline().activations(s),  # type: ignore[misc]
                )
                for s in range(P)
            ),
            Claim(
                text=f"activations do not grow with m: first stage at m = {4 * M}",
                published=P,
                unit="microbatches",
                measure=lambda: _pipeline(4 * M).activations(0),
            ),
        ),
    )
)
def example() -> Example:
    """BERT large in two stages of four V100 each, as the 8:8 of the paper's BERT-48."""
    return Example(
        model="bert-large",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 2, "replicas": 4, "microbatches": 8},
    )
