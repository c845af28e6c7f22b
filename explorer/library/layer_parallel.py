"""Layer-parallel training: stages sweep at once on old boundary values, then one serial correction."""

from __future__ import annotations

from explorer.library._ideal import Ideal
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses

P = 4


def _sweeps(r: int) -> float:
    return Ideal(p=P, m=1, schedule="layer_parallel", options={"sweeps": r}).report().makespan_s


@SYSTEMS.add(
    System(
        name="layer_parallel",
        title="Parallel sweeps over all stages, then a serial correction",
        paper="Sun, Dong, Bao and Zhang, Layer-Parallel Training of Residual Networks with"
        " Auxiliary-Variable Networks, 2021",
        year=2021,
        uses=Uses(schedules=("layer_parallel",)),
        missing="the penalty terms of its loss",
        claims=tuple(
            Claim(
                text=f"r = {r} sweeps and a correction take r T/p + T, with T = {3 * P} s on one"
                f" device, p = {P}",
                published=r * 3 * P / P + 3 * P,
                unit="s",
                measure=lambda r=r: _sweeps(r),  # type: ignore[misc]
            )
            for r in (0, 1, 3)
        ),
    )
)
def example() -> Example:
    """ResNet-50 over four V100."""
    return Example(
        model="resnet50",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 4, "microbatches": 1, "schedule": "layer_parallel"},
    )
