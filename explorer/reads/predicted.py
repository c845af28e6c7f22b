"""Predicted: the newest version moved on along the optimizer's momentum, one copy made anew for every read.

    w(t) - s lr v(t)        s updates ahead; v is what an update takes away over lr

With momentum v is the velocity (SpecTrain, Chen, Yang and Cheng, 2018), with Adam the bias-corrected mean
over the root of the second moment (XPipe, Guan et al., 2019). Making a copy moves memory: see
`explorer.pricing.made_weights`.
"""

from __future__ import annotations

from typing import Any

from explorer.actions import ReadRule
from explorer.reads import READS, Reading, ReadSpec


@READS.add(
    ReadSpec(
        name="predicted",
        title="The newest version, moved on by as many updates as lie ahead",
        paper="SpecTrain (Chen, Yang and Cheng, 2018)",
    )
)
def predicted(rule: ReadRule) -> Reading:
    """Look `parameter` updates ahead everywhere, or as `horizons` says by stage, forward and backward."""
    ahead = rule.horizons

    def horizon(stage: int, op: str) -> int:
        return ahead[stage][op != "F"] if ahead else rule.parameter

    return Reading(version=lambda read: read.made, newest=True, horizon=horizon, make=predict)


def predict(weights: Any, direction: Any, learning_rate: float, horizon: int) -> Any:
    """Return the weights after `horizon` more updates in the same direction.

    >>> predict(1.0, 2.0, 0.1, 3)
    0.3999999999999999
    """
    return weights - horizon * learning_rate * direction
