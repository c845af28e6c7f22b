"""DC-S3GD: reductions overlapped with the next gradient, one step stale."""

from __future__ import annotations

from explorer.library._workers import resnet_under, workers
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.strategy import UpdateChoice

RULE = UpdateChoice(rule="stale")


@SYSTEMS.add(
    System(
        name="dc_s3gd",
        title="Updates reduced beside the next gradient, one step stale",
        paper="Rigazzi, DC-S3GD: Delay-Compensated Stale-Synchronous SGD for Large-Scale Decentralized"
        " Neural Network Training, 2019",
        year=2019,
        uses=Uses(updates=("stale",)),
        missing="workers that hold the mean and their own last update; ours hold equal weights",
        claims=(
            Claim(
                text="a step takes max(compute, reduction): 3 s with a reduction of 1.5 s",
                published=3,
                unit="s",
                measure=lambda: workers(RULE, 4, 100.0).report().step_time_s,
            ),
            Claim(
                text="and 15 s with a reduction of 15 s",
                published=15,
                unit="s",
                measure=lambda: workers(RULE, 4, 10.0).report().step_time_s,
            ),
            Claim(
                text="gradients are one step stale",
                published=1,
                unit="updates",
                measure=lambda: max(workers(RULE, 4).report().delay),
            ),
        ),
    )
)
def example() -> Example:
    """ResNet-50 over eight V100."""
    return resnet_under(RULE)
