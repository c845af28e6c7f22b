"""2BP: backward in two passes, the second of which waits until the first has gone on."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

N = 4
BY_HAND = "worked out by hand where forward and both passes take equally long, as the paper draws them"


def _pipeline(schedule: str, m: int, **options: object) -> Ideal:
    """Return N equal stages whose forward and two passes of the backward take a second each."""
    return Ideal(
        p=N, m=m, schedule=schedule, options=options, forward_s=1.0, backward_s=2.0, weight_grad_s=1.0
    )


@SYSTEMS.add(
    System(
        name="two_bp",
        title="Two-stage backpropagation in naive, GPipe and 1F1B pipelines",
        paper="Rae, Lee and Richings, 2BP: 2-Stage Backpropagation, 2024",
        year=2024,
        uses=Uses(schedules=("split_backward", "gpipe_2bp", "1f1b_2bp", "zb_h1")),
        missing="on ranks, second passes of several microbatches as one product: they run one by one",
        claims=(
            Claim(
                text=f"naive, one microbatch: bubble 2 (N - 1)/(2 N + 1), at N = {N}",
                published=2 * (N - 1) / (2 * N + 1),
                unit="",
                measure=lambda: _pipeline("gpipe_2bp", 1).bubble(),
                why=BY_HAND,
            ),
            Claim(
                text=f"GPipe of M microbatches: 2 (N - 1)/(2 (N - 1) + 3 M), at N = M = {N}",
                published=2 * (N - 1) / (2 * (N - 1) + 3 * N),
                unit="",
                measure=lambda: _pipeline("gpipe_2bp", N).bubble(),
                why=BY_HAND,
            ),
            *(
                Claim(
                    text=f"1F1B-{times}, second passes where a device waits: (N - 1)/(N - 1 + 3 M), at N"
                    f" = {N}, M = {times * N}",
                    published=(N - 1) / (N - 1 + 3 * times * N),
                    unit="",
                    measure=lambda times=times: _pipeline(  # type: ignore[misc]
                        "split_backward", times * N, fill=True
                    ).bubble(),
                    why=BY_HAND,
                )
                for times in (1, 2)
            ),
            Claim(
                text=f"1F1B, second passes at the end: idle 2 (N - 1), at N = {N}, M = {2 * N}",
                published=2 * (N - 1),
                unit="s",
                measure=lambda: _pipeline("1f1b_2bp", 2 * N).idle_s(),
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium over four V100."""
    return Example(
        model="gpt2-medium",
        cluster="dgx-1-v100",
        global_batch=16,
        shape={"stages": 4, "microbatches": 8, "schedule": "1f1b_2bp"},
    )
