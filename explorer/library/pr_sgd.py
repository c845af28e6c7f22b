"""Parallel restarted SGD: workers update on their own and average every so many updates."""

from __future__ import annotations

from explorer.library._workers import BYTES, resnet_under, workers
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.strategy import UpdateChoice

RULE = UpdateChoice(rule="local_sgd", options=(("period", 4),))


@SYSTEMS.add(
    System(
        name="pr_sgd",
        title="Weights averaged every so many local updates",
        paper="Yu, Yang and Zhu, Parallel Restarted SGD with Faster Convergence and Less Communication,"
        " AAAI 2019",
        year=2018,
        uses=Uses(updates=("local_sgd",)),
        claims=(
            Claim(
                text="four workers that average every I = 4 updates send 2 (n - 1) / n S / I bytes each",
                published=2 * 3 / 4 * BYTES / 4,
                unit="bytes",
                measure=lambda: workers(RULE, 4).sent_bytes(),
            ),
            Claim(
                text="an update takes compute + averaging / I: 3 s and a quarter of 1.5 s",
                published=3 + 1.5 / 4,
                unit="s",
                measure=lambda: workers(RULE, 4, 100.0).report().step_time_s,
            ),
        ),
    )
)
def example() -> Example:
    """ResNet-50 over eight V100."""
    return resnet_under(RULE)
