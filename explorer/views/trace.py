"""Chrome traces of a report, for Perfetto and chrome://tracing.

Events on one thread may not overlap, so every wire and process group of a lane is a thread of its own.
"""

from __future__ import annotations

from typing import Any

from explorer.simulation.report import Report
from explorer.tasks.program import GATHER, JOIN, KINDS, TRANSFER, Program, U

_COMPUTE = 0


def chrome_trace(report: Report) -> dict[str, Any]:
    """Return trace events of all simulated steps, times in microseconds; one process per lane."""
    program, timing, prices = report.timeline.program, report.timeline.timing, report.timeline.prices
    events: list[dict[str, Any]] = []
    for lane, devices in enumerate(report.lane_devices):
        shown = ", ".join(map(str, devices[:8])) + (", …" if len(devices) > 8 else "")
        events.append(_meta("process_name", lane, 0, f"lane {lane}: devices {shown}"))
        events.append({"name": "process_sort_index", "ph": "M", "pid": lane, "args": {"sort_index": lane}})
        events.append(_meta("thread_name", lane, _COMPUTE, "compute"))
    threads: dict[tuple[int, int], int] = {}
    start, end = (timing.start_s * 1e6).tolist(), (timing.end_s * 1e6).tolist()
    sizes = prices.bytes.tolist()
    columns = zip(
        program.kind.tolist(), program.slot.tolist(), program.lane.tolist(), program.action.tolist(),
        program.microbatch.tolist(), program.step.tolist(), program.channel.tolist(), program.peer.tolist(),
        strict=True,
    )  # fmt: skip
    for task, (kind, slot, lane, action, microbatch, step, channel, peer) in enumerate(columns):
        if kind == JOIN or lane < 0:
            continue
        wire = kind >= TRANSFER
        arguments: dict[str, Any] = {"step": step}
        if microbatch >= 0 and kind != U:
            arguments["microbatch"] = microbatch
        if wire:
            arguments["bytes"] = sizes[slot]
        for other in program.other_lanes.get(task, (lane,)):
            thread = _COMPUTE
            if wire:
                if (other, channel) not in threads:
                    threads[other, channel] = 1 + len(threads)
                    name = _thread_name(kind, peer)
                    events.append(_meta("thread_name", other, threads[other, channel], name))
                thread = threads[other, channel]
            events.append(
                {
                    "name": str(program.actions[action]) if action >= 0 else _wire_name(program, slot),
                    "cat": KINDS[kind],
                    "ph": "X",
                    "pid": other,
                    "tid": thread,
                    "ts": start[task],
                    "dur": max(0.0, end[task] - start[task]),
                    "args": arguments,
                }
            )
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _meta(name: str, pid: int, tid: int, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "args": {"name": value}}


def _thread_name(kind: int, peer: int) -> str:
    if kind == TRANSFER:
        return f"to lane {peer}"
    return "weight gather" if kind == GATHER else "gradient reduction"


def _wire_name(program: Program, number: int) -> str:
    slot = program.slots[number]
    if slot.kind != TRANSFER:
        return KINDS[slot.kind]
    target = program.skeleton.sections[slot.peer.section].stage
    return f"{'gradient' if slot.backward else 'activation'} to stage {target}"
