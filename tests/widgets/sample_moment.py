"""What Python says of the sample's cursor and of an area."""

from __future__ import annotations

from typing import Any

from sample_board import board_view
from sample_model import BYTES, CAPACITY, GIB
from sample_time import schedule

from widgets.timeline import KINDS


def moment(time_s: float, lane: int, plan: int = 0) -> dict[str, Any]:
    """`Timeline.moment`: the parts of the lane's peak, and a few tensors."""
    memory = board_view()["lanes"][lane]["memory"]
    names = {
        "other": "reserved", "weight": "weights", "gradient": "gradients", "activation": "activations",
        "buffer": "buffers",
    }  # fmt: skip
    parts = [
        {"name": names.get(key.removesuffix("_bytes"), key.removesuffix("_bytes")), "bytes": float(size)}
        for key, size in memory.items()
    ]
    tensors = [
        {"name": name, "part": part, "count": count, "bytes": size * GIB}
        for name, part, count, size in (
            ("mlp.up.weight", "optimizer", 8, 5.3),
            ("mlp.gate.weight", "optimizer", 8, 5.3),
            ("mlp.silu_mul", "activations", 32, 3.5),
            ("mlp.up", "activations", 32, 3.5),
            ("attention.rope.q", "activations", 32, 1.0),
            ("buffers", "buffers", 1, 0.9),
        )
    ]
    return {
        "plan": plan, "lane": lane, "name": f"stage {lane}", "time_s": time_s,
        "capacity_bytes": float(CAPACITY),
        "parts": parts, "tensors": tensors, "rest": {"count": 41, "bytes": 2.25 * GIB},
    }  # fmt: skip


def area(from_s: float, to_s: float, name: str = "A") -> dict[str, Any]:
    """One plan of `Timeline.area`, from the bars of the sample."""
    rows, _ = schedule()
    kinds = {KINDS["F"]: 0, KINDS["B"]: 1, KINDS["U"]: 2}
    moved = {KINDS["transfer"]: 0, KINDS["reduce"]: 1}
    lanes = []
    for lane in range(4):
        busy, sent = [0.0] * 3, [0.0] * 2
        for start, end, own, kind, *_, size in rows:
            share = max(0.0, min(end, to_s) - max(start, from_s)) / (end - start) if own == lane else 0.0
            if kind in kinds:
                busy[kinds[int(kind)]] += share * (end - start)
            else:
                sent[moved[int(kind)]] += 2 * share * (size or BYTES)
        lanes.append(_row(f"stage {lane}", 2, busy, to_s - from_s, sent))
    added = [sum(2 * row["busy_s"][k] for row in lanes) for k in range(3)]
    everything = _row(
        "all devices",
        8,
        added,
        8 * (to_s - from_s),
        [sum(row["bytes"][k] for row in lanes) for k in range(2)],
    )
    return {
        "name": name, "length_s": to_s - from_s,
        "busy": ["forward", "backward", "update"], "moved": ["transfers", "gradient reduction"],
        "lanes": lanes, "all": everything,
    }  # fmt: skip


def _row(name: str, count: int, busy: list[float], length_s: float, sent: list[float]) -> dict[str, Any]:
    computing = sum(busy)
    return {
        "name": name, "count": count, "busy_s": busy, "computing_s": computing, "inside_s": 0.02 * length_s,
        "bubble_s": length_s - computing, "bytes": sent,
    }  # fmt: skip
