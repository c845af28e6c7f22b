"""GPipe: microbatches through a pipeline of stages, all forwards before all backwards."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P, M = 4, 8


def _pipeline(**changes: object) -> Ideal:
    return Ideal(p=P, m=M, schedule="gpipe", **changes)  # type: ignore[arg-type]


@SYSTEMS.add(
    System(
        name="gpipe",
        title="Pipeline of stages, filled and drained once a step",
        paper="Huang et al., GPipe: Efficient Training of Giant Neural Networks using Pipeline"
        " Parallelism, NeurIPS 2019",
        year=2018,
        uses=Uses(schedules=("gpipe",), options=("recomputation",)),
        claims=(
            Claim(
                text=f"bubble (K - 1)/(M + K - 1) of the step, at K = {P} stages and M = {M} microbatches",
                published=(P - 1) / (M + P - 1),
                unit="",
                measure=lambda: _pipeline().bubble(),
            ),
            Claim(
                text=f"a stage keeps the activations of all M = {M} microbatches",
                published=M,
                unit="microbatches",
                measure=lambda: _pipeline().activations(0),
            ),
            Claim(
                text="recomputation repeats the forward: 4/3 of the work where a backward takes two forwards",
                published=4 / 3,
                unit="",
                measure=lambda: (
                    _pipeline(recompute="full").report().busy_s[0] / _pipeline().report().busy_s[0]
                ),
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium over four V100 of one machine."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-1-v100",
        global_batch=32,
        shape={"stages": 4, "microbatches": 8, "schedule": "gpipe", "recompute": "full"},
    )
