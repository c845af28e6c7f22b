"""SpecTrain: asynchronous 1F1B on weights predicted from the smoothed gradient."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P, M = 4, 8


def _pipeline() -> Ideal:
    return Ideal(p=P, m=M, schedule="spectrain")


def _horizon(stage: int, which: int) -> int:
    return _pipeline().report().timeline.program.order.read_rule.horizons[stage][which]


@SYSTEMS.add(
    System(
        name="spectrain",
        title="Asynchronous 1F1B on predicted weights",
        paper="Chen, Yang and Cheng, Efficient and Robust Parallel DNN Training through Model Parallelism on"
        " Multi-GPU Platform, 2018",
        year=2018,
        uses=Uses(schedules=("spectrain", "pipedream")),
        claims=(
            *(
                Claim(
                    text=f"GPU {k} of {P} predicts its {word} weights: {formula}",
                    published=updates,
                    unit="updates",
                    measure=lambda k=k, which=which: _horizon(k, which),  # type: ignore[misc]
                )
                for k in (0, P - 1)
                for word, formula, which, updates in (
                    ("forward", "floor(k/2) + N - k - 1 ahead", 0, k // 2 + P - k - 1),
                    ("backward", "floor(k/2) ahead", 1, k // 2),
                )
            ),
            Claim(
                text="one version of the weights, where PipeDream keeps as many as stages",
                published=1,
                unit="versions",
                measure=lambda: max(_pipeline().report().versions),
            ),
            Claim(
                text=f"no flush: a step of m = {M} microbatches takes m (F + B) at F = 1, B = 2",
                published=M * 3,
                unit="s",
                measure=lambda: _pipeline().report().step_time_s,
            ),
        ),
    )
)
def example() -> Example:
    """VGG-16 over four A100."""
    return Example(
        model="vgg16",
        cluster="dgx-a100",
        global_batch=64,
        shape={"stages": 4, "microbatch_size": 8, "schedule": "spectrain"},
    )
