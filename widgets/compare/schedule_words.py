"""Difference between the schedules of two plans in words, read from what was simulated."""

from __future__ import annotations

from explorer.actions import INPUT_GRAD, WEIGHT_GRAD
from explorer.base.units import format_bytes, format_seconds
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from widgets.panels import percent
from widgets.session import Point

_SAME = 5e-4
"""Shares by which two figures may differ and count as the same."""
_ACTIVATIONS = MEMORY_PARTS.index("activations")


def schedule_difference(a: Point, b: Point) -> list[str]:
    """List what the schedule of A does otherwise than that of B; [] if they are the same."""
    one, other = a.strategy.job, b.strategy.job
    if (one.schedule, one.options) == (other.schedule, other.options):
        return []
    names = (one.schedule, other.schedule) if one.schedule != other.schedule else ("A", "B")
    return [
        _step(a.report, b.report, names),
        _bubble(a.report, b.report, names),
        *order_difference(a, b, names),
    ]


def order_difference(a: Point, b: Point, names: tuple[str, str] = ("A", "B")) -> list[str]:
    """List what two schedules keep, and where their orders part."""
    return [
        _activations(a, b, names),
        *_versions(a.report, b.report, names),
        *_order(a.report, b.report, names),
    ]


def _step(a: Report, b: Report, names: tuple[str, str]) -> str:
    change = a.step_time_s / b.step_time_s - 1
    if abs(change) < _SAME:
        return f"A step takes {format_seconds(a.step_time_s)} with both."
    how = "longer" if change > 0 else "shorter"
    return (
        f"A step takes {format_seconds(a.step_time_s)} with {names[0]}, {format_seconds(b.step_time_s)} with"
        f" {names[1]}: {percent(abs(change), sign=False)} {how}."
    )


def _bubble(a: Report, b: Report, names: tuple[str, str]) -> str:
    one, other = (percent(report.bubble_fraction, sign=False) for report in (a, b))
    if one == other:
        return f"Devices are idle for {one} of the step with both."
    return f"Devices are idle for {one} of the step with {names[0]}, for {other} with {names[1]}."


def _activations(a: Point, b: Point, names: tuple[str, str]) -> str:
    (one, where), (other, there) = _fullest(a), _fullest(b)
    if abs(one - other) <= _SAME * max(one, other):
        return f"The fullest device keeps {format_bytes(one)} of activations with both."
    return (
        f"Most activations: {format_bytes(one)} on {where} with {names[0]}, {format_bytes(other)} on {there}"
        f" with {names[1]}."
    )


def _fullest(point: Point) -> tuple[float, str]:
    """Return the most bytes of activations on a device, and the device."""
    report = point.report
    most = [parts[_ACTIVATIONS] for parts in report.memory_parts_bytes]
    lane = most.index(max(most))
    return most[lane], f"gpu {report.lane_devices[lane][0]}"


def _versions(a: Report, b: Report, names: tuple[str, str]) -> list[str]:
    one, other = max(a.versions), max(b.versions)
    if one == other:
        return []
    return [f"A stage keeps up to {one} versions of its weights with {names[0]}, {other} with {names[1]}."]


def _order(a: Report, b: Report, names: tuple[str, str]) -> list[str]:
    """Say where the orders part, and whether one of them splits its backwards."""
    orders = [report.timeline.program.order for report in (a, b)]
    said = []
    split = [any(x.op in (INPUT_GRAD, WEIGHT_GRAD) for x in order.lanes[-1]) for order in orders]
    if split[0] != split[1]:
        said.append(
            f"{names[0] if split[0] else names[1]} splits each backward pass into input and weight gradients."
        )
    if len(orders[0].lanes) != len(orders[1].lanes):
        return said
    for lane, (one, other) in enumerate(zip(orders[0].lanes, orders[1].lanes, strict=True)):
        parted = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), None)
        if parted is not None:
            where = f"gpu {a.lanes[lane][0]}"
            after = f"after {one[parted - 1]}" if parted else "first"
            said.append(
                f"On {where} they differ {after}: {names[0]} runs {one[parted]}, {names[1]} {other[parted]}."
            )
            break
    return said
