"""Cyclic data parallelism: workers run the same model, evenly staggered."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

N = 4


def _workers() -> Ideal:
    return Ideal(p=N, m=N, schedule="cyclic", chunks=N, backward_s=1.0)


@SYSTEMS.add(
    System(
        name="cyclic",
        title="Staggered data-parallel workers: activations at a constant level",
        paper="Fournier and Oyallon, Cyclic Data Parallelism for Efficient Parallelism of Deep"
        " Neural Networks, 2024",
        year=2024,
        uses=Uses(schedules=("cyclic",)),
        missing="ZeRO states handed on from worker to worker",
        claims=(
            Claim(
                text=f"no idle slot: a step of N = {N} workers takes 2 N slots",
                published=2 * N,
                unit="slots",
                measure=lambda: _workers().report().step_time_s,
            ),
            Claim(
                text="gradients are at most one update old",
                published=1,
                unit="updates",
                measure=lambda: max(_workers().report().delay),
            ),
            Claim(
                text="one version of the weights is enough",
                published=1,
                unit="versions",
                measure=lambda: max(_workers().report().versions),
            ),
        ),
    )
)
def example() -> Example:
    """ResNet-50 on four workers."""
    return Example(
        model="resnet50",
        cluster="dgx-1-v100",
        global_batch=128,
        shape={"stages": 4, "microbatch_size": 32, "schedule": "cyclic"},
    )
