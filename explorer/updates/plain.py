"""Plain data parallelism: the mean gradient over all workers, applied by the optimizer itself."""

from __future__ import annotations

from typing import Any

from explorer.updates import UPDATES, UpdateRule


@UPDATES.add("plain", title="Mean gradient of all workers, then the optimizer")
def plain() -> UpdateRule:
    """Sends what a ring all-reduce sends, keeps nothing of its own.

    >>> plain().volume_bytes(100.0, 4)
    150.0
    """
    return UpdateRule(apply=_apply, volume_bytes=_volume_bytes, extra_bytes=_extra_bytes)


def _apply(weights: Any, gradient: Any, state: Any, *, learning_rate: float, delay: int) -> tuple[Any, Any]:
    """w - lr g, whatever the delay."""
    del delay
    return weights - learning_rate * gradient, state


def _volume_bytes(gradient_bytes: float, workers: int) -> float:
    """2 (n - 1)/n S."""
    return 2 * (workers - 1) / workers * gradient_bytes


def _extra_bytes(_weight_bytes: float) -> float:
    return 0.0
