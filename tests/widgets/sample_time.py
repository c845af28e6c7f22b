"""The sample's timeline with its critical path, memory by time and part, traffic by pair and link."""

from __future__ import annotations

from itertools import pairwise
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
    lanes = [{"id": str(s), "name": f"stage {s}", "busy_fraction": busy[s]} for s in range(4)]
    view = {"name": name, "text": text, "end_s": end, "lanes": lanes, "omitted": None}
    return pack(rows), {**view, "critical": critical(rows)}


def critical(rows: list[tuple[float, ...]]) -> dict[str, Any]:
    """`TimelineView.critical`: back from the last end, each time to a bar that ended as this one began."""
    chain = [max(range(len(rows)), key=lambda i: rows[i][1])]
    while rows[chain[-1]][0] > 1e-9:
        start, lane = rows[chain[-1]][0], rows[chain[-1]][2]
        before = [i for i, row in enumerate(rows) if abs(row[1] - start) < 1e-9 and row[1] > row[0]]
        chain.append(max(before, key=lambda i: (rows[i][2] == lane, rows[i][8] == lane)))
    chain.reverse()
    wire = sum(rows[i][1] - rows[i][0] for i in chain if rows[i][3] >= KINDS["transfer"])
    length = rows[chain[-1]][1]
    reasons = ["start"] + ["lane" if rows[a][2] == rows[b][2] else "data" for a, b in pairwise(chain)]
    parts = [{"name": "compute", "seconds": length - wire}, {"name": "transfer", "seconds": wire}]
    return {"bars": chain, "reasons": reasons, "length_s": length, "parts": parts}


def links(columns: int = 120) -> tuple[bytes, dict[str, Any]]:
    """Timeline.link_cells and links: the port of every stage's first device, out and in."""
    rows, end = schedule()
    width = end / columns
    cells = [[0.0] * columns for _ in range(8)]
    for start, stop, lane, kind, *_, peer, _size in rows:
        if kind != KINDS["transfer"]:
            continue
        for row in (2 * int(lane), 2 * int(peer) + 1):
            for c in range(int(start / width), min(columns - 1, int(stop / width)) + 1):
                cells[row][c] += max(0.0, min(stop, (c + 1) * width) - max(start, c * width)) / width
    made = [
        {
            "name": f"gpu {2 * s} → nvswitch" if way == 0 else f"nvswitch → gpu {2 * s}",
            "kind": "nvswitch",
            "lane": str(s),
            "count": 1,
            "bytes_per_s": BYTES / TRANSFER_S,
            "step_bytes": sum(cells[2 * s + way]) * width * BYTES / TRANSFER_S,
            "share": sum(cells[2 * s + way]) / columns,
        }
        for s in range(4)
        for way in (0, 1)
    ]
    return pack_cells(cells), {"rows": made, "columns": columns, "start_s": 0.0, "end_s": end}


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
        "parts": {
            "names": [key.removesuffix("_bytes") for key in view["lanes"][0]["memory"]],
            "bytes": [list(view["lanes"][d // 2]["memory"].values()) for d in range(8)],
            "capacity_bytes": [float(CAPACITY)] * 8,
        },
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
        "title": "Communication, row to column, one step",
        "rows": [{"name": f"gpu {d}", "lane": str(d // 2)} for d in range(8)],
        "pairs": pairs,
    }
