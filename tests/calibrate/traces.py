"""Traces written by hand, in the form in which torch.profiler exports them."""

from __future__ import annotations

from typing import Any

MODEL = "NVIDIA A100-SXM4-80GB"


def trace(*events: dict[str, Any], device: str | None = MODEL) -> dict[str, Any]:
    """A Kineto file."""
    listed = [{"id": 0, "name": device}] if device else []
    return {"schemaVersion": 1, "deviceProperties": listed, "traceEvents": list(events)}


def span(name: str, category: str, start: float, duration: float, **args: Any) -> dict[str, Any]:
    """A complete event, in microseconds."""
    place = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7}
    return place | {"ts": start, "dur": duration, "args": args}


def call(
    number: int, name: str, dims: list[list[int]], kernel_us: float, *, dtype: str = "c10::BFloat16"
) -> list[dict[str, Any]]:
    """An operator with one kernel."""
    args = {"External id": number, "Input Dims": dims, "Input type": [dtype] * len(dims)}
    begin = 100.0 * number
    return [
        span(name, "cpu_op", begin, 9.0, **args),
        span(f"kernel of {name}", "kernel", begin + 20, kernel_us, **{"External id": number, "stream": 7}),
    ]


def collective(op: str, kernel_us: float, size: int, elements: int) -> dict[str, Any]:
    return span(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", "kernel", 0.0, kernel_us,
        **{"Collective name": op, "In msg nelems": elements, "Out msg nelems": elements * size,
           "Group size": size, "dtype": "BFloat16", "Process Group Ranks": str(list(range(size)))},
    )  # fmt: skip
