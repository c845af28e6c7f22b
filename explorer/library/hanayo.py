"""Hanayo: chunks go there and back over the devices in waves, with one copy of the weights."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P = 4
BY_HAND = "counted by hand in slots of a chunk's forward, the backward and then the deepest stage first"
TWO_FORWARDS = ((1, 6, 18), (2, 13, 61), (4, 13, 109))
"""Waves; idle slots and slots of a step where a backward takes two forwards."""


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
                )
                for waves in (1, 2, 4)
            ),
            *(
                Claim(
                    text=f"{idle} of {slots} slots idle where B = 2 F, at P = m = {P} and W = {waves}",
                    published=idle / slots,
                    unit="",
                    measure=lambda waves=waves: _waves(waves, backward=2.0).bubble(),  # type: ignore[misc]
                    why=BY_HAND,
                )
                for waves, idle, slots in TWO_FORWARDS
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
