"""Schedules: pure functions from a `Shape` to an `Order` over n steps: the order and what is read, never
time.

One file per schedule, found by its decorator, which takes a `Schedule`: its paper, *placement* (where the
stages lie, see `placements`), *needs* (which shapes it can order, see `needs`), what it *reads* of a shape
besides sizes, and the closed form of its makespan. Flags, pickers, searchers, exporters and tests ask this
spec; nothing else has to be touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.actions import Dispatch, Order, Shape
from explorer.base.errors import InputError, PlanError
from explorer.base.registry import Registry
from explorer.schedules.needs import Needs
from explorer.schedules.spec import ClosedForm, Pipeline, Schedule

__all__ = ["SCHEDULES", "ClosedForm", "Needs", "Pipeline", "Schedule", "make_dispatch", "make_order"]

SCHEDULES: Registry[Schedule] = Registry("schedule", "explorer.schedules")


def make_order(name: str, shape: Shape, *, steps: int = 1, options: Mapping[str, Any] | None = None) -> Order:
    """Return the order of every lane of `shape` over some steps under the schedule called `name`.

    Pure, and free to cache: equal arguments give equal orders.

    Raises:
        InputError: an unknown schedule or option, fewer than one step, or a shape that the schedule
            cannot order (it says what it needs, or that it dispatches).
        PlanError: a literal order that does not cover the shape, or a schedule that lost lanes.
    """
    schedule = SCHEDULES.get(name)
    if steps < 1:
        raise InputError(f"{steps} steps", key="steps", found=steps, allowed="1 or more")
    if schedule.dispatch:
        raise InputError(
            f"schedule {name} has no order: it decides places while time runs",
            key="schedule",
            found=name,
            allowed=", ".join(item.name for item in SCHEDULES if not item.dispatch),
        )
    order = _made(schedule, shape, steps, options)
    # `check.coverage` checks what the lanes hold: too slow for every call, so tests run it.
    if not isinstance(order, Order) or len(order.lanes) != len(shape.lanes) or order.steps != steps:
        raise PlanError([f"schedule {name} made no order of {len(shape.lanes)} lanes over {steps} steps"])
    return order


def make_dispatch(name: str, shape: Shape, *, options: Mapping[str, Any] | None = None) -> Dispatch:
    """Return the dispatch policy of the schedule called `name`.

    Raises:
        InputError: an unknown schedule or option, one that makes orders, or a shape it cannot serve.
    """
    schedule = SCHEDULES.get(name)
    if not schedule.dispatch:
        raise InputError(f"schedule {name} makes an order, not a policy", key="schedule", found=name)
    policy = _made(schedule, shape, 1, options)
    if not isinstance(policy, Dispatch):
        raise PlanError([f"schedule {name} is registered to dispatch, but made no policy"])
    return policy


def _made(
    schedule: Schedule, shape: Shape, steps: int, options: Mapping[str, Any] | None
) -> Order | Dispatch:
    """Return what a schedule makes of a shape that meets its needs."""
    read = schedule.read_options(options or {})
    if unmet := schedule.with_options(read).unmet(shape):
        raise unmet[0].error()
    return schedule.function(shape, steps=steps, **read)
