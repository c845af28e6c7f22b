"""Update rules: how gradients become weights, what that sends and what it keeps. Pure; torch is not here.

One file per rule, found by its decorator; a file of the same name in ``explorer/run/updates`` runs it.
A schedule names the rule it needs in `Order.update_rule`; empty means `plain`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from explorer.base.registry import Entry, Registry

__all__ = ["UPDATES", "Apply", "UpdateRule"]


class Apply(Protocol):
    """One update of numbers or arrays: `(weights, gradient, state) -> (weights, state)`."""

    def __call__(
        self, weights: Any, gradient: Any, state: Any, *, learning_rate: float, delay: int
    ) -> tuple[Any, Any]:
        """New weights and state; `state` is None at first, `delay` the updates between read and apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRule:
    """A rule with its costs, which are what one worker pays."""

    apply: Apply
    """The arithmetic of one update."""
    volume_bytes: Callable[[float, int], float]
    """(gradient bytes, workers) -> bytes each worker sends per update, on average over updates."""
    extra_bytes: Callable[[float], float]
    """Weight bytes -> bytes kept beside weights, gradients and optimizer states."""


UPDATES: Registry[Entry[Callable[..., UpdateRule]]] = Registry("update rule", "explorer.updates")
