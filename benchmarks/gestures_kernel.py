"""What the gesture benchmarks run in the kernel: clocks around its answers, a timeline of many bars."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from widgets import Explorer, Timeline
from widgets.timeline import KINDS, pack

ANSWERS: list[dict[str, float]] = []
"""Of every message that the watched widgets received: when its answer began and ended, and its CPU time."""


def watch(explorer: Explorer) -> None:
    """Note when messages of the board and the bar are answered: from the comm's callback to its return.

    What the callback returns after has been serialised and handed to the thread that sends.
    """
    for widget in (explorer.board, explorer.controls):
        widget.comm._msg_callback = _timed(widget.comm._msg_callback)


def _timed(callback: Any) -> Any:
    def answer(message: dict[str, Any]) -> None:
        begun, cpu = time.time(), time.thread_time()
        callback(message)
        if message["content"]["data"].get("method") == "custom":
            ANSWERS.append(
                {"begin_s": begun, "end_s": time.time(), "cpu_s": time.thread_time() - cpu, **_asked(message)}
            )

    return answer


def _asked(message: dict[str, Any]) -> dict[str, float]:
    content = message["content"]["data"].get("content") or {}
    return {"seq": float(content.get("seq", -1))}


def gauge_ms() -> tuple[float, float]:
    """An empty loop of a million rounds, on the clock and in CPU time: the yardstick."""
    begun, cpu = time.perf_counter(), time.thread_time()
    for _ in range(1_000_000):
        pass
    return (time.perf_counter() - begun) * 1e3, (time.thread_time() - cpu) * 1e3


def resident_bytes() -> int:
    """Memory of the kernel, after collecting what is garbage and giving back what the allocator holds empty.

    What a large state needed for a moment stays with the allocator otherwise; it is used again.
    """
    import ctypes
    import gc

    import psutil

    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # not the C library of GNU
        ctypes.CDLL(None).malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


def many_bars(stages: int = 64, microbatches: int = 512) -> Timeline:
    """A timeline of stages x microbatches x (F, I, W) bars of unequal length, bubbles between them."""
    rows = []
    for stage in range(stages):
        at = float(stage)
        for number in range(microbatches):
            for kind, seconds in (("F", 1.0), ("I", 0.9 + 0.1 * (number % 3)), ("W", 0.8)):
                rows.append((at, at + seconds, stage, KINDS[kind], stage, 0, number, 1, -1, 0))
                at += seconds + (0.2 if number % 7 == stage % 7 else 0.0)
    end = max(row[1] for row in rows)
    lanes = [
        {"id": str(stage), "name": f"Stage {stage}", "busy_fraction": 0.9, "devices": [stage]}
        for stage in range(stages)
    ]
    view = {"name": "A", "text": "many bars", "end_s": end, "lanes": lanes, "omitted": None}
    return Timeline(view=view, bars=pack(rows))
