"""Gossiping SGD: workers average with one peer at a time."""

from __future__ import annotations

from explorer.library._workers import BYTES, resnet_under, workers
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.strategy import UpdateChoice

RULE = UpdateChoice(rule="gossip")


@SYSTEMS.add(
    System(
        name="gossiping_sgd",
        title="Weights averaged with one peer at a time",
        paper="Jin, Yuan, Iandola and Keutzer, How to scale distributed deep learning?, 2016",
        year=2016,
        uses=Uses(updates=("gossip",)),
        missing="random peers, and exchanges that do not wait for the partner",
        claims=(
            Claim(
                text="each of 4 workers sends its weights once an update",
                published=BYTES,
                unit="bytes",
                measure=lambda: workers(RULE, 4).sent_bytes(),
            ),
            Claim(
                text="and so does each of 16, where an all-reduce sends 2 (n - 1) / n S",
                published=BYTES,
                unit="bytes",
                measure=lambda: workers(RULE, 16).sent_bytes(),
            ),
        ),
    )
)
def example() -> Example:
    """ResNet-50 over eight V100."""
    return resnet_under(RULE)
