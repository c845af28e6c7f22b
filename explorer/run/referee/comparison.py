"""Comparison: how far a rank's gradients and weights are from those of one process.

What a rounding of the weights changes in one process is asked where errors are large enough to be suspected:
a gradient that a rounding moves as far cannot be judged.
"""

from __future__ import annotations

import math

import torch

from explorer.run.ranks.compute import Compute
from explorer.run.ranks.heap import give_back_freed_memory
from explorer.run.referee.emulate import Emulation
from explorer.run.spec import RunCase

SUSPECT = 1e-5
"""Errors of gradients from which it is asked how much rounding alone changes them."""
FLOOR = 1e-2
"""Gradients smaller than this share of the model's largest are compared with that share of it."""


def compare_with_emulation(run: Compute) -> dict[str, float]:
    """Return the largest relative errors of gradients and weights of this rank against the emulation.

    `first` concerns the first update's gradients alone, which no optimizer has touched: Adam divides rounding
    errors of tiny gradients by those gradients.

    An error is a tensor's largest difference over its own largest entry (or `FLOOR` of the largest gradient
    of all), infinite where it is no number. `rounding` is how much a rounding of the weights changes the
    gradients of one process; 0 where the errors are too small to ask, infinite where these are no numbers.
    """
    give_back_freed_memory()
    right = Emulation(run.case, run.device, wanted=run.pieces)
    right.finish()
    largest = right.largest
    gradient = first = 0.0
    if _lacks(run, right):
        gradient = first = float("inf")
    for (name, span), found in run.applied.items():
        expected = right.gradients.get((run.owner[name], name, span))
        if expected is None:
            # no loss depends on it: between stages zeros come back, in one process nothing does
            expected = torch.zeros_like(right.weights[run.owner[name]][-1][name])
        scale = max(float(expected.abs().max()), FLOOR * largest, 1e-30)
        error = _error(found, run.share(name, expected), scale)
        gradient = max(gradient, error)
        if span[0] == 0:
            first = max(first, error)
    weight = 0.0
    for piece in run.pieces:
        for name in run.names[piece]:
            expected, found = right.weights[piece][-1][name].detach(), run.present(name)
            scale = max(float(expected.abs().max()), 1e-30)
            weight = max(weight, _error(found, run.share(name, expected), scale))
    record = {
        "gradient": gradient,
        "first": first,
        "weight": weight,
        "compared": float(len(run.applied)),
        "largest_gradient": largest,
        "loss_first": right.losses[0],
        "loss_last": right.losses[-1],
    }
    sure = all(bool(g.isfinite().all()) for g in right.gradients.values())
    del right
    if not sure:  # one process itself gives no numbers that others could be held to
        record["rounding"] = float("inf")
    else:
        record["rounding"] = _rounding(run.case, run.device) if SUSPECT < gradient < float("inf") else 0.0
    return record


def _error(found: torch.Tensor, expected: torch.Tensor, scale: float) -> float:
    """Return the largest difference over a scale; infinite where either is no number."""
    if not found.numel():
        return 0.0
    error = float((found - expected).abs().max()) / scale
    return error if math.isfinite(error) else math.inf


def _lacks(run: Compute, right: Emulation) -> bool:
    """Tell whether one process applies a gradient to a weight of this rank that the rank itself does not."""
    return any(
        run.owner.get(name) == piece and (name, span) not in run.applied and run.share(name, expected).numel()
        for (piece, name, span), expected in right.gradients.items()
    )


def _rounding(case: RunCase, device: torch.device) -> float:
    """Return the largest relative change of a gradient if weights begin a rounding away."""
    right = Emulation(case, device)
    right.finish()
    gradients, largest = right.gradients, right.largest
    del right
    other = Emulation(case, device, nudged=True)
    other.finish()
    changes = [
        float((other.gradients[key] - g).abs().max()) / max(float(g.abs().max()), FLOOR * largest, 1e-30)
        for key, g in gradients.items()
    ]
    return max(changes, default=0.0)
