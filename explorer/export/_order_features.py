"""Where a plan uses features of schedules, devices and updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from explorer.actions import Order
from explorer.export._order import order_of_job
from explorer.export._plan_parts import PlanPart, first_meshes, listed, used_nodes
from explorer.schedules import SCHEDULES, Schedule
from explorer.updates import PLAIN


def of_schedule(test: Callable[[PlanPart, bool, Schedule], bool]) -> Callable[[PlanPart], list[str]]:
    """Make a finder of the schedule of a training job for which `test(part, flush, schedule)` is true."""

    def find(part: PlanPart) -> list[str]:
        schedule = SCHEDULES.get(part.strategy.schedule)
        flush = schedule.flushes(dict(part.strategy.options))
        return [schedule.name] if test(part, flush, schedule) else []

    return find


def of_order(test: Callable[[Order], bool]) -> Callable[[PlanPart], list[str]]:
    """Make a finder of a job's schedule if `test` is true of its order; those that torch has are plain."""

    def find(part: PlanPart) -> list[str]:
        schedule = SCHEDULES.get(part.strategy.schedule)
        if schedule.torch_name or schedule.dispatch:
            return []
        order, _ = order_of_job(part.graph, part.cluster, part.job, part.strategy)
        return [schedule.name] if test(order) else []

    return find


def said(value: object) -> bool:
    """Tell whether a value of an option says yes."""
    return str(value).lower() not in ("false", "0", "no")


def uneven_nodes(part: PlanPart) -> Iterator[str]:
    """Yield the devices used by node, if they differ."""
    counts = [len(devices) for devices in used_nodes(part).values()]
    if len(set(counts)) > 1:
        yield f"{listed(counts)} devices per node"


def mixed_devices(part: PlanPart) -> Iterator[str]:
    """Yield the kinds of devices, if there are several."""
    kinds = dict.fromkeys(part.cluster.kind_of(device).name for device in part.strategy.devices)
    if len(kinds) > 1:
        yield ", ".join(kinds)


def device_order(part: PlanPart) -> Iterator[str]:
    """Yield a device that comes after one of a higher number."""
    order = list(dict.fromkeys(device for mesh in first_meshes(part) for device in mesh.devices))
    for before, after in pairwise(order):
        if before > after:
            yield f"device {after} comes after device {before}"
            return


def servers(part: PlanPart) -> Iterator[str]:
    """Yield parameters that are not reduced by an all-reduce."""
    if found := [sync for sync in part.strategy.sync if sync.method != "all_reduce"]:
        yield listed(name for sync in found for name in sync.parameters)


def update_rules(part: PlanPart) -> Iterator[str]:
    """Yield update rules other than the plain one."""
    for choice in part.strategy.updates:
        if choice.rule != PLAIN.rule:
            yield f"{choice.rule} of {listed(choice.parameters)}"


def compression(part: PlanPart) -> Iterator[str]:
    """Yield boundaries with a codec."""
    if codecs := [f"{item.source} -> {item.target}: {item.codec}" for item in part.strategy.boundaries]:
        yield listed(codecs)
