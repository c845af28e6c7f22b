"""Sums over a stretch of the step: what every lane computes, waits and sends between two times.

They come from the tasks that the timeline draws and the seconds and bytes that the report adds up, so that
the whole step gives the report's own totals. Of a task that a border cuts the share of its time inside
counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.base.errors import InputError
from explorer.passes.timing import FloatArray
from explorer.pricing.traffic import slot_traffic
from explorer.simulation.report import Report
from explorer.tasks.placement import IntArray
from explorer.tasks.program import GATHER, JOIN, REDUCE, TRANSFER, Program
from explorer.views.link_map import shown_steps
from explorer.views.scene import Scene
from explorer.views.timeline import lane_names, recompute_share

BUSY = ("forward", "backward", "input gradient", "weight gradient", "update", "recompute")
"""Sorts of compute, in the order of the codes of tasks; `recompute` is the front part of a backward."""
MOVED = ("transfers", "gradient reduction", "gathers", "inside layers")
"""Sorts of traffic between devices; the last are collectives that a task of compute contains."""
_AGAIN, _INSIDE = BUSY.index("recompute"), MOVED.index("inside layers")
_FLOAT32 = 1e-6
"""Share by which a time may be off that the page read from a bar."""
_MOVED_BY = {TRANSFER: 0, REDUCE: 1, GATHER: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaSums:
    """Sums of one stretch of time, by lane of the report."""

    length_s: float
    """Seconds of the stretch."""
    busy_s: FloatArray
    """Seconds that one device of each lane computes, shape (lanes, `BUSY`)."""
    inside_s: FloatArray
    """Seconds of each lane in collectives that its compute contains."""
    bytes: FloatArray
    """Bytes that all devices of each lane send, shape (lanes + 1, `MOVED`); last those of devices outside
    the lanes (parameter servers).
    """
    devices: FloatArray
    """Number of devices that each lane stands for."""

    @property
    def bubble_s(self) -> FloatArray:
        """Seconds of each lane in which a device computes nothing, as the report's bubble counts them."""
        left: FloatArray = self.length_s - self.busy_s.sum(axis=1)
        return left


def area_sums(report: Report, from_s: float, to_s: float) -> AreaSums:
    """Return the sums between two times, of the steps that the timeline shows.

    Raises:
        InputError: the end is not behind the beginning.
    """
    if not from_s < to_s:
        raise InputError(
            f"an area from {from_s:g} s to {to_s:g} s", key="area", found=to_s,
            allowed=f"an end behind {from_s:g} s",
        )  # fmt: skip
    line = report.timeline
    program, prices = line.program, line.prices
    part = recompute_share(report)[program.slot]
    start, end = line.timing.start_s, line.timing.end_s
    border = start + part * (end - start)
    again = _share_inside(start, border, from_s, to_s) * part
    rest = _share_inside(border, end, from_s, to_s) * (1.0 - part)
    comm = prices.comm_s[program.slot]
    seconds = prices.seconds[program.slot] - comm
    busy = np.zeros((len(program.programs), len(BUSY)))
    inside = np.zeros(len(program.programs))
    steps = shown_steps(report)
    for lane, tasks in enumerate(program.programs):
        own = tasks[program.step[tasks] < steps]
        busy[lane] = np.bincount(program.kind[own], rest[own] * seconds[own], minlength=len(BUSY))
        busy[lane, _AGAIN] += float(again[own] @ seconds[own])
        inside[lane] = float((again + rest)[own] @ comm[own])
    shown = np.flatnonzero((program.step < steps) & (program.kind != JOIN))
    done = np.bincount(program.slot[shown], (again + rest)[shown], minlength=len(program.slots))
    return AreaSums(
        length_s=to_s - from_s,
        busy_s=busy,
        inside_s=inside,
        bytes=_sent(report, done.astype(np.float64)),
        devices=np.array([len(devices) for devices in report.lane_devices], dtype=np.float64),
    )


def _share_inside(start: FloatArray, end: FloatArray, from_s: float, to_s: float) -> FloatArray:
    """Return the share of each stretch that lies between two times; without length, whether it does."""
    length = end - start
    inside = np.maximum(0.0, np.minimum(end, to_s) - np.maximum(start, from_s))
    at_once = ((from_s <= start) & (start <= to_s)).astype(np.float64)
    share: FloatArray = np.divide(inside, length, out=at_once, where=length > 0)
    return share


def _sent(report: Report, times: FloatArray) -> FloatArray:
    """Return the bytes sent by lane and sort of traffic, each slot being done so many times."""
    found = np.zeros((len(report.lane_devices) + 1, len(MOVED)))
    lane, sort, slot, size = report.memo("views.sent by slot", lambda: _sent_by_slot(report))
    np.add.at(found, (lane, sort), times[slot] * size)
    return found


def _sent_by_slot(report: Report) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return (lane, sort, slot, bytes) of all that one task of every slot sends, added up by lane."""
    program: Program = report.timeline.program
    outside = len(report.lane_devices)
    lane_of = {device: lane for lane, devices in enumerate(report.lane_devices) for device in devices}
    added: dict[tuple[int, int], float] = {}
    for number, (sender, _, size) in slot_traffic(program, report.timeline.prices):
        key = lane_of.get(sender, outside), number
        added[key] = added.get(key, 0.0) + size
    slot = np.array([number for _, number in added], dtype=np.int64)
    sort = np.array([_MOVED_BY.get(item.kind, _INSIDE) for item in program.slots], dtype=np.int64)
    lane = np.array([lane for lane, _ in added], dtype=np.int64)
    return lane, sort[slot], slot, np.array(list(added.values()), dtype=np.float64)


def area_view(scene: Scene, from_s: float, to_s: float, *, name: str = "") -> dict[str, Any]:
    """Return the sums of one plan for `Timeline.area`; sorts that never occur in the plan are left out.

    What lies behind the plan's own end is no part of it, which a plan that is drawn below a longer one needs.
    The page knows that end as a float32 only: what is as near as that is the end itself.

    Raises:
        InputError: the end is not behind the beginning.
    """
    report = scene.report
    end = _end_s(report)
    whole = report.memo("views.whole area", lambda: area_sums(report, 0.0, end))
    until = end if to_s >= end * (1 - _FLOAT32) else to_s
    over = from_s >= until and from_s < to_s
    sums = (
        replace(area_sums(report, end, end + 1.0), length_s=0.0) if over else area_sums(report, from_s, until)
    )
    busy, moved = (np.flatnonzero(table.sum(axis=0) > 0).tolist() for table in (whole.busy_s, whole.bytes))
    rows = [
        _row(label, sums.busy_s[i, busy], sums.inside_s[i], sums.bubble_s[i], sums.bytes[i, moved])
        | {"count": int(sums.devices[i])}
        for i, (_, label) in enumerate(lane_names(scene))
    ]
    devices = sums.devices
    return {
        "name": name,
        "length_s": sums.length_s,
        "busy": [BUSY[k] for k in busy],
        "moved": [MOVED[k] for k in moved],
        "lanes": rows,
        "all": _row(
            "all devices", (devices @ sums.busy_s)[busy], float(devices @ sums.inside_s),
            float(devices @ sums.bubble_s), sums.bytes.sum(axis=0)[moved],
        ) | {"count": int(devices.sum())},
    }  # fmt: skip


def _end_s(report: Report) -> float:
    """Return the end of the last task that is drawn."""
    program, timing = report.timeline.program, report.timeline.timing
    shown = (program.step < shown_steps(report)) & (program.lane >= 0)
    return float(timing.end_s[shown].max(initial=0.0)) or 1.0


def _row(name: str, busy: FloatArray, inside: float, bubble: float, sent: FloatArray) -> dict[str, Any]:
    return {
        "name": name,
        "busy_s": busy.tolist(),
        "computing_s": float(busy.sum()),
        "inside_s": float(inside),
        "bubble_s": float(bubble),
        "bytes": sent.tolist(),
    }
