"""The sample's timeline, memory over time and traffic."""

from __future__ import annotations

from typing import Any

from sample_board import board_view
from sample_model import BYTES, CAPACITY, GIB, MICROBATCHES, TRANSFER_S

from widgets.heatmap import pack as pack_cells
from widgets.timeline import KINDS, pack


def schedule(
    stages: int = 4,
    microbatches: int = MICROBATCHES,
    forward_s: list[float] | None = None,
    backward_s: list[float] | None = None,
    split: bool = False,
) -> tuple[list[tuple[float, ...]], float]:
    """1F1B by program order and dependencies: rows for `timeline.pack`, and the end."""
    view = board_view()
    forward_s = forward_s or [item["forward_s"] for item in view["lanes"]]
    backward_s = backward_s or [item["backward_s"] for item in view["lanes"]]
    done: dict[tuple[str, int, int], float] = {}
    rows: list[tuple[float, ...]] = []
    orders = []
    for s in range(stages):
        warm = min(microbatches, stages - 1 - s)
        order = [("F", i) for i in range(warm)]
        for i in range(warm, microbatches):
            order += [("F", i), ("B", i - warm)]
        orders.append(order + [("B", i) for i in range(microbatches - warm, microbatches)])
    free, at = [0.0] * stages, [0] * stages
    while any(at[s] < len(orders[s]) for s in range(stages)):
        for s in range(stages):
            while at[s] < len(orders[s]):
                op, i = orders[s][at[s]]
                source = (op, s - 1, i) if op == "F" else (op, s + 1, i)
                first = (op == "F" and s == 0) or (op == "B" and s == stages - 1)
                if not first and source not in done:
                    break
                ready = (
                    done.get(("F", s, i), 0.0)
                    if first and op == "B"
                    else 0.0
                    if first
                    else done[source] + TRANSFER_S
                )
                begin = max(free[s], ready)
                end = begin + (forward_s[s] if op == "F" else backward_s[s])
                if split and op == "B":
                    half = (begin + end) / 2
                    rows += [
                        (begin, half, s, KINDS["I"], s, 0, i, 1, -1, 0),
                        (half, end, s, KINDS["W"], s, 0, i, 1, -1, 0),
                    ]
                else:
                    rows.append((begin, end, s, KINDS[op], s, 0, i, 1, -1, 0))
                peer = s + 1 if op == "F" else s - 1
                if 0 <= peer < stages:
                    rows.append((end, end + TRANSFER_S, s, KINDS["transfer"], s, 0, i, 1, peer, BYTES))
                done[(op, s, i)] = free[s] = end
                at[s] += 1
    for s in range(stages):
        rows += [
            (free[s], free[s] + 0.021, s, KINDS["reduce"], s, 0, -1, 0, s, 4.6 * GIB),
            (free[s] + 0.021, free[s] + 0.045, s, KINDS["U"], s, 0, -1, 0, -1, 0),
        ]
    return rows, max(row[1] for row in rows)


def timeline(
    name: str = "A", text: str = "current, 1F1B", split: bool = False, scale: float = 1.0
) -> tuple[bytes, dict[str, Any]]:
    """Timeline.bars and view."""
    view = board_view()
    rows, end = schedule(
        split=split,
        forward_s=[item["forward_s"] * scale for item in view["lanes"]],
        backward_s=[item["backward_s"] * scale for item in view["lanes"]],
    )
    busy = [
        sum(row[1] - row[0] for row in rows if row[2] == s and row[3] <= KINDS["W"]) / end for s in range(4)
    ]
    lanes = [
        {"id": str(s), "name": f"stage {s}", "busy_fraction": busy[s], "devices": [2 * s, 2 * s + 1]}
        for s in range(4)
    ]
    return pack(rows), {"name": name, "text": text, "end_s": end, "lanes": lanes, "omitted": None}


def memory(columns: int = 160) -> tuple[bytes, dict[str, Any]]:
    """Heatmap.cells and view: memory by device and time."""
    view = board_view()
    rows, end = schedule()
    cells: list[list[float | None]] = []
    for item in view["lanes"]:
        stage = int(item["id"])
        fixed = sum(value for key, value in item["memory"].items() if key != "activation_bytes")
        per = item["memory"]["activation_bytes"] / item["in_flight"]
        acts = [row for row in rows if row[2] == stage and row[3] in (KINDS["F"], KINDS["B"])]
        line: list[float | None] = []
        for c in range(columns):
            t = (c + 0.5) / columns * end
            line.append(
                fixed
                + per * sum((row[0] <= t) - 0 if row[3] == KINDS["F"] else -(row[1] <= t) for row in acts)
            )
        cells += [line, list(line)]
    values = [(value or 0.0, -r, c) for r, line in enumerate(cells) for c, value in enumerate(line)]
    peak = max(values)
    names = [{"name": f"gpu {d}", "lane": str(d // 2)} for d in range(8)]
    return pack_cells(cells), {
        "kind": "memory",
        "title": "Memory, device by time",
        "rows": names,
        "columns": columns,
        "start_s": 0.0,
        "end_s": end,
        "capacity_bytes": CAPACITY,
        "peak": {"row": -peak[1], "time_s": (peak[2] + 0.5) / columns * end, "bytes": peak[0]},
    }


def traffic() -> dict[str, Any]:
    """Heatmap.view: traffic from device to device."""
    view = board_view()
    pairs: list[list[float]] = []
    for item in view["lanes"]:
        a, b = item["replicas"][0][0], item["replicas"][1][0]
        pairs += [[a, b, item["replica_link"]["step_bytes"]], [b, a, item["replica_link"]["step_bytes"]]]
    for device in range(6):
        pairs += [
            [device, device + 2, float(BYTES * MICROBATCHES)],
            [device + 2, device, float(BYTES * MICROBATCHES)],
        ]
    return {
        "kind": "traffic",
        "title": "Sent in one step, from row to column",
        "rows": [{"name": f"gpu {d}", "lane": str(d // 2)} for d in range(8)],
        "pairs": pairs,
    }
