"""A report as a Chrome trace: opens in Perfetto and chrome://tracing."""

from __future__ import annotations

from typing import Any

from explorer.report import Report
from explorer.tasks.program import JOIN, KINDS, TRANSFER, Program, U

_COMPUTE, _SENDS = 0, 1


def chrome_trace(report: Report) -> dict[str, Any]:
    """Trace events of all simulated steps, times in microseconds; one process per lane."""
    program, timing, prices = report.timeline.program, report.timeline.timing, report.timeline.prices
    events: list[dict[str, Any]] = []
    for lane, devices in enumerate(report.lane_devices):
        shown = ", ".join(map(str, devices[:8])) + (", …" if len(devices) > 8 else "")
        events.append(_meta("process_name", lane, 0, f"lane {lane}: devices {shown}"))
        events.append({"name": "process_sort_index", "ph": "M", "pid": lane, "args": {"sort_index": lane}})
        events += [
            _meta("thread_name", lane, _COMPUTE, "compute"),
            _meta("thread_name", lane, _SENDS, "sends"),
        ]
    start, end = (timing.start_s * 1e6).tolist(), (timing.end_s * 1e6).tolist()
    sizes = prices.bytes.tolist()
    columns = zip(
        program.kind.tolist(), program.slot.tolist(), program.lane.tolist(), program.action.tolist(),
        program.microbatch.tolist(), program.step.tolist(), strict=True,
    )  # fmt: skip
    for task, (kind, slot, lane, action, microbatch, step) in enumerate(columns):
        if kind == JOIN or lane < 0:
            continue
        wire = kind >= TRANSFER
        arguments: dict[str, Any] = {"step": step}
        if microbatch >= 0 and kind != U:
            arguments["microbatch"] = microbatch
        if wire:
            arguments["bytes"] = sizes[slot]
        for other in program.other_lanes.get(task, (lane,)):
            events.append(
                {
                    "name": str(program.actions[action]) if action >= 0 else _wire_name(program, slot),
                    "cat": KINDS[kind],
                    "ph": "X",
                    "pid": other,
                    "tid": _SENDS if wire else _COMPUTE,
                    "ts": start[task],
                    "dur": max(0.0, end[task] - start[task]),
                    "args": arguments,
                }
            )
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _meta(name: str, pid: int, tid: int, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": {"name": value}}


def _wire_name(program: Program, number: int) -> str:
    slot = program.slots[number]
    if slot.kind != TRANSFER:
        return KINDS[slot.kind]
    target = program.skeleton.sections[slot.peer.section].stage
    return f"{'gradient' if slot.backward else 'activation'} to stage {target}"
