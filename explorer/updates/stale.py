"""Stale data parallelism: gradients are reduced during the next steps and applied some updates late.

    w(t + 1) = w(t) - lr g(w(t - d))        step = max(compute + update, reduction) for d of 1 or more

Weights stay equal on all workers. With `compensation` a gradient is corrected for the change of the weights
since they were read, by the diagonal of the outer product that stands for the Hessian:

    g + c g g (w(t) - w(t - d))             (Zheng et al., Asynchronous SGD with Delay Compensation, 2017)

DC-S3GD (Rigazzi, 2019) overlaps in the same way; its workers hold the mean and their own last update instead.
A reduction under way keeps its gradients, compensation also the weights that they were made from.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from explorer.base.registry import Option
from explorer.updates import GRADIENTS, UPDATES, WEIGHTS, Kept, Update, UpdateRule, received

DELAY = Option(
    name="delay", default=1, help="updates d from a gradient's own to the one that applies it", minimum=0
)
COMPENSATION = Option(
    name="compensation", default=0.0, help="strength c of the correction for the delay", minimum=0
)


@UPDATES.add(
    Update(
        name="stale",
        title="Reduction beside the next step, gradients applied one update late",
        paper="DC-S3GD (Rigazzi, 2019); delay compensation (Zheng et al., 2017)",
        options=(DELAY, COMPENSATION),
        trivial=(("delay", 0),),
    )
)
def stale(*, delay: int, compensation: float) -> UpdateRule:
    """Hide every reduction behind the work of `delay` steps; 0 is plain data parallelism."""
    if not compensation:
        return UpdateRule(delay=delay, keeps=(Kept(GRADIENTS, delay),), most_zero=1, gradient=received)
    return UpdateRule(
        delay=delay,
        keeps=(Kept(GRADIENTS, delay), Kept(WEIGHTS, delay)),
        most_zero=0,
        gradient=partial(_compensated, delay=delay, compensation=compensation),
    )


def _compensated(
    weights: Any, own: Any, received: Any, state: Any, *, delay: int, compensation: float
) -> tuple[Any, Any]:
    """Correct the gradient received; `state` holds the weights before the last updates, oldest first."""
    del own
    seen = (*(state or ()), weights * 1)  # a copy: the weights themselves change in place
    if received is None:
        return None, seen
    read = seen[-1 - delay]
    return received + compensation * received * received * (weights - read), seen[-delay:] if delay else ()
