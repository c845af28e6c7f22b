"""Hanayo: chunks go there and back over the devices in waves, with one copy of the weights."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P = 4
AS_INTERLEAVED = "the closed form of 2 W interleaved chunks, which waves of equal F and B reach too"
SIMULATED = (
    "no figure of the paper: from a separate event simulation of its rule (a backward, else the forward of"
    " the deepest stage), to three digits"
)
TWO_FORWARDS = ((1, 0.333), (2, 0.213), (4, 0.119))
"""Waves, and the bubble where a backward takes two forwards."""


def _waves(waves: int, *, backward: float) -> Ideal:
    """Return m = p microbatches in so many waves; F is a second, B so many."""
    return Ideal(
        p=P, m=P, schedule="hanayo", chunks=2 * waves, forward_s=1 / (2 * waves),
        backward_s=backward / (2 * waves),
    )  # fmt: skip


@SYSTEMS.add(
    System(
        name="hanayo",
        title="Waves: Chimera's short bubble without its second copy of the weights",
        paper="Liu et al., Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model"
        " Training Efficiency, SC 2023",
        year=2023,
        uses=Uses(schedules=("hanayo",)),
        claims=(
            *(
                Claim(
                    text=f"bubble (P - 1)/(2 W P + P - 1) where F = B, at P = m = {P} and W = {waves}",
                    published=(P - 1) / (2 * waves * P + P - 1),
                    unit="",
                    measure=lambda waves=waves: _waves(waves, backward=1.0).bubble(),  # type: ignore[misc]
                    why=AS_INTERLEAVED,
                )
                for waves in (1, 2, 4)
            ),
            *(
                Claim(
                    text=f"bubble where B = 2 F, at P = m = {P} and W = {waves}",
                    published=bubble,
                    unit="",
                    measure=lambda waves=waves: _waves(waves, backward=2.0).bubble(),  # type: ignore[misc]
                    within=5e-3,
                    why=SIMULATED,
                )
                for waves, bubble in TWO_FORWARDS
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium over four V100 in two waves."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-1-v100",
        global_batch=16,
        shape={"stages": 4, "chunks": 4, "microbatches": 4, "schedule": "hanayo"},
    )
