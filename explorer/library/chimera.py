"""Chimera: two pipelines in opposite directions over the same devices."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

D = 4
"""Stages of the claims about more microbatches than stages."""


def _pipeline(d: int, backward_s: float) -> Ideal:
    return Ideal(p=d, m=d, schedule="chimera", backward_s=backward_s)


@SYSTEMS.add(
    System(
        name="chimera",
        title="Bidirectional pipelines: half the bubble for a second copy of the weights",
        paper="Li and Hoefler, Chimera: Efficiently Training Large-Scale Neural Networks with"
        " Bidirectional Pipelines, SC 2021",
        year=2021,
        uses=Uses(schedules=("chimera", "chimera_4"), options=("two copies of every stage, or more",)),
        claims=(
            *(
                Claim(
                    text=f"D - 2 slots idle where F = B, at D = m = {d}",
                    published=d - 2,
                    unit="slots",
                    measure=lambda d=d: _pipeline(d, 1.0).idle_s(),  # type: ignore[misc]
                )
                for d in (4, 6, 8)
            ),
            *(
                Claim(
                    text=f"2 (D - 2) forwards idle where B = 2F, at D = m = {d}",
                    published=2 * (d - 2),
                    unit="slots",
                    measure=lambda d=d: _pipeline(d, 2.0).idle_s(),  # type: ignore[misc]
                )
                for d in (4, 6, 8)
            ),
            *(
                Claim(
                    text=f"two pairs idle for D/2 - 2 slots where F = B, at D = m = {d}",
                    published=d / 2 - 2,
                    unit="slots",
                    measure=lambda d=d: Ideal(  # type: ignore[misc]
                        p=d, m=d, schedule="chimera_4", backward_s=1.0
                    ).idle_s(),
                )
                for d in (4, 8)
            ),
            *(
                Claim(
                    text=f"forward doubling leaves no bubble between units: B = 2F, D = {D}, m = {m}",
                    published=2 * (D - 2),
                    unit="slots",
                    measure=lambda m=m: Ideal(  # type: ignore[misc]
                        p=D, m=m, schedule="chimera", options={"concatenate": True, "double": True}
                    ).idle_s(),
                    why="the idle time of one unit, which the paper draws for units one after the other",
                )
                for m in (2 * D, 6 * D)
            ),
            Claim(
                text="an outer device keeps D/2 + 1 microbatches, at D = 8",
                published=5,
                unit="microbatches",
                measure=lambda: _pipeline(8, 2.0).activations(0),
            ),
            Claim(
                text="an inner device keeps D microbatches, at D = 8",
                published=8,
                unit="microbatches",
                measure=lambda: _pipeline(8, 2.0).activations(3),
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium over four V100, a copy of the model in each direction."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-1-v100",
        global_batch=16,
        shape={"stages": 4, "microbatches": 4, "schedule": "chimera"},
    )
