"""Schedules: pure functions from a `Shape` to an `Order` over n steps. Order and what is read, never time.

One file per schedule, found by its decorator. Facts that each one registers beside title and paper:

- ``flush``: whether every step ends with all gradients applied before the next one starts;
- ``torch_name``: what ``torch.distributed.pipelining`` calls it, empty where it has none;
- ``placement``: how it wants stages on lanes: ``line`` (stage i on lane i), ``looped`` (stage i on lane
  i mod p), ``bidirectional`` (copy 1 in the opposite direction), ``workers`` (every lane one whole copy)
  or ``any``. What a schedule cannot order it refuses; it never needs more than a legal `Shape`;
- ``dispatch``: true where it makes a `Dispatch` (see `make_dispatch`) instead of an order;
- ``closed_form``: ``(kind, formula)`` where there is one. ``formula(p, m, forward_s, backward_s, chunks)``
  is the makespan in seconds of one step from idle with default options, on ``p`` equal lanes of ``chunks``
  stages each in that placement, ``m`` microbatches, seconds of one stage and microbatch, transfers and
  updates free. ``exact`` is equal to it; ``lower`` never exceeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.actions import Dispatch, Order, Shape
from explorer.base.errors import InputError, PlanError
from explorer.base.registry import Registry

__all__ = ["SCHEDULES", "make_dispatch", "make_order"]

SCHEDULES: Registry[Callable[..., Order | Dispatch]] = Registry("schedule", "explorer.schedules")


def make_order(name: str, shape: Shape, *, steps: int = 1, options: Mapping[str, Any] | None = None) -> Order:
    """The order of every lane of `shape` over some steps under the schedule called `name`.

    Pure, and free to cache: equal arguments give equal orders.

    Raises:
        InputError: an unknown schedule or option, fewer than one step, or a shape that the schedule
            cannot order (it says what it needs, or that it dispatches).
        PlanError: a literal order that does not cover the shape, or a schedule that lost lanes.
    """
    entry = SCHEDULES.get(name)
    if steps < 1:
        raise InputError(f"{steps} steps", key="steps", found=steps, allowed="1 or more")
    order = entry.function(shape, steps=steps, **entry.read_options(options or {}))
    if isinstance(order, Dispatch):
        ordered = [item.name for item in SCHEDULES if not item.facts.get("dispatch")]
        raise InputError(
            f"schedule {name} has no order: it decides places while time runs",
            key="schedule",
            found=name,
            allowed=", ".join(ordered),
        )
    # What the lanes hold is `check.coverage`'s to say: too slow for every call, and tests run it.
    if len(order.lanes) != len(shape.lanes) or order.steps != steps:
        raise PlanError([f"schedule {name} made {len(order.lanes)} lanes for {len(shape.lanes)}"])
    return order


def make_dispatch(name: str, shape: Shape, *, options: Mapping[str, Any] | None = None) -> Dispatch:
    """The dispatch policy of the schedule called `name`.

    Raises:
        InputError: an unknown schedule or option, one that makes orders, or a shape it cannot serve.
    """
    entry = SCHEDULES.get(name)
    policy = entry.function(shape, steps=1, **entry.read_options(options or {}))
    if not isinstance(policy, Dispatch):
        raise InputError(f"schedule {name} makes an order, not a policy", key="schedule", found=name)
    return policy
